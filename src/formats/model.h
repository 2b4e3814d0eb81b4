/* Models in files, by suffix: .onnx, and .oct with a weights file (.pth, .pt, .th, .bin, .npz, .npy) beside it; and checkpoints put onto
 * graphs. The containers are read by onnx.h, torch.h and npy.h, the text by ir/text.h.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_MODEL_H
#define OCT_FORMATS_MODEL_H

#include "ir/graph.h"

struct oct_onnx_options;

/* Reads a model. `weights_path` (or NULL): a checkpoint whose tensors replace the constants of the same names; for .oct it also stands in
 * for a weights file that is not there. What does not match on either side becomes warnings. The file's own quantization parameters are
 * kept; a PyTorch quantized state dict makes the graph a quantized one (see oct_model_apply_weights()). */
octet_status oct_model_read(octet_context *ctx, const char *path, const char *weights_path, oct_graph **out);
/* Same, with options for .onnx (may be NULL). */
octet_status oct_model_read_with(octet_context *ctx, const char *path, const char *weights_path, const struct oct_onnx_options *options,
                                 oct_graph **out);

/* Writes .onnx, or .oct with its arrays in an .npz of the same name beside it (only if it has any). Each file is written whole or not at
 * all. */
octet_status oct_model_write(octet_context *ctx, const oct_graph *graph, const char *path);

/* Every tensor of a weights file, by suffix or content. A .npy holds one array, named after the file without its suffix. */
octet_status oct_weights_read(octet_context *ctx, const char *path, oct_bundle *out);

typedef struct oct_weights_report {
  size_t matched;         /* constants that took their tensor from the checkpoint */
  size_t graph_only;      /* constants of more than 16 elements that the checkpoint does not hold */
  size_t checkpoint_only; /* tensors that the graph does not hold */
  size_t misfits;         /* of equal name, but of other shape or type: left alone */
} oct_weights_report;

/* Puts checkpoint tensors onto constants of the same name (the shape must fit; float types convert, quantized tensors make quantized
 * constants), and lists what did not match as warnings. Fails (OCTET_DATA) when nothing matched. `report` may be NULL. Then, if the
 * checkpoint is a quantized state dict of PyTorch, applies its activation parameters:
 *
 * - M.weight is quantized: its constant is.
 * - M.scale and M.zero_point (quint8) belong to the output of module M: the value that the node using M.weight makes, after the ReLU or
 *   Clip that alone follows it, if one does (PyTorch fuses them, and its fused module has one output).
 * - NAME.scale and NAME.zero_point without NAME.weight belong to the input (QuantStub); without any, the input is rounded with scale 1
 *   and zero point 0, and a warning says so, unless the input has parameters already.
 * - M.bias becomes int32 with scale input scale * weight scale, as PyTorch does when it runs.
 * - Operators whose output has its input's parameters (pooling, reshape, ...) pass them on. */
octet_status oct_model_apply_weights(octet_context *ctx, oct_graph *graph, const oct_bundle *bundle, oct_weights_report *report);
/* The last step alone, for constants that are quantized already: does nothing when the bundle is no quantized state dict. */
octet_status oct_model_apply_quantized_state(octet_context *ctx, oct_graph *graph, const oct_bundle *bundle);

#endif
