#!/usr/bin/env python3
"""Transposed convolution against ONNX Runtime: random sizes, strides, dilations, groups, paddings and output shapes in float and as
int8; what is fused to it; the same bytes on every instruction set; values that overflow; what must be refused.

  test_conv_transpose.py [FIRST [COUNT]]     random cases FIRST to FIRST + COUNT - 1; a failure names its number

SPDX-License-Identifier: MIT
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cli_checks import *  # noqa: E402,F403

NUMBERS = [a for a in sys.argv[1:] if a.isdigit()]
FIRST, COUNT = int(NUMBERS[0]) if NUMBERS else 0, int(NUMBERS[1]) if len(NUMBERS) > 1 else 10 if SANITIZED else 60


def attributes_of(rng, size, kernel):
    """Strides, dilations and one of the ways to say the padding."""
    a = {"strides": [int(s) for s in rng.choice([1, 2, 2, 3, 4], len(size))]}
    if rng.random() < .3:
        a["dilations"] = [int(d) for d in rng.choice([1, 2, 3], len(size))]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, a.get("dilations", [1] * len(size)))]
    natural = [(n - 1) * s + span for n, s, span in zip(size, a["strides"], spans)]
    way = rng.integers(4)
    if way == 0:
        pads = [int(rng.integers(0, min(4, (n + 1) // 2))) for n in natural] + [int(rng.integers(0, min(4, (n + 1) // 2))) for n in natural]
        a["pads"] = pads
        a["output_padding"] = [int(rng.integers(0, s)) for s in a["strides"]]
    elif way == 1:
        a["output_shape"] = [int(rng.integers(max(n, whole - 3), whole + 1)) for n, whole in zip(size, natural)]  # ONNX infers no less than the input
        a["auto_pad"] = str(rng.choice(["NOTSET", "SAME_UPPER", "SAME_LOWER"]))
    elif way == 2 and all(n * s <= whole for n, s, whole in zip(size, a["strides"], natural)):
        a["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER"]))
    else:
        a["pads"] = [min((k - 1) // 2, n // 3) for k, n in zip(kernel, natural)] * 2
    return a


def build(seed):
    """A 1x1 convolution, the transposed one, perhaps an addition and an activation, and another 1x1 convolution."""
    rng = np.random.default_rng(seed)
    net = Net()
    net.rng = np.random.default_rng(seed + 1000000)
    axes = 1 if rng.random() < .15 else 2
    size = [int(rng.integers(1, 9)) for _ in range(axes)]
    kernel = [int(k) for k in rng.choice([1, 2, 2, 3, 3, 4, 4, 5], axes)]
    group = int(rng.choice([1, 1, 1, 2, 4, 8]))
    channels, out = group * int(rng.choice([1, 1, 2, 5, 16])), group * int(rng.choice([1, 1, 3, 8, 17]))
    ones = [1] * axes
    x = net.input("x", ["N", channels, *size])
    h = net.op("Conv", [x, net.random(channels, channels, *ones), net.random(channels, scale=.2)])
    weights = net.random(channels, out // group, *kernel, scale=1 / np.sqrt(channels / group * np.prod(kernel)))
    bias = [net.random(out, scale=.3)] if rng.random() < .8 else []
    h = net.op("ConvTranspose", [h, weights] + bias, group=group, **attributes_of(rng, size, kernel))
    kind = rng.integers(5)
    if kind == 1:
        h = net.op("Relu", [h])
    elif kind == 2:
        h = net.op("LeakyRelu", [h], alpha=.1)
    elif kind == 3:
        h = net.op("Relu", [net.op("Add", [h, net.op("Sigmoid", [h])])])
    elif kind == 4:
        h = net.op("BatchNormalization", [h] + [net.const(a.astype(np.float32)) for a in (
            rng.uniform(.5, 1.5, out), rng.normal(0, .3, out), rng.normal(0, .3, out), rng.uniform(.5, 1.5, out))])
    net.output(net.op("Conv", [h, net.random(3, out, *ones), net.random(3, scale=.2)], "y"))
    return net.save(f"transposed{seed}.onnx"), rng.standard_normal((6, channels, *size)).astype(np.float32)


class ConvTranspose(unittest.TestCase):
    def test_random(self):
        for seed in range(FIRST, FIRST + COUNT):
            with self.subTest(f"case {seed}"):
                self.check(seed)

    def check(self, seed):
        model, data = build(seed)
        want, got = run_ort(model, {"x": data})["y"], run_octet(model, {"x": data}, "--threads", 1 + seed % 2)["y"]
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * max(1, np.abs(want).max()))
        mode = ("int8", "int8", "weight-only", "dynamic")[seed % 4]
        samples = data[:1] if mode == "dynamic" else data
        q, _ = quantize(model, samples if mode == "int8" else None, "--mode", mode)
        ours, theirs = run_octet(q, {"x": samples})["y"], run_ort(q, {"x": samples})["y"]
        self.assertGreater(sqnr(ours, theirs), 26)
        self.assertGreater(sqnr(ours, want[:len(samples)]), 15)
        if mode == "int8":
            other = run_octet(q, {"x": data}, environment={"OCTET_ISA": ("scalar", "avx2", "avxvnni", "avx512")[seed // 4 % 4]})["y"]
            np.testing.assert_allclose(other, ours, rtol=1e-5, atol=1e-6 * np.abs(ours).max())

    def test_int8_layers(self):
        """Per output channel, exported so that others load it, and run on integers."""
        net = Net()
        x = net.input("x", ["N", 8, 6, 7])
        h = net.op("ConvTranspose", [x, net.random(8, 12, 4, 4, name="w", scale=.1), net.random(12, name="b")], "t", strides=[2, 2], pads=[1] * 4)
        h = net.op("ConvTranspose", [net.op("Relu", [h]), net.random(12, 1, 3, 3, name="v", scale=.3)], "d", group=12, strides=[2, 2])
        h = net.op("ConvTranspose", [h, net.random(12, 1, 5, 5, name="u", scale=.1)], "o", strides=[3, 3])
        net.output(net.op("Conv", [h, net.random(4, 1, 1, 1)], "y"))
        data = np.random.default_rng(1).standard_normal((8, 8, 6, 7)).astype(np.float32)
        model = net.save("layers.onnx")
        q, report = quantize(model, data)
        self.assertEqual(all_int8(report, ("conv_transpose",)), {})
        self.assertEqual([layer["type"] for layer in inspect(q)["operators"] if layer["op"] == "conv_transpose"], ["int8"] * 3)
        written = onnx.load(str(q))
        scales = {n.input[0]: (n.input[1], [a.i for a in n.attribute if a.name == "axis"]) for n in written.graph.node if n.op_type == "DequantizeLinear"}
        constants = {i.name: numpy_helper.to_array(i) for i in written.graph.initializer}
        found = {tuple(constants[name].shape): (constants[s].size, axis) for name, (s, axis) in scales.items() if name in constants and constants[name].ndim == 4}
        self.assertIn(found[8, 12, 4, 4], [(12, [1]), (12, [])])  # 1 is the default
        self.assertEqual(found[12, 1, 3, 3], (12, [0]))
        self.assertGreater(sqnr(run_octet(q, {"x": data})["y"], run_ort(q, {"x": data})["y"]), 35)

    def test_int8_groups(self):
        """Groups of several channels share the scales of the weights, not those of the bias; others load it, and agree to the last bit but rounding."""
        for group, channels, out, kernel, stride in ((2, 8, 6, 3, 2), (4, 64, 64, 4, 2), (3, 12, 3, 2, 2), (8, 8, 24, 3, 1), (5, 35, 10, 5, 3)):
            net = Net()
            x = net.input("x", ["N", channels, 5, 6])
            h = net.op("ConvTranspose", [x, net.random(channels, out // group, kernel, kernel, name="w", scale=.1), net.random(out, name="b")], "t",
                       group=group, strides=[stride] * 2, pads=[kernel // 2] * 4)
            net.output(net.op("Conv", [net.op("Relu", [h]), net.random(4, out, 1, 1)], "y"))
            data = np.random.default_rng(group).standard_normal((4, channels, 5, 6)).astype(np.float32)
            model = net.save("groups.onnx")
            q, report = quantize(model, data)
            with self.subTest(f"{group} groups"):
                self.assertEqual(all_int8(report, ("conv_transpose",)), {})
                self.assertEqual([layer["type"] for layer in inspect(q)["operators"] if layer["op"] == "conv_transpose"], ["int8"])
                self.assertGreater(sqnr(run_octet(q, {"x": data})["y"], run_ort(q, {"x": data})["y"]), 35)
                self.assertGreater(sqnr(run_octet(q, {"x": data})["y"], run_ort(model, {"x": data})["y"]), 25)

    def test_bytes_of_groups(self):
        """8-bit results of groups are those of each group alone: the definition, by numpy, whatever the instruction set."""
        rng = np.random.default_rng(6)
        for group, deep, wide, stride, kernel, pad in ((2, 3, 5, 2, 4, 1), (4, 16, 16, 2, 2, 0), (3, 8, 1, 2, 3, 1), (8, 1, 3, 3, 3, 1), (2, 40, 24, 1, 3, 1), (16, 4, 4, 2, 3, 1)):
            x, w = rng.integers(0, 256, (1, group * deep, 5, 7)).astype(np.uint8), rng.integers(-127, 128, (group * deep, wide, kernel, kernel)).astype(np.int8)
            scales = rng.uniform(.001, .004, wide).astype(np.float32)
            each = np.tile(scales, group)
            bias = rng.integers(-3000, 3000, group * wide).astype(np.int32)
            net = Net()
            net.input("x", list(x.shape), TensorProto.UINT8)
            h = net.op("DequantizeLinear", ["x", net.const(.02), net.const(113, dtype=np.uint8)])
            b = net.dequantized(bias, np.float32(.02) * each, np.zeros(group * wide, np.int32), axis=0)
            h = net.op("ConvTranspose", [h, net.dequantized(w, scales, np.zeros(wide, np.int8), axis=1), b], group=group, strides=[stride] * 2, pads=[pad] * 4)
            net.output(net.op("QuantizeLinear", [h, net.const(.2), net.const(131, dtype=np.uint8)], "y"), kind=TensorProto.UINT8)
            full = np.zeros((1, group * wide, 4 * stride + kernel, 6 * stride + kernel), np.int64)
            real, grouped = x.astype(np.int64) - 113, w.astype(np.int64).reshape(group, deep, wide, kernel, kernel)
            for i in range(5):
                for j in range(7):
                    part = np.einsum("gc,gcohw->gohw", real[0, :, i, j].reshape(group, deep), grouped)
                    full[0, :, i * stride:i * stride + kernel, j * stride:j * stride + kernel] += part.reshape(group * wide, kernel, kernel)
            sums = full[:, :, pad:full.shape[2] - pad, pad:full.shape[3] - pad] + bias.reshape(1, -1, 1, 1)
            want = requantized(sums, multiplier(.02, each, .2).reshape(1, -1, 1, 1), 131)
            for isa in SOME_ISAS:
                with self.subTest(f"{group} groups of {deep} to {wide}, {isa}"):
                    np.testing.assert_array_equal(run_octet(net.save("bytes.onnx"), {"x": x}, environment={"OCTET_ISA": isa})["y"], want)

    def test_bytes(self):
        """8-bit results: exactly the integers of the definition, by numpy, whatever the instruction set."""
        rng = np.random.default_rng(5)
        for stride, kernel, pad in ((2, 4, 1), (2, 3, 0), (3, 2, 0), (1, 3, 1)):
            x, w = rng.integers(0, 256, (1, 5, 6, 7)).astype(np.uint8), rng.integers(-127, 128, (5, 9, kernel, kernel)).astype(np.int8)
            scales = rng.uniform(.001, .004, 9).astype(np.float32)
            net = Net()
            xs, ys, zx, zy = net.const(.02), net.const(.05), net.const(113, dtype=np.uint8), net.const(131, dtype=np.uint8)
            net.input("x", [1, 5, 6, 7], TensorProto.UINT8)
            h = net.op("ConvTranspose", [net.op("DequantizeLinear", ["x", xs, zx]), net.dequantized(w, scales, np.zeros(9, np.int8), axis=1)],
                       strides=[stride] * 2, pads=[pad] * 4)
            net.output(net.op("QuantizeLinear", [h, ys, zy], "y"), kind=TensorProto.UINT8)
            full = np.zeros((1, 9, 5 * stride + kernel, 6 * stride + kernel), np.int64)
            for i in range(6):
                for j in range(7):
                    full[0, :, i * stride:i * stride + kernel, j * stride:j * stride + kernel] += np.einsum("c,cohw->ohw", x[0, :, i, j].astype(np.int64) - 113, w.astype(np.int64))
            sums = full[:, :, pad:full.shape[2] - pad, pad:full.shape[3] - pad]
            want = requantized(sums, multiplier(.02, scales, .05).reshape(1, -1, 1, 1), 131)
            for isa in ("scalar", "avx2", "avxvnni", "avx512"):
                got = run_octet(net.save("bytes.onnx"), {"x": x}, environment={"OCTET_ISA": isa})["y"]
                self.assertTrue(np.array_equal(got, want), f"stride {stride} kernel {kernel} pads {pad} {isa}")

    def test_infinite_input(self):
        """Outputs that no input reaches are the bias, even beside infinities."""
        net = Net()
        net.input("x", [1, 1, 2, 2])
        net.output(net.op("ConvTranspose", ["x", net.const(np.full((1, 1, 1, 1), 2, np.float32)), net.const([3.])], "y", strides=[2, 2]))
        x = np.full((1, 1, 2, 2), np.inf, np.float32)
        np.testing.assert_array_equal(run_octet(net.save("inf.onnx"), {"x": x})["y"], np.array([[[[np.inf, 3, np.inf], [3, 3, 3], [np.inf, 3, np.inf]]]], np.float32))

    def test_accumulators_that_overflow(self):
        """255 * 127 * 70,000 is beyond int32: the layer runs in float and the result is right."""
        net = Net()
        net.input("x", [1, 70000, 1, 1], TensorProto.UINT8)
        x = net.op("DequantizeLinear", ["x", net.const(1.), net.const(0, dtype=np.uint8)])
        h = net.op("ConvTranspose", [x, net.dequantized(np.full((70000, 1, 2, 2), 127, np.int8), 1.)], strides=[2, 2])
        net.output(net.op("QuantizeLinear", [h, net.const(1e7), net.const(0, dtype=np.uint8)], "y"), kind=TensorProto.UINT8)
        y = run_octet(net.save("overflow.onnx"), {"x": np.full((1, 70000, 1, 1), 255, np.uint8)})["y"]
        self.assertEqual(y.ravel().tolist(), [227] * 4)  # 2,266,950,000 / 1e7

    def test_refused(self):
        """A message that names the rule, no crash."""
        for attributes, part in (({"group": 3}, "groups"), ({"strides": [2]}, "strides"), ({"strides": [2 ** 31 - 1] * 2, "dilations": [2 ** 31 - 1] * 2}, "too large"),
                                 ({"pads": [9] * 4}, "padding"), ({"output_shape": [1, 2, 3]}, "output_shape"), ({"auto_pad": "SAME"}, "auto_pad"),
                                 ({"kernel_shape": [2, 2]}, "kernel_shape"), ({"output_padding": [-1, 0]}, "output_padding")):
            net = Net()
            net.input("x", [1, 4, 3, 3])
            net.output(net.op("ConvTranspose", ["x", net.random(4, 2, 3, 3)], "t", **attributes))
            np.save(TEMP / "x.npy", np.zeros((1, 4, 3, 3), np.float32))
            done = limited("run", net.save("bad.onnx"), "--input", f"x={TEMP / 'x.npy'}", "--output-dir", TEMP / "none")
            with self.subTest(str(attributes)):
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(done.stderr, '"t_node"|value "t"')
                self.assertIn(part, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[a for a in sys.argv if not a.isdigit()])
