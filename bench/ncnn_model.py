"""ncnn's form of an ONNX model: in float as its converter pnnx writes it, and in 8 bits.

ncnn's own tools for 8 bits (ncnn2table, ncnn2int8) are not in its Python package; what they write is written here: scales from the largest magnitude (of the
calibration images for a layer's input, of each channel for weights), int8 weights, and no float between two convolutions that follow each other.
A layer that is not listed in WEIGHTED keeps float, as with the tools. SPDX-License-Identifier: MIT
"""
import dataclasses
import importlib.util
import os
import pathlib
import subprocess
import tempfile

import numpy as np

MAGIC, INT8_TAG = 7767517, 0x000D4B38
CONVOLUTIONS = ("Convolution", "ConvolutionDepthWise")
WEIGHTED = (*CONVOLUTIONS, "InnerProduct")
# ncnn's numbers of parameters
OUTPUTS, KERNEL_W, DILATION_W, STRIDE_W, BIAS, WEIGHTS, GROUPS, INT8_TERM, KERNEL_H = 0, 1, 2, 3, 5, 6, 7, 8, 11
INNER_PRODUCT = {BIAS: 1, WEIGHTS: 2}  # where they differ from a convolution's
REQUANTIZED = 100                      # added to INT8_TERM: the output is int8 too


@dataclasses.dataclass
class Layer:
    kind: str
    name: str
    inputs: list
    outputs: list
    parameters: dict  # number: text
    arrays: list = dataclasses.field(default_factory=list)  # a convolution's or product's weights and, where it has one, bias
    raw: bytes = b""  # other data

    def number(self, key, default=0):
        return int(self.parameters.get(INNER_PRODUCT.get(key, key) if self.kind == "InnerProduct" else key, default))

    def line(self):
        parameters = (f"{k}={v}" for k, v in self.parameters.items())
        return " ".join([self.kind, self.name, str(len(self.inputs)), str(len(self.outputs)), *self.inputs, *self.outputs, *parameters])


def shape_text(array):
    return "[" + ",".join(map(str, (1, *array.shape[1:]))) + "]"


def converted(model, array):
    """(param, bin) of the float form for one image, kept beside the model."""
    param, data = model.with_suffix(".ncnn.param"), model.with_suffix(".ncnn.bin")
    if param.exists() and data.exists() and min(param.stat().st_mtime, data.stat().st_mtime) >= model.stat().st_mtime:
        return param, data
    found = importlib.util.find_spec("pnnx")  # its Python side imports PyTorch; the program does without
    if not found:
        raise RuntimeError("pnnx is not installed")
    program = pathlib.Path(found.origin).parent / "pnnx"
    with tempfile.TemporaryDirectory(dir=model.parent) as folder:
        folder = pathlib.Path(folder)
        source = folder / "model.onnx"
        source.symlink_to(model.resolve())
        done = subprocess.run([os.fspath(program), source.name, f"inputshape={shape_text(array)}", "fp16=0"], cwd=folder, capture_output=True, text=True)
        made = folder / "model.ncnn.param", folder / "model.ncnn.bin"
        if done.returncode or not all(p.exists() for p in made):
            raise RuntimeError(f"pnnx cannot convert it (status {done.returncode})")
        os.replace(made[1], data)
        os.replace(made[0], param)
    return param, data


# ---- Reading -------------------------------------------------------------------------------------------------------

def read_layer(line):
    kind, name, inputs, outputs, *rest = line.split()
    inputs, outputs = int(inputs), int(outputs)
    names, rest = rest[:inputs + outputs], rest[inputs + outputs:]
    return Layer(kind, name, names[:inputs], names[inputs:], {int(k): v for k, v in (p.split("=", 1) for p in rest)})


class Data:
    """The file of weights, read from its beginning: 4-byte words."""

    def __init__(self, path):
        self.bytes, self.at = path.read_bytes(), 0

    def take(self, count):
        self.at += count
        if self.at > len(self.bytes):
            raise RuntimeError("the weights end early")
        return self.bytes[self.at - count:self.at]

    def floats(self, count, tagged):
        if tagged and self.take(4) != bytes(4):
            raise RuntimeError("weights that are not float32")
        return np.frombuffer(self.take(4 * count), np.float32)


def read_network(param, data):
    lines = param.read_text().split("\n")
    layers = [read_layer(line) for line in lines[2:] if line.strip()]
    left = Data(data)
    for layer in layers:
        if layer.kind in WEIGHTED:
            layer.arrays = [left.floats(layer.number(WEIGHTS), tagged=True)]
            if layer.number(BIAS):
                layer.arrays.append(left.floats(layer.number(OUTPUTS), tagged=False))
        elif layer.kind == "MemoryData":
            count = int(np.prod([int(v) for k, v in layer.parameters.items() if k in (0, 1, 2, 11) and int(v)]))
            layer.raw = left.take(4 * count + (0 if int(layer.parameters.get(21, 1)) else 4))
    if left.at != len(left.bytes):
        raise RuntimeError("it has weights in layers other than " + ", ".join(WEIGHTED))
    return lines[1], layers


