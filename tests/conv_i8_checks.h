/* What the tests of 8-bit convolution share: a problem and its data, the rules written down a second time (a triple loop over int64),
 * and the comparison of rows with it, byte by byte, whatever lies around the output included.
 * Inputs end OCT_OVERREAD bytes before a page that must not be touched. OCTET_CASE=N repeats one problem,
 * OCTET_ROW=TEXT checks only the rows whose names contain it.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_TESTS_CONV_I8_CHECKS_H
#define OCT_TESTS_CONV_I8_CHECKS_H

#include "kernel_checks.h"

enum { FILL_RANDOM, FILL_HIGH, FILL_LOW, FILL_SIGNS, FILL_ZERO_POINT, FILLS };

typedef struct problem {
  uint64_t number; /* seed */
  oct_conv_shape shape;
  oct_epilogue_i8 epilogue;
  bool residual, in_place; /* in_place: the residual lies where the output goes */
  int pad_bottom, pad_right, in_gap, out_gap, residual_gap, fill;
  bool small_bias;          /* no bias near int32's ends */
  bool few_floats;          /* float biases only for channels that hardly depend on their input */
  int32_t most_bias;        /* 0: some thousands; else biases go this far, and outputs with them */
  int most_weight;          /* 0: any weights; else random ones that go this far */
  const float *multipliers; /* NULL: such that outputs are bytes; else `multiplier_count` that channels take in turn */
  int multiplier_count;
} problem;

/* One image and one group, without strides, dilation and padding; sizes are yet to be set. */
static inline oct_conv_shape shape_of(int64_t channels, int64_t out_channels, int kernel) {
  oct_conv_shape s = {.batch = 1, .channels = channels, .out_channels = out_channels, .kernel_h = kernel, .kernel_w = kernel};
  s.stride_h = s.stride_w = s.dilation_h = s.dilation_w = s.groups = 1;
  return s;
}

/* The same with sizes. */
static inline oct_conv_shape sized_shape(oct_conv_shape s, int64_t in_h, int64_t in_w, int64_t out_h, int64_t out_w) {
  s.in_h = in_h, s.in_w = in_w, s.out_h = out_h, s.out_w = out_w;
  return s;
}

/* ---- One problem's data ---- */

typedef struct data {
  guarded in, residual;
  int8_t *weights;
  int64_t padded; /* channels in per-channel arrays */
  int32_t *bias, *weight_sum, *row_zero_point;
  float *multiplier, *float_bias, *row_scale;
  uint8_t table[256];
  size_t out_bytes, element;
  oct_conv_i8_args args; /* without packed weights; out.data is an offset from the output's begin */
} data;

static inline size_t image_bytes(const problem *p) {
  const oct_conv_shape *s = &p->shape;
  return (size_t)((s->in_h + s->pad_top + p->pad_bottom) * (s->in_w + s->pad_left + p->pad_right) * (s->channels + p->in_gap));
}

static inline void fill_input(const problem *p, uint8_t *x, size_t count) {
  for (size_t i = 0; i < count; i++)
    x[i] = p->fill == FILL_HIGH         ? 255
           : p->fill == FILL_LOW        ? 0
           : p->fill == FILL_SIGNS      ? (random_u32() & 1 ? 255 : 0)
           : p->fill == FILL_ZERO_POINT ? 128
                                        : (uint8_t)random_u32();
}

static inline void fill_weights(const problem *p, int8_t *w, size_t count) {
  static const int8_t extremes[] = {127, -127, -128};
  int one = PICK(0, 1, 2);
  for (size_t i = 0; p->most_weight && i < count; i++) w[i] = (int8_t)between(-p->most_weight, p->most_weight);
  if (p->most_weight) return;
  for (size_t i = 0; i < count; i++)
    w[i] =
        p->fill == FILL_RANDOM || p->fill == FILL_ZERO_POINT ? (int8_t)random_u32() : extremes[p->fill == FILL_SIGNS ? between(0, 2) : one];
}

