/* Depthwise 8-bit convolution, 16 output channels at a time: two taps' bytes interleaved, widened, multiplied and added in pairs.
 * Packed weights: [block of 16][pair of taps][2 halves][8 channels][2 taps], 16 bits each.
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_depthwise.h"
#include "kernels/epilogue_i8__avx2.h"

#define ROWS 16 /* pixels between epilogues */

static size_t packed_bytes(const oct_conv_shape *s) {
  return (size_t)((s->out_channels + 15) / 16 * 16) * (size_t)oct_depthwise_padded_taps(s, 2) * 2;
}

static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  int taps = s->kernel_h * s->kernel_w, padded = oct_depthwise_padded_taps(s, 2);
  int16_t *out = (int16_t *)packed;
  for (int64_t block = 0; block < s->out_channels; block += 16)
    for (int t = 0; t < padded; t += 2)
      for (int64_t c = block; c < block + 16; c++)
        for (int b = t; b < t + 2; b++) *out++ = c < s->out_channels && b < taps ? weights[c * taps + b] : 0;
}

static inline __m128i load16(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }
static inline __m256i load32(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

/* Two taps of a pixel, times their weights, onto 16 accumulators. */
static inline __attribute__((always_inline)) void two_taps(const uint8_t *in, const ptrdiff_t *offsets, __m256i w0, __m256i w1, bool repeat,
                                                           __m128i expand, __m256i *low, __m256i *high) {
  __m128i x = load16(in + offsets[0]), y = load16(in + offsets[1]);
  if (repeat) x = _mm_shuffle_epi8(x, expand), y = _mm_shuffle_epi8(y, expand);
  *low = _mm256_add_epi32(*low, _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(x, y)), w0));
  *high = _mm256_add_epi32(*high, _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_unpackhi_epi8(x, y)), w1));
}

/* acc[rows->count][16], two pixels at a time; of an odd number the last is done twice. `repeat`, a constant wherever this is inlined:
 * the multiplier is above 1. */
static inline __attribute__((always_inline)) void tile(const oct_direct_rows *rows, const ptrdiff_t *offsets, int taps,
                                                       const int16_t *weights, bool repeat, __m128i expand, __m256i b0, __m256i b1,
                                                       int32_t *acc) {
  for (int r = 0; r < rows->count; r += 2) {
    int next = r + 1 < rows->count ? r + 1 : r;
    const uint8_t *first = rows->in[r], *second = rows->in[next];
    __m256i low0 = b0, high0 = b1, low1 = b0, high1 = b1;
    const int16_t *w = weights;
    for (int t = 0; t < taps; t += 2, w += 32) {
      const __m256i w0 = load32(w), w1 = load32(w + 16);
      two_taps(first, offsets + t, w0, w1, repeat, expand, &low0, &high0);
      two_taps(second, offsets + t, w0, w1, repeat, expand, &low1, &high1);
    }
    _mm256_store_si256((__m256i *)(void *)(acc + 16 * r), low0);
    _mm256_store_si256((__m256i *)(void *)(acc + 16 * r + 8), high0);
    _mm256_store_si256((__m256i *)(void *)(acc + 16 * next), low1);
    _mm256_store_si256((__m256i *)(void *)(acc + 16 * next + 8), high1);
  }
}

static void block(const oct_conv_i8_args *a, const ptrdiff_t *offsets, int taps, int64_t first, int64_t last, int64_t channel) {
  const oct_conv_shape *s = &a->shape;
  int64_t multiplier = oct_quotient(s->out_channels, s->channels);
  int count = (int)oct_min_i64(16, s->out_channels - channel);
  uint8_t index[16];
  oct_depthwise_expand(channel, multiplier, index);
  const __m128i expand = load16(index);
  const int16_t *w = (const int16_t *)a->packed + channel * taps;
  const int32_t *bias = a->epilogue.bias ? a->epilogue.bias + channel : NULL;
  const __m256i b0 = bias ? load32(bias) : _mm256_setzero_si256(), b1 = bias ? load32(bias + 8) : _mm256_setzero_si256();
  int32_t acc[ROWS * 16] __attribute__((aligned(32)));
  oct_direct_cursor cursor = oct_direct_cursor_at(a, first, channel / multiplier, channel);
  oct_direct_rows rows;
  for (int64_t p = first; p < last; p += ROWS) {
    oct_direct_cursor_take(&cursor, (int)oct_min_i64(ROWS, last - p), &rows);
    if (multiplier == 1) tile(&rows, offsets, taps, w, false, expand, b0, b1, acc);
    else tile(&rows, offsets, taps, w, true, expand, b0, b1, acc);
    oct_epilogue_i8_avx2(a, &rows, channel, count, acc, 16);
  }
}

static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  oct_depthwise_run(a, begin, end, 2, 16, block);
}

const oct_conv_i8_kernel oct_conv_i8_depthwise__avx2 = {
    .name = "conv_i8_depthwise__avx2",
    .isa = OCT_ISA_AVX2,
    .preference = 350,
    .reject = oct_depthwise_reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = oct_depthwise_units,
    .run = run,
};
