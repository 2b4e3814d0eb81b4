/* Where a pooling window lies, for every variant. Windows are clipped to the image; average pooling with include_pad divides by
 * the window clipped to the padded image.
 *
 * Rules all variants follow, so that their bits agree:
 *  - float maximum: m = m > x ? m : x from -infinity, in row-major order. As in ONNX Runtime a NaN is forgotten unless it comes last.
 *  - float average: each row of the window is summed from the left, starting from 0; row sums are added from the top, starting
 *    from 0; the sum is divided by float(count).
 *  - a window that misses the image altogether gives 0 (8-bit maximum), -infinity (float maximum), the zero point or 0 (averages).
 *  - 8-bit sums wrap at 2^32: exact for windows below 8 million pixels.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_VECTOR_POOL_H
#define OCT_KERNELS_VECTOR_POOL_H

#include "kernels/kernels.h"

/* The taps [first, first + taps) of one axis that hit the image; `counted` is the divisor's share. */
typedef struct oct_pool_span {
  int64_t start, taps, counted; /* start: image coordinate of the first tap that hits */
} oct_pool_span;

/* Taps i in [0, kernel) with start + i * dilation in [0, size). */
static inline oct_pool_span oct_pool_span_make(int64_t start, int kernel, int dilation, int64_t size, int64_t padded, bool include_pad) {
  int64_t first = 0, last = kernel, counted = kernel;
  if (dilation == 1) {
    if (start < 0) first = -start;
    if (start + last > size) last = size - start;
    if (start + counted > padded) counted = padded - start;
  } else {
    if (start < 0) first = (-start + dilation - 1) / dilation;
    if (start + (last - 1) * dilation >= size) last = start >= size ? 0 : (size - 1 - start) / dilation + 1;
    if (start + (counted - 1) * dilation >= padded) counted = start >= padded ? 0 : (padded - 1 - start) / dilation + 1;
  }
  int64_t taps = last > first ? last - first : 0;
  return (oct_pool_span){.start = start + first * dilation, .taps = taps, .counted = include_pad ? counted : taps};
}

static inline oct_pool_span oct_pool_span_y(const oct_pool_args *args, int64_t y) {
  const oct_conv_shape *s = &args->shape;
  int64_t start = y * s->stride_h - s->pad_top;
  return oct_pool_span_make(start, s->kernel_h, s->dilation_h, s->in_h, s->in_h + args->pad_bottom, args->include_pad);
}

static inline oct_pool_span oct_pool_span_x(const oct_pool_args *args, int64_t x) {
  const oct_conv_shape *s = &args->shape;
  int64_t start = x * s->stride_w - s->pad_left;
  return oct_pool_span_make(start, s->kernel_w, s->dilation_w, s->in_w, s->in_w + args->pad_right, args->include_pad);
}

/* One output pixel: channel 0 of the first input pixel and of the output; steps in elements. */
typedef struct oct_pool_window {
  const char *in;
  char *out;
  int64_t rows, columns, count; /* count: the average's divisor, at least 1 */
  ptrdiff_t row_step, column_step;
  float scale; /* 8-bit average: multiplier / float(count) */
} oct_pool_window;

/* Taps and divisor of a window; without taps in one direction there are none at all. */
static inline void oct_pool_window_set(oct_pool_window *w, const oct_pool_args *args, const oct_pool_span *rows,
                                       const oct_pool_span *columns) {
  bool empty = rows->taps == 0 || columns->taps == 0;
  int64_t count = rows->counted * columns->counted;
  w->rows = empty ? 0 : rows->taps;
  w->columns = empty ? 0 : columns->taps;
  w->count = count > 0 ? count : 1;
  w->scale = args->multiplier / (float)w->count;
}

typedef void (*oct_pool_body)(const oct_pool_args *args, const oct_pool_window *window);

/* Pixels [x, last) of an output row, each with a window of its own: near the image's sides. */
static inline __attribute__((always_inline)) void oct_pool_sides(const oct_pool_args *args, ptrdiff_t size, oct_pool_window w,
                                                                 const oct_pool_span *rows, int64_t x, int64_t last,
                                                                 const oct_pool_body body) {
  const char *in = w.in;
  char *out = w.out;
  for (; x < last; x++) {
    oct_pool_span columns = oct_pool_span_x(args, x);
    oct_pool_window_set(&w, args, rows, &columns);
    w.in = w.rows ? in + columns.start * args->in.pixel * size : in;
    w.out = out + x * args->out.pixel * size;
    body(args, &w);
  }
}

/* `count` pixels side by side from the window's on, whose columns are whole; false: not of this kind. */
typedef bool (*oct_pool_run)(const oct_pool_args *args, const oct_pool_window *window, int64_t count);

/* Calls body(args, &window) for every pixel of output rows [begin, end), but for those that `run` (NULL: none) takes. */
static inline __attribute__((always_inline)) void oct_pool_rows(const oct_pool_args *args, const ptrdiff_t size, size_t begin, size_t end,
                                                                const oct_pool_body body, const oct_pool_run run) {
  const oct_conv_shape *s = &args->shape;
  int64_t reach = s->in_w + s->pad_left - (int64_t)(s->kernel_w - 1) * s->dilation_w - 1; /* the last x * stride_w with a whole window */
  int64_t first = (s->pad_left + s->stride_w - 1) / s->stride_w, last = reach < 0 ? 0 : reach / s->stride_w + 1;
  first = first < s->out_w ? first : s->out_w;
  last = last < first ? first : last < s->out_w ? last : s->out_w;
  const oct_pool_span whole = {.start = 0, .taps = s->kernel_w, .counted = s->kernel_w};
  for (size_t unit = begin; unit < end; unit++) {
    int64_t n = (int64_t)unit / s->out_h, y = (int64_t)unit % s->out_h;
    oct_pool_span rows = oct_pool_span_y(args, y);
    oct_pool_window w = {.in = (const char *)oct_view_at(&args->in, (size_t)size, n, rows.taps ? rows.start : 0, 0),
                         .out = (char *)oct_view_at(&args->out, (size_t)size, n, y, 0),
                         .row_step = s->dilation_h * args->in.row,
                         .column_step = s->dilation_w * args->in.pixel};
    oct_pool_sides(args, size, w, &rows, 0, first, body);
    oct_pool_sides(args, size, w, &rows, last, s->out_w, body);
    oct_pool_window_set(&w, args, &rows, &whole);
    w.in += (first * s->stride_w - s->pad_left) * args->in.pixel * size;
    w.out += first * args->out.pixel * size;
    if (run && last > first && run(args, &w, last - first)) continue;
    for (int64_t x = first; x < last; x++) {
      body(args, &w);
      w.in += s->stride_w * args->in.pixel * size;
      w.out += args->out.pixel * size;
    }
  }
}

#define OCT_POOL_PROTOTYPES(isa)                                                        \
  void oct_max_pool_u8__##isa(const oct_pool_args *args, size_t begin, size_t end);     \
  void oct_max_pool_f32__##isa(const oct_pool_args *args, size_t begin, size_t end);    \
  void oct_average_pool_u8__##isa(const oct_pool_args *args, size_t begin, size_t end); \
  void oct_average_pool_f32__##isa(const oct_pool_args *args, size_t begin, size_t end);
OCT_POOL_PROTOTYPES(scalar)
OCT_POOL_PROTOTYPES(avx2)
OCT_POOL_PROTOTYPES(avx512)
#undef OCT_POOL_PROTOTYPES

#endif
