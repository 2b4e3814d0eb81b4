"""The models that are measured, made or taken once and kept in build/versus-models; ../shared/data has the real ones.

ResNet18 has seeded random weights: it serves speed only. SPDX-License-Identifier: MIT
"""
import pathlib
import subprocess

import numpy as np
import onnx
from onnx import helper, numpy_helper

from octet_library import PROGRAM, ROOT

DATA = ROOT.parent / "shared/data"
KEPT = ROOT / "build/versus-models"
REAL = {"efficientnet-lite0": "efficientnet-lite0/efficientnet-lite0.onnx", "resnet20": "resnet-cifar10/resnet20.onnx",
        "rfb-320": "ultraface/version-RFB-320.onnx", "super-resolution": "onnx-zoo-small/super_resolution_10/model.onnx",
        "minilm": "minilm/minilm-l3-sentiment.onnx"}
PEER_IMAGES = 4  # for the calibration of the peers' int8 forms: the first of those for Octet's
NAMES = ["resnet18", "efficientnet-lite0", "resnet20", "rfb-320", "super-resolution", "mnist", "minilm"]


def save_graph(nodes, name, inputs, outputs, constants, path):
    graph = helper.make_graph(nodes, name, inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, str(path))


def resnet18(path):
    rng = np.random.default_rng(0)
    nodes, constants = [], []

    def constant(name, array):
        constants.append(numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name))
        return name

    def op(kind, inputs, name, **attributes):
        nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def conv(x, inputs, outputs, kernel, stride, pad, name):
        w = constant(name + ".w", rng.standard_normal((outputs, inputs, kernel, kernel)) * np.sqrt(2 / (inputs * kernel * kernel)))
        y = op("Conv", [x, w], name, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)
        norm = [constant(f"{name}.{k}", v) for k, v in (("g", rng.uniform(.8, 1.2, outputs)), ("b", rng.normal(0, .1, outputs)),
                                                        ("m", rng.normal(0, .1, outputs)), ("v", rng.uniform(.8, 1.2, outputs)))]
        return op("BatchNormalization", [y] + norm, name + ".bn")

    x = op("Relu", [conv("input", 3, 64, 7, 2, 3, "conv1")], "relu1")
    x = op("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    width = 64
    for stage, outputs in enumerate((64, 128, 256, 512)):
        for block in range(2):
            name, stride = f"s{stage}b{block}", 2 if stage and not block else 1
            y = op("Relu", [conv(x, width, outputs, 3, stride, 1, name + ".1")], name + ".r")
            y = conv(y, outputs, outputs, 3, 1, 1, name + ".2")
            short = x if stride == 1 and width == outputs else conv(x, width, outputs, 1, stride, 0, name + ".d")
            x, width = op("Relu", [op("Add", [y, short], name + ".a")], name + ".o"), outputs
    x = op("Flatten", [op("GlobalAveragePool", [x], "gap")], "flat")
    op("Gemm", [x, constant("fc.w", rng.standard_normal((1000, 512)) * np.sqrt(2 / 512)), constant("fc.b", np.zeros(1000))], "output", transB=1)
    info = helper.make_tensor_value_info
    save_graph(nodes, "resnet18", [info("input", 1, ["N", 3, 224, 224])], [info("output", 1, ["N", 1000])], constants, path)


def one_relu(path):
    info = helper.make_tensor_value_info
    save_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", [info("x", 1, [1, 16])], [info("y", 1, [1, 16])], [], path)


def free_batch(source, path):
    """A copy whose inputs and outputs have a free first dimension."""
    model = onnx.load(str(source))
    known = {t.name for t in model.graph.initializer}
    for i in model.graph.input:
        if i.name not in known:
            i.type.tensor_type.shape.dim[0].dim_param = "N"
    for o in model.graph.output:
        if o.type.tensor_type.shape.dim:
            o.type.tensor_type.shape.dim[0].dim_param = "N"
    del model.graph.value_info[:]
    onnx.save(model, str(path))


def inputs_of(path, batch, length=64):
    """Seeded inputs by name: floats from 0 to 1; token numbers; masks of ones. A second unknown dimension is `length`."""
    graph = onnx.load(str(path), load_external_data=False).graph
    known = {t.name for t in graph.initializer}
    rng, feed = np.random.default_rng(0), {}
    for i in graph.input:
        if i.name in known:
            continue
        dims = [d.dim_value if d.dim_value > 0 and k else batch if k == 0 else length for k, d in enumerate(i.type.tensor_type.shape.dim)]
        if i.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            feed[i.name] = rng.random(dims, np.float32)
        else:
            dtype = helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)
            feed[i.name] = np.ones(dims, dtype) if "mask" in i.name else rng.integers(1, 1000, dims).astype(dtype)
    return feed


