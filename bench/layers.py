#!/usr/bin/env python3
"""Each layer in int8 beside the same layer in float: int8 should not be slower anywhere; where it is, `quantize --keep-float NAME` keeps the layer in float.

  ./dev measure layers [--models NAMES] [--seconds 4] [--all] [--write]

Both forms of a model run in turn in one process; a layer's time is that of all its steps, conversions included, the least of the rounds' medians.
Only layers of at least one microsecond that are slower by more than 5 % are listed, unless --all is given.

SPDX-License-Identifier: MIT
"""
import argparse

import bench_models
from octet_library import LIBRARY, PROGRAM, Session


def layer_times(session, seconds):
    """Microseconds by layer; step times are medians."""
    found = {}
    for layer, _, _, _, median, _ in session.steps(seconds):
        found[layer] = found.get(layer, 0) + 1e3 * median
    return found


def least(a, b):
    return {k: min(a.get(k, float("inf")), b.get(k, float("inf"))) for k in {**a, **b}}


def compare(models, name, kind, seconds, rounds, library):
    """(int8 layers, float layers) in microseconds."""
    ours = models.form(name, kind)[0]
    feed = bench_models.inputs_of(ours, 1)
    sessions = [Session(ours, feed, library=library), Session(models.float(name)[0], feed, library=library)]
    times = [{}, {}]
    for _ in range(rounds):
        for i, session in enumerate(sessions):
            times[i] = least(times[i], layer_times(session, seconds / rounds / 2))
    for session in sessions:
        session.close()
    return times


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", help=f"of {', '.join(bench_models.NAMES)}")
    p.add_argument("--seconds", type=float, default=4, help="for each model (4)")
    p.add_argument("--rounds", type=int, default=4)
    p.add_argument("--all", action="store_true", help="list every layer")
    p.add_argument("--kept", default=bench_models.KEPT)
    p.add_argument("--octet", default=PROGRAM)
    p.add_argument("--library", default=LIBRARY)
    p.add_argument("--write", action="store_true", help="into docs/benchmarks.md")
    a = p.parse_args()
    models = bench_models.Models(kept=a.kept, program=a.octet)
    lines = ["| model | layer | int8 us | float us | ratio |", "|---|---|--:|--:|--:|"]
    counts = []
    for name in a.models.split(",") if a.models else models.names():
        ours, floats = compare(models, name, "dynamic" if name == "minilm" else "int8", a.seconds, a.rounds, a.library)
        common = [k for k in ours if k and k in floats and floats[k] > 0]
        slower = [k for k in common if ours[k] > 1.05 * floats[k] and ours[k] > 1]
        counts.append(f"{name} {len(slower)} of {len(common)}")
        lines += [f"| {name} | {k} | {ours[k]:.2f} | {floats[k]:.2f} | {ours[k] / floats[k]:.2f} |" for k in (common if a.all else slower)]
    text = "\n".join([*lines, "", f"Layers that are slower in 8 bits: {', '.join(counts)}."])
    print(text)
    if a.write:
        from versus import write_document
        write_document(text, "layers")


if __name__ == "__main__":
    main()
