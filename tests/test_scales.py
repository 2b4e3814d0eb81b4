#!/usr/bin/env python3
"""Scales at the ends of float32: products and quotients of them that overflow, underflow or lose digits. Every result is that of the definition
(dequantize, float operator, quantize) in exact arithmetic - scales are powers of two - and has the same bytes on every instruction set.

SPDX-License-Identifier: MIT
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cli_checks import *  # noqa: E402,F403

ZERO_X, ZERO_Y = 120, 131
# input, weights or second input, output: the product overflows, the quotient overflows, the product underflows, it is denormal, all is well
SCALES = ((100, 100, 0), (60, 60, -120), (-80, -80, -146), (-70, -66, -140), (-80, -80, -20), (-4, -6, -3))


def quantized(sums, exponent):
    """round(sums * 2^exponent) + zero point, saturated: `sums` are integers."""
    return np.clip(np.rint(np.ldexp(sums.astype(np.float64), exponent)) + ZERO_Y, 0, 255).astype(np.uint8)


def power(exponent):
    return np.float32(np.ldexp(1.0, exponent))


class Scales(unittest.TestCase):
    def net(self, shape, sx):
        net = Net()
        net.input("x", shape, TensorProto.UINT8)
        return net, net.op("DequantizeLinear", ["x", net.const(power(sx)), net.const(ZERO_X, dtype=np.uint8)])

    def check(self, net, h, sy, x, want, label):
        net.output(net.op("QuantizeLinear", [h, net.const(power(sy)), net.const(ZERO_Y, dtype=np.uint8)], "y"), kind=TensorProto.UINT8)
        model = net.save("scales.onnx")
        for isa in SOME_ISAS:
            with self.subTest(f"{label} {isa}"):
                got = run_octet(model, x, environment={"OCTET_ISA": isa})["y"]
                np.testing.assert_array_equal(got, want)

    def test_products(self):
        """1x1, 3x3, depthwise, grouped and transposed convolutions, and a matrix product; a few sums are 0, where infinity would make NaN."""
        rng = np.random.default_rng(3)
        x = rng.integers(ZERO_X - 2, ZERO_X + 3, (1, 32, 5, 6)).astype(np.uint8)
        x[:, :, 2] = ZERO_X
        real = x.astype(np.int64) - ZERO_X
        for sx, sw, sy in SCALES:
            for kind, shape, attributes in (("Conv", (24, 32, 1, 1), {}), ("Conv", (24, 32, 3, 3), {"pads": [1] * 4}),
                                            ("Conv", (32, 1, 3, 3), {"pads": [1] * 4, "group": 32}), ("Conv", (32, 8, 3, 3), {"pads": [1] * 4, "group": 4}),
                                            ("ConvTranspose", (32, 24, 2, 2), {"strides": [2, 2]}), ("ConvTranspose", (32, 1, 3, 3), {"group": 32, "strides": [2, 2]})):
                w = rng.integers(-2, 3, shape).astype(np.int8)
                net, h = self.net(x.shape, sx)
                h = net.op(kind, [h, net.dequantized(w, power(sw))], **attributes)
                plain = Net()
                plain.input("x", x.shape)
                plain.output(plain.op(kind, ["x", plain.const(w.astype(np.float32))], "y", **attributes))
                sums = np.rint(run_ort(plain.save("sums.onnx"), {"x": real.astype(np.float32)})["y"]).astype(np.int64)  # small integers: exact in floats
                self.check(net, h, sy, {"x": x}, quantized(sums, sx + sw - sy), f"{kind} {shape} {sx} {sw} {sy}")
            w = rng.integers(-2, 3, (30, 20)).astype(np.int8)
            net, h = self.net((3, 30), sx)
            h = net.op("MatMul", [h, net.dequantized(w, power(sw))])
            flat = x.reshape(-1)[:90].reshape(3, 30)
            self.check(net, h, sy, {"x": flat}, quantized((flat.astype(np.int64) - ZERO_X) @ w.astype(np.int64), sx + sw - sy), f"MatMul {sx} {sw} {sy}")

    def test_residual(self):
        """An addition after a convolution: its own multiplier overflows, or that of the convolution."""
        rng = np.random.default_rng(4)
        x = rng.integers(ZERO_X - 2, ZERO_X + 3, (1, 16, 4, 5)).astype(np.uint8)
        w = rng.integers(-2, 3, (16, 16, 1, 1)).astype(np.int8)
        real = x.astype(np.int64) - ZERO_X
        sums = np.einsum("oc,nchw->nohw", w[:, :, 0, 0].astype(np.int64), real)
        for sx, sw, sy in ((100, -100, -40), (60, 60, 100), (2, -3, 0)):
            net, h = self.net(x.shape, sx)
            c = net.qdq(net.op("Conv", [h, net.dequantized(w, power(sw))]), power(sx + sw), 128)
            want = np.clip(sums, -128, 127) * 2.0 ** sw + real  # in units of 2^sx
            self.check(net, net.op("Add", [c, h]), sy, {"x": x}, np.clip(np.rint(np.ldexp(want, sx - sy)) + ZERO_Y, 0, 255).astype(np.uint8), f"{sx} {sw} {sy}")

    def test_elementwise(self):
        """Sums, differences and products of two activations, and means."""
        rng = np.random.default_rng(5)
        a, b = (rng.integers(ZERO_X - 3, ZERO_X + 4, (1, 8, 4, 6)).astype(np.uint8) for _ in range(2))
        ra, rb = a.astype(np.int64) - ZERO_X, b.astype(np.int64) - ZERO_X
        for sx, sw, sy in SCALES:
            for kind, sums, exponent in (("Add", ra + rb, sx), ("Sub", ra - rb, sx), ("Mul", ra * rb, sx + sw)):
                net, h = self.net(a.shape, sx)
                net.input("b", b.shape, TensorProto.UINT8)
                other = net.op("DequantizeLinear", ["b", net.const(power(sw if kind == "Mul" else sx)), net.const(ZERO_X, dtype=np.uint8)])
                self.check(net, net.op(kind, [h, other]), sy, {"x": a, "b": b}, quantized(sums, exponent - sy), f"{kind} {sx} {sw} {sy}")
            pooled = ra.reshape(1, 8, 2, 2, 3, 2).sum((3, 5))
            net, h = self.net(a.shape, sx)
            self.check(net, net.op("AveragePool", [h], kernel_shape=[2, 2], strides=[2, 2]), sy, {"x": a}, quantized(pooled, sx - 2 - sy), f"AveragePool {sx} {sy}")
            square = np.ascontiguousarray(a[:, :, :, :4])
            for kind, attributes in (("GlobalAveragePool", {}), ("ReduceMean", {"axes": [2, 3]})):
                net, h = self.net(square.shape, sx)
                self.check(net, net.op(kind, [h], **attributes), sy, {"x": square},
                           quantized((square.astype(np.int64) - ZERO_X).sum((2, 3), keepdims=True), sx - 4 - sy), f"{kind} {sx} {sy}")

    def test_dynamic(self):
        """Inputs whose scale, known at run time, overflows with the multipliers: the same everywhere, and the bias alone where all products are 0."""
        net = Net()
        rng = net.rng
        x = net.input("x", ["N", 16, 6, 6])
        h = net.op("Clip", [net.op("Conv", [x, net.const((rng.standard_normal((24, 16, 1, 1)) * 1e5).astype(np.float32)), net.random(24)]),
                            net.const(0.), net.const(6.)])
        net.output(net.op("Conv", [h, net.random(8, 24, 1, 1)], "y"))
        model = net.save("dynamic.onnx")
        q, _ = quantize(model, None, "--mode", "dynamic")
        for batch in (1, 3):
            data = (rng.standard_normal((batch, 16, 6, 6)) * 1e37).astype(np.float32)
            data[:, :, 2:4] = 0
            first, want = None, run_ort(model, {"x": data})["y"][:, :, 2:4]
            for isa in SOME_ISAS:
                got = run_octet(q, {"x": data}, environment={"OCTET_ISA": isa})["y"]
                first = got if first is None else first
                np.testing.assert_allclose(got, first, rtol=1e-6, atol=1e-6)
                np.testing.assert_allclose(got[:, :, 2:4], want, atol=.02 * np.abs(want).max())


if __name__ == "__main__":
    unittest.main()
