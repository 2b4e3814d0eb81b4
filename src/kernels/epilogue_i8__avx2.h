/* The rules of epilogue_i8.h for 8 channels at a time (AVX2). Accumulators already contain the bias.
 * Multiplications and additions of floats stay apart (no FMA), so that every byte equals the scalar form.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_EPILOGUE_I8_AVX2_H
#define OCT_KERNELS_EPILOGUE_I8_AVX2_H

#include <immintrin.h>

#include "kernels/conv_i8_direct.h"

/* All bits set in the first `count` lanes. */
static inline __m256i oct_mask8(int count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* max and min keep their second operand when it is NaN or both are zero, as oct_clamp_f32() does. */
static inline __m256 oct_clamp_ps256(__m256 x, __m256 low, __m256 high) { return _mm256_min_ps(high, _mm256_max_ps(low, x)); }

/* Writes the low bytes of 8 lanes (values 0..255), or the first `count` of them. */
static inline void oct_store_u8_256(char *out, __m256i q, int count, const uint8_t *table) {
  __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
  uint64_t bytes = (uint64_t)_mm_cvtsi128_si64(_mm_packus_epi16(words, words));
  if (table) {
    uint64_t looked_up = 0;
    for (int i = 0; i < 64; i += 8) looked_up |= (uint64_t)table[(bytes >> i) & 255] << i;
    bytes = looked_up;
  }
  if (count >= 8) {
    memcpy(out, &bytes, 8);
    return;
  }
  for (int i = 0; i < count; i++, bytes >>= 8) out[i] = (char)(bytes & 255);
}

/* Profile tflite. A float multiplier's 24-bit mantissa, shifted up, is exactly what oct_fixed_point() gives. */
typedef struct oct_fixed256 {
  __m256i mantissa, left, right;
} oct_fixed256;

static inline oct_fixed256 oct_fixed256_of(__m256 multiplier) {
  __m256i bits = _mm256_castps_si256(multiplier),
          exponent = _mm256_sub_epi32(_mm256_and_si256(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(255)), _mm256_set1_epi32(126));
  __m256i fraction = _mm256_or_si256(_mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFF)), _mm256_set1_epi32(0x800000));
  __m256i usable = _mm256_cmpgt_epi32(exponent, _mm256_set1_epi32(-32)), zero = _mm256_setzero_si256();
  exponent = _mm256_and_si256(exponent, usable);
  return (oct_fixed256){_mm256_and_si256(_mm256_slli_epi32(fraction, 7), usable), _mm256_max_epi32(exponent, zero),
                        _mm256_sub_epi32(zero, _mm256_min_epi32(exponent, zero))};
}

static inline __m256i oct_requantize_fixed256(__m256i acc, const oct_fixed256 *f, const oct_epilogue_i8 *e) {
  const __m256i nudge = _mm256_set1_epi64x(1 << 30), one = _mm256_set1_epi32(1);
  __m256i a = _mm256_sllv_epi32(acc, f->left);
  __m256i even = _mm256_srli_epi64(_mm256_add_epi64(_mm256_mul_epi32(a, f->mantissa), nudge), 31);
  __m256i odd =
      _mm256_slli_epi64(_mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(f->mantissa, 32)), nudge), 1);
  __m256i x = _mm256_blend_epi32(even, odd, 0xAA);
  __m256i mask = _mm256_sub_epi32(_mm256_sllv_epi32(one, f->right), one), negative = _mm256_srli_epi32(x, 31);
  __m256i threshold = _mm256_add_epi32(_mm256_srli_epi32(mask, 1), negative);
  __m256i up = _mm256_cmpgt_epi32(_mm256_and_si256(x, mask), threshold);
  x = _mm256_sub_epi32(_mm256_srav_epi32(x, f->right), up);
  x = _mm256_max_epi32(x, _mm256_set1_epi32(e->low - e->zero_point));
  x = _mm256_min_epi32(x, _mm256_set1_epi32(e->high - e->zero_point));
  return _mm256_add_epi32(x, _mm256_set1_epi32(e->zero_point));
}

