#!/usr/bin/env python3
"""The program as a user meets it: helps, exit statuses, messages, JSON, arrays in and out, and what happens to files when things go wrong.

Reads OCTET_BINARY and OCTET_SOURCE_DIR. Needs numpy.
SPDX-License-Identifier: MIT
"""
import json
import os
import pathlib
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from program_checks import BINARY, IMAGES, LABELS, MNIST, SANITIZED, SOURCE, TEMP, TRAIN, np, start  # noqa: E402

MODEL, INT8 = MNIST / "mnist.oct", TEMP / "m8.onnx"


def run(*arguments, cwd=TEMP, **more):
    return start(*arguments, cwd=cwd, **more)


def octet(*arguments):
    done = run(*arguments)
    if done.returncode != 0:
        raise AssertionError(f"octet {' '.join(map(str, arguments))}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def commands():
    lines = octet("--help").split("\ncommands\n")[1].split("\n\n")[0].splitlines()
    return [line.split()[0] for line in lines]


def setUpModule():
    octet("quantize", MODEL, "-o", INT8, "--calibration", TRAIN, "--samples", 200)


class Helps(unittest.TestCase):
    def test_every_command_has_one(self):
        found = commands()
        self.assertLessEqual({"inspect", "run", "check", "convert", "quantize", "eval", "compare", "bench", "ops", "demo"}, set(found))
        for command in found:
            for flag in ("--help", "-h"):
                done = run(command, flag)
                self.assertEqual((done.returncode, done.stderr), (0, ""), command)
                self.assertTrue(done.stdout.startswith(f"usage: octet {command} "), command)
                self.assertIn(f"\n  octet {command}", done.stdout.split("\nexamples\n")[1], command)
            for option in ("--json", "--threads", "--verbose"):
                self.assertIn(option, done.stdout)

    def test_examples_are_right_usage(self):
        """In an empty folder an example fails for want of its files, never for its form."""
        for command in commands():
            for line in octet(command, "--help").split("\nexamples\n")[1].splitlines():
                words = shlex.split(line)
                if not words or command == "demo":
                    continue
                self.assertEqual(words[0], "octet")
                with tempfile.TemporaryDirectory() as empty:
                    done = run(*words[1:], cwd=empty)
                self.assertEqual(done.returncode, 0 if command == "ops" else 1, line + "\n" + done.stderr)

    def test_program(self):
        self.assertEqual(run("--version").stdout.split()[0], "octet")
        self.assertEqual(run("help").returncode, 0)
        nothing = run()
        self.assertEqual(nothing.returncode, 2)
        self.assertEqual(nothing.stdout, "")
        self.assertIn("usage:", nothing.stderr)

    def test_documents_are_what_the_program_says(self):
        """docs/operators.md and docs/commands.md are printed by scripts/make_docs.sh."""
        for name in ("operators.md", "commands.md"):
            with tempfile.TemporaryDirectory() as folder:
                made = subprocess.run(["sh", str(SOURCE / "scripts" / "make_docs.sh"), BINARY, folder], capture_output=True, text=True)
                self.assertEqual(made.returncode, 0, made.stderr)
                self.assertEqual((pathlib.Path(folder) / name).read_text(), (SOURCE / "docs" / name).read_text(),
                                 f"docs/{name} is out of date: run scripts/make_docs.sh PROGRAM docs")
        self.assertIn(octet("ops", "--markdown"), (SOURCE / "docs" / "operators.md").read_text())
        for command in commands():
            self.assertIn(octet(command, "--help"), (SOURCE / "docs" / "commands.md").read_text())


class Usage(unittest.TestCase):
    def refused(self, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, 2, f"{arguments}: {done.stdout}{done.stderr}")
        self.assertEqual(done.stdout, "", arguments)
        self.assertIn("octet", done.stderr)
        return done.stderr

    def test_wrong_usage_is_status_2(self):
        self.assertIn("transmogrify", self.refused("transmogrify", "x"))
        for command in ("inspect", "run", "eval", "quantize", "compare", "bench", "convert", "check"):
            self.assertIn("usage: octet " + command, self.refused(command))
            self.assertIn("--sideways", self.refused(command, "--sideways", "x"))
        self.refused("inspect", "a", "b")
        self.refused("convert", "a")
        self.refused("convert", "a", "b", "c")
        self.refused("compare", "a")
        self.refused("ops", "extra")
        self.assertIn("--data", self.refused("eval", MODEL))
        self.assertIn("--data", self.refused("compare", MODEL, INT8))
        self.assertIn("-o", self.refused("quantize", MODEL))
        self.assertIn("--threads", self.refused("run", MODEL, "--threads"))
        self.assertIn("many", self.refused("run", MODEL, "--threads", "many"))
        self.assertIn("0", self.refused("run", MODEL, "--threads", "0"))
        self.assertIn("-3", self.refused("run", MODEL, "--batch", "-3"))
        self.assertIn("99999999999999999999", self.refused("run", MODEL, "--batch", "99999999999999999999"))
        self.assertIn("mmx", self.refused("run", MODEL, "--isa", "mmx"))
        self.assertIn("vm", self.refused("run", MODEL, "--executor", "vm"))
        self.assertIn("--json", self.refused("ops", "--json=yes"))
        self.assertIn("1,x", self.refused("bench", MODEL, "--batch", "1,x"))
        self.assertIn("-1", self.refused("bench", MODEL, "--seconds", "-1"))
        self.refused("bench", MODEL, "--batch", "")
        self.assertIn("--threads", self.refused("bench", MODEL, "--threads", "1,0"))
        for shape in ("input=3x", "input=", "=3x4", "3x4", "input=axb"):
            self.assertIn("--shape", self.refused("bench", MODEL, "--shape", shape))

    def test_options_in_every_form(self):
        for form in (["--batch", "2"], ["--batch=2"]):
            self.assertIn("2x10", octet("run", *form, "--", MODEL))
        self.assertIn("2x10", octet("run", MODEL, "--batch=2", "-v"))
        for form in (["-o", TEMP / "o.onnx"], ["--output", TEMP / "o.onnx"], [f"--output={TEMP / 'o.onnx'}"]):
            octet("quantize", *form, "--mode", "fp16", MODEL)
            (TEMP / "o.onnx").unlink()

    def test_names_behind_two_dashes(self):
        (TEMP / "--help").mkdir(exist_ok=True)
        target = TEMP / "--json"
        octet("convert", "--", MODEL, "--json.onnx")
        self.assertFalse(target.exists())
        self.assertEqual(json.loads(octet("inspect", "--json", "--", "--json.onnx"))["inputs"][0]["name"], "input")
        (TEMP / "--json.onnx").unlink()
        (TEMP / "--help").rmdir()


class Failures(unittest.TestCase):
    def fails(self, *arguments, says=(), **more):
        done = run(*arguments, **more)
        self.assertEqual(done.returncode, 1, f"{arguments}: {done.stdout}{done.stderr}")
        for word in says:
            self.assertIn(word, done.stderr, arguments)
        return done

    def test_failures_are_status_1_and_say_why(self):
        self.fails("inspect", "nowhere.onnx", says=["octet inspect", "nowhere.onnx"])
        self.fails("inspect", TEMP, says=[str(TEMP)])
        broken = TEMP / "broken.onnx"
        broken.write_bytes(b"\x08\x07\x3a\xff\xff\x7f" + bytes(50))
        self.fails("inspect", broken, says=["broken.onnx"])
        (TEMP / "empty.onnx").write_bytes(b"")
        self.fails("inspect", TEMP / "empty.onnx", says=["empty.onnx"])
        self.fails("convert", MODEL, TEMP / "model.unknown", says=["model.unknown"])
        self.fails("eval", MODEL, "--data", "nothing.gz", "--labels", LABELS, says=["nothing.gz"])
        self.fails("eval", MODEL, "--data", IMAGES, "--labels", "nothing.gz", says=["nothing.gz"])
        self.fails("eval", MODEL, "--data", IMAGES, "--labels", MNIST / "train10k-images-idx3-ubyte.gz", says=["labels"])
        self.fails("eval", MODEL, "--data", IMAGES, says=["label"])
        self.fails("quantize", MODEL, "-o", TEMP / "q.onnx", says=["calibration"])
        self.fails("quantize", MODEL, "-o", TEMP / "q.onnx", "--mode", "int3", says=["int3"])
        self.fails("quantize", MODEL, "-o", TEMP / "q.onnx", "--mode", "dynamic", "--keep-float", "conv7", says=["conv7"])
        self.fails("run", MODEL, "--no-fuse", "everything", says=["everything", "attention", "strips"])
        self.fails("run", MODEL, "--input", "nothing.npy", says=["nothing.npy"])
        self.fails("run", MODEL, "--input", f"picture={TEMP / 'x.npy'}")
        self.fails("check", TEMP, TEMP / "nowhere", says=["nowhere"])
        self.assertFalse((TEMP / "q.onnx").exists())

    def test_isa_of_the_environment(self):
        wrong = run("ops", environment={"OCTET_ISA": "quantum"})
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("quantum", wrong.stderr)
        capped = run("bench", INT8, "--json", "--seconds", "0.01", environment={"OCTET_ISA": "scalar"})
        self.assertEqual(json.loads(capped.stdout)["isa"], "scalar")

    def test_arrays_that_do_not_fit(self):
        np.save(TEMP / "wide.npy", np.zeros((1, 1, 28, 29), np.float32))
        self.fails("run", MODEL, "--input", TEMP / "wide.npy", says=["input", "28,29"])
        np.save(TEMP / "double.npy", np.zeros((1, 1, 28, 28), np.float64))
        self.fails("run", MODEL, "--input", TEMP / "double.npy", says=["f64"])
        np.save(TEMP / "nan.npy", np.full((4, 1, 28, 28), np.nan, np.float32))
        self.fails("quantize", MODEL, "-o", TEMP / "q.onnx", "--calibration", TEMP / "nan.npy", says=["nan.npy", "sample 0", "finite"])
        np.save(TEMP / "none.npy", np.zeros((0, 1, 28, 28), np.float32))
        self.fails("quantize", MODEL, "-o", TEMP / "q.onnx", "--calibration", TEMP / "none.npy")
        self.assertFalse((TEMP / "q.onnx").exists())
        (TEMP / "two.oct").write_text("octet 1\ninput a f32[2]\ninput b f32[2]\nc = add(a, b)\noutput c\n")
        (TEMP / "zero.oct").write_text("octet 1\nconst a f32[2] = 1\nc = exp(a)\noutput c\n")
        np.save(TEMP / "pair.npy", np.ones(2, np.float32))
        self.fails("run", TEMP / "two.oct", "--input", TEMP / "pair.npy", says=["2 inputs", "NAME="])
        self.fails("run", TEMP / "zero.oct", "--input", TEMP / "pair.npy", says=["0 inputs"])


class Json(unittest.TestCase):
    def lines(self, *arguments):
        done = run(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "", arguments)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def one(self, *arguments):
        rows = self.lines(*arguments)
        self.assertEqual(len(rows), 1)
        return rows[0]

    def test_inspect(self):
        d = self.one("inspect", MODEL)
        self.assertEqual(d["inputs"], [{"name": "input", "dtype": "f32", "shape": [None, 1, 28, 28]}])
        self.assertEqual(d["outputs"], [{"name": "output", "dtype": "f32", "shape": [None, 10]}])
        for operator in d["operators"]:
            self.assertLessEqual({"name", "op", "dtype", "shape", "macs", "parameters", "bytes"}, set(operator))
        first = d["operators"][0]
        self.assertEqual((first["name"], first["op"], first["shape"], first["macs"]), ("conv1", "conv", [1, 8, 15, 15], 8 * 9 * 225))
        self.assertEqual(d["parameters"], 72 + 8 + 512 + 16 + 2048 + 32 + 320 + 10)
        self.assertEqual(d["bytes"], 4 * d["parameters"])
        self.assertEqual(d["macs"], 72 * 225 + 512 * 121 + 2048 * 81 + 320)
        self.assertEqual(self.one("inspect", INT8)["boundaries"], 0)

    def test_eval(self):
        d = self.one("eval", MODEL, "--data", IMAGES, "--labels", LABELS, "--limit", 200)
        self.assertEqual(d["total"], 200)
        self.assertAlmostEqual(d["top1"], d["correct"] / 200)
        self.assertGreater(d["images_per_second"], 0)

    def test_compare(self):
        d = self.one("compare", MODEL, INT8, "--data", IMAGES, "--samples", 20)
        self.assertEqual(set(d), {"outputs", "layers", "float_islands", "warnings"})
        self.assertEqual(d["outputs"][0]["name"], "output")
        self.assertGreater(d["outputs"][0]["sqnr_db"], 20)
        self.assertGreater(d["outputs"][0]["max_error"], 0)
        self.assertEqual(d["float_islands"], [])
        self.assertIn("conv2", {layer["name"] for layer in d["layers"]})
        for layer in d["layers"]:
            self.assertLessEqual({"name", "op", "type", "sqnr_db", "sqnr_alone_db", "clipped"}, set(layer))
            self.assertEqual(layer["type"], "int8", layer)

    def test_bench(self):
        rows = self.lines("bench", INT8, "--batch", "1,3", "--seconds", "0.02", "--threads", 2)
        self.assertEqual([row["batch"] for row in rows], [1, 3])
        for row in rows:
            self.assertLessEqual({"model", "batch", "threads", "executor", "isa", "min_ms", "median_ms", "arena_bytes", "weight_bytes"}, set(row))
            self.assertEqual((row["model"], row["threads"], row["executor"]), ("m8.onnx", 2, "static"))
            self.assertTrue(0 < row["min_ms"] <= row["median_ms"])
        self.assertLess(rows[0]["arena_bytes"], rows[1]["arena_bytes"])
        self.assertEqual(rows[0]["weight_bytes"], rows[1]["weight_bytes"])

    def test_bench_lists_and_layers(self):
        rows = self.lines("bench", INT8, "--batch", "1,2", "--threads", "1,2", "--seconds", "0.01", "--layers")
        self.assertEqual([(row["threads"], row["batch"]) for row in rows], [(1, 1), (1, 2), (2, 1), (2, 2)])
        for row in rows:
            self.assertLessEqual(row["min_ms"], row["median_ms"])
            self.assertLessEqual(row["median_ms"], row["p90_ms"])
            self.assertLessEqual(row["p90_ms"], row["p99_ms"])
            self.assertTrue(row["joules"] is None and row["no_joules"] or row["joules"] > 0)
            self.assertEqual(set(row["peaks"]), {"int8_gmacs", "float_gmacs", "read_gbs", "cache_bytes"})
            # conv1 15x15x8x9, conv2 11x11x16x32, conv3 9x9x32x64, fc 32x10
            self.assertEqual(row["all_steps"]["macs"], (16200 + 61952 + 165888 + 320) * row["batch"])
            self.assertEqual(sum(step["macs"] for step in row["steps"]), row["all_steps"]["macs"])
            for step in row["steps"]:
                self.assertEqual(step["integer"], True, step) if step["macs"] else None
                self.assertIn(step["nearer"], ("arithmetic", "memory"))
        text = octet("bench", INT8, "--seconds", "0.01", "--layers", "--shape", "input=3x1x28x28")
        for part in ("all steps", "measured peaks", "of bandwidth", "conv2"):
            self.assertIn(part, text)

    def test_quantize(self):
        d = self.one("quantize", MODEL, "-o", TEMP / "q8.onnx", "--calibration", TRAIN, "--samples", 50)
        self.assertLessEqual({"mode", "output", "bytes_before", "bytes_after", "boundaries", "float_islands", "layers", "values", "warnings"}, set(d))
        self.assertEqual((d["mode"], d["boundaries"], d["float_islands"]), ("int8", 0, []))
        self.assertLess(d["bytes_after"] * 3, d["bytes_before"])
        self.assertEqual(d["values"][0]["name"], "input")
        self.assertIn("mse", d["values"][0]["observers"])

    def test_run_ops_check(self):
        self.assertEqual(self.lines("run", MODEL, "--batch", 2)[0]["shape"], [2, 10])
        steps = self.lines("run", MODEL, "--profile", "--repeat", 3)[1:]
        self.assertTrue(steps and all({"step", "layer", "kernel", "microseconds"} <= set(s) for s in steps))
        rows = self.lines("ops")
        self.assertIn("conv", {row["name"] for row in rows})
        self.assertTrue(all("kernel" in row for row in self.lines("ops", "--kernels")))
        empty = TEMP / "cases"
        empty.mkdir(exist_ok=True)
        self.assertEqual(self.lines("check", empty)[-1], {"passed": 0, "failed": 0, "skipped": 0})


class Arrays(unittest.TestCase):
    def test_run_reads_and_writes_arrays(self):
        (TEMP / "sum.oct").write_text('octet 1\ninput a f32[N,3]\ninput "b/c" f32[N,3]\ninput k i64[2]\n'
                                      'sum = add(a, "b/c")\n"out/of:this" = mul(sum, "b/c")\nkk = add(k, k)\noutput sum\noutput "out/of:this"\noutput kk\n')
        rng = np.random.default_rng(1)
        a, b, k = rng.standard_normal((2, 3), np.float32), rng.standard_normal((2, 3), np.float32), np.array([-5, 1 << 40])
        np.save(TEMP / "a.npy", a)
        np.save(TEMP / "b.npy", np.asfortranarray(b))
        np.save(TEMP / "k.npy", k)
        text = octet("run", TEMP / "sum.oct", "--input", f"a={TEMP / 'a.npy'}", f"--input=b/c={TEMP / 'b.npy'}", "--input", f"k={TEMP / 'k.npy'}",
                     "--output-dir", TEMP / "arrays")
        self.assertIn("sum", text)
        self.assertTrue(np.array_equal(np.load(TEMP / "arrays" / "sum.npy"), a + b))
        self.assertTrue(np.array_equal(np.load(TEMP / "arrays" / "out_of_this.npy"), (a + b) * b))
        self.assertTrue(np.array_equal(np.load(TEMP / "arrays" / "kk.npy"), 2 * k))

    def test_random_inputs_repeat(self):
        for folder, seed in (("r1", 4), ("r2", 4), ("r3", 5)):
            octet("run", MODEL, "--seed", seed, "--output-dir", TEMP / folder)
        first, again, other = ((TEMP / folder / "output.npy").read_bytes() for folder in ("r1", "r2", "r3"))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)


