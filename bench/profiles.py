#!/usr/bin/env python3
"""What the `tflite` numerics profile costs against the default: per layer, of int8 models.

  ./dev measure profiles [--models NAMES] [--seconds 8] [--write]

Both run in turn in one process. Goal: at most 10 % where a layer has 1,000 or more products per output; elsewhere the cost is reported.

SPDX-License-Identifier: MIT
"""
import argparse
import math
import statistics

import bench_models
import engines
from octet_library import LIBRARY, PROGRAM, Session


def step_times(session, seconds):
    """(layer, kernel, multiply-adds): microseconds of the integer steps."""
    return {(layer, kernel, macs): 1e3 * median for layer, kernel, macs, _, median, integer in session.steps(seconds) if integer and macs}


def products_per_output(session):
    found = {}
    for layer in session.layers():
        outputs = math.prod(layer.dims[:layer.rank])
        if layer.macs and outputs:
            found[layer.name.decode()] = layer.macs / outputs
    return found


def compare(path, seconds, rounds, library):
    """Sessions are made anew for each round, the other one first each time: where weights come to lie in memory decides about some layers. The session that
    is made first gets the same places each time, so that a ratio is the geometric mean over two rounds."""
    feed = bench_models.inputs_of(path, 1)
    ratios, products = {}, {}
    for r in range(rounds):
        sessions = {}
        for profile in ("onnx", "tflite") if r % 2 else ("tflite", "onnx"):
            sessions[profile] = Session(path, feed, profile=profile, library=library)
        products = products or products_per_output(sessions["onnx"])
        one, other = (step_times(sessions[profile], seconds / rounds / 2) for profile in ("onnx", "tflite"))
        by_layer = {layer: us for (layer, _, _), us in other.items()}
        for (layer, kernel, macs), us in one.items():
            if layer in by_layer and us > 0:
                ratios.setdefault((layer, kernel), []).append((by_layer[layer] / us, us))
        for session in sessions.values():
            session.close()
    over_two = lambda values: [math.sqrt(first[0] * second[0]) for first, second in zip(values[::2], values[1::2])]
    return [(layer, kernel, products.get(layer, 0), statistics.median(us for _, us in values), statistics.median(over_two(values)))
            for (layer, kernel), values in ratios.items()]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", default="resnet18,efficientnet-lite0,resnet20,mnist")
    p.add_argument("--seconds", type=float, default=8, help="for each model (8)")
    p.add_argument("--rounds", type=int, default=16, help="an even number (16)")
    p.add_argument("--amx", action="store_true", help="use AMX, where the CPU has it")
    p.add_argument("--kept", default=bench_models.KEPT)
    p.add_argument("--octet", default=PROGRAM)
    p.add_argument("--library", default=LIBRARY)
    p.add_argument("--all", action="store_true", help="every layer")
    p.add_argument("--write", action="store_true", help="into docs/benchmarks.md")
    a = p.parse_args()
    engines.prepare(a.amx)
    models = bench_models.Models(kept=a.kept, program=a.octet)
    lines = ["| model | layer | products per output | us | tflite / default |", "|---|---|--:|--:|--:|"]
    heavy, light = [], []
    for name in a.models.split(","):
        for layer, _, products, us, ratio in compare(models.int8(name)[0], a.seconds, a.rounds, a.library):
            (heavy if products >= 1000 else light).append((us, ratio))
            if a.all or ratio > 1.1:
                lines.append(f"| {name} | {layer} | {products:.0f} | {us:.1f} | {ratio:.2f} |")
    share = lambda rows: sum(us * ratio for us, ratio in rows) / sum(us for us, _ in rows) if rows else float("nan")
    worst = max((r for _, r in heavy), default=float("nan"))
    text = "\n".join([*lines, "", f"Layers with 1,000 or more products per output: {share(heavy):.2f} of the default's time together, {worst:.2f} at worst (goal 1.10: "
                      f"{'met' if worst <= 1.1 else '**not met**'}). The others together: {share(light):.2f}."])
    print(text)
    if a.write:
        from versus import write_document
        write_document(text, "profiles")


if __name__ == "__main__":
    main()
