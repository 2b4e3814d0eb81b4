#!/usr/bin/env python3
"""The main job in numbers: the MNIST network of examples/mnist in every mode, on all 10,000 test digits, with ONNX Runtime as judge.

Reads OCTET_BINARY and OCTET_SOURCE_DIR. Needs numpy, onnx, onnxruntime.
SPDX-License-Identifier: MIT
"""
import gzip
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cli_checks import IMAGES, LABELS, MNIST, SANITIZED, TEMP, TRAIN, np, numpy_helper, octet, onnx, ort  # noqa: E402


def correct(model, **more):
    result = json.loads(octet("eval", model, "--data", IMAGES, "--labels", LABELS, "--json", **more))
    assert result["total"] == 10000
    return result["correct"]


def quantized(mode, seed=0, suffix="onnx"):
    path = TEMP / f"{mode}-{seed}.{suffix}"
    if not path.exists():
        data = ["--calibration", TRAIN, "--samples", 1000, "--seed", seed] if mode == "int8" else []
        octet("quantize", MNIST / "mnist.oct", "-o", path, "--mode", mode, *data)
    return path


def digits():
    raw = gzip.open(IMAGES).read()
    return np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 1, 28, 28).astype(np.float32) / np.float32(255)


def truth():
    return np.frombuffer(gzip.open(LABELS).read(), np.uint8, offset=8)


def runtime(path, feeds):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: feeds})[0]


def run_all(model, folder, **more):
    """Scores of all test digits by `octet run`."""
    if not (TEMP / "digits.npy").exists():
        np.save(TEMP / "digits.npy", digits())
    octet("run", model, "--input", TEMP / "digits.npy", "--output-dir", TEMP / folder, **more)
    return np.load(TEMP / folder / "output.npy")


class Accuracy(unittest.TestCase):
    def test_float(self):
        self.assertEqual(correct(MNIST / "mnist.oct"), 9661)

    def test_float_as_onnx(self):
        octet("convert", MNIST / "mnist.oct", TEMP / "float.onnx")
        self.assertEqual(correct(TEMP / "float.onnx"), 9661)
        self.assertEqual(int((runtime(TEMP / "float.onnx", digits()).argmax(1) == truth()).sum()), 9661)

    def test_int8_for_ten_seeds(self):
        counts = [correct(quantized("int8", seed)) for seed in range(1 if SANITIZED else 10)]
        print("int8 by seed:", counts)
        self.assertGreaterEqual(min(counts), 9655)

    def test_other_modes(self):
        for mode, least in (("fp16", 9659), ("weight-only", 9659), ("dynamic", 9655)):
            for suffix in ("oct", "onnx")[:1 if SANITIZED else 2]:
                count = correct(quantized(mode, suffix=suffix))
                print(f"{mode} ({suffix}): {count}")
                self.assertGreaterEqual(count, least, mode)

    def test_forms_of_int8(self):
        """The file's form does not matter, nor do per-tensor weights or symmetric ranges cost much."""
        self.assertEqual(correct(quantized("int8", suffix="oct")), correct(quantized("int8")))
        for extra in (["--per-tensor"], ["--symmetric"], ["--observer", "mse"], ["--observer", "percentile"], ["--observer", "kl"], ["--observer", "moving-average"])[:1 if SANITIZED else 6]:
            path = TEMP / "extra.onnx"
            octet("quantize", MNIST / "mnist.oct", "-o", path, "--calibration", TRAIN, "--samples", 500, *extra)
            count = correct(path)
            print(extra, count)
            self.assertGreaterEqual(count, 9600, extra)
        for io in ("int8", "uint8")[:1 if SANITIZED else 2]:
            octet("quantize", MNIST / "mnist.oct", "-o", TEMP / "io.onnx", "--calibration", TRAIN, "--samples", 1000, "--io", io)
            kind = json.loads(octet("inspect", TEMP / "io.onnx", "--json"))
            self.assertEqual((kind["inputs"][0]["dtype"], kind["outputs"][0]["dtype"]), ({"int8": "i8", "uint8": "u8"}[io],) * 2)
            self.assertGreaterEqual(correct(TEMP / "io.onnx"), 9640, io)