class Files(unittest.TestCase):
    """Outputs appear whole or not at all."""

    QUANTIZE = ["quantize", str(MODEL), "--calibration", str(TRAIN), "--samples", "100"]

    def leftovers(self, folder):
        return sorted(p.name for p in pathlib.Path(folder).iterdir())

    def test_full_device(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full here")
        link = TEMP / "full.onnx"
        if not link.is_symlink():
            link.symlink_to("/dev/full")
        done = run("convert", MODEL, link)
        self.assertEqual(done.returncode, 1)
        self.assertIn("No space left", done.stderr)
        for arguments in (["ops"], ["inspect", MODEL], ["inspect", MODEL, "--json"], ["--help"], ["run", "--help"], ["--version"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([BINARY, *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertIn("standard output", done.stderr)

    def test_full_disk(self):
        if os.geteuid() != 0:
            self.skipTest("mounting a small file system needs root")
        disk = TEMP / "disk"
        disk.mkdir(exist_ok=True)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk], capture_output=True).returncode != 0:
            self.skipTest("mounting is not allowed here")
        try:
            octet("quantize", MODEL, "-o", disk / "m.onnx", "--mode", "int8", "--calibration", TRAIN, "--samples", 20)
            before = (disk / "m.onnx").read_bytes()
            for target in ("m.onnx", "other.onnx", "other.oct"):
                done = run("convert", MODEL, disk / target)  # 12 kB of floats
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn("No space left", done.stderr)
                self.assertIn(target.split(".")[0], done.stderr)
            self.assertEqual((disk / "m.onnx").read_bytes(), before)
            self.assertEqual(self.leftovers(disk), ["m.onnx"])
        finally:
            subprocess.run(["umount", disk], check=True)

    def test_killed_while_working(self):
        folder = TEMP / "killed"
        folder.mkdir(exist_ok=True)
        target = folder / "m.onnx"
        octet("convert", MODEL, target)
        old = target.read_bytes()
        started = time.monotonic()
        octet(*self.QUANTIZE, "-o", folder / "new.onnx")
        whole, new = time.monotonic() - started, (folder / "new.onnx").read_bytes()
        rng, seen = random.Random(7), set()
        for attempt in range(8 if SANITIZED else 25):
            target.write_bytes(old)
            process = subprocess.Popen([BINARY, *self.QUANTIZE, "-o", str(target)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(whole * (0.5 + 0.6 * rng.random()) if attempt else 0)
            process.send_signal(signal.SIGKILL)
            process.wait()
            content = target.read_bytes()
            self.assertIn(content, (old, new), "half written")
            seen.add(content == new)
        self.assertIn(False, seen)
        octet(*self.QUANTIZE, "-o", target)  # what the killed ones left is no obstacle
        self.assertEqual(target.read_bytes(), new)

    def test_folders_that_cannot_be_written(self):
        self.assertEqual(run("convert", MODEL, TEMP / "nowhere" / "m.onnx").returncode, 1)
        self.assertEqual(run("run", MODEL, "--output-dir", TEMP / "nowhere" / "deep").returncode, 1)
        self.assertEqual(run("convert", MODEL, TEMP).returncode, 1)
        locked = TEMP / "locked"
        locked.mkdir(exist_ok=True)
        locked.chmod(0o500)
        lower = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        TEMP.chmod(0o755)
        try:
            done = run("convert", MODEL, locked / "m.onnx", cwd="/", **lower)
        except PermissionError:
            self.skipTest("the program cannot be started as nobody here")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(f"{locked}/m.onnx" if not lower or "mnist.oct" not in done.stderr else "mnist.oct", done.stderr)
        self.assertEqual(self.leftovers(locked), [])

    def test_closed_streams(self):
        """What is opened next must not take the number of a closed standard stream."""
        target = TEMP / "closed.onnx"
        for closed in (">&-", "<&-", ">&- 2>&-"):
            line = f'"$0" convert "$1" "$2" {closed}'
            subprocess.run(["sh", "-c", line, BINARY, str(MODEL), str(target)], capture_output=True)
            self.assertEqual(json.loads(octet("inspect", target, "--json"))["parameters"], 3018, closed)
            target.unlink()
        done = subprocess.run(["sh", "-c", '"$0" ops >&-', BINARY], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output", done.stderr)

    def test_progress_only_on_a_terminal(self):
        self.assertEqual(run(*self.QUANTIZE, "-o", TEMP / "quiet.onnx").stderr, "")


if __name__ == "__main__":
    unittest.main(verbosity=1)
