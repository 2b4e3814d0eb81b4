#!/usr/bin/env python3
"""From the start of the process to the first result of int8 ResNet18, and peak memory: `octet run` beside ONNX Runtime in Python.

  ./dev measure start [--rounds 7] [--model resnet18] [--write]

Goals: `octet run` as a whole takes less than ONNX Runtime's session creation plus first run alone (without the start of Python and its imports, which are shown
beside); its peak resident memory is below that of the Python process, and with --memory small at most 0.6 of it.

SPDX-License-Identifier: MIT
"""
import argparse
import statistics
import subprocess
import sys

import bench_models
from octet_library import PROGRAM

PEER = """
import os, sys, time
start = time.perf_counter()
import numpy as np
import onnxruntime as ort
ready = time.perf_counter()
ort.set_default_logger_severity(3)
options = ort.SessionOptions()
options.intra_op_num_threads = 1
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
feed = {i.name: np.zeros([d if isinstance(d, int) else 1 for d in i.shape], np.float32) for i in session.get_inputs()}
session.run(None, feed)
print(time.perf_counter() - ready)
"""


# A process that is started by a large one counts that one's memory as its own peak: this small one starts what is measured.
LAUNCHER = """
import os, sys, time
start = time.perf_counter()
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), 1e3 * (time.perf_counter() - start), usage.ru_maxrss / 1024)
"""


def run(command):
    """Wall milliseconds, peak resident megabytes, standard output."""
    done = subprocess.run([sys.executable, "-S", "-c", LAUNCHER, *map(str, command)], capture_output=True, text=True, check=True)
    *lines, last = done.stdout.splitlines()
    code, ms, megabytes = map(float, last.split())
    if code:
        sys.exit(f"{' '.join(map(str, command))} failed: {done.stderr.strip()}")
    return ms, megabytes, "\n".join(lines)


def measure(commands, rounds):
    """In turn; median time, largest memory, last output per name. The first round warms the file cache."""
    found = {name: [] for name in commands}
    for r in range(rounds + 1):
        for name, command in commands.items():
            result = run(command)
            if r:
                found[name].append(result)
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--model", default="resnet18")
    p.add_argument("--kept", default=bench_models.KEPT)
    p.add_argument("--octet", default=PROGRAM)
    p.add_argument("--write", action="store_true", help="into docs/benchmarks.md")
    a = p.parse_args()
    ours, theirs = bench_models.Models(kept=a.kept, program=a.octet).int8(a.model)
    commands = {"octet run": [a.octet, "run", ours], "ONNX Runtime": [sys.executable, "-c", PEER, theirs]}
    if "--memory" in subprocess.run([a.octet, "run", "--help"], capture_output=True, text=True).stdout:
        commands["octet run --memory small"] = [a.octet, "run", "--memory", "small", ours]
    found = measure(commands, a.rounds)
    peer_ms = statistics.median(1e3 * float(out) for _, _, out in found["ONNX Runtime"])
    peer_mb = statistics.median(mb for _, mb, _ in found["ONNX Runtime"])
    lines = ["| | ms | peak MB | ms, ratio | MB, ratio |", "|---|--:|--:|--:|--:|",
             f"| ONNX Runtime: session creation and first run | {peer_ms:.1f} | {peer_mb:.1f} | 1 | 1 |",
             f"| ONNX Runtime: the whole Python process | {statistics.median(ms for ms, _, _ in found['ONNX Runtime']):.1f} | {peer_mb:.1f} | | |"]
    for name in commands:
        if name == "ONNX Runtime":
            continue
        ms, mb = (statistics.median(column) for column in list(zip(*found[name]))[:2])
        lines.append(f"| {name}: the whole process | {ms:.1f} | {mb:.1f} | {ms / peer_ms:.2f} | {mb / peer_mb:.2f} |")
    text = "\n".join(lines)
    print(text)
    if a.write:
        from versus import write_document
        write_document(text, "start")


if __name__ == "__main__":
    main()
