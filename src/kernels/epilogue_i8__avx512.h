/* The rules of epilogue_i8.h for 16 channels at a time (AVX-512 F, BW, VL, DQ). Accumulators already contain the bias.
 * Multiplications and additions of floats stay apart (no FMA), so that every byte equals the scalar form.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_EPILOGUE_I8_AVX512_H
#define OCT_KERNELS_EPILOGUE_I8_AVX512_H

#include <immintrin.h>

#include "kernels/conv_i8_direct.h"

static inline __mmask16 oct_mask16(int count) { return (__mmask16)(count >= 16 ? 0xFFFF : (1u << count) - 1); }

/* max and min keep their second operand when it is NaN or both are zero, as oct_clamp_f32() does. */
static inline __m512 oct_clamp_ps512(__m512 x, __m512 low, __m512 high) { return _mm512_min_ps(high, _mm512_max_ps(low, x)); }

/* How floats become bytes in profile onnx. Where no float can leave int32, what packing saturates anyway needs no clamp before it.
 * CLAMP: any floats. SATURATE: see oct_finish512_of(). PLAIN: also zero point 0 and the whole range 0..255. */
typedef enum oct_finish512 { OCT_FINISH_CLAMP, OCT_FINISH_SATURATE, OCT_FINISH_PLAIN } oct_finish512;

typedef struct oct_quantize512 {
  __m512 low, high; /* less the zero point */
  __m512i low_bytes, high_bytes;
  __m512i zero_point; /* as 16 bits */
  __m512 residual_scale;
  __m512i residual_zero_point;
} oct_quantize512;

static inline oct_quantize512 oct_quantize512_of(const oct_epilogue_i8 *e) {
  return (oct_quantize512){
      .low = _mm512_set1_ps((float)(e->low - e->zero_point)),
      .high = _mm512_set1_ps((float)(e->high - e->zero_point)),
      .low_bytes = _mm512_set1_epi8((char)e->low),
      .high_bytes = _mm512_set1_epi8((char)e->high),
      .zero_point = _mm512_set1_epi16((short)e->zero_point),
      .residual_scale = _mm512_set1_ps(e->residual_scale),
      .residual_zero_point = _mm512_set1_epi32(e->residual_zero_point),
  };
}

/* |int32 * multiplier + residual| < 2^31 for multipliers of at most 1/2 and residuals below 2^29: `largest` holds every multiplier's bits,
 * or the largest of some, as unsigned integers, which order floats by size and put negative ones and NaN last. */
static inline oct_finish512 oct_finish512_of(const oct_epilogue_i8 *e, __m512i largest, bool residual) {
  if (_mm512_cmpgt_epu32_mask(largest, _mm512_castps_si512(_mm512_set1_ps(0.5f)))) return OCT_FINISH_CLAMP;
  if (residual && !(fabsf(e->residual_scale) <= 1048576.0f)) return OCT_FINISH_CLAMP;
  return e->zero_point == 0 && e->low == 0 && e->high == 255 ? OCT_FINISH_PLAIN : OCT_FINISH_SATURATE;
}

/* Profile onnx, still without the zero point. `residual`: NULL, or 16 bytes (which lie within what may be read). */
static inline __attribute__((always_inline)) __m512i oct_quantize_ps512(__m512i acc, __m512 multiplier, const char *residual,
                                                                        const oct_quantize512 *q, oct_finish512 finish) {
  __m512 t = _mm512_mul_ps(_mm512_cvtepi32_ps(acc), multiplier);
  if (residual) {
    __m512i x = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)residual));
    t = _mm512_add_ps(t, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(x, q->residual_zero_point)), q->residual_scale));
  }
  return _mm512_cvtps_epi32(finish == OCT_FINISH_CLAMP ? oct_clamp_ps512(t, q->low, q->high) : t);
}

