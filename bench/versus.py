#!/usr/bin/env python3
"""Octet beside ONNX Runtime, OpenVINO, LiteRT, ncnn and (where it is installed) PyTorch on the same models, in one process, in turn.

  ./dev versus                               every row that has a goal (about five minutes)
  ./dev versus --models resnet18 --types int8 --batch 1,8 --threads 1,2     other rows
  ./dev versus --write                       puts the table into docs/benchmarks.md between its markers

Each engine runs in bursts of 50 ms, in turn; sessions are made anew three times. A figure is the median over the bursts; `ratio` is Octet's time over that of the fastest peer (or what the
row says), the median over pairs of neighbouring bursts: below 1, Octet is faster. Peers run with bound inputs; what a call of each engine costs on
its own (a model of one Relu) is said below the table.

SPDX-License-Identifier: MIT
"""
import argparse
import dataclasses
import json
import os
import pathlib
import sys

import numpy as np

import bench_models
import engines
from octet_library import LIBRARY, PROGRAM, ROOT


@dataclasses.dataclass
class Row:
    model: str
    type: str
    batch: int = 1
    threads: int = 1
    goal: float = None
    against: str = "same type"  # "any type": the fastest peer in int8 or float; or an engine and type of its own
    length: int = 64            # of token sequences

    def label(self):
        return f"{self.type}" + ("" if self.against == "same type" else f" against {self.against}")


GOALS = [
    *(Row("resnet18", "int8", batch, 1, 0.76) for batch in (1, 8, 64, 256)),
    *(Row("resnet18", "int8", batch, 2, 0.76) for batch in (1, 64)),
    Row("resnet18", "float", 1, 1, 0.62), Row("resnet18", "float", 8, 1, 0.58), Row("resnet18", "float", 64, 1, 0.58),
    Row("efficientnet-lite0", "int8", goal=0.62), Row("efficientnet-lite0", "float", goal=0.90),
    Row("resnet20", "int8", goal=0.70), Row("resnet20", "float", goal=0.70),
    Row("rfb-320", "int8", goal=0.50, against="any type"), Row("super-resolution", "int8", goal=0.50, against="any type"),
    Row("mnist", "int8", goal=0.25, against="ONNX Runtime float"),
    Row("minilm", "dynamic", 1, 1, 0.75, "ONNX Runtime", 64), Row("minilm", "dynamic", 8, 1, 0.75, "ONNX Runtime", 128),
    Row("efficientnet-lite0", "dynamic", goal=1.4, against="Octet int8"),
    Row("resnet18", "int8 avx2", goal=round(1 / 1.6, 3), against="Octet float direct avx2"),
]
ROUNDS = 3  # of each row, with sessions made anew
NOT_FASTER = ("The MNIST network in its own row is held against ONNX Runtime's float form: its int8 form is slower. Dynamic int8 is held against ONNX Runtime's "
              "alone: the others do not run it, or run it as float.")


# ---- Racing --------------------------------------------------------------------------------------------------------

def calls_of(row, models, names, library):
    """Callables by engine (and type, where that is not the row's), for the row's threads."""
    kind = row.type.split()[0]
    ours, theirs = models.form(row.model, kind)
    feed = bench_models.inputs_of(ours, row.batch, row.length)
    what = f"{row.model} {row.type}"

    def octet(path, **more):
        return engines.octet_call(path, feed, row.threads, library=library, **more)
    if row.against == "Octet int8":
        return {"Octet": octet(ours), row.against: octet(models.int8(row.model)[0])}
    if row.against == "Octet float direct avx2":
        other = octet(models.float(row.model)[0], isa="avx2", exact_float=True)
        return {"Octet": octet(ours, isa="avx2"), row.against: other}
    calls = {"Octet": octet(ours)}
    if row.against.startswith("ONNX Runtime"):
        names = [n for n in names if n == "ONNX Runtime"]
    if "LiteRT" in names and kind == "float":
        models.int8(row.model)  # LiteRT's float model has the same source
    calls.update(engines.peer_calls(names, theirs, feed, row.threads, what))
    if row.against in ("any type", "ONNX Runtime float"):
        other = models.float(row.model)[1]
        calls.update({f"{k} float": v for k, v in engines.peer_calls(names, other, feed, row.threads, f"{row.model} float").items()})
    return calls


