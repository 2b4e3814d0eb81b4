/* The functions of a row of exact Winograd convolution, from `isa` and `worth`, which the including file defines.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_WINOGRAD_ROW_TILE_H
#define OCT_KERNELS_CONV_I8_WINOGRAD_ROW_TILE_H

#include "kernels/conv_i8_winograd_pack.h"
#include "kernels/conv_i8_winograd_run.h"

static const char *reject(const oct_conv_shape *s) { return oct_winograd_reject_sizes(s, &worth); }
static size_t packed_bytes(const oct_conv_shape *s) { return oct_winograd_packed_bytes(s, &isa); }
static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) { oct_winograd_pack(s, &isa, weights, packed); }
static size_t workspace_bytes(const oct_conv_shape *s) { return oct_winograd_workspace_bytes(s, &isa); }
static size_t units(const oct_conv_shape *s) { return oct_winograd_units(s, &isa); }
static void run(const oct_conv_i8_args *args, size_t begin, size_t end, void *workspace) {
  oct_winograd_run(args, &isa, begin, end, workspace);
}

#endif