/* 4 x 16 values to bytes in the order in which 128-bit lanes are packed: lane l holds lanes l of a, b, c, d. */
static inline __attribute__((always_inline)) __m512i oct_pack_lanes512(__m512i a, __m512i b, __m512i c, __m512i d, const oct_quantize512 *q,
                                                                       oct_finish512 finish) {
  __m512i ab = _mm512_packs_epi32(a, b), cd = _mm512_packs_epi32(c, d);
  if (finish == OCT_FINISH_PLAIN) return _mm512_packus_epi16(ab, cd);
  __m512i x = _mm512_packus_epi16(_mm512_adds_epi16(ab, q->zero_point), _mm512_adds_epi16(cd, q->zero_point));
  return finish == OCT_FINISH_CLAMP ? x : _mm512_min_epu8(_mm512_max_epu8(x, q->low_bytes), q->high_bytes);
}

/* 4 x 16 values to bytes: lane l of the result is the l-th vector. */
static inline __attribute__((always_inline)) __m512i oct_pack_vectors512(__m512i a, __m512i b, __m512i c, __m512i d,
                                                                         const oct_quantize512 *q, oct_finish512 finish) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(order, oct_pack_lanes512(a, b, c, d, q, finish));
}

/* table[q] for 32 words q in 0..255, in registers: 128 words of two entries each, the entry picked by the lowest bit. */
static inline __m512i oct_table_words512(__m512i q, const uint8_t *table) {
  const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + 64), t2 = _mm512_loadu_si512(table + 128),
                t3 = _mm512_loadu_si512(table + 192);
  __m512i word = _mm512_srli_epi16(q, 1);
  __mmask32 upper = _mm512_test_epi16_mask(q, _mm512_set1_epi16(128)), odd = _mm512_test_epi16_mask(q, _mm512_set1_epi16(1));
  __m512i entries = _mm512_mask_mov_epi16(_mm512_permutex2var_epi16(t0, word, t1), upper, _mm512_permutex2var_epi16(t2, word, t3));
  return _mm512_and_si512(_mm512_mask_srli_epi16(entries, odd, entries, 8), _mm512_set1_epi16(255));
}

/* 64 bytes. */
static inline __m512i oct_table512(__m512i q, const uint8_t *table) {
  __m512i even = oct_table_words512(_mm512_and_si512(q, _mm512_set1_epi16(255)), table),
          odd = oct_table_words512(_mm512_srli_epi16(q, 8), table);
  return _mm512_or_si512(even, _mm512_slli_epi16(odd, 8));
}

/* Profile tflite. A float multiplier's 24-bit mantissa, shifted up, is exactly what oct_fixed_point() gives. */
typedef struct oct_fixed512 {
  __m512i mantissa, odd_mantissa; /* the second: those of odd lanes in even ones */
  __m512i left, right, mask, half;
  __m512i half_of_half, less; /* 2^(right - 2) and right - 1 */
} oct_fixed512;

static inline oct_fixed512 oct_fixed512_of(__m512 multiplier) {
  const __m512i one = _mm512_set1_epi32(1), zero = _mm512_setzero_si512();
  __m512i bits = _mm512_castps_si512(multiplier),
          exponent = _mm512_sub_epi32(_mm512_and_si512(_mm512_srli_epi32(bits, 23), _mm512_set1_epi32(255)), _mm512_set1_epi32(126));
  __m512i fraction = _mm512_or_si512(_mm512_and_si512(bits, _mm512_set1_epi32(0x7FFFFF)), _mm512_set1_epi32(0x800000));
  __mmask16 usable = _mm512_cmpge_epi32_mask(exponent, _mm512_set1_epi32(-31));
  exponent = _mm512_mask_mov_epi32(_mm512_set1_epi32(-2), usable, exponent); /* of zero: any that is not special */
  oct_fixed512 f = {.mantissa = _mm512_maskz_slli_epi32(usable, fraction, 7), .left = _mm512_max_epi32(exponent, zero)};
  f.odd_mantissa = _mm512_srli_epi64(f.mantissa, 32);
  f.right = _mm512_sub_epi32(zero, _mm512_min_epi32(exponent, zero));
  f.mask = _mm512_sub_epi32(_mm512_sllv_epi32(one, f.right), one);
  f.half = _mm512_srli_epi32(f.mask, 1);
  f.less = _mm512_sub_epi32(f.right, one);
  f.half_of_half = _mm512_sllv_epi32(one, _mm512_sub_epi32(f.less, one));
  return f;
}

