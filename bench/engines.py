"""The peers, and the race: every engine in turn in short bursts, in one process.

A figure is the median over the bursts of each burst's median; a ratio is the median of the ratios of bursts that lie side by side. So a machine whose speed
drifts, or is shared, slows all engines alike. SPDX-License-Identifier: MIT
"""
import dataclasses
import functools
import os
import statistics
import sys
import time
import typing

import numpy as np
from bench_models import PEER_IMAGES
from no_amx import cpu_has_amx, forbid_amx
from octet_library import Session


def prepare(amx=False):
    """To be called before any engine is loaded: takes AMX from all of them, unless told otherwise. Returns what is to be said of it."""
    if not cpu_has_amx():
        return "This CPU has no AMX."
    if amx:
        return "This CPU has AMX, and every engine may use it."
    if forbid_amx():
        return ("This CPU has AMX. The process asks the kernel to refuse it to all libraries (`bench/no_amx.py`), so that every engine runs on AVX-512 VNNI; "
                "`--amx` leaves it to all.")
    return ("This CPU has AMX. The peers' oneDNN is capped to AVX512_CORE_VNNI; the kernels of ONNX Runtime and LiteRT could not be capped here and may use AMX.")


def onnxruntime_call(model, feed, threads):
    import onnxruntime as ort
    ort.set_default_logger_severity(3)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(os.fspath(model), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in feed.items():
        binding.bind_cpu_input(name, array)
    for o in session.get_outputs():
        binding.bind_output(o.name)
    return lambda: session.run_with_iobinding(binding)


def openvino_call(model, feed, threads):
    import openvino
    core = openvino.Core()
    network = core.read_model(os.fspath(model))
    network.reshape({name: list(array.shape) for name, array in feed.items()})
    request = core.compile_model(network, "CPU", {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
                                                  "INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    for name, array in feed.items():
        request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
    return lambda: request.infer()


def litert_call(model, feed, threads):
    """`model` names the peers' file; what is run is made of Octet's quantized file beside it, in the same type."""
    from ai_edge_litert.interpreter import Interpreter
    from litert_model import made_from
    name = model.stem.removesuffix("-peer-int8")
    array = next(iter(feed.values()))
    path = made_from(model.with_name(f"{name}-int8.onnx"), array.shape[0], as_float=name == model.stem)
    interpreter = Interpreter(model_path=os.fspath(path), num_threads=threads)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], np.ascontiguousarray(np.moveaxis(array, 1, -1)))
    return interpreter.invoke


def source_of(model, feed):
    """Of a peers' file: the float file that it was made of, its one input, and the images for calibration where the file is the int8 form."""
    if model.stem.endswith("-peer-dynamic"):
        raise RuntimeError("it has no dynamic form here")
    (array,), name = feed.values(), model.stem.removesuffix("-peer-int8")
    if array.dtype != np.float32:
        raise RuntimeError("its input is not float")
    images = None if name == model.stem else np.load(model.with_name(f"{name}-calibration16.npy"))[:PEER_IMAGES]
    return model.with_name(f"{name}.onnx"), array, images


def ncnn_call(model, feed, threads):
    import ncnn_model
    source, array, images = source_of(model, feed)
    if array.shape[0] != 1:
        raise RuntimeError("it takes one image at a time")
    files = ncnn_model.converted(source, array)
    return ncnn_model.call(files if images is None else ncnn_model.quantized(*files, images), array, threads)


def torch_call(model, feed, threads):
    import torch_model
    source, array, images = source_of(model, feed)
    return torch_model.call(source, array, threads, images)


def octet_call(model, feed, threads, **more):
    session = Session(model, feed, threads, **more)
    session.run()
    call = session.caller()
    call.session = session  # lives as long as the call
    return call


@dataclasses.dataclass
class Peer:
    modules: tuple  # that must be importable
    package: str    # whose version is said
    call: typing.Callable


PEERS = {"ONNX Runtime": Peer(("onnxruntime",), "onnxruntime", onnxruntime_call), "OpenVINO": Peer(("openvino",), "openvino", openvino_call),
         "LiteRT": Peer(("ai_edge_litert",), "ai-edge-litert", litert_call), "ncnn": Peer(("ncnn",), "ncnn", ncnn_call),
         "PyTorch": Peer(("torch", "onnx2torch"), "torch", torch_call)}


def installed(names=PEERS):
    found = []
    for name in names:
        try:
            for module in PEERS[name].modules:
                __import__(module)
            found.append(name)
        except ImportError:
            print(f"{name} is not installed: left out", file=sys.stderr)
    return found


@functools.cache
def say_once(message):
    print(message, file=sys.stderr)


def peer_calls(names, model, feed, threads, what):
    """Callables by name; a peer that cannot run the model is left out, and said."""
    calls = {}
    for name in names:
        try:
            call = PEERS[name].call(model, feed, threads)
            call()
            calls[name] = call
        except Exception as e:
            say_once(f"{name} cannot run {what}: {str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__}")
    return calls


class Race:
    """Times in milliseconds per engine: of each burst its median, and the least of all. `make` gives the engines' calls; it is asked anew for each round,
    because where a session's weights come to lie in memory can decide about a tenth of its speed."""

    def __init__(self, make, seconds, burst=0.05, pause=0.0, rounds=1):
        self.bursts, self.least, self.pause = {}, {}, pause
        for done in range(rounds):
            self.run(make(), seconds / rounds, burst, 3 * (done + 1))

    def run(self, calls, seconds, burst, bursts):
        for name, call in calls.items():
            self.bursts.setdefault(name, [])
            self.least.setdefault(name, float("inf"))
            call()
            call()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(next(iter(self.bursts.values()))) < bursts:
            for name, call in calls.items():
                if self.pause:
                    time.sleep(self.pause)  # threads of the engine before, which wait for work in a loop, come to rest
                self.one_burst(name, call, burst)

    def one_burst(self, name, call, burst):
        times, end = [], time.perf_counter() + burst
        call()  # the caches hold another engine's data
        now = time.perf_counter()
        while not times or now < end:
            start = now
            call()
            now = time.perf_counter()
            times.append(1e3 * (now - start))
        self.bursts[name].append(statistics.median(times))
        self.least[name] = min(self.least[name], min(times))

    def median(self, name):
        return statistics.median(self.bursts[name])

    def fastest(self, names):
        return min(names, key=self.median, default=None)

    def ratio(self, a, b):
        return statistics.median(x / y for x, y in zip(self.bursts[a], self.bursts[b]))
