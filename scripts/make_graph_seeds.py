#!/usr/bin/env python3
"""Writes the seed corpora of the graph fuzz targets: fuzz/corpus/oct (texts, one feature each) and fuzz/corpus/run (small ONNX models that run).

  make_graph_seeds.py [DIR]      (default: fuzz/corpus beside this script's folder; needs nothing but Python)

SPDX-License-Identifier: MIT
"""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from make_onnx_seeds import FLOAT, INT8, INT32, INT64, UINT8, b, floats, i, model, node, raw, value, varint  # noqa: E402,F401

# The arrays w [4,2,3,3], m [4,4] and b [4] come from the target's own weights file.
TEXTS = {
    "conv": """octet 1
graph g
metadata preprocess "scale=1/255"
weights "arrays.npz"
input x f32[N,2,5,5]
c = conv(x, w, b) pads=1,1,1,1 strides=2,1
r = relu(c)
p = max_pool(r) kernel_shape=2,2
f = flatten(p)
output f f32[N,?]
""",
    "quantized": """octet 1
weights a.npz
input x f32[1,2,5,5]
quant x u8 scale=0.05 zero_point=128
const wq f32[4,2,1,1] = 1, -2, 3, -4, 5, -6, 7, 127
y = conv(x, wq, _)
quant y i8 scale=0.25 zero_point=-3
z = leaky_relu(y) alpha=0.125 as "last one"
quant z u8 scale=0.1
observed z
output z
""",
    "constants": """octet 1
const a i64[2] = 0, -1
const h f16[3] = 0.5, -inf, 65504
const n f32[2,2] = nan
const t bool[2] = true, false
variable v f32[4] = 0
variable u i32[2] = none
input x f32[2,3,4]
y = reshape(x, a)
s = cast(h) to="f32"
output y
output s
""",
    "names": """octet 1
graph "a graph"
metadata "key with spaces" "line\\none \\x07"
input "a b" f32[N,"size of b",?]
"7" = neg("a b")
"\\x7f" = abs("7")
/x.y:z = add("7", "\\x7f") as _n
type /x.y:z f32[N,4,?]
output /x.y:z
""",
    "attributes": """octet 1
weights a.npz
input x f32[1,2,6,6]
c = constant() value=f32[2]{1,2}
r = conv(x, w) auto_pad=SAME_UPPER strides=[2,2]
t = softmax(r) axis=-3
output c
output r
""",
    "many": """octet 1
weights a.npz
input x f32[N,4]
a, q, _ = dynamic_quantize(x)
p = gemm(x, m, b) transB=1 alpha=0.5
s = softmax(p) axis=-1
c = concat(s, p, x) axis=1
t = transpose(c) perm=1,0
output s
""",
    "folding": """octet 1
weights a.npz
input x f32[1,2,5,5]
const g f32[4] = 1.5
const z f32[4] = 0
const o f32[4] = 1
c = conv(x, w, b)
n = batch_normalization(c, g, b, z, o)
i = identity(n)
const one f32[] = 1
k = add(g, one)
t = transpose(i) perm=0,2,3,1
u = transpose(t) perm=0,3,1,2
output u
output k
""",
    "movement": """octet 1
input x f32[2,3,4]
const s i64[1] = 1
const e i64[1] = 9
const p i64[6] = 0,1,0,0,-1,2
const r i64[4] = 2,1,3,4
a = slice(x, s, e)
c = pad(x, p) mode="edge"
d = expand(x, r)
f = gather(x, s) axis=1
g, h = split(x) axis=2 num_outputs=2
q = squeeze(f, s)
output a
output c
output g
output h
output q
""",
}


def fill(n):
    return [((k * 37) % 23 - 11) / 16 for k in range(n)]


def const(name, *shape):
    n = 1
    for d in shape:
        n *= d
    return b(5, floats(name, shape, *fill(n)))


