"""What the Python tests that start the program share. Reads OCTET_BINARY and OCTET_SOURCE_DIR. A test that cannot run (no program, no numpy)
ends with status 77. cli_checks.py has more, for tests that have ONNX and ONNX Runtime as judges.
SPDX-License-Identifier: MIT
"""
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

SOURCE = pathlib.Path(os.environ.get("OCTET_SOURCE_DIR", pathlib.Path(__file__).resolve().parent.parent))
BINARY = os.environ.get("OCTET_BINARY", str(SOURCE / "build" / "octet"))
SANITIZED = "OCTET_SANITIZED" in os.environ
ISAS = ("scalar", "avx2", "avxvnni", "avx512", "avx512vbmi", "avx512vnni", "amx")
SOME_ISAS = ("scalar", "avx2", "avx512vnni") if SANITIZED else ISAS  # where each takes long
MNIST = SOURCE / "examples" / "mnist"
IMAGES, LABELS = MNIST / "t10k-images-idx3-ubyte.gz", MNIST / "t10k-labels-idx1-ubyte.gz"
TRAIN = MNIST / "train10k-images-idx3-ubyte.gz"
if not os.path.exists(BINARY):
    print("skipped: OCTET_BINARY names no program")
    sys.exit(77)
_work = tempfile.TemporaryDirectory(prefix="octet-")
TEMP = pathlib.Path(_work.name)


def start(*arguments, environment=None, **more):
    """Runs the program; returns the finished process whatever its status. `environment`: variables to set, or with None to leave out."""
    variables = {name: value for name, value in {**os.environ, **(environment or {})}.items() if value is not None}
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, errors="replace", timeout=600, env=variables, **more)


def _limits(memory, seconds, file_size):
    def apply():
        import resource
        import signal
        if not SANITIZED:  # a sanitizer's shadow takes terabytes of address space
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if file_size is not None:  # as if the disk were full
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
    return apply


def limited(*arguments, memory=1 << 30, seconds=30, file_size=None):
    """start() with at most so many bytes of memory, seconds of CPU, bytes in a file."""
    return start(*arguments, preexec_fn=_limits(memory, seconds * (10 if SANITIZED else 1), file_size))


def octet(*arguments, **more):
    """What the program prints; it must succeed."""
    done = start(*arguments, **more)
    if done.returncode != 0:
        raise AssertionError(f"octet {' '.join(map(str, arguments))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
