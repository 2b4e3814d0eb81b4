/* First-layer convolution for AVX-512 VNNI: tiles of ROWS pixels x WIDTH
 * channels, both defined before this is included, their epilogue, and the parts
 * of a row. SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_FIRST_512_TILE_H
#define OCT_KERNELS_CONV_I8_FIRST_512_TILE_H

#include "kernels/conv_i8_first.h"
#include "kernels/conv_i8_quarters__avx512vnni.h"
#include "kernels/conv_i8_tiles__avx512vnni.h"

#define VECTORS (WIDTH / 16)
_Static_assert(ROWS % (4 / VECTORS) == 0 && ROWS <= OCT_FIRST_ROWS, "tiles fill whole vectors of bytes");
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

#define DECLARE(r) __m512i c##r##0 = b0, c##r##1 = b1, c##r##2 = b2, c##r##3 = b3;
#define ADDRESS(r) const uint8_t *a##r = p->in + (r < rows ? r : 0) * p->step;
#define MULTIPLY(r)                                        \
  if (r < rows) {                                          \
    const __m512i x = oct_broadcast4(a##r + k);            \
    c##r##0 = oct_dot512(c##r##0, x, w0);                  \
    if (VECTORS > 1) c##r##1 = oct_dot512(c##r##1, x, w1); \
    if (VECTORS > 2) c##r##2 = oct_dot512(c##r##2, x, w2); \
    if (VECTORS > 2) c##r##3 = oct_dot512(c##r##3, x, w3); \
  }
#define STORE(r)                                                        \
  if (r < rows) {                                                       \
    _mm512_store_si512(acc + r * WIDTH, c##r##0);                       \
    if (VECTORS > 1) _mm512_store_si512(acc + r * WIDTH + 16, c##r##1); \
    if (VECTORS > 2) _mm512_store_si512(acc + r * WIDTH + 32, c##r##2); \
    if (VECTORS > 2) _mm512_store_si512(acc + r * WIDTH + 48, c##r##3); \
  }
#define VECTOR(load, p, i) (VECTORS > (i) ? load((p) + (i)*64 / (ptrdiff_t)sizeof *(p)) : _mm512_setzero_si512())

/* `rows` is a constant wherever this is inlined, so the variables of rows
 * beyond it vanish. */
static inline __attribute__((always_inline)) void tile(const int rows, const oct_first_part *p, const int8_t *w, const int32_t *bias,
                                                       int32_t *acc) {
  const __m512i b0 = VECTOR(_mm512_load_si512, bias, 0), b1 = VECTOR(_mm512_load_si512, bias, 1);
  const __m512i b2 = VECTOR(_mm512_load_si512, bias, 2), b3 = VECTOR(_mm512_load_si512, bias, 3);
  EACH_ROW(DECLARE)
  for (const oct_first_part *last = p + 2; p < last; p++) {
    EACH_ROW(ADDRESS)
    for (const ptrdiff_t *at = p->offsets, *end = at + p->count; at < end; at++, w += 4 * WIDTH) {
      const ptrdiff_t k = *at;
      const __m512i w0 = VECTOR(_mm512_loadu_si512, w, 0), w1 = VECTOR(_mm512_loadu_si512, w, 1);
      const __m512i w2 = VECTOR(_mm512_loadu_si512, w, 2), w3 = VECTOR(_mm512_loadu_si512, w, 3);
      EACH_ROW(MULTIPLY)
    }
  }
  EACH_ROW(STORE)
}

#define DEFINE_TILE(count)                                                                                            \
  static void tile_##count(const oct_first_part parts[2], const int8_t *weights, const int32_t *bias, int32_t *acc) { \
    tile(count, parts, weights, bias, acc);                                                                           \
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
DEFINE_TILE(9)
DEFINE_TILE(10)
#define MORE_TILES , tile_7, tile_8, tile_9, tile_10
#else
#define MORE_TILES
#endif
#if ROWS > 10
DEFINE_TILE(11)
DEFINE_TILE(12)
#define MOST_TILES , tile_11, tile_12
#else
#define MOST_TILES
#endif
static const oct_first_tile_fn by_rows[] = {NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6 MORE_TILES MOST_TILES};

#include "kernels/conv_i8_first_512_run_tile.h"

#endif
