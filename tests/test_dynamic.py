#!/usr/bin/env python3
"""Dynamic quantization: results by ONNX's definition in numpy and by ONNX Runtime, independence of batch mates, Octet's own files read back.

SPDX-License-Identifier: MIT
"""
import re
import sys
import unittest

from cli_checks import SOURCE, TEMP, TensorProto, helper, np, numpy_helper, octet, onnx, run_octet, run_ort

MNIST = SOURCE / "examples" / "mnist"
RNG = np.random.default_rng(7)


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def save(name, nodes, initializers, in_shape, out_shape, opset=13):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, in_shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, out_shape)
    graph = helper.make_graph(nodes, name, [x], [y], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    path = TEMP / f"{name}.onnx"
    onnx.save(model, str(path))
    return path


def tail(kind, scale_shape, bias, scale, order):
    """Cast, the two scales in one of their orders, the bias."""
    nodes = [helper.make_node("Cast", ["i"], ["r"], to=TensorProto.FLOAT)]
    if order == 0:
        nodes += [helper.make_node("Mul", ["s", "ws"], ["m"]), helper.make_node("Mul", ["r", "m"], ["t"])]
    elif order == 1:
        nodes += [helper.make_node("Mul", ["s", "r"], ["m"]), helper.make_node("Mul", ["ws", "m"], ["t"])]
    else:
        nodes += [helper.make_node("Mul", ["r", "ws"], ["m"]), helper.make_node("Mul", ["m", "s"], ["t"])]
    constants = [constant("ws", scale.reshape(scale_shape))]
    if bias is not None:
        nodes.append(helper.make_node("Add", ["b", "t"], ["y"]))
        constants.append(constant("b", bias))
    else:
        nodes[-1].output[0] = "y"
    return nodes, constants


def conv_model(name, in_shape, weights, zero_point, scale, bias, order=0, **attributes):
    channels = weights.shape[0]
    broadcast = (channels,) + (1,) * (weights.ndim - 2) if scale.size > 1 else ()
    after, constants = tail("conv", broadcast, None if bias is None else bias.reshape((1, channels) + (1,) * (weights.ndim - 2)), scale, order)
    inputs = ["q", "w", "z"] + (["wz"] if zero_point is not None else [])
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), helper.make_node("ConvInteger", inputs, ["i"], **attributes)]
    constants.append(constant("w", weights))
    if zero_point is not None:
        constants.append(constant("wz", zero_point))
    return save(name, nodes + after, constants, in_shape, None)


def matmul_model(name, in_shape, weights, zero_point, scale, bias, order=0):
    after, constants = tail("matmul", (-1,) if scale.size > 1 else (), bias, scale, order)
    inputs = ["q", "w", "z"] + (["wz"] if zero_point is not None else [])
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), helper.make_node("MatMulInteger", inputs, ["i"])]
    constants.append(constant("w", weights))
    if zero_point is not None:
        constants.append(constant("wz", zero_point))
    return save(name, nodes + after, constants, in_shape, None)


def quantize(x):
    """ONNX's DynamicQuantizeLinear."""
    low, high = np.float32(min(x.min(), 0)), np.float32(max(x.max(), 0))
    scale = np.float32((high - low) / np.float32(255)) if high > low else np.float32(1)
    zero = int(np.clip(np.rint(-low / scale), 0, 255))
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.int64), scale, zero


def kernels(model, feeds):
    """Kernel of each step of a run."""
    for name, array in feeds.items():
        np.save(TEMP / "k.npy", array)
        out = octet("run", model, "--input", f"{name}={TEMP / 'k.npy'}", "--profile")
        return " ".join(line for line in out.splitlines() if re.match(r"\s*\d+ ", line))


RANGES = {
    "both signs": lambda shape: RNG.standard_normal(shape).astype(np.float32),
    "positive": lambda shape: RNG.uniform(0.5, 3, shape).astype(np.float32),
    "negative": lambda shape: RNG.uniform(-7, -2, shape).astype(np.float32),
    "zero": lambda shape: np.zeros(shape, np.float32),
    "one value": lambda shape: np.full(shape, -3.25, np.float32),
    "tiny": lambda shape: (RNG.standard_normal(shape) * 1e-20).astype(np.float32),
}