/* Around bytes, halves between them, and the largest that surely stays within int32. */
static inline void fill_few_floats(data *d, int64_t c) {
  static const float small[] = {1e-30f, 1e-9f, 1e-8f, 1e-7f, 1e-6f},
                     far[] = {300, -300, 0x1p29f, 0x1.000002p29f, -0x1p29f, 1e30f, INFINITY};
  d->float_bias[c] = 0;
  if (!chance(10)) return;
  d->multiplier[c] = small[between(0, 4)];
  d->float_bias[c] = chance(20) ? far[between(0, 6)] : chance(20) ? (float)between(-2, 300) + 0.5f : (float)between(-1000, 30000) / 110.0f;
}

static inline void fill_channels(const problem *p, data *d) {
  const oct_conv_shape *s = &p->shape;
  int64_t products = s->channels / s->groups * s->kernel_h * s->kernel_w;
  d->padded = (s->out_channels + 63) / 64 * 64;
  d->bias = calloc((size_t)d->padded, 4), d->weight_sum = calloc((size_t)d->padded, 4);
  d->multiplier = calloc((size_t)d->padded, 4), d->float_bias = calloc((size_t)d->padded, 4);
  const int32_t most = p->most_bias ? p->most_bias : 20000;
  float base = (float)(200.0 / (p->most_bias ? (double)most : 255.0 * 127.0 * (double)products)) * (chance(20) ? 40.0f : 1.0f);
  for (int64_t c = 0; c < s->out_channels; c++) {
    d->bias[c] = (int32_t)between(-most, most) * (chance(5) && !p->small_bias && !p->most_bias ? 100000 : 1);
    d->multiplier[c] = chance(3) ? 0.0f : chance(3) ? 1e-30f : base * (0.25f + (float)(random_u32() % 1000) / 500.0f);
    if (p->multipliers) d->multiplier[c] = p->multipliers[c % p->multiplier_count];
    d->float_bias[c] = (float)between(-1000, 1000) / 128.0f;
    if (p->few_floats) fill_few_floats(d, c);
    for (int64_t i = 0; i < products; i++) d->weight_sum[c] += d->weights[c * products + i];
  }
  int64_t pixels = s->batch * s->out_h * s->out_w;
  d->row_scale = calloc((size_t)pixels, 4), d->row_zero_point = calloc((size_t)pixels, 4);
  for (int64_t i = 0; i < pixels; i++) d->row_scale[i] = (float)between(1, 1000) / 1000.0f, d->row_zero_point[i] = (int32_t)between(0, 255);
}

