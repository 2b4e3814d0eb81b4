#!/usr/bin/env python3
"""Small random networks, judged by ONNX Runtime: float results, int8 ones as written to ONNX, the same bytes on every instruction set.

  test_random_graphs.py [FIRST [COUNT]]     networks FIRST to FIRST + COUNT - 1; a failure names its number

SPDX-License-Identifier: MIT
"""
import pathlib
import sys
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cli_checks import *  # noqa: E402,F403


class Random:
    """Draws operators that fit what is there: `values` are (name, [channels, height, width])."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.net = Net(opset=int(self.rng.choice([14, 17, 18])))
        self.net.rng = np.random.default_rng(seed + 1000000)
        c, h, w = int(self.rng.choice([1, 2, 3, 4, 8, 17])), int(self.rng.integers(5, 15)), int(self.rng.integers(5, 15))
        self.shape = [c, h, w]
        self.values = [(self.net.input("x", ["N", c, h, w]), [c, h, w])]

    def pick(self, fits=lambda shape: True):
        found = [v for v in self.values[-4:] if fits(v[1])]
        return found[self.rng.integers(len(found))] if found else None

    def put(self, name, shape):
        self.values.append((name, shape))

    def conv(self):
        name, (c, h, w) = self.pick()
        kernel = [int(k) for k in self.rng.choice([1, 1, 2, 3, 3, 5], 2)] if self.rng.random() < .3 else [int(self.rng.choice([1, 3, 3, 5]))] * 2
        strides, dilations = [int(k) for k in self.rng.choice([1, 1, 1, 2], 2)], [int(k) for k in self.rng.choice([1, 1, 1, 2], 2)]
        pads = [int(p) for p in self.rng.integers(0, 3, 4)] if self.rng.random() < .3 else [(kernel[0] - 1) // 2 * dilations[0], (kernel[1] - 1) // 2 * dilations[1]] * 2
        group = int(self.rng.choice([1, 1, 1, c, 2 if c % 2 == 0 else 1]))
        out = group * int(self.rng.integers(1, max(2, 20 // group + 1)))
        size = [(n + pads[i] + pads[i + 2] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i, n in enumerate((h, w))]
        if min(size) < 1:
            return
        inputs = [name, self.net.random(out, c // group, *kernel)] + ([self.net.random(out, scale=.3)] if self.rng.random() < .8 else [])
        self.put(self.net.op("Conv", inputs, pads=pads, strides=strides, dilations=dilations, group=group), [out] + size)

    def activation(self):
        name, shape = self.pick()
        kind = self.rng.choice(["Relu", "Relu", "Clip", "LeakyRelu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Elu", "PRelu"])
        attributes = {"alpha": .1} if kind == "LeakyRelu" else {}
        inputs = [name]
        if kind == "Clip":
            inputs += [self.net.const(float(self.rng.choice([0, 0, -1, .5]))), self.net.const(float(self.rng.choice([6, 1, 2.5])))]
        elif kind == "PRelu":
            inputs.append(self.net.random(shape[0], 1, 1, scale=.2))
        self.put(self.net.op(str(kind), inputs, **attributes), shape)

    def pool(self):
        name, (c, h, w) = self.pick()
        kernel, strides = [int(k) for k in self.rng.integers(1, 4, 2)], [int(k) for k in self.rng.integers(1, 3, 2)]
        pads = [int(self.rng.integers(0, k)) for k in kernel] + [int(self.rng.integers(0, k)) for k in kernel]
        size = [(n + pads[i] + pads[i + 2] - kernel[i]) // strides[i] + 1 for i, n in enumerate((h, w))]
        if min(size) < 1:
            return
        kind = str(self.rng.choice(["MaxPool", "AveragePool"]))
        attributes = {"count_include_pad": int(self.rng.integers(2))} if kind == "AveragePool" else {}
        self.put(self.net.op(kind, [name], kernel_shape=kernel, strides=strides, pads=pads, **attributes), [c] + size)

    def binary(self):
        a = self.pick()
        b = self.pick(lambda s: s == a[1])
        kind = str(self.rng.choice(["Add", "Add", "Mul", "Sub", "Max", "Min"]))
        if self.rng.random() < .25:
            b = (self.net.random(*(a[1] if self.rng.random() < .3 else (a[1][0], 1, 1)), scale=1.), a[1])
        self.put(self.net.op(kind, [a[0], b[0]]), a[1])

    def concat(self):
        a = self.pick()
        b = self.pick(lambda s: s[1:] == a[1][1:])
        if a[1][0] + b[1][0] < 64:
            self.put(self.net.op("Concat", [a[0], b[0]], axis=1), [a[1][0] + b[1][0]] + a[1][1:])

    def excite(self):
        name, (c, h, w) = self.pick()
        gate = self.net.op("Conv", [self.net.op("GlobalAveragePool", [name]), self.net.random(c, c, 1, 1)])
        self.put(self.net.op("Mul", [name, self.net.op("Sigmoid", [gate])]), [c, h, w])

    def movement(self):
        name, (c, h, w) = self.pick()
        kind = self.rng.integers(5)
        if kind == 0:
            pads = [int(p) for p in self.rng.integers(0, 3, 4)]
            y = self.net.op("Pad", [name, self.net.const([0, 0, pads[0], pads[1], 0, 0, pads[2], pads[3]], dtype=np.int64)])
            self.put(y, [c, h + pads[0] + pads[2], w + pads[1] + pads[3]])
        elif kind == 1 and h > 2:
            y = self.net.op("Slice", [name, self.net.const([1], dtype=np.int64), self.net.const([h], dtype=np.int64), self.net.const([2], dtype=np.int64)])
            self.put(y, [c, h - 1, w])
        elif kind == 2:
            self.put(self.net.op("Transpose", [name], perm=[0, 1, 3, 2]), [c, w, h])
        elif kind == 3:
            y = self.net.op("Reshape", [name, self.net.const([0, 0, -1, 1], dtype=np.int64)])
            self.put(self.net.op("Reshape", [y, self.net.const([0, c, h, w], dtype=np.int64)]), [c, h, w])
        elif c % 2 == 0:
            y = self.net.op("Reshape", [name, self.net.const([0, 2, c // 2, h, w], dtype=np.int64)])
            y = self.net.op("Transpose", [y], perm=[0, 2, 1, 3, 4])
            self.put(self.net.op("Reshape", [y, self.net.const([0, c, h, w], dtype=np.int64)]), [c, h, w])

    def normalize(self):
        name, shape = self.pick()
        c = shape[0]
        statistics = [self.net.const(a.astype(np.float32)) for a in (self.rng.uniform(.5, 1.5, c), self.rng.normal(0, .3, c), self.rng.normal(0, .3, c), self.rng.uniform(.5, 1.5, c))]
        self.put(self.net.op("BatchNormalization", [name] + statistics), shape)

    def build(self):
        draws = [self.conv] * 5 + [self.activation] * 4 + [self.binary] * 2 + [self.pool, self.concat, self.excite, self.movement, self.normalize]
        self.conv()
        for _ in range(int(self.rng.integers(3, 14))):
            draws[self.rng.integers(len(draws))]()
        name, (c, h, w) = self.values[-1]
        if self.rng.random() < .5:
            flat = self.net.op("Flatten", [name])
            name = self.net.op("Gemm", [flat, self.net.random(7, c * h * w), self.net.random(7)], transB=1)
            if self.rng.random() < .4:
                name = self.net.op("Softmax", [name], axis=-1)
        self.net.output(name)
        if self.rng.random() < .3 and self.values[-2][0] != name:
            self.net.output(self.values[-2][0])
        return self.net.save("random.onnx")


class RandomRows:
    """Networks of matrix products: values are (name, [rows, width])."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.net = Net(opset=17)
        self.net.rng = np.random.default_rng(seed + 1000000)
        self.shape = [int(self.rng.integers(1, 9)), int(self.rng.choice([3, 4, 8, 16, 33]))]
        self.values = [(self.net.input("x", ["N", *self.shape]), self.shape)]

    def last(self, fits=lambda shape: True):
        found = [v for v in self.values[-4:] if fits(v[1])]
        return found[self.rng.integers(len(found))]

    def product(self):
        name, (rows, width) = self.last()
        out = int(self.rng.integers(1, 40))
        y = self.net.op("MatMul", [name, self.net.random(width, out, scale=1 / np.sqrt(width))])
        if self.rng.random() < .7:
            y = self.net.op("Add", [y, self.net.random(out)][::int(self.rng.choice([1, -1]))])
        self.values.append((y, [rows, out]))

    def function(self):
        name, shape = self.last()
        kind = str(self.rng.choice(["Relu", "Tanh", "Sigmoid", "Softmax", "gelu", "norm"]))
        if kind == "gelu":
            e = self.net.op("Add", [self.net.op("Erf", [self.net.op("Div", [name, self.net.const(np.sqrt(2.))])]), self.net.const(1.)])
            y = self.net.op("Mul", [self.net.op("Mul", [name, e]), self.net.const(.5)])
        elif kind == "norm":
            y = self.net.op("LayerNormalization", [name, self.net.random(shape[1], scale=1.), self.net.random(shape[1])], axis=-1)
        else:
            y = self.net.op(kind, [name], **({"axis": -1} if kind == "Softmax" else {}))
        self.values.append((y, shape))

    def residual(self):
        a = self.last()
        self.values.append((self.net.op(str(self.rng.choice(["Add", "Mul"])), [a[0], self.last(lambda s: s == a[1])[0]]), a[1]))

    def attention(self):
        name, (rows, width) = self.last()
        q, k, v = (self.net.op("MatMul", [name, self.net.random(width, 8, scale=1 / np.sqrt(width))]) for _ in range(3))
        scores = self.net.op("Mul", [self.net.op("MatMul", [q, self.net.op("Transpose", [k], perm=[0, 2, 1])]), self.net.const(8 ** -.5)])
        self.values.append((self.net.op("MatMul", [self.net.op("Softmax", [scores], axis=-1), v]), [rows, 8]))

    def movement(self):
        name, (rows, width) = self.last()
        kind = self.rng.integers(3)
        if kind == 0:
            self.values.append((self.net.op("Transpose", [name], perm=[0, 2, 1]), [width, rows]))
        elif kind == 1:
            self.values.append((self.net.op("Reshape", [name, self.net.const([0, width, rows], dtype=np.int64)]), [width, rows]))
        else:
            self.values.append((self.net.op("ReduceMean", [name], axes=[1], keepdims=1), [1, width]))

    def build(self):
        draws = [self.product] * 4 + [self.function] * 4 + [self.residual, self.attention, self.movement]
        self.product()
        for _ in range(int(self.rng.integers(2, 10))):
            draws[self.rng.integers(len(draws))]()
        self.net.output(self.values[-1][0])
        return self.net.save("random.onnx")