class WholeTensor(unittest.TestCase):
    """Imported DynamicQuantizeLinear means the range of the whole tensor."""

    def judge(self, path, shape, integer=True):
        for name, make in RANGES.items():
            x = make(shape)
            expected, got = run_ort(path, {"x": x})["y"], run_octet(path, {"x": x})["y"]
            self.assertEqual(expected.shape, got.shape)
            limit = 1e-5 * max(np.abs(expected).max(), 1e-30)
            self.assertLessEqual(np.abs(expected - got).max(), limit, f"{path.name}, {name}")
        if integer:
            used = kernels(path, {"x": RANGES["positive"](shape)})
            self.assertIn("i8", used, path.name)
            self.assertNotIn("reference", used, path.name)

    def test_conv(self):
        for k, (shape, out, more) in enumerate([
                ((1, 3, 9, 11), 5, {"pads": [1, 1, 1, 1]}),
                ((2, 8, 12, 7), 17, {"strides": [2, 1], "pads": [0, 2, 1, 0]}),
                ((3, 16, 5, 5), 16, {"group": 16, "pads": [1, 1, 1, 1]}),
                ((1, 4, 6, 6), 70, {"dilations": [2, 2], "pads": [2, 2, 2, 2]}),
                ((2, 8, 60, 60), 8, {}),
                ((2, 6, 20), 4, {"pads": [1, 1]})]):
            group = more.get("group", 1)
            weights = RNG.integers(-127, 128, (out, shape[1] // group) + (3,) * (len(shape) - 2)).astype(np.int8)
            scale = RNG.uniform(0.001, 0.02, out).astype(np.float32)
            bias = RNG.standard_normal(out).astype(np.float32)
            for order in range(3):
                self.judge(conv_model(f"conv{k}{order}", shape, weights, None, scale if order else scale[:1], bias if order != 1 else None,
                                      order, **more), shape)

    def test_matmul(self):
        for k, shape in enumerate([(1, 32), (7, 33), (2, 5, 64), (3, 2, 4, 16), (130, 400)]):
            weights = RNG.integers(-128, 128, (shape[-1], 19)).astype(np.int8)
            scale = RNG.uniform(0.001, 0.02, 19).astype(np.float32)
            bias = RNG.standard_normal(19).astype(np.float32)
            for order in range(3):
                self.judge(matmul_model(f"matmul{k}{order}", shape, weights, np.zeros(19 if order else (), np.int8), scale if order else scale[:1],
                                        bias if order != 2 else None, order), shape)

    def test_accumulators_equal_the_definition(self):
        """Unit scales and small weights: the float result holds the accumulator exactly."""
        x = RNG.standard_normal((4, 48)).astype(np.float32)
        weights = RNG.integers(-127, 128, (48, 10)).astype(np.int8)
        q, scale, zero = quantize(x)
        accumulator = (q - zero) @ weights.astype(np.int64)
        path = matmul_model("exact", (4, 48), weights, None, np.ones(1, np.float32), None)
        got = run_octet(path, {"x": x})["y"]
        np.testing.assert_array_equal(got, (accumulator.astype(np.float32) * scale).astype(np.float32))

    def test_unsigned_weights(self):
        """Zero point 128 is int8 in disguise; others are right, too, however they are run."""
        weights = RNG.integers(0, 256, (6, 3, 3, 3)).astype(np.uint8)
        scale = np.array([0.01], np.float32)
        self.judge(conv_model("u128", (1, 3, 8, 8), weights, np.uint8(128), scale, None, pads=[1, 1, 1, 1]), (1, 3, 8, 8))
        self.judge(conv_model("u97", (1, 3, 8, 8), weights, np.uint8(97), scale, None, pads=[1, 1, 1, 1]), (1, 3, 8, 8), integer=False)
        near = RNG.integers(20, 200, (24, 5)).astype(np.uint8)
        self.judge(matmul_model("u100", (3, 24), near, np.uint8(100), scale, None), (3, 24))

    def test_one_range_for_several_layers(self):
        wa, wb = (RNG.integers(-127, 128, (32, 8)).astype(np.int8) for _ in range(2))
        nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])]
        for k in "ab":
            nodes += [helper.make_node("MatMulInteger", ["q", f"w{k}", "z"], [f"i{k}"]), helper.make_node("Cast", [f"i{k}"], [f"r{k}"], to=1),
                      helper.make_node("Mul", ["s", "ws"], [f"m{k}"]), helper.make_node("Mul", [f"r{k}", f"m{k}"], [f"y{k}"])]
        nodes.append(helper.make_node("Sub", ["ya", "yb"], ["y"]))
        path = save("shared", nodes, [constant("wa", wa), constant("wb", wb), constant("ws", np.float32(0.01))], (5, 32), None)
        self.judge(path, (5, 32))
        self.assertEqual(kernels(path, {"x": np.ones((5, 32), np.float32)}).count("quantize_rows"), 1)

    def test_other_readers_keep_the_pattern(self):
        """A product that is also a graph output, or whose scale another node reads, gives the same numbers."""
        weights = RNG.integers(-127, 128, (16, 4)).astype(np.int8)
        nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), helper.make_node("MatMulInteger", ["q", "w", "z"], ["i"]),
                 helper.make_node("Cast", ["i"], ["r"], to=1), helper.make_node("Mul", ["s", "ws"], ["m"]), helper.make_node("Mul", ["r", "m"], ["t"]),
                 helper.make_node("Add", ["t", "m"], ["u"]), helper.make_node("Add", ["u", "r"], ["y"])]
        path = save("kept", nodes, [constant("w", weights), constant("ws", np.float32(0.01))], (3, 16), None)
        self.judge(path, (3, 16), integer=False)


