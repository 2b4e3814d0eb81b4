"""PyTorch's form of an ONNX model: in float as onnx2torch reads it, and in 8 bits by PyTorch's own quantization of graphs.

Takes part where torch and onnx2torch are installed; `./dev versus` does not install them. SPDX-License-Identifier: MIT
"""
import os
import warnings

import numpy as np

ENGINE = "onednn"  # the default for x86 takes twice as long for ResNet18, and ten times for EfficientNet-Lite0 with its depthwise 5x5
# onnx2torch's modules that quantization looks into; others (slices, reshapes to computed shapes) stay as they are, in float
TRACED = ("OnnxGlobalAveragePool", "OnnxTranspose", "OnnxPadStatic")


def as_module(model):
    import onnx
    import onnx2torch
    return onnx2torch.convert(onnx.load(os.fspath(model))).eval()


def left_whole(module):
    """Names of the modules that are not looked into."""
    import torch
    return [name for name, m in module.named_modules() if type(m).__module__.startswith("onnx2torch")
            and not type(m).__name__.startswith(TRACED) and getattr(m, "math_op_function", None) is not torch.add]


def quantized(module, images):
    """Scales from `images`, one by one."""
    import torch
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.fx.custom_config import PrepareCustomConfig
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
    torch.backends.quantized.engine = ENGINE
    custom = PrepareCustomConfig().set_non_traceable_module_names(left_whole(module))
    prepared = prepare_fx(module, get_default_qconfig_mapping(ENGINE), example_inputs=(images[:1],), prepare_custom_config=custom)
    for image in images:
        prepared(image[None])
    return convert_fx(prepared)


def call(model, array, threads, calibration=None):
    """The int8 form where calibration images are given. Channels last, traced, constants folded in."""
    import torch
    layout = torch.channels_last if array.ndim == 4 else torch.contiguous_format
    x = torch.from_numpy(np.ascontiguousarray(array)).contiguous(memory_format=layout)
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        torch.set_num_threads(threads)
        module = as_module(model)
        if calibration is not None:
            module = quantized(module, torch.from_numpy(calibration))
        module = torch.jit.freeze(torch.jit.trace(module.to(memory_format=layout), x, check_trace=False))

    def run():
        if torch.get_num_threads() != threads:  # one number for the whole process
            torch.set_num_threads(threads)
        with torch.inference_mode():
            return module(x)
    return run