/* No shift to the left and at least 2 to the right: multipliers below 1/4. */
static inline bool oct_fixed512_is_small(const oct_fixed512 *f) { return _mm512_cmplt_epi32_mask(f->right, _mm512_set1_epi32(2)) == 0; }

/* acc * mantissa / 2^31, rounded. */
static inline __attribute__((always_inline)) __m512i oct_multiply_fixed512(__m512i acc, const oct_fixed512 *f) {
  const __m512i nudge = _mm512_set1_epi64(1 << 30);
  __m512i even = _mm512_srli_epi64(_mm512_add_epi64(_mm512_mul_epi32(acc, f->mantissa), nudge), 31);
  __m512i odd = _mm512_slli_epi64(_mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(acc, 32), f->odd_mantissa), nudge), 1);
  return _mm512_mask_blend_epi32(0xAAAA, even, odd);
}

/* Still without the zero point, for packing that saturates. `small`: as oct_fixed512_is_small() says. Then the shift that rounds halves away
 * from zero, floor((x + 2^(right - 1) - (x < 0)) / 2^right), is done in two steps, so that nothing overflows. */
static inline __attribute__((always_inline)) __m512i oct_requantize_fixed512(__m512i acc, const oct_fixed512 *f, bool small) {
  if (small) {
    __m512i x = oct_multiply_fixed512(acc, f);
    x = _mm512_srai_epi32(_mm512_add_epi32(x, _mm512_srai_epi32(x, 31)), 1);
    return _mm512_srav_epi32(_mm512_add_epi32(x, f->half_of_half), f->less);
  }
  __m512i x = oct_multiply_fixed512(_mm512_sllv_epi32(acc, f->left), f), threshold = _mm512_add_epi32(f->half, _mm512_srli_epi32(x, 31));
  __mmask16 up = _mm512_cmpgt_epi32_mask(_mm512_and_si512(x, f->mask), threshold);
  x = _mm512_srav_epi32(x, f->right);
  return _mm512_mask_add_epi32(x, up, x, _mm512_set1_epi32(1));
}

static inline void oct_store_u8_16(char *out, __m128i x, int count) {
  if (count == 16) _mm_storeu_si128((__m128i *)(void *)out, x);
  else if (count == 8) _mm_storel_epi64((__m128i *)(void *)out, x);
  else _mm_mask_storeu_epi8(out, oct_mask16(count), x);
}

/* The functions below have `residual`, `table` and `finish` constant wherever they are inlined. */
#define OCT_QUANTIZED(at, multiplier, row, lane) \
  oct_quantize_ps512(_mm512_load_si512(acc + (at)), multiplier, residual ? rows->residual[row] + (lane) : NULL, &q, finish)

/* One row of 33 to 64 channels at a time. */
static inline __attribute__((always_inline)) void oct_epilogue_wide_avx512(const oct_epilogue_i8 *e, const oct_direct_rows *rows,
                                                                           int64_t channel, int count, const int32_t *acc, int width,
                                                                           bool residual, bool table, oct_finish512 finish) {
  const oct_quantize512 q = oct_quantize512_of(e);
  const float *m = e->multiplier + channel;
  const __m512 m0 = _mm512_loadu_ps(m), m1 = _mm512_loadu_ps(m + 16), m2 = _mm512_maskz_loadu_ps(oct_mask16(count - 32), m + 32);
  const __m512 m3 = count > 48 ? _mm512_maskz_loadu_ps(oct_mask16(count - 48), m + 48) : _mm512_setzero_ps();
  const __mmask64 mask = count == 64 ? ~(__mmask64)0 : ((__mmask64)1 << count) - 1;
  for (int r = 0; r < rows->count; r++, acc += width) {
    __m512i v3 = count > 48 ? OCT_QUANTIZED(48, m3, r, 48) : _mm512_setzero_si512();
    __m512i x = oct_pack_vectors512(OCT_QUANTIZED(0, m0, r, 0), OCT_QUANTIZED(16, m1, r, 16), OCT_QUANTIZED(32, m2, r, 32), v3, &q, finish);
    if (table) x = oct_table512(x, e->table);
    if (count == 64) _mm512_storeu_si512(rows->out[r], x);
    else _mm512_mask_storeu_epi8(rows->out[r], mask, x);
  }
}