class PerSample(unittest.TestCase):
    """What `octet quantize --mode dynamic` makes: ranges per image or row."""

    @classmethod
    def setUpClass(cls):
        cls.own = TEMP / "mnist.oct"
        cls.written = TEMP / "mnist.onnx"
        for path in cls.own, cls.written:
            octet("quantize", MNIST / "mnist.oct", "-o", path, "--mode", "dynamic")
        cls.x = RNG.uniform(0, 1, (6, 1, 28, 28)).astype(np.float32) * np.array([1, 0.1, 3, 0, -2, 1], np.float32).reshape(6, 1, 1, 1)

    def run_mnist(self, path, x, *arguments):
        outputs = run_octet(path, {"input": x}, *arguments)
        return next(iter(outputs.values()))

    def test_batch_mates_do_not_matter(self):
        together = self.run_mnist(self.own, self.x)
        for i in range(len(self.x)):
            np.testing.assert_array_equal(together[i:i + 1], self.run_mnist(self.own, self.x[i:i + 1]))

    def test_instruction_sets_and_threads(self):
        expected = self.run_mnist(self.own, self.x)
        for arguments in ("--isa", "scalar"), ("--isa", "avx2"), ("--threads", "2"):
            np.testing.assert_array_equal(expected, self.run_mnist(self.own, self.x, *arguments))

    def test_own_file_reads_back(self):
        np.testing.assert_array_equal(self.run_mnist(self.own, self.x), self.run_mnist(self.written, self.x))
        model = onnx.load(str(self.written))
        onnx.checker.check_model(model)
        marks = [p.key for n in model.graph.node if n.op_type == "DynamicQuantizeLinear" for p in n.metadata_props]
        self.assertEqual(marks, ["octet.per_sample"] * 4)
        again = TEMP / "again.onnx"
        octet("convert", self.written, again)
        np.testing.assert_array_equal(self.run_mnist(self.own, self.x), self.run_mnist(again, self.x))

    def test_other_tools_run_the_file(self):
        """One sample: its range is that of the whole tensor."""
        for i in (0, 1, 4):
            x = self.x[i:i + 1]
            expected = next(iter(run_ort(self.written, {"input": x}).values()))
            got = self.run_mnist(self.written, x)
            self.assertLessEqual(np.abs(expected - got).max(), 2e-2 * np.abs(expected).max())

    def test_whole_tensor_is_kept_apart(self):
        """Without the mark the file means the whole tensor: results then depend on the batch."""
        model = onnx.load(str(self.written))
        for node in model.graph.node:
            del node.metadata_props[:]
        path = TEMP / "unmarked.onnx"
        onnx.save(model, str(path))
        expected = next(iter(run_ort(path, {"input": self.x}).values()))
        got = self.run_mnist(path, self.x)
        self.assertLessEqual(np.abs(expected - got).max(), 2e-2 * np.abs(expected).max())
        self.assertTrue((got != self.run_mnist(self.written, self.x)).any())

    def test_known_ranges(self):
        """Between Clip and a dynamic layer no range is looked for: 6 / 255 is the scale."""
        w1, w2 = RNG.standard_normal((8, 3, 1, 1)).astype(np.float32), RNG.standard_normal((4, 8, 3, 3)).astype(np.float32)
        b1 = RNG.standard_normal(8).astype(np.float32)
        nodes = [helper.make_node("Conv", ["x", "w1", "b1"], ["a"]), helper.make_node("Clip", ["a", "low", "high"], ["c"]),
                 helper.make_node("Conv", ["c", "w2"], ["y"], pads=[1, 1, 1, 1])]
        constants = [constant("w1", w1), constant("w2", w2), constant("b1", b1), constant("low", np.float32(0)), constant("high", np.float32(6))]
        path = save("clip", nodes, constants, (2, 3, 6, 5), None)
        dynamic = TEMP / "clip.oct"
        octet("quantize", path, "-o", dynamic, "--mode", "dynamic")
        x = (RNG.standard_normal((2, 3, 6, 5)) * 3).astype(np.float32)
        self.assertEqual(kernels(dynamic, {"x": x}).count("quantize_images"), 1)

        def rounded(w):
            scale = np.abs(w).max(axis=(1, 2, 3), keepdims=True) / 127
            return np.rint(w / scale) * scale

        def conv(v, w, pad):
            v = np.pad(v, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
            h, k = v.shape[2] - w.shape[2] + 1, v.shape[3] - w.shape[3] + 1
            return sum(np.einsum("nchw,oc->nohw", v[:, :, i:i + h, j:j + k], w[:, :, i, j]) for i in range(w.shape[2]) for j in range(w.shape[3]))

        expected = []
        for sample in x:
            q, scale, zero = quantize(sample)
            unit = float(scale) * np.abs(w1).max(axis=(1, 2, 3)) / 127  # of accumulators, to which biases are rounded
            a = conv((q - zero)[None] * float(scale), rounded(w1), 0) + (np.rint(b1 / unit) * unit).reshape(1, 8, 1, 1)
            c = np.rint(np.clip(a, 0, 6) * 255 / 6) * 6 / 255
            expected.append(conv(c, rounded(w2), 1)[0])
        expected, got = np.stack(expected), run_octet(dynamic, {"x": x})["y"]
        step = 6 / 255 * np.abs(w2).max()  # a value at a tie may go the other way
        self.assertLessEqual(np.abs(expected - got).max(), step)
        self.assertLessEqual(np.median(np.abs(expected - got)), 1e-4)
        for i in range(2):  # one scale for all pixels, or one per sample
            np.testing.assert_array_equal(got[i:i + 1], run_octet(dynamic, {"x": x[i:i + 1]})["y"])
        for arguments in ("--isa", "scalar"), ("--isa", "avx2"):
            np.testing.assert_array_equal(got, run_octet(dynamic, {"x": x}, *arguments)["y"])


class Static(unittest.TestCase):
    """QuantizeLinear with constant parameters before an integer operator, as older tools wrote it."""

    def test_conv(self):
        weights = RNG.integers(-127, 128, (6, 3, 3, 3)).astype(np.int8)
        nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]), helper.make_node("ConvInteger", ["q", "w", "z"], ["i"], pads=[1, 1, 1, 1]),
                 helper.make_node("Cast", ["i"], ["r"], to=1), helper.make_node("Mul", ["s", "ws"], ["m"]), helper.make_node("Mul", ["r", "m"], ["t"]),
                 helper.make_node("Add", ["t", "b"], ["y"])]
        path = save("static", nodes, [constant("w", weights), constant("ws", np.float32(0.01)), constant("s", np.float32(0.02)),
                                      constant("z", np.uint8(131)), constant("b", RNG.standard_normal((6, 1, 1)).astype(np.float32))], (2, 3, 8, 8), None)
        x = RNG.standard_normal((2, 3, 8, 8)).astype(np.float32)
        expected, got = run_ort(path, {"x": x})["y"], run_octet(path, {"x": x})["y"]
        self.assertLessEqual(np.abs(expected - got).max(), 1e-5 * np.abs(expected).max())
        self.assertIn("i8", kernels(path, {"x": x}))


if __name__ == "__main__":
    unittest.main(verbosity=1)
