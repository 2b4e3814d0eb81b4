/* First-layer convolution for AVX-512 VNNI: tiles of ROWS pixels x WIDTH
 * channels, both defined before this is included, their epilogue, and the parts
 * of a row. SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_FIRST_512_TILE_H
#define OCT_KERNELS_CONV_I8_FIRST_512_TILE_H

#include "kernels/conv_i8_first.h"
#include "kernels/conv_i8_positive__avx512vnni.h"
#include "kernels/conv_i8_tiles__avx512vnni.h"

#define VECTORS (WIDTH / 16)

#include "kernels/conv_i8_first_512_finish_tile.h"

_Static_assert(ROWS % (4 / VECTORS) == 0 && ROWS <= OCT_FIRST_ROWS, "tiles fill whole vectors of bytes");
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

#define DECLARE(r) oct_acc512 c##r##0 = b0, c##r##1 = b1, c##r##2 = b2, c##r##3 = b3;
#define LOAD_WEIGHTS                                                                          \
  const __m512i w0 = VECTOR(_mm512_loadu_si512, w, 0), w1 = VECTOR(_mm512_loadu_si512, w, 1); \
  const __m512i w2 = VECTOR(_mm512_loadu_si512, w, 2), w3 = VECTOR(_mm512_loadu_si512, w, 3);
#define ADD_PRODUCTS(r, at)                                    \
  if (r < rows) {                                              \
    const __m512i v = oct_broadcast4(at);                      \
    c##r##0 = oct_dot_acc512(c##r##0, v, w0);                  \
    if (VECTORS > 1) c##r##1 = oct_dot_acc512(c##r##1, v, w1); \
    if (VECTORS > 2) c##r##2 = oct_dot_acc512(c##r##2, v, w2); \
    if (VECTORS > 2) c##r##3 = oct_dot_acc512(c##r##3, v, w3); \
  }
#define OFFSET(r) const ptrdiff_t a##r = (r)*parts[0].step;
#define MULTIPLY(r) ADD_PRODUCTS(r, x + a##r)
#define MULTIPLY_LEFT(r) ADD_PRODUCTS(r, left + 8 * r)
#define STORE(r)                                                                 \
  if (r < rows) {                                                                \
    _mm512_store_si512(acc + r * WIDTH, (__m512i)c##r##0);                       \
    if (VECTORS > 1) _mm512_store_si512(acc + r * WIDTH + 16, (__m512i)c##r##1); \
    if (VECTORS > 2) _mm512_store_si512(acc + r * WIDTH + 32, (__m512i)c##r##2); \
    if (VECTORS > 2) _mm512_store_si512(acc + r * WIDTH + 48, (__m512i)c##r##3); \
  }
#define VECTOR(load, p, i) (VECTORS > (i) ? load((p) + (i)*64 / (ptrdiff_t)sizeof *(p)) : _mm512_setzero_si512())

/* Bytes of 64 accumulators from pixel r on. */
#define BYTES(r, a, b, c, d) \
  if (r < rows)              \
    finish_store(out + r * step, step, finish_64((__m512i)(a), (__m512i)(b), (__m512i)(c), (__m512i)(d), f, kind), 4 / VECTORS, f);
#if WIDTH == 64
#define BYTES_OF(r) BYTES(r, c##r##0, c##r##1, c##r##2, c##r##3)
#define EACH_64(X) EACH_ROW(X)
#elif WIDTH == 32
#define EACH_64(X) X(0, 1) X(2, 3) X(4, 5) X(6, 7) X(8, 9) X(10, 11)
#define BYTES_OF(r, s) BYTES(r, c##r##0, c##r##1, c##s##0, c##s##1)
#else
#define EACH_64(X) X(0, 1, 2, 3) X(4, 5, 6, 7) X(8, 9, 10, 11)
#define BYTES_OF(r, s, t, u) BYTES(r, c##r##0, c##s##0, c##t##0, c##u##0)
#endif

