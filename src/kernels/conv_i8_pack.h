/* Packing weights of 8-bit convolution: they come as [output channel][input channel][tap], and kernels want the input channels of a tap side
 * by side, some output channels in turn.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_PACK_H
#define OCT_KERNELS_CONV_I8_PACK_H

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define OCT_PACK_OUT 16 /* output channels whose weights are packed together: cache lines are then filled at once */
#define OCT_PACK_IN 64  /* and input channels */
#define OCT_PACK_TAPS 9

/* The bytes w[channel][9] of `n` channels, a multiple of 4, to rows[tap][channel]. */
static inline void oct_pack_split(const int8_t *w, int64_t n, int8_t rows[OCT_PACK_TAPS][OCT_PACK_IN]) {
  for (int64_t c = 0; c < n; c += 4, w += 4 * OCT_PACK_TAPS) {
#if defined(__SSE2__)
#define ROW(k) _mm_loadl_epi64((const __m128i *)(const void *)(w + (k)*OCT_PACK_TAPS))
    const __m128i low = _mm_unpacklo_epi8(ROW(0), ROW(1)), high = _mm_unpacklo_epi8(ROW(2), ROW(3));
#undef ROW
    int8_t quads[8][4];
    _mm_storeu_si128((__m128i *)(void *)quads[0], _mm_unpacklo_epi16(low, high));
    _mm_storeu_si128((__m128i *)(void *)quads[4], _mm_unpackhi_epi16(low, high));
    for (int t = 0; t < 8; t++) memcpy(rows[t] + c, quads[t], 4);
    const int first = 8;
#else
    const int first = 0;
#endif
    for (int t = first; t < OCT_PACK_TAPS; t++)
      for (int k = 0; k < 4; k++) rows[t][c + k] = w[k * OCT_PACK_TAPS + t];
  }
}

/* The weights of tap t of `n` input channels, a multiple of 4 and at most OCT_PACK_IN, one after the other; w: [channel][taps]. To be asked
 * for all taps in their order, with the same rows. */
static inline const int8_t *oct_pack_row(const int8_t *w, int64_t n, int64_t taps, int64_t t, int8_t rows[OCT_PACK_TAPS][OCT_PACK_IN]) {
  if (taps == 1) return w;
  if (taps == OCT_PACK_TAPS) {
    if (t == 0) oct_pack_split(w, n, rows);
    return rows[t];
  }
  for (int64_t c = 0; c < n; c++) rows[0][c] = w[c * taps + t];
  return rows[0];
}

#endif