static inline void oct_epilogue_u8_8_avx2(const oct_conv_i8_args *args, const oct_direct_rows *rows, int64_t channel, int lane, int count,
                                          const int32_t *acc, int width) {
  const oct_epilogue_i8 *e = &args->epilogue;
  const __m256 multiplier = _mm256_maskload_ps(e->multiplier + channel + lane, oct_mask8(count)),
               residual_scale = _mm256_set1_ps(e->residual_scale);
  const __m256 low = _mm256_set1_ps((float)(e->low - e->zero_point)), high = _mm256_set1_ps((float)(e->high - e->zero_point));
  const __m256i zero_point = _mm256_set1_epi32(e->zero_point), residual_zero = _mm256_set1_epi32(e->residual_zero_point);
  const oct_fixed256 fixed = oct_fixed256_of(multiplier);
  const bool tflite = e->profile == OCT_PROFILE_TFLITE, add = args->residual.data && !tflite;
  for (int r = 0; r < rows->count; r++) {
    __m256i a = _mm256_load_si256((const __m256i *)(acc + r * width + lane)), q;
    if (tflite) {
      q = oct_requantize_fixed256(a, &fixed, e);
    } else {
      __m256 t = _mm256_mul_ps(_mm256_cvtepi32_ps(a), multiplier);
      if (add) {
        __m256i x = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(rows->residual[r] + lane)));
        t = _mm256_add_ps(t, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(x, residual_zero)), residual_scale));
      }
      q = _mm256_add_epi32(_mm256_cvtps_epi32(oct_clamp_ps256(t, low, high)), zero_point);
    }
    oct_store_u8_256(rows->out[r] + lane, q, count, e->table);
  }
}

/* oct_take_units() */
static inline __attribute__((always_inline)) __m256i oct_take_units256(__m256 *bias, __m256 multiplier) {
  const __m256 units = _mm256_div_ps(*bias, multiplier), size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), units);
  __m256 fits = _mm256_and_ps(_mm256_cmp_ps(multiplier, _mm256_setzero_ps(), _CMP_GT_OQ),
                              _mm256_cmp_ps(multiplier, _mm256_set1_ps(OCT_UNITS_MULTIPLIER), _CMP_LE_OQ));
  fits = _mm256_and_ps(fits, _mm256_cmp_ps(size, _mm256_set1_ps((float)OCT_MOST_UNITS), _CMP_LE_OQ));
  *bias = _mm256_andnot_ps(fits, *bias);
  return _mm256_and_si256(_mm256_castps_si256(fits), _mm256_cvtps_epi32(units));
}

static inline void oct_epilogue_f32_8_avx2(const oct_conv_i8_args *args, const oct_direct_rows *rows, int64_t channel, int lane, int count,
                                           const int32_t *acc, int width) {
  const oct_epilogue_i8 *e = &args->epilogue;
  const __m256i mask = oct_mask8(count);
  const bool rounded = e->out == OCT_EPILOGUE_ROUNDED;
  const __m256 multiplier = _mm256_maskload_ps(e->multiplier + channel + lane, mask);
  const __m256 low = _mm256_set1_ps(rounded ? (float)(e->low - e->zero_point) : e->float_low);
  const __m256 high = _mm256_set1_ps(rounded ? (float)(e->high - e->zero_point) : e->float_high);
  const __m256 bias = e->float_bias ? _mm256_maskload_ps(e->float_bias + channel + lane, mask) : _mm256_setzero_ps();
  const __m256i sums = e->row_scale ? _mm256_maskload_epi32(e->weight_sum + channel + lane, mask) : _mm256_setzero_si256();
  for (int r = 0; r < rows->count; r++) {
    __m256i a = _mm256_load_si256((const __m256i *)(acc + r * width + lane));
    __m256 scale = multiplier, rest = bias;
    if (e->row_scale) {
      int64_t i = oct_quotient(rows->pixel + r, e->rows_per_scale);
      a = _mm256_sub_epi32(a, _mm256_mullo_epi32(_mm256_set1_epi32(e->row_zero_point[i]), sums));
      scale = _mm256_mul_ps(_mm256_set1_ps(e->row_scale[i]), multiplier);
      if (rounded && e->float_bias) a = _mm256_add_epi32(a, oct_take_units256(&rest, scale));
    }
    __m256 y = _mm256_mul_ps(_mm256_cvtepi32_ps(a), scale);
    if (e->float_bias) y = _mm256_add_ps(y, rest);
    if (rounded) {
      __m256i q = _mm256_add_epi32(_mm256_cvtps_epi32(oct_clamp_ps256(y, low, high)), _mm256_set1_epi32(e->zero_point));
      oct_store_u8_256(rows->out[r] + lane, q, count, NULL);
      continue;
    }
    if (args->residual.data) y = _mm256_add_ps(y, _mm256_maskload_ps((const float *)(const void *)rows->residual[r] + lane, mask));
    _mm256_maskstore_ps((float *)(void *)rows->out[r] + lane, mask, oct_clamp_ps256(y, low, high));
  }
}

