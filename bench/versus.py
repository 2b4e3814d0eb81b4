#!/usr/bin/env python3
"""Octet beside ONNX Runtime and OpenVINO on the same models, in one run.

  ./dev versus [--models NAMES] [--types float,int8] [--batch 1,8] [--threads 1] [--seconds 1] [--rounds 5] [--write]

Each round times every engine in turn for --seconds; a figure is the median over the rounds of the round's median, so that a machine whose speed
drifts slows all of them alike. `ratio` is Octet's time over that of the fastest peer for the same model and type: below 1, Octet is faster.
--write puts the table into docs/benchmarks.md between its markers.

Peers run with bound inputs where they can; their call overhead (a model of one Relu) is measured beside. Where the CPU has AMX the peers' oneDNN is capped
to AVX512_CORE_VNNI, which is what Octet uses; ONNX Runtime's own kernels cannot be capped. SPDX-License-Identifier: MIT
"""
import argparse
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_VNNI")
os.environ.setdefault("DNNL_MAX_CPU_ISA", "AVX512_CORE_VNNI")

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
ort.set_default_logger_severity(3)


# ---- Models --------------------------------------------------------------------------------------------------------

def resnet18(path):
    """ResNet18 with seeded random weights: for speed, not for accuracy."""
    rng = np.random.default_rng(0)
    nodes, constants = [], []

    def constant(name, array):
        constants.append(numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name))
        return name

    def op(kind, inputs, name, **attributes):
        nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def conv(x, inputs, outputs, kernel, stride, pad, name):
        w = constant(name + ".w", rng.standard_normal((outputs, inputs, kernel, kernel)) * np.sqrt(2 / (inputs * kernel * kernel)))
        y = op("Conv", [x, w], name, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)
        statistics_ = [constant(f"{name}.{k}", v) for k, v in (("g", rng.uniform(.8, 1.2, outputs)), ("b", rng.normal(0, .1, outputs)),
                                                               ("m", rng.normal(0, .1, outputs)), ("v", rng.uniform(.8, 1.2, outputs)))]
        return op("BatchNormalization", [y] + statistics_, name + ".bn")

    x = op("Relu", [conv("input", 3, 64, 7, 2, 3, "conv1")], "relu1")
    x = op("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    width = 64
    for stage, outputs in enumerate((64, 128, 256, 512)):
        for block in range(2):
            name, stride = f"s{stage}b{block}", 2 if stage and not block else 1
            y = op("Relu", [conv(x, width, outputs, 3, stride, 1, name + ".1")], name + ".r")
            y = conv(y, outputs, outputs, 3, 1, 1, name + ".2")
            short = x if stride == 1 and width == outputs else conv(x, width, outputs, 1, stride, 0, name + ".d")
            x, width = op("Relu", [op("Add", [y, short], name + ".a")], name + ".o"), outputs
    x = op("Flatten", [op("GlobalAveragePool", [x], "gap")], "flat")
    op("Gemm", [x, constant("fc.w", rng.standard_normal((1000, 512)) * np.sqrt(2 / 512)), constant("fc.b", np.zeros(1000))], "output", transB=1)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "resnet18", [info("input", 1, ["N", 3, 224, 224])], [info("output", 1, ["N", 1000])], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, path)


def one_relu(path):
    info = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", [info("x", 1, [1, 16])], [info("y", 1, [1, 16])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, path)


def free_batch(source, path):
    """A copy whose inputs and outputs have a free first dimension."""
    model = onnx.load(source)
    known = {t.name for t in model.graph.initializer}
    for i in model.graph.input:
        if i.name not in known:
            i.type.tensor_type.shape.dim[0].dim_param = "N"
    for o in model.graph.output:
        if o.type.tensor_type.shape.dim:
            o.type.tensor_type.shape.dim[0].dim_param = "N"
    del model.graph.value_info[:]
    onnx.save(model, path)


