/* Depthwise helpers for 64 channels (AVX-512 BW): four taps of 64 bytes, interleaved bytewise, give four vectors of 16 channels in an
 * order of their own: quarter j, lane l holds channels 16l + 4j .. + 3. Weights, biases and multipliers are taken in that order, and
 * packing to bytes undoes it.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_QUARTERS_AVX512VNNI_H
#define OCT_KERNELS_CONV_I8_QUARTERS_AVX512VNNI_H

#include "kernels/conv_i8_depthwise.h"
#include "kernels/epilogue_i8__avx512.h"

typedef struct oct_quarters {
  __m512i q0, q1, q2, q3;
} oct_quarters;

/* Channel within the block of lane i of quarter j. */
static inline int64_t oct_quarter_channel(int j, int i) { return i / 4 * 16 + j * 4 + i % 4; }

/* Rows of four 128-bit lanes against columns: from 64 channels in their natural order to quarters, and back. */
static inline oct_quarters oct_quarters_transpose(oct_quarters v) {
  __m512i a = _mm512_shuffle_i32x4(v.q0, v.q1, 0x44), b = _mm512_shuffle_i32x4(v.q0, v.q1, 0xEE);
  __m512i c = _mm512_shuffle_i32x4(v.q2, v.q3, 0x44), d = _mm512_shuffle_i32x4(v.q2, v.q3, 0xEE);
  return (oct_quarters){_mm512_shuffle_i32x4(a, c, 0x88), _mm512_shuffle_i32x4(a, c, 0xDD), _mm512_shuffle_i32x4(b, d, 0x88),
                        _mm512_shuffle_i32x4(b, d, 0xDD)};
}

