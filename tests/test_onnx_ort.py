#!/usr/bin/env python3
"""ONNX Runtime as outside judge: the models it reads, Octet computes alike; what Octet writes, it loads and computes alike.

Reads OCTET_BINARY, OCTET_SOURCE_DIR, OCTET_BUILD_DIR. Models in ../shared/data beside the project are used when present.
SPDX-License-Identifier: MIT
"""
import gzip
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cli_checks import MNIST, SOURCE, TEMP, TensorProto, helper, np, numpy_helper, octet, onnx, ort  # noqa: E402

DATA = SOURCE.parent / "shared" / "data"


def run_octet(model, feeds, names):
    out = TEMP / "out"
    inputs = []
    for name, array in feeds.items():
        path = TEMP / (name.replace("/", "_") + ".npy")
        np.save(path, array)
        inputs += ["--input", f"{name}={path}"]
    octet("run", model, *inputs, "--output-dir", out)
    return [np.load(out / (n.replace("/", "_").replace(":", "_").replace("\\", "_") + ".npy")) for n in names]


def session(model, optimized=False):
    options = ort.SessionOptions()
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def feeds_for(s, batch=1, seed=0):
    rng = np.random.default_rng(seed)
    feeds = {}
    for i in s.get_inputs():
        shape = [d if isinstance(d, int) else batch for d in i.shape]
        feeds[i.name] = rng.uniform(0, 1, shape).astype(np.float32)
    return feeds


def names_of(s):
    return [o.name for o in s.get_outputs()]


def close(got, want, share, what):
    """The largest difference, at most `share` of the largest output."""
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape and g.dtype == w.dtype, (what, g.shape, w.shape, g.dtype, w.dtype)
        error, largest = np.abs(g.astype(np.float64) - w).max(), np.abs(w).max()
        assert error <= share * largest, f"{what}: differs by {error} of {largest}"


def small_cnn(path, opset=17):
    """Convolution, depthwise convolution, residual add, squeeze and excite, pooling, dense; seeded weights."""
    rng = np.random.default_rng(3)
    nodes, weights = [], []

    def w(name, *shape):
        weights.append(numpy_helper.from_array((rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) or 1)).astype(np.float32), name))
        return name

    def op(kind, inputs, out, **attributes):
        nodes.append(helper.make_node(kind, inputs, [out], **attributes))
        return out

    x = op("Relu", [op("Conv", ["image", w("w1", 8, 3, 3, 3), w("b1", 8)], "c1", pads=[1] * 4, strides=[2, 2])], "r1")
    y = op("Relu", [op("Conv", [x, w("w2", 8, 1, 3, 3), w("b2", 8)], "c2", pads=[1] * 4, group=8)], "r2")
    y = op("Conv", [y, w("w3", 8, 8, 1, 1), w("b3", 8)], "c3")
    x = op("Relu", [op("Add", [x, y], "a1")], "r3")
    g = op("GlobalAveragePool", [x], "g1")
    g = op("Sigmoid", [op("Conv", [g, w("w4", 8, 8, 1, 1), w("b4", 8)], "c4")], "s1")
    x = op("MaxPool", [op("Mul", [x, g], "m1")], "p1", kernel_shape=[2, 2], strides=[2, 2])
    x = op("AveragePool", [x], "p2", kernel_shape=[2, 2], strides=[2, 2])
    x = op("Flatten", [x], "f1")
    op("Gemm", [x, w("w5", 10, 72), w("b5", 10)], "scores", transB=1)
    graph = helper.make_graph(nodes, "small", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, 24, 24])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 10])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), str(path))


def mnist_images(count):
    raw = gzip.open(MNIST / "t10k-images-idx3-ubyte.gz").read()
    return np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 1, 28, 28)[:count].astype(np.float32) / np.float32(255)


class Float(unittest.TestCase):
    def check_model(self, model, share=1e-4):
        s = session(model)
        feeds = feeds_for(s)
        want = s.run(None, feeds)
        close(run_octet(model, feeds, names_of(s)), want, share, model)
        written = TEMP / "written.onnx"
        octet("convert", model, written)
        onnx.checker.check_model(onnx.load(str(written)), full_check=True)
        again = session(written)
        self.assertEqual(names_of(again), names_of(s))
        close(again.run(None, feeds), want, 1e-5, f"{model} as written")

    def test_small_cnn(self):
        for opset in (8, 11, 13, 17, 22):
            with self.subTest(opset=opset):
                small_cnn(TEMP / "small.onnx", opset)
                self.check_model(TEMP / "small.onnx")

    def test_shared_models(self):
        for name in ("resnet-cifar10/resnet20.onnx", "efficientnet-lite0/efficientnet-lite0.onnx", "onnx-zoo-small/mnist_8/model.onnx",
                     "onnx-zoo-small/super_resolution_10/model.onnx", "ultraface/version-RFB-320.onnx"):
            if not (DATA / name).exists():
                print(f"skipped: {name} is not there")
                continue
            with self.subTest(name=name):
                self.check_model(DATA / name)


