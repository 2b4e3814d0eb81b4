#!/usr/bin/env python3
"""Real networks against ONNX Runtime: float results with every pass and fusion on and off, static int8 of each, photos, and ONNX's own node tests.

Reads OCTET_BINARY and OCTET_SOURCE_DIR. Needs numpy, onnx, onnxruntime, and ../shared beside the project (else it is skipped). The node tests and two
networks are made once and kept in the folder the test runs in. ResNet18 has random weights: it serves agreement only.
SPDX-License-Identifier: MIT
"""
import gzip
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cli_checks import MNIST, SANITIZED, SOURCE, TEMP, np, octet, onnx, ort, start  # noqa: E402

SHARED = SOURCE.parent / "shared"
DATA, PEERS, PHOTOS = SHARED / "data", SHARED / "peers", SHARED / "data" / "data-photos"
if not DATA.is_dir() or not PEERS.is_dir():
    print("skipped: no models beside the project (../shared)")
    sys.exit(77)
KEPT = pathlib.Path.cwd()
PASSES = sorted(name for file in (SOURCE / "src" / "passes").glob("*.c") for name in re.findall(r"^const oct_pass oct_pass_(\w+) =", file.read_text(), re.M))


def fusions():
    """The kinds that --no-fuse knows, from what it says to a wrong one."""
    done = start("run", MNIST / "mnist.oct", "--no-fuse", "?")
    return re.search(r'"\?": (.*), or a pass', done.stderr)[1].split(", ")


