/* Depthwise 8-bit 5x5 convolution (see conv_i8_depthwise_strips__avx512vnni.h). Interleaved columns of a part of the strip are written as
 * planes, one per quarter, four rows and, with stride 2, per even and odd columns: then the pixels of a vector lie side by side for every
 * kernel column.
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_depthwise_strips__avx512vnni.h"

#define PLANES 24576 /* bytes of all: within a first-level cache */

static const char *reject(const oct_conv_shape *s) { return oct_strip_reject(s, 5); }

/* Some output pixels of a strip. */
typedef struct part {
  const oct_strip *strip;
  int64_t first, end;
  uint8_t *planes;
} part;

/* The planes of four rows' columns `first`, first + stride, ... below `end`. `stride`, `pixels` and `loads` are constants wherever this is
 * inlined, like the parameters of the functions below. */
static inline __attribute__((always_inline)) void fill(const oct_strip *t, const uint8_t *const *in, int64_t first, int64_t end,
                                                       uint8_t *out, int stride, int pixels, int loads) {
  const ptrdiff_t pixel = t->args->in.pixel, step = stride * pixel, plane = PLANES / 8 / stride;
  const ptrdiff_t last = pixel * (first + (end - 1 - first) / stride * stride);
  for (ptrdiff_t at = first * pixel; at <= last; at += step * pixels, out += 64) {
    oct_quarters x = oct_strip_column(in, at, step, last, loads);
    _mm512_store_si512(out, x.q0);
    _mm512_store_si512(out + plane, x.q1);
    _mm512_store_si512(out + 2 * plane, x.q2);
    _mm512_store_si512(out + 3 * plane, x.q3);
  }
}

/* A vector that two dot products use is loaded once: compilers would make it a memory operand of each. */
static inline __attribute__((always_inline)) __m512i weights_at(const int8_t *w) {
  __m512i x = _mm512_loadu_si512(w);
  __asm__("" : "+v"(x));
  return x;
}

/* Sums are computed up to here: clang 14 would leave some for after the stores of others, and keep all that they need on the stack. */
static inline __attribute__((always_inline)) void pin(oct_quarters *y) {
  __asm__ volatile("" : "+v"(y->q0), "+v"(y->q1), "+v"(y->q2), "+v"(y->q3));
}

/* One kernel column's four rows, one quarter: x and u are vectors of pixels, y and z their sums for output rows 0 and 1. */
#define QUARTER(q, p, v)                                                  \
  {                                                                       \
    const __m512i x = _mm512_loadu_si512(p);                              \
    const __m512i v0 = weights_at(v);                                     \
    y0.q = _mm512_dpbusd_epi32(y0.q, x, v0);                              \
    if (pair) {                                                           \
      const __m512i u = _mm512_loadu_si512((p) + 64);                     \
      z0.q = _mm512_dpbusd_epi32(z0.q, u, v0);                            \
      if (both) {                                                         \
        const __m512i v1 = weights_at((v) + 256);                         \
        y1.q = _mm512_dpbusd_epi32(y1.q, x, v1);                          \
        z1.q = _mm512_dpbusd_epi32(z1.q, u, v1);                          \
      }                                                                   \
    } else if (both) {                                                    \
      y1.q = _mm512_dpbusd_epi32(y1.q, x, _mm512_loadu_si512((v) + 256)); \
    }                                                                     \
  }
#define FOUR(k, four)                                                                  \
  {                                                                                    \
    const uint8_t *p = at + (k) % stride * (8 * plane) + (k) / stride * (64 / pixels); \
    const int8_t *v = w + ((k)*2 + (four)) * 512;                                      \
    QUARTER(q0, p + (four)*4 * plane, v)                                               \
    QUARTER(q1, p + ((four)*4 + 1) * plane, v + 64)                                    \
    QUARTER(q2, p + ((four)*4 + 2) * plane, v + 128)                                   \
    QUARTER(q3, p + ((four)*4 + 3) * plane, v + 192)                                   \
  }