static inline void data_create(const problem *p, data *d) {
  const oct_conv_shape *s = &p->shape;
  memset(d, 0, sizeof *d);
  d->element = p->epilogue.out == OCT_EPILOGUE_U8 || p->epilogue.out == OCT_EPILOGUE_ROUNDED ? 1 : 4;
  size_t in_bytes = (size_t)s->batch * image_bytes(p),
         weights = (size_t)(s->out_channels * (s->channels / s->groups) * s->kernel_h * s->kernel_w);
  /* a gap after the last pixel is not part of the buffer */
  d->in = guarded_create(in_bytes - (size_t)p->in_gap, OCT_OVERREAD);
  fill_input(p, d->in.data, in_bytes - (size_t)p->in_gap);
  d->weights = malloc(weights);
  fill_weights(p, d->weights, weights);
  fill_channels(p, d);
  for (int i = 0; i < 256; i++) d->table[i] = (uint8_t)random_u32();
  ptrdiff_t in_pixel = s->channels + p->in_gap, in_row = in_pixel * (s->in_w + s->pad_left + p->pad_right);
  ptrdiff_t out_pixel = s->out_channels + p->out_gap, out_row = out_pixel * (s->out_w + 1), out_image = out_row * (s->out_h + 1);
  d->out_bytes = d->element * (size_t)(out_image * s->batch + out_pixel + 8);
  oct_conv_i8_args *a = &d->args;
  a->shape = *s;
  a->in = (oct_view){d->in.data + s->pad_top * in_row + s->pad_left * in_pixel, (ptrdiff_t)image_bytes(p), in_row, in_pixel};
  a->out = (oct_view){NULL, out_image, out_row, out_pixel};
  a->epilogue = p->epilogue;
  a->epilogue.bias = p->epilogue.out == OCT_EPILOGUE_S32 && chance(50) ? NULL : d->bias;
  a->epilogue.multiplier = d->multiplier;
  a->epilogue.table = p->epilogue.table ? d->table : NULL;
  a->epilogue.float_bias = p->epilogue.float_bias ? d->float_bias : NULL;
  if (p->epilogue.rows_per_scale)
    a->epilogue.row_scale = d->row_scale, a->epilogue.row_zero_point = d->row_zero_point, a->epilogue.weight_sum = d->weight_sum;
  if (p->residual) {
    ptrdiff_t pixel = s->out_channels + p->residual_gap, row = pixel * s->out_w;
    size_t bytes = d->element * (size_t)(row * s->out_h * s->batch - p->residual_gap);
    d->residual = guarded_create(bytes, OCT_OVERREAD);
    if (d->element == 1) fill_input(p, d->residual.data, bytes);
    else
      for (size_t i = 0; i < bytes / 4; i++) {
        float v = (float)between(-1000, 1000) / 64.0f;
        memcpy(d->residual.data + 4 * i, &v, 4);
      }
    a->residual = (oct_view){d->residual.data, row * s->out_h, row, pixel};
  }
}

static inline void data_destroy(data *d) {
  guarded_destroy(&d->in);
  if (d->residual.map) guarded_destroy(&d->residual);
  free(d->weights), free(d->bias), free(d->weight_sum), free(d->row_zero_point);
  free(d->multiplier), free(d->float_bias), free(d->row_scale);
}

/* ---- The rules a second time ---- */

/* What the kernel's window sees from one output pixel: [channel][kernel row][kernel column]. */
static inline void gather_window(const data *d, int64_t n, int64_t y, int64_t x, int32_t *window) {
  const oct_conv_shape *s = &d->args.shape;
  for (int64_t i = 0; i < s->kernel_h; i++)
    for (int64_t j = 0; j < s->kernel_w; j++) {
      int64_t iy = y * s->stride_h - s->pad_top + i * s->dilation_h, ix = x * s->stride_w - s->pad_left + j * s->dilation_w;
      const uint8_t *pixel = (const uint8_t *)d->args.in.data + n * d->args.in.image + iy * d->args.in.row + ix * d->args.in.pixel;
      for (int64_t c = 0; c < s->channels; c++) window[(c * s->kernel_h + i) * s->kernel_w + j] = pixel[c];
    }
}

static inline int64_t reference_sum(const data *d, const int32_t *window, int64_t o) {
  const oct_conv_shape *s = &d->args.shape;
  int64_t products = s->channels / s->groups * s->kernel_h * s->kernel_w, sum = 0;
  const int32_t *x = window + o / (s->out_channels / s->groups) * products;
  const int8_t *w = d->weights + o * products;
  for (int64_t i = 0; i < products; i++) sum += x[i] * w[i];
  return sum;
}

/* TFLite's rule by its definition: round(v * mantissa / 2^31), halves up, then / 2^shift, halves away from zero. */
static inline int64_t reference_fixed(int32_t v, float multiplier) {
  if (multiplier == 0) return 0;
  int exponent;
  int64_t mantissa = (int64_t)(frexp(multiplier, &exponent) * 2147483648.0);
  if (exponent < -31) return 0;
  int64_t high = ((int64_t)(int32_t)((uint32_t)v << (exponent > 0 ? exponent : 0)) * mantissa + (1LL << 30)) >> 31;
  return exponent < 0 ? (int64_t)round((double)high / (double)(1LL << -exponent)) : high;
}

