/* Direct 8-bit convolution with the 256-bit dot product: tiles of 6 pixels x 16 channels, 10 x 8 for a last panel of at most 8.
 * Built twice: for AVX-VNNI (laptops), and, with OCT_AVXVNNI_AS_AVX512VL, for the same instructions in their AVX-512 encoding,
 * so that servers test it too; there it ranks below the 512-bit rows.
 * SPDX-License-Identifier: MIT */
#include "kernels/epilogue_i8__avx2.h"

#ifdef OCT_AVXVNNI_AS_AVX512VL
#define DOT(acc, x, w) _mm256_dpbusd_epi32(acc, x, w)
#else
#define DOT(acc, x, w) _mm256_dpbusd_avx_epi32(acc, x, w)
#endif

#define EACH_OF_6(X) X(0) X(1) X(2) X(3) X(4) X(5)
#define EACH_OF_10(X) EACH_OF_6(X) X(6) X(7) X(8) X(9)

static inline __m256i load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline __m256i broadcast4(const uint8_t *p) {
  int32_t word;
  memcpy(&word, p, 4);
  return _mm256_set1_epi32(word);
}

#define DECLARE_16(r)                         \
  const uint8_t *a##r = in[r < rows ? r : 0]; \
  __m256i c##r##0 = b0, c##r##1 = b1;
#define MULTIPLY_16(r)                      \
  if (r < rows) {                           \
    const __m256i x = broadcast4(a##r + k); \
    c##r##0 = DOT(c##r##0, x, w0);          \
    c##r##1 = DOT(c##r##1, x, w1);          \
  }
#define STORE_16(r)                                             \
  if (r < rows) {                                               \
    _mm256_store_si256((__m256i *)(acc + r * 16), c##r##0);     \
    _mm256_store_si256((__m256i *)(acc + r * 16 + 8), c##r##1); \
  }

/* `rows` is a constant wherever these are inlined, so the variables of rows beyond it vanish. */
static inline __attribute__((always_inline)) void tile_16(const int rows, const oct_direct_walk *walk, const uint8_t *const *in,
                                                          const int8_t *w, const int32_t *bias, int32_t *acc) {
  const __m256i b0 = load(bias), b1 = load(bias + 8);
  EACH_OF_6(DECLARE_16)
  OCT_DIRECT_WALK(16, {
    const __m256i w0 = load(w);
    const __m256i w1 = load(w + 32);
    EACH_OF_6(MULTIPLY_16)
  })
  EACH_OF_6(STORE_16)
}

#define DECLARE_8(r)                          \
  const uint8_t *a##r = in[r < rows ? r : 0]; \
  __m256i c##r = b0;
#define MULTIPLY_8(r) \
  if (r < rows) c##r = DOT(c##r, broadcast4(a##r + k), w0);
#define STORE_8(r) \
  if (r < rows) _mm256_store_si256((__m256i *)(acc + r * 8), c##r);

static inline __attribute__((always_inline)) void tile_8(const int rows, const oct_direct_walk *walk, const uint8_t *const *in,
                                                         const int8_t *w, const int32_t *bias, int32_t *acc) {
  const __m256i b0 = load(bias);
  EACH_OF_10(DECLARE_8)
  OCT_DIRECT_WALK(8, {
    const __m256i w0 = load(w);
    EACH_OF_10(MULTIPLY_8)
  })
  EACH_OF_10(STORE_8)
}

#define DEFINE_TILE(width, count)                                                                                                       \
  static void tile_##width##_##count(const oct_direct_walk *walk, const uint8_t *const *in, const int8_t *weights, const int32_t *bias, \
                                     int32_t *acc) {                                                                                    \
    tile_##width(count, walk, in, weights, bias, acc);                                                                                  \
  }
#define DEFINE_TILE_16(r) DEFINE_TILE(16, r)
#define DEFINE_TILE_8(r) DEFINE_TILE(8, r)
#define NAME_16(r) tile_16_##r,
#define NAME_8(r) tile_8_##r,
#define COUNTS_6(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define COUNTS_10(X) COUNTS_6(X) X(7) X(8) X(9) X(10)
COUNTS_6(DEFINE_TILE_16)
COUNTS_10(DEFINE_TILE_8)

static const oct_direct_tile wide = {.rows = 6, .width = 16, .by_rows = {NULL, COUNTS_6(NAME_16)}};
static const oct_direct_tile narrow = {.rows = 10, .width = 8, .by_rows = {NULL, COUNTS_10(NAME_8)}};
static const oct_direct_tile *const tiles[] = {&narrow, &wide};
static const oct_direct_isa isa = {.quantum = 8, .widest = 16, .tiles = tiles, .epilogue = oct_epilogue_i8_avx2};

static size_t packed_bytes(const oct_conv_shape *s) { return oct_direct_packed_bytes(s, &isa); }
static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) { oct_direct_pack(s, &isa, weights, packed); }
static size_t units(const oct_conv_shape *s) { return oct_direct_units(s, &isa); }
static void run(const oct_conv_i8_args *args, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  oct_direct_run(args, &isa, begin, end);
}

#ifdef OCT_AVXVNNI_AS_AVX512VL
const oct_conv_i8_kernel oct_conv_i8_direct_6x16__avx512vl = {
    .name = "conv_i8_direct_6x16__avx512vl",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 100,
#else
const oct_conv_i8_kernel oct_conv_i8_direct_6x16__avxvnni = {
    .name = "conv_i8_direct_6x16__avxvnni",
    .isa = OCT_ISA_AVXVNNI,
    .preference = 300,
#endif
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = units,
    .run = run,
};
