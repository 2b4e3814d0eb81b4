#!/usr/bin/env python3
"""`octet tune`, --tune, --tune-log and --memory as a user meets them: what is written and taken, what is left alone, and that results stay the same bytes.

Reads OCTET_BINARY and OCTET_SOURCE_DIR. Needs numpy.
SPDX-License-Identifier: MIT
"""
import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import program_checks  # noqa: E402
from program_checks import BINARY, SANITIZED, TEMP, np  # noqa: E402

NET, DEEP = TEMP / "net.oct", TEMP / "deep.oct"
LAYERS, MANY, CHANNELS = 4, 24, 128


def own(environment):
    """No log but what a test names, and a home of its own."""
    return {"OCTET_TUNE_LOG": None, "XDG_CACHE_HOME": None, "HOME": str(TEMP / "home"), **environment}


def run(*arguments, **environment):
    return program_checks.start(*arguments, environment=own(environment))


def octet(*arguments, **environment):
    return program_checks.octet(*arguments, environment=own(environment))


def make_net(path, layers):
    """8-bit 3x3 convolutions of 128 channels; the weights lie beside the text."""
    rng = np.random.default_rng(3)
    text = [f'octet 1\nweights "{path.stem}.npz"\ninput x f32[N,{CHANNELS},20,20]\nquant x u8 scale=0.02 zero_point=128\n']
    weights, last = {}, "x"
    for i in range(layers):
        weights[f"w{i}"] = rng.integers(-20, 21, (CHANNELS, CHANNELS, 3, 3), np.int8)
        text.append(f"const w{i} i8[{CHANNELS},{CHANNELS},3,3]\nquant w{i} i8 scale=0.002\ny{i} = conv({last}, w{i}) pads=1,1,1,1\n"
                    f"quant y{i} u8 scale=0.02 zero_point=128\n")
        last = f"y{i}"
    path.write_text("".join(text) + f"output {last}\n")
    np.savez(path.with_suffix(".npz"), **weights)


def setUpModule():
    make_net(NET, LAYERS)
    make_net(DEEP, MANY)


def outputs(*arguments, **environment):
    folder = pathlib.Path(tempfile.mkdtemp(dir=TEMP))
    octet("run", NET, "--seed", 5, "--output-dir", folder, *arguments, **environment)
    return [f.read_bytes() for f in sorted(folder.glob("*.npy"))]


def choices(*arguments, **environment):
    lines = json.loads(octet("inspect", NET, "--json", *arguments, **environment))
    return {o["name"]: o["choice"] for o in lines["operators"] if "choice" in o}


