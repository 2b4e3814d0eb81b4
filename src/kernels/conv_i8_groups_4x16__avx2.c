/* 8-bit convolution in narrow groups with AVX2, 4 pixels x 16 output channels. Each lane takes its group's bytes by a shuffle of 16;
 * weights are split into 16 * h + l as in conv_i8_depthwise_pairs__avx2.h, and sums of 16 bits are widened after every 8 steps,
 * when they are sums of 16 products.
 * Packed weights: [block of 16][tap][step][l, h][16 lanes][4].
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_groups.h"
#include "kernels/epilogue_i8__avx2.h"

#define ROWS 16  /* pixels between epilogues */
#define STEP 128 /* bytes of weights */
#define EACH_ROW(X) X(0) X(1) X(2) X(3)

static const char *reject(const oct_conv_shape *s) {
  const char *reason = oct_groups_reject(s);
  if (reason) return reason;
  return oct_groups_widest(s, 8) <= 16 ? NULL : "the groups of 8 output channels read more than 16 bytes";
}

static size_t packed_bytes(const oct_conv_shape *s) { return 2 * oct_groups_weights(s); }

static void put(int8_t *packed, size_t step, int lane, int byte, int8_t weight) {
  int low = ((weight + 8) & 15) - 8, high = (weight - low) / 16;
  int8_t *at = packed + step * STEP + (size_t)(4 * lane + byte);
  at[0] = (int8_t)low, at[64] = (int8_t)high;
}

static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  memset(packed, 0, packed_bytes(s));
  oct_groups_pack(s, weights, (int8_t *)packed, put);
}

static inline __m256i load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

/* Half a block: 8 lanes. */
typedef struct half {
  __m256i index[OCT_GROUPS_STEPS], bias;
  ptrdiff_t first; /* input byte, from the block's */
  int steps;
} half;

static half half_of(const oct_conv_i8_args *a, int64_t channel, int64_t from) {
  const oct_conv_shape *s = &a->shape;
  half h = {.steps = oct_groups_steps(s), .bias = a->epilogue.bias ? load(a->epilogue.bias + channel) : _mm256_setzero_si256()};
  int64_t first = from;
  if (channel < s->out_channels) oct_groups_span(s, channel, 8, &first);
  for (int d = 0; d < h.steps; d++) {
    uint8_t bytes[32] = {0};
    if (channel < s->out_channels) oct_groups_index(s, channel, 8, d, bytes);
    h.index[d] = load(bytes);
  }
  h.first = first - from;
  return h;
}

#define DECLARE(r)                                       \
  const uint8_t *a##r = in[r < rows ? r : 0] + g->first; \
  __m256i c##r = g->bias, l##r = _mm256_setzero_si256(), h##r = l##r;
#define MULTIPLY(r)                                                                   \
  if (r < rows) {                                                                     \
    __m128i x_ = _mm_loadu_si128((const __m128i *)(const void *)(a##r + offsets[t])); \
    __m256i y_ = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(x_), index);         \
    l##r = _mm256_add_epi16(l##r, _mm256_maddubs_epi16(y_, low));                     \
    h##r = _mm256_add_epi16(h##r, _mm256_maddubs_epi16(y_, high));                    \
  }
#define WIDEN(r)                                                                                                     \
  if (r < rows) {                                                                                                    \
    c##r = _mm256_add_epi32(c##r, _mm256_add_epi32(_mm256_madd_epi16(l##r, one), _mm256_madd_epi16(h##r, sixteen))); \
    l##r = h##r = _mm256_setzero_si256();                                                                            \
  }
#define STORE(r) \
  if (r < rows) _mm256_store_si256((__m256i *)(void *)(acc + 16 * r), c##r);

/* `rows` is a constant wherever this is inlined. */
static inline __attribute__((always_inline)) void tile(int rows, const half *g, const uint8_t *const *in, const ptrdiff_t *offsets,
                                                       int taps, const int8_t *w, int32_t *acc) {
  const __m256i one = _mm256_set1_epi16(1), sixteen = _mm256_set1_epi16(16);
  EACH_ROW(DECLARE)
  for (int t = 0, filled = 0; t < taps; t++)
    for (int d = 0; d < g->steps; d++, w += STEP) {
      const __m256i low = load(w), high = load(w + 64), index = g->index[d];
      EACH_ROW(MULTIPLY)
      if (++filled < 8) continue;
      EACH_ROW(WIDEN)
      filled = 0;
    }
  EACH_ROW(WIDEN)
  EACH_ROW(STORE)
}

static void run_tile(int rows, const half *g, const uint8_t *const *in, const ptrdiff_t *offsets, int taps, const int8_t *w, int32_t *acc) {
  if (rows == 4) tile(4, g, in, offsets, taps, w, acc);
  else
    for (int r = 0; r < rows; r++) tile(1, g, in + r, offsets, taps, w, acc + 16 * r);
}

static void block(const oct_conv_i8_args *a, const ptrdiff_t *offsets, int taps, int64_t first, int64_t last, int64_t channel) {
  const oct_conv_shape *s = &a->shape;
  int64_t from;
  oct_groups_span(s, channel, OCT_GROUPS_BLOCK, &from);
  const half low = half_of(a, channel, from), high = half_of(a, channel + 8, from);
  int count = (int)oct_min_i64(16, s->out_channels - channel);
  const int8_t *w = (const int8_t *)a->packed + channel / OCT_GROUPS_BLOCK * taps * low.steps * STEP;
  int32_t acc[ROWS * 16] __attribute__((aligned(32)));
  oct_direct_cursor cursor = oct_direct_cursor_at(a, first, from, channel);
  oct_direct_rows rows;
  for (int64_t p = first; p < last; p += ROWS) {
    oct_direct_cursor_take(&cursor, (int)oct_min_i64(ROWS, last - p), &rows);
    for (int r = 0; r < rows.count; r += 4) {
      run_tile((int)oct_min_i64(4, rows.count - r), &low, rows.in + r, offsets, taps, w, acc + 16 * r);
      if (count > 8) run_tile((int)oct_min_i64(4, rows.count - r), &high, rows.in + r, offsets, taps, w + 32, acc + 16 * r + 8);
    }
    oct_epilogue_i8_avx2(a, &rows, channel, count, acc, 16);
  }
}

static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  oct_depthwise_run(a, begin, end, 1, OCT_GROUPS_BLOCK, block);
}

const oct_conv_i8_kernel oct_conv_i8_groups_4x16__avx2 = {
    .name = "conv_i8_groups_4x16__avx2",
    .isa = OCT_ISA_AVX2,
    .preference = 340,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = oct_depthwise_units,
    .run = run,
};
