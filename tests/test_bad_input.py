#!/usr/bin/env python3
"""Bad data, weights, options and files through the program: exit status 1 (never a signal), a message that names the file, node or tensor and the
rule, no file left behind, within bounds of time and memory. Bad graphs: test_bad_graphs.py; damaged files: test_damaged_files.py.
SPDX-License-Identifier: MIT
"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
from cli_checks import *  # noqa: E402,F403

import torch_files as torch  # noqa: E402

MNIST = SOURCE / "examples" / "mnist"


class Data(Refusals):
    def test_wrong_shape_or_type(self):
        for samples, parts in ((np.zeros((4, 3, 9, 8), np.float32), ["samples.npy", "[3,9,8]", "[3,8,8]"]), (np.zeros((4, 192), np.float32), ["samples.npy", "[192]"]),
                               (np.zeros((), np.float32), ["samples.npy"]), (np.zeros((4, 3, 8, 8), np.complex64), ["samples.npy"])):
            with self.subTest(shape=samples.shape, dtype=samples.dtype):
                self.refused(*self.quantize_with(samples), parts=parts)

    def test_empty(self):
        self.refused(*self.quantize_with(np.zeros((0, 3, 8, 8), np.float32)), parts=["samples.npy"])
        folder = TEMP / "no-images"
        folder.mkdir(exist_ok=True)
        self.refused("quantize", self.small(), "-o", self.out / "q.onnx", "--calibration", folder, parts=["no-images"])

    def test_not_finite(self):
        for value, name in ((np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")):
            samples = self.rng.standard_normal((4, 3, 8, 8)).astype(np.float32)
            samples[2, 1, 3, 3] = value
            for observer in ("minmax", "moving-average", "percentile", "kl", "mse"):
                self.refused(*self.quantize_with(samples, "--observer", observer), parts=["samples.npy", "sample 2", name])

    def test_inputs_that_are_missing(self):
        net = Net()
        net.output(net.op("Add", [net.conv(net.input("x", ["N", 3, 8, 8]), 3, 3), net.input("other", ["N", 3, 8, 8])], "y"))
        model = net.save("two.onnx")
        np.savez(TEMP / "one.npz", x=np.zeros((4, 3, 8, 8), np.float32))
        self.refused("quantize", model, "-o", self.out / "q.onnx", "--calibration", TEMP / "one.npz", parts=['"other"'])
        np.savez(TEMP / "two.npz", x=np.zeros((4, 3, 8, 8), np.float32), other=np.zeros((3, 3, 8, 8), np.float32))
        self.refused("quantize", model, "-o", self.out / "q.onnx", "--calibration", TEMP / "two.npz", parts=["other"])
        np.save(TEMP / "one.npy", np.zeros((4, 3, 8, 8), np.float32))
        self.refused("quantize", model, "-o", self.out / "q.onnx", "--calibration", TEMP / "one.npy", parts=["one.npy", "2", ".npz"])

    def test_run_inputs(self):
        for array, parts in ((np.zeros((1, 3, 8, 8), np.float64), ['"x"', "f64"]), (np.zeros((1, 3, 9, 8), np.float32), ['"x"']), (np.zeros(3, np.float32), ['"x"'])):
            np.save(TEMP / "in.npy", array)
            self.refused("run", self.small(), "--input", f"x={TEMP / 'in.npy'}", "--output-dir", self.out, parts=parts)
        self.refused("run", self.small(), "--input", f"nobody={TEMP / 'in.npy'}", "--output-dir", self.out, parts=["nobody"])

    def test_labels(self):
        model = MNIST / "mnist.oct"
        data = ["--data", MNIST / "t10k-images-idx3-ubyte.gz"]
        labels = TEMP / "few.npy"
        np.save(labels, np.zeros(10, np.int64))
        self.refused("eval", model, *data, "--labels", labels, parts=["few.npy"])
        np.save(labels, np.full(10000, 10, np.int64))
        self.refused("eval", model, *data, "--labels", labels, parts=["few.npy", "10"])
        np.save(labels, np.zeros((10000, 2), np.float32))
        self.refused("eval", model, *data, "--labels", labels, parts=["few.npy"])

    def test_scores_that_are_nan(self):
        """They are never right."""
        net = Net()
        net.output(net.op("Log", [net.op("Neg", [net.op("Abs", [net.input("x", ["N", 3])])])], "y"))
        np.save(TEMP / "d.npy", np.ones((5, 3), np.float32))
        np.save(TEMP / "l.npy", np.zeros(5, np.int64))
        result = json.loads(octet("eval", net.save(), "--data", TEMP / "d.npy", "--labels", TEMP / "l.npy", "--json"))
        self.assertEqual((result["correct"], result["total"]), (0, 5))

    def test_preprocess(self):
        for text in ("scale=", "scale=x", "mean=1,2,3,4,5", "frob=1", "std=0", "resize=-1", "resize=99999999999", "scale=nan"):
            with self.subTest(text):
                self.refused("eval", MNIST / "mnist.oct", "--data", MNIST / "t10k-images-idx3-ubyte.gz", "--labels", MNIST / "t10k-labels-idx1-ubyte.gz", "--preprocess", text,
                             parts=[text.split("=")[0]])


class Quantization(Refusals):
    def conv(self, w, b=None, name="odd.onnx"):
        net = Net()
        net.output(net.op("Conv", [net.input("x", ["N", 3, 8, 8]), net.const(w, "w")] + ([net.const(b, "b")] if b is not None else []), "y"))
        return net.save(name)

    def weights(self):
        return self.rng.uniform(-1, 1, (4, 3, 3, 3)).astype(np.float32)

    def test_weights_that_are_not_finite(self):
        samples = self.rng.standard_normal((4, 3, 8, 8)).astype(np.float32)
        for value, name in ((np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")):
            w, b = self.weights(), np.zeros(4, np.float32)
            w[2, 1, 0, 0] = value
            for mode in ("int8", "dynamic", "weight-only"):
                self.refused(*self.quantize_with(samples, "--mode", mode, model=self.conv(w)), parts=['"w"', name])
            b[1] = value
            self.refused(*self.quantize_with(samples, model=self.conv(self.weights(), b)), parts=['"b"', name])

    def test_ranges_of_one_value(self):
        """[0, 0] and [c, c]: a usable scale and a warning by name."""
        w = self.weights()
        for value in (0., 2., -3.):
            samples = np.full((4, 3, 8, 8), value, np.float32)
            model = self.conv(w)
            q, report = quantize(model, samples)
            self.assertTrue([t for t in report["warnings"] if '"x"' in t], report["warnings"])
            self.assertTrue(all(v["scale"] > 1e-9 for v in report["values"]))
            want = run_ort(model, {"x": samples})["y"]
            np.testing.assert_allclose(run_octet(q, {"x": samples})["y"], want, atol=.02 * max(1, abs(value)) + .01 * np.abs(want).max())

    def test_degenerate_weights_and_biases(self):
        samples = self.rng.uniform(-1, 1, (8, 3, 8, 8)).astype(np.float32)
        for value in (0, 1e-30, 1e-41, 1e30):
            for bias in (.5, 1e9, 1e30):
                w, b = self.weights(), np.array([.1, bias, -.2, .3], np.float32)
                w[1] = value
                model = self.conv(w, b)
                for mode in ("int8", "dynamic", "weight-only", "fp16"):
                    with self.subTest(value=value, bias=bias, mode=mode):
                        q, _ = quantize(model, samples, "--mode", mode)
                        got, want = run_octet(q, {"x": samples})["y"], run_ort(model, {"x": samples})["y"]
                        self.assertTrue(np.isfinite(got).all())
                        for c in range(4):
                            self.assertLess(np.abs(got[:, c] - want[:, c]).max(), .03 * np.abs(want[:, c]).max() + 1e-3)

    def test_shared_initializers(self):
        net = Net()
        w = net.const(self.rng.uniform(-.3, .3, (8, 8)).astype(np.float32), "w")
        x = net.op("MatMul", [net.input("x", ["N", 8]), w])
        x = net.op("Add", [net.op("Relu", [x]), net.op("MatMul", ["x", net.op("Transpose", [w], perm=[1, 0])])])
        net.output(net.op("Add", [net.op("MatMul", [x, w]), net.op("Gather", [w, net.const(3, dtype=np.int64)], axis=0)], "y"))
        model, samples = net.save("shared.onnx"), self.rng.standard_normal((64, 8)).astype(np.float32)
        for mode in ("int8", "dynamic", "weight-only", "fp16"):
            with self.subTest(mode):
                q, _ = quantize(model, samples, "--mode", mode)
                want = run_ort(model, {"x": samples})["y"]
                self.assertGreater(sqnr(run_octet(q, {"x": samples})["y"], want), 28)
                self.assertGreater(sqnr(run_ort(q, {"x": samples})["y"], want), 28)

    def test_batch_normalization_anywhere(self):
        """After no convolution, and after one whose result something else reads too."""
        def statistics(net, n):
            r = self.rng
            return [net.const(a.astype(np.float32)) for a in (r.uniform(.5, 2, n), r.standard_normal(n), r.standard_normal(n), r.uniform(.5, 2, n))]

        net = Net()
        x = net.op("BatchNormalization", [net.input("x", ["N", 3, 8, 8])] + statistics(net, 3))
        c = net.conv(x, 4, 3)
        b = net.op("BatchNormalization", [net.op("Relu", [c])] + statistics(net, 4))
        two = net.conv(b, 4, 4)
        n = net.op("BatchNormalization", [two] + statistics(net, 4))
        net.output(net.conv(net.op("Add", [n, two]), 2, 4))
        model, name = net.save("bn.onnx"), net.outputs[0].name
        samples = self.rng.standard_normal((16, 3, 8, 8)).astype(np.float32)
        want = run_ort(model, {"x": samples})[name]
        np.testing.assert_allclose(run_octet(model, {"x": samples})[name], want, rtol=1e-3, atol=1e-4 * np.abs(want).max())
        q, report = quantize(model, samples)
        self.assertEqual(all_int8(report, ("conv",)), {})
        self.assertGreater(sqnr(run_octet(q, {"x": samples})[name], want), 24)

    def test_options(self):
        samples = np.zeros((4, 3, 8, 8), np.float32)
        for arguments, parts in ((["--mode", "int3"], ["int3"]), (["--observer", "guess"], ["guess"]), (["--io", "int5"], ["int5"]), (["--keep-float", "nobody"], ["nobody"]),
                                 (["--percentile", "101", "--observer", "percentile"], ["101"]), (["--config", "/nowhere.json"], ["/nowhere.json"])):
            with self.subTest(arguments):
                self.refused(*self.quantize_with(samples, *arguments), parts=parts)

    def test_config(self):
        samples = self.rng.standard_normal((4, 3, 8, 8)).astype(np.float32)
        for text, parts in (("{", []), ("[]", []), ('{"c_node": {"frob": 1}}', ["c_node", "frob"]), ('{"c_node": {"bits": 4}}', ["c_node", "bits"]),
                            ('{"c_node": {"scale": -1}}', ["c_node", "scale"]), ('{"c_node": {"scale": 1e999}}', []), ('{"c_node": {"zero_point": 300}}', ["zero_point"]),
                            ('{"c_node": {"mode": 3}}', ["c_node", "mode"]), ('{"c_node": 1}', ["c_node"]), ("[" * 100000, []), ('{"c_node": {"observer": "\\u0000"}}', [])):
            with self.subTest(text[:60]):
                path = TEMP / "config.json"
                path.write_text(text)
                self.refused(*self.quantize_with(samples, "--config", path), parts=["config.json", *parts])


class Files(Refusals):
    def test_checkpoints_that_ask_for_code(self):
        model = self.small()
        for name, content in torch.bad_files().items():
            with self.subTest(name):
                path = TEMP / f"{name}.pth"
                path.write_bytes(content)
                self.refused("run", model, "--weights", path, "--output-dir", self.out / "o", parts=[path.name])

    def test_folders_empty_files_and_no_files(self):
        folder, empty = TEMP / "folder", TEMP / "empty"
        folder.mkdir(exist_ok=True)
        empty.write_bytes(b"")
        model, data = self.small(), MNIST / "t10k-images-idx3-ubyte.gz"
        for suffix in (".onnx", ".oct"):
            for bad in (TEMP / f"folder{suffix}", TEMP / f"empty{suffix}", TEMP / f"gone{suffix}"):
                if bad.name.startswith("folder"):
                    bad.mkdir(exist_ok=True)
                elif bad.name.startswith("empty"):
                    bad.write_bytes(b"")
                self.refused_model(bad, bad.name)
        for bad in (folder, empty, TEMP / "gone"):
            self.refused("run", model, "--weights", bad, parts=[bad.name])
            self.refused("run", model, "--input", f"x={bad}", parts=[bad.name])
            self.refused("quantize", model, "-o", self.out / "q.onnx", "--calibration", bad, parts=[bad.name])
            self.refused("eval", MNIST / "mnist.oct", "--data", data, "--labels", bad, parts=[bad.name])
            self.refused(*self.quantize_with(np.zeros((1, 3, 8, 8), np.float32), "--config", bad), parts=[bad.name])
        self.refused("run", TEMP / "small.tflite", parts=["small.tflite"])
        self.refused("check", TEMP / "gone", parts=["gone"])

    def test_names_with_spaces_and_beyond_ascii(self):
        folder = TEMP / "mit Leerzeichen, ümläute und 漢字"
        folder.mkdir(exist_ok=True)
        model = folder / "netz mit ß.onnx"
        model.write_bytes(self.small().read_bytes())
        np.save(folder / "daten 1.npy", self.rng.standard_normal((4, 3, 8, 8)).astype(np.float32))
        octet("quantize", model, "-o", folder / "größe 8.onnx", "--calibration", folder / "daten 1.npy")
        octet("convert", folder / "größe 8.onnx", folder / "text form.oct")
        for name in ("größe 8.onnx", "text form.oct"):
            octet("run", folder / name, "--input", f"x={folder / 'daten 1.npy'}", "--output-dir", folder / "aus gabe")
        self.assertTrue((folder / "aus gabe" / "y.npy").exists())
        self.refused("run", folder / "nicht da.onnx", parts=["nicht da.onnx"])

    def test_where_nothing_can_be_written(self):
        samples = self.rng.standard_normal((4, 3, 8, 8)).astype(np.float32)
        for target in (self.out / "no" / "folder.onnx", TEMP, pathlib.Path("/proc/none.onnx"), self.out / ("n" * 300 + ".onnx")):
            arguments = list(self.quantize_with(samples))
            arguments[3] = target
            self.refused(*arguments, parts=[target.name])
        arguments[3] = self.out / "q.tiff"
        self.refused(*arguments, parts=["q.tiff"])
        self.refused("run", self.small(), "--output-dir", self.out / "a" / "b", parts=["y.npy"])

    def test_absurd_numbers(self):
        model = self.small()
        for arguments in (["--threads", "0"], ["--threads", "99999999999999999999"], ["--threads", "257"], ["--threads", "-1"], ["--threads", "2x"], ):
            self.refused("run", model, *arguments, status=2, parts=[arguments[0][2:]])
        self.refused("run", model, "--isa", "mmx", status=2, parts=["mmx"])
        self.refused("run", model, "--batch", "9223372036854775807", parts=["batch"])
        self.refused("run", model, "--batch", "18446744073709551615", parts=["batch"])
        self.refused("run", model, "--batch", "1000000000", parts=["memory"])
        self.refused("bench", model, "--batch", "1000000000,1", parts=["memory"])
        self.refused("bench", model, "--batch", "0", status=2, parts=["--batch"])
        self.refused("bench", model, "--batch", "99999999999999999999999", status=2, parts=["--batch"])
        self.refused("eval", MNIST / "mnist.oct", "--data", MNIST / "t10k-images-idx3-ubyte.gz", "--labels", MNIST / "t10k-labels-idx1-ubyte.gz", "--batch", "99999999999",
                     parts=["memory"])
        self.refused(*self.quantize_with(self.rng.standard_normal((4, 3, 8, 8)).astype(np.float32), "--batch", "999999999999999", "--mode", "int8", "--samples",
                                         "18446744073709551615", "--seed", "18446744073709551615", "--keep-float", "nobody"), parts=["nobody"])
        samples = self.quantize_with(self.rng.standard_normal((4, 3, 8, 8)).astype(np.float32))
        octet(*samples, "--samples", "18446744073709551615", "--seed", "18446744073709551615")

    def test_outputs_of_one_file_name(self):
        net = Net()
        net.input("x", [3])
        net.output(net.op("Relu", ["x"], "a/b"))
        net.output(net.op("Neg", ["x"], "a:b"))
        self.refused("run", net.save(), "--output-dir", self.out, parts=['"a/b"', '"a:b"'])

    def test_isa_of_the_environment(self):
        done = start("run", self.small(), environment={"OCTET_ISA": "mmx"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("mmx", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
