#!/usr/bin/env python3
"""Faults that users of other tools met, rebuilt as small ONNX models: what `quantize --json` and `compare --json` must say, and what must stay
right beside it. The number in a test's name is the case's; where each was seen stands beside it. Arithmetic and reading: test_cases.py.
SPDX-License-Identifier: MIT
"""
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cli_checks import *  # noqa: E402,F403


class Weights(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(21)

    def conv_net(self, w, b=None, kind="Conv", **attributes):
        net = Net()
        inputs = [net.input("x", ["N", w.shape[1] * attributes.get("group", 1), 9, 9]), net.const(w, "w")] + ([net.const(b, "b")] if b is not None else [])
        net.output(net.op(kind, inputs, "y", **attributes))
        return net.save()

    def test_01_a_bias_beyond_int32(self):
        """onnxruntime#22020, #25278"""
        w = self.rng.uniform(-1, 1, (2, 3, 1, 1)).astype(np.float32)
        w[1] *= 1e-7
        model = self.conv_net(w, np.array([5, -4.5], np.float32))
        data = self.rng.uniform(0, 127, (16, 3, 9, 9)).astype(np.float32)
        q, report = quantize(model, data)
        self.assertEqual(layer_types(report), {"y_node": "int8"})
        self.assertTrue([t for t in report["warnings"] if "y_node" in t and "scale" in t], report["warnings"])
        got, want = run_octet(q, {"x": data})["y"], run_ort(model, {"x": data})["y"]
        self.assertLess(np.abs(got[:, 1] - want[:, 1]).max(), 1e-3)
        self.assertGreater(sqnr(got, want), 35)

    def test_02_degenerate_channels(self):
        """coremltools#2853"""
        for what, channel in (("zeros", 0.), ("1e-6 in float16", float(np.float16(1e-6))), ("1e-30", 1e-30), ("denormals", 1e-41)):
            with self.subTest(what):
                w = self.rng.uniform(-1, 1, (3, 3, 3, 3)).astype(np.float32)
                w[1] = np.float32(channel)
                b = np.array([.5, -.25, 1], np.float32)
                model = self.conv_net(w, b)
                data = self.rng.uniform(-1, 1, (16, 3, 9, 9)).astype(np.float32)
                q, _ = quantize(model, data)
                for result in (run_octet(q, {"x": data})["y"], run_ort(q, {"x": data})["y"]):
                    self.assertTrue(np.isfinite(result).all())
                    self.assertLess(np.abs(result[:, 1] + .25).max(), 1e-4)

    def test_12_channels_of_different_size(self):
        """armnn#344"""
        w = (self.rng.uniform(-1, 1, (32, 1, 3, 3)) * 10.0 ** (-np.arange(32).reshape(-1, 1, 1, 1) / 8)).astype(np.float32)
        model = self.conv_net(w, group=32)
        data = self.rng.standard_normal((8, 32, 9, 9)).astype(np.float32)
        want = run_ort(model, {"x": data})["y"]

        def channel_sqnr(q):
            y = run_octet(q, {"x": data})["y"]
            return min(sqnr(y[:, c], want[:, c]) for c in range(32))

        q, _ = quantize(model, data)
        self.assertGreater(channel_sqnr(q), 30)
        self.assertFalse([t for t in compare(model, q, data)["warnings"] if "per tensor" in t])
        q, _ = quantize(model, data, "--per-tensor")
        self.assertLess(channel_sqnr(q), 10)
        self.assertTrue([t for t in compare(model, q, data)["warnings"] if "y_node" in t and "per tensor" in t])

    def test_16_scales_that_differ_100_times(self):
        """tflite-micro#2602: a fully connected layer with ten outputs."""
        net = Net()
        w = (self.rng.uniform(-1, 1, (10, 64)) * np.logspace(0, -2, 10).reshape(-1, 1)).astype(np.float32)
        net.output(net.op("Gemm", [net.input("x", ["N", 64]), net.const(w)], "y", transB=1))
        model, data = net.save(), self.rng.standard_normal((64, 64)).astype(np.float32)
        got, want = run_octet(quantize(model, data)[0], {"x": data})["y"], run_ort(model, {"x": data})["y"]
        for c in range(10):
            self.assertGreater(sqnr(got[:, c], want[:, c]), 30)

    def test_17_shared_weights_and_names(self):
        """onnxruntime#24705, #21277"""
        net = Net()
        w, b = net.random(4, 4, 3, 3, name="w"), net.random(4, name="b")
        net.const(np.ones(4, np.float32), "b0")
        x = net.op("Conv", [net.input("x", ["N", 4, 8, 8]), w, b], pads=[1] * 4)
        x = net.op("Sigmoid", [x])
        x = net.op("Conv", [x, w, b], pads=[1] * 4)
        net.output(net.op("Add", [x, net.op("Reshape", ["b0", net.const([1, 4, 1, 1], dtype=np.int64)])], "y"))
        model, data = net.save(), self.rng.standard_normal((16, 4, 8, 8)).astype(np.float32)
        q, report = quantize(model, data)
        self.assertEqual(all_int8(report, ("conv",)), {})
        self.assertGreater(sqnr(run_octet(q, {"x": data})["y"], run_ort(model, {"x": data})["y"]), 28)
        self.assertGreater(sqnr(run_ort(q, {"x": data})["y"], run_ort(model, {"x": data})["y"]), 28)
        weights = [i for i in onnx.load(str(q)).graph.initializer if i.data_type == TensorProto.INT8 and np.prod(i.dims) == 144]
        self.assertEqual(len(weights), 1)


class Data(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(22)

    def net(self):
        net = Net()
        x = net.op("Relu", [net.conv(net.input("x", ["N", 3, 8, 8]), 8, 3)])
        net.output(net.conv(x, 4, 8, 1), None)
        return net, net.save()

    def test_03_only_zeros(self):
        """aimet#4054, d2go#87"""
        net, model = self.net()
        q, report = quantize(model, np.zeros((1, 3, 8, 8), np.float32))
        self.assertTrue([t for t in report["warnings"] if '"x"' in t and "zeros" in t], report["warnings"])
        self.assertGreater(min(v["scale"] for v in report["values"]), 1e-9)
        done = start("quantize", model, "-o", TEMP / "none.onnx", "--mode", "int8")
        self.assertEqual(done.returncode, 1)
        self.assertIn("calibration data", done.stderr)
        self.assertFalse((TEMP / "none.onnx").exists())

    def test_04_unused_branch_and_initializer(self):
        """pytorch#28951"""
        net, _ = self.net()
        net.const(np.ones(5, np.float32), "unused")
        net.op("Conv", ["x", net.random(2, 3, 1, 1)], "dead")
        model = net.save()
        q, report = quantize(model, self.rng.standard_normal((8, 3, 8, 8)).astype(np.float32))
        self.assertEqual(report["warnings"], [])
        self.assertFalse([l for l in report["layers"] if "dead" in l["name"]])
        self.assertFalse([i.name for i in onnx.load(str(q)).graph.initializer if i.name == "unused"])

    def test_22_memory_does_not_grow_with_samples(self):
        """onnxruntime#10503"""
        import resource
        net = Net()
        x = net.input("x", ["N", 32])
        for _ in range(60):
            x = net.op("Relu", [net.op("Gemm", [x, net.random(32, 32), net.random(32)], transB=1)])
        net.output(net.op("Gemm", [x, net.random(4, 32)], transB=1))
        model = net.save("mlp.onnx")

        def peak(samples, observer):
            np.save(TEMP / "many.npy", self.rng.standard_normal((samples, 32)).astype(np.float32))
            code = "import resource,subprocess,sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
            done = subprocess.run([sys.executable, "-c", code, BINARY, "quantize", model, "-o", TEMP / "mlp-q.onnx", "--calibration", TEMP / "many.npy", "--samples", "0",
                                   "--observer", observer], capture_output=True, text=True, check=True)
            return int(done.stdout) * 1024

        for observer in ("minmax", "moving-average", "percentile", "kl", "mse"):
            with self.subTest(observer):  # the samples themselves are a mapped file: they may count, what is made of them may not
                self.assertLess(peak(4000, observer) - peak(50, observer), 4000 * 32 * 4 + (1 << 21 if not SANITIZED else 1 << 26))
        del resource

    def test_24_one_outlier(self):
        """pytorch/vision#2648: the report shows what clipping would gain, per observer."""
        net = Net()
        net.output(net.op("MatMul", [net.input("x", ["N", 100]), net.random(100, 8)], "y"))
        data = self.rng.standard_normal((1000, 100)).astype(np.float32)
        data[500, 50] = 400
        _, report = quantize(net.save(), data, "--samples", 0)
        value = next(v for v in report["values"] if v["name"] == "x")
        seen = value["observers"]
        self.assertEqual(set(seen), {"minmax", "moving-average", "percentile", "kl", "mse"})
        self.assertAlmostEqual(seen["minmax"]["high"], 400, delta=.01)
        for name, range_ in seen.items():  # against the error really made, in double
            self.assertIsNotNone(range_["sqnr_db"])
            scale = (range_["high"] - range_["low"]) / 255
            zero = np.rint(-range_["low"] / scale)
            q = np.clip(np.rint(data / scale) + zero, 0, 255)
            self.assertAlmostEqual(range_["sqnr_db"], sqnr((q - zero) * scale, data), delta=1.5, msg=name)
            self.assertAlmostEqual(range_["clipped"], ((data < range_["low"] - scale / 2) | (data > range_["high"] + scale / 2)).mean(), delta=5e-4, msg=name)
        self.assertLess(seen["percentile"]["high"], 10)
        self.assertGreaterEqual(seen["mse"]["sqnr_db"], max(o["sqnr_db"] for o in seen.values()) - .5)

    def test_25_run_outside_the_calibrated_range(self):
        """onnx2tf#610"""
        net, model = self.net()
        data = self.rng.uniform(0, 1, (32, 3, 8, 8)).astype(np.float32)
        q, _ = quantize(model, data)
        self.assertFalse([t for t in compare(model, q, data)["warnings"] if "outside" in t])
        wide = data * 255
        warnings = [t for t in compare(model, q, wide)["warnings"] if 'input "x"' in t and "outside" in t]
        self.assertEqual(len(warnings), 1)
        share = float(warnings[0].split(":")[1].split("%")[0])
        self.assertAlmostEqual(share, 100 * (wide > 1 + .5 / 255).mean(), delta=.5)


    def test_results_that_are_not_finite(self):
        """A logarithm near zero: what is NaN in one model only is counted and said, never averaged away."""
        net = Net()
        net.output(net.op("Log", [net.conv(net.input("x", ["N", 3, 8, 8]), 4, 3)], "y"))
        model, data = net.save(), self.rng.standard_normal((8, 3, 8, 8)).astype(np.float32)
        q, _ = quantize(model, data)
        report = compare(model, q, data)
        one, other = run_octet(model, {"x": data})["y"], run_octet(q, {"x": data})["y"]
        differ = int((~np.isfinite(one) | ~np.isfinite(other)).sum() - (np.isnan(one) & np.isnan(other)).sum() - (np.isinf(one) & (one == other)).sum())
        self.assertGreater(differ, 0)
        self.assertTrue([t for t in report["warnings"] if f'"y": {differ} of {one.size} ' in t], report["warnings"])
        self.assertEqual(report["outputs"][0]["sqnr_db"], "-inf")


class Operators(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(23)

    def between_convolutions(self, make, shape=(3, 8, 8), positive=False):
        """convolution - make(net, x) - convolution, quantized: (report of the conversion, SQNR against ONNX Runtime's float)."""
        net = Net()
        x = net.conv(net.input("x", ["N", *shape]), 8, shape[0])
        if positive:
            x = net.op("Relu", [x])
        net.output(net.conv(make(net, x), 6, 8))
        model, name = net.save(), net.outputs[0].name
        data = self.rng.standard_normal((16, *shape)).astype(np.float32) * 2
        q, report = quantize(model, data)
        want = run_ort(model, {"x": data})[name]
        self.assertGreater(sqnr(run_octet(q, {"x": data})[name], run_ort(q, {"x": data})[name]), 40)
        return report, sqnr(run_octet(q, {"x": data})[name], want), compare(model, q, data)

    def test_28_functions_between_integer_convolutions(self):
        """pytorch#98596, tensorflow#43985"""
        forms = {
            "leaky_relu": (lambda net, x: net.op("LeakyRelu", [x], alpha=.2), False),
            "hard_swish": (lambda net, x: net.op("HardSwish", [x]), False),
            "prelu": (lambda net, x: net.op("PRelu", [x, net.const(np.linspace(-.2, .5, 8, dtype=np.float32).reshape(8, 1, 1))]), False),
            "prelu, one slope": (lambda net, x: net.op("PRelu", [x, net.const(np.full((1, 1, 1), .3, np.float32))]), False),
            "pow": (lambda net, x: net.op("Pow", [x, net.const(2.)]), False),
            "sqrt": (lambda net, x: net.op("Sqrt", [x]), True),
        }
        for what, (make, positive) in forms.items():
            with self.subTest(what):
                report, decibel, compared = self.between_convolutions(make, positive=positive)
                self.assertEqual(all_int8(report, ("conv",)), {})
                floats = all_int8(report)
                self.assertEqual(sorted(floats), sorted(report["float_islands"]))  # table lookup, or a listed island with its reason
                self.assertTrue(all(reason for _, reason in floats.values()))
                if not what.startswith("prelu"):
                    self.assertEqual(report["float_islands"], [])
                    self.assertEqual(report["boundaries"], 0)
                self.assertEqual(compared["float_islands"], report["float_islands"])
                self.assertGreater(decibel, 22)

    def test_28_unknown_operators_are_named(self):
        net = Net()
        x = net.conv(net.input("x", [1, 3, 8, 8]), 4, 3)
        x = net.op("Foo", [net.op("Bar", [net.op("Foo", [x])])])
        net.output(net.conv(x, 4, 4))
        done = start("quantize", net.save("unknown.onnx"), "-o", TEMP / "u.onnx", "--mode", "dynamic")
        self.assertEqual(done.returncode, 1)
        for part in ("unknown.onnx", "Foo", "2", "Bar", "1"):
            self.assertIn(part, done.stderr)

    def test_29_squeeze_and_excite(self):
        """tvm#8243"""
        def excite(net, x):
            g = net.op("GlobalAveragePool", [x])
            return net.op("Mul", [x, net.op("Sigmoid", [net.conv(g, 8, 8, 1)])])

        report, decibel, compared = self.between_convolutions(excite)
        self.assertEqual(all_int8(report), {})
        self.assertEqual((report["boundaries"], compared["float_islands"]), (0, []))
        self.assertGreater(decibel, 25)

    def test_29_residual_of_another_scale(self):
        """tvm#2818"""
        for factor in (50., .02):
            with self.subTest(factor=factor):
                net = Net()
                x = net.conv(net.input("x", ["N", 3, 8, 8]), 8, 3)
                y = net.op("Conv", [x, net.const((self.rng.standard_normal((8, 8, 3, 3)) * factor / 8).astype(np.float32))], pads=[1] * 4)
                x = net.op("Relu", [net.op("Add", [x, y])])
                net.output(net.conv(x, 4, 8, 1))
                model, name = net.save(), net.outputs[0].name
                data = self.rng.standard_normal((16, 3, 8, 8)).astype(np.float32)
                q, report = quantize(model, data)
                self.assertEqual(all_int8(report), {})
                want = run_ort(model, {"x": data})[name]
                self.assertGreater(sqnr(run_octet(q, {"x": data})[name], want), 28)
                self.assertGreater(sqnr(run_ort(q, {"x": data})[name], want), 28)

    def test_07_08_activations_survive(self):
        """onnxruntime#11660, #9425, #20627: with signed symmetric output, and with that layer kept float."""
        forms = {"relu": lambda net, x: net.op("Relu", [x]), "clip": lambda net, x: net.op("Clip", [x, net.const(0), net.const(6)]),
                 "concat": lambda net, x: net.op("Concat", [net.op("Relu", [x]), net.op("Clip", [net.conv("x", 8, 3), net.const(-4), net.const(4)])], axis=1)}
        for what, make in forms.items():
            for more in ([], ["--symmetric"], ["--keep-float", "first"], ["--keep-float", "first", "--symmetric"]):
                with self.subTest(what, options=more):
                    net = Net()
                    x = net.op("Conv", [net.input("x", ["N", 3, 8, 8]), net.random(8, 3, 3, 3, scale=1)], "first", pads=[1] * 4)
                    net.nodes[-1].name = "first"
                    net.output(net.conv(make(net, x), 5, 16 if what == "concat" else 8))
                    model, name = net.save(), net.outputs[0].name
                    data = self.rng.standard_normal((16, 3, 8, 8)).astype(np.float32)
                    q, report = quantize(model, data, *more)
                    self.assertEqual(layer_types(report)["first"], "float" if "first" in more else "int8")
                    want = run_ort(model, {"x": data})[name]
                    for result in (run_octet(q, {"x": data}), run_ort(q, {"x": data}), run_ort(q, {"x": data}, optimized=True)):
                        self.assertGreater(sqnr(result[name], want), 24)

    def test_11_padding_of_every_kind_is_int8(self):
        """onnxruntime#11525"""
        for attributes in (dict(pads=[2, 1, 2, 1]), dict(pads=[0, 0, 1, 1]), dict(pads=[0, 0, 1, 1], strides=[2, 2]), dict(auto_pad="SAME_UPPER", strides=[2, 2]),
                           dict(auto_pad="SAME_LOWER", strides=[2, 2])):
            with self.subTest(**attributes):
                net = Net()
                net.output(net.op("Conv", [net.input("x", ["N", 3, 11, 8]), net.random(6, 3, 3, 3), net.random(6)], "y", **attributes))
                model, data = net.save(), self.rng.standard_normal((8, 3, 11, 8)).astype(np.float32) + 1
                q, report = quantize(model, data)
                self.assertEqual(layer_types(report), {"y_node": "int8"})
                self.assertEqual([l["type"] for l in compare(model, q, data)["layers"]], ["int8"])
                got = run_octet(q, {"x": data})["y"]
                self.assertGreater(sqnr(got, run_ort(model, {"x": data})["y"]), 33)
                self.assertGreater(sqnr(got, run_ort(q, {"x": data})["y"]), 60)

    def test_13_boxes_and_scores(self):
        """onnxruntime#14233, #10787"""
        net = Net()
        x = net.conv(net.input("x", ["N", 3, 8, 8]), 4, 3)
        boxes = net.op("Mul", [net.op("Sigmoid", [x]), net.const(640.)])
        scores = net.op("Sigmoid", [net.conv("x", 2, 3)])
        net.output(net.op("Concat", [boxes, scores], "y", axis=1))
        model, data = net.save(), self.rng.standard_normal((16, 3, 8, 8)).astype(np.float32) * 2
        for io in ("float", "uint8"):
            q, report = quantize(model, data, "--io", io)
            want = run_ort(model, {"x": data})["y"]
            self.assertEqual(all_int8(report, ("conv",)), {})
            if io == "float":
                self.assertGreater(sqnr(run_octet(q, {"x": data})["y"][:, 4:], want[:, 4:]), 25)
            joined = next(l for l in report["layers"] if l["op"] == "concat")
            self.assertEqual(joined["type"], "float")
            self.assertTrue(joined["reason"])

    def test_20_old_and_unnamed(self):
        """onnxruntime#3329, #1872: unnamed nodes, a convolution as output, initializers as inputs, shape chains."""
        net = Net(opset=8, ir=3)
        x = net.input("x", [2, 3, 8, 8])
        x = net.op("Relu", [net.conv(x, 4, 3)])
        shape = net.op("Shape", [x])
        first = net.op("Unsqueeze", [net.op("Gather", [shape, net.const(0, dtype=np.int64)], axis=0)], axes=[0])
        flat = net.op("Reshape", [x, net.op("Concat", [first, net.const([-1], dtype=np.int64)], axis=0)])
        net.output(net.op("Gemm", [flat, net.random(5, 256), net.random(5)], "scores", transB=1))
        net.output(net.conv(x, 2, 4), None)
        for node in net.nodes:
            node.name = ""
        for c in net.constants:
            net.inputs.append(helper.make_tensor_value_info(c.name, c.data_type, list(c.dims)))
        model, data = net.save(), self.rng.standard_normal((2, 3, 8, 8)).astype(np.float32)
        self.assertEqual([i["name"] for i in inspect(model)["inputs"]], ["x"])
        q, report = quantize(model, data)
        self.assertEqual(all_int8(report, ("conv", "gemm")), {})
        want, got = run_ort(model, {"x": data}), run_octet(q, {"x": data})
        for name, w in want.items():
            self.assertEqual(got[name].dtype, w.dtype)
            self.assertGreater(sqnr(got[name], w), 24)


class Names(unittest.TestCase):
    def test_bytes_that_are_no_text(self):
        """Names in a file may hold any bytes; JSON then has U+FFFD, and every layer is still there."""
        net = Net()
        net.output(net.op("Relu", [net.conv(net.input("xxxx", ["N", 3, 8, 8]), 4, 3)], "yyyy"))
        data = net.save("names.onnx").read_bytes()
        model = TEMP / os.fsdecode(b"bytes\xff.onnx")
        model.write_bytes(data.replace(b"xxxx", b"x\xc3\xa9\xff").replace(b"yyyy", b"yy\xe2\x82"))
        seen = inspect(model)
        self.assertEqual([v["name"] for v in seen["inputs"] + seen["outputs"]], ["x\u00e9\ufffd", "yy\ufffd\ufffd"])
        self.assertEqual([o["op"] for o in seen["operators"]], ["conv", "relu"])
        q = TEMP / os.fsdecode(b"bytes\xfe-q.onnx")
        np.save(TEMP / "names.npy", np.random.default_rng(1).standard_normal((4, 3, 8, 8)).astype(np.float32))
        report = json.loads(octet("quantize", model, "-o", q, "--calibration", TEMP / "names.npy", "--json"))
        self.assertIn("conv", [l["op"] for l in report["layers"]])
        self.assertTrue(report["output"].endswith("bytes\ufffd-q.onnx"))
        self.assertTrue(json.loads(octet("compare", model, q, "--data", TEMP / "names.npy", "--json"))["layers"])
        self.assertTrue(json.loads(octet("compare", model, q, "--speed", "--seconds", 0.01, "--json"))["layers"])
        bench = json.loads(octet("bench", model, "--seconds", 0.01, "--layers", "--json"))
        self.assertEqual(bench["model"], "bytes\ufffd.onnx")
        self.assertIn("conv", "".join(s["layer"] for s in bench["steps"]))
        for line in octet("run", model, "--profile", "--json").splitlines():
            self.assertTrue(json.loads(line))


class HalfPrecision(unittest.TestCase):
    """Case 27, onnxconverter-common#323, TensorRT#4175: what leaves float16 stays float, and is reported; never a NaN."""

    def check(self, net, data):
        model, name = net.save(), net.outputs[0].name
        q, report = quantize(model, None, "--mode", "fp16")
        got, want = run_octet(q, {"x": data})[name], run_ort(model, {"x": data})[name]
        self.assertFalse(np.isnan(got).any())
        finite = np.isfinite(want)
        np.testing.assert_array_equal(got[~finite], want[~finite])
        np.testing.assert_allclose(got[finite], want[finite], rtol=2e-3, atol=1e-3 * np.abs(want[finite]).max())
        np.testing.assert_allclose(run_ort(q, {"x": data})[name][finite], want[finite], rtol=2e-3, atol=1e-3 * np.abs(want[finite]).max())
        return report

    def test_27_a_weight_of_1e5(self):
        net = Net()
        w = np.random.default_rng(1).uniform(-1, 1, (3, 4)).astype(np.float32)
        w[1, 2] = 1e5
        net.output(net.op("MatMul", [net.input("x", ["N", 3]), net.const(w, "heavy")]))
        report = self.check(net, np.ones((2, 3), np.float32))
        self.assertEqual([l["type"] for l in report["layers"] if l["op"] == "matmul"], ["float"])
        self.assertTrue([t for t in report["warnings"] if "heavy" in t] or [l for l in report["layers"] if "65504" in (l.get("reason") or "") or "float16" in (l.get("reason") or "")])

    def test_27_sums_beyond_65504(self):
        net = Net()
        net.output(net.op("ReduceMean", [net.op("Mul", [net.input("x", [1, 1, 512, 512]), net.const(1.)])], axes=[2, 3], keepdims=0))
        self.check(net, np.full((1, 1, 512, 512), 10, np.float32))
        net = Net()
        net.output(net.op("LayerNormalization", [net.input("x", [4, 512]), net.random(512), net.random(512)], axis=-1))
        self.check(net, np.where(np.arange(2048).reshape(4, 512) % 2, 300, -300).astype(np.float32))
        net = Net()
        x = net.input("x", [4, 512])
        centered = net.op("Sub", [x, net.op("ReduceMean", [x], axes=[-1])])
        squared = net.op("ReduceMean", [net.op("Pow", [centered, net.const(2.)])], axes=[-1])
        net.output(net.op("Div", [centered, net.op("Sqrt", [net.op("Add", [squared, net.const(1e-5)])])]))
        self.check(net, np.where(np.arange(2048).reshape(4, 512) % 2, 300, -300).astype(np.float32))

    def test_27_a_constant_that_would_vanish(self):
        net = Net()
        x = net.input("x", [2, 3])
        net.output(net.op("Div", [x, net.op("Max", [x, net.const(1e-12)])]))
        self.check(net, np.array([[0, 1, 2], [0, 0, 4]], np.float32))

    def test_27_a_mask_of_minus_infinity(self):
        net = Net()
        mask = np.array([[0, -np.inf, 0], [0, 0, -np.inf], [-np.inf, 0, 0]], np.float32)
        scores = net.op("MatMul", [net.input("x", [3, 3]), net.random(3, 3)])
        net.output(net.op("Softmax", [net.op("Add", [scores, net.const(mask)])], axis=-1))
        self.check(net, np.eye(3, dtype=np.float32))


if __name__ == "__main__":
    unittest.main(verbosity=1)
