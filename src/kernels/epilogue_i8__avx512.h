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

typedef struct oct_quantize512 {
  __m512 low, high; /* less the zero point */
  __m512i zero_point;
} oct_quantize512;

static inline oct_quantize512 oct_quantize512_of(const oct_epilogue_i8 *e) {
  return (oct_quantize512){_mm512_set1_ps((float)(e->low - e->zero_point)), _mm512_set1_ps((float)(e->high - e->zero_point)), _mm512_set1_epi32(e->zero_point)};
}

static inline __m512i oct_requantize_ps512(__m512 t, const oct_quantize512 *q) {
  return _mm512_add_epi32(_mm512_cvtps_epi32(oct_clamp_ps512(t, q->low, q->high)), q->zero_point);
}

/* table[q] for q in 0..255, in registers: 128 words of two entries each, the entry picked by the lowest bit. */
static inline __m512i oct_table512(__m512i q, const uint8_t *table) {
  const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + 64), t2 = _mm512_loadu_si512(table + 128), t3 = _mm512_loadu_si512(table + 192);
  __m512i word = _mm512_srli_epi32(q, 1);
  __mmask16 upper = _mm512_test_epi32_mask(q, _mm512_set1_epi32(128));
  __m512i entries = _mm512_mask_mov_epi32(_mm512_permutex2var_epi16(t0, word, t1), upper, _mm512_permutex2var_epi16(t2, word, t3));
  __m512i shift = _mm512_slli_epi32(_mm512_and_si512(q, _mm512_set1_epi32(1)), 3);
  return _mm512_and_si512(_mm512_srlv_epi32(entries, shift), _mm512_set1_epi32(255));
}

/* Profile tflite. A float multiplier's 24-bit mantissa, shifted up, is exactly what oct_fixed_point() gives. */
typedef struct oct_fixed512 {
  __m512i mantissa, left, right;
} oct_fixed512;

static inline oct_fixed512 oct_fixed512_of(__m512 multiplier) {
  __m512i bits = _mm512_castps_si512(multiplier), exponent = _mm512_sub_epi32(_mm512_and_si512(_mm512_srli_epi32(bits, 23), _mm512_set1_epi32(255)), _mm512_set1_epi32(126));
  __m512i fraction = _mm512_or_si512(_mm512_and_si512(bits, _mm512_set1_epi32(0x7FFFFF)), _mm512_set1_epi32(0x800000));
  __mmask16 usable = _mm512_cmpge_epi32_mask(exponent, _mm512_set1_epi32(-31));
  __m512i zero = _mm512_setzero_si512();
  exponent = _mm512_maskz_mov_epi32(usable, exponent);
  return (oct_fixed512){_mm512_maskz_slli_epi32(usable, fraction, 7), _mm512_max_epi32(exponent, zero), _mm512_sub_epi32(zero, _mm512_min_epi32(exponent, zero))};
}

static inline __m512i oct_requantize_fixed512(__m512i acc, const oct_fixed512 *f, const oct_epilogue_i8 *e) {
  const __m512i nudge = _mm512_set1_epi64(1 << 30), one = _mm512_set1_epi32(1);
  __m512i a = _mm512_sllv_epi32(acc, f->left);
  __m512i even = _mm512_srli_epi64(_mm512_add_epi64(_mm512_mul_epi32(a, f->mantissa), nudge), 31);
  __m512i odd = _mm512_slli_epi64(_mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(f->mantissa, 32)), nudge), 1);
  __m512i x = _mm512_mask_blend_epi32(0xAAAA, even, odd);
  __m512i mask = _mm512_sub_epi32(_mm512_sllv_epi32(one, f->right), one), negative = _mm512_srli_epi32(x, 31);
  __m512i threshold = _mm512_add_epi32(_mm512_srli_epi32(mask, 1), negative);
  __mmask16 up = _mm512_cmpgt_epi32_mask(_mm512_and_si512(x, mask), threshold);
  x = _mm512_srav_epi32(x, f->right);
  x = _mm512_mask_add_epi32(x, up, x, one);
  x = _mm512_max_epi32(x, _mm512_set1_epi32(e->low - e->zero_point));
  x = _mm512_min_epi32(x, _mm512_set1_epi32(e->high - e->zero_point));
  return _mm512_add_epi32(x, _mm512_set1_epi32(e->zero_point));
}

/* 64 channels, profile onnx, no residual, no table: the case that most layers are. */
static inline void oct_epilogue_u8_64_avx512(const oct_epilogue_i8 *e, const oct_direct_rows *rows, int64_t channel, const int32_t *acc) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), zero_point = _mm512_set1_epi16((short)e->zero_point);
  const oct_quantize512 q = oct_quantize512_of(e);
  const __m512 m0 = _mm512_loadu_ps(e->multiplier + channel), m1 = _mm512_loadu_ps(e->multiplier + channel + 16);
  const __m512 m2 = _mm512_loadu_ps(e->multiplier + channel + 32), m3 = _mm512_loadu_ps(e->multiplier + channel + 48);
