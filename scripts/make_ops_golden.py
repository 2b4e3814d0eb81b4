"""Writes tests/data/ops/spatial.txt and tests/data/ops/movement.txt: small operator cases with the outputs that onnx.reference gives.
usage: python scripts/make_ops_golden.py   (needs numpy and onnx)
A case is: "case OP ATTRIBUTES...", then a line "input"/"constant"/"absent"/"output" DTYPE DIMS VALUES... each, then "end".
SPDX-License-Identifier: MIT"""
import os
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

OPSET = 22
rng = np.random.RandomState(7)
NAMES = {"float32": "f32", "int64": "i64", "int32": "i32", "uint8": "u8", "int8": "i8", "int16": "i16", "uint16": "u16", "bool": "bool"}


def floats(*shape):
    return np.round(rng.uniform(-2, 2, shape), 3).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def bytes_(dtype, *shape):
    info = np.iinfo(dtype)
    return rng.randint(info.min, info.max + 1, shape).astype(dtype)


def array_line(kind, a):
    a = np.asarray(a)
    values = a.ravel()
    text = " ".join(str(v) if a.dtype == np.float32 and np.isfinite(v) else "%d" % v for v in values)
    return "%s %s %s %s" % (kind, NAMES[str(a.dtype)], ",".join(map(str, a.shape)) or "-", text)


def attribute_text(value):
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


def case(out, op, onnx_op, attributes, inputs, outputs=1):
    """inputs: arrays, ("c", array) for constants, None for absent."""
    names, lines, feed, initializers, graph_inputs = [], [], {}, [], []
    for i, x in enumerate(inputs):
        if x is None:
            names.append("")
            lines.append("absent")
            continue
        constant = isinstance(x, tuple)
        a = np.asarray(x[1] if constant else x)
        names.append("i%d" % i)
        lines.append(array_line("constant" if constant else "input", a))
        if constant:
            initializers.append(numpy_helper.from_array(a, names[-1]))
        else:
            feed[names[-1]] = a
            graph_inputs.append(helper.make_tensor_value_info(names[-1], helper.np_dtype_to_tensor_dtype(a.dtype), a.shape))
    results = ["o%d" % i for i in range(outputs)]
    node = helper.make_node(onnx_op, names, results, **attributes)
    infos = [helper.make_tensor_value_info(r, onnx.TensorProto.UNDEFINED, None) for r in results]
    graph = helper.make_graph([node], "g", graph_inputs, infos, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    got = ReferenceEvaluator(model).run(None, feed)
    out.append(" ".join(["case", op] + ["%s=%s" % (k, attribute_text(v)) for k, v in attributes.items()]))
    out.extend(lines)
    out.extend(array_line("output", g) for g in got)
    out.append("end")


def spatial(o):
    def conv(x, w, b=None, **attributes):
        case(o, "conv", "Conv", attributes, [x, ("c", w), ("c", b) if b is not None else None])

    conv(floats(1, 3, 5, 5), floats(4, 3, 3, 3), pads=[1, 1, 1, 1])
    conv(floats(2, 2, 6, 5), floats(3, 2, 3, 2), floats(3), pads=[2, 0, 1, 1], strides=[2, 1])
    conv(floats(1, 4, 7, 7), floats(4, 1, 3, 3), floats(4), group=4, pads=[1, 1, 1, 1], strides=[2, 2])
    conv(floats(1, 3, 5, 6), floats(6, 1, 3, 3), group=3)
    conv(floats(1, 4, 7, 7), floats(6, 2, 2, 2), floats(6), group=2, dilations=[2, 3])
    conv(floats(1, 1, 7, 8), floats(2, 1, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2])
    conv(floats(1, 1, 7, 8), floats(2, 1, 2, 2), auto_pad="SAME_LOWER", strides=[1, 1])
    conv(floats(1, 2, 6, 6), floats(2, 2, 3, 3), auto_pad="VALID")
    conv(floats(2, 3, 9), floats(4, 3, 3), floats(4), pads=[2, 1], strides=[2])
    conv(floats(1, 2, 3, 4, 4), floats(2, 2, 2, 3, 2), pads=[1, 0, 1, 0, 1, 0])
    for a in ({}, {"transB": 1}, {"transA": 1, "alpha": 0.5, "beta": 2.0}):
        k, m, n = 4, 3, 5
        case(o, "gemm", "Gemm", a, [floats(k, m) if a.get("transA") else floats(m, k), ("c", floats(n, k) if a.get("transB") else floats(k, n)), ("c", floats(n))])
    case(o, "gemm", "Gemm", {"alpha": 2.0}, [floats(3, 4), ("c", floats(4, 2)), ("c", floats(3, 1))])
    case(o, "gemm", "Gemm", {"beta": 0.25}, [floats(3, 4), ("c", floats(4, 2)), ("c", floats(1))])
    for a, b in (((2, 3, 4), (4, 5)), ((4,), (4, 3)), ((3, 4), (4,)), ((2, 1, 3, 4), (3, 4, 2)), ((2, 3, 4), (2, 4, 3)), ((4,), (4,))):
        case(o, "matmul", "MatMul", {}, [floats(*a), floats(*b)])
    case(o, "matmul", "MatMul", {}, [floats(2, 3, 4), ("c", floats(4, 6))])
    for kind, name in (("max_pool", "MaxPool"), ("average_pool", "AveragePool")):
        case(o, kind, name, dict(kernel_shape=[2, 2], strides=[2, 2]), [floats(1, 2, 4, 6)])
        case(o, kind, name, dict(kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]), [floats(2, 2, 5, 5)])
        case(o, kind, name, dict(kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1), [floats(1, 1, 6, 6)])
        case(o, kind, name, dict(kernel_shape=[2, 2], dilations=[2, 2]), [floats(1, 1, 5, 5)])
        case(o, kind, name, dict(kernel_shape=[3], auto_pad="SAME_UPPER", strides=[2]), [floats(1, 2, 7)])
        case(o, kind, name, dict(kernel_shape=[2, 2, 2]), [floats(1, 1, 3, 3, 3)])
    case(o, "max_pool", "MaxPool", dict(kernel_shape=[2, 2], strides=[2, 2], storage_order=1), [np.arange(25, dtype=np.float32)[::-1].reshape(1, 1, 5, 5).copy()], outputs=2)
    case(o, "average_pool", "AveragePool", dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1), [floats(1, 2, 4, 4)])
    case(o, "average_pool", "AveragePool", dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1, count_include_pad=1), [floats(1, 1, 6, 6)])
    case(o, "global_average_pool", "GlobalAveragePool", {}, [floats(2, 3, 5, 4)])
    case(o, "global_max_pool", "GlobalMaxPool", {}, [floats(2, 3, 5, 4)])
    case(o, "batch_normalization", "BatchNormalization", dict(epsilon=0.01), [floats(2, 3, 2, 3)] + [("c", v) for v in (floats(3), floats(3), floats(3), np.abs(floats(3)) + np.float32(0.5))])
    case(o, "batch_normalization", "BatchNormalization", {}, [floats(4, 3)] + [("c", v) for v in (floats(3), floats(3), floats(3), np.abs(floats(3)) + np.float32(0.5))])