class Sizes(unittest.TestCase):
    def test_file_and_weights(self):
        path = quantized("int8")
        self.assertLessEqual(path.stat().st_size, 8000)
        self.assertLessEqual(json.loads(octet("inspect", path, "--json"))["bytes"], 4000)
        # The same from the file: everything stored but the scalar 1.0s and the like that carry no information would fit as well.
        graph = onnx.load(str(path)).graph
        stored = sum(numpy_helper.to_array(t).nbytes for t in graph.initializer)
        self.assertGreaterEqual(stored, 72 + 512 + 2048 + 320 + 4 * 66)
        self.assertLessEqual(stored, 4000)

    def test_everything_is_integer(self):
        inspected = json.loads(octet("inspect", quantized("int8"), "--json"))
        self.assertEqual(inspected["boundaries"], 0)
        self.assertTrue(all(o["type"] == "int8" for o in inspected["operators"]), inspected["operators"])


class Judge(unittest.TestCase):
    def test_runtime_agrees_on_every_digit(self):
        path = quantized("int8")
        ours, theirs = run_all(path, "judge"), runtime(path, digits())
        self.assertEqual(ours.shape, (10000, 10))
        self.assertEqual(int((ours.argmax(1) != theirs.argmax(1)).sum()), 0)
        # The last integer layer's step: its input scale times the weight scale of the class.
        model = onnx.load(str(path))
        tensors = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        producers = {o: n for n in model.graph.node for o in n.output}
        gemm = [n for n in model.graph.node if n.op_type in ("Gemm", "MatMul")][-1]
        scales = [tensors[producers[i].input[1]] for i in gemm.input[:2]]
        step = np.asarray(scales[0], np.float64) * np.asarray(scales[1], np.float64)
        worst = np.abs(ours.astype(np.float64) - theirs).max(0)
        print("largest difference in steps:", float((worst / step).max()))
        self.assertTrue((worst <= step * 1.001).all(), (worst / step).max())

    def test_runtime_takes_the_other_modes(self):
        for mode in ("fp16", "weight-only", "dynamic"):
            path = quantized(mode)
            ours, theirs = run_all(path, mode), runtime(path, digits()) if mode != "dynamic" else None
            if theirs is None:  # its ranges are those of the whole batch: one digit at a time
                few = digits()[:200]
                theirs = np.concatenate([runtime(path, few[i:i + 1]) for i in range(0, 200)])
                ours = ours[:200]
            share = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
            print(f"{mode}: largest difference {share:.2g} of the largest score")
            self.assertLessEqual(share, 0.05 if mode == "dynamic" else 1e-4, mode)


class Bytes(unittest.TestCase):
    def test_the_same_on_every_instruction_set_and_for_every_thread_count(self):
        for mode in ("int8", "dynamic"):
            want = None
            for isa in ("scalar", "avx2", "avxvnni", "avx512", "avx512vnni", "amx"):
                for threads in (1, 2):
                    np.save(TEMP / "part.npy", digits()[:(100 if SANITIZED else 1000)])
                    octet("run", quantized(mode, suffix="oct"), "--input", TEMP / "part.npy", "--output-dir", TEMP / "bytes", "--threads", threads, environment={"OCTET_ISA": isa})
                    got = (TEMP / "bytes" / "output.npy").read_bytes()
                    want = want or got
                    self.assertEqual(got, want, f"{mode}: {isa} with {threads} threads")

    def test_the_option_does_what_the_environment_does(self):
        a = run_all(quantized("int8"), "by-environment", environment={"OCTET_ISA": "scalar"})
        self.assertTrue(np.array_equal(a, run_all(quantized("int8"), "plain")))
        for isa in ("scalar", "avx2"):
            row = json.loads(octet("bench", quantized("int8"), "--isa", isa, "--seconds", "0.01", "--json"))
            self.assertEqual(row["isa"], isa)


if __name__ == "__main__":
    unittest.main(verbosity=1)
