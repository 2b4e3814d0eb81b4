/* What the files behind model.h share.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_MODEL_PARTS_H
#define OCT_FORMATS_MODEL_PARTS_H

#include "formats/model.h"

/* Applies the activation parameters of a quantized state dict of PyTorch, whose weights are on the graph already: see model.h for the
 * rules. */
octet_status oct_apply_torch_activations(octet_context *ctx, oct_graph *graph, const oct_bundle *state);
/* true for tensors of such a dict that no constant of a graph takes: scales, zero points, observers' counters. */
bool oct_is_torch_state(const char *name);

#endif