def integers(o):
    scale = lambda *v: ("c", np.array(v[0] if len(v) == 1 else v, np.float32))
    case(o, "conv_integer", "ConvInteger", dict(pads=[1, 1, 1, 1]), [bytes_(np.uint8, 1, 1, 3, 3), ("c", bytes_(np.uint8, 1, 1, 2, 2)), ("c", np.uint8(7))])
    case(o, "matmul_integer", "MatMulInteger", {}, [bytes_(np.uint8, 4, 3), bytes_(np.uint8, 3, 2), ("c", np.uint8(12)), ("c", np.uint8(3))])
    for dtype, zero in ((np.uint8, 131), (np.int8, -9)):
        case(o, "conv_integer", "ConvInteger", dict(pads=[1, 0, 1, 2]), [bytes_(dtype, 2, 3, 5, 4), ("c", bytes_(np.int8, 5, 3, 3, 3)), np.array(zero, dtype)])
        case(o, "conv_integer", "ConvInteger", dict(group=2, strides=[2, 1]), [bytes_(dtype, 1, 4, 5, 4), ("c", bytes_(np.int8, 6, 2, 2, 2)), ("c", np.array(zero, dtype))])
        case(o, "matmul_integer", "MatMulInteger", {}, [bytes_(dtype, 2, 3, 9), ("c", bytes_(np.int8, 9, 5)), np.array(zero, dtype)])
        case(o, "matmul_integer", "MatMulInteger", {}, [bytes_(dtype, 4, 7), ("c", rng.randint(60, 196, (7, 3)).astype(np.uint8)), ("c", np.array(zero, dtype)), ("c", np.uint8(128))])
    for dtype in (np.uint8, np.int8):
        zero = ("c", np.array(-5 if dtype == np.int8 else 128, dtype))
        case(o, "quantize", "QuantizeLinear", {}, [np.array([[-3.05, -0.15, 0.05, 0.149], [0.25, 7.5, 1e6, -1e6]], np.float32), scale(0.1), zero])
        case(o, "dequantize", "DequantizeLinear", {}, [bytes_(dtype, 2, 5), scale(0.25), zero])
    case(o, "quantize", "QuantizeLinear", dict(axis=1), [floats(2, 3, 2), scale(0.1, 0.02, 0.7), ("c", np.array([0, 3, -5], np.int8))])
    case(o, "dequantize", "DequantizeLinear", dict(axis=0), [bytes_(np.int8, 3, 4), scale(0.1, 0.02, 0.7), ("c", np.array([0, 3, -5], np.int8))])
    case(o, "quantize", "QuantizeLinear", dict(axis=1, block_size=2), [floats(2, 4), ("c", np.array([[0.1, 0.2], [0.05, 1]], np.float32)), ("c", np.array([[0, 3], [9, 100]], np.uint8))])
    case(o, "dynamic_quantize", "DynamicQuantizeLinear", {}, [np.array([0, 2, -3, -2.5, 1.34, 0.5], np.float32)], outputs=3)
    case(o, "dynamic_quantize", "DynamicQuantizeLinear", {}, [np.array([[1, 2.5], [3.25, 0.5]], np.float32)], outputs=3)


