/* Convolution helper: sums of 32 bits to bytes where these are rounded floats of zero point 0 that fill 0..255, as after most ReLUs, by one
 * instruction less than in general (AVX-512 VNNI), or by three less where float biases are added.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_POSITIVE_AVX512VNNI_H
#define OCT_KERNELS_CONV_I8_POSITIVE_AVX512VNNI_H

#include "kernels/conv_i8_quarters__avx512vnni.h"

/* Profile onnx to 0..255 with zero point 0, where multipliers are at most 1/2: negative sums give 0, and others are below 2^23. A sum that
 * starts at the bits of 2^23 is, read as a float, 2^23 + sum, or 2^23 + sum / 2 if negative. So a * m - 2^23 * m, rounded once, is what the
 * rounded product of the sum would be, or something that is not positive, either. */
#define OCT_POSITIVE_MAGIC 0x4B000000
#define OCT_POSITIVE_LIMIT (1 << 23)
#define OCT_POSITIVE_PRODUCTS 256 /* so many products of bytes sum to less than the limit */

static inline __attribute__((always_inline)) __m512i oct_positive_round(__m512i sum, __m512i multiplier, __m512i offset) {
  return _mm512_cvtps_epi32(_mm512_fmadd_ps(_mm512_castsi512_ps(sum), _mm512_castsi512_ps(multiplier), _mm512_castsi512_ps(offset)));
}

static inline __attribute__((always_inline)) __m512i oct_positive_bytes(oct_quarters y, const oct_quarters *m, const oct_quarters *offset) {
  __m512i a = oct_positive_round(y.q0, m->q0, offset->q0), b = oct_positive_round(y.q1, m->q1, offset->q1);
  __m512i c = oct_positive_round(y.q2, m->q2, offset->q2), d = oct_positive_round(y.q3, m->q3, offset->q3);
  return _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
}

/* Whether channels may be positive: bytes of profile onnx, or rounded floats of one scale. */
static inline bool oct_positive_possible(const oct_conv_i8_args *a, int64_t channel, int count) {
  const oct_epilogue_i8 *e = &a->epilogue;
  const oct_quarters_kind kind = oct_quarters_kind_of(a, channel, count);
  return kind == OCT_QUARTERS_PLAIN ||
         (kind == OCT_QUARTERS_SHIFTED && oct_finish512_of(e, oct_largest512(e->multiplier + channel, count), false) == OCT_FINISH_PLAIN);
}

/* Their float biases, or NULL. */
static inline const float *oct_positive_floats(const oct_epilogue_i8 *e, int64_t channel) {
  return e->out == OCT_EPILOGUE_ROUNDED && e->float_bias ? e->float_bias + channel : NULL;
}

/* The byte that sums become. */
static inline __m512i oct_positive_byte(__m512i sums, __m512i multiplier, __m512i float_bias) {
  const __m512 t = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), _mm512_castsi512_ps(multiplier));
  const __m512i x = _mm512_cvtps_epi32(_mm512_add_ps(t, _mm512_castsi512_ps(float_bias)));
  return _mm512_min_epi32(_mm512_max_epi32(x, _mm512_setzero_si512()), _mm512_set1_epi32(255));
}

/* 16 channels that may be positive: whether their sums are below 2^23 and nothing is added to the products, or, as those of a channel that
 * hardly depends on its input, they are all of one byte, which then is the offset. Between bias + low and bias + high lie all sums, which have
 * OCT_POSITIVE_PRODUCTS or less. *offset comes in as float biases. */
static inline bool oct_positive_set(__m512i bias, __m512i low, __m512i high, __m512i *start, __m512i *multiplier, __m512i *offset) {
  const __m512i limit = _mm512_set1_epi32(OCT_POSITIVE_LIMIT), magic = _mm512_set1_epi32(OCT_POSITIVE_MAGIC);
  const __m512i least = _mm512_add_epi32(bias, low), most = _mm512_add_epi32(bias, high);
  const __m512 added = _mm512_castsi512_ps(*offset);
  const __mmask16 wrong = _mm512_cmpgt_epi32_mask(least, bias) | _mm512_cmplt_epi32_mask(most, bias) |
                          _mm512_cmp_ps_mask(_mm512_abs_ps(added), _mm512_set1_ps(0x1p29f), _CMP_NLE_UQ); /* may leave int32 */
  const __mmask16 small = _mm512_cmpgt_epi32_mask(limit, most) &
                          _mm512_cmpgt_epi32_mask(_mm512_add_epi32(least, limit), _mm512_setzero_si512()) &
                          _mm512_cmp_ps_mask(added, _mm512_setzero_ps(), _CMP_EQ_OQ);
  const __m512i byte = oct_positive_byte(least, *multiplier, *offset);
  const __mmask16 same = _mm512_cmpeq_epi32_mask(byte, oct_positive_byte(most, *multiplier, *offset));
  *multiplier = _mm512_maskz_mov_epi32(small, *multiplier);
  *offset = _mm512_castps_si512(
      _mm512_mask_mul_ps(_mm512_cvtepi32_ps(byte), small, _mm512_castsi512_ps(*multiplier), _mm512_set1_ps(-OCT_POSITIVE_LIMIT)));
  *start = _mm512_mask_add_epi32(magic, small, magic, bias);
  return !wrong && (__mmask16)(small | same) == 0xFFFF;
}

/* The least and the largest sum of products of 16 channels, which have 64 weights at every `stride` bytes. */
static inline void oct_positive_bounds(const int8_t *weights, int64_t dots, ptrdiff_t stride, __m512i *low, __m512i *high) {
  const __m512i zero = _mm512_setzero_si512(), most = _mm512_set1_epi8(-1);
  *low = *high = zero;
  for (int64_t i = 0; i < dots; i++, weights += stride) {
    const __m512i w = _mm512_loadu_si512(weights);
    *low = _mm512_dpbusd_epi32(*low, most, _mm512_min_epi8(w, zero));
    *high = _mm512_dpbusd_epi32(*high, most, _mm512_max_epi8(w, zero));
  }
}

/* `vectors` times 16 channels that may be positive: whether all are, of which bias becomes the start, and float biases the offset. `dots` as
 * above: 4 products each. */
static inline bool oct_positive_set_all(int vectors, const int8_t *weights, int64_t dots, __m512i *bias, __m512i *multiplier,
                                        __m512i *offset) {
  if (dots * 4 > OCT_POSITIVE_PRODUCTS) return false;
  const __m512i common = _mm512_set1_epi32((int)dots * 4 * 255 * 128),
                room = _mm512_sub_epi32(_mm512_set1_epi32(OCT_POSITIVE_LIMIT), common);
  __m512i start[4], factor[4], added[4];
  for (int i = 0; i < vectors; i++) {
    __m512i low = _mm512_sub_epi32(_mm512_setzero_si512(), common), high = common;
    start[i] = bias[i], factor[i] = multiplier[i], added[i] = offset[i];
    if (_mm512_cmpge_epu32_mask(_mm512_abs_epi32(bias[i]), room) || _mm512_test_epi32_mask(added[i], added[i]))
      oct_positive_bounds(weights + 64 * i, dots, 64 * vectors, &low, &high);
    if (!oct_positive_set(bias[i], low, high, start + i, factor + i, added + i)) return false;
  }
  for (int i = 0; i < vectors; i++) bias[i] = start[i], multiplier[i] = factor[i], offset[i] = added[i];
  return true;
}

#endif