static inline void reference_element(const data *d, int64_t sum, int64_t pixel, int64_t o, const void *residual, void *out) {
  const oct_epilogue_i8 *e = &d->args.epilogue;
  int64_t total = sum + (e->bias ? e->bias[o] : 0);
  if (e->row_scale) total -= (int64_t)e->row_zero_point[pixel / e->rows_per_scale] * e->weight_sum[o];
  int32_t v = (int32_t)(uint32_t)(uint64_t)total;
  if (e->out == OCT_EPILOGUE_S32) {
    memcpy(out, &v, 4);
  } else if (e->out == OCT_EPILOGUE_F32 || e->out == OCT_EPILOGUE_ROUNDED) {
    volatile float scale = e->row_scale ? e->row_scale[pixel / e->rows_per_scale] * e->multiplier[o] : e->multiplier[o],
                   bias = e->float_bias ? e->float_bias[o] : 0;
    volatile float units = bias / scale;
    if (e->out == OCT_EPILOGUE_ROUNDED && e->row_scale && scale > 0 && scale <= 0.25f && units >= -0x1p29f && units <= 0x1p29f)
      v = (int32_t)((uint32_t)v + (uint32_t)(int32_t)nearbyint((double)units)), bias = 0;
    volatile float y = (float)v * scale;
    if (e->float_bias) y = y + bias;
    if (e->out == OCT_EPILOGUE_ROUNDED) {
      double q = rint((double)y) + e->zero_point;
      *(uint8_t *)out = (uint8_t)(q < e->low ? e->low : q > e->high ? e->high : (int)q);
      return;
    }
    float r = 0;
    if (residual) memcpy(&r, residual, 4), y = y + r;
    float clamped = y < e->float_low ? e->float_low : y > e->float_high ? e->float_high : y;
    memcpy(out, &clamped, 4);
  } else {
    double q;
    if (e->profile == OCT_PROFILE_TFLITE) {
      q = (double)reference_fixed(v, e->multiplier[o]) + e->zero_point;
    } else {
      volatile float t = (float)v * e->multiplier[o];
      volatile float r = residual ? (float)(*(const uint8_t *)residual - e->residual_zero_point) * e->residual_scale : 0.0f;
      if (residual) t = t + r;
      q = nearbyint((double)t) + e->zero_point;
    }
    q = q < e->low ? e->low : q > e->high ? e->high : q;
    *(uint8_t *)out = e->table ? e->table[(int)q] : (uint8_t)q;
  }
}

static inline void reference_run(const data *d, uint8_t *out) {
  const oct_conv_shape *s = &d->args.shape;
  const oct_conv_i8_args *a = &d->args;
  int32_t *window = malloc((size_t)(s->channels * s->kernel_h * s->kernel_w) * sizeof *window);
  for (int64_t n = 0; n < s->batch; n++)
    for (int64_t y = 0; y < s->out_h; y++)
      for (int64_t x = 0; x < s->out_w; x++) {
        gather_window(d, n, y, x, window);
        for (int64_t o = 0; o < s->out_channels; o++) {
          const void *residual =
              a->residual.data ? (const uint8_t *)oct_view_at(&a->residual, d->element, n, y, x) + (size_t)o * d->element : NULL;
          size_t at = d->element * (size_t)(n * a->out.image + y * a->out.row + x * a->out.pixel + o);
          reference_element(d, reference_sum(d, window, o), (n * s->out_h + y) * s->out_w + x, o, residual, out + at);
        }
      }
  free(window);
}

/* ---- Running a row ---- */

static inline uint8_t *output_create(const data *d) {
  uint8_t *out = aligned(d->out_bytes + OCT_OVERREAD); /* a residual may lie in it */
  for (size_t i = 0; i < d->out_bytes; i++) out[i] = (uint8_t)(0xA5 ^ i);
  return out;
}

