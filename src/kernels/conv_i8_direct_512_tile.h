/* A tile of direct 8-bit convolution in 512-bit vectors, written once for every shape. The including file defines ROWS (pixels, at most 10)
 * and VECTORS (of 16 output channels, at most 4), and gets `by_rows`. Each accumulator is a variable of its own (gcc 12 keeps arrays of them in
 * memory); `rows` and VECTORS are constants after inlining, which removes what they leave unused.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_DIRECT_512_TILE_H
#define OCT_KERNELS_CONV_I8_DIRECT_512_TILE_H

#include "kernels/conv_i8_tiles__avx512vnni.h"

#define WIDTH (16 * VECTORS)
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)

#define DECLARE(r)                            \
  const uint8_t *a##r = in[r < rows ? r : 0]; \
  __m512i c##r##0 = b0, c##r##1 = b1, c##r##2 = b2, c##r##3 = b3;
#define MULTIPLY(r)                                        \
  if (r < rows) {                                          \
    const __m512i x = oct_broadcast4(a##r + k);            \
    c##r##0 = oct_dot512(c##r##0, x, w0);                  \
    if (VECTORS > 1) c##r##1 = oct_dot512(c##r##1, x, w1); \
    if (VECTORS > 2) c##r##2 = oct_dot512(c##r##2, x, w2); \
    if (VECTORS > 3) c##r##3 = oct_dot512(c##r##3, x, w3); \
  }
#define STORE(r)                                                        \
  if (r < rows) {                                                       \
    _mm512_store_si512(acc + r * WIDTH, c##r##0);                       \
    if (VECTORS > 1) _mm512_store_si512(acc + r * WIDTH + 16, c##r##1); \
    if (VECTORS > 2) _mm512_store_si512(acc + r * WIDTH + 32, c##r##2); \
    if (VECTORS > 3) _mm512_store_si512(acc + r * WIDTH + 48, c##r##3); \
  }

static inline __attribute__((always_inline)) void tile(const int rows, const oct_direct_walk *walk, const uint8_t *const *in,
                                                       const int8_t *w, const int32_t *bias, int32_t *acc) {
  const __m512i b0 = _mm512_load_si512(bias), b1 = VECTORS > 1 ? _mm512_load_si512(bias + 16) : b0;
  const __m512i b2 = VECTORS > 2 ? _mm512_load_si512(bias + 32) : b0, b3 = VECTORS > 3 ? _mm512_load_si512(bias + 48) : b0;
  const char *next = walk->next;
  EACH_ROW(DECLARE)
  OCT_DIRECT_WALK(WIDTH, {
    if (VECTORS > 3) {
      _mm_prefetch(next, _MM_HINT_T1);
      next += 64;
    }
    const __m512i w0 = _mm512_loadu_si512(w);
    const __m512i w1 = VECTORS > 1 ? _mm512_loadu_si512(w + 64) : w0;
    const __m512i w2 = VECTORS > 2 ? _mm512_loadu_si512(w + 128) : w0;
    const __m512i w3 = VECTORS > 3 ? _mm512_loadu_si512(w + 192) : w0;
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
#if ROWS > 6
DEFINE_TILE(7)
DEFINE_TILE(8)
#endif
#if ROWS > 8
DEFINE_TILE(9)
DEFINE_TILE(10)
#endif

#if ROWS == 6
#define TILES NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6
#elif ROWS == 8
#define TILES NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6, tile_7, tile_8
#else
#define TILES NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6, tile_7, tile_8, tile_9, tile_10
#endif

#endif
