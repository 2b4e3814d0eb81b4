#!/usr/bin/env python3
"""Writes PyTorch checkpoints without PyTorch, for tests and fuzzing.

Follows torch/serialization.py: tensors are pickled as calls of torch._utils functions whose storages are persistent ids;
the zip form keeps storages as entries, the legacy form appends them. Run it to write tests/data/torch.
SPDX-License-Identifier: MIT
"""
import collections
import io
import pathlib
import pickle
import struct
import sys
import types
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAGIC = 0x1950A86A20F9469CFC6C


def stand_in(module, name, is_class=False):
    """A global that pickles as `module.name`, although no such module is installed."""
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        path = ".".join(parts[:depth])
        sys.modules.setdefault(path, types.ModuleType(path))
    if hasattr(sys.modules[module], name):
        return getattr(sys.modules[module], name)
    if is_class:
        made = type(name, (), {})
    else:
        def made(*arguments):
            raise RuntimeError("only written, never called")
    made.__module__, made.__qualname__, made.__name__ = module, name, name
    setattr(sys.modules[module], name, made)
    return made


def rebuild(name):
    return stand_in("torch._utils", name)


class Storage:
    def __init__(self, type_name, data, count, key):
        module, _, name = ("torch." + type_name).rpartition(".")
        self.type = stand_in(module, name, True)
        self.data, self.count, self.key = data, count, key