def models(data, work):
    """name -> path of the float model."""
    found = {"resnet18": work / "resnet18.onnx", "mnist": work / "mnist.onnx"}
    resnet18(found["resnet18"])
    subprocess.run([OCTET, "convert", ROOT / "examples/mnist/mnist.oct", found["mnist"]], check=True)
    for name, place in (("efficientnet-lite0", "efficientnet-lite0/efficientnet-lite0.onnx"), ("resnet20", "resnet-cifar10/resnet20.onnx"),
                        ("rfb-320", "ultraface/version-RFB-320.onnx"), ("super-resolution", "onnx-zoo-small/super_resolution_10/model.onnx")):
        if (data / place).exists():
            found[name] = work / (name + ".onnx")
            free_batch(data / place, found[name])
            if max(o.version for o in onnx.load(found[name], load_external_data=False).opset_import) < 13:
                # the peers' quantizer needs scales per channel, which came with operator set 13
                subprocess.run([OCTET, "convert", found[name], found[name]], check=True, capture_output=True)
    return found


def inputs_of(model, batch):
    session = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    return {i.name: rng.random([d if isinstance(d, int) and k else batch for k, d in enumerate(i.shape)], np.float32) for i in session.get_inputs()}


def quantize_peer(source, target, batches):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process
    prepared = str(target) + ".pre"
    quant_pre_process(str(source), prepared, skip_symbolic_shape=True)

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = iter(batches)

        def get_next(self):
            return next(self.left, None)

    quantize_static(prepared, str(target), Reader(), quant_format=QuantFormat.QDQ, per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    os.remove(prepared)


# ---- Engines -------------------------------------------------------------------------------------------------------

def median_of(call, seconds):
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def onnxruntime_call(model, feed, threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in feed.items():
        binding.bind_cpu_input(name, array)
    for o in session.get_outputs():
        binding.bind_output(o.name)
    return lambda: session.run_with_iobinding(binding)


def openvino_call(model, feed, threads):
    import openvino
    core = openvino.Core()
    network = core.read_model(str(model))
    network.reshape({name: list(array.shape) for name, array in feed.items()})
    request = core.compile_model(network, "CPU", {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
                                                  "INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    for name, array in feed.items():
        request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
    return lambda: request.infer()


def octet_time(model, batch, threads, seconds):
    line = subprocess.run([OCTET, "bench", model, "--batch", str(batch), "--threads", str(threads), "--seconds", str(seconds), "--json"], check=True,
                          capture_output=True, text=True).stdout
    return json.loads(line)["median_ms"]


def peers():
    found = {"ONNX Runtime": onnxruntime_call}
    try:
        import openvino  # noqa: F401
        found["OpenVINO"] = openvino_call
    except ImportError:
        print("OpenVINO is not installed: left out", file=sys.stderr)
    return found


def race(name, kind, ours, theirs, batch, threads, seconds, rounds):
    feed = inputs_of(theirs, batch)
    calls = {}
    for peer, make in peers().items():
        try:
            calls[peer] = make(theirs, feed, threads)
            calls[peer]()
        except Exception as e:  # a peer that cannot run a model is left out, and said
            print(f"{peer} cannot run {name} {kind}: {str(e).splitlines()[0]}", file=sys.stderr)
            calls.pop(peer, None)
    times = {peer: [] for peer in ("Octet", *calls)}
    for _ in range(rounds):
        times["Octet"].append(octet_time(ours, batch, threads, seconds))
        for peer, call in calls.items():
            times[peer].append(median_of(call, seconds))
    row = {"model": name, "type": kind, "batch": batch, "threads": threads, **{k: statistics.median(v) for k, v in times.items()}}
    return row


# ---- Table ---------------------------------------------------------------------------------------------------------

def add_ratios(rows):
    """Against the fastest peer of the same type; for the small nets where the peers' int8 is slower than their float, also against that."""
    best = {}
    for r in rows:
        fastest = min((v for k, v in r.items() if k in PEER_NAMES), default=None)
        r["ratio"] = r["Octet"] / fastest if fastest else None
        key = (r["model"], r["batch"], r["threads"])
        best[key] = min(best.get(key, float("inf")), fastest or float("inf"))
    for r in rows:
        r["ratio_any"] = r["Octet"] / best[(r["model"], r["batch"], r["threads"])]


def table(rows):
    lines = ["| model | type | batch | threads | Octet ms | " + " | ".join(f"{p} ms" for p in PEER_NAMES) + " | ratio, same type | ratio, any type |",
             "|---|---|--:|--:|--:|" + "--:|" * len(PEER_NAMES) + "--:|--:|"]
    number = lambda x: "-" if x is None else f"{x:.4f}" if x < 0.1 else f"{x:.3f}" if x < 10 else f"{x:.1f}"
    for r in rows:
        cells = [r["model"], r["type"], r["batch"], r["threads"], number(r["Octet"]), *(number(r.get(p)) for p in PEER_NAMES),
                 "-" if r["ratio"] is None else f"{r['ratio']:.2f}", f"{r['ratio_any']:.2f}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def cpu_name():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def write_document(text):
    path = ROOT / "docs/benchmarks.md"
    old = path.read_text()
    head, rest = old.split("<!-- versus -->\n", 1)
    tail = rest.split("<!-- /versus -->", 1)[1]
    path.write_text(head + "<!-- versus -->\n" + text + "\n<!-- /versus -->" + tail)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", default="")
    p.add_argument("--types", default="float,int8")
    p.add_argument("--batch", default="1")
    p.add_argument("--threads", default="1")
    p.add_argument("--seconds", type=float, default=1)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--data", type=pathlib.Path, default=ROOT.parent / "shared/data")
    p.add_argument("--octet", default=str(ROOT / "build/octet"))
    p.add_argument("--json", action="store_true")
    p.add_argument("--write", action="store_true")
    a = p.parse_args()
    global OCTET, PEER_NAMES
    OCTET, PEER_NAMES = a.octet, list(peers())
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        available = models(a.data, work)
        for name in a.models.split(",") if a.models else available:
            if name not in available:
                sys.exit(f"there is no model {name}: {', '.join(available)}")
            source, forms = available[name], {}
            forms["float"] = (source, source)
            if "int8" in a.types:
                feed = inputs_of(source, 16)
                np.save(work / "calibration.npy", next(iter(feed.values())))
                ours, theirs = work / f"{name}-int8.onnx", work / f"{name}-peer-int8.onnx"
                subprocess.run([OCTET, "quantize", source, "-o", ours, "--calibration", work / "calibration.npy"], check=True, capture_output=True)
                quantize_peer(source, theirs, [{k: v[i:i + 1] for k, v in feed.items()} for i in range(4)])
                forms["int8"] = (ours, theirs)
            for kind in a.types.split(","):
                for batch in map(int, a.batch.split(",")):
                    for threads in map(int, a.threads.split(",")):
                        rows.append(race(name, kind, *forms[kind], batch, threads, a.seconds, a.rounds))
                        print(json.dumps(rows[-1]), file=sys.stdout if a.json else sys.stderr, flush=True)
        relu = work / "relu.onnx"
        one_relu(relu)
        feed = {"x": np.zeros((1, 16), np.float32)}
        overhead = {peer: 1e3 * median_of(make(relu, feed, 1), 0.3) for peer, make in peers().items()}
    add_ratios(rows)
    said = ", ".join(f"{k} {v:.1f}" for k, v in overhead.items())
    text = f"{table(rows)}\n\n{cpu_name()}, {os.cpu_count()} cores; ONNX Runtime {ort.__version__}. Call overhead in microseconds (one Relu): {said}."
    if not a.json:
        print(text)
    if a.write:
        write_document(text)


if __name__ == "__main__":
    main()
