"""TensorFlow Lite models of the convolutional networks, for timing LiteRT: written with LiteRT's own schema from Octet's quantized ONNX files.

No TensorFlow is needed. What is made does the same work as the ONNX model and serves speed only: padding is SAME wherever that gives the same sizes (one pixel
may lie elsewhere), and a convolution whose result is added to something has the range of the sum. Models with other operators than these are refused.

SPDX-License-Identifier: MIT
"""
import pathlib

import flatbuffers
import numpy as np
import onnx
from onnx import numpy_helper
from ai_edge_litert import schema_py_generated as tfl

OPERATORS = tfl.BuiltinOperator
NONE, RELU, RELU6 = tfl.ActivationFunctionType.NONE, tfl.ActivationFunctionType.RELU, tfl.ActivationFunctionType.RELU6


class Writer:
    """Collects tensors and operators of one graph."""

    def __init__(self):
        self.model, self.graph, self.codes = tfl.ModelT(), tfl.SubGraphT(), {}
        self.model.version, self.model.operatorCodes, self.model.buffers = 3, [], [tfl.BufferT()]
        self.graph.tensors, self.graph.operators = [], []

    def tensor(self, name, shape, kind, scale=None, zero_point=None, axis=0, data=None):
        t = tfl.TensorT()
        t.name, t.shape, t.type, t.buffer = name, [int(d) for d in shape], kind, 0
        if scale is not None:
            t.quantization = tfl.QuantizationParametersT()
            t.quantization.scale = np.atleast_1d(scale).astype(np.float32)
            t.quantization.zeroPoint = np.broadcast_to(np.atleast_1d(0 if zero_point is None else zero_point), t.quantization.scale.shape).astype(np.int64)
            t.quantization.quantizedDimension = axis
        if data is not None:
            buffer = tfl.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            t.buffer = len(self.model.buffers)
            self.model.buffers.append(buffer)
        self.graph.tensors.append(t)
        return len(self.graph.tensors) - 1

    def operator(self, code, inputs, outputs, kind=tfl.BuiltinOptions.NONE, options=None):
        if code not in self.codes:
            c = tfl.OperatorCodeT()
            c.builtinCode, c.deprecatedBuiltinCode, c.version = code, min(code, 127), 5 if code in (OPERATORS.CONV_2D, OPERATORS.DEPTHWISE_CONV_2D) else 2
            self.codes[code] = len(self.model.operatorCodes)
            self.model.operatorCodes.append(c)
        o = tfl.OperatorT()
        o.opcodeIndex, o.inputs, o.outputs, o.builtinOptionsType, o.builtinOptions = self.codes[code], inputs, outputs, kind, options
        self.graph.operators.append(o)

    def bytes(self, inputs, outputs):
        self.graph.inputs, self.graph.outputs = inputs, outputs
        self.model.subgraphs = [self.graph]
        builder = flatbuffers.Builder(1 << 20)
        builder.Finish(self.model.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())