#define COLUMN(k)     \
  FOUR(k, 0)          \
  FOUR(k, 1)          \
  pin(&y0);           \
  if (both) pin(&y1); \
  if (pair) pin(&z0); \
  if (pair && both) pin(&z1);

/* The vectors at pixel x and, with `pair`, the one after it. */
static inline __attribute__((always_inline)) void vectors(const part *r, int64_t x, int stride, int pixels, bool both, bool pair) {
  const oct_strip *t = r->strip;
  const ptrdiff_t plane = PLANES / 8 / stride;
  const int8_t *w = t->block->weights;
  const uint8_t *at = r->planes + (x - r->first) * (64 / pixels);
  const oct_quarters bias = t->block->bias;
  oct_quarters y0 = bias, y1 = bias, z0 = bias, z1 = bias;
  COLUMN(0)
  COLUMN(1)
  COLUMN(2)
  COLUMN(3)
  COLUMN(4)
  oct_strip_store(t, 0, x, y0, pixels);
  if (both) oct_strip_store(t, 1, x, y1, pixels);
  if (pair) oct_strip_store(t, 0, x + pixels, z0, pixels);
  if (pair && both) oct_strip_store(t, 1, x + pixels, z1, pixels);
}

static inline __attribute__((always_inline)) void multiply(const part *r, int stride, int pixels, bool both) {
  int64_t x = r->first;
  if (both)
    for (; x + pixels < r->end; x += 2 * pixels) vectors(r, x, stride, pixels, true, true);
  for (; x < r->end; x += pixels) vectors(r, x, stride, pixels, both, false);
}

static inline __attribute__((always_inline)) void strip_as(const oct_strip *t, int stride, int pixels, int loads) {
  uint8_t planes[PLANES] __attribute__((aligned(64)));
  const ptrdiff_t plane = PLANES / 8 / stride;
  /* A part's last vectors, and the columns that they read, lie within the planes. */
  const int64_t most = (plane * pixels / 64 - 5 - pixels) / (2 * pixels) * (2 * pixels);
  for (int64_t x = 0; x < t->width; x += most) {
    const part r = {.strip = t, .first = x, .end = oct_min_i64(x + most, t->width), .planes = planes};
    const uint8_t *in[8];
    for (int i = 0; i < 8; i++) in[i] = t->in[i] + x * stride * t->args->in.pixel;
    const int64_t columns = (r.end - x - 1) * stride + 5;
    for (int first = 0; first < stride; first++) {
      fill(t, in, first, columns, planes + first * 8 * plane, stride, pixels, loads);
      fill(t, in + 4, first, columns, planes + (first * 8 + 4) * plane, stride, pixels, loads);
    }
    if (t->rows == 2) multiply(&r, stride, pixels, true);
    else multiply(&r, stride, pixels, false);
  }
}

static void stride_1_1(const oct_strip *t) { strip_as(t, 1, 1, 1); }
static void stride_1_2(const oct_strip *t) { strip_as(t, 1, 2, 2); }
static void stride_1_4(const oct_strip *t) { strip_as(t, 1, 4, 4); }
static void stride_2_1(const oct_strip *t) { strip_as(t, 2, 1, 1); }
static void stride_2_2(const oct_strip *t) { strip_as(t, 2, 2, 2); }
static void stride_2_4(const oct_strip *t) { strip_as(t, 2, 4, 4); }

static void strip(const oct_strip *t) {
  static const oct_strip_fn by_stride[2][3] = {{stride_1_1, stride_1_2, stride_1_4}, {stride_2_1, stride_2_2, stride_2_4}};
  by_stride[t->args->shape.stride_w - 1][t->block->pixels / 2](t);
}

static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  oct_strip_run(a, begin, end, strip);
}

const oct_conv_i8_kernel oct_conv_i8_depthwise_5x5__avx512vnni = {
    .name = "conv_i8_depthwise_5x5__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 515,
    .reject = reject,
    .packed_bytes = oct_strip_packed_bytes,
    .pack = oct_strip_pack,
    .units = oct_strip_units,
    .run = run,
};