def ints(name, *values):
    return b(5, raw(name, [len(values)], INT64, struct.pack("<%dq" % len(values), *values)))


def whole(path, shape, *parts, out=(1,)):
    """A model of one input x and one output y."""
    return model(*parts, value(11, "x", shape), value(12, "y", list(out)))


def qdq(name, scale, zero, kind=UINT8):
    """Constants of a quantize - dequantize pair and the pair itself: NAME to NAME_d."""
    s, z = name + "_s", name + "_z"
    return [b(5, floats(s, [], scale)), b(5, raw(z, [], kind, struct.pack("b" if kind == INT8 else "B", zero))), node("QuantizeLinear", [name, s, z], [name + "_q"]),
            node("DequantizeLinear", [name + "_q", s, z], [name + "_d"])]


def models():
    image = [1, 3, 6, 6]
    conv = const("w", 4, 3, 3, 3) + const("c", 4)
    yield "conv_relu_pool", whole("", image, node("Conv", ["x", "w", "c"], ["h"], pads=[1, 1, 1, 1]), node("Relu", ["h"], ["r"]),
                                  node("MaxPool", ["r"], ["y"], kernel_shape=[2, 2], strides=[2, 2]), conv)
    yield "depthwise", whole("", image, node("Conv", ["x", "w"], ["h"], group=3, pads=[1, 0, 1, 2], strides=[2, 1], dilations=[1, 2]), node("HardSwish", ["h"], ["y"]), const("w", 3, 1, 3, 3))
    yield "residual", whole("", image, node("Conv", ["x", "w", "c"], ["h"]), node("Conv", ["x", "w", "c"], ["k"]), node("Add", ["h", "k"], ["a"]),
                            node("Clip", ["a", "low", "high"], ["y"]), conv, b(5, floats("low", [], 0)), b(5, floats("high", [], 6)))
    yield "squeeze_excite", whole("", image, node("GlobalAveragePool", ["x"], ["g"]), node("Conv", ["g", "w"], ["k"]), node("Sigmoid", ["k"], ["s"]), node("Mul", ["x", "s"], ["m"]),
                                  node("Conv", ["m", "w"], ["y"]), const("w", 3, 3, 1, 1))
    yield "batch_norm", whole("", image, node("BatchNormalization", ["x", "p", "p", "p", "v"], ["n"]), node("Conv", ["n", "w", "c"], ["h"]),
                              node("BatchNormalization", ["h", "q", "q", "q", "u"], ["y"]), conv, const("p", 3), const("q", 4), b(5, floats("v", [3], 1, 2, 3)), b(5, floats("u", [4], 1, 2, 3, 4)))
    yield "dense", whole("", [2, 8], node("Gemm", ["x", "w", "c"], ["h"], transB=1, alpha=.5), node("Softmax", ["h"], ["y"], axis=-1), const("w", 5, 8), const("c", 5))
    yield "matmul", whole("", [2, 3, 8], node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "c"], ["a"]), node("Erf", ["a"], ["e"]), node("MatMul", ["e", "v"], ["y"]),
                          const("w", 8, 6), const("c", 6), const("v", 6, 2))
    yield "concat_average", whole("", image, node("Conv", ["x", "w", "c"], ["h"], pads=[1] * 4), node("Concat", ["h", "x"], ["k"], axis=1),
                                  node("AveragePool", ["k"], ["y"], kernel_shape=[3, 3], pads=[1] * 4, ceil_mode=1, strides=[2, 2]), conv)
    yield "movement", whole("", [2, 3, 4], node("Transpose", ["x"], ["t"], perm=[2, 0, 1]), node("Slice", ["t", "s", "e"], ["l"]), node("Pad", ["l", "p"], ["d"]),
                            node("Reshape", ["d", "r"], ["h"]), node("Unsqueeze", ["h", "s"], ["u"]), node("Expand", ["u", "z"], ["y"]),
                            ints("s", 1), ints("e", 100), ints("p", 1, 0, 0, 0, 1, 0), ints("r", 0, -1), ints("z", 2, 1, 1, 1))
    yield "shapes", whole("", ["N", 3, 4], node("Shape", ["x"], ["s"]), node("Gather", ["s", "k"], ["g"], axis=0), node("Unsqueeze", ["g", "a"], ["u"]),
                          node("Concat", ["u", "m"], ["c"], axis=0), node("Reshape", ["x", "c"], ["y"]), b(5, raw("k", [], INT64, bytes(8))), ints("a", 0), ints("m", -1))
    yield "reduce_where", whole("", [3, 4], node("ReduceMean", ["x", "one"], ["m"]), node("Less", ["x", "m"], ["l"]), node("Where", ["l", "x", "m"], ["w"]),
                                node("Pow", ["w", "two"], ["p"]), node("ReduceMax", ["p", "zero"], ["y"], keepdims=0), b(5, floats("two", [], 2)), ints("one", 1),
                                ints("zero", 0))
    integers = b(5, raw("w_q", [4, 3, 1, 1], INT8, bytes(range(122, 134)))) + b(5, floats("w_s", [4], .1, .2, .3, .4)) + b(5, raw("c_q", [4], INT32, struct.pack("<4i", 5, -6, 700, 8)))
    yield "qdq_conv", whole("", image, *qdq("x", .05, 128), integers, b(5, floats("c_s", [4], .005, .01, .015, .02)), node("DequantizeLinear", ["w_q", "w_s"], ["w"], axis=0),
                            node("DequantizeLinear", ["c_q", "c_s"], ["c"], axis=0), node("Conv", ["x_d", "w", "c"], ["h"]), node("Relu", ["h"], ["r"]), *qdq("r", .1, 0),
                            node("MaxPool", ["r_d"], ["y"], kernel_shape=[2, 2]))
    yield "qdq_add", whole("", [2, 3], *qdq("x", .05, 3, INT8), node("Sigmoid", ["x_d"], ["g"]), *qdq("g", .004, 0), node("Add", ["x_d", "g_d"], ["a"]), *qdq("a", .06, 100),
                           node("Mul", ["a_d", "g_d"], ["y"]))
    yield "qlinear", whole("", image, b(5, floats("s", [], .05)), b(5, raw("z", [], UINT8, b"\x80")), integers, b(5, raw("wz", [4], INT8, bytes(4))),
                           node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("QLinearConv", ["q", "s", "z", "w_q", "w_s", "wz", "s", "z", "c_q"], ["p"]),
                           node("DequantizeLinear", ["p", "s", "z"], ["y"]))
    yield "dynamic", whole("", [2, 4], node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), node("MatMulInteger", ["q", "w", "z"], ["a"]), node("Cast", ["a"], ["f"], to=FLOAT),
                           node("Mul", ["f", "s"], ["y"]), b(5, raw("w", [4, 4], INT8, bytes(range(120, 136)))))
    yield "half", whole("", [2, 3], node("Cast", ["k"], ["w"], to=FLOAT), node("MatMul", ["x", "w"], ["y"]), b(5, raw("k", [3, 2], 10, bytes(range(48, 60)))))
    yield "layer_norm", whole("", [2, 8], node("LayerNormalization", ["x", "w", "c"], ["n"], axis=-1), node("PRelu", ["n", "c"], ["y"]), const("w", 8), const("c", 8))
    yield "one_axis", whole("", [1, 2, 9], node("Conv", ["x", "w"], ["h"], strides=[2], pads=[1, 2]), node("GlobalMaxPool", ["h"], ["y"]), const("w", 3, 2, 3))


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent / "fuzz" / "corpus")
    for folder in ("oct", "run"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    for name, text in TEXTS.items():
        (out / "oct" / (name + ".oct")).write_text(text)
    for name, data in models():
        (out / "run" / (name + ".onnx")).write_bytes(data)


if __name__ == "__main__":
    main()
