/* What the tests of float convolutions share: a random problem with its exact result, and the checks of one variant on it.
 *
 * A variant is compared with a triple loop in double over the unpacked weights. Exact variants must stay within
 * (K + 4) * 2^-24 * (sum of |x * w| + |bias| + |residual|), K = products per output. Approximate ones (Winograd) within
 * (C + 32) * 2^-24 * (2304 * sum over the C channels of max |x| * max |w| + |bias| + |residual|), the maxima over the inputs of
 * whatever tile the output may lie in, and over the channel's weights.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_TESTS_CONV_F32_CHECKS_H
#define OCT_TESTS_CONV_F32_CHECKS_H

#include <math.h>

#include "kernel_checks.h"

enum { FILL_RANDOM, FILL_LARGE, FILL_TINY, FILL_CANCEL, FILLS };

typedef struct problem {
  uint64_t number; /* seed */
  oct_conv_shape shape;
  bool bias, residual, in_place, clamp;
  int pad_bottom, pad_right, in_gap, out_gap, fill;
} problem;

static inline float random_value(int fill) {
  float x = (float)between(-1048576, 1048576) / 1048576;
  if (fill == FILL_LARGE) return x * 1e15f;
  if (fill == FILL_TINY) return x * 1e-20f; /* products are denormal */
  if (fill == FILL_CANCEL) return chance(50) ? 1e4f : chance(50) ? -1e4f : x;
  return x;
}

/* ---- One problem's data ---- */

typedef struct data {
  guarded in, residual;
  float *weights, *bias; /* bias always allocated, used when the problem has one */
  float *out;            /* the output buffer before the run, canaries included */
  size_t out_count;
  oct_view out_view; /* data is an offset into the buffer, counted in floats */
  ptrdiff_t out_offset;
  double *sum, *size; /* the exact dot products and the sums of |x * w|, [pixel][channel] */
  double *tile_size;  /* what approximate variants' bound takes in place of `size`; NULL where they accept nothing */
  oct_conv_f32_args args;
} data;