/* To accumulators, or, where f is given, to bytes. `rows`, `kind` and which of both are constants wherever this is inlined, so the variables
 * of rows beyond them vanish. */
static inline __attribute__((always_inline)) void tile(const int rows, const oct_first_part parts[2], const int8_t *w, const int32_t *bias,
                                                       int32_t *acc, const finish *f, finish_kind kind, char *out, ptrdiff_t step) {
  const oct_acc512 b0 = (oct_acc512)VECTOR(_mm512_load_si512, bias, 0), b1 = (oct_acc512)VECTOR(_mm512_load_si512, bias, 1);
  const oct_acc512 b2 = (oct_acc512)VECTOR(_mm512_load_si512, bias, 2), b3 = (oct_acc512)VECTOR(_mm512_load_si512, bias, 3);
  const uint8_t *in = parts[0].in, *left = parts[1].in;
  EACH_ROW(OFFSET)
  EACH_ROW(DECLARE)
  for (const ptrdiff_t *at = parts[0].offsets, *end = at + parts[0].count; at < end; at++, w += 4 * WIDTH) {
    const uint8_t *x = in + *at;
    LOAD_WEIGHTS
    EACH_ROW(MULTIPLY)
  }
  if (parts[1].count > 0) {
    LOAD_WEIGHTS
    EACH_ROW(MULTIPLY_LEFT)
  }
  if (parts[1].count > 1) {
    w += 4 * WIDTH, left += 4;
    LOAD_WEIGHTS
    EACH_ROW(MULTIPLY_LEFT)
  }
  if (f) {
    EACH_64(BYTES_OF)
    return;
  }
  EACH_ROW(STORE)
}

#define DEFINE_TILE(count)                                                                                            \
  static void tile_##count(const oct_first_part parts[2], const int8_t *weights, const int32_t *bias, int32_t *acc) { \
    tile(count, parts, weights, bias, acc, NULL, CLAMP, NULL, 0);                                                     \
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

/* Tiles ahead whose place is fetched: the outputs of a first layer have long left the near caches. */
#define OUT_AHEAD 4

/* `tiles` tiles side by side. */
static inline __attribute__((always_inline)) void bytes_as(const oct_first_part parts[2], int tiles, const int8_t *weights,
                                                           const int32_t *bias, const finish *f, finish_kind kind, char *out,
                                                           ptrdiff_t step) {
  oct_first_part part[2] = {parts[0], parts[1]};
  const char *ahead = out + OUT_AHEAD * ROWS * step;
  const ptrdiff_t bytes = VECTORS == 4 && step == WIDTH ? ROWS * WIDTH : 0; /* of a tile */
  for (; tiles > 0; tiles--, out += ROWS * step) {
    for (ptrdiff_t at = 0; at < bytes; at += 64, ahead += 64) _mm_prefetch(ahead, _MM_HINT_T0);
    tile(ROWS, part, weights, bias, NULL, f, kind, out, step);
    part[0].in += ROWS * part[0].step, part[1].in += ROWS * 8;
  }
}
static void bytes_plain(const oct_first_part parts[2], int tiles, const int8_t *weights, const int32_t *bias, const finish *f, char *out,
                        ptrdiff_t step) {
  bytes_as(parts, tiles, weights, bias, f, PLAIN, out, step);
}
static void bytes_saturate(const oct_first_part parts[2], int tiles, const int8_t *weights, const int32_t *bias, const finish *f, char *out,
                           ptrdiff_t step) {
  bytes_as(parts, tiles, weights, bias, f, SATURATE, out, step);
}
static void bytes_positive(const oct_first_part parts[2], int tiles, const int8_t *weights, const int32_t *bias, const finish *f, char *out,
                           ptrdiff_t step) {
  bytes_as(parts, tiles, weights, bias, f, POSITIVE, out, step);
}
static const bytes_fn bytes_by_kind[] = {[CLAMP] = NULL, [SATURATE] = bytes_saturate, [PLAIN] = bytes_plain, [POSITIVE] = bytes_positive};

#include "kernels/conv_i8_first_512_run_tile.h"

#endif