def quantize_peer(source, target, batches):
    """ONNX Runtime's quantize_static as its documentation advises for VNNI: QDQ, u8 activations, s8 weights per channel."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process
    prepared = pathlib.Path(f"{target}.pre")
    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = iter(batches)

        def get_next(self):
            return next(self.left, None)

    quantize_static(str(prepared), str(target), Reader(), quant_format=QuantFormat.QDQ, per_channel=True, activation_type=QuantType.QUInt8,
                    weight_type=QuantType.QInt8)
    prepared.unlink()


class Models:
    """float(name), int8(name), dynamic(name): paths of (Octet's, the peers') files."""

    def __init__(self, data=DATA, kept=KEPT, program=PROGRAM, fresh=False):
        self.data, self.kept, self.program, self.fresh, self.made = pathlib.Path(data), pathlib.Path(kept), str(program), fresh, set()
        self.kept.mkdir(parents=True, exist_ok=True)

    def names(self):
        return [n for n in NAMES if n not in REAL or (self.data / REAL[n]).exists()]

    def octet(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"octet {' '.join(map(str, arguments))}: {done.stderr.strip()}")

    def path(self, file, make, ours=False):
        """The kept file, made when it is missing, when all are to be made anew, or (`ours`) when the program is newer."""
        path = self.kept / file
        stale = ours and path.exists() and path.stat().st_mtime < pathlib.Path(self.program).stat().st_mtime
        if file not in self.made and (self.fresh or stale or not path.exists()):
            make(path)
        self.made.add(file)
        return path

    def make_float(self, name, path):
        if name == "resnet18":
            resnet18(path)
        elif name == "mnist":
            self.octet("convert", ROOT / "examples/mnist/mnist.oct", path)
        elif name == "minilm":
            path.write_bytes((self.data / REAL[name]).read_bytes())
        else:
            free_batch(self.data / REAL[name], path)
            if max(o.version for o in onnx.load(path, load_external_data=False).opset_import) < 13:
                self.octet("convert", path, path)  # the peers' quantizer needs scales per channel, which came with operator set 13

    def float(self, name):
        path = self.path(f"{name}.onnx", lambda p: self.make_float(name, p))
        return path, path

    def samples(self, name, count):
        return inputs_of(self.float(name)[0], count)

    def calibration(self, name, count=16):
        def make(path):
            np.save(path, next(iter(self.samples(name, count).values())))
        return self.path(f"{name}-calibration{count}.npy", make)

    def int8(self, name):
        source = self.float(name)[0]
        data = self.calibration(name)
        feed = self.samples(name, PEER_IMAGES)
        ours = self.path(f"{name}-int8.onnx", lambda p: self.octet("quantize", source, "-o", p, "--calibration", data), ours=True)
        pieces = [{k: v[i:i + 1] for k, v in feed.items()} for i in range(PEER_IMAGES)]
        return ours, self.path(f"{name}-peer-int8.onnx", lambda p: quantize_peer(source, p, pieces))

    def dynamic(self, name):
        def peer(path):
            from onnxruntime.quantization import QuantType, quantize_dynamic
            quantize_dynamic(str(source), str(path), weight_type=QuantType.QInt8)
        source = self.float(name)[0]
        ours = self.path(f"{name}-dynamic.onnx", lambda p: self.octet("quantize", source, "-o", p, "--mode", "dynamic"), ours=True)
        return ours, self.path(f"{name}-peer-dynamic.onnx", peer)

    def form(self, name, kind):
        return {"float": self.float, "int8": self.int8, "dynamic": self.dynamic}[kind](name)