# ---- Eight bits ----------------------------------------------------------------------------------------------------

def network(param, data, threads, light=True):
    import ncnn
    net = ncnn.Net()
    net.opt.num_threads = threads
    net.opt.lightmode = light
    net.opt.use_vulkan_compute = False
    for kind in ("fp16", "bf16"):
        for use in ("packed", "storage", "arithmetic"):
            if hasattr(net.opt, f"use_{kind}_{use}"):
                setattr(net.opt, f"use_{kind}_{use}", False)
    if net.load_param(os.fspath(param)) or net.load_model(os.fspath(data)):
        raise RuntimeError("ncnn cannot load it")
    return net


def largest_inputs(param, data, layers, images):
    """By layer: the largest magnitude of its input over the images."""
    import ncnn
    net, found = network(param, data, 1, light=False), {}
    for image in images:
        run = net.create_extractor()
        run.input(net.input_names()[0], ncnn.Mat(image))
        for layer in layers:
            status, blob = run.extract(layer.inputs[0])
            if status:
                raise RuntimeError("ncnn cannot run it")
            found[layer.name] = max(found.get(layer.name, 0), float(np.abs(np.array(blob)).max()))
    return found


def weight_scales(layer):
    rows = layer.arrays[0].reshape(layer.number(GROUPS, 1) if layer.kind == "ConvolutionDepthWise" else layer.number(OUTPUTS), -1)
    shape = [layer.number(key, 1) for key in (KERNEL_W, KERNEL_H, STRIDE_W, DILATION_W)]
    winograd = layer.kind == "Convolution" and shape == [3, 3, 1, 1]
    largest = np.maximum(np.abs(rows).max(axis=1), 1e-30)
    return rows, ((31 if winograd else 127) / largest).astype(np.float32)  # ncnn's Winograd kernels have sums of 16 bits: weights of 6 bits


def next_convolutions(layers, layer):
    """The convolutions that take its output, when none but convolutions do."""
    users = [u for u in layers if layer.outputs[0] in u.inputs]
    if len(users) == 1 and users[0].kind == "Split":
        users = [u for u in layers if set(u.inputs) & set(users[0].outputs)]
    return users if users and all(u.kind in CONVOLUTIONS for u in users) else []


def int8_bytes(layer, input_scale, output_scale):
    rows, scales = weight_scales(layer)
    weights = np.clip(np.rint(rows * scales[:, None]), -127, 127).astype(np.int8).tobytes()
    parts = [np.uint32(INT8_TAG).tobytes(), weights, bytes(-len(weights) % 4), *(b.tobytes() for b in layer.arrays[1:]), scales.tobytes(),
             np.float32(input_scale).tobytes()]
    if output_scale:
        parts.append(np.float32(output_scale).tobytes())
    return b"".join(parts)


def quantized(param, data, images):
    """(param, bin) of the int8 form, kept beside the float one."""
    made = tuple(p.with_name(p.name.replace(".ncnn.", "-int8.ncnn.")) for p in (param, data))
    if all(p.exists() and p.stat().st_mtime >= param.stat().st_mtime for p in made):
        return made
    counts, layers = read_network(param, data)
    weighted = [layer for layer in layers if layer.kind in WEIGHTED]
    scale = {k: 127 / max(v, 1e-30) for k, v in largest_inputs(param, data, weighted, images).items()}
    blob = b""
    for layer in layers:
        if layer.kind not in WEIGHTED:
            blob += layer.raw
            continue
        after = next_convolutions(layers, layer) if layer.kind in CONVOLUTIONS else []
        layer.parameters[INT8_TERM] = (1 if layer.kind == "ConvolutionDepthWise" else 2) + (REQUANTIZED if after else 0)
        blob += int8_bytes(layer, scale[layer.name], scale[after[0].name] if after else None)
    made[1].write_bytes(blob)
    made[0].write_text(f"{MAGIC}\n{counts}\n" + "\n".join(layer.line() for layer in layers) + "\n")
    return made


def call(files, array, threads):
    """Runs one image."""
    import ncnn
    net = network(*files, threads)
    (name,), outputs = net.input_names(), net.output_names()
    image = ncnn.Mat(np.ascontiguousarray(array[0])).clone()  # in ncnn's own memory: a borrowed input crashes where the first layer works in place

    def run():
        extractor = net.create_extractor()
        extractor.input(name, image)
        for output in outputs:
            if extractor.extract(output)[0]:
                raise RuntimeError("ncnn cannot run it")
    return run