def relative(got, want):
    largest = max(np.abs(want).max(), 1e-6)
    return np.abs(got.astype(np.float64) - want).max() / largest


def check_int8(model, r, data, want, seed):
    options = [[], ["--observer", "percentile"], ["--symmetric"], ["--io", "uint8"], ["--io", "int8"], ["--per-tensor"], ["--observer", "mse"]][seed % 7]
    q, report = quantize(model, data, *options)
    feeds = {"x": data}
    kind = {TensorProto.UINT8: np.uint8, TensorProto.INT8: np.int8}.get(onnx.load(str(q)).graph.input[0].type.tensor_type.elem_type)
    if kind is not None:
        feeds = {"x": r.rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, data.shape).astype(kind)}
    ours, theirs = run_octet(q, feeds), run_ort(q, feeds)
    for name in want:
        assert ours[name].dtype == theirs[name].dtype and ours[name].shape == theirs[name].shape, f"int8, {name}: {ours[name].dtype} {theirs[name].dtype}"
        # One multiplier in place of three float operations differs at ties, and what follows carries that on.
        ratio = sqnr(ours[name], theirs[name])
        assert ratio > 26, f"int8 {options}, {name}: {ratio:.1f} dB from ONNX Runtime's run of the same file"
        if ours[name].dtype == np.float32 and kind is None:
            assert sqnr(ours[name], want[name]) > 3, f"int8 {options}, {name}: {sqnr(ours[name], want[name]):.1f} dB from float"
    if report["float_islands"]:
        return
    other = run_octet(q, feeds, environment={"OCTET_ISA": ("scalar", "avx2", "avxvnni", "avx512")[seed % 4]})
    for name in want:  # what is float at the end may differ in its last bits
        if ours[name].dtype != np.float32:
            assert ours[name].tobytes() == other[name].tobytes(), f"int8 {options}, {name}: other bytes with another instruction set"
        else:
            assert relative(other[name], ours[name]) < 1e-5, f"int8 {options}, {name}: {relative(other[name], ours[name])} with another instruction set"


