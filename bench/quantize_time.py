#!/usr/bin/env python3
"""How long quantizing takes: `octet quantize` of ResNet18 beside ONNX Runtime's quantize_static (MinMax), the same images, two threads.

  ./dev measure quantize [--samples 100] [--threads 2] [--rounds 1] [--write]

Octet's time is that of the whole command; ONNX Runtime's that of the one call, after Python, its imports and its pre-processing. Goal: at most 0.5.

SPDX-License-Identifier: MIT
"""
import argparse
import resource
import statistics
import subprocess
import sys
import time

import bench_models
from octet_library import PROGRAM

PEER = """
import sys, time
import numpy as np
import onnxruntime as ort
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
ort.set_default_logger_severity(3)
images, threads = np.load(sys.argv[2]), int(sys.argv[4])
made = ort.InferenceSession

def session(*arguments, **more):
    options = more.pop("sess_options", None) or ort.SessionOptions()
    options.intra_op_num_threads = threads
    return made(*arguments, sess_options=options, **more)

ort.InferenceSession = session

class Reader(CalibrationDataReader):
    left = iter(range(len(images)))

    def get_next(self):
        i = next(self.left, None)
        return None if i is None else {"input": images[i:i + 1]}

start, cpu = time.perf_counter(), time.process_time()
quantize_static(sys.argv[1], sys.argv[3], Reader(), quant_format=QuantFormat.QDQ, per_channel=True, activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8, calibrate_method=CalibrationMethod.MinMax)
print(time.perf_counter() - start, time.process_time() - cpu)
"""


def children_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--samples", type=int, default=100)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--kept", default=bench_models.KEPT)
    p.add_argument("--octet", default=PROGRAM)
    p.add_argument("--only-octet", action="store_true")
    p.add_argument("--write", action="store_true", help="into docs/benchmarks.md")
    a = p.parse_args()
    models = bench_models.Models(kept=a.kept, program=a.octet)
    source, data = models.float("resnet18")[0], models.calibration("resnet18", a.samples)
    prepared, target = models.kept / "quantize-time-prepared.onnx", models.kept / "quantize-time.onnx"
    if not prepared.exists() and not a.only_octet:
        from onnxruntime.quantization.shape_inference import quant_pre_process
        quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    ours, theirs = [], []  # (seconds, processor seconds)
    for _ in range(a.rounds):
        start, cpu = time.perf_counter(), children_cpu()
        subprocess.run([a.octet, "quantize", source, "-o", target, "--calibration", data, "--samples", str(a.samples), "--threads", str(a.threads),
                        "--observer", "minmax"], check=True, capture_output=True)
        ours.append((time.perf_counter() - start, children_cpu() - cpu))
        if not a.only_octet:
            done = subprocess.run([sys.executable, "-c", PEER, prepared, data, target, str(a.threads)], check=True, capture_output=True, text=True)
            theirs.append(tuple(map(float, done.stdout.split()[-2:])))
    (one, one_cpu), (other, other_cpu) = (tuple(map(statistics.median, zip(*times))) if times else (0, 0) for times in (ours, theirs))
    text = f"`octet quantize` of ResNet18, {a.samples} images, {a.threads} threads: {one:.2f} s ({one_cpu:.2f} s of processor time)"
    if theirs:
        text += (f"; ONNX Runtime's `quantize_static` (MinMax): {other:.2f} s ({other_cpu:.2f} s); ratio {one / other:.2f} "
                 f"(goal 0.50: {'met' if one <= 0.5 * other else '**not met**'}).")
    print(text)
    if a.write:
        from versus import write_document
        write_document(text, "quantize")


if __name__ == "__main__":
    main()
