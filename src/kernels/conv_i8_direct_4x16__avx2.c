/* Direct 8-bit convolution where there is no 8-bit dot product: tiles of 4 pixels x 16 channels, 6 x 8 for a last panel of at most 8.
 * Exact: bytes are widened to 16 bits (vpmaddubsw would saturate: 2 * 255 * 127 does not fit). The even bytes of the activations'
 * words come from a mask, the odd ones from a shift; weights are packed to match (`pairs`).
 * SPDX-License-Identifier: MIT */
#include "kernels/epilogue_i8__avx2.h"

#define EACH_OF_4(X) X(0) X(1) X(2) X(3)
#define EACH_OF_6(X) EACH_OF_4(X) X(4) X(5)

static inline __m256i load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline __m256i widen(const int8_t *p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p)); }
static inline __m256i broadcast4(const uint8_t *p) {
  int32_t word;
  memcpy(&word, p, 4);
  return _mm256_set1_epi32(word);
}
static inline __m256i multiply_add(__m256i acc, __m256i x, __m256i w) { return _mm256_add_epi32(acc, _mm256_madd_epi16(x, w)); }

#define DECLARE_16(r)                         \
  const uint8_t *a##r = in[r < rows ? r : 0]; \
  __m256i c##r##0 = b0, c##r##1 = b1;
#define MULTIPLY_16(r)                                                                 \
  if (r < rows) {                                                                      \
    const __m256i x = broadcast4(a##r + k);                                            \
    const __m256i even = _mm256_and_si256(x, mask), odd = _mm256_srli_epi16(x, 8);     \
    c##r##0 = multiply_add(multiply_add(c##r##0, even, even0), odd, odd0);             \
    c##r##1 = multiply_add(multiply_add(c##r##1, even, even1), odd, odd1);             \
  }
#define STORE_16(r)                                           \
  if (r < rows) {                                             \
    _mm256_store_si256((__m256i *)(acc + r * 16), c##r##0);   \
    _mm256_store_si256((__m256i *)(acc + r * 16 + 8), c##r##1); \
  }

/* `rows` is a constant wherever these are inlined, so the variables of rows beyond it vanish. */
static inline __attribute__((always_inline)) void tile_16(const int rows, const oct_direct_walk *walk, const uint8_t *const *in, const int8_t *w, const int32_t *bias, int32_t *acc) {
  const __m256i b0 = load(bias), b1 = load(bias + 8), mask = _mm256_set1_epi16(255);
  EACH_OF_4(DECLARE_16)
  OCT_DIRECT_WALK(16, {
    const __m256i even0 = widen(w);
    const __m256i even1 = widen(w + 16);
    const __m256i odd0 = widen(w + 32);
    const __m256i odd1 = widen(w + 48);
    EACH_OF_4(MULTIPLY_16)
  })
  EACH_OF_4(STORE_16)
}

#define DECLARE_8(r)                          \
  const uint8_t *a##r = in[r < rows ? r : 0]; \
  __m256i c##r = b0;
#define MULTIPLY_8(r)                                                                                                            \
  if (r < rows) {                                                                                                                \
    const __m256i x = broadcast4(a##r + k);                                                                                      \
    c##r = multiply_add(multiply_add(c##r, _mm256_and_si256(x, mask), even0), _mm256_srli_epi16(x, 8), odd0);                    \
  }
#define STORE_8(r) \
  if (r < rows) _mm256_store_si256((__m256i *)(acc + r * 8), c##r);

static inline __attribute__((always_inline)) void tile_8(const int rows, const oct_direct_walk *walk, const uint8_t *const *in, const int8_t *w, const int32_t *bias, int32_t *acc) {
  const __m256i b0 = load(bias), mask = _mm256_set1_epi16(255);
  EACH_OF_6(DECLARE_8)
  OCT_DIRECT_WALK(8, {
    const __m256i even0 = widen(w);
    const __m256i odd0 = widen(w + 16);
    EACH_OF_6(MULTIPLY_8)
  })
  EACH_OF_6(STORE_8)
}

#define DEFINE_TILE(width, count)                                                                                                                         \
  static void tile_##width##_##count(const oct_direct_walk *walk, const uint8_t *const *in, const int8_t *weights, const int32_t *bias, int32_t *acc) { \
    tile_##width(count, walk, in, weights, bias, acc);                                                                                                    \
  }
#define DEFINE_TILE_16(r) DEFINE_TILE(16, r)
#define DEFINE_TILE_8(r) DEFINE_TILE(8, r)
#define NAME_16(r) tile_16_##r,
#define NAME_8(r) tile_8_##r,
#define COUNTS_4(X) X(1) X(2) X(3) X(4)
#define COUNTS_6(X) COUNTS_4(X) X(5) X(6)
COUNTS_4(DEFINE_TILE_16)
COUNTS_6(DEFINE_TILE_8)

static const oct_direct_tile wide = {.rows = 4, .width = 16, .by_rows = {NULL, COUNTS_4(NAME_16)}};
static const oct_direct_tile narrow = {.rows = 6, .width = 8, .by_rows = {NULL, COUNTS_6(NAME_8)}};
static const oct_direct_tile *const tiles[] = {&narrow, &wide};
static const oct_direct_isa isa = {.quantum = 8, .widest = 16, .pairs = true, .tiles = tiles, .epilogue = oct_epilogue_i8_avx2};

static size_t packed_bytes(const oct_conv_shape *s) { return oct_direct_packed_bytes(s, &isa); }
static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) { oct_direct_pack(s, &isa, weights, packed); }
static size_t units(const oct_conv_shape *s) { return oct_direct_units(s, &isa); }
static void run(const oct_conv_i8_args *args, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  oct_direct_run(args, &isa, begin, end);
}

const oct_conv_i8_kernel oct_conv_i8_direct_4x16__avx2 = {
    .name = "conv_i8_direct_4x16__avx2",
    .isa = OCT_ISA_AVX2,
    .preference = 200,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = units,
    .run = run,
};
