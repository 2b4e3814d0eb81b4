#!/usr/bin/env python3
"""Writes tests/data/npy (by numpy) and tests/data/images (by Pillow, with the pixels that Pillow decodes and resizes).

Needs numpy and Pillow 10 or later. The files are committed; run it only to add cases.
SPDX-License-Identifier: MIT
"""
import io
import pathlib
import struct
import zlib

import numpy as np
from PIL import Image

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data"


def npy_cases(folder):
    folder.mkdir(parents=True, exist_ok=True)
    grid = np.arange(24).reshape(2, 3, 4)
    np.save(folder / "f32.npy", grid.astype("<f4") / 8)
    np.save(folder / "f64_big.npy", grid.astype(">f8") / 8)
    np.save(folder / "i16_big_fortran.npy", np.asfortranarray(grid.astype(">i2") - 5))
    np.save(folder / "u8_fortran.npy", np.asfortranarray(grid.astype("u1")))
    np.save(folder / "bool.npy", np.array([True, False, True]))
    np.save(folder / "f16.npy", np.array([0.5, 65504, -2], "<f2"))
    np.save(folder / "i64.npy", np.array([-2**63, 2**63 - 1], "<i8"))
    np.save(folder / "u64.npy", np.array([2**64 - 1], "<u8"))
    np.save(folder / "scalar.npy", np.float32(0.25))
    np.save(folder / "empty.npy", np.zeros((0, 3), "<f4"))
    for version in (2, 3):
        with open(folder / f"version{version}.npy", "wb") as file:
            np.lib.format.write_array(file, np.array([7], "<i4"), (version, 0))
    np.save(folder / "bad_object.npy", np.array([1, "a"], object), allow_pickle=True)
    np.save(folder / "bad_record.npy", np.zeros(2, [("a", "<f4"), ("b", "<i4")]))
    np.save(folder / "bad_complex.npy", np.zeros(2, "<c8"))
    np.save(folder / "bad_text.npy", np.array(["a", "bc"]))
    np.save(folder / "bad_nine.npy", np.zeros([1] * 9, "<f4"))
    np.savez(folder / "stored.npz", a=grid.astype("<f4"), b=np.array([1, 2, 3], "i1"))
    np.savez_compressed(folder / "deflated.npz", a=grid.astype("<f4"), b=np.array([1, 2, 3], "i1"))


def picture(height, width):
    y, x = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(7).integers(0, 60, (height, width, 3))
    smooth = np.stack([x * 255 // (width - 1), y * 255 // (height - 1), (x * 37 + y * 91) % 256], -1)
    return np.clip(smooth + noise - 30, 0, 255).astype("u1")


def png16(path, values):
    """16-bit grey, which Pillow does not write as such."""
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", values.shape[1], values.shape[0], 16, 0, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def image_cases(folder):
    folder.mkdir(parents=True, exist_ok=True)
    colour = Image.fromarray(picture(13, 17))
    alpha = colour.convert("RGBA")
    alpha.putalpha(Image.fromarray(np.arange(13 * 17, dtype="u1").reshape(13, 17)))
    files = {"rgb.png": colour, "grey.png": colour.convert("L"), "palette.png": colour.quantize(16),
             "bilevel.png": colour.convert("1"), "alpha.png": alpha}
    for name, image in files.items():
        image.save(folder / name, optimize=True)
    colour.save(folder / "rgb.jpg", quality=90)
    colour.save(folder / "progressive.jpg", quality=80, progressive=True)
    colour.convert("L").save(folder / "grey.jpg")
    colour.convert("CMYK").save(folder / "bad_cmyk.jpg")
    png16(folder / "deep.png", np.array([[0, 257, 65535], [128 * 257, 32767, 300]]))
    for path in sorted(folder.glob("*.png")) + sorted(folder.glob("*.jpg")):
        if path.stem not in ("deep", "bad_cmyk"):
            decoded = Image.open(path)
            pixels = decoded if decoded.mode == "RGBA" else decoded.convert("RGB")
            np.save(path.with_suffix(path.suffix + ".npy"), np.asarray(pixels)[:, :, :3])
    for height, width in ((5, 7), (29, 40), (13, 8), (1, 1)):
        np.save(folder / f"resized_{height}x{width}.npy", np.asarray(colour.resize((width, height), Image.BILINEAR)))


if __name__ == "__main__":
    npy_cases(DATA / "npy")
    image_cases(DATA / "images")
