#!/usr/bin/env python3
"""Faults that users of other tools met, rebuilt as small ONNX models: arithmetic and reading. The number in a test's name is the case's;
the tools and reports where each was seen stand beside it. What the reports must say is in test_cases_reports.py.
SPDX-License-Identifier: MIT
"""
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
from cli_checks import *  # noqa: E402,F403


def everywhere(model, feeds, name):
    """The output's bytes for every instruction set, one and two threads; they must be one."""
    first = None
    for isa in ISAS:
        for threads in (1, 2):
            y = run_octet(model, feeds, "--threads", threads, environment={"OCTET_ISA": isa})[name]
            first = y if first is None else first
            assert y.tobytes() == first.tobytes(), f"{isa}, {threads} threads: {np.abs(y - first).max()} away from scalar"
    return first


def qdq_conv(x_scale, w_scale, y_scale, x_zero, y_zero, w, bias, name, bias_scale=None, bias_zero=None, dtype=np.uint8, **attributes):
    """input - quantize - convolution of integer weights and bias - quantize, as other tools write it."""
    net = Net()
    x = net.qdq(net.input("x", [2, w.shape[1] * attributes.get("group", 1), 7, 9]), x_scale, x_zero, dtype)
    axis = 0 if np.ndim(w_scale) else None
    if bias_scale is None:
        bias_scale = np.float32(x_scale) * np.asarray(w_scale, np.float32)
    inputs = [x, net.dequantized(w, w_scale, axis=axis)]
    if bias is not None:
        inputs.append(net.dequantized(bias, bias_scale, bias_zero, axis=0 if np.ndim(bias_scale) else None))
    y = net.op("Conv", inputs, **attributes)
    net.output(net.qdq(y, y_scale, y_zero, dtype) if y_scale else y)
    return net.save(name), net.outputs[0].name