def scaling(row, models, names, seconds, library):
    """How many times faster than on one thread: per engine."""
    one = dataclasses.replace(row, threads=1)

    def make():
        single = calls_of(one, models, names, library)
        return {**calls_of(row, models, names, library), **{f"{k} on one": v for k, v in single.items()}}
    race = engines.Race(make, seconds, pause=0.02, rounds=ROUNDS)
    return {k: race.ratio(f"{k} on one", k) for k in race.bursts if f"{k} on one" in race.bursts}


def rival(row, race):
    """What the row is held against."""
    if row.against in race.bursts:
        return row.against
    return race.fastest([name for name in race.bursts if name != "Octet"])


def run_row(row, models, names, seconds, library):
    race = engines.Race(lambda: calls_of(row, models, names, library), seconds, pause=0.02 if row.threads > 1 else 0, rounds=ROUNDS)
    other = rival(row, race)
    ratio = race.ratio("Octet", other) if other else None
    result = {"model": row.model, "type": row.label(), "batch": row.batch, "threads": row.threads, "ms": {k: race.median(k) for k in race.bursts},
              "min_ms": race.least, "against": other, "ratio": ratio, "goal": row.goal}
    if row.model == "minilm":
        result["batch"] = f"{row.batch}x{row.length}"
    if row.threads > 1:
        result["faster_than_one_thread"] = scaling(row, models, names, seconds, library)
    if row.goal and ratio is not None:
        result["met"] = ratio <= row.goal
    return result


def call_overhead(models, names, library):
    relu = models.path("one-relu.onnx", bench_models.one_relu)
    feed = {"x": np.zeros((1, 16), np.float32)}
    calls = {"Octet": engines.octet_call(relu, feed, 1, library=library), **engines.peer_calls([n for n in names if n != "LiteRT"], relu, feed, 1, "one Relu")}
    race = engines.Race(lambda: calls, 0.5, burst=0.02)
    return {k: 1e3 * race.median(k) for k in calls}


# ---- Table ---------------------------------------------------------------------------------------------------------

def number(x):
    return "-" if x is None else f"{x:.4f}" if x < 0.1 else f"{x:.3f}" if x < 10 else f"{x:.1f}"


def table(results, names):
    head = ["model", "type", "batch", "threads", "Octet ms", *(f"{n} ms" for n in names), "fastest rival", "ratio", "goal", "met"]
    lines = ["| " + " | ".join(head) + " |", "|---|---|--:|--:|" + "--:|" * (len(names) + 1) + "---|--:|--:|---|"]
    for r in results:
        fastest = "-" if r["against"] is None else r["against"] if r["against"] in names else f"{r['against']}: {number(r['ms'][r['against']])} ms"
        cells = [r["model"], r["type"], r["batch"], r["threads"], number(r["ms"]["Octet"]), *(number(r["ms"].get(n)) for n in names), fastest,
                 "-" if r["ratio"] is None else f"{r['ratio']:.2f}", "-" if r["goal"] is None else f"{r['goal']:.2f}",
                 {True: "yes", False: "**no**"}.get(r.get("met"), "-")]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def scaling_text(results):
    lines = []
    for r in results:
        found = r.get("faster_than_one_thread")
        if found:
            others = ", ".join(f"{k} {v:.2f}" for k, v in found.items() if k != "Octet")
            met = found["Octet"] >= min(1.85, max((v for k, v in found.items() if k != "Octet"), default=1.85))
            lines.append(f"{r['model']} {r['type']}, batch {r['batch']}, {r['threads']} threads: {found['Octet']:.2f} times as fast as one "
                         f"(goal: 1.85, or the best peer's; {others}){'' if met else ': **not met**'}.")
    return "\n".join(lines)