static float canary(size_t i) {
  uint32_t bits = 0x7fc00000u | (uint32_t)(i * 2654435761u >> 12);
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

static void input_create(const problem *p, data *d) {
  const oct_conv_shape *s = &p->shape;
  ptrdiff_t pixel = s->channels + p->in_gap, row = pixel * (s->in_w + s->pad_left + p->pad_right),
            image = row * (s->in_h + s->pad_top + p->pad_bottom);
  /* a gap after the last pixel is not part of the buffer */
  d->in = guarded_create(sizeof(float) * (size_t)(image * s->batch - p->in_gap), OCT_OVERREAD);
  d->args.in = (oct_view){guarded_floats(&d->in) + s->pad_top * row + s->pad_left * pixel, image, row, pixel};
  for (int64_t n = 0; n < s->batch; n++)
    for (int64_t y = -s->pad_top; y < s->in_h + p->pad_bottom; y++)
      for (int64_t x = -s->pad_left; x < s->in_w + p->pad_right; x++) {
        bool inside = y >= 0 && y < s->in_h && x >= 0 && x < s->in_w;
        float *at = (float *)oct_view_at(&d->args.in, sizeof(float), n, y, x);
        for (int64_t c = 0; c < s->channels; c++) at[c] = inside ? random_value(p->fill) : 0;
      }
}

static void output_create(const problem *p, data *d) {
  const oct_conv_shape *s = &p->shape;
  ptrdiff_t pixel = s->out_channels + p->out_gap, row = pixel * (s->out_w + 2), image = row * (s->out_h + 2);
  d->out_count = (size_t)(image * s->batch + 64);
  d->out_offset = row + pixel + 16;
  d->out_view = (oct_view){NULL, image, row, pixel};
  d->out = aligned(d->out_count * sizeof(float));
  for (size_t i = 0; i < d->out_count; i++) d->out[i] = canary(i);
  if (!p->residual) return;
  int64_t outputs = s->batch * s->out_h * s->out_w * s->out_channels;
  d->residual = guarded_create(sizeof(float) * (size_t)outputs, 0);
  d->args.residual = (oct_view){d->residual.data, s->out_h * s->out_w * s->out_channels, s->out_w * s->out_channels, s->out_channels};
  for (int64_t i = 0; i < outputs; i++) guarded_floats(&d->residual)[i] = random_value(p->fill);
  if (!p->in_place) return;
  oct_view out = d->out_view;
  out.data = d->out + d->out_offset;
  for (int64_t n = 0; n < s->batch; n++)
    for (int64_t y = 0; y < s->out_h; y++)
      for (int64_t x = 0; x < s->out_w; x++)
        memcpy(oct_view_at(&out, 4, n, y, x), oct_view_at(&d->args.residual, 4, n, y, x), (size_t)s->out_channels * 4);
}

/* Weights as doubles, [tap][output channel of the group] for one group after the other. */
static double *transposed_weights(const problem *p, const float *weights) {
  const oct_conv_shape *s = &p->shape;
  int64_t taps = s->channels / s->groups * s->kernel_h * s->kernel_w, out_group = s->out_channels / s->groups;
  double *transposed = aligned((size_t)(s->out_channels * taps) * sizeof(double));
  for (int64_t o = 0; o < s->out_channels; o++)
    for (int64_t t = 0; t < taps; t++) transposed[(o / out_group * taps + t) * out_group + o % out_group] = (double)weights[o * taps + t];
  return transposed;
}

/* Adds one output pixel's products of a group: the definition of a convolution, in double. `in` is the window's first pixel. */
static void add_products(const data *d, const float *in, const double *w, double *sum, double *size) {
  const oct_conv_shape *s = &d->args.shape;
  int64_t in_group = s->channels / s->groups, out_group = s->out_channels / s->groups;
  for (int64_t c = 0; c < in_group; c++)
    for (int i = 0; i < s->kernel_h; i++)
      for (int j = 0; j < s->kernel_w; j++, w += out_group) {
        double x = (double)in[i * s->dilation_h * d->args.in.row + j * s->dilation_w * d->args.in.pixel + c];
        for (int64_t o = 0; o < out_group; o++) {
          double product = x * w[o];
          sum[o] += product, size[o] += fabs(product);
        }
      }
}

static void reference(const problem *p, data *d) {
  const oct_conv_shape *s = &p->shape;
  int64_t in_group = s->channels / s->groups, out_group = s->out_channels / s->groups;
  size_t outputs = (size_t)(s->batch * s->out_h * s->out_w * s->out_channels), index = 0;
  double *w = transposed_weights(p, d->weights);
  d->sum = aligned(outputs * sizeof(double)), d->size = aligned(outputs * sizeof(double));
  for (size_t i = 0; i < outputs; i++) d->sum[i] = d->size[i] = 0;
  for (int64_t n = 0; n < s->batch; n++)
    for (int64_t y = 0; y < s->out_h; y++)
      for (int64_t x = 0; x < s->out_w; x++, index += (size_t)s->out_channels) {
        const float *in =
            (const float *)oct_view_at(&d->args.in, sizeof(float), n, y * s->stride_h - s->pad_top, x * s->stride_w - s->pad_left);
        for (int64_t g = 0; g < s->groups; g++)
          add_products(d, in + g * in_group, w + g * out_group * in_group * s->kernel_h * s->kernel_w, d->sum + index + g * out_group,
                       d->size + index + g * out_group);
      }
  free(w);
}

/* Places from `low` to `high` that lie in [0, end). */
static void clip_range(int64_t *low, int64_t *high, int64_t end) {
  if (*low < 0) *low = 0;
  if (*high >= end) *high = end - 1;
}

/* For the pixels of an output row: max |x| per channel over the inputs of any tile that they may lie in, which are 3 before to 5 after in both
 * directions. First over the rows, [input column][channel], then over the columns, [output column][channel]. */
static void tile_maxima(const problem *p, const data *d, int64_t n, int64_t y, double *columns, double *most) {
  const oct_conv_shape *s = &p->shape;
  int64_t channels = s->channels, width = s->out_w + 2, low = y - 3, high = y + 5;
  for (int64_t i = 0; i < width * channels; i++) columns[i] = 0;
  for (int64_t i = 0; i < s->out_w * channels; i++) most[i] = 0;
  clip_range(&low, &high, s->out_h + 2);
  for (int64_t row = low; row <= high; row++)
    for (int64_t column = 0; column < width; column++) {
      const float *in = (const float *)oct_view_at(&d->args.in, sizeof(float), n, row - s->pad_top, column - s->pad_left);
      for (int64_t c = 0; c < channels; c++) {
        double size = fabs((double)in[c]), *at = &columns[column * channels + c];
        *at = size > *at ? size : *at;
      }
    }
  for (int64_t x = 0; x < s->out_w; x++) {
    low = x - 3, high = x + 5;
    clip_range(&low, &high, width);
    for (int64_t i = low * channels; i < (high + 1) * channels; i++) {
      double *at = &most[x * channels + i % channels];
      *at = columns[i] > *at ? columns[i] : *at;
    }
  }
}

/* The largest |w| of each pair of channels, [channel][output channel]. */
static double *filter_maxima(const problem *p, const float *weights) {
  const oct_conv_shape *s = &p->shape;
  double *most = aligned((size_t)(s->out_channels * s->channels) * sizeof(double));
  for (int64_t o = 0; o < s->out_channels; o++)
    for (int64_t c = 0; c < s->channels; c++) {
      double largest = 0;
      for (int tap = 0; tap < 9; tap++) largest = fmax(largest, fabs((double)*weights++));
      most[c * s->out_channels + o] = largest;
    }
  return most;
}

static void tile_sizes(const problem *p, data *d) {
  const oct_conv_shape *s = &p->shape;
  bool accepted = false;
  for (const oct_conv_f32_kernel *const *k = oct_conv_f32_kernels; *k; k++) accepted |= (*k)->approximate && !(*k)->reject(s);
  if (!accepted) return;
  size_t outputs = (size_t)(s->batch * s->out_h * s->out_w * s->out_channels);
  d->tile_size = aligned(outputs * sizeof(double));
  for (size_t i = 0; i < outputs; i++) d->tile_size[i] = 0;
  double *most_w = filter_maxima(p, d->weights), *columns = aligned((size_t)((s->out_w + 2) * s->channels) * sizeof(double)),
         *most_x = aligned((size_t)(s->out_w * s->channels) * sizeof(double)), *at = d->tile_size;
  for (int64_t row = 0; row < s->batch * s->out_h; row++) {
    tile_maxima(p, d, row / s->out_h, row % s->out_h, columns, most_x);
    for (int64_t x = 0; x < s->out_w; x++, at += s->out_channels)
      for (int64_t c = 0; c < s->channels; c++)
        for (int64_t o = 0; o < s->out_channels; o++) at[o] += 2304 * most_x[x * s->channels + c] * most_w[c * s->out_channels + o];
  }
  free(most_w), free(most_x), free(columns);
}

static void data_create(const problem *p, data *d) {
  const oct_conv_shape *s = &p->shape;
  memset(d, 0, sizeof *d);
  size_t weights = (size_t)(s->out_channels * (s->channels / s->groups) * s->kernel_h * s->kernel_w),
         padded = ((size_t)s->out_channels + 63) / 64 * 64;
  d->args.shape = *s;
  input_create(p, d);
  output_create(p, d);
  d->weights = aligned(weights * sizeof(float));
  for (size_t i = 0; i < weights; i++) d->weights[i] = random_value(p->fill);
  d->bias = aligned(padded * sizeof(float));
  for (size_t i = 0; i < padded; i++) d->bias[i] = i < (size_t)s->out_channels ? random_value(p->fill) : 0;
  d->args.bias = p->bias ? d->bias : NULL;
  d->args.low = p->clamp ? -0.5f : -INFINITY, d->args.high = p->clamp ? 6.0f : INFINITY;
  reference(p, d);
  tile_sizes(p, d);
}

static void data_destroy(data *d) {
  guarded_destroy(&d->in);
  if (d->residual.map) guarded_destroy(&d->residual);
  free(d->weights), free(d->bias), free(d->out), free(d->sum), free(d->size), free(d->tile_size);
}

/* ---- Running and checking ---- */

/* A fresh output buffer that `kernel` has worked on, its units in `pieces` calls, the last piece first. */
static float *run_kernel(const oct_conv_f32_kernel *kernel, const problem *p, data *d, size_t pieces) {
  const oct_conv_shape *s = &p->shape;
  size_t bytes = kernel->packed_bytes(s), units = kernel->units(s);
  guarded packed = guarded_create(bytes, 0);
  float *out = aligned(d->out_count * sizeof(float));
  memcpy(out, d->out, d->out_count * sizeof(float));
  if (bytes) memset(packed.data, 0xA5, bytes); /* whatever memory held before */
  kernel->pack(s, d->weights, packed.data);
  oct_conv_f32_args args = d->args;
  args.packed = packed.data;
  args.out = d->out_view;
  args.out.data = out + d->out_offset;
  if (p->in_place && p->residual) args.residual = args.out;
  void *workspace = aligned(kernel->workspace_bytes ? kernel->workspace_bytes(s) : 0);
  for (size_t i = pieces; i-- > 0;) kernel->run(&args, units * i / pieces, units * (i + 1) / pieces, workspace);
  free(workspace);
  guarded_destroy(&packed);
  return out;
}

static void say(const problem *p, const char *kernel, const char *what) {
  const oct_conv_shape *s = &p->shape;
  print_message(
      "%s: %s; repeat with OCTET_CASE=%llu: batch %d in %dx%dx%d out %dx%dx%d kernel %dx%d stride %dx%d dilation %dx%d pad %d,%d groups %d "
      "bias %d residual %d in place %d clamp %d gaps %d,%d fill %d\n",
      kernel, what, (unsigned long long)p->number, (int)s->batch, (int)s->in_h, (int)s->in_w, (int)s->channels, (int)s->out_h,
      (int)s->out_w, (int)s->out_channels, s->kernel_h, s->kernel_w, s->stride_h, s->stride_w, s->dilation_h, s->dilation_w, s->pad_top,
      s->pad_left, s->groups, p->bias, p->residual, p->in_place, p->clamp, p->in_gap, p->out_gap, p->fill);
}

/* One value against the exact sum; true when within the bound. */
static bool value_is_right(const problem *p, const data *d, bool approximate, float got, int64_t index, int64_t c) {
  double products = (double)(p->shape.channels / p->shape.groups) * p->shape.kernel_h * p->shape.kernel_w;
  double bias = p->bias ? d->bias[c] : 0, residual = p->residual ? guarded_floats(&d->residual)[index] : 0;
  double want = d->sum[index] + bias + residual, size = approximate ? d->tile_size[index] : d->size[index];
  double steps = approximate ? (double)p->shape.channels + 32 : products + 4, smallest = approximate ? 2304 * 0x1p-149 : 0x1p-149;
  double bound = steps * (0x1p-24 * (size + fabs(bias) + fabs(residual)) + smallest);
  if (want < d->args.low) want = d->args.low;
  if (want > d->args.high) want = d->args.high;
  return fabs(got - want) <= bound;
}

static void check_output(const problem *p, data *d, const oct_conv_f32_kernel *kernel, const float *out) {
  const oct_conv_shape *s = &p->shape;
  unsigned char *inside = calloc(d->out_count, 1);
  int64_t index = 0, wrong = 0;
  oct_view view = d->out_view;
  for (int64_t n = 0; n < s->batch; n++)
    for (int64_t y = 0; y < s->out_h; y++)
      for (int64_t x = 0; x < s->out_w; x++) {
        ptrdiff_t at = d->out_offset + n * view.image + y * view.row + x * view.pixel;
        for (int64_t c = 0; c < s->out_channels; c++, index++) {
          inside[at + c] = 1;
          if (value_is_right(p, d, kernel->approximate, out[at + c], index, c)) continue;
          if (!wrong++)
            print_message("first wrong value at n %d y %d x %d c %d: %g, exact %g\n", (int)n, (int)y, (int)x, (int)c, out[at + c],
                          d->sum[index]);
        }
      }
  if (wrong) say(p, kernel->name, "outside the bound");
  assert_int_equal(wrong, 0);
  for (size_t i = 0; i < d->out_count; i++) {
    if (inside[i] || memcmp(&out[i], &d->out[i], 4) == 0) continue;
    say(p, kernel->name, "wrote outside the output");
    fail();
  }
  free(inside);
}

/* ---- Checking rows ---- */

typedef oct_conv_f32_kernel conv_row;
static const oct_conv_f32_kernel *const *const conv_rows = oct_conv_f32_kernels;

typedef bool (*row_filter)(const conv_row *row, const problem *p, const data *d);

static bool accepts(const conv_row *row, const problem *p, const data *d) {
  (void)d;
  return !row->reject(&p->shape);
}

static bool runs_here(const conv_row *row, const oct_conv_shape *shape) { return row_here(row->name, row->isa) && !row->reject(shape); }

/* Every row that `wanted` takes, but those of the set `enough` (bit: place in the list); returns the set of those that were compared. */
static uint64_t check_rows(const problem *p, row_filter wanted, uint64_t enough) {
  data d;
  uint64_t compared = 0;
  for (int k = 0; conv_rows[k]; k++) {
    if ((enough >> k & 1) || !runs_here(conv_rows[k], &p->shape) || !wanted(conv_rows[k], p, NULL)) continue;
    if (!compared) data_create(p, &d);
    float *whole = run_kernel(conv_rows[k], p, &d, 1), *pieces = run_kernel(conv_rows[k], p, &d, 3);
    check_output(p, &d, conv_rows[k], whole);
    if (memcmp(whole, pieces, d.out_count * sizeof(float)) != 0) {
      say(p, conv_rows[k]->name, "bits depend on the split");
      fail();
    }
    free(whole), free(pieces);
    compared |= UINT64_C(1) << k;
  }
  if (compared) data_destroy(&d);
  return compared;
}

static problem problem_of(uint64_t number, oct_conv_shape shape) {
  if (!shape.batch) shape.batch = 1;
  if (!shape.groups) shape.groups = 1;
  if (!shape.kernel_h) shape.kernel_h = shape.kernel_w = 1;
  if (!shape.stride_h) shape.stride_h = shape.stride_w = 1;
  if (!shape.dilation_h) shape.dilation_h = shape.dilation_w = 1;
  if (!shape.out_h) {
    shape.out_h = (shape.in_h + 2 * shape.pad_top - (shape.kernel_h - 1) * shape.dilation_h - 1) / shape.stride_h + 1;
    shape.out_w = (shape.in_w + 2 * shape.pad_left - (shape.kernel_w - 1) * shape.dilation_w - 1) / shape.stride_w + 1;
  }
  return (problem){.number = number, .shape = shape, .pad_bottom = shape.pad_top, .pad_right = shape.pad_left, .bias = true};
}

#endif