/* Two rows of 17 to 32 channels at a time. A row past the last repeats the last. */
static inline __attribute__((always_inline)) void oct_epilogue_32_avx512(const oct_epilogue_i8 *e, const oct_direct_rows *rows,
                                                                         int64_t channel, int count, const int32_t *acc, int width,
                                                                         bool residual, bool table, oct_finish512 finish) {
  const oct_quantize512 q = oct_quantize512_of(e);
  const __m512 m0 = _mm512_loadu_ps(e->multiplier + channel),
               m1 = _mm512_maskz_loadu_ps(oct_mask16(count - 16), e->multiplier + channel + 16);
  const __mmask32 mask = count == 32 ? ~(__mmask32)0 : ((__mmask32)1 << count) - 1;
  for (int r = 0; r < rows->count; r += 2) {
    int n = r + 1 < rows->count ? r + 1 : r, at = r * width, next = n * width;
    __m512i x = oct_pack_vectors512(OCT_QUANTIZED(at, m0, r, 0), OCT_QUANTIZED(at + 16, m1, r, 16), OCT_QUANTIZED(next, m0, n, 0),
                                    OCT_QUANTIZED(next + 16, m1, n, 16), &q, finish);
    if (table) x = oct_table512(x, e->table);
    if (count == 32) {
      _mm256_storeu_si256((__m256i *)(void *)rows->out[r], _mm512_castsi512_si256(x));
      _mm256_storeu_si256((__m256i *)(void *)rows->out[n], _mm512_extracti64x4_epi64(x, 1));
    } else {
      _mm256_mask_storeu_epi8(rows->out[r], mask, _mm512_castsi512_si256(x));
      _mm256_mask_storeu_epi8(rows->out[n], mask, _mm512_extracti64x4_epi64(x, 1));
    }
  }
}

/* Four rows of at most 16 channels at a time. */
static inline __attribute__((always_inline)) void oct_epilogue_16_avx512(const oct_epilogue_i8 *e, const oct_direct_rows *rows,
                                                                         int64_t channel, int count, const int32_t *acc, int width,
                                                                         bool residual, bool table, oct_finish512 finish) {
  const oct_quantize512 q = oct_quantize512_of(e);
  const __m512 m = _mm512_maskz_loadu_ps(oct_mask16(count), e->multiplier + channel);
  for (int r = 0; r < rows->count; r += 4) {
    int last = rows->count - 1, r1 = r + 1 < last ? r + 1 : last, r2 = r + 2 < last ? r + 2 : last, r3 = r + 3 < last ? r + 3 : last;
    __m512i x = oct_pack_vectors512(OCT_QUANTIZED(r * width, m, r, 0), OCT_QUANTIZED(r1 * width, m, r1, 0),
                                    OCT_QUANTIZED(r2 * width, m, r2, 0), OCT_QUANTIZED(r3 * width, m, r3, 0), &q, finish);
    if (table) x = oct_table512(x, e->table);
    oct_store_u8_16(rows->out[r], _mm512_castsi512_si128(x), count);
    oct_store_u8_16(rows->out[r1], _mm512_extracti32x4_epi32(x, 1), count);
    oct_store_u8_16(rows->out[r2], _mm512_extracti32x4_epi32(x, 2), count);
    oct_store_u8_16(rows->out[r3], _mm512_extracti32x4_epi32(x, 3), count);
  }
}
#undef OCT_QUANTIZED

