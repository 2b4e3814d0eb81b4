#!/usr/bin/env python3
"""Writes tests/data/ops/elementwise.npz: inputs and results of elementwise operators and reductions, from ONNX's reference
evaluator (numpy). tests/test_ops_elementwise.c holds the list that says which operator each case is.
Usage: make_elementwise_golden.py [OUTPUT]; needs numpy and onnx.
SPDX-License-Identifier: MIT"""
import io
import os
import sys
import zipfile

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

OPSET = 22
rng = np.random.default_rng(20240607)


def floats(*shape, low=-4.0, high=4.0):
    return rng.uniform(low, high, shape).astype(np.float32)


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-30, 88.0, -100.0], np.float32)
AXES = lambda *a: np.array(a, np.int64)
LIMITS = np.array([-2147483648, -7, -1, 0, 1, 7, 2147483647], np.int32)

CASES = {
    "relu": ("Relu", {}, [SPECIAL]),
    "leaky_relu": ("LeakyRelu", {"alpha": 0.2}, [floats(3, 7)]),
    "elu": ("Elu", {"alpha": 0.5}, [floats(3, 7)]),
    "selu": ("Selu", {}, [floats(3, 7)]),
    "celu": ("Celu", {"alpha": 2.0}, [floats(3, 7)]),
    "thresholded_relu": ("ThresholdedRelu", {"alpha": 0.7}, [floats(3, 7)]),
    "sigmoid": ("Sigmoid", {}, [floats(3, 17, low=-20, high=20)]),
    "tanh": ("Tanh", {}, [floats(3, 17)]),
    "hard_sigmoid": ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}, [floats(3, 7)]),
    "hard_swish": ("HardSwish", {}, [floats(3, 7)]),
    "softplus": ("Softplus", {}, [floats(3, 17, low=-20, high=20)]),
    "softsign": ("Softsign", {}, [floats(3, 7)]),
    "gelu": ("Gelu", {}, [floats(3, 17)]),
    "gelu_tanh": ("Gelu", {"approximate": "tanh"}, [floats(3, 17)]),
    "mish": ("Mish", {}, [floats(3, 17)]),
    "exp": ("Exp", {}, [floats(3, 17, low=-30, high=30)]),
    "log": ("Log", {}, [floats(3, 17, low=1e-3, high=30)]),
    "sqrt": ("Sqrt", {}, [floats(3, 17, low=0, high=30)]),
    "erf": ("Erf", {}, [floats(3, 17)]),
    "reciprocal": ("Reciprocal", {}, [floats(3, 7)]),
    "abs": ("Abs", {}, [SPECIAL]),
    "neg": ("Neg", {}, [LIMITS[1:]]),
    "sign": ("Sign", {}, [np.array([-3.5, -0.0, 0.0, 2.0], np.float32)]),
    "floor": ("Floor", {}, [SPECIAL]),
    "ceil": ("Ceil", {}, [SPECIAL]),
    "round": ("Round", {}, [SPECIAL]),
    "not": ("Not", {}, [np.array([True, False])]),
    "clip": ("Clip", {}, [floats(3, 7), np.float32(-1), np.float32(2)]),
    "clip_i8": ("Clip", {}, [np.arange(-128, 128, 17, dtype=np.int8), np.int8(-50), np.int8(60)]),
    "prelu": ("PRelu", {}, [floats(2, 3, 4, 5), floats(3, 1, 1)]),
    "add": ("Add", {}, [floats(2, 3, 4, 5), floats(3, 1, 5)]),
    "sub": ("Sub", {}, [floats(3, 1), floats(1, 5)]),
    "mul": ("Mul", {}, [floats(2, 3, 1, 1), floats(2, 3, 4, 5)]),
    "div": ("Div", {}, [floats(2, 17), floats(17, low=0.5)]),
    "add_wraps": ("Add", {}, [LIMITS, LIMITS]),
    "mul_f16": ("Mul", {}, [floats(9).astype(np.float16), floats(9).astype(np.float16)]),
    "pow": ("Pow", {}, [floats(3, 17, low=0, high=5), floats(17)]),
    "pow_mixed": ("Pow", {}, [np.array([1, 2, 3, -4], np.int32), np.array([4, 5, 6, 3], np.float32)]),
    "mod": ("Mod", {}, [np.array([-4, 7, 5, 4, -7, 8], np.int32), np.array([2, -3, 8, -2, 3, 5], np.int32)]),
    "fmod": ("Mod", {"fmod": 1}, [np.array([-4.3, 7.2, 5.0, 4.3, -7.2, 8.0], np.float32), np.array([2.1, -3.4, 8.0, -2.1, 3.4, 5.0], np.float32)]),
    "min": ("Min", {}, [floats(3, 1), floats(1, 5), floats(3, 5)]),
    "max": ("Max", {}, [SPECIAL, SPECIAL[::-1].copy()]),
    "max_u64": ("Max", {}, [np.array([1, 2**63 + 5], np.uint64), np.array([2**63, 7], np.uint64)]),
    "sum": ("Sum", {}, [floats(3, 5), floats(5), floats(3, 1)]),
    "mean": ("Mean", {}, [floats(3, 5), floats(5), floats(3, 1)]),
    "equal": ("Equal", {}, [SPECIAL, SPECIAL]),
    "less": ("Less", {}, [floats(3, 1), floats(1, 5)]),
    "greater": ("Greater", {}, [np.array([2**63, 1], np.uint64), np.array([1, 2**63], np.uint64)]),
    "less_or_equal": ("LessOrEqual", {}, [SPECIAL, SPECIAL[::-1].copy()]),
    "greater_or_equal": ("GreaterOrEqual", {}, [LIMITS, LIMITS[::-1].copy()]),
    "and": ("And", {}, [np.array([[True], [False]]), np.array([[True, False]])]),
    "or": ("Or", {}, [np.array([[True], [False]]), np.array([[True, False]])]),
    "xor": ("Xor", {}, [np.array([[True], [False]]), np.array([[True, False]])]),
    "where": ("Where", {}, [np.array([[True, False, True]]), floats(4, 1), floats(4, 3)]),
    "cast_f16": ("Cast", {"to": onnx.TensorProto.FLOAT16}, [np.array([1.0009765625 / 1, 65519, 65520, 1e-8, 6e-8, -0.1, np.nan], np.float32)]),
    "cast_i32": ("Cast", {"to": onnx.TensorProto.INT32}, [np.array([1.9, -1.9, 0.5, 1e6], np.float32)]),
    "cast_u8": ("Cast", {"to": onnx.TensorProto.UINT8}, [np.array([-1, 256, 300, 7], np.int64)]),
    "cast_bool": ("Cast", {"to": onnx.TensorProto.BOOL}, [np.array([0.0, -0.0, 0.1, -3], np.float32)]),
    "reduce_mean": ("ReduceMean", {"keepdims": 0}, [floats(2, 3, 4, 5), AXES(2, 3)]),
    "reduce_sum": ("ReduceSum", {}, [floats(2, 3, 4, 5), AXES(-3, 0)]),
    "reduce_sum_all": ("ReduceSum", {"keepdims": 0}, [floats(2, 3, 4)]),
    "reduce_sum_noop": ("ReduceSum", {"noop_with_empty_axes": 1}, [floats(2, 3, 4)]),
    "reduce_max": ("ReduceMax", {}, [floats(2, 3, 4, 5), AXES(1)]),
    "reduce_min": ("ReduceMin", {"keepdims": 0}, [floats(2, 3, 4, 5), AXES(3)]),
    "reduce_prod": ("ReduceProd", {}, [floats(2, 3, 4), AXES(1)]),
    "reduce_l1": ("ReduceL1", {}, [floats(2, 3, 4), AXES(0, 2)]),
    "reduce_l2": ("ReduceL2", {}, [floats(2, 3, 4), AXES(0, 2)]),
    "reduce_sum_square": ("ReduceSumSquare", {}, [floats(2, 3, 4), AXES(2)]),
    "reduce_log_sum": ("ReduceLogSum", {}, [floats(2, 3, 4, low=0.1), AXES(2)]),
    "reduce_log_sum_exp": ("ReduceLogSumExp", {}, [floats(2, 3, 4), AXES(1)]),
    "softmax": ("Softmax", {}, [floats(3, 17)]),
    "softmax_axis1": ("Softmax", {"axis": 1}, [floats(2, 5, 4)]),
    "log_softmax": ("LogSoftmax", {"axis": 0}, [floats(5, 4)]),
}


def evaluate(op, attributes, inputs):
    names = ["x%d" % i for i in range(len(inputs))]
    node = helper.make_node(op, names, ["y"], **attributes)
    typed = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.asarray(v).dtype), np.shape(v)) for n, v in zip(names, inputs)]
    graph = helper.make_graph([node], "g", typed, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    return np.asarray(ReferenceEvaluator(model).run(None, dict(zip(names, map(np.asarray, inputs))))[0])


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "tests", "data", "ops", "elementwise.npz")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, np.errstate(all="ignore"):
        for name, (op, attributes, inputs) in CASES.items():
            arrays = {"%s.x%d" % (name, i): v for i, v in enumerate(inputs)}
            arrays[name + ".y"] = evaluate(op, attributes, inputs)
            for key, value in arrays.items():
                data = io.BytesIO()
                np.save(data, np.asarray(value))
                archive.writestr(zipfile.ZipInfo(key + ".npy"), data.getvalue(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main()
