#!/usr/bin/env python3
"""Writes the seed corpus of the ONNX fuzz target: small models, one feature of the format each, from the wire format up.

  make_onnx_seeds.py [DIR]      (default: fuzz/corpus/onnx beside this script's folder; needs nothing but Python)

SPDX-License-Identifier: MIT
"""
import pathlib
import struct
import sys


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def i(number, value):
    return varint(number << 3) + varint(value)


def b(number, *parts):
    data = b"".join(p.encode() if isinstance(p, str) else p for p in parts)
    return varint(number << 3 | 2) + varint(len(data)) + data


def f(number, value):
    return varint(number << 3 | 5) + struct.pack("<f", value)


FLOAT, UINT8, INT8, INT32, INT64, FLOAT16 = 1, 2, 3, 6, 7, 10


def dims(shape):
    return b"".join(b(1, b(2, d) if isinstance(d, str) else i(1, d)) for d in shape)


def value(number, name, shape, kind=FLOAT):
    return b(number, b(1, name), b(2, b(1, i(1, kind), b(2, dims(shape)))))


def attribute(name, v):
    if isinstance(v, int):
        return b(5, b(1, name), i(3, v), i(20, 2))
    if isinstance(v, float):
        return b(5, b(1, name), f(2, v), i(20, 1))
    if isinstance(v, str):
        return b(5, b(1, name), b(4, v), i(20, 3))
    if isinstance(v, bytes):
        return b(5, b(1, name), b(5, v), i(20, 4))
    return b(5, b(1, name), b"".join(i(8, x) for x in v), i(20, 7))


def node(op, ins, outs, name="", domain="", **attrs):
    return b(1, *[b(1, x) for x in ins], *[b(2, x) for x in outs], b(3, name) if name else b"", b(4, op),
             *[attribute(k, v) for k, v in attrs.items()], b(7, domain) if domain else b"")


def raw(name, shape, kind, data):
    return b"".join(i(1, d) for d in shape) + i(2, kind) + b(8, name) + b(9, data)


def floats(name, shape, *values):
    return raw(name, shape, FLOAT, struct.pack("<%df" % len(values), *values))


def model(*graph, opset=18, ir=8, extra=b""):
    return i(1, ir) + b(2, "seed") + b(7, *graph, b(2, "g")) + b(8, i(2, opset)) + extra


X, Y = value(11, "x", ["N", 4]), value(12, "y", ["N", 4])


def seeds():
    weight = [((k * 37) % 19 - 9) / 8 for k in range(36)]
    yield "relu", model(node("Relu", ["x"], ["y"]), X, Y)
    yield "conv", model(node("Conv", ["x", "w", "c"], ["h"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]), node("Relu", ["h"], ["y"]),
                        b(5, floats("w", [2, 2, 3, 3], *weight)), b(5, floats("c", [2], .5, -.5)), value(11, "x", [1, 2, 5, 5]), value(12, "y", [1, 2, 5, 5]))
    yield "gemm_ir3", model(node("Gemm", ["x", "w", "c"], ["y"], alpha=1.0, transB=1), b(5, floats("w", [4, 4], *weight[:16])),
                            b(5, floats("c", [4], 1, 2, 3, 4)), X, value(11, "w", [4, 4]), value(11, "c", [4]), Y, opset=9, ir=3)
    scale, zero = b(5, floats("s", [], .05)), b(5, raw("z", [], UINT8, b"\x80"))
    yield "qdq", model(node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["d"]),
                       node("DequantizeLinear", ["wq", "ws"], ["w"], axis=1), node("MatMul", ["d", "w"], ["y"]), scale, zero,
                       b(5, raw("wq", [4, 4], INT8, bytes(range(120, 136)))), b(5, floats("ws", [4], .1, .2, .3, .4)), X, Y)
    packed = b(1, varint(4)) + i(2, INT64) + b(8, "p") + b(7, varint(0), varint(1), varint(-1), varint(2))
    yield "typed_fields", model(node("Reshape", ["x", "p"], ["r"]), node("Cast", ["r"], ["t"], to=FLOAT16), node("Cast", ["t"], ["y"], to=FLOAT), b(5, packed),
                                value(11, "x", [2, 3, 4]), value(12, "y", [2, 3, 2, 2]))
    half = i(1, 2) + i(2, FLOAT16) + b(8, "k") + b(5, varint(0x3C00), varint(0xC000))
    yield "constant_node", model(node("Constant", [], ["k"], value=half), node("Cast", ["k"], ["f"], to=FLOAT), node("Mul", ["x", "f"], ["y"]),
                                 value(11, "x", [3, 2]), value(12, "y", [3, 2]))
    yield "unsorted", model(node("Exp", ["a"], ["y"]), node("Neg", ["x"], ["a"]), X, Y)
    yield "cycle", model(node("Add", ["x", "c"], ["a"], name="first"), node("Relu", ["a"], ["c"], name="second"), X, value(12, "c", [4]))
    yield "twice", model(node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"]), X, Y)
    yield "dangling", model(node("Relu", ["nothing"], ["y"]), X, Y)
    yield "unknown", model(node("Foo", ["x"], ["a"]), node("Bar", ["a"], ["b"], domain="com.example"), node("If", ["b"], ["y"]), X, Y)
    external = i(1, 4) + i(2, FLOAT) + b(8, "e") + b(13, b(1, "location"), b(2, "../e.bin")) + b(13, b(1, "offset"), b(2, "8")) + i(14, 1)
    yield "external", model(node("Add", ["x", "e"], ["y"]), b(5, external), X, Y)
    nested = b""
    for _ in range(200):
        nested = b(6, node("If", ["x"], ["y"]), b(1, b(4, "If"), b(5, b(1, "then_branch"), nested, i(20, 5))))
    yield "nested", model(b(1, b(1, "x"), b(2, "y"), b(4, "Relu"), b(5, b(1, "g"), nested, i(20, 5))), X, Y)
    body = b(25, b(1, "F"), b(4, "a"), b(5, "b"), b(6, "k"), b(9, i(2, 18)), b(10, "local"), b(7, b(1, "a"), b(2, "t"), b(4, "Relu")),
             b(7, b(1, "t"), b(2, "b"), b(4, "LeakyRelu"), b(5, b(1, "alpha"), b(21, "k"), i(20, 1))))
    yield "function", model(node("F", ["x"], ["y"], domain="local", k=.25), X, Y, extra=body + b(8, b(1, "local"), i(2, 1)))
    yield "metadata", model(node("Softmax", ["x"], ["y"], axis=-1), X, Y, value(13, "unused", [1]), extra=b(14, b(1, "preprocess"), b(2, "scale=1/255")))
    yield "external_tensor", external
    yield "tensor", floats("t", [2, 2], 1, 2, 3, 4)
    yield "dynamic", model(node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), node("MatMulInteger", ["q", "w", "z"], ["a"]), node("Cast", ["a"], ["f"], to=FLOAT),
                           node("Mul", ["f", "s"], ["y"]), b(5, raw("w", [4, 4], INT8, bytes(range(16)))), X, Y)


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent / "fuzz" / "corpus" / "onnx")
    out.mkdir(parents=True, exist_ok=True)
    for name, data in seeds():
        (out / (name + ".onnx")).write_bytes(data)


if __name__ == "__main__":
    main()