static inline void oct_epilogue_s32_8_avx2(const oct_direct_rows *rows, int lane, int count, const int32_t *acc, int width) {
  for (int r = 0; r < rows->count; r++)
    _mm256_maskstore_epi32((int *)(void *)rows->out[r] + lane, oct_mask8(count),
                           _mm256_load_si256((const __m256i *)(acc + r * width + lane)));
}

/* table[q] for 32 bytes: a shuffle looks up one block of 16 entries and gives 0 where the index's top bit is set, which a saturating
 * subtraction of 16 sets once its block is past; a block holds its entries XOR those of the block before, so that all blocks up to the right
 * one add up to it. Two halves of the table, the second with the index's top bit turned. */
typedef struct oct_table256 {
  __m256i blocks[16];
} oct_table256;

static inline void oct_table256_make(oct_table256 *t, const uint8_t *table) {
  for (int k = 0; k < 16; k++) {
    __m128i entries = _mm_loadu_si128((const __m128i *)(const void *)(table + 16 * k));
    if (k % 8) entries = _mm_xor_si128(entries, _mm_loadu_si128((const __m128i *)(const void *)(table + 16 * k - 16)));
    t->blocks[k] = _mm256_broadcastsi128_si256(entries);
  }
}

static inline __m256i oct_table256_look_up(const oct_table256 *t, __m256i lower) {
  __m256i upper = _mm256_xor_si256(lower, _mm256_set1_epi8(-128)), q = _mm256_setzero_si256();
  for (int k = 0; k < 8; k++) {
    q = _mm256_xor_si256(q, _mm256_xor_si256(_mm256_shuffle_epi8(t->blocks[k], lower), _mm256_shuffle_epi8(t->blocks[k + 8], upper)));
    lower = _mm256_subs_epi8(lower, _mm256_set1_epi8(16));
    upper = _mm256_subs_epi8(upper, _mm256_set1_epi8(16));
  }
  return q;
}

/* Writes the first `count` bytes. */
static inline void oct_store_bytes256(char *out, __m256i q, int count) {
  if (count >= 32) {
    _mm256_storeu_si256((__m256i *)(void *)out, q);
    return;
  }
  char bytes[32];
  _mm256_storeu_si256((__m256i *)(void *)bytes, q);
  if (count & 16) memcpy(out, bytes, 16);
  if (count & 8) memcpy(out + (count & 16), bytes + (count & 16), 8);
  for (int i = count & 24; i < count; i++) out[i] = bytes[i];
}

/* What 16 or 32 channels of profile onnx need. The lower bound is applied to bytes, the upper one also to floats, which could not be rounded. */
typedef struct oct_wide256 {
  __m256 multiplier[4], high_real, residual_scale;
  __m256i residual_zero, zero_point, low, high;
} oct_wide256;

static inline void oct_wide256_make(oct_wide256 *w, const oct_epilogue_i8 *e, int64_t channel, int count) {
  for (int i = 0; i < 4; i++)
    w->multiplier[i] = count > 8 * i ? _mm256_maskload_ps(e->multiplier + channel + 8 * i, oct_mask8(count - 8 * i)) : _mm256_setzero_ps();
  w->high_real = _mm256_set1_ps((float)(e->high - e->zero_point)), w->residual_scale = _mm256_set1_ps(e->residual_scale);
  w->residual_zero = _mm256_set1_epi32(e->residual_zero_point), w->zero_point = _mm256_set1_epi16((short)e->zero_point);
  w->low = _mm256_set1_epi8((char)e->low), w->high = _mm256_set1_epi8((char)e->high);
}

