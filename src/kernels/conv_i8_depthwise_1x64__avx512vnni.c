/* Depthwise 8-bit convolution, 64 channels at a time, any kernel, stride and dilation, as quarters of four taps.
 * Packed weights: [block of 64][group of 4 taps][quarter][16 channels][4 taps].
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_quarters__avx512vnni.h"

#define ROWS 8 /* pixels between epilogues */

static const char *reject(const oct_conv_shape *s) {
  const char *reason = oct_depthwise_reject(s);
  if (reason) return reason;
  if (s->out_channels != s->channels) return "made for channel multiplier 1";
  return s->channels <= 32 ? "made for more than 32 channels" : NULL;
}

static size_t packed_bytes(const oct_conv_shape *s) {
  return (size_t)((s->channels + 63) / 64 * 64) * (size_t)oct_depthwise_padded_taps(s, 4);
}

static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  int taps = s->kernel_h * s->kernel_w, padded = oct_depthwise_padded_taps(s, 4);
  int8_t *out = (int8_t *)packed;
  for (int64_t block = 0; block < s->channels; block += 64)
    for (int t = 0; t < padded; t += 4)
      for (int j = 0; j < 4; j++)
        for (int i = 0; i < 16; i++)
          for (int b = t; b < t + 4; b++) {
            int64_t c = block + oct_quarter_channel(j, i);
            *out++ = c < s->channels && b < taps ? weights[c * taps + b] : 0;
          }
}

static inline oct_quarters pixel(const uint8_t *in, const ptrdiff_t *offsets, int taps, const int8_t *w, oct_quarters c) {
  for (int t = 0; t < taps; t += 4, w += 256) {
    __m512i r0 = _mm512_loadu_si512(in + offsets[t]), r1 = _mm512_loadu_si512(in + offsets[t + 1]);
    __m512i r2 = _mm512_loadu_si512(in + offsets[t + 2]), r3 = _mm512_loadu_si512(in + offsets[t + 3]);
    c = oct_quarters_dot(c, oct_quarters_interleave(r0, r1, r2, r3), w);
  }
  return c;
}

static void block(const oct_conv_i8_args *a, const ptrdiff_t *offsets, int taps, int64_t first, int64_t last, int64_t channel) {
  const int8_t *w = (const int8_t *)a->packed + channel * taps;
  int count = (int)oct_min_i64(64, a->shape.channels - channel);
  const oct_quarters bias = oct_quarters_load(a->epilogue.bias ? a->epilogue.bias + channel : NULL);
  const oct_quarters_epilogue e = oct_quarters_epilogue_of(a, channel, count, 1);
  int32_t acc[ROWS * 64] __attribute__((aligned(64)));
  oct_direct_cursor cursor = oct_direct_cursor_at(a, first, channel, channel);
  oct_direct_rows rows;
  for (int64_t p = first; p < last; p += ROWS) {
    oct_direct_cursor_take(&cursor, (int)oct_min_i64(ROWS, last - p), &rows);
    for (int r = 0; r < rows.count; r++) {
      oct_quarters c = pixel(rows.in[r], offsets, taps, w, bias);
      if (e.kind != OCT_QUARTERS_DETOUR) _mm512_mask_storeu_epi8(rows.out[r], e.mask, oct_quarters_bytes(c, &e));
      else oct_quarters_store_acc(acc + 64 * r, c);
    }
    if (e.kind == OCT_QUARTERS_DETOUR) oct_epilogue_i8_avx512(a, &rows, channel, count, acc, 64);
  }
}

static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  oct_depthwise_run(a, begin, end, 4, 64, block);
}

const oct_conv_i8_kernel oct_conv_i8_depthwise_1x64__avx512vnni = {
    .name = "conv_i8_depthwise_1x64__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 510,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = oct_depthwise_units,
    .run = run,
};
