/* Transposed convolution: its sizes, and its outputs cut into phases, each of which is an ordinary convolution.
 * conv_transpose.c is the operator, conv_transpose_phase.c the arithmetic, conv_transpose_lower.c the steps.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_CONV_TRANSPOSE_H
#define OCT_OPS_CONV_TRANSPOSE_H

#include "ops/window.h"

/* `window`: in is the input, out the (larger) output; kernel element k meets output i * stride - before + k * dilation for input i.
 * Returns NULL, or the broken rule in words with the spatial axis (or -1) in *axis. */
const char *oct_transpose_window(const oct_node *node, const oct_shape *in, const int64_t *kernel, oct_window *window, int *axis);

/* The outputs first, first + stride, ... of one axis. Output first + t * stride is the sum over elements j of a convolution kernel of
 * `taps` elements: input t + offset + j * dilation times kernel element tap + j * tap_step (tap_step is negative). */
typedef struct oct_transpose_phase {
  int64_t first, count; /* outputs */
  int64_t taps;         /* may be 0: these outputs are the bias alone */
  int64_t offset, dilation, tap, tap_step;
} oct_transpose_phase;

/* Phase `first` (0 .. stride - 1) of spatial axis `axis`; every dim is known. */
oct_transpose_phase oct_transpose_phase_of(const oct_window *window, int axis, int64_t first);

octet_status oct_transpose_lower(oct_lowering *l, oct_node *node);
void oct_transpose_border(const oct_node *node, int border[4]);

#endif
