#!/usr/bin/env python3
"""The same int8 models in libraries built by gcc and by clang, in turn in one process. Goal: less than 8 % apart.

  ./dev measure compilers [--seconds 4]       builds both; or: compilers.py GCC/liboctet.so CLANG/liboctet.so

SPDX-License-Identifier: MIT
"""
import argparse

import bench_models
import engines
from octet_library import PROGRAM


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("gcc")
    p.add_argument("clang")
    p.add_argument("--models", default="resnet18,efficientnet-lite0,resnet20,rfb-320,super-resolution,mnist")
    p.add_argument("--seconds", type=float, default=4, help="for each model (4)")
    p.add_argument("--kept", default=bench_models.KEPT)
    p.add_argument("--octet", default=PROGRAM)
    p.add_argument("--write", action="store_true", help="into docs/benchmarks.md")
    a = p.parse_args()
    engines.prepare()
    models = bench_models.Models(kept=a.kept, program=a.octet)
    lines = ["| int8 model, batch 1 | gcc ms | clang ms | clang / gcc | under 8 % apart |", "|---|--:|--:|--:|---|"]
    for name in a.models.split(","):
        path = models.int8(name)[0]
        feed = bench_models.inputs_of(path, 1)

        def make():
            return {k: engines.octet_call(path, feed, 1, library=getattr(a, k)) for k in ("gcc", "clang")}
        race = engines.Race(make, a.seconds, rounds=4)
        ratio = race.ratio("clang", "gcc")
        lines.append(f"| {name} | {race.median('gcc'):.4g} | {race.median('clang'):.4g} | {ratio:.3f} | {'yes' if 1 / 1.08 < ratio < 1.08 else '**no**'} |")
    text = "\n".join(lines)
    print(text)
    if a.write:
        from versus import write_document
        write_document(text, "compilers")


if __name__ == "__main__":
    main()
