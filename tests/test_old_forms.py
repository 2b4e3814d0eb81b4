"""Operators in the forms that older ONNX operator sets gave them: `octet check` against onnx.reference.
Attributes that are inputs today, ratios, masks, defaults that changed, QOperator forms with a bias.
SPDX-License-Identifier: MIT"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

rng = np.random.RandomState(3)


def floats(*shape):
    return rng.uniform(-2, 2, shape).astype(np.float32)


def write(folder, name, opset, op, attributes, inputs, constants=(), outputs=1, expected=None):
    """inputs: arrays of the data set; constants: arrays that become initializers after them."""
    names = ["x%d" % i for i in range(len(inputs))]
    constant_names = ["c%d" % i for i in range(len(constants))]
    results = ["y%d" % i for i in range(outputs)]
    node = helper.make_node(op, names + [n if c is not None else "" for n, c in zip(constant_names, constants)], results, **attributes)
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in zip(names, inputs)]
    initializers = [numpy_helper.from_array(np.asarray(c), n) for n, c in zip(constant_names, constants) if c is not None]
    out_infos = [helper.make_tensor_value_info(r, TensorProto.FLOAT, None) for r in results]
    graph = helper.make_graph([node], "g", infos, out_infos, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    if expected is None:
        expected = ReferenceEvaluator(model).run(None, dict(zip(names, inputs)))
    for r, e in zip(model.graph.output, expected):
        r.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.asarray(e).dtype)
    case = os.path.join(folder, "%s_%d" % (name, opset))
    data = os.path.join(case, "test_data_set_0")
    os.makedirs(data)
    onnx.save(model, os.path.join(case, "model.onnx"))
    for kind, arrays, labels in (("input", inputs, names), ("output", expected, results)):
        for i, a in enumerate(arrays):
            with open(os.path.join(data, "%s_%d.pb" % (kind, i)), "wb") as f:
                f.write(numpy_helper.from_array(np.asarray(a), labels[i]).SerializeToString())


def cases(folder):
    x, image = floats(2, 3, 4), floats(1, 4, 6, 5)
    for v in (7, 9):
        write(folder, "slice", v, "Slice", dict(starts=[1, -3], ends=[2, 1000], axes=[0, 2]), [x], expected=[x[1:2, :, -3:]])
        write(folder, "slice_all", v, "Slice", dict(starts=[0, 1], ends=[1, 3]), [x], expected=[x[0:1, 1:3]])
    write(folder, "slice", 10, "Slice", {}, [x], [np.array([1, 2]), np.array([0, -4]), np.array([0, 2]), np.array([-1, -1])], expected=[x[1:0:-1, :, 2:0:-1]])
    padded = np.pad(x, ((0, 1), (2, 0), (0, 3)), constant_values=1.5)
    for v in (7, 10):
        write(folder, "pad", v, "Pad", dict(pads=[0, 2, 0, 1, 0, 3], value=1.5), [x], expected=[padded])
        write(folder, "pad_edge", v, "Pad", dict(pads=[0, 2, 0, 1, 0, 3], mode="edge"), [x], expected=[np.pad(x, ((0, 1), (2, 0), (0, 3)), mode="edge")])
    write(folder, "pad", 11, "Pad", {}, [x], [np.array([0, 2, 0, 1, 0, 3]), np.float32(1.5)], expected=[padded])
    for v in (7, 11, 12):
        write(folder, "squeeze", v, "Squeeze", dict(axes=[0, 2]), [floats(1, 3, 1)])
        write(folder, "squeeze_all", v, "Squeeze", {}, [floats(1, 3, 1)])
        write(folder, "unsqueeze", v, "Unsqueeze", dict(axes=[0, 3]), [floats(3, 2)])
        write(folder, "split", v, "Split", dict(axis=1, split=[1, 2]), [x], outputs=2, expected=[x[:, :1], x[:, 1:]])
        write(folder, "split_equal", v, "Split", dict(axis=2), [x], outputs=2, expected=[x[:, :, :2], x[:, :, 2:]])
    write(folder, "split", 13, "Split", dict(axis=2), [x], outputs=4, expected=[x[:, :, i : i + 1] for i in range(4)])
    for v in (7, 11):  # the flattened form goes back to a shape in which 0 is no "as before"
        for op in ("Softmax", "LogSoftmax"):
            write(folder, op.lower() + "_empty", v, op, dict(axis=1), [floats(1, 1, 0)], expected=[floats(1, 1, 0)])
    write(folder, "dropout", 7, "Dropout", dict(ratio=0.3), [x], expected=[x])
    write(folder, "dropout_mask", 10, "Dropout", dict(ratio=0.3), [x], outputs=2, expected=[x, np.ones(x.shape, bool)])
    write(folder, "dropout", 12, "Dropout", {}, [x], [np.float32(0.3), np.array(False)], expected=[x])
    four = [floats(4), floats(4), floats(4), np.abs(floats(4)) + np.float32(0.1)]
    normalized = [(image - four[2].reshape(4, 1, 1)) / np.sqrt(four[3].reshape(4, 1, 1) + np.float32(1e-5)) * four[0].reshape(4, 1, 1) + four[1].reshape(4, 1, 1)]
    write(folder, "batchnorm", 7, "BatchNormalization", dict(spatial=1, momentum=0.9), [image], four, expected=normalized)
    for v in (9, 14, 15):
        write(folder, "batchnorm", v, "BatchNormalization", {}, [image], four, expected=normalized)
    for v in (7, 8, 10, 11, 19):
        write(folder, "average_pool", v, "AveragePool", dict(kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], count_include_pad=1), [image])
        write(folder, "max_pool", v, "MaxPool", dict(kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]), [image])
    for v in (7, 9, 11, 13):
        a, b, c = floats(3, 4), floats(4, 5), floats(5)
        write(folder, "gemm", v, "Gemm", dict(alpha=0.5, beta=2.0), [a], [b, c], expected=[0.5 * a @ b + 2 * c])
        write(folder, "flatten", v, "Flatten", dict(axis=2), [x], expected=[x.reshape(6, 4)])
        write(folder, "concat", v, "Concat", dict(axis=1), [x, x[:, :1]], expected=[np.concatenate([x, x[:, :1]], 1)])
        write(folder, "reshape", v, "Reshape", {}, [x], [np.array([0, -1])], expected=[x.reshape(2, 12)])
    for v in (10, 13, 19, 21):
        scale, zero = np.float32(0.05), np.uint8(120)
        q = rng.randint(0, 256, (2, 3)).astype(np.uint8)
        write(folder, "quantize", v, "QuantizeLinear", {}, [x], [scale, zero], expected=[np.clip(np.rint(x / scale) + 120, 0, 255).astype(np.uint8)])
        write(folder, "dequantize", v, "DequantizeLinear", {}, [q], [scale, zero], expected=[(q.astype(np.int32) - 120).astype(np.float32) * scale])
    xq, wq = rng.randint(0, 256, (1, 2, 5, 5)).astype(np.uint8), rng.randint(-128, 128, (3, 2, 3, 3)).astype(np.int8)
    bias, w_scale = np.array([100, -2000, 35], np.int32), np.array([0.01, 0.02, 0.005], np.float32)
    accumulator = np.zeros((1, 3, 5, 5), np.int64)
    wide = np.pad(xq.astype(np.int64) - 118, ((0, 0), (0, 0), (1, 1), (1, 1)))
    for i in range(3):
        for j in range(3):
            accumulator += np.einsum("nchw,oc->nohw", wide[:, :, i : i + 5, j : j + 5], wq[:, :, i, j].astype(np.int64))
    real = (accumulator + bias.reshape(3, 1, 1)) * (0.03 * w_scale.astype(np.float64)).reshape(3, 1, 1)
    right = np.clip(np.rint(real / np.float32(0.9)) + 130, 0, 255).astype(np.uint8)
    write(folder, "qlinear_conv", 10, "QLinearConv", dict(pads=[1, 1, 1, 1]), [xq],
          [np.float32(0.03), np.uint8(118), wq, w_scale, np.zeros(3, np.int8), np.float32(0.9), np.uint8(130), bias], expected=[right])
    bq = rng.randint(0, 256, (5, 4)).astype(np.uint8)
    aq = rng.randint(0, 256, (3, 5)).astype(np.uint8)
    product = (aq.astype(np.int64) - 7) @ (bq.astype(np.int64) - 100) * (np.float64(np.float32(0.02)) * np.float64(np.float32(0.03)))
    write(folder, "qlinear_matmul", 10, "QLinearMatMul", {}, [aq],
          [np.float32(0.02), np.uint8(7), bq, np.float32(0.03), np.uint8(100), np.float32(0.5), np.uint8(90)],
          expected=[np.clip(np.rint(product / 0.5) + 90, 0, 255).astype(np.uint8)])


def main():
    octet = os.environ.get("OCTET_BINARY")
    if len(sys.argv) > 1:
        cases(sys.argv[1])
        return 0
    with tempfile.TemporaryDirectory() as folder:
        cases(folder)
        count = len(os.listdir(folder))
        run = subprocess.run([octet, "check", folder], capture_output=True, text=True)
        print(run.stdout + run.stderr)
        return 0 if run.returncode == 0 and "%d passed, 0 failed, 0 skipped" % count in run.stdout else 1


if __name__ == "__main__":
    sys.exit(main())