class Arithmetic(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(11)

    def check_conv(self, x_scale, w_scale, y_scale, x_zero=118, y_zero=131, dtype=np.uint8, pads=(1, 1, 1, 1), bias_size=3000, all_isas=False, w=None):
        w = self.rng.integers(-127, 128, (6, 4, 3, 3)).astype(np.int8) if w is None else w
        bias = self.rng.integers(-bias_size, bias_size + 1, 6).astype(np.int32)
        model, name = qdq_conv(x_scale, w_scale, y_scale, x_zero, y_zero, w, bias, "conv.onnx", dtype=dtype, pads=list(pads))
        info = np.iinfo(dtype)
        x = ((self.rng.integers(info.min, info.max + 1, (2, 4, 7, 9)) - x_zero) * np.float32(x_scale)).astype(np.float32)
        accumulator = convolve(quantized(x, x_scale, x_zero, dtype) - x_zero, w.astype(np.int64), pads) + bias.reshape(1, -1, 1, 1)
        m = multiplier(x_scale, w_scale, y_scale)
        want = requantized(accumulator, m.reshape(1, -1, 1, 1) if m.ndim else m, y_zero, dtype)
        got = everywhere(model, {"x": x}, name) if all_isas else run_octet(model, {"x": x})[name]
        np.testing.assert_array_equal(got, dequantized(want, y_scale, y_zero))
        self.assertEqual([o["type"] for o in inspect(model)["operators"] if o["op"] == "conv"], ["int8"])
        return want

    def test_05_multipliers_above_one_tiny_and_half(self):
        """pytorch#33466, #36253"""
        self.check_conv(0.052, 2.39, 0.112, all_isas=True)
        self.check_conv(0.6145506, 1.624538, 0.2153073)
        self.check_conv(0.052, np.linspace(.1, 2.39, 6).astype(np.float32), 0.112)
        with self.subTest("2^-40"):
            self.assertEqual(set(self.check_conv(2.0 ** -20, 2.0 ** -20, 1.0).flat), {131})
        with self.subTest("0.5: ties go to even"):
            narrow = self.rng.integers(-1, 2, (6, 4, 3, 3)).astype(np.int8)
            for zero in (130, 131):
                self.check_conv(0.25, 1.0, 0.5, y_zero=zero, bias_size=100, w=narrow, all_isas=zero == 131)

    def test_06_bias_of_another_scale(self):
        """onnxruntime#24711: judged by the float run of the graph."""
        w = self.rng.integers(-127, 128, (3, 4, 3, 3)).astype(np.int8)
        bias = np.array([-5123, 123, 5151], np.int32)
        x = ((self.rng.integers(0, 256, (2, 4, 7, 9)) - 118) * np.float32(.001)).astype(np.float32)
        forms = {"own": (None, None), "scalar": (1e-4, None), "per channel": (np.array([1e-4, 2e-4, 5e-5], np.float32), None), "zero point": (1e-4, 17),
                 "zero points": (np.array([1e-6, 1e-4, 1e-5], np.float32), np.array([3, -9, 0], np.int32))}
        for what, (scale, zero) in forms.items():
            for y_scale in (0.004, None):
                with self.subTest(what, rounded=bool(y_scale)):
                    model, name = qdq_conv(.001, .001, y_scale, 118, 131, w, bias, "bias.onnx", bias_scale=scale,
                                           bias_zero=None if zero is None else np.asarray(zero, np.int32), pads=[1] * 4)
                    got, want = run_octet(model, {"x": x})[name], run_ort(model, {"x": x})[name]
                    step = y_scale or 1e-6
                    self.assertLessEqual(np.abs(got - want).max(), step * 1.0001)
                    self.assertLess((got != want).mean() if y_scale else 0, .02)

    def test_10_padding_is_the_zero_point(self):
        """tvm#13364, executorch#13576: corners, edges and interior."""
        for zero in (-128, 37, 127):
            with self.subTest(zero=zero):
                self.check_conv(0.05, 0.02, 0.3, x_zero=zero, y_zero=-7, dtype=np.int8, all_isas=zero == 37)
            for include in (0, 1):
                with self.subTest(zero=zero, count_include_pad=include):
                    self.check_average(zero, include)

    def check_average(self, zero, include):
        net = Net()
        x = net.qdq(net.input("x", [1, 5, 7, 6]), .05, zero, np.int8)
        y = net.op("AveragePool", [x], kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 1], count_include_pad=include)
        net.output(net.qdq(y, .03, -11, np.int8))
        model = net.save()
        q = self.rng.integers(-128, 128, (1, 5, 7, 6))
        feeds = {"x": dequantized(q, .05, zero)}
        ones = np.ones((5, 1, 3, 3), np.int64)
        total = convolve(q - zero, ones, (1, 1, 1, 1), (2, 1), group=5)
        count = 9 if include else convolve(np.ones_like(q), ones, (1, 1, 1, 1), (2, 1), group=5)
        m = (np.float32(.05) / np.float32(.03)) / np.asarray(count, np.float32)
        np.testing.assert_array_equal(run_octet(model, feeds)[net.outputs[0].name], dequantized(requantized(total, m, -11, np.int8), .03, -11))

    def test_23_pair_sums_do_not_saturate(self):
        """pytorch#44939, FBGEMM#125: 211 * 71 + 171 * 107 = 33,278 leaves int16; so does every pair of 255 * 127."""
        for x, w in (([211, 171], [71, 107]), ([255] * 4096, [127] * 4096), ([255] * 4096, [-127] * 4096), ([255, 255] * 37, [127, -127] * 37)):
            with self.subTest(k=len(x), first=x[0]):
                net = Net()
                a = net.qdq(net.input("x", [33, len(x)]), 1.0, 0)
                column = np.tile(np.array(w, np.int8).reshape(-1, 1), (1, 35))
                net.output(net.op("MatMul", [a, net.dequantized(column, 1.0)]))
                feeds = {"x": np.tile(np.array(x, np.float32), (33, 1))}
                got = everywhere(net.save(), feeds, net.outputs[0].name)
                self.assertEqual(set(got.flat), {float(np.dot(x, w))})
        self.assertEqual(211 * 71 + 171 * 107, 33278)

    def test_23_convolutions_too(self):
        for k in (2, 64, 455):
            w = np.full((5, k, 3, 3), 127, np.int8)
            model, name = qdq_conv(1.0, 1.0, None, 0, 0, w, None, "wide.onnx", pads=[1] * 4)
            x = np.full((2, k, 7, 9), 255, np.float32)
            taps = convolve(np.ones((2, 1, 7, 9), np.int64), np.ones((1, 1, 3, 3), np.int64), (1, 1, 1, 1))
            got = everywhere(model, {"x": x}, name)
            np.testing.assert_array_equal(got, np.broadcast_to((taps * k * 255 * 127).astype(np.float32), got.shape))

    def test_30_grouped_convolutions(self):
        """FBGEMM#347, pytorch#59730: the float forms, and the int8 ones against ONNX Runtime's reading of what is written."""
        forms = {"multiplier 2": (256, 128, 3, 128, 1, 16, 20), "4 groups": (32, 16, 3, 4, 1, 9, 10), "64 groups, dilation 2": (128, 64, 3, 64, 2, 12, 11),
                 "5x5": (24, 24, 5, 24, 1, 13, 9), "7x7": (40, 40, 7, 40, 1, 13, 9), "3 channels a group": (24, 24, 3, 8, 1, 9, 9)}
        for what, (out, channels, kernel, group, dilation, height, width) in forms.items():
            with self.subTest(what):
                net = Net()
                x = net.input("x", [1, channels, height, width])
                x = net.conv(x, out, channels, kernel, group=group, dilations=[dilation] * 2, pads=[kernel // 2 * dilation] * 4)
                net.output(net.op("LeakyRelu", [x], alpha=.1))
                model, name = net.save(), net.outputs[0].name
                data = self.rng.standard_normal((6, channels, height, width)).astype(np.float32)
                feeds = {"x": data[:1]}
                want = run_ort(model, feeds)[name]
                self.assertGreater(sqnr(run_octet(model, feeds)[name], want), 100)
                q, report = quantize(model, data)
                self.assertEqual(all_int8(report, ("conv",)), {})
                got = everywhere(q, feeds, name) if kernel == 3 else run_octet(q, feeds)[name]
                self.assertGreater(sqnr(got, want), 28)
                self.assertGreater(sqnr(got, run_ort(q, feeds)[name]), 45)


class Reading(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(12)

    def same_as_ort(self, model, feeds, tolerance=1e-5):
        got, want = run_octet(model, feeds), run_ort(model, feeds)
        for name, w in want.items():
            np.testing.assert_allclose(got[name], w, rtol=tolerance, atol=tolerance)
        return got

    def test_09_bounds_of_clip(self):
        """pytorch#61404, onnxruntime#5586"""
        x = self.rng.uniform(-5, 5, (3, 7)).astype(np.float32)

        def clip(bounds, **attributes):
            net = Net(opset=attributes.pop("opset", 17))
            inputs = [net.input("x", [3, 7])] + [bound(net) if callable(bound) else bound for bound in bounds]
            net.output(net.op("Clip", inputs, **attributes))
            return next(iter(run_octet(net.save(), {"x": x}).values()))

        def initializer(v):
            return lambda net: net.const(v)

        def constant(v):
            return lambda net: net.op("Constant", [], value=numpy_helper.from_array(np.array(v, np.float32)))

        def cast(v):
            return lambda net: net.op("Cast", [net.const(v, dtype=np.float64)], to=TensorProto.FLOAT)

        for bound in (initializer, constant, cast):
            np.testing.assert_array_equal(clip(["", bound(1.5)]), np.minimum(x, np.float32(1.5)))
            np.testing.assert_array_equal(clip([bound(-1.5)]), np.maximum(x, np.float32(-1.5)))
            np.testing.assert_array_equal(clip([bound(0), bound(6)]), np.clip(x, 0, 6))
            np.testing.assert_array_equal(clip([bound(2), bound(-1)]), np.full_like(x, -1))  # min above max: everything is max
        np.testing.assert_array_equal(clip([]), x)
        np.testing.assert_array_equal(clip([], opset=7, min=0., max=6.), np.clip(x, 0, 6))
        np.testing.assert_array_equal(clip([], opset=7, min=0.), np.maximum(x, 0))
        np.testing.assert_array_equal(clip([], opset=9, max=1.), np.minimum(x, 1))

    def test_09_clip_after_an_integer_layer(self):
        for low, high in ((0, 6), (None, 1.5), (-.5, None), (-1, 1), (2, -1), (None, None)):
            with self.subTest(low=low, high=high):
                net = Net()
                x = net.conv(net.input("x", ["N", 3, 8, 8]), 8, 3)
                bounds = ["" if b is None else net.const(b) for b in (low, high)]
                while bounds and bounds[-1] == "":
                    bounds.pop()
                x = net.op("Clip", [x] + bounds)
                net.output(net.conv(x, 4, 8))
                data = self.rng.standard_normal((16, 3, 8, 8)).astype(np.float32) * 4
                model, name = net.save(), net.outputs[0].name
                q, report = quantize(model, data)
                self.assertEqual(all_int8(report, ("conv",)), {})
                want = run_ort(model, {"x": data})[name]
                self.assertGreater(sqnr(run_octet(q, {"x": data})[name], want), 25)
                self.assertGreater(sqnr(run_ort(q, {"x": data})[name], want), 25)

    def test_15_the_same_network_at_five_operator_sets(self):
        """onnxruntime#28770"""
        counts = {}
        for opset in (8, 11, 13, 17, 22):
            net = Net(opset=opset)
            x = net.op("Relu", [net.conv(net.input("x", ["N", 3, 16, 16]), 8, 3)])
            x = net.op("Clip", [x], min=0., max=6.) if opset < 11 else net.op("Clip", [x, net.const(0), net.const(6)])
            x = net.op("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
            x = net.op("Add", [net.conv(x, 8, 8), x])
            x = net.op("Concat", [x, net.conv(x, 4, 8, 1)], axis=1)
            x = net.op("Pad", [x], pads=[0, 0, 1, 1, 0, 0, 1, 1]) if opset < 11 else net.op("Pad", [x, net.const([0, 0, 1, 1, 0, 0, 1, 1], dtype=np.int64)])
            x = net.op("AveragePool", [x], kernel_shape=[2, 2], strides=[2, 2])
            x = net.op("Flatten", [x])
            x = net.op("Gemm", [x, net.random(10, 300), net.random(10)], transB=1)
            net.output(net.op("Softmax", [x], axis=1))
            data = np.random.default_rng(1).uniform(0, 1, (16, 3, 16, 16)).astype(np.float32)
            model = net.save(f"opset{opset}.onnx")
            self.same_as_ort(model, {"x": data[:2]})
            report = quantize(model, data)[1]
            counts[opset] = (sum(l["type"] == "int8" for l in report["layers"]), report["boundaries"], report["float_islands"])
        self.assertEqual(len({str(c) for c in counts.values()}), 1, counts)
        self.assertGreaterEqual(counts[8][0], 8)

    def test_18_half_precision_weights(self):
        """onnxruntime#13358, Model-Optimizer#18"""
        half = (self.rng.standard_normal((6, 3, 3, 3)) / 5).astype(np.float16)
        data = self.rng.standard_normal((8, 3, 9, 9)).astype(np.float32)
        forms = {
            "cast": lambda net: net.op("Cast", [net.const(half)], to=TensorProto.FLOAT),
            "constant": lambda net: net.op("Cast", [net.op("Constant", [], value=numpy_helper.from_array(half))], to=TensorProto.FLOAT),
            "identity": lambda net: net.op("Identity", [net.op("Cast", [net.op("Identity", [net.const(half)])], to=TensorProto.FLOAT)]),
            "transpose": lambda net: net.op("Transpose", [net.op("Cast", [net.const(np.ascontiguousarray(half.transpose(1, 2, 3, 0)))], to=TensorProto.FLOAT)],
                                            perm=[3, 0, 1, 2]),
        }
        for what, weights in forms.items():
            with self.subTest(what):
                net = Net()
                net.output(net.op("Conv", [net.input("x", ["N", 3, 9, 9]), weights(net)]))
                model, name = net.save(), net.outputs[0].name
                self.same_as_ort(model, {"x": data})
                q, report = quantize(model, data)
                self.assertEqual([(l["op"], l["type"]) for l in report["layers"]], [("conv", "int8")])
                self.assertGreater(sqnr(run_octet(q, {"x": data})[name], run_ort(model, {"x": data})[name]), 35)

    def test_18_activations_near_the_end_of_half_precision(self):
        net = Net()
        x = net.op("Cast", [net.input("x", ["N", 3, 9, 9])], to=TensorProto.FLOAT16)
        x = net.op("Mul", [x, net.const(np.array(54800 / 4, np.float16))])
        x = net.op("Cast", [x], to=TensorProto.FLOAT)
        net.output(net.conv(x, 6, 3))
        model, name = net.save(), net.outputs[0].name
        data = np.clip(self.rng.standard_normal((8, 3, 9, 9)), -4, 4).astype(np.float32)
        data[0, 0, 0, 0] = 4
        for observer in ("minmax", "moving-average", "percentile", "kl", "mse"):
            with self.subTest(observer):
                q, report = quantize(model, data, "--observer", observer)
                self.assertEqual(all_int8(report, ("conv",)), {})
                self.assertTrue(all(np.isfinite([v["low"], v["high"], v["scale"]]).all() for v in report["values"]))
                self.assertGreater(sqnr(run_octet(q, {"x": data})[name], run_octet(model, {"x": data})[name]), 20)

    def test_21_checkpoints(self):
        """pytorch#3805, #32691, open_model_zoo#3997: what a checkpoint may look like around the same weights."""
        import torch_files as torch
        net = Net()
        w, b = self.rng.integers(-8, 8, (6, 3, 3, 3)).astype(np.float32) / 8, self.rng.integers(-8, 8, 6).astype(np.float32) / 4
        net.output(net.op("Conv", [net.input("x", [1, 3, 5, 5]), net.const(np.zeros_like(w), "conv.weight"), net.const(np.zeros_like(b), "conv.bias")], "y"))
        model, x = net.save(), self.rng.standard_normal((1, 3, 5, 5)).astype(np.float32)
        want = convolve(x.astype(np.float64), w.astype(np.float64), (0, 0, 0, 0)) + b.reshape(1, -1, 1, 1)
        for what, save in checkpoints(torch, w, b).items():
            with self.subTest(what):
                path = TEMP / "weights.pth"
                save(path)
                np.testing.assert_allclose(run_octet(model, {"x": x}, "--weights", path)["y"], want, rtol=1e-5, atol=1e-5)

    def test_21_a_whole_module_is_refused(self):
        import torch_files as torch
        marker = TEMP / "executed"
        net = Net()
        net.output(net.op("Add", [net.input("x", [1]), net.const([0.], "w")]))
        module = torch.Call(torch.stand_in("torchvision.models.resnet", "ResNet", True), 3)
        code = torch.Call(os.system, f"touch {marker}")
        for what, value in (("torchvision.models.resnet.ResNet", module), ("system", code)):
            for save in (torch.save_zip, torch.save_legacy):
                save(TEMP / "module.pth", value)
                done = start("run", net.save(), "--weights", TEMP / "module.pth")
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("module.pth", done.stderr)
                self.assertIn(what, done.stderr)
                self.assertFalse(marker.exists())

    def test_31_movement_between_integers(self):
        """onnxruntime#14707: quantize - Transpose or Reshape - dequantize between integer layers."""
        def transpose(net):
            return lambda q: net.op("Transpose", [q], perm=[0, 2, 3, 1])

        def reshape(net):
            return lambda q: net.op("Reshape", [q, net.const([0, 8, 64], dtype=np.int64)])

        for what, between, shape in (("transpose", transpose, (8, 5)), ("reshape", reshape, (64, 5))):
            with self.subTest(what):
                net = Net()
                a = net.qdq(net.input("x", [2, 3, 8, 8]), .03, 128)
                y = net.op("Conv", [a, net.dequantized(self.rng.integers(-127, 128, (8, 3, 3, 3)).astype(np.int8), .004)], pads=[1] * 4)
                y = net.qdq(y, .05, 120, between=between(net))
                y = net.op("MatMul", [y, net.dequantized(self.rng.integers(-127, 128, shape).astype(np.int8), .004)])
                net.output(net.qdq(y, .06, 121))
                model, x = net.save(), self.rng.standard_normal((2, 3, 8, 8)).astype(np.float32)
                seen = inspect(model)
                self.assertEqual({o["op"]: o["type"] for o in seen["operators"] if o["op"] in ("conv", "matmul")}, {"conv": "int8", "matmul": "int8"})
                self.assertEqual(seen["boundaries"], 0, seen)
                got, want = run_octet(model, {"x": x}), run_ort(model, {"x": x})
                for name, w in want.items():
                    np.testing.assert_allclose(got[name], w, atol=.0601)
                    self.assertLess((got[name] != w).mean(), .02)


def checkpoints(torch, w, b):
    """The same two tensors as training scripts save them: name -> function that writes the file."""
    def stored(kind, code, array, values=None):
        return torch.tensor(torch.storage(kind, code, list(array.flat) if values is None else values), array.shape)

    plain = lambda prefix="": {prefix + "conv.weight": stored("FloatStorage", "f", w), prefix + "conv.bias": stored("FloatStorage", "f", b)}
    reduced = {"conv.weight": stored("HalfStorage", "e", w), "conv.bias": stored("BFloat16Storage", "H", b, torch.bfloat16(list(b.flat)))}
    turned = w.transpose(3, 1, 2, 0)  # as it lies in memory; the tensor is a view of it
    steps = [s // 4 for s in turned.strides] if turned.flags.c_contiguous else list(torch.row_major(turned.shape))
    strided = dict(plain(), **{"conv.weight": torch.tensor(torch.storage("FloatStorage", "f", list(turned.flat)), w.shape, [steps[3], steps[1], steps[2], steps[0]])})
    whole = {"epoch": 3, "state_dict": plain("module."), "optimizer": {"state": {}, "param_groups": [{"lr": .1}]}}
    values = {"plain": plain(), "module.": plain("module."), "state_dict": whole, "float16 and bfloat16": reduced, "strides": strided}
    writers = {f"{name}, zip": lambda path, v=value: torch.save_zip(path, v) for name, value in values.items()}
    writers.update({f"{name}, legacy": lambda path, v=value: torch.save_legacy(path, v) for name, value in values.items()})
    return writers


if __name__ == "__main__":
    unittest.main(verbosity=1)
