/* Depthwise 8-bit convolution, 16 output channels at a time, any channel multiplier: four taps' bytes are brought side by side
 * for each channel, then one dot product serves 16 channels. For few channels and for multipliers above 1.
 * Packed weights: [block of 16][group of 4 taps][16 channels][4 taps].
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_depthwise.h"
#include "kernels/epilogue_i8__avx512.h"

#define ROWS 16 /* pixels between epilogues */

static size_t packed_bytes(const oct_conv_shape *s) {
  return (size_t)((s->out_channels + 15) / 16 * 16) * (size_t)oct_depthwise_padded_taps(s, 4);
}

static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  int taps = s->kernel_h * s->kernel_w, padded = oct_depthwise_padded_taps(s, 4);
  int8_t *out = (int8_t *)packed;
  for (int64_t block = 0; block < s->out_channels; block += 16)
    for (int t = 0; t < padded; t += 4)
      for (int64_t c = block; c < block + 16; c++)
        for (int b = t; b < t + 4; b++) *out++ = c < s->out_channels && b < taps ? weights[c * taps + b] : 0;
}

static inline __m128i load16(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }

/* Hides that a value is constant: clang 14 would turn two shuffles by constants into ten. */
static inline __m512i opaque(__m512i x) {
  __asm__("" : "+v"(x));
  return x;
}

/* Lane l of the result: the four taps of channels 4l .. 4l+3. */
static inline __m512i gather_taps(const uint8_t *in, const ptrdiff_t *offsets, __m512i expand, __m512i order, __m512i transpose) {
  __m512i x = _mm512_castsi128_si512(load16(in + offsets[0]));
  x = _mm512_inserti32x4(x, load16(in + offsets[1]), 1);
  x = _mm512_inserti32x4(x, load16(in + offsets[2]), 2);
  x = _mm512_inserti32x4(x, load16(in + offsets[3]), 3);
  return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(order, _mm512_shuffle_epi8(x, expand)), transpose);
}

static void block(const oct_conv_i8_args *a, const ptrdiff_t *offsets, int taps, int64_t first, int64_t last, int64_t channel) {
  const oct_conv_shape *s = &a->shape;
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i transpose = opaque(_mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)));
  int64_t multiplier = s->out_channels / s->channels;
  int count = (int)oct_min_i64(16, s->out_channels - channel);
  uint8_t index[16];
  oct_depthwise_expand(channel, multiplier, index);
  const __m512i expand = _mm512_broadcast_i32x4(load16(index));
  const __m512i bias = a->epilogue.bias ? _mm512_loadu_si512(a->epilogue.bias + channel) : _mm512_setzero_si512();
  int32_t acc[ROWS * 16] __attribute__((aligned(64)));
  oct_direct_cursor cursor = oct_direct_cursor_at(a, first, channel / multiplier, channel);
  oct_direct_rows rows;
  for (int64_t p = first; p < last; p += ROWS) {
    oct_direct_cursor_take(&cursor, (int)oct_min_i64(ROWS, last - p), &rows);
    for (int r = 0; r < rows.count; r++) {
      const int8_t *w = (const int8_t *)a->packed + channel * taps;
      __m512i sum = bias;
      for (int t = 0; t < taps; t += 4, w += 64)
        sum = _mm512_dpbusd_epi32(sum, gather_taps(rows.in[r], offsets + t, expand, order, transpose), _mm512_loadu_si512(w));
      _mm512_store_si512(acc + 16 * r, sum);
    }
    oct_epilogue_i8_avx512(a, &rows, channel, count, acc, 16);
  }
}

static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  oct_depthwise_run(a, begin, end, 4, 16, block);
}

const oct_conv_i8_kernel oct_conv_i8_depthwise_1x16__avx512vnni = {
    .name = "conv_i8_depthwise_1x16__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 500,
    .reject = oct_depthwise_reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = oct_depthwise_units,
    .run = run,
};