/* 64 values of 32 bits; NULL gives zeros. */
static inline oct_quarters oct_quarters_load(const void *values) {
  const int32_t *v = (const int32_t *)values;
  if (!v) return (oct_quarters){_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
  return oct_quarters_transpose(
      (oct_quarters){_mm512_loadu_si512(v), _mm512_loadu_si512(v + 16), _mm512_loadu_si512(v + 32), _mm512_loadu_si512(v + 48)});
}

/* The same for 64, 32 or 16 values, repeated 1, 2 or 4 times. */
static inline oct_quarters oct_quarters_repeat(const void *values, int times) {
  int32_t lanes[64];
  if (!values || times == 1) return oct_quarters_load(values);
  for (int i = 0; i < times; i++) memcpy(lanes + i * (64 / times), values, (size_t)(64 / times) * 4);
  return oct_quarters_load(lanes);
}

/* Four taps of 64 channels, side by side for each channel. */
static inline oct_quarters oct_quarters_interleave(__m512i r0, __m512i r1, __m512i r2, __m512i r3) {
  __m512i low01 = _mm512_unpacklo_epi8(r0, r1), high01 = _mm512_unpackhi_epi8(r0, r1), low23 = _mm512_unpacklo_epi8(r2, r3),
          high23 = _mm512_unpackhi_epi8(r2, r3);
  return (oct_quarters){_mm512_unpacklo_epi16(low01, low23), _mm512_unpackhi_epi16(low01, low23), _mm512_unpacklo_epi16(high01, high23),
                        _mm512_unpackhi_epi16(high01, high23)};
}

static inline oct_quarters oct_quarters_dot(oct_quarters acc, oct_quarters x, const int8_t *w) {
  return (oct_quarters){
      _mm512_dpbusd_epi32(acc.q0, x.q0, _mm512_loadu_si512(w)), _mm512_dpbusd_epi32(acc.q1, x.q1, _mm512_loadu_si512(w + 64)),
      _mm512_dpbusd_epi32(acc.q2, x.q2, _mm512_loadu_si512(w + 128)), _mm512_dpbusd_epi32(acc.q3, x.q3, _mm512_loadu_si512(w + 192))};
}

/* One block's epilogue. DETOUR: by oct_epilogue_i8_avx512(). The others go from quarters to bytes at once: profile onnx with neither residual
 * nor table, and SHIFTED, which is rounded floats of one scale. */
typedef enum oct_quarters_kind {
  OCT_QUARTERS_DETOUR,
  OCT_QUARTERS_PLAIN,
  OCT_QUARTERS_SATURATE,
  OCT_QUARTERS_CLAMP,
  OCT_QUARTERS_SHIFTED
} oct_quarters_kind;

typedef struct oct_quarters_epilogue {
  oct_quarters_kind kind;
  oct_quarters multiplier, float_bias;
  oct_quantize512 quantize;
  __mmask64 mask;
} oct_quarters_epilogue;

static inline oct_quarters_kind oct_quarters_kind_of(const oct_conv_i8_args *a, int64_t channel, int count) {
  const oct_epilogue_i8 *e = &a->epilogue;
  if (e->out == OCT_EPILOGUE_ROUNDED && !e->row_scale) return OCT_QUARTERS_SHIFTED;
  if (e->out != OCT_EPILOGUE_U8 || e->profile != OCT_PROFILE_ONNX || a->residual.data || e->table) return OCT_QUARTERS_DETOUR;
  switch (oct_finish512_of(e, oct_largest512(e->multiplier + channel, count), false)) {
    case OCT_FINISH_PLAIN: return OCT_QUARTERS_PLAIN;
    case OCT_FINISH_SATURATE: return OCT_QUARTERS_SATURATE;
    case OCT_FINISH_CLAMP: break;
  }
  return OCT_QUARTERS_CLAMP;
}

/* `count` channels from `channel` on, which are repeated `times` times within the 64: 1, 2 or 4. */
static inline oct_quarters_epilogue oct_quarters_epilogue_of(const oct_conv_i8_args *a, int64_t channel, int count, int times) {
  const oct_epilogue_i8 *e = &a->epilogue;
  oct_quarters_epilogue q = {.kind = oct_quarters_kind_of(a, channel, count)};
  const bool direct = q.kind != OCT_QUARTERS_DETOUR, shifted = q.kind == OCT_QUARTERS_SHIFTED && e->float_bias;
  q.multiplier = oct_quarters_repeat(direct ? e->multiplier + channel : NULL, times);
  q.float_bias = oct_quarters_repeat(shifted ? e->float_bias + channel : NULL, times);
  if (direct) q.quantize = oct_quantize512_of(e);
  q.mask = count == 64 ? ~(__mmask64)0 : ((__mmask64)1 << count) - 1;
  return q;
}

static inline __m512i oct_quarter_shifted(__m512i c, __m512i multiplier, __m512i bias, const oct_quantize512 *q) {
  __m512 t = _mm512_mul_ps(_mm512_cvtepi32_ps(c), _mm512_castsi512_ps(multiplier));
  return _mm512_cvtps_epi32(oct_clamp_ps512(_mm512_add_ps(t, _mm512_castsi512_ps(bias)), q->low, q->high));
}

static inline __m512i oct_quarters_bytes_shifted(oct_quarters c, const oct_quarters_epilogue *e) {
  const oct_quantize512 *q = &e->quantize;
  return oct_pack_lanes512(oct_quarter_shifted(c.q0, e->multiplier.q0, e->float_bias.q0, q),
                           oct_quarter_shifted(c.q1, e->multiplier.q1, e->float_bias.q1, q),
                           oct_quarter_shifted(c.q2, e->multiplier.q2, e->float_bias.q2, q),
                           oct_quarter_shifted(c.q3, e->multiplier.q3, e->float_bias.q3, q), q, OCT_FINISH_CLAMP);
}

/* `finish` is a constant wherever this is inlined. */
static inline __attribute__((always_inline)) __m512i oct_quarters_bytes_as(oct_quarters c, const oct_quarters_epilogue *e,
                                                                           oct_finish512 finish) {
  const oct_quantize512 *q = &e->quantize;
  const __m512 m0 = _mm512_castsi512_ps(e->multiplier.q0), m1 = _mm512_castsi512_ps(e->multiplier.q1);
  const __m512 m2 = _mm512_castsi512_ps(e->multiplier.q2), m3 = _mm512_castsi512_ps(e->multiplier.q3);
  return oct_pack_lanes512(oct_quantize_ps512(c.q0, m0, NULL, q, finish), oct_quantize_ps512(c.q1, m1, NULL, q, finish),
                           oct_quantize_ps512(c.q2, m2, NULL, q, finish), oct_quantize_ps512(c.q3, m3, NULL, q, finish), q, finish);
}

/* 64 bytes in natural order; not for DETOUR. */
static inline __attribute__((always_inline)) __m512i oct_quarters_bytes(oct_quarters c, const oct_quarters_epilogue *e) {
  if (e->kind == OCT_QUARTERS_PLAIN) return oct_quarters_bytes_as(c, e, OCT_FINISH_PLAIN);
  if (e->kind == OCT_QUARTERS_SATURATE) return oct_quarters_bytes_as(c, e, OCT_FINISH_SATURATE);
  if (e->kind == OCT_QUARTERS_CLAMP) return oct_quarters_bytes_as(c, e, OCT_FINISH_CLAMP);
  return oct_quarters_bytes_shifted(c, e);
}

/* acc[64], in natural order, for oct_epilogue_i8_avx512(). */
static inline void oct_quarters_store_acc(int32_t *acc, oct_quarters c) {
  c = oct_quarters_transpose(c);
  _mm512_store_si512(acc, c.q0);
  _mm512_store_si512(acc + 16, c.q1);
  _mm512_store_si512(acc + 32, c.q2);
  _mm512_store_si512(acc + 48, c.q3);
}

#endif