static inline __attribute__((always_inline)) void oct_epilogue_onnx_avx512(const oct_epilogue_i8 *e, const oct_direct_rows *rows,
                                                                           int64_t channel, int count, const int32_t *acc, int width,
                                                                           bool residual, bool table, oct_finish512 finish) {
  if (count > 32) oct_epilogue_wide_avx512(e, rows, channel, count, acc, width, residual, table, finish);
  else if (count > 16) oct_epilogue_32_avx512(e, rows, channel, count, acc, width, residual, table, finish);
  else oct_epilogue_16_avx512(e, rows, channel, count, acc, width, residual, table, finish);
}

/* Up to 64 channels; `small` constant where this is inlined. */
static inline __attribute__((always_inline)) void oct_epilogue_fixed_avx512(const oct_epilogue_i8 *e, const oct_direct_rows *rows,
                                                                            int count, const int32_t *acc, int width,
                                                                            const oct_fixed512 *fixed, bool small) {
  const oct_quantize512 q = oct_quantize512_of(e);
  const __mmask64 mask = count == 64 ? ~(__mmask64)0 : ((__mmask64)1 << count) - 1;
  const __m512i none = _mm512_setzero_si512();
  for (int r = 0; r < rows->count; r++, acc += width) {
    __m512i x0 = oct_requantize_fixed512(_mm512_load_si512(acc), &fixed[0], small);
    __m512i x1 = count > 16 ? oct_requantize_fixed512(_mm512_load_si512(acc + 16), &fixed[1], small) : none;
    __m512i x2 = count > 32 ? oct_requantize_fixed512(_mm512_load_si512(acc + 32), &fixed[2], small) : none;
    __m512i x3 = count > 48 ? oct_requantize_fixed512(_mm512_load_si512(acc + 48), &fixed[3], small) : none;
    __m512i x = oct_pack_vectors512(x0, x1, x2, x3, &q, OCT_FINISH_SATURATE);
    if (e->table) x = oct_table512(x, e->table);
    _mm512_mask_storeu_epi8(rows->out[r], mask, x);
  }
}

static inline void oct_epilogue_tflite_avx512(const oct_epilogue_i8 *e, const oct_direct_rows *rows, int64_t channel, int count,
                                              const int32_t *acc, int width) {
  oct_fixed512 fixed[4];
  bool small = true;
  for (int i = 0; i < 4; i++) {
    int left = count - 16 * i;
    fixed[i] = oct_fixed512_of(left > 0 ? _mm512_maskz_loadu_ps(oct_mask16(left), e->multiplier + channel + 16 * i) : _mm512_setzero_ps());
    small = small && oct_fixed512_is_small(&fixed[i]);
  }
  if (small) oct_epilogue_fixed_avx512(e, rows, count, acc, width, fixed, true);
  else oct_epilogue_fixed_avx512(e, rows, count, acc, width, fixed, false);
}

/* oct_take_units() */
static inline __attribute__((always_inline)) __m512i oct_take_units512(__m512 *bias, __m512 multiplier) {
  const __m512 units = _mm512_div_ps(*bias, multiplier);
  const __mmask16 fits = _mm512_cmp_ps_mask(multiplier, _mm512_setzero_ps(), _CMP_GT_OQ) &
                         _mm512_cmp_ps_mask(multiplier, _mm512_set1_ps(OCT_UNITS_MULTIPLIER), _CMP_LE_OQ) &
                         _mm512_cmp_ps_mask(_mm512_abs_ps(units), _mm512_set1_ps((float)OCT_MOST_UNITS), _CMP_LE_OQ);
  *bias = _mm512_mask_mov_ps(*bias, fits, _mm512_setzero_ps());
  return _mm512_maskz_cvtps_epi32(fits, units);
}

/* Constants of 16 channels for rounded floats; in a run of rows with one scale and zero point these are in the constants. */
typedef struct oct_rounded512 {
  __m512 multiplier, bias;
  __m512i shift; /* zero point * sum of weights, less what is taken from the bias */
} oct_rounded512;

