/* Direct 8-bit convolution, tiles of 6 pixels x 64 channels: 24 accumulators, each its own variable because gcc 12 keeps
 * arrays of them in memory. Also what the narrower rows of this instruction set share.
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_tiles__avx512vnni.h"

#define ROWS 6
#define WIDTH 64
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5)

#define DECLARE(r)                            \
  const uint8_t *a##r = in[r < rows ? r : 0]; \
  __m512i c##r##0 = b0, c##r##1 = b1, c##r##2 = b2, c##r##3 = b3;
#define MULTIPLY(r)                             \
  if (r < rows) {                               \
    const __m512i x = oct_broadcast4(a##r + k); \
    c##r##0 = oct_dot512(c##r##0, x, w0);       \
    c##r##1 = oct_dot512(c##r##1, x, w1);       \
    c##r##2 = oct_dot512(c##r##2, x, w2);       \
    c##r##3 = oct_dot512(c##r##3, x, w3);       \
  }
#define STORE(r)                                       \
  if (r < rows) {                                      \
    _mm512_store_si512(acc + r * WIDTH + 0, c##r##0);  \
    _mm512_store_si512(acc + r * WIDTH + 16, c##r##1); \
    _mm512_store_si512(acc + r * WIDTH + 32, c##r##2); \
    _mm512_store_si512(acc + r * WIDTH + 48, c##r##3); \
  }

/* `rows` is a constant wherever this is inlined, so the variables of rows beyond it vanish. */
static inline __attribute__((always_inline)) void tile(const int rows, const oct_direct_walk *walk, const uint8_t *const *in,
                                                       const int8_t *w, const int32_t *bias, int32_t *acc) {
  const __m512i b0 = _mm512_load_si512(bias), b1 = _mm512_load_si512(bias + 16), b2 = _mm512_load_si512(bias + 32),
                b3 = _mm512_load_si512(bias + 48);
  const char *next = walk->next;
  EACH_ROW(DECLARE)
  OCT_DIRECT_WALK(WIDTH, {
    _mm_prefetch(next, _MM_HINT_T1);
    next += 64;
    const __m512i w0 = _mm512_loadu_si512(w);
    const __m512i w1 = _mm512_loadu_si512(w + 64);
    const __m512i w2 = _mm512_loadu_si512(w + 128);
    const __m512i w3 = _mm512_loadu_si512(w + 192);
    EACH_ROW(MULTIPLY)
  })
  EACH_ROW(STORE)
}

#define DEFINE_TILE(count)                                                                                                    \
  static void tile_##count(const oct_direct_walk *walk, const uint8_t *const *in, const int8_t *weights, const int32_t *bias, \
                           int32_t *acc) {                                                                                    \
    tile(count, walk, in, weights, bias, acc);                                                                                \
  }
DEFINE_TILE(1)
DEFINE_TILE(2)
DEFINE_TILE(3)
DEFINE_TILE(4)
DEFINE_TILE(5)
DEFINE_TILE(6)

const oct_direct_tile oct_conv_i8_tile_6x64__avx512vnni = {
    .rows = ROWS,
    .width = WIDTH,
    .by_rows = {NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6},
};

static const oct_direct_tile *const tiles[] = {&oct_conv_i8_tile_10x16__avx512vnni, &oct_conv_i8_tile_10x32__avx512vnni,
                                               &oct_conv_i8_tile_8x48__avx512vnni, &oct_conv_i8_tile_6x64__avx512vnni};
static const oct_direct_isa isa = {.quantum = 16, .widest = 64, .tiles = tiles, .epilogue = oct_epilogue_i8_avx512};

size_t oct_conv_i8_direct_packed_bytes__avx512vnni(const oct_conv_shape *s) { return oct_direct_packed_bytes(s, &isa); }
void oct_conv_i8_direct_pack__avx512vnni(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  oct_direct_pack(s, &isa, weights, packed);
}
size_t oct_conv_i8_direct_units__avx512vnni(const oct_conv_shape *s) { return oct_direct_units(s, &isa); }
void oct_conv_i8_direct_run__avx512vnni(const oct_conv_i8_args *args, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  oct_direct_run(args, &isa, begin, end);
}

const oct_conv_i8_kernel oct_conv_i8_direct_6x64__avx512vnni = {
    .name = "conv_i8_direct_6x64__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 400,
    .packed_bytes = oct_conv_i8_direct_packed_bytes__avx512vnni,
    .pack = oct_conv_i8_direct_pack__avx512vnni,
    .units = oct_conv_i8_direct_units__avx512vnni,
    .run = oct_conv_i8_direct_run__avx512vnni,
};