def check_mode(model, data, want, mode):
    """The dynamic form takes one sample: there the range of a tensor is that of the sample."""
    count = 1 if mode == "dynamic" else len(data)
    q, _ = quantize(model, None, "--mode", mode)
    ours, theirs = run_octet(q, {"x": data[:count]}), run_ort(q, {"x": data[:count]})
    for name, w in want.items():
        ratio = sqnr(ours[name], theirs[name])
        # A step that falls the other way at a tie may be all that is left of a softmax of large numbers: then none may be worse than the other.
        shaky = mode == "dynamic" and sqnr(ours[name], w[:count]) > sqnr(theirs[name], w[:count]) - 6
        assert ratio > (26 if mode == "dynamic" else 80) or shaky, f"{mode}, {name}: {ratio:.1f} dB from ONNX Runtime's run of the same file"
        assert sqnr(ours[name], w[:count]) > (30 if mode == "fp16" else 3), f"{mode}, {name}: {sqnr(ours[name], w[:count]):.1f} dB from float"


def check(seed):
    r = RandomRows(seed) if seed % 4 == 3 else Random(seed)
    model = r.build()
    data = r.rng.standard_normal((12, *r.shape)).astype(np.float32) * float(r.rng.choice([.1, 1, 2 if isinstance(r, RandomRows) else 20]))
    want, got = run_ort(model, {"x": data}), run_octet(model, {"x": data}, "--threads", 1 + seed % 2)
    for name in want:
        assert relative(got[name], want[name]) < 1e-4, f"float, {name}: {relative(got[name], want[name])}"
    check_int8(model, r, data, want, seed)
    check_mode(model, data, want, ("dynamic", "weight-only", "fp16")[seed % 3])


def main():
    first, count = int(sys.argv[1]) if len(sys.argv) > 1 else 0, int(sys.argv[2]) if len(sys.argv) > 2 else 8 if SANITIZED else 40
    failed = []
    for seed in range(first, first + count):
        try:
            check(seed)
        except Exception as e:
            failed.append(seed)
            print(f"network {seed}: {e if isinstance(e, AssertionError) else traceback.format_exc()}")
    print(f"{count - len(failed)} of {count} networks pass" + (f"; failed: {failed}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
