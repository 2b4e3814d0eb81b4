#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets for weight and data containers and tuning logs: fuzz/corpus/{pth,npz,idx,image,tune}.

Needs numpy. Seeds are small on purpose: mutation reaches more in small inputs.
SPDX-License-Identifier: MIT
"""
import gzip
import io
import json
import pathlib
import shutil
import struct
import zipfile

import numpy as np

import torch_files

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPUS = ROOT / "fuzz" / "corpus"


def pth(folder):
    small = lambda: torch_files.one(torch_files.tensor(torch_files.storage("FloatStorage", "f", [1, 2, 3, 4]), [2, 2], [1, 2]))
    torch_files.save_zip(folder / "zip", small())
    torch_files.save_zip(folder / "zip_deflated", small(), deflate=True, protocol=4)
    torch_files.save_zip(folder / "zip_views", torch_files.views())
    torch_files.save_zip(folder / "zip_quantized", torch_files.quantized_model())
    torch_files.save_legacy(folder / "legacy", small())
    torch_files.save_legacy(folder / "legacy_types", torch_files.all_types())
    torch_files.save_legacy(folder / "legacy_checkpoint", torch_files.checkpoint())
    for name, content in torch_files.bad_files().items():
        if len(content) < 1000 and (name.startswith(("calls", "module", "self", "memo")) or name in ("beyond", "expanded")):
            (folder / f"legacy_{name}").write_bytes(content)


def npy_bytes(array, version=(1, 0)):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    return file.getvalue()


def npz(folder):
    (folder / "f32").write_bytes(npy_bytes(np.arange(6, dtype="<f4").reshape(2, 3)))
    (folder / "big_fortran").write_bytes(npy_bytes(np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3)), (2, 0)))
    for name, method in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        with zipfile.ZipFile(folder / name, "w", method) as archive:
            for entry in ("a.npy", "b.npy"):
                archive.writestr(zipfile.ZipInfo(entry), npy_bytes(np.arange(3, dtype="u1")), method)


def idx_bytes(code, dtype, array):
    head = struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape)
    return head + array.astype(dtype).tobytes()


def idx(folder):
    images = idx_bytes(8, "u1", np.arange(24).reshape(2, 3, 4))
    (folder / "u8").write_bytes(images)
    (folder / "f32").write_bytes(idx_bytes(0x0D, ">f4", np.arange(4)))
    (folder / "i16").write_bytes(idx_bytes(0x0B, ">i2", np.arange(4).reshape(2, 2)))
    (folder / "u8_gz").write_bytes(gzip.compress(images, mtime=0))
    (folder / "members_gz").write_bytes(gzip.compress(images[:9], mtime=0) + gzip.compress(images[9:], mtime=0))


def image(folder):
    for path in (ROOT / "tests" / "data" / "images").glob("*.*g"):
        shutil.copyfile(path, folder / path.name)


def tune(folder):
    """Logs with the part of the processor that the target asks for, one with another's, and such whose parts are of another kind."""
    layer = {"chosen": "conv_i8_direct_3x32__avx2", "ms": {"conv_i8_direct_3x32__avx2": 0.5, "conv_i8_direct__scalar": 1e9}}
    chunk = {"chosen": "8", "ms": {"1": 7.25, "8": 6}}
    whole = {"layers": {"layer": layer}, "chunks": {"model": chunk}}
    processors = {
        "whole": {"a processor, avx2, 1": whole, "another": {"layers": {}}},
        "another": {"another": whole},
        "kinds": {"a processor, avx2, 1": {"layers": [], "chunks": {"model": {"chosen": 8, "ms": None}}}},
        "values": {"a processor, avx2, 1": {"layers": {"layer": {"chosen": "", "ms": {"": -1.5e300}}}, "chunks": {"model": {"chosen": "-9"}}}},
    }
    for name, content in processors.items():
        (folder / name).write_text(json.dumps({"octet_tune_log": 1, "processors": content}, indent=1))
    (folder / "settings").write_text('{"my": "settings"}')


if __name__ == "__main__":
    for make in (pth, npz, idx, image, tune):
        target = CORPUS / make.__name__
        target.mkdir(parents=True, exist_ok=True)
        make(target)