static inline void copy_residual(const data *d, const oct_view *out) {
  const oct_conv_shape *s = &d->args.shape;
  for (int64_t n = 0; n < s->batch; n++)
    for (int64_t y = 0; y < s->out_h; y++)
      for (int64_t x = 0; x < s->out_w; x++)
        memcpy(oct_view_at(out, d->element, n, y, x), oct_view_at(&d->args.residual, d->element, n, y, x),
               d->element * (size_t)s->out_channels);
}

/* Packed weights and workspaces are aligned to 64 bytes, and may be up to the next multiple of 64 bytes long. */
static inline guarded guarded_lines(size_t bytes) { return guarded_create((bytes + 63) / 64 * 64, 0); }

/* Runs all units, in up to three pieces of which the last comes first: the same ones whichever rows ran before. */
static inline void run_row(const problem *p, const oct_conv_i8_kernel *k, const data *d, uint8_t *out) {
  const oct_conv_shape *s = &d->args.shape;
  random_seed(p->number);
  guarded packed = guarded_lines(k->packed_bytes(s)), work = guarded_lines(k->workspace_bytes ? k->workspace_bytes(s) : 0);
  void *workspace = k->workspace_bytes ? work.data : NULL;
  if (k->packed_bytes(s)) memset(packed.data, 0xA5, k->packed_bytes(s)); /* whatever memory held before */
  k->pack(s, d->weights, packed.data);
  oct_conv_i8_args args = d->args;
  args.packed = packed.data;
  args.out.data = out;
  if (p->in_place) {
    copy_residual(d, &args.out);
    args.residual = args.out;
  }
  size_t units = k->units(s), a = (size_t)between(0, (int64_t)units), b = (size_t)between((int64_t)a, (int64_t)units);
  if (b < units) k->run(&args, b, units, workspace);
  if (a < b) k->run(&args, a, b, workspace);
  if (a > 0) k->run(&args, 0, a, workspace);
  guarded_destroy(&packed);
  guarded_destroy(&work);
}

static inline void describe(const problem *p, const char *name, size_t at, uint8_t expected, uint8_t got) {
  const oct_conv_shape *s = &p->shape;
  const oct_epilogue_i8 *e = &p->epilogue;
  printf("%s differs at byte %zu: expected %d, got %d\n  batch %ld in %ldx%ldx%ld out %ldx%ldx%ld kernel %dx%d stride %d,%d dilation %d,%d "
         "groups %d; profile %d out %d table %d "
         "residual %d rows_per_scale %ld gaps %d,%d,%d fill %d\n  repeat with OCTET_CASE=%lu\n",
         name, at, expected, got, (long)s->batch, (long)s->in_h, (long)s->in_w, (long)s->channels, (long)s->out_h, (long)s->out_w,
         (long)s->out_channels, s->kernel_h, s->kernel_w, s->stride_h, s->stride_w, s->dilation_h, s->dilation_w, s->groups, e->profile,
         e->out, e->table != NULL, p->residual, (long)e->rows_per_scale, p->in_gap, p->out_gap, p->residual_gap, p->fill,
         (unsigned long)p->number);
}

static inline void compare(const problem *p, const char *name, const uint8_t *expected, const uint8_t *got, size_t bytes) {
  if (!memcmp(expected, got, bytes)) return;
  size_t at = 0;
  while (expected[at] == got[at]) at++;
  describe(p, name, at, expected[at], got[at]);
  fail_msg("%s differs from its reference", name);
}

/* ---- Checking rows ---- */

typedef oct_conv_i8_kernel conv_row;
static const oct_conv_i8_kernel *const *const conv_rows = oct_conv_i8_kernels;

typedef bool (*row_filter)(const conv_row *row, const problem *p, const data *d);

/* Rows that could be chosen for the problem. */
static inline bool takes_part(const conv_row *row, const problem *p, const data *d) {
  if (row->reject && row->reject(&p->shape)) return false;
  return !row->reject_weights || !row->reject_weights(&p->shape, d->weights, d->args.epilogue.bias);
}

