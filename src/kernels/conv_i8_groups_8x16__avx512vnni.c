/* 8-bit convolution in narrow groups, 8 pixels x 16 output channels: one dot product of four bytes per lane and step, after each lane
 * has taken its group's bytes, from 16 by a byte shuffle or from 64 by a permutation of words of four.
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_groups.h"
#include "kernels/epilogue_i8__avx512.h"

#define ROWS 16 /* pixels between epilogues */
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

static bool from_16(const oct_conv_shape *s) { return oct_groups_widest(s, OCT_GROUPS_BLOCK) <= 16; }

static const char *reject(const oct_conv_shape *s) {
  const char *reason = oct_groups_reject(s);
  if (reason || from_16(s)) return reason;
  if (s->channels % (4 * (int64_t)s->groups) == 0 && oct_groups_widest(s, OCT_GROUPS_BLOCK) <= 64) return NULL;
  return "the groups of 16 output channels read too many bytes";
}

static void put(int8_t *packed, size_t step, int lane, int byte, int8_t weight) {
  packed[step * OCT_GROUPS_BLOCK * 4 + (size_t)(4 * lane + byte)] = weight;
}

static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  memset(packed, 0, oct_groups_weights(s));
  oct_groups_pack(s, weights, (int8_t *)packed, put);
}

typedef struct gather {
  __m512i index[OCT_GROUPS_STEPS];
  int steps;
  bool from_16;
} gather;

static gather gather_of(const oct_conv_shape *s, int64_t channel) {
  gather g = {.steps = oct_groups_steps(s), .from_16 = from_16(s)};
  for (int d = 0; d < g.steps; d++) {
    uint8_t bytes[64];
    int32_t words[16];
    oct_groups_index(s, channel, OCT_GROUPS_BLOCK, d, bytes);
    for (int i = 0; i < 16; i++) words[i] = bytes[4 * i] / 4;
    g.index[d] = g.from_16 ? _mm512_loadu_si512(bytes) : _mm512_loadu_si512(words);
  }
  return g;
}

static inline __attribute__((always_inline)) __m512i take(const uint8_t *in, __m512i index, bool bytes) {
  if (!bytes) return _mm512_permutexvar_epi32(index, _mm512_loadu_si512(in));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)in)), index);
}

#define DECLARE(r)                            \
  const uint8_t *a##r = in[r < rows ? r : 0]; \
  __m512i c##r = bias;
#define MULTIPLY(r) \
  if (r < rows) c##r = _mm512_dpbusd_epi32(c##r, take(a##r + offsets[t], index, bytes), weights);
#define STORE(r) \
  if (r < rows) _mm512_store_si512(acc + 16 * r, c##r);

/* `rows` and `bytes` are constants wherever this is inlined. */
static inline __attribute__((always_inline)) void tile(int rows, bool bytes, const gather *g, const uint8_t *const *in,
                                                       const ptrdiff_t *offsets, int taps, const int8_t *w, __m512i bias, int32_t *acc) {
  EACH_ROW(DECLARE)
  for (int t = 0; t < taps; t++)
    for (int d = 0; d < g->steps; d++, w += 64) {
      const __m512i weights = _mm512_loadu_si512(w), index = g->index[d];
      EACH_ROW(MULTIPLY)
    }
  EACH_ROW(STORE)
}

static void run_tile(int rows, const gather *g, const uint8_t *const *in, const ptrdiff_t *offsets, int taps, const int8_t *w, __m512i bias,
                     int32_t *acc) {
  if (rows == 8 && g->from_16) tile(8, true, g, in, offsets, taps, w, bias, acc);
  else if (rows == 8) tile(8, false, g, in, offsets, taps, w, bias, acc);
  else
    for (int r = 0; r < rows; r++, in++, acc += 16) {
      if (g->from_16) tile(1, true, g, in, offsets, taps, w, bias, acc);
      else tile(1, false, g, in, offsets, taps, w, bias, acc);
    }
}

static void block(const oct_conv_i8_args *a, const ptrdiff_t *offsets, int taps, int64_t first, int64_t last, int64_t channel) {
  const oct_conv_shape *s = &a->shape;
  const gather g = gather_of(s, channel);
  int count = (int)oct_min_i64(16, s->out_channels - channel);
  const int8_t *w = (const int8_t *)a->packed + channel * 4 * taps * g.steps;
  const __m512i bias = a->epilogue.bias ? _mm512_loadu_si512(a->epilogue.bias + channel) : _mm512_setzero_si512();
  int32_t acc[ROWS * 16] __attribute__((aligned(64)));
  int64_t from;
  oct_groups_span(s, channel, OCT_GROUPS_BLOCK, &from);
  oct_direct_cursor cursor = oct_direct_cursor_at(a, first, from, channel);
  oct_direct_rows rows;
  for (int64_t p = first; p < last; p += ROWS) {
    oct_direct_cursor_take(&cursor, (int)oct_min_i64(ROWS, last - p), &rows);
    for (int r = 0; r < rows.count; r += 8)
      run_tile((int)oct_min_i64(8, rows.count - r), &g, rows.in + r, offsets, taps, w, bias, acc + 16 * r);
    oct_epilogue_i8_avx512(a, &rows, channel, count, acc, 16);
  }
}

static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  oct_depthwise_run(a, begin, end, 1, OCT_GROUPS_BLOCK, block);
}

const oct_conv_i8_kernel oct_conv_i8_groups_8x16__avx512vnni = {
    .name = "conv_i8_groups_8x16__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 530,
    .reject = reject,
    .packed_bytes = oct_groups_weights,
    .pack = pack,
    .units = oct_depthwise_units,
    .run = run,
};
