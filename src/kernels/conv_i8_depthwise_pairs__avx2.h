/* Depthwise 8-bit convolution with AVX2, 32 channels at a time: two taps' bytes are interleaved, and every weight is split into
 * 16 * h + l with h and l in -8..8, so that vpmaddubsw cannot saturate (2 * 255 * 8) and sums of up to 16 taps fit 16 bits
 * (16 * 255 * 8 = 32640). Only then they are widened, as 16 * (sum of h) + (sum of l): exact.
 *
 * A pair's weights are 128 bytes: l of channels 0-7 and 16-23 (two taps each), l of 8-15 and 24-31, then h in the same order.
 * Accumulators c0..c3 hold channels 0-3 and 16-19, 4-7 and 20-23, 8-11 and 24-27, 12-15 and 28-31.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_DEPTHWISE_PAIRS_AVX2_H
#define OCT_KERNELS_CONV_I8_DEPTHWISE_PAIRS_AVX2_H

#include "kernels/conv_i8_depthwise.h"
#include "kernels/epilogue_i8__avx2.h"

#define OCT_PAIR_BYTES 128
#define OCT_PAIR_SUM 8 /* most pairs in one sum of 16 bits */

typedef struct oct_pair256 {
  __m256i low, high; /* channels 0-7 and 16-23, channels 8-15 and 24-31; two taps side by side */
} oct_pair256;

typedef struct oct_sums256 {
  __m256i c0, c1, c2, c3;
} oct_sums256;

static inline __m256i oct_load256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline oct_pair256 oct_pair256_of(__m256i x, __m256i y) {
  return (oct_pair256){_mm256_unpacklo_epi8(x, y), _mm256_unpackhi_epi8(x, y)};
}

/* Puts one tap's weight of the block's channel `lane` into its pair; `second`: which of the two taps. */
static inline void oct_pair_put(int8_t *pair, int lane, bool second, int8_t weight) {
  int low = ((weight + 8) & 15) - 8, high = (weight - low) / 16;
  int8_t *at = pair + lane / 8 % 2 * 32 + lane / 16 * 16 + lane % 8 * 2 + second;
  at[0] = (int8_t)low, at[64] = (int8_t)high;
}

/* The sums of half a pair; w is at that half's l. */
static inline __attribute__((always_inline)) void oct_pair_half(__m256i x, const int8_t *w, __m256i *l, __m256i *h) {
  *l = _mm256_add_epi16(*l, _mm256_maddubs_epi16(x, oct_load256(w)));
  *h = _mm256_add_epi16(*h, _mm256_maddubs_epi16(x, oct_load256(w + 64)));
}

static inline __attribute__((always_inline)) void oct_pair_widen(__m256i l, __m256i h, __m256i *c0, __m256i *c1) {
  const __m256i factors = _mm256_set1_epi32(1 << 16 | 16); /* 16 * h + l */
  *c0 = _mm256_add_epi32(*c0, _mm256_madd_epi16(_mm256_unpacklo_epi16(h, l), factors));
  *c1 = _mm256_add_epi32(*c1, _mm256_madd_epi16(_mm256_unpackhi_epi16(h, l), factors));
}

/* 32 numbers per channel in the accumulators' order; NULL: zeros. */
static inline oct_sums256 oct_sums256_load(const int32_t *p) {
  if (!p) return (oct_sums256){_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
  __m256i a = oct_load256(p), b = oct_load256(p + 8), c = oct_load256(p + 16), d = oct_load256(p + 24);
  return (oct_sums256){_mm256_permute2x128_si256(a, c, 0x20), _mm256_permute2x128_si256(a, c, 0x31), _mm256_permute2x128_si256(b, d, 0x20),
                       _mm256_permute2x128_si256(b, d, 0x31)};
}

/* acc[32] in the order of channels. */
static inline void oct_sums256_store(int32_t *acc, const oct_sums256 *c) {
  _mm256_store_si256((__m256i *)(void *)acc, _mm256_permute2x128_si256(c->c0, c->c1, 0x20));
  _mm256_store_si256((__m256i *)(void *)(acc + 8), _mm256_permute2x128_si256(c->c2, c->c3, 0x20));
  _mm256_store_si256((__m256i *)(void *)(acc + 16), _mm256_permute2x128_si256(c->c0, c->c1, 0x31));
  _mm256_store_si256((__m256i *)(void *)(acc + 24), _mm256_permute2x128_si256(c->c2, c->c3, 0x31));
}

/* One block's epilogue. `plain` (bytes of profile onnx without residual) goes from accumulators to bytes with no detour. */
typedef struct oct_pair_epilogue {
  bool plain, table;
  int count;
  oct_sums256 multiplier; /* floats */
  __m256 high_real;
  __m256i zero_point, low, high;
  oct_table256 look_up;
} oct_pair_epilogue;

static inline void oct_pair_epilogue_make(oct_pair_epilogue *p, const oct_conv_i8_args *a, int64_t channel, int count) {
  const oct_epilogue_i8 *e = &a->epilogue;
  p->plain = e->out == OCT_EPILOGUE_U8 && e->profile == OCT_PROFILE_ONNX && !a->residual.data;
  p->table = p->plain && e->table;
  p->count = count;
  if (!p->plain) return;
  p->multiplier = oct_sums256_load((const int32_t *)(const void *)(e->multiplier + channel));
  p->high_real = _mm256_set1_ps((float)(e->high - e->zero_point));
  p->zero_point = _mm256_set1_epi16((short)e->zero_point);
  p->low = _mm256_set1_epi8((char)e->low), p->high = _mm256_set1_epi8((char)e->high);
  if (p->table) oct_table256_make(&p->look_up, e->table);
}

static inline __attribute__((always_inline)) __m256i oct_pair_round(__m256i c, __m256i multiplier, __m256 high) {
  return _mm256_cvtps_epi32(_mm256_min_ps(high, _mm256_mul_ps(_mm256_cvtepi32_ps(c), _mm256_castsi256_ps(multiplier))));
}

static inline __attribute__((always_inline)) void oct_pair_store_plain(char *out, const oct_sums256 *c, const oct_pair_epilogue *p) {
  __m256i a =
      _mm256_packs_epi32(oct_pair_round(c->c0, p->multiplier.c0, p->high_real), oct_pair_round(c->c1, p->multiplier.c1, p->high_real));
  __m256i b =
      _mm256_packs_epi32(oct_pair_round(c->c2, p->multiplier.c2, p->high_real), oct_pair_round(c->c3, p->multiplier.c3, p->high_real));
  __m256i q = _mm256_packus_epi16(_mm256_adds_epi16(a, p->zero_point), _mm256_adds_epi16(b, p->zero_point));
  q = _mm256_min_epu8(p->high, _mm256_max_epu8(p->low, q));
  if (p->table) q = oct_table256_look_up(&p->look_up, q);
  oct_store_bytes256(out, q, p->count);
}

#endif