def session(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


# ---- Data ----


def png(path):
    """[height, width, 3] of an 8-bit PNG without interlacing."""
    raw = pathlib.Path(path).read_bytes()
    at, packed = 8, b""
    while at < len(raw):
        size, kind = struct.unpack(">I4s", raw[at:at + 8])
        body = raw[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, color = struct.unpack(">IIBB", body[:10])
        elif kind == b"IDAT":
            packed += body
        at += 12 + size
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[color]
    assert depth == 8 and raw[28] == 0, path
    stride, lines = width * channels, zlib.decompress(packed)
    image = np.zeros((height + 1, stride + channels), np.uint8)
    for y in range(height):
        kind, row = lines[y * (stride + 1)], np.frombuffer(lines, np.uint8, stride, y * (stride + 1) + 1)
        above, out = image[y, channels:], image[y + 1]
        if kind in (0, 2):
            out[channels:] = row + (above if kind == 2 else 0)
            continue
        for x in range(stride):
            left, up, corner = int(out[x]), int(image[y, x + channels]), int(image[y, x])
            if kind == 1:
                guess = left
            elif kind == 3:
                guess = (left + up) // 2
            else:
                p = left + up - corner
                distances = (abs(p - left), abs(p - up), abs(p - corner))
                guess = (left, up, corner)[distances.index(min(distances))]
            out[x + channels] = (int(row[x]) + guess) & 255
    pixels = image[1:, channels:].reshape(height, width, channels)
    return pixels[..., :3] if channels >= 3 else np.repeat(pixels[..., :1], 3, 2)


def photos():
    """All photos, [N, 3, 224, 224] in 0..255, by name; decoded once."""
    kept = KEPT / "photos.npy"
    names = sorted(p.name for p in PHOTOS.glob("*.png"))
    if not kept.exists():
        np.save(kept, np.stack([png(PHOTOS / name) for name in names]).transpose(0, 3, 1, 2))
    return names, np.load(kept).astype(np.float32)


def digits(count):
    raw = gzip.open(SOURCE / "examples" / "mnist" / "train10k-images-idx3-ubyte.gz").read()
    return np.frombuffer(raw, np.uint8, count * 784, 16).reshape(count, 1, 28, 28).astype(np.float32)


def noise(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def faces():
    small = (photos()[1] - 127) / 128
    return np.pad(small, ((0, 0), (0, 0), (8, 8), (48, 48)), "edge")


# name, path, samples, least output SQNR of static int8 in dB, runs under the sanitizers too
MODELS = [
    ("seed_mnist", KEPT / "seed_mnist.onnx", lambda: digits(200) / 255, 32, True),
    ("mnist_8", DATA / "onnx-zoo-small" / "mnist_8" / "model.onnx", lambda: digits(100), 35, True),
    ("resnet20", DATA / "resnet-cifar10" / "resnet20.onnx", lambda: noise(16, 3, 32, 32), 25, True),
    ("super_resolution_10", DATA / "onnx-zoo-small" / "super_resolution_10" / "model.onnx", lambda: photos()[1][:4].mean(1, keepdims=True) / 255, 20, False),
    ("version-RFB-320", DATA / "ultraface" / "version-RFB-320.onnx", lambda: faces(), 35, False),
    ("efficientnet-lite0", DATA / "efficientnet-lite0" / "efficientnet-lite0.onnx", lambda: (photos()[1] - 127) / 128, 16, False),
    ("resnet18", KEPT / "resnet18.onnx", lambda: noise(4, 3, 224, 224), 30, False),
]


def setUpModule():
    sys.path.insert(0, str(PEERS))
    import peers
    if not (KEPT / "seed_mnist.onnx").exists():
        peers.seed_mnist(KEPT / "seed_mnist.onnx", np.load(DATA / "seed-mnist" / "orig.npz"))
    if not SANITIZED and not (KEPT / "resnet18.onnx").exists():
        peers.resnet18(KEPT / "resnet18.onnx")


def wanted():
    for row in MODELS:
        if SANITIZED and not row[4]:
            continue
        if not row[1].exists():
            print(f"skipped: {row[1]} is not here")
            continue
        yield row


class Float(unittest.TestCase):
    def agrees(self, name, model, feed, want, *options):
        octet("run", model, "--input", feed, "--output-dir", TEMP / name, *options)
        worst = 0.0
        for output, reference in want.items():
            got = np.load(TEMP / name / (output.replace("/", "_") + ".npy"))
            self.assertEqual(got.shape, reference.shape)
            worst = max(worst, float(np.abs(got - reference).max() / np.abs(reference).max()))
        self.assertLessEqual(worst, 1e-4, f"{name} {options}")
        return worst

    def test_outputs_are_those_of_onnx_runtime(self):
        options = fusions() + PASSES
        self.assertLessEqual({"all", "residual", "activation", "table", "constant_folding", "fold_batch_normalization"}, set(options))
        for name, path, samples, _, _ in wanted():
            judge = session(path)
            feed = samples()[:1]
            np.save(TEMP / f"{name}.npy", feed)
            outputs = [o.name for o in judge.get_outputs()]
            want = dict(zip(outputs, judge.run(None, {judge.get_inputs()[0].name: feed})))
            worst = self.agrees(name, path, TEMP / f"{name}.npy", want)
            for option in ["all"] if name == "resnet18" else options:
                worst = max(worst, self.agrees(name, path, TEMP / f"{name}.npy", want, "--no-fuse", option))
            worst = max(worst, self.agrees(name, path, TEMP / f"{name}.npy", want, "--no-fuse", ",".join(options)))
            print(f"{name}: largest difference {worst:.2g} of the largest output")

    def test_batches_and_threads(self):
        """A batch gives what its samples give, with one thread and with two."""
        for name, path, samples, _, _ in wanted():
            declared = session(path).get_inputs()[0].shape[0]
            if isinstance(declared, int) or name == "resnet18":
                continue
            np.save(TEMP / "three.npy", samples()[:3])
            octet("run", path, "--input", TEMP / "three.npy", "--output-dir", TEMP / "one")
            octet("run", path, "--input", TEMP / "three.npy", "--output-dir", TEMP / "two", "--threads", 2)
            for array in (TEMP / "one").glob("*.npy"):
                self.assertEqual(array.read_bytes(), (TEMP / "two" / array.name).read_bytes(), name)
            whole = np.load(TEMP / "one" / "output.npy")
            np.save(TEMP / "last.npy", samples()[2:3])
            octet("run", path, "--input", TEMP / "last.npy", "--output-dir", TEMP / "one")
            last = np.load(TEMP / "one" / "output.npy")
            self.assertLessEqual(float(np.abs(whole[2] - last[0]).max()), 1e-5 * float(np.abs(last).max()), name)

    def test_recorded_cases(self):
        result = octet("check", DATA / "onnx-zoo-small").splitlines()[-1]
        self.assertRegex(result, r"^[2-9] passed, 0 failed, 0 skipped$")


class Int8(unittest.TestCase):
    def test_static_int8_of_each(self):
        for name, path, samples, least, _ in wanted():
            np.save(TEMP / "samples.npy", samples())
            octet("quantize", path, "-o", TEMP / f"{name}-int8.onnx", "--calibration", TEMP / "samples.npy", "--samples", 0)
            report = json.loads(octet("compare", path, TEMP / f"{name}-int8.onnx", "--data", TEMP / "samples.npy", "--samples", 4, "--json"))
            ratios = {o["name"]: o["sqnr_db"] for o in report["outputs"]}
            print(f"{name}: output SQNR {ratios} dB, float: {report['float_islands']}")
            self.assertGreaterEqual(min(ratios.values()), least, name)
            # ONNX Runtime takes the file, and its results are nearer to Octet's than either is to float.
            feed = samples()[:1]
            np.save(TEMP / "feed.npy", feed)
            octet("run", TEMP / f"{name}-int8.onnx", "--input", TEMP / "feed.npy", "--output-dir", TEMP / "int8")
            judge = session(TEMP / f"{name}-int8.onnx")
            for output, reference in zip(judge.get_outputs(), judge.run(None, {judge.get_inputs()[0].name: feed})):
                got = np.load(TEMP / "int8" / (output.name + ".npy"))
                noise_power, power = float(np.square(got - reference).mean()), float(np.square(reference).mean())
                print(f"{name}: {output.name} agrees with ONNX Runtime to {10 * np.log10(power / max(noise_power, 1e-30)):.0f} dB")
                self.assertLess(noise_power, power * 10 ** (-40 / 10), f"{name}: {output.name}")

    def test_bytes_are_the_same_everywhere(self):
        for name, path, samples, _, _ in wanted():
            if name not in ("resnet20", "super_resolution_10", "mnist_8"):  # others end in float operators
                continue
            np.save(TEMP / "samples.npy", samples()[:8])
            octet("quantize", path, "-o", TEMP / "bytes.onnx", "--calibration", TEMP / "samples.npy")
            np.save(TEMP / "feed.npy", samples()[:1])
            want = None
            for isa in ("scalar", "avx2", "avxvnni", "avx512vnni"):
                for threads in (1, 2):
                    octet("run", TEMP / "bytes.onnx", "--input", TEMP / "feed.npy", "--output-dir", TEMP / f"bytes-{name}", "--threads", threads, environment={"OCTET_ISA": isa})
                    got = {p.name: p.read_bytes() for p in (TEMP / f"bytes-{name}").glob("*.npy")}
                    want = want or got
                    self.assertEqual(got, want, f"{name}: {isa}, {threads} threads")


class Photos(unittest.TestCase):
    PREPROCESS = "scale=1 mean=127 std=128 color=rgb"

    def setUp(self):
        self.model = DATA / "efficientnet-lite0" / "efficientnet-lite0.onnx"
        if SANITIZED or not self.model.exists() or not PHOTOS.is_dir():
            self.skipTest("no EfficientNet or no photos here")

    def octet_top1(self, model):
        return json.loads(octet("eval", model, "--data", PHOTOS, "--labels", PHOTOS / "labels.tsv", "--preprocess", self.PREPROCESS, "--json"))

    def runtime_top1(self, path):
        labels = {}
        for line in (PHOTOS / "labels.tsv").read_text().splitlines()[1:]:
            name, classes = line.split("\t")[:2]
            labels[name] = {int(c) for c in classes.split(",") if c}
        names, pixels = photos()
        judge, right = session(path), 0
        for name, image in zip(names, pixels):
            if labels.get(name):
                right += int(judge.run(None, {"input": (image[None] - 127) / 128})[0].argmax()) in labels[name]
        return right

    def runtime_int8(self):
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
        batches = iter([(image[None] - 127) / 128 for image in photos()[1]])

        class Reader(CalibrationDataReader):
            def get_next(self):
                batch = next(batches, None)
                return None if batch is None else {"input": batch}

        target = KEPT / f"efficientnet-runtime-int8-{ort.__version__}.onnx"
        if not target.exists():
            copy = TEMP / "runtime-float.onnx"  # it writes beside its input, which may be read-only
            shutil.copyfile(self.model, copy)
            quantize_static(str(copy), str(target), Reader(), quant_format=QuantFormat.QDQ, per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
        return target

    def kept(self, scores, want):
        return int((scores.argmax(1) == want.argmax(1)).sum())

    def test_classes_are_kept(self):
        """Of all photos, as many keep the float network's class as with ONNX Runtime's static int8, or more."""
        pixels = (photos()[1] - 127) / 128
        np.save(TEMP / "photos.npy", pixels)
        octet("quantize", self.model, "-o", TEMP / "photos-int8.onnx", "--calibration", PHOTOS, "--preprocess", self.PREPROCESS, "--samples", 0)
        octet("run", TEMP / "photos-int8.onnx", "--input", TEMP / "photos.npy", "--output-dir", TEMP / "photos")
        judge, other = session(self.model), session(self.runtime_int8())
        want, theirs = (np.concatenate([s.run(None, {"input": image[None]})[0] for image in pixels]) for s in (judge, other))
        ours = np.load(TEMP / "photos" / "output.npy")
        print(f"photos: static int8 keeps {self.kept(ours, want)} classes of {len(want)}, ONNX Runtime's {self.kept(theirs, want)}")
        self.assertGreaterEqual(self.kept(ours, want), self.kept(theirs, want))

    def test_float_and_int8(self):
        plain = self.octet_top1(self.model)
        self.assertEqual(plain["total"], 17)
        self.assertEqual(plain["correct"], self.runtime_top1(self.model))
        octet("quantize", self.model, "-o", TEMP / "photos-int8.onnx", "--calibration", PHOTOS, "--preprocess", self.PREPROCESS, "--samples", 0)
        ours, theirs = self.octet_top1(TEMP / "photos-int8.onnx"), self.runtime_top1(self.runtime_int8())
        print(f"photos: float {plain['correct']}, static int8 {ours['correct']}, ONNX Runtime's static int8 {theirs} of 17")
        self.assertGreaterEqual(ours["correct"], plain["correct"] - 1)


class NodeTests(unittest.TestCase):
    """ONNX's backend tests of the operators that Octet has."""

    OPERATORS = ("basic_conv|conv|convtranspose|gemm|matmul|maxpool|averagepool|globalaveragepool|batchnorm|relu|clip|leakyrelu|prelu|sigmoid|tanh|hardsigmoid|hardswish|softmax|add|sub|mul|div|pow"
                 "|min|max|exp|log|sqrt|erf|round|where|less|less_equal|greater|greater_equal|equal|concat|reshape|flatten|squeeze|unsqueeze|transpose|constant|constant_pad|edge_pad"
                 "|reflect_pad|wrap_pad|slice|gather|shape|expand|reduce_mean|reduce_sum|reduce_max|reduce_min|identity|cast|castlike|quantizelinear|dequantizelinear|qlinearconv"
                 "|qlinearmatmul|convinteger|matmulinteger|dynamicquantizelinear")
    OTHERS = r"^test_(gather_elements|reduce_sum_square|max_unpool|reduce_log)"
    TRUE_REASONS = r"FLOAT8|FLOAT4|\bU?INT[24]\b|STRING|training|is optional|is a sequence"

    def test_every_case_passes_or_is_skipped_for_a_true_reason(self):
        folder = KEPT / f"node-tests-{onnx.__version__}"
        if not (folder / "complete").exists():
            subprocess.run([sys.executable, str(PEERS / "gen_onnx_node_tests.py"), str(folder), f"^test_({self.OPERATORS})(_|$)"], check=True, capture_output=True)
            (folder / "complete").touch()
        done = start("check", folder, "--json")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        totals, cases = rows[-1], [row for row in rows[:-1] if not re.match(self.OTHERS, row["case"])]
        print(totals)
        self.assertEqual([row for row in cases if row["result"] == "failed"], [], done.stderr)
        untrue = [row for row in cases if row["result"] == "skipped" and not re.search(self.TRUE_REASONS, row["detail"])]
        self.assertEqual(untrue, [])
        passed = {row["case"] for row in cases if row["result"] == "passed"}
        self.assertGreaterEqual(len(passed), 450)
        for case in ("test_basic_conv_with_padding", "test_qlinearconv", "test_qlinearmatmul_2D_uint8_float32", "test_convinteger_with_padding", "test_matmulinteger", "test_dynamicquantizelinear",
                     "test_dynamicquantizelinear_expanded", "test_reshape_allowzero_reordered", "test_slice_neg_steps", "test_maxpool_2d_ceil", "test_batchnorm_epsilon", "test_wrap_pad"):
            self.assertIn(case, passed)


if __name__ == "__main__":
    unittest.main(verbosity=1)
