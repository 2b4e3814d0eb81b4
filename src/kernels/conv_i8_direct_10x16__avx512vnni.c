/* Direct 8-bit convolution, tiles of 10 pixels x 16 channels: 10 accumulators, each its own variable because gcc 12 keeps
 * arrays of them in memory.
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_tiles__avx512vnni.h"

#define ROWS 10
#define WIDTH 16
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)

#define DECLARE(r)                            \
  const uint8_t *a##r = in[r < rows ? r : 0]; \
  __m512i c##r##0 = b0;
#define MULTIPLY(r)                             \
  if (r < rows) {                               \
    const __m512i x = oct_broadcast4(a##r + k); \
    c##r##0 = oct_dot512(c##r##0, x, w0);       \
  }
#define STORE(r)                                      \
  if (r < rows) {                                     \
    _mm512_store_si512(acc + r * WIDTH + 0, c##r##0); \
  }

/* `rows` is a constant wherever this is inlined, so the variables of rows beyond it vanish. */
static inline __attribute__((always_inline)) void tile(const int rows, const oct_direct_walk *walk, const uint8_t *const *in,
                                                       const int8_t *w, const int32_t *bias, int32_t *acc) {
  const __m512i b0 = _mm512_load_si512(bias);
  EACH_ROW(DECLARE)
  OCT_DIRECT_WALK(WIDTH, {
    const __m512i w0 = _mm512_loadu_si512(w);
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
DEFINE_TILE(7)
DEFINE_TILE(8)
DEFINE_TILE(9)
DEFINE_TILE(10)

const oct_direct_tile oct_conv_i8_tile_10x16__avx512vnni = {
    .rows = ROWS,
    .width = WIDTH,
    .by_rows = {NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6, tile_7, tile_8, tile_9, tile_10},
};

static const char *reject(const oct_conv_shape *s) {
  return s->out_channels / s->groups > WIDTH ? "made for at most 16 output channels per group" : NULL;
}

const oct_conv_i8_kernel oct_conv_i8_direct_10x16__avx512vnni = {
    .name = "conv_i8_direct_10x16__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 430,
    .reject = reject,
    .packed_bytes = oct_conv_i8_direct_packed_bytes__avx512vnni,
    .pack = oct_conv_i8_direct_pack__avx512vnni,
    .units = oct_conv_i8_direct_units__avx512vnni,
    .run = oct_conv_i8_direct_run__avx512vnni,
};
