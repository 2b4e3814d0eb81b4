"""What the Python tests with ONNX and ONNX Runtime as judges share: small ONNX models, runs of both, the rules of numbers in numpy.
What starts the program is in program_checks.py, and is had from here, too.
SPDX-License-Identifier: MIT
"""
import json
import pathlib
import sys
import tempfile
import unittest

from program_checks import *  # noqa: F403
from program_checks import TEMP, limited, np, octet

try:
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ort.set_default_logger_severity(4)


def run_octet(model, feeds, *arguments, environment=None):
    """Outputs by name."""
    out = pathlib.Path(tempfile.mkdtemp(dir=TEMP))
    inputs = []
    for index, (name, array) in enumerate(feeds.items()):
        np.save(out / f"in{index}.npy", array)
        inputs += ["--input", f"{name}={out / f'in{index}.npy'}"]
    octet("run", model, *inputs, "--output-dir", out / "out", *arguments, environment=environment)
    return {f.stem: np.load(f) for f in (out / "out").glob("*.npy")}


def run_ort(model, feeds, optimized=False):
    options = ort.SessionOptions()
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


class Net:
    """A small ONNX model, node by node. Names of constants are given or made; `op` returns the name of its (first) output."""

    def __init__(self, opset=17, ir=8):
        self.opset, self.ir = opset, ir
        self.nodes, self.constants, self.inputs, self.outputs = [], [], [], []
        self.rng = np.random.default_rng(7)

    def input(self, name, shape, kind=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name, shape=None, kind=TensorProto.FLOAT):
        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def const(self, array, name=None, dtype=np.float32):
        name = name or f"k{len(self.constants)}"
        array = np.asarray(array) if isinstance(array, np.ndarray) else np.asarray(array, dtype)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def random(self, *shape, scale=None, name=None):
        scale = scale or 1 / np.sqrt(np.prod(shape[1:]) or 1)
        return self.const((self.rng.standard_normal(shape) * scale).astype(np.float32), name)

    def op(self, kind, inputs, out=None, **attributes):
        out = out or f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [out], name=out + "_node", **attributes))
        return out

    def conv(self, x, out_channels, in_channels, kernel=3, **attributes):
        group = attributes.get("group", 1)
        attributes.setdefault("pads", [kernel // 2] * 4)
        w = self.random(out_channels, in_channels // group, kernel, kernel)
        return self.op("Conv", [x, w, self.random(out_channels, scale=.2)], **attributes)

    def qdq(self, x, scale, zero_point, dtype=np.uint8, between=None):
        """quantize - dequantize around a value, with what `between` does to the integers."""
        s, z = self.const(scale), self.const(zero_point, dtype=dtype)
        q = self.op("QuantizeLinear", [x, s, z])
        return self.op("DequantizeLinear", [between(q) if between else q, s, z])

    def dequantized(self, array, scale, zero_point=None, axis=None):
        """A constant of integers behind a dequantize."""
        inputs = [self.const(array), self.const(scale)]
        if zero_point is not None:
            inputs.append(self.const(zero_point, dtype=array.dtype))
        return self.op("DequantizeLinear", inputs, **({} if axis is None else {"axis": axis}))

    def save(self, name="net.onnx"):
        graph = helper.make_graph(self.nodes, "net", self.inputs, self.outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=self.ir)
        path = TEMP / name
        onnx.save(model, str(path))
        return path


def quantize(model, samples, *arguments):
    """(path of the int8 form, the report). `samples`: an array or a dict of them, first dim counting."""
    out = model.with_name(model.stem + "-q.onnx")
    data = TEMP / "calibration.npz"
    if isinstance(samples, dict):
        np.savez(data, **samples)
    elif samples is not None:
        data = TEMP / "calibration.npy"
        np.save(data, samples)
    calibration = [] if samples is None else ["--calibration", data]
    return out, json.loads(octet("quantize", model, "-o", out, *calibration, *arguments, "--json"))


def compare(reference, quantized, samples):
    np.save(TEMP / "compare.npy", samples)
    return json.loads(octet("compare", reference, quantized, "--data", TEMP / "compare.npy", "--json"))


def inspect(model, environment=None):
    return json.loads(octet("inspect", model, "--json", environment=environment))


def layer_types(report):
    return {layer["name"]: layer["type"] for layer in report["layers"]}


def all_int8(report, ops=None):
    """The layers that are not int8 (of the operators `ops`; all unless told)."""
    return {l["name"]: (l["type"], l.get("reason")) for l in report["layers"] if l["type"] != "int8" and (ops is None or l["op"] in ops)}


def sqnr(got, want):
    want = np.asarray(want, np.float64)
    noise = np.square(np.asarray(got, np.float64) - want).sum()
    return np.inf if noise == 0 else 10 * np.log10(np.square(want).sum() / noise)


class Refusals(unittest.TestCase):
    """Tests of what the program must refuse; `out` is a folder in which nothing may be left."""

    def setUp(self):
        self.rng = np.random.default_rng(31)
        self.out = pathlib.Path(tempfile.mkdtemp(dir=TEMP))

    def refused(self, *arguments, parts=(), status=1):
        done = limited(*arguments)
        text = done.stdout + done.stderr
        self.assertEqual(done.returncode, status, f"octet {' '.join(map(str, arguments))}\n{text}")
        for part in parts:
            self.assertIn(part, done.stderr)
        self.assertEqual(sorted(p.name for p in self.out.iterdir()), [], "files were left behind")
        return done.stderr

    def refused_model(self, net, *parts, name="bad.onnx"):
        """The same refusal from every command that reads a model."""
        path = net.save(name) if isinstance(net, Net) else net
        for command in (("run", path), ("inspect", path), ("convert", path, self.out / "o.onnx"), ("quantize", path, "-o", self.out / "o.onnx", "--mode", "weight-only")):
            self.refused(*command, parts=parts)

    def small(self, name="small.onnx"):
        net = Net()
        x = net.op("Relu", [net.op("Conv", [net.input("x", ["N", 3, 8, 8]), net.random(4, 3, 3, 3, name="w"), net.random(4, name="b")], "c", pads=[1] * 4)], "r")
        net.output(net.op("Conv", [x, net.random(2, 4, 1, 1)], "y"))
        return net.save(name)

    def quantize_with(self, samples, *arguments, model=None):
        path = TEMP / "samples.npy"
        np.save(path, samples)
        return ("quantize", model or self.small(), "-o", self.out / "q.onnx", "--calibration", path, *arguments)


# ---- References: the rules of docs/numerics.md, in exact integers and float32 ----


def convolve(x, w, pads, strides=(1, 1), dilations=(1, 1), group=1):
    """NCHW convolution in the arrays' own arithmetic (int64 or float64); `pads` begin and end as in ONNX."""
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    span = [(w.shape[2 + i] - 1) * dilations[i] + 1 for i in (0, 1)]
    height, width = [(x.shape[2 + i] - span[i]) // strides[i] + 1 for i in (0, 1)]
    per = w.shape[0] // group
    out = np.zeros((x.shape[0], w.shape[0], height, width), x.dtype)
    for g in range(group):
        part = x[:, g * w.shape[1]:(g + 1) * w.shape[1]]
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                top, left = i * dilations[0], j * dilations[1]
                window = part[:, :, top:top + (height - 1) * strides[0] + 1:strides[0], left:left + (width - 1) * strides[1] + 1:strides[1]]
                out[:, g * per:(g + 1) * per] += np.einsum("nchw,oc->nohw", window, w[g * per:(g + 1) * per, :, i, j])
    return out


def quantized(x, scale, zero_point, dtype=np.uint8):
    info = np.iinfo(dtype)
    return np.clip(np.rint(np.asarray(x, np.float32) / np.float32(scale)) + zero_point, info.min, info.max).astype(np.int64)


def requantized(accumulator, multiplier, zero_point, dtype=np.uint8):
    """float32(acc) * m, half to even, + zero point, saturated; the product in double, rounded once to float32."""
    info = np.iinfo(dtype)
    product = (accumulator.astype(np.float32).astype(np.float64) * np.asarray(multiplier, np.float32).astype(np.float64)).astype(np.float32)
    return np.clip(np.rint(product) + zero_point, info.min, info.max).astype(np.int64)


def dequantized(q, scale, zero_point):
    return (q - zero_point).astype(np.float32) * np.float32(scale)


def multiplier(*scales):
    """(x scale * w scale) / y scale, each step in float32."""
    x, w, y = (np.asarray(s, np.float32) for s in scales)
    return (x * w) / y
