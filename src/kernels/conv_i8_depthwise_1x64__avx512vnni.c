/* Depthwise 8-bit convolution, 64 channels at a time, any kernel, stride and dilation: four taps of 64 bytes are interleaved bytewise,
 * which gives four vectors of 16 channels in an order of their own: quarter j, lane l holds channels 16l + 4j .. + 3. Weights, biases and
 * multipliers are taken in that order, and packing to bytes undoes it.
 * Packed weights: [block of 64][group of 4 taps][quarter][16 channels][4 taps].
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_depthwise.h"
#include "kernels/epilogue_i8__avx512.h"

#define ROWS 8 /* pixels between epilogues */

static const char *reject(const oct_conv_shape *s) {
  const char *reason = oct_depthwise_reject(s);
  if (reason) return reason;
  if (s->out_channels != s->channels) return "made for channel multiplier 1";
  return s->channels <= 32 ? "made for more than 32 channels" : NULL;
}

static size_t packed_bytes(const oct_conv_shape *s) { return (size_t)((s->channels + 63) / 64 * 64) * (size_t)oct_depthwise_padded_taps(s, 4); }

/* Channel within the block of lane i of quarter j. */
static int64_t channel_of(int j, int i) { return i / 4 * 16 + j * 4 + i % 4; }

static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  int taps = s->kernel_h * s->kernel_w, padded = oct_depthwise_padded_taps(s, 4);
  int8_t *out = (int8_t *)packed;
  for (int64_t block = 0; block < s->channels; block += 64)
    for (int t = 0; t < padded; t += 4)
      for (int j = 0; j < 4; j++)
        for (int i = 0; i < 16; i++)
          for (int b = t; b < t + 4; b++) {
            int64_t c = block + channel_of(j, i);
            *out++ = c < s->channels && b < taps ? weights[c * taps + b] : 0;
          }
}

typedef struct quarters {
  __m512i q0, q1, q2, q3;
} quarters;

/* Rows of four 128-bit lanes against columns: from 64 channels in their natural order to quarters, and back. */
static inline quarters transpose_lanes(quarters v) {
  __m512i a = _mm512_shuffle_i32x4(v.q0, v.q1, 0x44), b = _mm512_shuffle_i32x4(v.q0, v.q1, 0xEE);
  __m512i c = _mm512_shuffle_i32x4(v.q2, v.q3, 0x44), d = _mm512_shuffle_i32x4(v.q2, v.q3, 0xEE);
  return (quarters){_mm512_shuffle_i32x4(a, c, 0x88), _mm512_shuffle_i32x4(a, c, 0xDD), _mm512_shuffle_i32x4(b, d, 0x88), _mm512_shuffle_i32x4(b, d, 0xDD)};
}

static inline quarters load_quarters(const void *values) {
  const int32_t *v = (const int32_t *)values;
  return transpose_lanes((quarters){_mm512_loadu_si512(v), _mm512_loadu_si512(v + 16), _mm512_loadu_si512(v + 32), _mm512_loadu_si512(v + 48)});
}

static inline quarters pixel(const uint8_t *in, const ptrdiff_t *offsets, int taps, const int8_t *w, quarters c) {
  for (int t = 0; t < taps; t += 4, w += 256) {
    __m512i r0 = _mm512_loadu_si512(in + offsets[t]), r1 = _mm512_loadu_si512(in + offsets[t + 1]);
    __m512i r2 = _mm512_loadu_si512(in + offsets[t + 2]), r3 = _mm512_loadu_si512(in + offsets[t + 3]);
    __m512i low01 = _mm512_unpacklo_epi8(r0, r1), high01 = _mm512_unpackhi_epi8(r0, r1), low23 = _mm512_unpacklo_epi8(r2, r3), high23 = _mm512_unpackhi_epi8(r2, r3);
    c.q0 = _mm512_dpbusd_epi32(c.q0, _mm512_unpacklo_epi16(low01, low23), _mm512_loadu_si512(w));
    c.q1 = _mm512_dpbusd_epi32(c.q1, _mm512_unpackhi_epi16(low01, low23), _mm512_loadu_si512(w + 64));
    c.q2 = _mm512_dpbusd_epi32(c.q2, _mm512_unpacklo_epi16(high01, high23), _mm512_loadu_si512(w + 128));
    c.q3 = _mm512_dpbusd_epi32(c.q3, _mm512_unpackhi_epi16(high01, high23), _mm512_loadu_si512(w + 192));
  }
  return c;
}

static inline __m512i quantized(__m512i acc, __m512i multiplier, const oct_quantize512 *q) {
  return _mm512_cvtps_epi32(oct_clamp_ps512(_mm512_mul_ps(_mm512_cvtepi32_ps(acc), _mm512_castsi512_ps(multiplier)), q->low, q->high));
}

/* Profile onnx, no residual, no table: from quarters to bytes with no detour. */
static inline void store_plain(char *out, quarters c, const quarters *m, const oct_quantize512 *q, __m512i zero_point, __mmask64 mask) {
  __m512i a = _mm512_add_epi16(_mm512_packs_epi32(quantized(c.q0, m->q0, q), quantized(c.q1, m->q1, q)), zero_point);
  __m512i b = _mm512_add_epi16(_mm512_packs_epi32(quantized(c.q2, m->q2, q), quantized(c.q3, m->q3, q)), zero_point);
  _mm512_mask_storeu_epi8(out, mask, _mm512_packus_epi16(a, b));
}

static inline void store_acc(int32_t *acc, quarters c) {
  c = transpose_lanes(c);
  _mm512_store_si512(acc, c.q0);
  _mm512_store_si512(acc + 16, c.q1);
  _mm512_store_si512(acc + 32, c.q2);
  _mm512_store_si512(acc + 48, c.q3);
}

static void block(const oct_conv_i8_args *a, const ptrdiff_t *offsets, int taps, int64_t first, int64_t last, int64_t channel) {
  const oct_epilogue_i8 *e = &a->epilogue;
  const int8_t *w = (const int8_t *)a->packed + channel * taps;
  int count = (int)oct_min_i64(64, a->shape.channels - channel);
  bool plain = e->out == OCT_EPILOGUE_U8 && e->profile == OCT_PROFILE_ONNX && !a->residual.data && !e->table;
  quarters zero = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
  const quarters bias = e->bias ? load_quarters(e->bias + channel) : zero, multiplier = plain ? load_quarters(e->multiplier + channel) : zero;
  const oct_quantize512 quantize = oct_quantize512_of(e);
  const __m512i zero_point = _mm512_set1_epi16((short)e->zero_point);
  const __mmask64 mask = count == 64 ? ~(__mmask64)0 : ((__mmask64)1 << count) - 1;
  int32_t acc[ROWS * 64] __attribute__((aligned(64)));
  oct_direct_cursor cursor = oct_direct_cursor_at(a, first, channel, channel);
  oct_direct_rows rows;
  for (int64_t p = first; p < last; p += ROWS) {
    oct_direct_cursor_take(&cursor, (int)oct_min_i64(ROWS, last - p), &rows);
    for (int r = 0; r < rows.count; r++) {
      quarters c = pixel(rows.in[r], offsets, taps, w, bias);
      if (plain) store_plain(rows.out[r], c, &multiplier, &quantize, zero_point, mask);
      else store_acc(acc + 64 * r, c);
    }
    if (!plain) oct_epilogue_i8_avx512(a, &rows, channel, count, acc, 64);
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
