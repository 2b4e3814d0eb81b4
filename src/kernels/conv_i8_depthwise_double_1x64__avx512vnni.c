/* Depthwise 8-bit convolution with two outputs per channel, 64 input channels at a time, any kernel, stride and dilation: quarters of
 * four taps as in conv_i8_depthwise_1x64__avx512vnni.c serve both outputs, whose sums are brought side by side afterwards.
 * Packed weights: [block of 64][group of 4 taps][output 0, 1][quarter][16 channels][4 taps].
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_quarters__avx512vnni.h"

#define ROWS 4    /* pixels between epilogues */
#define GROUP 512 /* bytes of weights for four taps */

static const char *reject(const oct_conv_shape *s) {
  const char *reason = oct_depthwise_reject(s);
  if (reason) return reason;
  if (s->out_channels != 2 * s->channels) return "made for channel multiplier 2";
  return s->channels < 24 ? "made for 24 channels or more" : NULL;
}

static size_t packed_bytes(const oct_conv_shape *s) {
  return (size_t)((s->channels + 63) / 64) * (size_t)(oct_depthwise_padded_taps(s, 4) / 4) * GROUP;
}

static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  int taps = s->kernel_h * s->kernel_w, padded = oct_depthwise_padded_taps(s, 4);
  int8_t *out = (int8_t *)packed;
  for (int64_t block = 0; block < s->channels; block += 64)
    for (int t = 0; t < padded; t += 4)
      for (int o = 0; o < 2; o++)
        for (int j = 0; j < 4; j++)
          for (int i = 0; i < 16; i++)
            for (int b = t; b < t + 4; b++) {
              int64_t c = block + oct_quarter_channel(j, i);
              *out++ = c < s->channels && b < taps ? weights[(2 * c + o) * taps + b] : 0;
            }
}

/* 32 output channels of each of four lanes: from two sums per channel, in quarters, to acc[128] in natural order. */
static inline void store_both(int32_t *acc, oct_quarters a, oct_quarters b) {
  oct_quarters first = oct_quarters_transpose((oct_quarters){_mm512_unpacklo_epi32(a.q0, b.q0), _mm512_unpackhi_epi32(a.q0, b.q0),
                                                             _mm512_unpacklo_epi32(a.q1, b.q1), _mm512_unpackhi_epi32(a.q1, b.q1)});
  oct_quarters second = oct_quarters_transpose((oct_quarters){_mm512_unpacklo_epi32(a.q2, b.q2), _mm512_unpackhi_epi32(a.q2, b.q2),
                                                              _mm512_unpacklo_epi32(a.q3, b.q3), _mm512_unpackhi_epi32(a.q3, b.q3)});
  _mm512_store_si512(acc, first.q0), _mm512_store_si512(acc + 16, second.q0);
  _mm512_store_si512(acc + 32, first.q1), _mm512_store_si512(acc + 48, second.q1);
  _mm512_store_si512(acc + 64, first.q2), _mm512_store_si512(acc + 80, second.q2);
  _mm512_store_si512(acc + 96, first.q3), _mm512_store_si512(acc + 112, second.q3);
}

/* Biases of output `o` of each channel, as quarters. */
static oct_quarters biases(const oct_conv_i8_args *a, int64_t channel, int count, int o) {
  int32_t values[64] = {0};
  for (int i = 0; i < count && a->epilogue.bias; i++) values[i] = a->epilogue.bias[2 * (channel + i) + o];
  return oct_quarters_load(values);
}

/* `channel` is the block's first output channel. */
static void block(const oct_conv_i8_args *a, const ptrdiff_t *offsets, int taps, int64_t first, int64_t last, int64_t channel) {
  const int64_t in_channel = channel / 2;
  const int count = (int)oct_min_i64(64, a->shape.channels - in_channel);
  const size_t element = oct_epilogue_element(&a->epilogue);
  const oct_quarters bias0 = biases(a, in_channel, count, 0), bias1 = biases(a, in_channel, count, 1);
  int32_t acc[ROWS * 128] __attribute__((aligned(64)));
  oct_direct_cursor cursor = oct_direct_cursor_at(a, first, in_channel, channel);
  oct_direct_rows rows;
  for (int64_t p = first; p < last; p += ROWS) {
    oct_direct_cursor_take(&cursor, (int)oct_min_i64(ROWS, last - p), &rows);
    for (int r = 0; r < rows.count; r++) {
      const int8_t *w = (const int8_t *)a->packed + in_channel / 64 * (taps / 4) * GROUP;
      const uint8_t *in = rows.in[r];
      oct_quarters c0 = bias0, c1 = bias1;
      for (int t = 0; t < taps; t += 4, w += GROUP) {
        const oct_quarters x = oct_quarters_interleave(_mm512_loadu_si512(in + offsets[t]), _mm512_loadu_si512(in + offsets[t + 1]),
                                                       _mm512_loadu_si512(in + offsets[t + 2]), _mm512_loadu_si512(in + offsets[t + 3]));
        c0 = oct_quarters_dot(c0, x, w);
        c1 = oct_quarters_dot(c1, x, w + GROUP / 2);
      }
      store_both(acc + 128 * r, c0, c1);
    }
    oct_epilogue_i8_avx512(a, &rows, channel, (int)oct_min_i64(64, 2 * count), acc, 128);
    if (count <= 32) continue;
    for (int r = 0; r < rows.count; r++) {
      rows.out[r] += 64 * element;
      if (a->residual.data) rows.residual[r] += 64 * element;
    }
    oct_epilogue_i8_avx512(a, &rows, channel + 64, 2 * count - 64, acc + 64, 128);
  }
}

static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  oct_depthwise_run(a, begin, end, 4, 128, block);
}

const oct_conv_i8_kernel oct_conv_i8_depthwise_double_1x64__avx512vnni = {
    .name = "conv_i8_depthwise_double_1x64__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 505,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = oct_depthwise_units,
    .run = run,
};