class Converter:
    """One QDQ graph (float activations `x`, their parameters in QuantizeLinear) to int8, or with the same weights to float."""

    def __init__(self, model, batch, as_float):
        self.graph, self.as_float, self.w = model.graph, as_float, Writer()
        self.constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        self.same, self.quant, self.weights, self.users, self.tensors, self.done = {}, {}, {}, {}, {}, set()
        self.input = next(i for i in model.graph.input if i.name not in self.constants)
        dims = [d.dim_value for d in self.input.type.tensor_type.shape.dim]
        self.shapes = {self.input.name: (batch, *dims[2:], dims[1])}
        self.read_parameters()

    def read_parameters(self):
        c = self.constants
        for n in self.graph.node:
            if n.op_type == "QuantizeLinear":
                self.quant[n.input[0]] = (float(c[n.input[1]]), int(c[n.input[2]]) - (128 if c[n.input[2]].dtype == np.uint8 else 0))
                self.same[n.output[0]] = n.input[0]
            elif n.op_type == "DequantizeLinear" and n.input[0] in c:
                self.weights[n.output[0]] = (c[n.input[0]], c[n.input[1]])
            elif n.op_type == "DequantizeLinear":
                self.same[n.output[0]] = self.same[n.input[0]]
            else:
                for name in n.input:
                    self.users.setdefault(self.source(name), []).append(n)

    def source(self, name):
        while name in self.same:
            name = self.same[name]
        return name

    def value(self, name):
        """Index of the tensor that holds a value made before."""
        return self.tensors[self.source(name)]

    def make(self, name, shape):
        scale, zero_point = self.quant.get(name, (None, None))
        if self.as_float:
            index = self.w.tensor(name, shape, tfl.TensorType.FLOAT32)
        elif scale is None:
            raise ValueError(f"value {name} has no parameters")
        else:
            index = self.w.tensor(name, shape, tfl.TensorType.INT8, scale, zero_point)
        self.tensors[name], self.shapes[name] = index, shape
        return index

    def activation(self, node):
        """(activation, name of the result) with a Relu or Clip that only this node feeds."""
        out = node.output[0]
        after = self.users.get(out, [])
        if len(after) != 1 or out in self.quant or after[0].op_type not in ("Relu", "Clip"):
            return NONE, out
        self.done.add(after[0].output[0])
        return (RELU if after[0].op_type == "Relu" else RELU6), after[0].output[0]

    def borrow(self, name):
        """A value that is rounded only after an addition takes that range."""
        seen = name
        while name not in self.quant and len(self.users.get(name, [])) == 1:
            name = self.users[name][0].output[0]
        if seen not in self.quant and name in self.quant:
            scale, zero_point = self.quant[name]
            self.quant[seen] = (scale, zero_point) if zero_point > -100 else (2 * scale, 0)

    def weight(self, name, order, axis, input_scale=None):
        q, scale = self.weights[name]
        data = np.transpose(q, order) if order else q
        if self.as_float:
            wide = np.moveaxis(np.moveaxis(q.astype(np.float32), 0, -1) * scale, -1, 0)
            data = np.transpose(wide, order) if order else wide
            return self.w.tensor(name, data.shape, tfl.TensorType.FLOAT32, data=data.astype(np.float32))
        if input_scale is not None:  # a bias
            return self.w.tensor(name, data.shape, tfl.TensorType.INT32, scale, 0, axis, data.astype(np.int32))
        return self.w.tensor(name, data.shape, tfl.TensorType.INT8, scale, 0, axis, data.astype(np.int8))

    def bias(self, node, channels):
        if len(node.input) > 2 and node.input[2] in self.weights:
            return self.weight(node.input[2], None, 0, input_scale=1)
        return self.w.tensor(f"{node.output[0]}.zeros", [channels], tfl.TensorType.FLOAT32 if self.as_float else tfl.TensorType.INT32,
                             data=np.zeros(channels, np.float32 if self.as_float else np.int32))

    def padded(self, name, pads, window, strides, dilations=(1, 1)):
        """(tensor, shape, padding kind): SAME where the sizes agree, else a PAD operator and VALID."""
        shape = self.shapes[self.source(name)]
        reach = [(k - 1) * d + 1 for k, d in zip(window, dilations)]
        out = [(shape[1 + i] + pads[i] + pads[i + 2] - reach[i]) // strides[i] + 1 for i in range(2)]
        if not any(pads):
            return self.value(name), shape, out, tfl.Padding.VALID
        if all(out[i] == -(-shape[1 + i] // strides[i]) for i in range(2)):
            return self.value(name), shape, out, tfl.Padding.SAME
        wide = (shape[0], shape[1] + pads[0] + pads[2], shape[2] + pads[1] + pads[3], shape[3])
        key = f"{self.source(name)}.padded.{'.'.join(map(str, pads))}"
        if key not in self.tensors:
            if self.source(name) in self.quant:
                self.quant[key] = self.quant[self.source(name)]
            amounts = self.w.tensor(f"{key}.amounts", [4, 2], tfl.TensorType.INT32,
                                    data=np.array([[0, 0], [pads[0], pads[2]], [pads[1], pads[3]], [0, 0]], np.int32))
            self.w.operator(OPERATORS.PAD, [self.value(name), amounts], [self.make(key, wide)], tfl.BuiltinOptions.PadOptions, tfl.PadOptionsT())
        return self.tensors[key], wide, out, tfl.Padding.VALID

    def window_of(self, node):
        a = {x.name: list(x.ints) for x in node.attribute if x.ints}
        return a["kernel_shape"], a.get("pads", [0] * 4), a.get("strides", [1, 1]), a.get("dilations", [1, 1])

    def conv(self, node):
        kernel, pads, strides, dilations = self.window_of(node)
        x, shape, out, padding = self.padded(node.input[0], pads, kernel, strides, dilations)
        q, _ = self.weights[node.input[1]]
        groups = next((a.i for a in node.attribute if a.name == "group"), 1)
        depthwise = groups == shape[3] and groups > 1
        if groups > 1 and not depthwise:
            raise ValueError("grouped convolution")
        o = tfl.DepthwiseConv2DOptionsT() if depthwise else tfl.Conv2DOptionsT()
        o.padding, (o.strideH, o.strideW), (o.dilationHFactor, o.dilationWFactor) = padding, strides, dilations
        if depthwise:
            o.depthMultiplier = q.shape[0] // groups
        o.fusedActivationFunction, result = self.activation(node)
        self.borrow(result)
        weight = self.weight(node.input[1], (1, 2, 3, 0) if depthwise else (0, 2, 3, 1), 3 if depthwise else 0)
        inputs = [x, weight, self.bias(node, q.shape[0])]
        code = OPERATORS.DEPTHWISE_CONV_2D if depthwise else OPERATORS.CONV_2D
        kind = tfl.BuiltinOptions.DepthwiseConv2DOptions if depthwise else tfl.BuiltinOptions.Conv2DOptions
        self.w.operator(code, inputs, [self.make(result, (shape[0], *out, q.shape[0]))], kind, o)

    def pool(self, node, code):
        kernel, pads, strides, _ = self.window_of(node)
        x, shape, out, padding = self.padded(node.input[0], pads, kernel, strides)
        o = tfl.Pool2DOptionsT()
        o.padding, (o.strideH, o.strideW), (o.filterHeight, o.filterWidth) = padding, strides, kernel
        self.quant.setdefault(node.output[0], self.quant.get(self.source(node.input[0])))
        if code == OPERATORS.MAX_POOL_2D:
            self.quant[node.output[0]] = self.quant[self.source(node.input[0])]
        self.w.operator(code, [x], [self.make(node.output[0], (shape[0], *out, shape[3]))], tfl.BuiltinOptions.Pool2DOptions, o)

    def add(self, node):
        o = tfl.AddOptionsT()
        o.fusedActivationFunction, result = self.activation(node)
        self.w.operator(OPERATORS.ADD, [self.value(i) for i in node.input], [self.make(result, self.shapes[self.source(node.input[0])])], tfl.BuiltinOptions.AddOptions, o)

    def mean(self, node):
        shape = self.shapes[self.source(node.input[0])]
        o = tfl.ReducerOptionsT()
        o.keepDims = False
        axes = self.w.tensor(f"{node.output[0]}.axes", [2], tfl.TensorType.INT32, data=np.array([1, 2], np.int32))
        self.borrow(node.output[0])
        self.quant.setdefault(node.output[0], self.quant.get(self.source(node.input[0])))
        self.w.operator(OPERATORS.MEAN, [self.value(node.input[0]), axes], [self.make(node.output[0], (shape[0], shape[3]))], tfl.BuiltinOptions.ReducerOptions, o)

    def gemm(self, node):
        shape = self.shapes[self.source(node.input[0])]
        q, _ = self.weights[node.input[1]]
        order = None if next((a.i for a in node.attribute if a.name == "transB"), 0) else (1, 0)
        outputs = q.shape[0] if order is None else q.shape[1]
        o = tfl.FullyConnectedOptionsT()
        o.fusedActivationFunction, result = self.activation(node)
        self.quant.setdefault(result, (0.1, 0))
        weight = self.weight(node.input[1], order, 0)
        self.w.operator(OPERATORS.FULLY_CONNECTED, [self.value(node.input[0]), weight, self.bias(node, outputs)], [self.make(result, (shape[0], outputs))],
                        tfl.BuiltinOptions.FullyConnectedOptions, o)

    def keep_parameters(self, node):
        source = self.quant.get(self.source(node.input[0]))
        if source:
            self.quant[node.output[0]] = source

    def slice(self, node):
        shape = self.shapes[self.source(node.input[0])]
        starts, ends, axes, steps = (self.constants[i].tolist() for i in node.input[1:5])
        begin, end, stride = [0] * 4, list(shape), [1] * 4
        for start, stop, axis, step in zip(starts, ends, axes, steps):
            d = (0, 3, 1, 2)[axis]
            begin[d], end[d], stride[d] = start, min(stop, shape[d]), step
        amounts = [self.w.tensor(f"{node.output[0]}.{i}", [4], tfl.TensorType.INT32, data=np.array(v, np.int32)) for i, v in enumerate((begin, end, stride))]
        self.keep_parameters(node)
        out = self.make(node.output[0], tuple(-(-(e - b) // s) for b, e, s in zip(begin, end, stride)))
        self.w.operator(OPERATORS.STRIDED_SLICE, [self.value(node.input[0]), *amounts], [out], tfl.BuiltinOptions.StridedSliceOptions, tfl.StridedSliceOptionsT())

    def pad(self, node):
        shape = self.shapes[self.source(node.input[0])]
        pads = self.constants[node.input[1]].reshape(2, 4).T[[0, 2, 3, 1]].astype(np.int32)
        amounts = self.w.tensor(f"{node.output[0]}.amounts", [4, 2], tfl.TensorType.INT32, data=pads)
        self.keep_parameters(node)
        out = self.make(node.output[0], tuple(int(d + a + b) for d, (a, b) in zip(shape, pads)))
        self.w.operator(OPERATORS.PAD, [self.value(node.input[0]), amounts], [out], tfl.BuiltinOptions.PadOptions, tfl.PadOptionsT())

    def convert(self):
        name = self.input.name
        first = self.w.tensor("float input", self.shapes[name], tfl.TensorType.FLOAT32)
        if self.as_float:
            self.tensors[name] = first
        else:
            self.w.operator(OPERATORS.QUANTIZE, [first], [self.make(name, self.shapes[name])], tfl.BuiltinOptions.QuantizeOptions, tfl.QuantizeOptionsT())
        for node in self.graph.node:
            if node.op_type in ("QuantizeLinear", "DequantizeLinear") or node.output[0] in self.done:
                continue
            if node.op_type == "Flatten" and len(self.shapes[self.source(node.input[0])]) == 2:
                self.same[node.output[0]] = self.source(node.input[0])
                self.quant.pop(node.output[0], None)
                continue
            {"Conv": self.conv, "Add": self.add, "GlobalAveragePool": self.mean, "Gemm": self.gemm, "Slice": self.slice, "Pad": self.pad,
             "MaxPool": lambda n: self.pool(n, OPERATORS.MAX_POOL_2D), "AveragePool": lambda n: self.pool(n, OPERATORS.AVERAGE_POOL_2D)}.get(
                 node.op_type, self.refuse)(node)
        last = self.value(self.graph.output[0].name)
        if not self.as_float:
            end = self.w.tensor("float output", self.w.graph.tensors[last].shape, tfl.TensorType.FLOAT32)
            self.w.operator(OPERATORS.DEQUANTIZE, [last], [end], tfl.BuiltinOptions.DequantizeOptions, tfl.DequantizeOptionsT())
            last = end
        return self.w.bytes([first], [last])

    def refuse(self, node):
        raise ValueError(f"no TensorFlow Lite model is made of {node.op_type}")


def made_from(quantized, batch, as_float=False):
    """Path of the model, made beside Octet's quantized ONNX file when it is missing."""
    quantized = pathlib.Path(quantized)
    target = quantized.with_name(f"{quantized.stem}{'-as-float' if as_float else ''}-batch{batch}.tflite")
    if not target.exists() or target.stat().st_mtime < quantized.stat().st_mtime:
        target.write_bytes(Converter(onnx.load(str(quantized)), batch, as_float).convert())
    return target