static inline oct_rounded512 oct_rounded512_of(const oct_epilogue_i8 *e, int64_t channel, int count, int64_t scale) {
  const __mmask16 mask = count > 0 ? oct_mask16(count) : 0;
  oct_rounded512 v = {
      .multiplier = _mm512_maskz_loadu_ps(mask, e->multiplier + channel), .bias = _mm512_setzero_ps(), .shift = _mm512_setzero_si512()};
  if (e->float_bias) v.bias = _mm512_maskz_loadu_ps(mask, e->float_bias + channel);
  if (!e->row_scale) return v;
  v.shift = _mm512_mullo_epi32(_mm512_set1_epi32(e->row_zero_point[scale]), _mm512_maskz_loadu_epi32(mask, e->weight_sum + channel));
  v.multiplier = _mm512_mul_ps(_mm512_set1_ps(e->row_scale[scale]), v.multiplier);
  if (e->float_bias) v.shift = _mm512_sub_epi32(v.shift, oct_take_units512(&v.bias, v.multiplier));
  return v;
}

static inline __attribute__((always_inline)) __m512i oct_rounded_ps512(const int32_t *acc, const oct_rounded512 *v,
                                                                       const oct_quantize512 *q) {
  __m512i a = _mm512_sub_epi32(_mm512_load_si512(acc), v->shift);
  __m512 t = _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(a), v->multiplier), v->bias);
  return _mm512_cvtps_epi32(oct_clamp_ps512(t, q->low, q->high));
}

/* Up to 64 channels of the rows [first, last), which have one scale. */
static inline void oct_epilogue_rounded_run_avx512(const oct_epilogue_i8 *e, const oct_direct_rows *rows, int64_t channel, int count,
                                                   const int32_t *acc, int width, int first, int last, int64_t scale) {
  const oct_quantize512 q = oct_quantize512_of(e);
  const oct_rounded512 v0 = oct_rounded512_of(e, channel, count, scale), v1 = oct_rounded512_of(e, channel + 16, count - 16, scale);
  const oct_rounded512 v2 = oct_rounded512_of(e, channel + 32, count - 32, scale),
                       v3 = oct_rounded512_of(e, channel + 48, count - 48, scale);
  const __mmask64 mask = count == 64 ? ~(__mmask64)0 : ((__mmask64)1 << count) - 1;
  const __m512i none = _mm512_setzero_si512();
  for (int r = first; r < last; r++) {
    const int32_t *row = acc + r * width;
    __m512i x0 = oct_rounded_ps512(row, &v0, &q), x1 = count > 16 ? oct_rounded_ps512(row + 16, &v1, &q) : none;
    __m512i x2 = count > 32 ? oct_rounded_ps512(row + 32, &v2, &q) : none, x3 = count > 48 ? oct_rounded_ps512(row + 48, &v3, &q) : none;
    _mm512_mask_storeu_epi8(rows->out[r], mask, oct_pack_vectors512(x0, x1, x2, x3, &q, OCT_FINISH_CLAMP));
  }
}

static inline void oct_epilogue_rounded_avx512(const oct_epilogue_i8 *e, const oct_direct_rows *rows, int64_t channel, int count,
                                               const int32_t *acc, int width) {
  int first = 0;
  while (first < rows->count) {
    int last = rows->count;
    int64_t scale = e->row_scale ? oct_quotient(rows->pixel + first, e->rows_per_scale) : 0;
    if (e->row_scale) last = (int)oct_min_i64(last, (scale + 1) * e->rows_per_scale - rows->pixel);
    oct_epilogue_rounded_run_avx512(e, rows, channel, count, acc, width, first, last, scale);
    first = last;
  }
}

/* Constants of 16 channels for floats. */
typedef struct oct_float512 {
  __mmask16 mask;
  __m512 multiplier, bias;
  __m512i sums;
  int lane;
} oct_float512;

