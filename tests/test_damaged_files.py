#!/usr/bin/env python3
"""Files of every kind, cut short and with flipped bits, through the program: it ends with status 0 or 1 and never by a signal, within bounds of time
and memory; where it fails it names the file, and nothing is left behind. And writing that fails: a full disk, a kill.
SPDX-License-Identifier: MIT
"""
import gzip
import pathlib
import random
import shutil
import signal
import struct
import sys
import time
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
from cli_checks import *  # noqa: E402,F403

import torch_files as torch  # noqa: E402

CUTS = 8 if SANITIZED else 16
FLIPS = 12 if SANITIZED else 40


def png(width, height, seed):
    rows = b"".join(b"\0" + random.Random(seed + y).randbytes(3 * width) for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def idx(array):
    return struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


class Damaged(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(dir=TEMP))
        cls.rng = np.random.default_rng(41)
        net = Net()
        x = net.op("Relu", [net.op("Conv", [net.input("x", ["N", 3, 8, 8]), net.random(4, 3, 3, 3, name="w"), net.random(4, name="b")], "c", pads=[1] * 4)], "r")
        x = net.op("Flatten", [net.op("GlobalAveragePool", [x])])
        net.output(net.op("Gemm", [x, net.random(3, 4), net.random(3)], "y", transB=1))
        shutil.copy(net.save(), cls.folder / "model.onnx")
        np.save(cls.folder / "samples.npy", cls.rng.standard_normal((12, 3, 8, 8)).astype(np.float32))
        octet("quantize", cls.folder / "model.onnx", "-o", cls.folder / "q.onnx", "--calibration", cls.folder / "samples.npy")
        octet("convert", cls.folder / "model.onnx", cls.folder / "text.oct")
        cls.images = cls.folder / "images"
        for i, kind in enumerate("abc"):
            (cls.images / kind).mkdir(parents=True)
            (cls.images / kind / f"{kind}.png").write_bytes(png(8, 8, i))
        np.save(cls.folder / "labels.npy", np.arange(12) % 3)

    def damage(self, path, command, seed, also=None, may_pass=False):
        """`path` is damaged in place, run with `command`, and put back. Cut short it must be refused, unless `may_pass`.
        A message names it (or `also`)."""
        whole, draw = path.read_bytes(), random.Random(seed)
        out = self.folder / "out"
        forms = [(f"first {n} of {len(whole)} bytes", whole[:n], not may_pass) for n in sorted({len(whole) * k // CUTS for k in range(CUTS)} | {len(whole) - 1})]
        for k in range(FLIPS):
            data = bytearray(whole)
            at = [draw.randrange(8 * len(whole)) for _ in range(draw.choice((1, 1, 1, 2, 8)))]
            for bit in at:
                data[bit // 8] ^= 1 << bit % 8
            forms.append((f"bits {at} flipped", bytes(data), False))
        try:
            for what, data, must_fail in forms:
                path.write_bytes(data)
                shutil.rmtree(out, ignore_errors=True)
                out.mkdir()
                done = limited(*command(out))
                with self.subTest(file=path.name, damage=what):
                    self.assertIn(done.returncode, (1,) if must_fail else (0, 1), done.stderr[-2000:])
                    if done.returncode == 1:
                        self.assertTrue(path.name in done.stderr or also and also in done.stderr, done.stderr)
                        self.assertEqual([p.name for p in out.iterdir()], [], "files were left behind")
        finally:
            path.write_bytes(whole)

    def quantize(self, data, *arguments):
        return lambda out: ("quantize", self.folder / "model.onnx", "-o", out / "q.onnx", "--calibration", data, *arguments)

    def test_onnx(self):
        for name in ("model.onnx", "q.onnx"):
            self.damage(self.folder / name, lambda out, n=name: ("convert", self.folder / n, out / "o.onnx"), 1)
            self.damage(self.folder / name, lambda out, n=name: ("run", self.folder / n), 2)

    def test_external_data(self):
        folder = self.folder / "external"
        folder.mkdir()
        onnx.save(onnx.load(str(self.folder / "model.onnx")), str(folder / "m.onnx"), save_as_external_data=True, location="m.bin", size_threshold=0)
        self.damage(folder / "m.bin", lambda out: ("run", folder / "m.onnx", "--output-dir", out / "o"), 3, may_pass=True)
        (folder / "m.bin").write_bytes((folder / "m.bin").read_bytes()[:100])
        self.assertIn("m.bin", limited("run", folder / "m.onnx").stderr)

    def test_text_form(self):
        """A text may be cut where it is whole; then it has no output."""
        self.damage(self.folder / "text.oct", lambda out: ("convert", self.folder / "text.oct", out / "o.onnx"), 4, may_pass=True)
        self.damage(self.folder / "text.npz", lambda out: ("convert", self.folder / "text.oct", out / "o.onnx"), 5)

    def test_checkpoints(self):
        w, b = self.rng.standard_normal((4, 3, 3, 3)).astype(np.float32), np.ones(4, np.float32)
        state = {n: torch.tensor(torch.storage("FloatStorage", "f", list(a.flat)), a.shape) for n, a in (("w", w), ("b", b))}
        for save in (torch.save_zip, torch.save_legacy):
            path = self.folder / f"{save.__name__}.pth"
            save(path, state)
            self.damage(path, lambda out, p=path: ("convert", self.folder / "model.onnx", out / "o.onnx", "--weights", p), 6)

    def test_arrays(self):
        samples = self.folder / "damaged.npy"
        np.save(samples, self.rng.standard_normal((3, 3, 8, 8)).astype(np.float32))
        self.damage(samples, self.quantize(samples), 7)
        self.damage(samples, lambda out: ("run", self.folder / "model.onnx", "--input", f"x={samples}", "--output-dir", out / "o"), 8, also='"x"', may_pass=True)
        for save in (np.savez, np.savez_compressed):
            path = self.folder / f"{save.__name__}.npz"
            save(path, x=self.rng.standard_normal((3, 3, 8, 8)).astype(np.float32))
            self.damage(path, self.quantize(path), 9)

    def test_idx(self):
        images = self.rng.integers(0, 256, (12, 3, 8, 8)).astype(np.uint8)
        path = self.folder / "images-idx4-ubyte"
        path.write_bytes(idx(images))
        self.damage(path, self.quantize(path), 10)
        path = self.folder / "images-idx4-ubyte.gz"
        path.write_bytes(gzip.compress(idx(images)))
        self.damage(path, self.quantize(path), 11)
        labels = self.folder / "labels-idx1-ubyte"
        labels.write_bytes(idx((np.arange(12) % 3).astype(np.uint8)))
        self.damage(labels, lambda out: ("eval", self.folder / "model.onnx", "--data", self.folder / "samples.npy", "--labels", labels), 12)

    def test_images_and_labels(self):
        self.damage(self.images / "b" / "b.png", self.quantize(self.images, "--samples", "0"), 13)
        table = self.folder / "labels.tsv"
        table.write_text("file\tclass\na.png\t0\nb.png\t1,2\nc.png\t2\n")
        self.damage(table, lambda out: ("eval", self.folder / "model.onnx", "--data", self.images, "--labels", table), 14, may_pass=True)
        labels = self.folder / "labels.npy"
        self.damage(labels, lambda out: ("eval", self.folder / "model.onnx", "--data", self.folder / "samples.npy", "--labels", labels), 15)

    def test_configuration(self):
        config = self.folder / "config.json"
        config.write_text('{"c_node": {"mode": "int8", "observer": "kl"}, "y*": {"bits": 8, "scale": 0.25, "zero_point": 12, "per_tensor": true}}')
        self.damage(config, self.quantize(self.folder / "samples.npy", "--config", config), 16)

    def test_recorded_cases(self):
        """`octet check`: a damaged case fails or is skipped; the others are still counted."""
        case = self.folder / "cases" / "one"
        (case / "test_data_set_0").mkdir(parents=True)
        shutil.copy(self.folder / "model.onnx", case / "model.onnx")
        x = self.rng.standard_normal((1, 3, 8, 8)).astype(np.float32)
        y = run_ort(case / "model.onnx", {"x": x})["y"]
        for name, array in (("input_0", x), ("output_0", y)):
            (case / "test_data_set_0" / f"{name}.pb").write_bytes(numpy_helper.from_array(array, name).SerializeToString())
        self.assertIn("1 passed, 0 failed, 0 skipped", octet("check", self.folder / "cases"))
        for path in (case / "model.onnx", case / "test_data_set_0" / "input_0.pb", case / "test_data_set_0" / "output_0.pb"):
            whole = path.read_bytes()
            for n in range(0, len(whole), max(1, len(whole) // CUTS)):
                path.write_bytes(whole[:n])
                done = limited("check", self.folder / "cases")
                self.assertIn(done.returncode, (0, 1), done.stderr)
                self.assertRegex(done.stdout, "0 passed, (1 failed, 0 skipped|0 failed, 1 skipped)")
            path.write_bytes(whole)


class Writing(unittest.TestCase):
    """The old file stays whole until the new one is."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(dir=TEMP))
        net = Net()
        x = net.input("x", ["N", 64])
        for _ in range(24):
            x = net.op("Relu", [net.op("MatMul", [x, net.random(64, 64)])])
        net.output(x)
        cls.model = net.save("wide.onnx")

    def test_disk_full(self):
        for suffix in (".onnx", ".oct"):
            target = self.folder / f"out{suffix}"
            target.write_bytes(b"old")
            for size in (0, 1, 1000, 50000, 100000):
                with self.subTest(suffix, size=size):
                    done = limited("convert", self.model, target, file_size=size)
                    self.assertEqual(done.returncode, 1)
                    self.assertIn("out.", done.stderr)
                    self.assertEqual(target.read_bytes(), b"old")
                    self.assertEqual([p.name for p in self.folder.iterdir()], [target.name])
            target.unlink()
        done = limited("run", self.model, "--output-dir", self.folder / "o", file_size=10)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(list((self.folder / "o").iterdir()), [])
        (self.folder / "o").rmdir()

    def test_disk_full_for_the_text_only(self):
        """Text and arrays appear together, or not at all."""
        net = Net()
        x = net.op("Add", [net.input("x", [20]), net.random(20, scale=1., name="w")])
        for _ in range(300):
            x = net.op("Relu", [x])
        net.output(x)
        folder = pathlib.Path(tempfile.mkdtemp(dir=TEMP))
        for name in ("long.oct", "long.npz"):
            (folder / name).write_bytes(b"old")
        done = limited("convert", net.save("long.onnx"), folder / "long.oct", "--as-it-is", file_size=3000)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual({p.name: p.read_bytes() for p in folder.iterdir()}, {"long.oct": b"old", "long.npz": b"old"})

    def test_killed(self):
        target = self.folder / "killed.onnx"
        octet("convert", self.model, target)
        whole = target.read_bytes()
        start_time = time.monotonic()
        octet("convert", self.model, target)
        usual = time.monotonic() - start_time
        for k in range(24):
            process = subprocess.Popen([BINARY, "convert", str(self.model), str(target)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(usual * k / 20)
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.assertEqual(target.read_bytes(), whole)

    def test_closed_output(self):
        """Standard output that is full or gone is an error, not a crash."""
        with open("/dev/full", "wb") as full:
            done = subprocess.run([BINARY, "ops"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
