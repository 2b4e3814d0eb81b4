#!/usr/bin/env python3
"""Faults that users of other tools met with ONNX models, each as a small model: Octet computes and quantizes it like the standard says.
ONNX Runtime without optimizations is the judge of results. Numbers are those of the list of cases.

Reads OCTET_BINARY.
SPDX-License-Identifier: MIT
"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cli_checks import TEMP, TensorProto, helper, np, numpy_helper, onnx, ort, start  # noqa: E402

RNG = np.random.default_rng(11)


def octet(*arguments):
    """Everything that the program says; it must succeed."""
    done = start(*arguments)
    if done.returncode != 0:
        raise AssertionError(f"octet {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def array(*shape):
    return (RNG.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(np.float32)


class Model:
    """A model under construction; inputs x, outputs y, y2, ... as declared."""

    def __init__(self, **inputs):
        self.nodes, self.weights, self.inputs, self.outputs = [], [], inputs, []

    def const(self, name, value):
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(self, kind, inputs, out, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [out], **attributes))
        return out

    def save(self, name, outputs, opset=17):
        kinds = {np.float32: TensorProto.FLOAT, np.int64: TensorProto.INT64}
        graph = helper.make_graph(self.nodes, "case", [helper.make_tensor_value_info(n, kinds[t], s) for n, (t, s) in self.inputs.items()],
                                  [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs], self.weights)
        path = TEMP / (name + ".onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset >= 15 else 4), str(path))
        return path


def judge(path, feeds):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    s = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return [o.name for o in s.get_outputs()], s.run(None, feeds)


def run(path, feeds, names):
    arguments = []
    for name, value in feeds.items():
        np.save(TEMP / f"{name}.npy", value)
        arguments += ["--input", f"{name}={TEMP / (name + '.npy')}"]
    octet("run", path, *arguments, "--output-dir", TEMP / "out")
    return [np.load(TEMP / "out" / f"{n}.npy") for n in names]


def agree(path, feeds, absolute=1e-5):
    names, want = judge(path, feeds)
    got = run(path, feeds, names)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=absolute, err_msg=str(path))
    return want


def quantize(path, calibration, *more):
    out = path.with_name(path.stem + "-int8.onnx")
    np.save(TEMP / "calibration.npy", calibration)
    said = octet("quantize", path, "-o", out, "--mode", "int8", "--calibration", TEMP / "calibration.npy", *more)
    model = onnx.load(str(out))
    onnx.checker.check_model(model, full_check=True)
    return out, model, said


def integers(model):
    """Initializers of 8-bit weights (not zero points)."""
    return [i.name for i in model.graph.initializer if i.data_type == TensorProto.INT8 and len(i.dims) > 1]


class Cases(unittest.TestCase):
    def test_06_bias_scales(self):
        x = RNG.uniform(-.1, .1, (2, 3, 6, 6)).astype(np.float32)
        forms = [("matching", np.float32(1e-6), None), ("scalar", np.float32(1e-4), None), ("per channel", np.array([1e-4, 2e-4, 5e-5], np.float32), None),
                 ("zero point", np.float32(1e-4), np.int32(0))]
        for what, bias_scale, zero in forms:
            m = Model(x=(np.float32, [2, 3, 6, 6]))
            s, z = m.const("s", np.float32(.001)), m.const("z", np.int8(0))
            m.const("w", RNG.integers(-127, 128, (3, 3, 3, 3)).astype(np.int8))
            m.const("b", np.array([-5123, 123, 5151], np.int32))
            m.const("bs", bias_scale)
            m.op("DequantizeLinear", [m.op("QuantizeLinear", ["x", s, z], "xq"), s, z], "xd")
            m.op("DequantizeLinear", ["w", s, z], "wd")
            m.op("DequantizeLinear", ["b", "bs"] + ([m.const("bz", zero)] if zero is not None else []), "bd", **({"axis": 0} if bias_scale.ndim else {}))
            with self.subTest(what):
                agree(m.op("Conv", ["xd", "wd", "bd"], "y") and m.save("case6", ["y"]), {"x": x})

    def test_09_clip_bounds(self):
        x = np.linspace(-10, 10, 24, dtype=np.float32).reshape(2, 12)
        forms = {"both": (-1, 6), "no minimum": (None, 6), "no maximum": (-1, None), "neither": (None, None), "crossed": (5, 2)}
        for source in ("initializer", "Constant", "Cast"):
            for what, (low, high) in forms.items():
                m = Model(x=(np.float32, [2, 12]))
                bounds = []
                for name, v in (("low", low), ("high", high)):
                    if v is None:
                        bounds.append("")
                    elif source == "initializer":
                        bounds.append(m.const(name, np.float32(v)))
                    elif source == "Constant":
                        bounds.append(m.op("Constant", [], name, value=numpy_helper.from_array(np.float32(v))))
                    else:
                        bounds.append(m.op("Cast", [m.const(name + "_i", np.int64(v))], name, to=TensorProto.FLOAT))
                while bounds and not bounds[-1]:
                    bounds.pop()
                m.op("Clip", ["x"] + bounds, "y")
                with self.subTest(source=source, what=what):
                    agree(m.save("case9", ["y"]), {"x": x})
        m = Model(x=(np.float32, [2, 12]))
        m.op("Clip", ["x"], "y", min=0.0, max=6.0)
        agree(m.save("case9old", ["y"], opset=9), {"x": x})

    def test_15_same_integers_at_every_opset(self):
        counts = set()
        for opset in (8, 11, 13, 17, 22):
            m, rng = Model(x=(np.float32, ["N", 3, 16, 16])), np.random.default_rng(4)
            for name, shape in (("w1", (8, 3, 3, 3)), ("b1", (8,)), ("w2", (8, 8, 1, 1)), ("w3", (10, 8)), ("b3", (10,))):
                m.const(name, (rng.standard_normal(shape) * .3).astype(np.float32))
            t = m.op("Relu", [m.op("Conv", ["x", "w1", "b1"], "c1", pads=[1] * 4)], "r1")
            t = m.op("MaxPool", [m.op("Conv", [t, "w2"], "c2")], "p1", kernel_shape=[2, 2], strides=[2, 2])
            t = m.op("Flatten", [m.op("GlobalAveragePool", [t], "g1")], "f1")
            m.op("Gemm", [t, "w3", "b3"], "y", transB=1)
            path = m.save(f"case15-{opset}", ["y"], opset)
            agree(path, {"x": rng.uniform(0, 1, (2, 3, 16, 16)).astype(np.float32)})
            _, model, _ = quantize(path, rng.uniform(0, 1, (32, 3, 16, 16)).astype(np.float32))
            kinds = [n.op_type for n in model.graph.node]
            counts.add((len(kinds), kinds.count("QuantizeLinear"), len(integers(model))))
        self.assertEqual(len(counts), 1, counts)
        self.assertEqual(next(iter(counts))[2], 3)

    def test_17_shared_weights(self):
        m = Model(x=(np.float32, [1, 4, 8, 8]))
        m.const("w", array(4, 4, 3, 3))
        m.const("b", array(4))
        m.const("b0", array(4, 4, 1, 1))
        t = m.op("Relu", [m.op("Conv", ["x", "w", "b"], "c1", pads=[1] * 4)], "r1")
        t = m.op("Conv", [t, "b0"], "c2")
        m.op("Conv", [t, "w", "b"], "y", pads=[1] * 4)
        path, x = m.save("case17", ["y"]), RNG.uniform(-1, 1, (1, 4, 8, 8)).astype(np.float32)
        want = agree(path, {"x": x})
        out, model, _ = quantize(path, np.concatenate([x, RNG.uniform(-1, 1, (31, 4, 8, 8)).astype(np.float32)]))
        self.assertEqual(len(integers(model)), 2)
        _, got = judge(out, {"x": x})
        self.assertLess(np.abs(got[0] - want[0]).max(), .1 * np.abs(want[0]).max())
        ours = run(out, {"x": x}, ["y"])
        self.assertLess(np.abs(got[0] - ours[0]).max(), .02 * np.abs(want[0]).max())

    def test_17_tied_embedding(self):
        m = Model(ids=(np.int64, [1, 5]))
        m.const("e", array(20, 8))
        m.op("MatMul", [m.op("Gather", ["e", "ids"], "h"), m.op("Transpose", ["e"], "et", perm=[1, 0])], "y")
        path, ids = m.save("tied", ["y"]), np.array([[1, 4, 0, 19, 7]])
        want = agree(path, {"ids": ids})
        for mode in ("weight-only", "dynamic", "fp16"):
            with self.subTest(mode):
                out = TEMP / f"tied-{mode}.onnx"
                octet("quantize", path, "-o", out, "--mode", mode)
                onnx.checker.check_model(onnx.load(str(out)), full_check=True)
                for got in (judge(out, {"ids": ids})[1], run(out, {"ids": ids}, ["y"])):
                    self.assertLess(np.abs(got[0] - want[0]).max(), .05 * np.abs(want[0]).max())

    def test_18_half_weights(self):
        x = RNG.uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)
        half = array(4, 3, 3, 3).astype(np.float16)
        for what in ("Cast", "Constant", "Identity and Transpose"):
            m = Model(x=(np.float32, [1, 3, 8, 8]))
            if what == "Cast":
                w = m.const("w16", half)
            elif what == "Constant":
                w = m.op("Constant", [], "w16", value=numpy_helper.from_array(half))
            else:
                w = m.op("Transpose", [m.op("Identity", [m.const("w16", half.transpose(1, 0, 2, 3).copy())], "i")], "t", perm=[1, 0, 2, 3])
            m.op("Conv", ["x", m.op("Cast", [w], "w", to=TensorProto.FLOAT)], "y")
            with self.subTest(what):
                path = m.save("case18", ["y"])
                agree(path, {"x": x})
                _, model, _ = quantize(path, np.repeat(x, 16, 0) * RNG.uniform(.5, 1, (16, 1, 1, 1)).astype(np.float32))
                self.assertEqual(len(integers(model)), 1)

    def test_31_pairs_around_movement(self):
        m = Model(x=(np.float32, [1, 4, 6, 6]))
        s, z, t, u = m.const("s", np.float32(.02)), m.const("z", np.uint8(128)), m.const("t", np.float32(.05)), m.const("u", np.uint8(99))
        for name, shape in (("w1", (4, 4, 1, 1)), ("w2", (4, 6, 1, 1))):
            m.const(name + "q", RNG.integers(-127, 128, shape).astype(np.int8))
            m.const(name + "s", np.full(4, .01, np.float32))
            m.op("DequantizeLinear", [name + "q", name + "s"], name, axis=0)
        m.op("DequantizeLinear", [m.op("QuantizeLinear", ["x", s, z], "xq"), s, z], "xd")
        m.op("QuantizeLinear", [m.op("Conv", ["xd", "w1"], "c1"), t, u], "q1")
        m.op("Transpose", ["q1"], "q2", perm=[0, 2, 1, 3])
        m.op("Conv", [m.op("DequantizeLinear", ["q2", t, u], "d2"), "w2"], "c2")
        m.op("DequantizeLinear", [m.op("QuantizeLinear", ["c2", t, u], "q3"), t, u], "y")
        path = m.save("case31", ["y"])
        x = RNG.uniform(-2, 2, (1, 4, 6, 6)).astype(np.float32)
        names, want = judge(path, {"x": x})
        got = run(path, {"x": x}, names)[0]
        self.assertLessEqual(np.abs(got - want[0]).max(), .05 * 1.001)  # one step
        self.assertLess((np.abs(got - want[0]) > 1e-6).mean(), .02)
        agree_again = TEMP / "case31-again.onnx"
        octet("convert", path, agree_again)
        np.testing.assert_array_equal(judge(agree_again, {"x": x})[1][0], want[0])


if __name__ == "__main__":
    unittest.main(verbosity=1)