static inline oct_float512 oct_float512_of(const oct_epilogue_i8 *e, int64_t channel, int lane, int count) {
  const __mmask16 mask = count > 0 ? oct_mask16(count) : 0;
  const int64_t at = channel + lane;
  oct_float512 v = {.mask = mask,
                    .multiplier = _mm512_maskz_loadu_ps(mask, e->multiplier + at),
                    .bias = _mm512_setzero_ps(),
                    .sums = _mm512_setzero_si512(),
                    .lane = lane};
  if (e->float_bias) v.bias = _mm512_maskz_loadu_ps(mask, e->float_bias + at);
  if (e->row_scale) v.sums = _mm512_maskz_loadu_epi32(mask, e->weight_sum + at);
  return v;
}

/* Scale and zero point of a row, and what follows the product; constant wherever this is inlined, but for the numbers. */
typedef struct oct_float_row512 {
  bool dynamic, bias, clamp;
  __m512 scale, low, high;
  __m512i zero_point;
} oct_float_row512;

static inline __attribute__((always_inline)) void oct_float_ps512(const int32_t *acc, const oct_float512 *v, const oct_float_row512 *row,
                                                                  const char *residual, char *out) {
  __m512i a = _mm512_load_si512(acc + v->lane);
  if (row->dynamic) a = _mm512_sub_epi32(a, _mm512_mullo_epi32(row->zero_point, v->sums));
  __m512 y = _mm512_mul_ps(_mm512_cvtepi32_ps(a), row->dynamic ? _mm512_mul_ps(row->scale, v->multiplier) : v->multiplier);
  if (row->bias) y = _mm512_add_ps(y, v->bias);
  if (residual) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(v->mask, (const float *)(const void *)residual + v->lane));
  if (row->clamp) y = oct_clamp_ps512(y, row->low, row->high);
  _mm512_mask_storeu_ps((float *)(void *)out + v->lane, v->mask, y);
}

/* Up to 32 channels from `lane` on. */
static inline __attribute__((always_inline)) void oct_epilogue_f32_run_avx512(const oct_conv_i8_args *args, const oct_direct_rows *rows,
                                                                              int64_t channel, int lane, int count, const int32_t *acc,
                                                                              int width, const bool dynamic, const bool clamp) {
  const oct_epilogue_i8 *e = &args->epilogue;
  const oct_float512 v0 = oct_float512_of(e, channel, lane, count), v1 = oct_float512_of(e, channel, lane + 16, count - 16);
  oct_float_row512 row = {.dynamic = dynamic,
                          .bias = e->float_bias != NULL,
                          .clamp = clamp,
                          .low = _mm512_set1_ps(e->float_low),
                          .high = _mm512_set1_ps(e->float_high)};
  for (int r = 0; r < rows->count; r++, acc += width) {
    const char *residual = args->residual.data ? rows->residual[r] : NULL;
    if (dynamic) {
      int64_t i = oct_quotient(rows->pixel + r, e->rows_per_scale);
      row.scale = _mm512_set1_ps(e->row_scale[i]);
      row.zero_point = _mm512_set1_epi32(e->row_zero_point[i]);
    }
    oct_float_ps512(acc, &v0, &row, residual, rows->out[r]);
    if (count > 16) oct_float_ps512(acc, &v1, &row, residual, rows->out[r]);
  }
}

static inline void oct_epilogue_f32_avx512(const oct_conv_i8_args *args, const oct_direct_rows *rows, int64_t channel, int count,
                                           const int32_t *acc, int width) {
  const oct_epilogue_i8 *e = &args->epilogue;
  const bool dynamic = e->row_scale != NULL,
             clamp = e->float_low != -INFINITY || e->float_high != INFINITY; /* without bounds a clamp changes nothing */
  for (int lane = 0; lane < count; lane += 32) {
    int left = count - lane < 32 ? count - lane : 32;
    if (dynamic && clamp) oct_epilogue_f32_run_avx512(args, rows, channel, lane, left, acc, width, true, true);
    else if (dynamic) oct_epilogue_f32_run_avx512(args, rows, channel, lane, left, acc, width, true, false);
    else if (clamp) oct_epilogue_f32_run_avx512(args, rows, channel, lane, left, acc, width, false, true);
    else oct_epilogue_f32_run_avx512(args, rows, channel, lane, left, acc, width, false, false);
  }
}

