#!/usr/bin/env python3
"""Bad graphs through the program: exit status 1 (never a signal), a message that names the file, node or value and the rule, no file left behind,
within bounds of time and memory. Bad data, options and files: test_bad_input.py; damaged files: test_damaged_files.py.
SPDX-License-Identifier: MIT
"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
from cli_checks import *  # noqa: E402,F403

import make_onnx_seeds as wire  # noqa: E402


class Graphs(Refusals):
    def test_cycles(self):
        net = Net()
        net.input("x", [4])
        net.op("Add", ["x", "c"], "a")
        net.op("Relu", ["a"], "c")
        net.output("c")
        self.refused_model(net, "bad.onnx", "a_node", "c_node", "cycle")

    def test_values_that_nothing_makes(self):
        net = Net()
        net.op("Relu", [net.op("Add", [net.input("x", [4]), "nothing"], "a")], "y")
        net.output("y")
        self.refused_model(net, "bad.onnx", '"nothing"', "a_node")
        net = Net()
        net.op("Relu", [net.input("x", [4])], "y")
        net.output("missing")
        self.refused_model(net, "bad.onnx", '"missing"')

    def test_values_made_twice(self):
        net = Net()
        net.op("Relu", [net.input("x", [4])], "y")
        net.op("Neg", ["x"], "y")
        net.output("y")
        self.refused_model(net, "bad.onnx", '"y"')
        net = Net()
        net.op("Relu", [net.input("x", [4])], "x")
        net.output("x")
        self.refused_model(net, "bad.onnx", '"x"')

    def test_absent_attributes(self):
        for op, inputs, attribute in (("Concat", ["x", "x"], "axis"), ("Cast", ["x"], "to"), ("AveragePool", ["x"], "kernel_shape"), ("MaxPool", ["x"], "kernel_shape")):
            net = Net()
            net.input("x", [1, 2, 4, 4])
            net.output(net.op(op, inputs, "y"))
            self.refused_model(net, "bad.onnx", "y_node", attribute)

    def test_attributes_of_another_type_or_range(self):
        for op, attributes, parts in (("LeakyRelu", dict(alpha="much"), ["alpha"]), ("Flatten", dict(axis=9), ["axis", "9"]), ("Transpose", dict(perm=[0, 0, 1, 2]), ["perm"]),
                                      ("MaxPool", dict(kernel_shape=[2, 2], strides=[0, 1]), ["strides"]), ("MaxPool", dict(kernel_shape=[2, -2]), ["kernel size", "-2"]),
                                      ("Softmax", dict(axis=-7), ["axis", "-7"]), ("AveragePool", dict(kernel_shape=[2, 2], pads=[1, 1]), ["pads"])):
            net = Net()
            net.input("x", [1, 2, 4, 4])
            net.output(net.op(op, ["x"], "y", **attributes))
            self.refused_model(net, "bad.onnx", "y_node", *parts)

    def test_unknown_operators_are_listed_with_counts(self):
        net = Net()
        x = net.input("x", [4])
        for op in ("Foo", "Relu", "Bar", "Foo", "Foo", "If"):
            x = net.op(op, [x])
        net.nodes[2].domain = "com.example"
        net.output(x)
        self.refused_model(net, "bad.onnx", "Foo", "3", "Bar", "com.example", "If")

    def test_shapes_that_do_not_fit(self):
        forms = {
            "Add": lambda net: net.op("Add", [net.input("x", [2, 3]), net.const(np.zeros((2, 4), np.float32))], "y"),
            "Conv": lambda net: net.op("Conv", [net.input("x", [1, 3, 8, 8]), net.random(4, 2, 3, 3)], "y"),
            "Conv, bias": lambda net: net.op("Conv", [net.input("x", [1, 3, 8, 8]), net.random(4, 3, 3, 3), net.random(5)], "y"),
            "Conv, window": lambda net: net.op("Conv", [net.input("x", [1, 3, 2, 2]), net.random(4, 3, 3, 3)], "y"),
            "Conv, group": lambda net: net.op("Conv", [net.input("x", [1, 4, 8, 8]), net.random(5, 2, 3, 3)], "y", group=2),
            "MatMul": lambda net: net.op("MatMul", [net.input("x", [2, 3]), net.random(4, 5)], "y"),
            "Gemm": lambda net: net.op("Gemm", [net.input("x", [2, 3]), net.random(3, 5), net.random(4)], "y"),
            "Reshape": lambda net: net.op("Reshape", [net.input("x", [2, 3]), net.const([4, -1], dtype=np.int64)], "y"),
            "Concat": lambda net: net.op("Concat", [net.input("x", [2, 3]), net.const(np.zeros((3, 4), np.float32))], "y", axis=1),
            "BatchNormalization": lambda net: net.op("BatchNormalization", [net.input("x", [1, 3, 2, 2])] + [net.random(4) for _ in range(4)], "y"),
        }
        for what, make in forms.items():
            with self.subTest(what):
                net = Net()
                net.output(make(net))
                self.refused_model(net, "bad.onnx", "y_node")

    def test_types_that_do_not_fit(self):
        net = Net()
        net.output(net.op("Add", [net.input("x", [2]), net.const([1, 2], dtype=np.int32)], "y"))
        self.refused_model(net, "bad.onnx", "y_node", "f32", "i32")

    def test_zero_sized_dims(self):
        net = Net()
        net.output(net.op("Relu", [net.conv(net.input("x", [0, 3, 8, 8]), 4, 3)], "y"))
        self.assertEqual(run_octet(net.save(), {"x": np.zeros((0, 3, 8, 8), np.float32)})["y"].shape, (0, 4, 8, 8))
        net = Net()
        net.output(net.op("ReduceMax", [net.input("x", [2, 0])], "y", axes=[1]))
        self.assertTrue((run_octet(net.save(), {"x": np.zeros((2, 0), np.float32)})["y"] == -np.inf).all())  # as ONNX has it for the empty set
        net = Net()
        net.output(net.op("Conv", [net.input("x", [1, 3, 8, 8]), net.const(np.zeros((0, 3, 3, 3), np.float32))], "y"))
        self.refused("quantize", net.save("bad.onnx"), "-o", self.out / "q.onnx", "--mode", "weight-only", parts=["no elements"])
        net = Net()
        net.output(net.op("MaxPool", [net.input("x", [1, 3, 0, 4])], "y", kernel_shape=[2, 2]))
        self.refused("run", net.save("bad.onnx"), parts=["y_node"])

    def test_sizes_beyond_the_file_or_any_memory(self):
        for dims in ([1 << 40], [1 << 62, 1 << 62], [-4], [1 << 31, 1 << 31, 4]):
            with self.subTest(dims=dims):
                net = Net()
                net.output(net.op("Add", [net.input("x", [1]), "w"], "y"))
                net.constants.append(onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, raw_data=b"\0" * 16))
                self.refused_model(net, "bad.onnx", '"w"')
        net = Net()
        net.output(net.op("Relu", [net.input("x", [1 << 20, 1 << 20, 4])], "y"))
        self.refused("run", net.save("bad.onnx"), parts=["memory"])
        net = Net()
        net.output(net.op("Expand", [net.input("x", [1]), net.const([1 << 31, 1 << 31, 1 << 31], dtype=np.int64)], "y"))
        self.refused("run", net.save("bad.onnx"), parts=['"y"'])
        net = Net()
        net.output(net.op("ConstantOfShape", [net.const([1 << 20, 1 << 20], dtype=np.int64)], "y"))
        net.input("x", [1])
        self.refused("run", net.save("bad.onnx"), parts=["memory"])

    def test_shapes_beyond_any_memory(self):
        """Sizes are refused before anything is computed with them: also in a sample of a batch, and beside a 0."""
        for op, attributes in (("Relu", {}), ("Softmax", dict(axis=1)), ("ReduceMean", dict(axes=[2, 3])), ("AveragePool", dict(kernel_shape=[3, 3])), ("PRelu", {})):
            net = Net()
            x = net.input("x", [None] * 4)
            net.output(net.op(op, [x, net.random(4, 1, 1)] if op == "PRelu" else [x], "y", **attributes))
            model = net.save("huge.onnx")
            for shape in ("9223372036854775807x4x4x4", "4294967296x4x4294967296x4", f"1x4x1x{2 ** 63 - 1}", f"0x4x{2 ** 63 - 1}x{2 ** 63 - 1}"):
                with self.subTest(f"{op} {shape}"):
                    self.refused("bench", model, "--seconds", 0.01, "--shape", f"x={shape}", parts=["too large"])

    def test_deep_nesting_and_floods(self):
        nested = b""
        for _ in range(20000):
            nested = wire.b(6, wire.b(1, wire.b(4, "If"), wire.b(5, wire.b(1, "then_branch"), nested, wire.i(20, 5))))
            if len(nested) > 400000:
                break
        deep = TEMP / "deep.onnx"
        deep.write_bytes(wire.model(wire.b(1, wire.b(1, "x"), wire.b(2, "y"), wire.b(4, "If"), wire.b(5, wire.b(1, "g"), nested, wire.i(20, 5))), wire.X, wire.Y))
        self.refused("run", deep, parts=["deep.onnx"])
        for what, field in (("nodes", b"\x0a\x00"), ("initializers", b"\x2a\x00"), ("value infos", b"\x6a\x00"), ("inputs", b"\x5a\x00")):
            with self.subTest(what):
                flood = TEMP / "flood.onnx"
                flood.write_bytes(wire.model(field * 4000000))
                self.refused("run", flood, parts=["flood.onnx"])  # 8 MB; limited() allows 1 GB
        text = TEMP / "deep.oct"
        text.write_text("octet 1\ninput x f32[4]\ny = relu(" + "(" * 100000 + "x\noutput y\n")
        self.refused("run", text, parts=["deep.oct", "line 3"])

    def test_external_data(self):
        """Case 19: a missing file, a path that leaves the folder, an offset beyond the end."""
        for location, offset, length, parts in (("gone.bin", 0, 16, ["gone.bin"]), ("../secret.bin", 0, 16, ["../secret.bin"]), ("/etc/passwd", 0, 16, ["/etc/passwd"]),
                                                ("some.bin", 60, 16, ["some.bin"]), ("some.bin", 0, 12, ['"w"']), ("some.bin", 1 << 62, 1 << 62, ['"w"'])):
            with self.subTest(location=location, offset=offset):
                (TEMP / "some.bin").write_bytes(bytes(64))
                net = Net()
                net.output(net.op("Add", [net.input("x", [4]), "w"], "y"))
                tensor = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
                for key, value in (("location", location), ("offset", offset), ("length", length)):
                    tensor.external_data.add(key=key, value=str(value))
                net.constants.append(tensor)
                self.refused_model(net, "bad.onnx", *parts)

    def test_text_form(self):
        for text, parts in (("octet 2\n", ["version 2"]), ("", ["bad.oct"]), ("octet 1\ninput x f32[4]\ny = frob(x)\noutput y\n", ["line 3", "frob"]),
                            ("octet 1\ninput x f32[4]\ny = relu(z)\noutput y\n", ["line 3", "z"]), ("octet 1\ninput x f32[4]\nx = relu(x)\noutput x\n", ["line 3", "x"]),
                            ("octet 1\nweights gone.pth\ninput x f32[4]\ny = add(x, w)\noutput y\n", ["gone.pth"]),
                            ("octet 1\ninput x f32[99999999999999999999]\noutput x\n", ["line 2"]), ("octet 1\ninput x f32[4]\ny = leaky_relu(x) alpha=nope\noutput y\n", ["line 3", "nope"]),
                            ("octet 1\ninput x f32[4]\ny = leaky_relu(x) beta=1\noutput y\n", ["line 3", "beta"])):
            with self.subTest(text):
                path = TEMP / "bad.oct"
                path.write_text(text)
                self.refused_model(path, "bad.oct", *parts)


if __name__ == "__main__":
    unittest.main(verbosity=1)
