#!/usr/bin/env python3
"""The bound of the exact integer Winograd through the whole program: a layer whose accumulators stay below 2^25 runs by Winograd, one that could
reach it runs directly, and both give exactly the integers of the definition (int64 arithmetic by numpy), on every instruction set.
SPDX-License-Identifier: MIT
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cli_checks import *  # noqa: E402,F403

SIZE, OUT = 28, 64
X_SCALE, Y_SCALE = np.float32(1 / 64), np.float32(4096)


def model(weights, bias):
    """uint8 [1,C,28,28] -> 3x3 convolution -> uint8, with scales 1/64, 1 and 4096; zero points 0."""
    net = Net()
    net.input("x", [1, weights.shape[1], SIZE, SIZE], TensorProto.UINT8)
    zero = net.const(0, dtype=np.uint8)
    x = net.op("DequantizeLinear", ["x", net.const(X_SCALE), zero])
    b = net.op("DequantizeLinear", [net.const(bias.astype(np.int32)), net.const(X_SCALE)])
    c = net.op("Conv", [x, net.dequantized(weights, np.float32(1)), b], pads=[1] * 4)
    net.output(net.op("QuantizeLinear", [c, net.const(Y_SCALE), net.const(128, dtype=np.uint8)], "y"), kind=TensorProto.UINT8)
    return net.save("bound.onnx")


class Bound(unittest.TestCase):
    def check(self, weights, bias, winograd):
        rng = np.random.default_rng(3)
        path = model(weights, bias)
        shape = (1, weights.shape[1], SIZE, SIZE)
        for name, x, isas in (("all 255", np.full(shape, 255, np.uint8), ("scalar", "avx2", "")),
                              ("random", rng.integers(0, 256, shape).astype(np.uint8), ("avxvnni", "avx512", ""))):
            sums = convolve(x.astype(np.int64), weights.astype(np.int64), [1] * 4) + bias.reshape(1, -1, 1, 1)
            want = requantized(sums, multiplier(X_SCALE, 1, Y_SCALE), 128)
            for isa in isas:
                got = run_octet(path, {"x": x}, environment={"OCTET_ISA": isa} if isa else None)["y"]
                self.assertTrue(np.array_equal(got, want), f"{name}, {isa or 'all instruction sets'}: {np.count_nonzero(got != want)} differ")
        without_tiles = {"OCTET_ISA": os.environ.get("OCTET_ISA", "avx512vnni")}  # with AMX direct convolution is faster
        kernels = [layer.get("kernel") or "" for layer in inspect(path, without_tiles)["operators"] if layer["op"] == "conv"]
        if not any("__scalar" in kernel for kernel in kernels):
            self.assertEqual([("winograd" in kernel) for kernel in kernels], [winograd], kernels)

    def weights(self, channels, extreme):
        w = np.random.default_rng(channels).integers(-20, 21, (OUT, channels, 3, 3)).astype(np.int8)
        w[OUT // 2] = extreme
        return w

    def test_below(self):
        """9 * 115 * 255 * 127 = 33,518,475; with a bias of 35,956 it is 2^25 - 1."""
        bias = np.zeros(OUT, np.int64)
        bias[OUT // 2] = 35956
        self.check(self.weights(115, 127), bias, True)

    def test_at_the_bound(self):
        bias = np.zeros(OUT, np.int64)
        bias[OUT // 2] = 35957
        self.check(self.weights(115, 127), bias, False)

    def test_above_by_weights(self):
        """9 * 128 * 255 * 127 = 37,307,520."""
        self.check(self.weights(128, 127), np.zeros(OUT, np.int64), False)

    def test_below_on_the_negative_side(self):
        """9 * 114 * 255 * -128 = -33,488,640; with a bias of -65,791 it is 1 - 2^25."""
        bias = np.zeros(OUT, np.int64)
        bias[OUT // 2] = -65791
        self.check(self.weights(114, -128), bias, True)
        bias[OUT // 2] = -65792
        self.check(self.weights(114, -128), bias, False)


if __name__ == "__main__":
    unittest.main()
