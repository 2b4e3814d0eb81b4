#!/usr/bin/env python3
"""`octet compare --speed` and `octet quantize --keep-slower-float`: which rows there are, that they add up, and that layers which 8 bits do not slow down stay in 8 bits.
What is faster depends on the machine, so only what must hold on any is checked.

Reads OCTET_BINARY and OCTET_SOURCE_DIR. Needs numpy, onnx, onnxruntime (through cli_checks).
SPDX-License-Identifier: MIT
"""
import json
import unittest

import numpy as np
import onnx

from cli_checks import SOURCE, TEMP, octet, start

FLOAT = SOURCE / "examples/mnist/mnist.oct"
INT8 = TEMP / "m8.onnx"
DATA = TEMP / "digits.npy"


def setUpModule():
    np.save(DATA, np.random.default_rng(1).random((32, 1, 28, 28), np.float32))
    octet("quantize", FLOAT, "-o", INT8, "--calibration", DATA)


class CompareSpeed(unittest.TestCase):
    def test_each_layer_once_with_both_times(self):
        got = json.loads(octet("compare", FLOAT, INT8, "--speed", "--seconds", 0.3, "--json"))
        names = [l["name"] for l in got["layers"]]
        self.assertEqual(len(names), len(set(names)))
        convolutions = [l for l in got["layers"] if l["op"] == "conv"]
        self.assertEqual(len(convolutions), 3)
        for layer in convolutions:
            self.assertEqual(layer["type"], "int8")
            self.assertGreater(layer["reference_ms"], 0)
            self.assertGreater(layer["quantized_ms"], 0)
        for form in ("reference_ms", "quantized_ms"):
            self.assertLessEqual(sum(l[form] for l in got["layers"]), got[form] * 1.0001)
        for layer in got["layers"]:
            self.assertEqual(layer["slower"], layer["name"] in got["slower"])
            if layer["slower"]:
                self.assertGreater(layer["quantized_ms"], layer["reference_ms"])

    def test_text(self):
        text = octet("compare", FLOAT, INT8, "--speed", "--seconds", 0.2)
        self.assertIn("float us", text)
        self.assertIn("all steps: float", text)

    def test_accuracy_still_needs_data(self):
        done = start("compare", FLOAT, INT8)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--data is needed, or --speed", done.stderr)


class KeepSlowerFloat(unittest.TestCase):
    def test_what_is_said_is_what_is_written(self):
        mixed = TEMP / "mixed.onnx"
        got = json.loads(octet("quantize", FLOAT, "-o", mixed, "--calibration", DATA, "--keep-slower-float", "--seconds", 0.3, "--json"))
        kept = {s["name"] for s in got["slower"] if s["kept_float"]}
        types = {l["name"]: l["type"] for l in got["layers"]}
        for layer in kept:
            self.assertEqual(types[layer], "float")
        onnx.checker.check_model(str(mixed))
        if not kept:
            self.assertEqual(mixed.read_bytes(), INT8.read_bytes())

    def test_without_the_option_nothing_is_measured(self):
        got = json.loads(octet("quantize", FLOAT, "-o", TEMP / "plain.onnx", "--calibration", DATA, "--json"))
        self.assertIsNone(got["slower"])


if __name__ == "__main__":
    unittest.main()
