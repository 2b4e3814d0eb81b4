/* The sliding window of convolutions and pools: kernel, stride, dilation and padding per spatial axis, from a node's ONNX attributes.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_WINDOW_H
#define OCT_OPS_WINDOW_H

#include "ops/op.h"

#define OCT_WINDOW_MAX (OCT_MAX_RANK - 2)

typedef struct oct_window {
  int rank;                                        /* spatial axes */
  int64_t in[OCT_WINDOW_MAX], out[OCT_WINDOW_MAX]; /* OCT_DIM_UNKNOWN where not known yet */
  int64_t kernel[OCT_WINDOW_MAX], stride[OCT_WINDOW_MAX], dilation[OCT_WINDOW_MAX];
  int64_t before[OCT_WINDOW_MAX], after[OCT_WINDOW_MAX]; /* padding; 0 where auto_pad and the size is unknown */
} oct_window;

/* Attribute rows that every window operator has. */
#define OCT_WINDOW_ATTRIBUTES                                                                                                \
  {"auto_pad", OCT_ATTRIBUTE_STRING, false, "NOTSET", 0, 0, "NOTSET, SAME_UPPER, SAME_LOWER or VALID"},                      \
      {"dilations", OCT_ATTRIBUTE_INTS, false, "", 1, INT32_MAX, "distance of kernel elements per spatial axis, default 1"}, \
      {"pads", OCT_ATTRIBUTE_INTS, false, "", 0, INT32_MAX, "begin of each spatial axis, then end of each, default 0"}, {    \
    "strides", OCT_ATTRIBUTE_INTS, false, "", 1, INT32_MAX, "step per spatial axis, default 1"                               \
  }

typedef enum oct_auto_pad { OCT_PAD_EXPLICIT, OCT_PAD_VALID, OCT_PAD_SAME_UPPER, OCT_PAD_SAME_LOWER } oct_auto_pad;

/* What the attributes say, sizes checked; `out` stays unknown and, with auto_pad, the padding 0. Returns as oct_window_make(). */
const char *oct_window_read(const oct_node *node, const oct_shape *in, const int64_t *kernel, oct_window *window, oct_auto_pad *pad,
                            int *axis);

/* Fills the window of `node` for input shape `in` ([N,C,spatial...]) and kernel sizes (one per spatial axis, may hold unknown dims).
 * Returns NULL, or the broken rule in words with the spatial axis (or -1) in *axis. */
const char *oct_window_make(const oct_node *node, const oct_shape *in, const int64_t *kernel, bool ceil_mode, oct_window *window,
                            int *axis);

/* The same for infer(): a broken rule is a failure that names axis and sizes. */
octet_status oct_window_infer(octet_context *ctx, const oct_node *node, const oct_shape *in, const int64_t *kernel, bool ceil_mode,
                              oct_window *window);

/* Kernel sizes from the attribute kernel_shape (pools): copies up to OCT_WINDOW_MAX, returns the count given. */
int oct_window_kernel_attribute(const oct_node *node, int64_t kernel[OCT_WINDOW_MAX]);

/* The same for convolutions: sizes are those of the weights [.,.,kernel...] (NULL: unknown), which the attribute must agree with. */
octet_status oct_window_kernel(octet_context *ctx, const oct_node *node, const oct_shape *weights, int rank,
                               int64_t kernel[OCT_WINDOW_MAX]);

/* Elements in the kernel and in the output of one channel; every dim must be known. */
int64_t oct_window_taps(const oct_window *window);
int64_t oct_window_positions(const oct_window *window);

/* Offset (elements, within one channel) of the input element that kernel element `tap` meets at output `position`, both row-major; -1: padding.
 * *padded (or NULL) tells whether the element lies inside the padded image. */
int64_t oct_window_offset(const oct_window *window, int64_t position, int64_t tap, bool *padded);

/* true when some output position meets no input element at all. */
bool oct_window_has_empty(const oct_window *window);

/* The window as a kernel's problem; `in` is [N,C,L] or [N,C,H,W]. Rank-3 windows become height 1. false when a size is beyond the kernels' int. */
bool oct_window_conv_shape(const oct_window *window, const oct_shape *in, int64_t out_channels, int64_t groups, oct_conv_shape *shape);

#endif