class Call:
    """Pickles as function(*arguments)."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


class Pickler(pickle._Pickler):
    def __init__(self, file, protocol, legacy):
        super().__init__(file, protocol)
        self.legacy, self.storages = legacy, {}

    def persistent_id(self, value):
        if not isinstance(value, Storage):
            return None
        self.storages[value.key] = value
        plain = ("storage", value.type, value.key, "cpu", value.count)
        return plain + (None,) if self.legacy else plain


def dump(value, protocol=2, legacy=False):
    file = io.BytesIO()
    pickler = Pickler(file, protocol, legacy)
    pickler.dump(value)
    return file.getvalue(), pickler.storages


def save_zip(path, value, deflate=False, big=False, protocol=2):
    data, storages = dump(value, protocol)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED) as archive:
        def put(name, content):
            archive.writestr(zipfile.ZipInfo("archive/" + name), content, archive.compression)
        put("data.pkl", data)
        put("byteorder", b"big" if big else b"little")
        for key, storage in storages.items():
            put("data/" + key, storage.data)
        put("version", b"3\n")


def legacy_bytes(data, storages, little=True):
    order = "<" if little else ">"
    info = {"protocol_version": 1001, "little_endian": little, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    head = b"".join(pickle.dumps(part, 2) for part in (MAGIC, 1001, info))
    keys = sorted(storages)
    tail = b"".join(struct.pack(order + "q", storages[key].count) + storages[key].data for key in keys)
    return head + data + pickle.dumps(keys, 2) + tail


def save_legacy(path, value, little=True):
    data, storages = dump(value, 2, True)
    path.write_bytes(legacy_bytes(data, storages, little))


counter = iter(range(1000000))


def storage(type_name, code, values, order="<", key=None):
    """`code` is a struct code; values are numbers."""
    return Storage(type_name, struct.pack(f"{order}{len(values)}{code}", *values), len(values), key or str(next(counter)))


def row_major(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def tensor(store, shape, strides=None, offset=0):
    strides = tuple(strides or row_major(shape))
    return Call(rebuild("_rebuild_tensor_v2"), store, offset, tuple(shape), strides, False, collections.OrderedDict())


def quantized(store, shape, quantizer, strides=None):
    return Call(rebuild("_rebuild_qtensor"), store, 0, tuple(shape), strides or row_major(shape), quantizer, False, collections.OrderedDict())


def bfloat16(values):
    return [struct.unpack("<I", struct.pack("<f", value))[0] >> 16 for value in values]


def all_types():
    return collections.OrderedDict([
        ("f32", tensor(storage("FloatStorage", "f", [0.5, -1.25, 3e38]), [3])),
        ("f64", tensor(storage("DoubleStorage", "d", [0.1, -2]), [2])),
        ("f16", tensor(storage("HalfStorage", "e", [0.5, 65504]), [2])),
        ("bf16", tensor(storage("BFloat16Storage", "H", bfloat16([1.5, -3])), [2])),
        ("i8", tensor(storage("CharStorage", "b", [-128, 127]), [2])),
        ("u8", tensor(storage("ByteStorage", "B", [0, 255]), [2])),
        ("i16", tensor(storage("ShortStorage", "h", [-32768, 32767]), [2])),
        ("i32", tensor(storage("IntStorage", "i", [-2**31, 2**31 - 1]), [2])),
        ("i64", tensor(storage("LongStorage", "q", [-2**63, 2**63 - 1]), [2])),
        ("bool", tensor(storage("BoolStorage", "?", [True, False]), [2])),
        ("scalar", tensor(storage("LongStorage", "q", [7]), [])),
        ("empty", tensor(storage("FloatStorage", "f", []), [0, 3])),
    ])


def views():
    shared = storage("FloatStorage", "f", list(range(12)))
    untyped = Storage("storage.UntypedStorage", struct.pack("<4h", 1, 2, 3, 4), 8, str(next(counter)))
    return {
        "whole": tensor(shared, [3, 4]),
        "transposed": tensor(shared, [4, 3], [1, 4]),
        "columns": tensor(shared, [3, 2], [4, 1], 2),
        "every_second": tensor(shared, [6], [2]),
        "repeated": tensor(shared, [2, 3], [0, 1], 4),
        "parameter": Call(rebuild("_rebuild_parameter"), tensor(shared, [2], [1], 3), True, collections.OrderedDict()),
        "old": Call(rebuild("_rebuild_tensor"), shared, 1, (2,), (1,)),
        "untyped": Call(rebuild("_rebuild_tensor_v3"), untyped, 1, (3,), (1,), False, collections.OrderedDict(),
                        stand_in("torch", "int16")),
    }


def quantized_model():
    affine, channels = stand_in("torch", "per_tensor_affine"), stand_in("torch", "per_channel_affine")
    scales = tensor(storage("DoubleStorage", "d", [0.5, 0.25]), [2])
    zeros = tensor(storage("LongStorage", "q", [0, -3]), [2])
    weight = quantized(storage("QInt8Storage", "b", [1, -2, 3, -4, 5, -6]), [2, 3], (channels, scales, zeros, 0))
    bias = tensor(storage("FloatStorage", "f", [1, 2]), [2])
    return collections.OrderedDict([
        ("conv.weight", quantized(storage("QUInt8Storage", "B", [0, 128, 255]), [3], (affine, 0.125, 128))),
        ("conv.scale", tensor(storage("FloatStorage", "f", [0.0625]), [])),
        ("listed.weight", quantized(storage("QInt8Storage", "b", [1, 2, 3, 4]), [2, 2], (channels, [0.1, 0.2], [0, 0], 1), (1, 2))),
        ("wide", quantized(storage("QInt32Storage", "i", [100000]), [1], (affine, 1e-3, 0))),
        ("fc._packed_params._packed_params", (weight, bias)),
        ("fc._packed_params.dtype", stand_in("torch", "qint8")),
    ])


def checkpoint():
    """What training scripts save: wrapped, with optimizer state, and trained with DataParallel."""
    weights = collections.OrderedDict([("module.fc.weight", tensor(storage("FloatStorage", "f", [1, 2, 3, 4]), [2, 2])),
                                       ("module.fc.bias", tensor(storage("FloatStorage", "f", [5, 6]), [2]))])
    moments = tensor(storage("FloatStorage", "f", [9, 9]), [2])
    state = {"state": {0: {"step": 3, "exp_avg": moments}}, "param_groups": [{"lr": 0.1, "params": [0]}]}
    return {"epoch": 12, "best": 91.78, "arch": "net", "optimizer": state, "state_dict": weights}


def raw_legacy(pickled, storages=None):
    return legacy_bytes(pickled, storages or {})


def one(call):
    return collections.OrderedDict(w=call)


def bad_files():
    """name -> bytes of a legacy file that must be refused."""
    small = lambda: storage("FloatStorage", "f", [1, 2, 3, 4])
    def legacy(value):
        data, storages = dump(value, 2, True)
        return legacy_bytes(data, storages)
    affine, channels = stand_in("torch", "per_tensor_affine"), stand_in("torch", "per_channel_affine")
    marker = b"\x80\x02"
    mention = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0kX\x03\0\0\0cpuK\x04Nt"
    files = {
        "calls_system": raw_legacy(marker + b"cos\nsystem\nX\x04\0\0\0true\x85R."),
        "calls_eval_stack_global": raw_legacy(b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R."),
        "names_system": raw_legacy(marker + b"}X\x01\0\0\0acos\nsystem\ns."),
        "calls_in_inst": raw_legacy(b"(S'true'\nios\nsystem\n."),
        "beyond": legacy(one(tensor(small(), [2, 3]))),
        "offset_beyond": legacy(one(tensor(small(), [1], [1], 4))),
        "negative_size": legacy(one(tensor(small(), [-1], [1]))),
        "negative_stride": legacy(one(tensor(small(), [2], [-1], 3))),
        "overflow": legacy(one(tensor(small(), [2**62, 2**62], [0, 0]))),
        "stride_overflow": legacy(one(tensor(small(), [3], [2**62]))),
        "expanded": legacy(one(tensor(small(), [2**20, 2**20], [0, 0]))),
        "nine_dimensions": legacy(one(tensor(small(), [1] * 9))),
        "complex": legacy(one(tensor(Storage("ComplexFloatStorage", bytes(8), 1, "z"), [1]))),
        "sparse": legacy(one(Call(rebuild("_rebuild_sparse_tensor"), 0, (1,)))),
        "zero_scale": legacy(one(quantized(storage("QInt8Storage", "b", [1]), [1], (affine, 0.0, 0)))),
        "scale_count": legacy(one(quantized(storage("QInt8Storage", "b", [1, 2]), [2], (channels, [0.5], [0], 0)))),
        "no_tensors": legacy({"epoch": 3}),
        "no_such_storage": raw_legacy(marker + b"}X\x01\0\0\0wctorch._utils\n_rebuild_tensor\n(" + mention + b"QK\0))tRs."),
        "module_legacy": raw_legacy(marker + b"(X\x06\0\0\0modulecmymodel\nNet\nX\0\0\0\0X\0\0\0\0tQ)\x81}b."),
        "module": raw_legacy(marker + b"cmymodel\nNet\n)\x81}b."),
        "self_reference": raw_legacy(marker + b"]q\0h\0a."),
        "deep": raw_legacy(marker + b"]" * 200 + b"a" * 199 + b"."),
        "marks": raw_legacy(marker + b"(" * 5000 + b"."),
        "doubling": raw_legacy(marker + b"]q\0" + b"".join(b"]q%c(h%ch%ce" % (i + 1, i, i) for i in range(40)) + b"."),
        "memo": raw_legacy(marker + b"Nr\xff\xff\xff\x7f."),
        "underflow": raw_legacy(marker + b"R."),
        "copies": raw_legacy(marker + b"}q\0(" + b"K\1N" * 500 + b"u" + b"ccollections\nOrderedDict\nq\1" + b"h\1h\0\x85R0" * 500 + b"."),
        "opcode": raw_legacy(marker + b"\xff."),
        "same_name": legacy({"a": {"b": tensor(small(), [4])}, "a.b": tensor(small(), [4])}),
    }
    data, storages = dump(one(tensor(small(), [4])), 2, True)
    whole = legacy_bytes(data, storages)
    files["cut_off"] = whole[:-3]
    files["count_overflow"] = whole.replace(struct.pack("<q", 4), struct.pack("<q", 2**62))
    return files


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    save_zip(folder / "types.pth", all_types())
    save_zip(folder / "types_deflated.pth", all_types(), deflate=True, protocol=4)
    save_legacy(folder / "types_legacy.pth", all_types())
    save_zip(folder / "big_endian.pth", one(tensor(storage("FloatStorage", "f", [0.5, -1.25], ">"), [2])), big=True)
    save_legacy(folder / "big_endian_legacy.pth", one(tensor(storage("ShortStorage", "h", [258, -2], ">"), [2])), little=False)
    save_zip(folder / "views.pth", views())
    save_zip(folder / "quantized.pth", quantized_model())
    save_legacy(folder / "quantized_legacy.pth", quantized_model())
    save_zip(folder / "checkpoint.pth", checkpoint())
    for name, content in bad_files().items():
        (folder / f"bad_{name}.pth").write_bytes(content)
    with zipfile.ZipFile(folder / "bad_torchscript.pth", "w") as archive:
        archive.writestr(zipfile.ZipInfo("net/data.pkl"), b"\x80\x02N.")
        archive.writestr(zipfile.ZipInfo("net/code/__torch__.py"), b"pass")


if __name__ == "__main__":
    main(ROOT / "tests" / "data" / "torch")