#define QUANTIZED(i) _mm512_cvtps_epi32(oct_clamp_ps512(_mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_load_si512(acc + 16 * i)), m##i), q.low, q.high))
  for (int r = 0; r < rows->count; r++, acc += 64) {
    __m512i a = _mm512_add_epi16(_mm512_packs_epi32(QUANTIZED(0), QUANTIZED(1)), zero_point);
    __m512i b = _mm512_add_epi16(_mm512_packs_epi32(QUANTIZED(2), QUANTIZED(3)), zero_point);
    _mm512_storeu_si512(rows->out[r], _mm512_permutexvar_epi32(order, _mm512_packus_epi16(a, b)));
  }
#undef QUANTIZED
}

static inline void oct_epilogue_u8_16_avx512(const oct_conv_i8_args *args, const oct_direct_rows *rows, int64_t channel, int lane, __mmask16 mask, const int32_t *acc, int width) {
  const oct_epilogue_i8 *e = &args->epilogue;
  const __m512 multiplier = _mm512_maskz_loadu_ps(mask, e->multiplier + channel + lane), residual_scale = _mm512_set1_ps(e->residual_scale);
  const oct_quantize512 quantize = oct_quantize512_of(e);
  const oct_fixed512 fixed = oct_fixed512_of(multiplier);
  const bool tflite = e->profile == OCT_PROFILE_TFLITE, add = args->residual.data && !tflite;
  const __m512i residual_zero = _mm512_set1_epi32(e->residual_zero_point);
  for (int r = 0; r < rows->count; r++) {
    __m512i a = _mm512_load_si512(acc + r * width + lane), q;
    if (tflite) {
      q = oct_requantize_fixed512(a, &fixed, e);
    } else {
      __m512 t = _mm512_mul_ps(_mm512_cvtepi32_ps(a), multiplier);
      if (add) {
        __m512i x = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, rows->residual[r] + lane));
        t = _mm512_add_ps(t, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(x, residual_zero)), residual_scale));
      }
      q = oct_requantize_ps512(t, &quantize);
    }
    if (e->table) q = oct_table512(q, e->table);
    _mm_mask_storeu_epi8(rows->out[r] + lane, mask, _mm512_cvtepi32_epi8(q));
  }
}

static inline void oct_epilogue_f32_16_avx512(const oct_conv_i8_args *args, const oct_direct_rows *rows, int64_t channel, int lane, __mmask16 mask, const int32_t *acc, int width) {
  const oct_epilogue_i8 *e = &args->epilogue;
  const __m512 multiplier = _mm512_maskz_loadu_ps(mask, e->multiplier + channel + lane), low = _mm512_set1_ps(e->float_low), high = _mm512_set1_ps(e->float_high);
  const __m512 bias = e->float_bias ? _mm512_maskz_loadu_ps(mask, e->float_bias + channel + lane) : _mm512_setzero_ps();
  const __m512i sums = e->row_scale ? _mm512_maskz_loadu_epi32(mask, e->weight_sum + channel + lane) : _mm512_setzero_si512();
  for (int r = 0; r < rows->count; r++) {
    __m512i a = _mm512_load_si512(acc + r * width + lane);
    __m512 scale = multiplier;
    if (e->row_scale) {
      int64_t i = e->rows_per_scale == 1 ? rows->pixel + r : (rows->pixel + r) / e->rows_per_scale;
      a = _mm512_sub_epi32(a, _mm512_mullo_epi32(_mm512_set1_epi32(e->row_zero_point[i]), sums));
      scale = _mm512_mul_ps(_mm512_set1_ps(e->row_scale[i]), multiplier);
    }
    __m512 y = _mm512_mul_ps(_mm512_cvtepi32_ps(a), scale);
    if (e->float_bias) y = _mm512_add_ps(y, bias);
    if (args->residual.data) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, (const float *)rows->residual[r] + lane));
    _mm512_mask_storeu_ps((float *)rows->out[r] + lane, mask, oct_clamp_ps512(y, low, high));
  }
}

static inline void oct_epilogue_s32_16_avx512(const oct_direct_rows *rows, int lane, __mmask16 mask, const int32_t *acc, int width) {
  for (int r = 0; r < rows->count; r++) _mm512_mask_storeu_epi32((int32_t *)rows->out[r] + lane, mask, _mm512_load_si512(acc + r * width + lane));
}

/* An oct_direct_epilogue_fn. acc is aligned to 64 bytes, width is a multiple of 16. */
static inline void oct_epilogue_i8_avx512(const oct_conv_i8_args *args, const oct_direct_rows *rows, int64_t channel, int count, const int32_t *acc, int width) {
  const oct_epilogue_i8 *e = &args->epilogue;
  if (count == 64 && e->out == OCT_EPILOGUE_U8 && e->profile == OCT_PROFILE_ONNX && !args->residual.data && !e->table) {
    oct_epilogue_u8_64_avx512(e, rows, channel, acc);
    return;
  }
  for (int lane = 0; lane < count; lane += 16) {
    __mmask16 mask = oct_mask16(count - lane);
    if (e->out == OCT_EPILOGUE_U8) oct_epilogue_u8_16_avx512(args, rows, channel, lane, mask, acc, width);
    else if (e->out == OCT_EPILOGUE_F32) oct_epilogue_f32_16_avx512(args, rows, channel, lane, mask, acc, width);
    else oct_epilogue_s32_16_avx512(rows, lane, mask, acc, width);
  }
}

#endif