def movement(o):
    x = floats(2, 3, 4)
    image = floats(1, 4, 3, 5)
    c = lambda *v: ("c", ints(*v))
    case(o, "reshape", "Reshape", {}, [x, c(0, -1)])
    case(o, "reshape", "Reshape", {}, [x, c(4, 1, 6)])
    case(o, "reshape", "Reshape", dict(allowzero=1), [np.zeros((0, 3), np.float32), c(3, 0)])
    case(o, "flatten", "Flatten", dict(axis=2), [x])
    case(o, "flatten", "Flatten", dict(axis=0), [x])
    case(o, "squeeze", "Squeeze", {}, [floats(1, 3, 1, 2), c(0, -2)])
    case(o, "squeeze", "Squeeze", {}, [floats(1, 3, 1, 2)])
    case(o, "unsqueeze", "Unsqueeze", {}, [floats(3, 2), c(0, -1)])
    case(o, "transpose", "Transpose", {}, [x])
    case(o, "transpose", "Transpose", dict(perm=[0, 2, 3, 1]), [image])
    case(o, "transpose", "Transpose", dict(perm=[1, 0]), [bytes_(np.int8, 9, 37)])
    case(o, "slice", "Slice", {}, [x, c(1, 0), c(2, 3), c(0, 2), c(1, 2)])
    case(o, "slice", "Slice", {}, [x, c(-1, 3), c(-100, -3), c(1, 2), c(-1, -2)])
    case(o, "slice", "Slice", {}, [image, c(1), c(1000), c(1)])
    case(o, "slice", "Slice", {}, [x, c(2), c(1), c(1)])
    case(o, "concat", "Concat", dict(axis=1), [floats(2, 1, 3), floats(2, 3, 3), floats(2, 2, 3)])
    case(o, "concat", "Concat", dict(axis=-1), [ints(1, 2), ("c", ints(7)), ints(3)])
    case(o, "split", "Split", dict(axis=1), [floats(2, 7), c(2, 0, 5)], outputs=3)
    case(o, "split", "Split", dict(num_outputs=3), [floats(7, 2)], outputs=3)
    for mode in ("constant", "edge", "reflect", "wrap"):
        case(o, "pad", "Pad", dict(mode=mode), [floats(3, 4), c(1, 2, 2, 3)])
        case(o, "pad", "Pad", dict(mode=mode), [floats(2, 3, 4), c(2, 1), None, c(-1)])
    case(o, "pad", "Pad", {}, [image, c(0, 0, 1, 2, 0, 0, 0, 1), ("c", np.float32(1.5))])
    case(o, "expand", "Expand", {}, [floats(3, 1), c(2, 1, 4)])
    case(o, "tile", "Tile", {}, [floats(2, 1, 3), c(2, 3, 2)])
    case(o, "gather", "Gather", {}, [floats(4, 3), ints(0, -1, 2)])
    case(o, "gather", "Gather", dict(axis=1), [floats(2, 3, 2), ints(2, 0, 1, -3).reshape(2, 2)])
    case(o, "gather", "Gather", {}, [ints(5, 6, 7), np.array(1, np.int64)])
    case(o, "shape", "Shape", {}, [x])
    case(o, "shape", "Shape", dict(start=-2, end=-1), [x])
    case(o, "size", "Size", {}, [x])
    case(o, "range", "Range", {}, [("c", np.int64(10)), ("c", np.int64(4)), ("c", np.int64(-2))])
    case(o, "depth_to_space", "DepthToSpace", dict(blocksize=2), [floats(1, 8, 2, 3)])
    case(o, "depth_to_space", "DepthToSpace", dict(blocksize=2, mode="CRD"), [floats(1, 8, 2, 3)])
    case(o, "space_to_depth", "SpaceToDepth", dict(blocksize=2), [floats(1, 2, 4, 6)])
    case(o, "identity", "Identity", {}, [x])


def main():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "ops")
    for name, makers in (("spatial.txt", (spatial, integers)), ("movement.txt", (movement,))):
        lines = ["# Written by scripts/make_ops_golden.py with onnx %s" % onnx.__version__]
        for maker in makers:
            maker(lines)
        with open(os.path.join(folder, name), "w") as f:
            f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