/* Every row that `wanted` takes, but those of the set `enough` (bit: place in the list); returns the set of those that were compared. */
static inline uint64_t check_rows(const problem *p, row_filter wanted, uint64_t enough) {
  data d;
  data_create(p, &d);
  uint8_t *expected = NULL;
  uint64_t compared = 0;
  for (int k = 0; conv_rows[k]; k++) {
    if ((enough >> k & 1) || !row_here(conv_rows[k]->name, conv_rows[k]->isa) || !wanted(conv_rows[k], p, &d)) continue;
    if (!expected) expected = output_create(&d), reference_run(&d, expected);
    uint8_t *out = output_create(&d);
    run_row(p, conv_rows[k], &d, out);
    compare(p, conv_rows[k]->name, expected, out, d.out_bytes);
    free(out);
    compared |= UINT64_C(1) << k;
  }
  free(expected);
  data_destroy(&d);
  return compared;
}

static inline void check(const problem *p) { check_rows(p, takes_part, 0); }

/* ---- Problems ---- */

static inline void choose_epilogue(problem *p) {
  static const uint8_t has_table;
  static const float has_bias;
  oct_epilogue_i8 *e = &p->epilogue;
  const oct_conv_shape *s = &p->shape;
  e->out = (oct_epilogue_out)PICK(OCT_EPILOGUE_U8, OCT_EPILOGUE_U8, OCT_EPILOGUE_U8, OCT_EPILOGUE_F32, OCT_EPILOGUE_F32, OCT_EPILOGUE_S32,
                                  OCT_EPILOGUE_ROUNDED, OCT_EPILOGUE_ROUNDED);
  e->zero_point = PICK(0, 3, 117, 128, 255);
  e->low = chance(50) ? 0 : (int32_t)between(0, 100);
  e->high = chance(50) ? 255 : (int32_t)between(e->low, 255);
  e->float_low = chance(50) ? -INFINITY : (float)between(-50, 5);
  e->float_high = chance(50) ? INFINITY : (float)between(6, 60);
  if (e->out == OCT_EPILOGUE_U8) {
    e->profile = chance(30) ? OCT_PROFILE_TFLITE : OCT_PROFILE_ONNX;
    e->table = chance(25) ? &has_table : NULL;
    p->residual = e->profile == OCT_PROFILE_ONNX && chance(40);
    e->residual_scale = (float)between(1, 2000) / 1000.0f;
    e->residual_zero_point = chance(30) ? 0 : (int32_t)between(0, 255);
  } else if (e->out != OCT_EPILOGUE_S32) {
    e->float_bias = chance(50) ? &has_bias : NULL;
    p->residual = e->out == OCT_EPILOGUE_F32 && chance(40);
    if (chance(60)) e->rows_per_scale = chance(50) ? 1 : s->out_h * s->out_w;
  }
  p->residual_gap = random_gap(s->out_channels, 30);
}

/* Sets the input's size so that the output is out_h x out_w. */
static inline void choose_input(problem *p, int64_t out_h, int64_t out_w) {
  oct_conv_shape *s = &p->shape;
  s->out_h = out_h, s->out_w = out_w;
  int64_t need_h = (out_h - 1) * s->stride_h + (s->kernel_h - 1) * s->dilation_h + 1,
          need_w = (out_w - 1) * s->stride_w + (s->kernel_w - 1) * s->dilation_w + 1;
  s->pad_top = (int)between(0, oct_clamp_i32((int32_t)need_h - 1, 0, 3)),
  s->pad_left = (int)between(0, oct_clamp_i32((int32_t)need_w - 1, 0, 3));
  p->pad_bottom = (int)between(0, oct_clamp_i32((int32_t)need_h - s->pad_top - 1, 0, 3)),
  p->pad_right = (int)between(0, oct_clamp_i32((int32_t)need_w - s->pad_left - 1, 0, 3));
  s->in_h = need_h - s->pad_top - p->pad_bottom, s->in_w = need_w - s->pad_left - p->pad_right;
}

#endif