class Quantized(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        small_cnn(TEMP / "small.onnx")
        np.save(TEMP / "calibration.npy", np.random.default_rng(5).uniform(0, 1, (64, 3, 24, 24)).astype(np.float32))

    def quantize(self, mode, *more):
        out = TEMP / f"small-{mode}.onnx"
        calibration = ["--calibration", TEMP / "calibration.npy"] if mode == "int8" else []
        octet("quantize", TEMP / "small.onnx", "-o", out, "--mode", mode, *calibration, *more)
        model = onnx.load(str(out))
        onnx.checker.check_model(model, full_check=True)
        return out, [n.op_type for n in model.graph.node], {i.name: i.data_type for i in model.graph.initializer}

    def both(self, model, share, optimized=False, batch=4):
        s = session(model, optimized)
        feeds = feeds_for(s, batch, seed=9)
        close(run_octet(model, feeds, names_of(s)), s.run(None, feeds), share, model)

    def test_int8(self):
        model, ops, kinds = self.quantize("int8")
        self.assertGreaterEqual(ops.count("QuantizeLinear"), 10)
        self.assertIn(TensorProto.INT8, kinds.values())
        self.assertIn(TensorProto.INT32, kinds.values())
        self.both(model, .01)
        self.both(model, .02, optimized=True)
        s, f = session(model), session(TEMP / "small.onnx")
        feeds = feeds_for(s, 4, seed=9)
        close(s.run(None, feeds), f.run(None, feeds), .1, "int8 against float")

    def test_weight_only(self):
        model, ops, kinds = self.quantize("weight-only")
        self.assertNotIn("QuantizeLinear", ops)
        self.assertIn("DequantizeLinear", ops)
        self.assertIn(TensorProto.INT8, kinds.values())
        self.both(model, 1e-4)

    def test_fp16(self):
        model, ops, kinds = self.quantize("fp16")
        self.assertIn("Cast", ops)
        self.assertIn(TensorProto.FLOAT16, kinds.values())
        self.both(model, 1e-4)

    def test_dynamic(self):
        """Batch 1, where the range of a sample is that of the tensor. Octet reads the integer operators back as they are."""
        model, ops, _ = self.quantize("dynamic")
        self.assertIn("DynamicQuantizeLinear", ops)
        self.assertIn("MatMulInteger", ops)
        self.both(model, .02, batch=1)
        s, f = session(model), session(TEMP / "small.onnx")
        feeds = feeds_for(s, 1, seed=9)
        close(s.run(None, feeds), f.run(None, feeds), .1, "dynamic against float")


class Digits(unittest.TestCase):
    """The MNIST network in int8: the same class for every digit, the last layer within one quantization step."""

    def test_int8(self):
        model = TEMP / "m8.onnx"
        octet("quantize", MNIST / "mnist.oct", "-o", model, "--mode", "int8", "--calibration", MNIST / "train10k-images-idx3-ubyte.gz", "--samples", 1000)
        self.assertLessEqual(model.stat().st_size, 8192)
        onnx.checker.check_model(onnx.load(str(model)), full_check=True)
        s, images = session(model), mnist_images(10000)
        name = s.get_inputs()[0].name
        labels = np.frombuffer(gzip.open(MNIST / "t10k-labels-idx1-ubyte.gz").read(), np.uint8, offset=8)
        theirs = np.concatenate([s.run(None, {name: images[i:i + 1000]})[0] for i in range(0, 10000, 1000)])
        ours = np.concatenate([run_octet(model, {name: images[i:i + 1000]}, names_of(s))[0] for i in range(0, 10000, 1000)])
        self.assertEqual(int((ours.argmax(1) != theirs.argmax(1)).sum()), 0)
        close([ours], [theirs], .02, "m8.onnx")
        result = json.loads(octet("eval", model, "--data", MNIST / "t10k-images-idx3-ubyte.gz", "--labels", MNIST / "t10k-labels-idx1-ubyte.gz", "--json").splitlines()[-1])
        self.assertEqual(result["correct"], int((theirs.argmax(1) == labels).sum()))


if __name__ == "__main__":
    unittest.main(verbosity=1)