/* Channels 8 * i to 8 * i + 7 rounded, without the zero point. */
static inline __attribute__((always_inline)) __m256i oct_wide256_round(const oct_wide256 *w, int i, const int32_t *acc,
                                                                       const char *residual) {
  __m256 t = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_load_si256((const __m256i *)(const void *)(acc + 8 * i))), w->multiplier[i]);
  if (residual) {
    __m256i x = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(residual + 8 * i)));
    t = _mm256_add_ps(t, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(x, w->residual_zero)), w->residual_scale));
  }
  return _mm256_cvtps_epi32(_mm256_min_ps(w->high_real, t));
}

/* 32 channels (`vectors` 4) or 16 (2, in the lower half). */
static inline __attribute__((always_inline)) __m256i oct_wide256_bytes(const oct_wide256 *w, int vectors, const int32_t *acc,
                                                                       const char *residual) {
  __m256i a = _mm256_packs_epi32(oct_wide256_round(w, 0, acc, residual), oct_wide256_round(w, 1, acc, residual)), b = a;
  if (vectors > 2) b = _mm256_packs_epi32(oct_wide256_round(w, 2, acc, residual), oct_wide256_round(w, 3, acc, residual));
  __m256i q = _mm256_packus_epi16(_mm256_adds_epi16(a, w->zero_point), _mm256_adds_epi16(b, w->zero_point));
  q = _mm256_permutevar8x32_epi32(q, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  return _mm256_min_epu8(w->high, _mm256_max_epu8(w->low, q));
}

static inline __attribute__((always_inline)) void oct_epilogue_wide_avx2(const oct_conv_i8_args *args, const oct_direct_rows *rows,
                                                                         int64_t channel, int lane, int count, const int32_t *acc,
                                                                         int width, int vectors, bool residual, bool table) {
  oct_wide256 w;
  oct_table256 t;
  oct_wide256_make(&w, &args->epilogue, channel + lane, count);
  if (table) oct_table256_make(&t, args->epilogue.table);
  for (int r = 0; r < rows->count; r++) {
    __m256i q = oct_wide256_bytes(&w, vectors, acc + r * width + lane, residual ? rows->residual[r] + lane : NULL);
    if (table) q = oct_table256_look_up(&t, q);
    oct_store_bytes256(rows->out[r] + lane, q, count);
  }
}

/* Profile onnx: as many channels as 32 and 16 at a time hold; returns how many lanes are done. */
static inline int oct_epilogue_u8_wide_avx2(const oct_conv_i8_args *args, const oct_direct_rows *rows, int64_t channel, int count,
                                            const int32_t *acc, int width) {
  const bool residual = args->residual.data != NULL, table = args->epilogue.table != NULL;
  int lane = 0;
  while (width - lane >= 16 && count - lane > 8) {
    const int vectors = width - lane >= 32 && count - lane > 16 ? 4 : 2, left = (int)oct_min_i64(count - lane, 8 * vectors);
    if (vectors == 2) oct_epilogue_wide_avx2(args, rows, channel, lane, left, acc, width, 2, residual, table);
    else if (!residual && !table) oct_epilogue_wide_avx2(args, rows, channel, lane, left, acc, width, 4, false, false);
    else oct_epilogue_wide_avx2(args, rows, channel, lane, left, acc, width, 4, residual, table);
    lane += 8 * vectors;
  }
  return lane;
}

/* An oct_direct_epilogue_fn. acc is aligned to 32 bytes, width is a multiple of 8. */
static inline void oct_epilogue_i8_avx2(const oct_conv_i8_args *args, const oct_direct_rows *rows, int64_t channel, int count,
                                        const int32_t *acc, int width) {
  const oct_epilogue_i8 *e = &args->epilogue;
  int done = 0;
  if (e->out == OCT_EPILOGUE_U8 && e->profile == OCT_PROFILE_ONNX) done = oct_epilogue_u8_wide_avx2(args, rows, channel, count, acc, width);
  for (int lane = done; lane < count; lane += 8) {
    int left = count - lane < 8 ? count - lane : 8;
    if (e->out == OCT_EPILOGUE_U8) oct_epilogue_u8_8_avx2(args, rows, channel, lane, left, acc, width);
    else if (e->out != OCT_EPILOGUE_S32) oct_epilogue_f32_8_avx2(args, rows, channel, lane, left, acc, width);
    else oct_epilogue_s32_8_avx2(rows, lane, left, acc, width);
  }
}

#endif
