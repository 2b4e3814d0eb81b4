"""liboctet.so through ctypes, for the measurements in this folder: sessions in the process of the peers, timed in turn with them.

The structures repeat include/octet/octet.h. SPDX-License-Identifier: MIT
"""
import ctypes as C
import os
import pathlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "build/liboctet.so"
PROGRAM = ROOT / "build/octet"
TYPES = {np.dtype(np.float32): b"f32", np.dtype(np.int64): b"i64", np.dtype(np.int32): b"i32", np.dtype(np.uint8): b"u8", np.dtype(np.int8): b"i8"}


class Tensor(C.Structure):
    _fields_ = [("name", C.c_char_p), ("dtype", C.c_char_p), ("rank", C.c_int), ("dims", C.c_int64 * 8), ("data", C.c_void_p), ("bytes", C.c_size_t)]


class Options(C.Structure):
    """octet_session_options up to the fields that are used here: struct_size tells the library."""
    _fields_ = [("struct_size", C.c_size_t), ("batch", C.c_int64), ("shapes", C.POINTER(Tensor)), ("n_shapes", C.c_size_t), ("isa", C.c_char_p),
                ("no_fuse", C.c_char_p), ("exact_float", C.c_bool)]


class Step(C.Structure):
    _fields_ = [("kernel", C.c_char_p), ("layer", C.c_char_p), ("macs", C.c_double), ("seconds", C.c_double)]


class StepTiming(C.Structure):
    _fields_ = [("min_ms", C.c_double), ("median_ms", C.c_double), ("weight_bytes", C.c_double), ("read_bytes", C.c_double), ("written_bytes", C.c_double),
                ("integer", C.c_bool)]


class Layer(C.Structure):
    _fields_ = [("name", C.c_char_p), ("op", C.c_char_p), ("type", C.c_char_p), ("kernel", C.c_char_p), ("fused_into", C.c_char_p), ("reason", C.c_char_p),
                ("dtype", C.c_char_p), ("rank", C.c_int), ("dims", C.c_int64 * 8), ("macs", C.c_double), ("parameters", C.c_size_t), ("bytes", C.c_size_t),
                ("seconds", C.c_double), ("choice", C.c_char_p)]


class Timing(C.Structure):
    _fields_ = [("min_ms", C.c_double), ("median_ms", C.c_double), ("p90_ms", C.c_double), ("p99_ms", C.c_double), ("runs", C.c_size_t)]


FUNCTIONS = {  # name: (result, arguments)
    "octet_context_create": (C.c_int, [C.c_void_p]), "octet_context_message": (C.c_char_p, [C.c_void_p]),
    "octet_context_set_threads": (C.c_int, [C.c_void_p, C.c_int]), "octet_model_read": (C.c_int, [C.c_void_p, C.c_char_p, C.c_char_p, C.c_void_p]),
    "octet_model_set_metadata": (C.c_int, [C.c_void_p, C.c_char_p, C.c_char_p]), "octet_session_create": (C.c_int, [C.c_void_p, C.POINTER(Options), C.c_void_p]),
    "octet_session_input_count": (C.c_size_t, [C.c_void_p]), "octet_session_output_count": (C.c_size_t, [C.c_void_p]),
    "octet_session_input": (Tensor, [C.c_void_p, C.c_size_t]), "octet_session_output": (Tensor, [C.c_void_p, C.c_size_t]),
    "octet_session_run": (C.c_int, [C.c_void_p]), "octet_session_step_count": (C.c_size_t, [C.c_void_p]), "octet_session_step": (Step, [C.c_void_p, C.c_size_t]),
    "octet_session_layer_count": (C.c_size_t, [C.c_void_p]), "octet_session_layer": (Layer, [C.c_void_p, C.c_size_t]),
    "octet_session_time": (C.c_int, [C.c_void_p, C.c_double, C.POINTER(Timing)]),
    "octet_session_time_steps": (C.c_int, [C.c_void_p, C.c_double, C.POINTER(StepTiming)]), "octet_session_destroy": (None, [C.c_void_p]),
    "octet_model_destroy": (None, [C.c_void_p]), "octet_context_destroy": (None, [C.c_void_p]),
}


def load(path=LIBRARY):
    library = C.CDLL(os.fspath(path))
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name, None)  # an older library may lack some
        if function:
            function.restype, function.argtypes = result, arguments
    return library


class Session:
    """A model made ready for inputs of the given shapes (name -> array), which are copied in."""

    def __init__(self, model, feed, threads=1, isa=None, exact_float=False, profile=None, library=LIBRARY):
        self.library, self.context, self.model, self.session = load(library), C.c_void_p(), C.c_void_p(), C.c_void_p()
        self.check(self.library.octet_context_create(C.byref(self.context)))
        self.check(self.library.octet_context_set_threads(self.context, threads))
        self.check(self.library.octet_model_read(self.context, os.fspath(model).encode(), None, C.byref(self.model)))
        if profile:
            self.check(self.library.octet_model_set_metadata(self.model, b"profile", profile.encode()))
        shapes = (Tensor * len(feed))()
        for shape, (name, array) in zip(shapes, feed.items()):
            shape.name, shape.dtype, shape.rank = name.encode(), TYPES[array.dtype], array.ndim
            shape.dims[:array.ndim] = array.shape
        options = Options(C.sizeof(Options), 0, shapes, len(feed), isa.encode() if isa else None, None, exact_float)
        self.check(self.library.octet_session_create(self.model, C.byref(options), C.byref(self.session)))
        for i in range(self.library.octet_session_input_count(self.session)):
            t = self.library.octet_session_input(self.session, i)
            array = np.ascontiguousarray(feed[t.name.decode()])
            if array.nbytes != t.bytes:
                raise ValueError(f"input {t.name.decode()} takes {t.bytes} bytes, the array has {array.nbytes}")
            C.memmove(t.data, array.ctypes.data, t.bytes)

    def check(self, status):
        if status:
            raise RuntimeError(self.library.octet_context_message(self.context).decode())

    def run(self):
        self.check(self.library.octet_session_run(self.session))

    def caller(self):
        """The bare call, for timing."""
        function, session = self.library.octet_session_run, self.session
        return lambda: function(session)

    def output(self, index=0):
        t = self.library.octet_session_output(self.session, index)
        dtype = next(k for k, v in TYPES.items() if v == t.dtype)
        return np.frombuffer((C.c_char * t.bytes).from_address(t.data), dtype).reshape(t.dims[:t.rank]).copy()

    def time(self, seconds):
        timing = Timing()
        self.check(self.library.octet_session_time(self.session, seconds, C.byref(timing)))
        return timing

    def layers(self):
        return [self.library.octet_session_layer(self.session, i) for i in range(self.library.octet_session_layer_count(self.session))]

    def steps(self, seconds):
        """(layer, kernel, multiply-adds, min ms, median ms, integer) of each step."""
        count = self.library.octet_session_step_count(self.session)
        timings = (StepTiming * count)()
        self.check(self.library.octet_session_time_steps(self.session, seconds, timings))
        infos = [self.library.octet_session_step(self.session, i) for i in range(count)]
        return [(s.layer.decode(), s.kernel.decode(), s.macs, t.min_ms, t.median_ms, t.integer) for s, t in zip(infos, timings)]

    def close(self):
        if getattr(self, "session", None) is None:
            return
        self.library.octet_session_destroy(self.session)
        self.library.octet_model_destroy(self.model)
        self.library.octet_context_destroy(self.context)
        self.session = None

    def __del__(self):
        self.close()