class Tune(unittest.TestCase):
    def test_what_is_tuned_is_taken(self):
        log = TEMP / "log.json"
        table = octet("tune", NET, "--seconds", 0.05, "-o", log)
        self.assertIn("timed: ", table)
        content = json.loads(log.read_text())
        self.assertEqual(content["octet_tune_log"], 1)
        (processor,) = content["processors"].values()
        (layer,) = processor["layers"].values()  # all are of one shape
        self.assertIn(layer["chosen"], layer["ms"])
        timed = choices("--tune-log", log)
        self.assertEqual(len(timed), LAYERS)
        for text in timed.values():
            self.assertTrue(text.startswith(f"timed: {layer['chosen']} "), text)
        self.assertEqual(choices(OCTET_TUNE_LOG=str(log)), timed)
        for text in choices("--tune-log", "none", OCTET_TUNE_LOG=str(log)).values():
            self.assertTrue(text.startswith("estimated: "), text)
        profile = [json.loads(line) for line in octet("run", NET, "--profile", "--json", "--tune-log", log).splitlines()]
        self.assertEqual([p["choice"] for p in profile if p.get("macs", 0) > 0], list(timed.values()))

    def test_the_default_place(self):
        home, cache = TEMP / "home", TEMP / "cache"
        octet("tune", NET, "--seconds", 0.02)
        self.assertTrue((home / ".cache" / "octet" / "tune.json").is_file())
        self.assertIn("timed", "".join(choices().values()))
        octet("run", NET, "--tune", XDG_CACHE_HOME=str(cache))
        self.assertTrue((cache / "octet" / "tune.json").is_file())

    def test_any_kernel_gives_the_same_bytes(self):
        plain = outputs("--tune-log", "none")
        self.assertEqual(len(plain), 1)
        log = TEMP / "forced.json"
        octet("tune", NET, "--seconds", 0.02, "-o", log)
        content = json.loads(log.read_text())
        (processor,) = content["processors"].values()
        ((key, layer),) = processor["layers"].items()
        for kernel in layer["ms"]:
            processor["layers"][key] = {"chosen": kernel, "ms": layer["ms"]}
            log.write_text(json.dumps(content))
            for text in choices("--tune-log", log).values():
                self.assertTrue(text.startswith(f"timed: {kernel} "), text)
            self.assertEqual(outputs("--tune-log", log), plain, kernel)
        self.assertEqual(outputs("--tune-log", "none", "--isa", "scalar"), plain)

    def test_what_is_no_log_is_left_alone(self):
        for name, content in (("cut.json", '{"octet_tune_log": 1, "proc'), ("mine.json", '{"my": "settings"}'), ("text", "hello"), ("list.json", "[]")):
            path = TEMP / name
            path.write_text(content)
            done = run("run", NET, "--tune-log", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(name, done.stderr)
            self.assertIn("left alone", done.stderr)
            done = run("tune", NET, "--seconds", 0.02, "-o", path)
            self.assertEqual(done.returncode, 1)
            self.assertIn(name, done.stderr)
            self.assertEqual(path.read_text(), content)

    def test_what_is_no_ordinary_file_is_not_read(self):
        """A pipe would wait for its other end, some devices never end."""
        pipe = TEMP / "pipe"
        os.mkfifo(pipe)
        for path in (pipe, "/dev/zero", TEMP):
            done = run("run", NET, "--tune-log", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("no ordinary file", done.stderr)
            self.assertEqual(run("tune", NET, "--seconds", 0.02, "-o", path).returncode, 1)

    def test_places_that_cannot_be_written(self):
        (TEMP / "file").write_text("")
        done = run("tune", NET, "--seconds", 0.02, "-o", TEMP / "file" / "log.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("log.json", done.stderr)
        done = run("tune", NET, "--seconds", 0.02, "-o", "none")
        self.assertEqual(done.returncode, 1)
        self.assertIn("name a file", done.stderr)

    def test_wrong_arguments(self):
        for arguments in (["tune"], ["tune", NET, "--seconds", "0"], ["tune", NET, "--seconds", "inf"], ["tune", NET, "--seconds", "nan"], ["tune", NET, "--batch", "1,x"], ["run", NET, "--memory", "tiny"],
                          ["run", NET, "--memory", "small", "--tune"], ["bench", NET, "--memory="], ["eval", NET, "--data", NET, "--memory", "huge"]):
            self.assertEqual(run(*arguments).returncode, 2, arguments)


class Memory(unittest.TestCase):
    @staticmethod
    def peak(*arguments):
        """Kilobytes of resident memory at most."""
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.execv(BINARY, [BINARY, *map(str, arguments)])
        _, status, usage = os.wait4(child, 0)
        assert status == 0
        return usage.ru_maxrss

    def test_small_gives_the_same_bytes(self):
        for batch in (1, 3):
            self.assertEqual(outputs("--memory", "small", "--batch", batch), outputs("--memory", "fast", "--batch", batch, "--tune-log", "none"))

    def test_small_is_smaller(self):
        if SANITIZED:
            self.skipTest("a sanitizer's memory is its own")
        fast, small = (json.loads(octet("bench", DEEP, "--seconds", 0.01, "--json", "--tune-log", "none", "--memory", size)) for size in ("fast", "small"))
        self.assertLessEqual(small["weight_bytes"], fast["weight_bytes"])
        self.assertLess(small["weight_bytes"], 2.5 * MANY * 9 * CHANNELS * CHANNELS)  # 16 bits a weight at most, and tables
        saved = fast["weight_bytes"] - small["weight_bytes"]
        arguments = ("run", DEEP, "--tune-log", "none", "--memory")
        if saved > 20 << 20:  # else both may stay below what this very process takes, which counts as the child's until it starts the program
            self.assertLess(self.peak(*arguments, "small"), self.peak(*arguments, "fast") - 0.3 * saved / 1024)


if __name__ == "__main__":
    unittest.main()