def versions(names):
    from importlib.metadata import version
    return ", ".join(f"{n} {version(engines.PEERS[n].package)}" for n in names)


def cpu_name():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def document(results, names, overhead, note):
    said = ", ".join(f"{k} {v:.1f}" for k, v in overhead.items())
    parts = [table(results, names), scaling_text(results),
             f"{cpu_name()}, {os.cpu_count()} processors; {versions(names)}. Overhead of a call in microseconds (one Relu, from Python): {said}.\n{note}\n{NOT_FASTER}"]
    return "\n\n".join(p for p in parts if p)


def write_document(text, name="versus"):
    """Puts text between the markers `<!-- NAME -->` of docs/benchmarks.md."""
    path = ROOT / "docs/benchmarks.md"
    old = path.read_text()
    head, rest = old.split(f"<!-- {name} -->\n", 1)
    tail = rest.split(f"<!-- /{name} -->", 1)[1]
    path.write_text(f"{head}<!-- {name} -->\n{text}\n<!-- /{name} -->{tail}")


# ---- Command -------------------------------------------------------------------------------------------------------

def wanted_rows(a, available):
    if not (a.models or a.types or a.batch or a.threads):
        return [r for r in GOALS if r.model in available]
    rows = []
    for model in a.models.split(",") if a.models else available:
        if model not in available:
            sys.exit(f"there is no model {model}: {', '.join(available)}")
        for kind in (a.types or ("dynamic" if model == "minilm" else "float,int8")).split(","):
            for batch in map(int, (a.batch or "1").split(",")):
                for threads in map(int, (a.threads or "1").split(",")):
                    listed = [g for g in GOALS if (g.model, g.type, g.batch, g.threads) == (model, kind, batch, threads)]
                    rows += listed or [Row(model, kind, batch, threads)]
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", help=f"of {', '.join(bench_models.NAMES)}")
    p.add_argument("--types", help="float, int8, dynamic")
    p.add_argument("--batch", help="batch sizes (1)")
    p.add_argument("--threads", help="numbers of threads (1)")
    p.add_argument("--seconds", type=float, default=8, help="for each row (8)")
    p.add_argument("--peers", default=",".join(engines.PEERS), help=f"of {', '.join(engines.PEERS)}")
    p.add_argument("--data", type=pathlib.Path, default=bench_models.DATA, help="folder of real models")
    p.add_argument("--kept", type=pathlib.Path, default=bench_models.KEPT, help="folder in which made models are kept")
    p.add_argument("--fresh", action="store_true", help="make all models anew")
    p.add_argument("--octet", default=PROGRAM, help="the program, for quantizing")
    p.add_argument("--library", type=pathlib.Path, default=LIBRARY, help="the library that is measured")
    p.add_argument("--amx", action="store_true", help="let every engine use AMX, where the CPU has it")
    p.add_argument("--json", action="store_true", help="one line of JSON per row")
    p.add_argument("--write", action="store_true", help="into docs/benchmarks.md")
    a = p.parse_args()
    note = engines.prepare(a.amx)
    names = engines.installed([n for n in a.peers.split(",") if n in engines.PEERS])
    models = bench_models.Models(a.data, a.kept, a.octet, a.fresh)
    results = []
    for row in wanted_rows(a, models.names()):
        results.append(run_row(row, models, names, a.seconds, a.library))
        print(json.dumps(results[-1]), file=sys.stdout if a.json else sys.stderr, flush=True)
    text = document(results, names, call_overhead(models, names, a.library), note)
    if not a.json:
        print(text)
    if a.write:
        write_document(text)


if __name__ == "__main__":
    main()