static inline void oct_epilogue_s32_16_avx512(const oct_direct_rows *rows, int lane, __mmask16 mask, const int32_t *acc, int width) {
  for (int r = 0; r < rows->count; r++)
    _mm512_mask_storeu_epi32((int32_t *)rows->out[r] + lane, mask, _mm512_load_si512(acc + r * width + lane));
}

/* The bits of the largest of `count` multipliers. */
static inline __m512i oct_largest512(const float *multiplier, int count) {
  __m512i largest = _mm512_maskz_loadu_epi32(oct_mask16(count), multiplier);
  for (int i = 16; i < count; i += 16) largest = _mm512_max_epu32(largest, _mm512_maskz_loadu_epi32(oct_mask16(count - i), multiplier + i));
  return largest;
}

/* Profile onnx. */
static inline void oct_epilogue_u8_avx512(const oct_conv_i8_args *args, const oct_direct_rows *rows, int64_t channel, int count,
                                          const int32_t *acc, int width) {
  const oct_epilogue_i8 *e = &args->epilogue;
  const bool residual = args->residual.data != NULL;
  if (e->table) {
    if (residual) oct_epilogue_onnx_avx512(e, rows, channel, count, acc, width, true, true, OCT_FINISH_CLAMP);
    else oct_epilogue_onnx_avx512(e, rows, channel, count, acc, width, false, true, OCT_FINISH_CLAMP);
    return;
  }
  switch (oct_finish512_of(e, oct_largest512(e->multiplier + channel, count), residual)) {
    case OCT_FINISH_PLAIN:
      if (residual) oct_epilogue_onnx_avx512(e, rows, channel, count, acc, width, true, false, OCT_FINISH_PLAIN);
      else oct_epilogue_onnx_avx512(e, rows, channel, count, acc, width, false, false, OCT_FINISH_PLAIN);
      return;
    case OCT_FINISH_SATURATE:
      if (residual) oct_epilogue_onnx_avx512(e, rows, channel, count, acc, width, true, false, OCT_FINISH_SATURATE);
      else oct_epilogue_onnx_avx512(e, rows, channel, count, acc, width, false, false, OCT_FINISH_SATURATE);
      return;
    case OCT_FINISH_CLAMP:
      if (residual) oct_epilogue_onnx_avx512(e, rows, channel, count, acc, width, true, false, OCT_FINISH_CLAMP);
      else oct_epilogue_onnx_avx512(e, rows, channel, count, acc, width, false, false, OCT_FINISH_CLAMP);
      return;
  }
}

/* An oct_direct_epilogue_fn. acc is aligned to 64 bytes, width is a multiple of 16. */
static inline void oct_epilogue_i8_avx512(const oct_conv_i8_args *args, const oct_direct_rows *rows, int64_t channel, int count,
                                          const int32_t *acc, int width) {
  const oct_epilogue_i8 *e = &args->epilogue;
  if (e->out == OCT_EPILOGUE_U8 && e->profile == OCT_PROFILE_ONNX) {
    oct_epilogue_u8_avx512(args, rows, channel, count, acc, width);
    return;
  }
  if (e->out == OCT_EPILOGUE_U8) {
    oct_epilogue_tflite_avx512(e, rows, channel, count, acc, width);
    return;
  }
  if (e->out == OCT_EPILOGUE_ROUNDED) {
    oct_epilogue_rounded_avx512(e, rows, channel, count, acc, width);
    return;
  }
  if (e->out == OCT_EPILOGUE_F32) {
    oct_epilogue_f32_avx512(args, rows, channel, count, acc, width);
    return;
  }
  for (int lane = 0; lane < count; lane += 16) {
    int left = count - lane < 16 ? count - lane : 16;
    oct_epilogue_s32_16_avx512(rows, lane, oct_mask16(left), acc, width);
  }
}

#endif
