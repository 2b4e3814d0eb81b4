/* Packing of a matrix that lies anywhere, AVX-512: the bytes of oct_conv_f32_pack_matrix(), by vectors where one of the strides is 1.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_F32_PACK_AVX512_H
#define OCT_KERNELS_CONV_F32_PACK_AVX512_H

#include <immintrin.h>

#include "kernels/conv_f32_direct.h"

/* Where one panel of `width` columns, `count` of them real, comes from and goes to. */
typedef struct oct_pack_panel {
  const float *w;
  ptrdiff_t stride; /* between k's where columns lie side by side, between columns where k's do */
  int64_t k, width, count;
  __m512 scale;
  float *packed;
} oct_pack_panel;

static inline __mmask16 oct_pack_mask(int64_t left) { return (__mmask16)(left >= 16 ? 0xffff : left > 0 ? (1u << left) - 1 : 0); }

static inline void oct_pack_columns_avx512(const oct_pack_panel *p) {
  for (int64_t k = 0; k < p->k; k++)
    for (int64_t n = 0; n < p->width; n += 16) {
      __m512 v = _mm512_maskz_loadu_ps(oct_pack_mask(p->count - n), p->w + k * p->stride + n);
      _mm512_storeu_ps(p->packed + k * p->width + n, _mm512_mul_ps(v, p->scale));
    }
}

/* Four rows, in each 128-bit lane: their 4 x 4 elements transposed. */
#define OCT_TRANSPOSE_LANES(a, b, c, d)                                                                                     \
  do {                                                                                                                      \
    __m512d ab = _mm512_castps_pd(_mm512_unpacklo_ps(a, b)), cd = _mm512_castps_pd(_mm512_unpacklo_ps(c, d));               \
    __m512d ab_high = _mm512_castps_pd(_mm512_unpackhi_ps(a, b)), cd_high = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));     \
    a = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd)), b = _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));                     \
    c = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_high, cd_high)), d = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_high, cd_high)); \
  } while (0)

/* 4 x 4 lanes transposed, to k, k + 4, k + 8, k + 12. */
#define OCT_STORE_LANES(a, b, c, d, k)                                                                       \
  do {                                                                                                       \
    __m512 low = _mm512_shuffle_f32x4(a, b, 0x44), high = _mm512_shuffle_f32x4(a, b, 0xEE);                  \
    __m512 low2 = _mm512_shuffle_f32x4(c, d, 0x44), high2 = _mm512_shuffle_f32x4(c, d, 0xEE);                \
    if ((k) < left) _mm512_storeu_ps(to + (k)*width, _mm512_shuffle_f32x4(low, low2, 0x88));                 \
    if ((k) + 4 < left) _mm512_storeu_ps(to + ((k) + 4) * width, _mm512_shuffle_f32x4(low, low2, 0xDD));     \
    if ((k) + 8 < left) _mm512_storeu_ps(to + ((k) + 8) * width, _mm512_shuffle_f32x4(high, high2, 0x88));   \
    if ((k) + 12 < left) _mm512_storeu_ps(to + ((k) + 12) * width, _mm512_shuffle_f32x4(high, high2, 0xDD)); \
  } while (0)

/* `left` k's (at most 16 are done) of 16 columns, `count` of them real. */
static inline void oct_pack_transposed_block(const float *w, ptrdiff_t stride, int64_t left, int64_t count, __m512 scale, float *to,
                                             int64_t width) {
  const __mmask16 mask = oct_pack_mask(left);
#define ROW(n) __m512 r##n = (n) < count ? _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, w + (n)*stride), scale) : _mm512_setzero_ps();
  /* clang-format off */
  ROW(0) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6) ROW(7) ROW(8) ROW(9) ROW(10) ROW(11) ROW(12) ROW(13) ROW(14) ROW(15)
/* clang-format on */
#undef ROW
      OCT_TRANSPOSE_LANES(r0, r1, r2, r3);
  OCT_TRANSPOSE_LANES(r4, r5, r6, r7);
  OCT_TRANSPOSE_LANES(r8, r9, r10, r11);
  OCT_TRANSPOSE_LANES(r12, r13, r14, r15);
  OCT_STORE_LANES(r0, r4, r8, r12, 0);
  OCT_STORE_LANES(r1, r5, r9, r13, 1);
  OCT_STORE_LANES(r2, r6, r10, r14, 2);
  OCT_STORE_LANES(r3, r7, r11, r15, 3);
}

static inline void oct_pack_transposed_avx512(const oct_pack_panel *p) {
  for (int64_t n = 0; n < p->width; n += 16)
    for (int64_t k = 0; k < p->k; k += 16)
      oct_pack_transposed_block(p->w + n * p->stride + k, p->stride, p->k - k, p->count - n, p->scale, p->packed + k * p->width + n,
                                p->width);
}

/* false: neither stride is 1. */
static inline bool oct_conv_f32_pack_matrix_avx512(const oct_conv_shape *s, int panel, const float *w, ptrdiff_t k_stride,
                                                   ptrdiff_t n_stride, float scale, float *packed) {
  if (n_stride != 1 && k_stride != 1) return false;
  oct_conv_f32_plan plan = oct_conv_f32_plan_make(s, 16, panel);
  oct_pack_panel p = {.stride = n_stride == 1 ? k_stride : n_stride, .k = plan.k, .scale = _mm512_set1_ps(scale), .packed = packed};
  for (int64_t first = 0; first < plan.group_out; first += panel, p.packed += p.k * p.width) {
    p.w = w + first * n_stride;
    p.width = plan.columns - first < panel ? plan.columns - first : panel;
    p.count = plan.group_out - first < p.width ? plan.group_out - first : p.width;
    if (n_stride == 1) oct_pack_columns_avx512(&p);
    else oct_pack_transposed_avx512(&p);
  }
  return true;
}

#endif
