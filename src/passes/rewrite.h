/* What passes share: collecting replacements of values during one sweep over the nodes, float constants, and per-channel changes of an
 * accumulating node's weights and bias.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_PASSES_REWRITE_H
#define OCT_PASSES_REWRITE_H

#include "passes/pass.h"

/* One sweep: uses are those at its beginning; replacements take effect at its end. */
typedef struct oct_rewrite {
  octet_context *ctx;
  oct_graph *graph;
  oct_uses uses;
  size_t n_values; /* at the beginning; values made during the sweep have higher ids */
  oct_value **to;  /* by id: the replacement, or NULL */
  bool *is_output; /* by id: it is, or has become, a graph output */
  bool *touched;   /* by id: its uses have changed since the beginning */
  bool changed;
} oct_rewrite;

octet_status oct_rewrite_begin(octet_context *ctx, oct_graph *graph, oct_rewrite *rw);
/* Applies the replacements, prunes, frees; *changed becomes true if anything was replaced or `rw->changed` was set. Call it after a
 * failure too: returns `status` then. */
octet_status oct_rewrite_end(oct_rewrite *rw, octet_status status, bool *changed);

/* What the value has become so far. */
oct_value *oct_rewrite_now(const oct_rewrite *rw, oct_value *value);
/* false when `from` is a graph output whose name `to` cannot take over (an input, a constant, or an output itself). */
bool oct_rewrite_can_replace(const oct_rewrite *rw, const oct_value *from, const oct_value *to);
/* Every use of `from` shall become `to`; a graph output keeps its name. */
octet_status oct_rewrite_replace(oct_rewrite *rw, oct_value *from, oct_value *to);

static inline bool oct_rewrite_is_old(const oct_rewrite *rw, const oct_value *v) {
  return v->id >= 0 && (size_t)v->id < rw->n_values && rw->graph->values[v->id] == v;
}
/* The only user of `v`, which is no graph output and whose uses have not changed in this sweep; else NULL. */
oct_node *oct_rewrite_only_user(const oct_rewrite *rw, const oct_value *v);

/* The float numbers behind a value: an f32 constant without quantization, or a cast of an f16/bf16 constant to f32. NULL: no such. */
const oct_tensor *oct_float_constant(const oct_value *v);
/* A constant's numbers as one per channel of `axis` (of a value of shape `out`), by numpy's broadcasting: 1 if it has one for all,
 * dim[axis] if it has one per channel, 0 if it is neither. */
int64_t oct_per_channel(const oct_tensor *tensor, const oct_shape *out, int axis);

/* The channel axis of an accumulating node's output: 1 for images, the last for matrices; -1 when the shape is not known. */
int oct_channel_axis(const oct_node *node);
/* true when weights and bias of the node are float constants that can be changed per output channel, and nothing rounds its output;
 * *channels = their count. */
bool oct_affine_target(const oct_node *node, int64_t *channels);
/* Makes the node compute factor[c] * y + shift[c] instead of y, in double, rounded once to f32: new weight and bias constants (weights
 * and biases that other nodes use are left to them). `factor` NULL: 1; `shift` NULL: 0. A matmul that gets a bias becomes a gemm. */
octet_status oct_fold_affine(oct_rewrite *rw, oct_node *node, int64_t channels, const double *factor, const double *shift);

#endif
