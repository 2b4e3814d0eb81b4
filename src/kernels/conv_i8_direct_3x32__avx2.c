/* Direct 8-bit convolution where there is no 8-bit dot product: tiles of 3 pixels x 32 channels, 4 x 24, 6 x 16 and 6 x 8.
 * Exact: bytes are widened to 16 bits (vpmaddubsw would saturate: 2 * 255 * 127 does not fit). The even bytes of the activations'
 * words come from a mask, the odd ones from a shift; weights are packed to match, 16 bits each (`pairs`).
 * SPDX-License-Identifier: MIT */
#include "kernels/epilogue_i8__avx2.h"

#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5)

static inline __m256i load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline __m256i broadcast4(const uint8_t *p) {
  int32_t word;
  memcpy(&word, p, 4);
  return _mm256_set1_epi32(word);
}
static inline __m256i multiply_add(__m256i acc, __m256i x, const int8_t *w) { return _mm256_add_epi32(acc, _mm256_madd_epi16(x, load(w))); }

/* Hides that a pointer is the same for every row: weights stay memory operands, since registers are few. (Volatile: equal ones would be merged.) */
static inline const int8_t *opaque(const int8_t *p) {
  __asm__ volatile("" : "+r"(p));
  return p;
}

#define DECLARE(r)                            \
  const uint8_t *a##r = in[r < rows ? r : 0]; \
  __m256i c##r##0 = b0, c##r##1 = b1, c##r##2 = b2, c##r##3 = b3;
#define COLUMN(r, v) \
  if (v < vectors) c##r##v = multiply_add(multiply_add(c##r##v, even, weights + 32 * v), odd, weights + 32 * (vectors + v));
#define MULTIPLY(r)                                                                \
  if (r < rows) {                                                                  \
    const int8_t *weights = opaque(w);                                             \
    const __m256i x = broadcast4(a##r + k);                                        \
    const __m256i even = _mm256_and_si256(x, mask), odd = _mm256_srli_epi16(x, 8); \
    COLUMN(r, 0) COLUMN(r, 1) COLUMN(r, 2) COLUMN(r, 3)                            \
  }
#define STORE_COLUMN(r, v) \
  if (v < vectors) _mm256_store_si256((__m256i *)(void *)(acc + (r * vectors + v) * 8), c##r##v);
#define STORE(r)                                                                \
  if (r < rows) {                                                               \
    STORE_COLUMN(r, 0) STORE_COLUMN(r, 1) STORE_COLUMN(r, 2) STORE_COLUMN(r, 3) \
  }

/* `rows` and `vectors` (of 8 channels) are constants wherever this is inlined, so the variables beyond them vanish. */
static inline __attribute__((always_inline)) void tile(const int rows, const int vectors, const oct_direct_walk *walk,
                                                       const uint8_t *const *in, const int8_t *w, const int32_t *bias, int32_t *acc) {
  const __m256i mask = _mm256_set1_epi16(255), b0 = load(bias), b1 = vectors > 1 ? load(bias + 8) : b0;
  const __m256i b2 = vectors > 2 ? load(bias + 16) : b0, b3 = vectors > 3 ? load(bias + 24) : b0;
  EACH_ROW(DECLARE)
  OCT_DIRECT_WALK(16 * vectors, {EACH_ROW(MULTIPLY)})
  EACH_ROW(STORE)
}

#define DEFINE_TILE(vectors, rows)                                                                                                       \
  static void tile_##vectors##_##rows(const oct_direct_walk *walk, const uint8_t *const *in, const int8_t *weights, const int32_t *bias, \
                                      int32_t *acc) {                                                                                    \
    tile(rows, vectors, walk, in, weights, bias, acc);                                                                                   \
  }
DEFINE_TILE(1, 1)
DEFINE_TILE(1, 2)
DEFINE_TILE(1, 3)
DEFINE_TILE(1, 4)
DEFINE_TILE(1, 5)
DEFINE_TILE(1, 6)
DEFINE_TILE(2, 1)
DEFINE_TILE(2, 2)
DEFINE_TILE(2, 3)
DEFINE_TILE(2, 4)
DEFINE_TILE(2, 5)
DEFINE_TILE(2, 6)
DEFINE_TILE(3, 1)
DEFINE_TILE(3, 2)
DEFINE_TILE(3, 3)
DEFINE_TILE(3, 4)
DEFINE_TILE(4, 1)
DEFINE_TILE(4, 2)
DEFINE_TILE(4, 3)

static const oct_direct_tile tile_8 = {
    .rows = 6, .width = 8, .by_rows = {NULL, tile_1_1, tile_1_2, tile_1_3, tile_1_4, tile_1_5, tile_1_6}};
static const oct_direct_tile tile_16 = {
    .rows = 6, .width = 16, .by_rows = {NULL, tile_2_1, tile_2_2, tile_2_3, tile_2_4, tile_2_5, tile_2_6}};
static const oct_direct_tile tile_24 = {.rows = 4, .width = 24, .by_rows = {NULL, tile_3_1, tile_3_2, tile_3_3, tile_3_4}};
static const oct_direct_tile tile_32 = {.rows = 3, .width = 32, .by_rows = {NULL, tile_4_1, tile_4_2, tile_4_3}};
static const oct_direct_tile *const tiles[] = {&tile_8, &tile_16, &tile_24, &tile_32};
static const oct_direct_isa isa = {.quantum = 8, .widest = 32, .pairs = true, .tiles = tiles, .epilogue = oct_epilogue_i8_avx2};

static size_t packed_bytes(const oct_conv_shape *s) { return oct_direct_packed_bytes(s, &isa); }
static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) { oct_direct_pack(s, &isa, weights, packed); }
static size_t units(const oct_conv_shape *s) { return oct_direct_units(s, &isa); }
static void run(const oct_conv_i8_args *args, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  oct_direct_run(args, &isa, begin, end);
}

const oct_conv_i8_kernel oct_conv_i8_direct_3x32__avx2 = {
    .name = "conv_i8_direct_3x32__avx2",
    .isa = OCT_ISA_AVX2,
    .preference = 200,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = units,
    .run = run,
};
