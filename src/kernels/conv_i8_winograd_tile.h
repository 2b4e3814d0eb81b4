/* The transforms and products of exact Winograd convolution, written once for every vector width. The including file defines the
 * vector type V, its LANES of 16 bits, WIDTH (output channels of a panel) and the V_... operations, then instantiates products and
 * transforms. What they compute and how the data lie: conv_i8_winograd.h.
 * Each vector is a variable of its own (gcc 12 spills arrays); `height`, `width`, `rows` and `vectors` are constants after inlining,
 * which removes what they leave unused.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_WINOGRAD_TILE_H
#define OCT_KERNELS_CONV_I8_WINOGRAD_TILE_H

#include "kernels/conv_i8_winograd.h"

#define INLINE static inline __attribute__((always_inline))

/* One dimension of a tile. */
typedef struct six {
  V p0, p1, p2, p3, p4, p5;
} six;

/* ---- Input: B, modulo 2^16; what goes in are bytes, what comes out fits ---- */

INLINE six input_4(six d) {
  const V a = V_SUB16(d.p4, V_SHIFT16(d.p2, 2)), b = V_SUB16(d.p3, V_SHIFT16(d.p1, 2));
  const V c = V_SUB16(d.p4, d.p2), h = V_SUB16(d.p3, d.p1), e = V_ADD16(h, h);
  return (six){.p0 = V_ADD16(V_SHIFT16(V_SUB16(d.p0, d.p2), 2), c),
               .p1 = V_ADD16(a, b),
               .p2 = V_SUB16(a, b),
               .p3 = V_ADD16(c, e),
               .p4 = V_SUB16(c, e),
               .p5 = V_SUB16(V_SUB16(d.p5, d.p3), V_ADD16(e, e))};
}

/* Five inputs; position 4 does not exist. */
INLINE six input_3(six d) {
  const V a = V_SUB16(d.p3, d.p1), b = V_SUB16(d.p0, d.p2), c = V_SUB16(d.p2, d.p1), e = V_SUB16(d.p3, d.p2);
  return (six){.p0 = V_ADD16(a, V_ADD16(b, b)),
               .p1 = V_SUB16(e, V_ADD16(d.p1, d.p1)),
               .p2 = V_SUB16(e, V_ADD16(c, c)),
               .p3 = a,
               .p4 = a,
               .p5 = V_SUB16(V_SUB16(d.p4, d.p2), V_ADD16(a, a))};
}

INLINE six input_column(const int height, const uint8_t *in, ptrdiff_t row) {
  six d = {V_WIDEN(in), V_WIDEN(in + row), V_WIDEN(in + 2 * row), V_WIDEN(in + 3 * row), V_WIDEN(in + 4 * row), V_ZERO()};
  if (height == 3) return input_3(d);
  d.p5 = V_WIDEN(in + 5 * row);
  return input_4(d);
}

/* The same from pairs of bytes: products with small numbers take the place of shifts, and two pixels are widened at once. */
#ifdef V_PAIRS
INLINE six input_pairs_4(const int half, const uint8_t *in, ptrdiff_t row) {
  const V x = V_PAIRS(half, in + row, in + 3 * row), y = V_PAIRS(half, in + 2 * row, in + 4 * row), z = V_PAIRS(half, in, in + 5 * row);
  const V a = V_COMBINE(y, -4, 1), b = V_COMBINE(x, -4, 1), c = V_COMBINE(y, -1, 1), e = V_COMBINE(x, -2, 2);
  return (six){.p0 = V_ADD16(V_COMBINE(z, 4, 0), V_COMBINE(y, -5, 1)),
               .p1 = V_ADD16(a, b),
               .p2 = V_SUB16(a, b),
               .p3 = V_ADD16(c, e),
               .p4 = V_SUB16(c, e),
               .p5 = V_ADD16(V_COMBINE(z, 0, 1), V_COMBINE(x, 4, -5))};
}

INLINE six input_pairs_3(const int half, const uint8_t *in, ptrdiff_t row) {
  const V x = V_PAIRS(half, in + row, in + 3 * row), y = V_PAIRS(half, in, in + 2 * row), z = V_PAIRS(half, in + 2 * row, in + 4 * row);
  const V a = V_COMBINE(x, -1, 1);
  return (six){.p0 = V_ADD16(a, V_COMBINE(y, 2, -2)),
               .p1 = V_ADD16(V_COMBINE(x, -2, 1), V_COMBINE(y, 0, -1)),
               .p2 = V_ADD16(V_COMBINE(x, 2, 1), V_COMBINE(y, 0, -3)),
               .p3 = a,
               .p4 = a,
               .p5 = V_ADD16(V_COMBINE(z, -1, 1), V_COMBINE(x, 2, -2))};
}
#define INPUT_COLUMN(in) \
  (half < 0 ? input_column(height, in, row) : height == 4 ? input_pairs_4(half, in, row) : input_pairs_3(half, in, row))
#else
#define INPUT_COLUMN(in) ((void)half, input_column(height, in, row))
#endif

/* Writing waits for a line to come from the second-level cache: that of the next tile is fetched now. */
INLINE void input_store(int16_t *v, ptrdiff_t ahead, V x) {
  V_STORE(v, x);
  _mm_prefetch((const char *)v + ahead, _MM_HINT_T0);
}

INLINE void input_row(const int width, six d, int16_t *v, ptrdiff_t position, ptrdiff_t ahead) {
  const six r = width == 4 ? input_4(d) : input_3(d);
  input_store(v, ahead, r.p0);
  input_store(v + position, ahead, r.p1);
  input_store(v + 2 * position, ahead, r.p2);
  input_store(v + 3 * position, ahead, r.p3);
  if (width == 4) input_store(v + 4 * position, ahead, r.p4);
  input_store(v + 5 * position, ahead, r.p5);
}

/* A column's values in two of six rows: 1 and 2, 3 and 4, 0 and 5. So many fit registers, from one tile to the next. */
typedef struct two {
  V first, second;
} two;

INLINE two input_pick(const int rows, six c) { return rows == 0 ? (two){c.p1, c.p2} : rows == 1 ? (two){c.p3, c.p4} : (two){c.p0, c.p5}; }

/* Two rows of a vector of channels of all tiles. `half` -1: as they lie, 0 or 1: of pairs. */
INLINE const char *input_rows(const int height, const int width, const int half, const int rows, const oct_winograd_input *p,
                              const uint8_t *in, int16_t *v, const char *next) {
  const ptrdiff_t row = p->row, pixel = p->pixel, position = p->position, first = rows == 0 ? 1 : rows == 1 ? 3 : 0;
  const ptrdiff_t second = rows == 0 ? 2 : rows == 1 ? 4 : 5, ahead = p->tile * (ptrdiff_t)sizeof *v;
  two c0 = input_pick(rows, INPUT_COLUMN(in)), c1 = input_pick(rows, INPUT_COLUMN(in + pixel));
  for (int64_t left = p->tiles; left > 0; left--, in += width * pixel, v += p->tile) {
    const two c2 = input_pick(rows, INPUT_COLUMN(in + 2 * pixel)), c3 = input_pick(rows, INPUT_COLUMN(in + 3 * pixel));
    const two c4 = input_pick(rows, INPUT_COLUMN(in + 4 * pixel));
    two c5 = c4;
    if (width == 4) c5 = input_pick(rows, INPUT_COLUMN(in + 5 * pixel));
    input_row(width, (six){c0.first, c1.first, c2.first, c3.first, c4.first, c5.first}, v + 6 * first * position, position, ahead);
    if (rows != 1 || height == 4)
      input_row(width, (six){c0.second, c1.second, c2.second, c3.second, c4.second, c5.second}, v + 6 * second * position, position, ahead);
    c0 = width == 4 ? c4 : c3, c1 = width == 4 ? c5 : c4;
    for (ptrdiff_t line = 0; line < p->ahead; line += 64) _mm_prefetch(next + line, _MM_HINT_T1);
    next += p->ahead;
  }
  return next;
}

INLINE const char *input_vector(const int height, const int width, const int half, const oct_winograd_input *p, const uint8_t *in,
                                int16_t *v, const char *next) {
  next = input_rows(height, width, half, 0, p, in, v, next);
  next = input_rows(height, width, half, 1, p, in, v, next);
  return input_rows(height, width, half, 2, p, in, v, next);
}

INLINE void input(const int height, const int width, const oct_winograd_input *p) {
  const uint8_t *in = p->in;
  int16_t *v = p->v;
  int64_t chunks = p->chunks;
  const char *next = p->next;
#ifdef V_PAIRS
  for (; p->pairs && chunks > 0; chunks -= 2, in += 2 * LANES, v += 2 * LANES) {
    next = input_vector(height, width, 0, p, in, v, next);
    next = input_vector(height, width, 1, p, in, v + LANES, next);
  }
#endif
  for (; chunks > 0; chunks--, in += LANES, v += LANES) next = input_vector(height, width, -1, p, in, v, next);
}

/* ---- Products ---- */

#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define DECLARE(r) V c##r##0 = V_ZERO(), c##r##1 = V_ZERO(), c##r##2 = V_ZERO(), c##r##3 = V_ZERO();
#define LOAD(r)                                             \
  if (r < rows) {                                           \
    const int32_t *m = p->m + r * WIDTH;                    \
    c##r##0 = V_LOAD(m);                                    \
    if (vectors > 1) c##r##1 = V_LOAD(m + LANES / 2);       \
    if (vectors > 2) c##r##2 = V_LOAD(m + 2 * (LANES / 2)); \
    if (vectors > 3) c##r##3 = V_LOAD(m + 3 * (LANES / 2)); \
  }
#define MULTIPLY(r)                                            \
  if (r < rows) {                                              \
    const V x = V_SET1_32(v + r * tile);                       \
    c##r##0 = V_MULTIPLY_ADD(c##r##0, x, w0);                  \
    if (vectors > 1) c##r##1 = V_MULTIPLY_ADD(c##r##1, x, w1); \
    if (vectors > 2) c##r##2 = V_MULTIPLY_ADD(c##r##2, x, w2); \
    if (vectors > 3) c##r##3 = V_MULTIPLY_ADD(c##r##3, x, w3); \
  }
#define STORE(r)                                            \
  if (r < rows) {                                           \
    int32_t *m = p->m + r * WIDTH;                          \
    V_STORE(m, c##r##0);                                    \
    if (vectors > 1) V_STORE(m + LANES / 2, c##r##1);       \
    if (vectors > 2) V_STORE(m + 2 * (LANES / 2), c##r##2); \
    if (vectors > 3) V_STORE(m + 3 * (LANES / 2), c##r##3); \
  }

INLINE void product(const int rows, const int vectors, const oct_winograd_product *p) {
  const int16_t *v = p->v, *u = p->u;
  const char *next = p->next;
  const ptrdiff_t ahead = p->ahead, tile = p->tile;
  EACH_ROW(DECLARE)
  if (p->add) {
    EACH_ROW(LOAD)
  }
  for (int64_t left = p->steps; left > 0; left--, v += 2, u += LANES * vectors, next += ahead) {
    _mm_prefetch(next, _MM_HINT_T1);
    if (vectors * LANES > 64) _mm_prefetch(next + 64, _MM_HINT_T1);
    const V w0 = V_LOAD(u), w1 = vectors > 1 ? V_LOAD(u + LANES) : w0;
    const V w2 = vectors > 2 ? V_LOAD(u + 2 * LANES) : w0, w3 = vectors > 3 ? V_LOAD(u + 3 * LANES) : w0;
    EACH_ROW(MULTIPLY)
  }
  EACH_ROW(STORE)
}

#define DEFINE_PRODUCT(vectors, rows) \
  static void product_##vectors##_##rows(const oct_winograd_product *p) { product(rows, vectors, p); }
#define DEFINE_PRODUCTS_6(v) \
  DEFINE_PRODUCT(v, 1) DEFINE_PRODUCT(v, 2) DEFINE_PRODUCT(v, 3) DEFINE_PRODUCT(v, 4) DEFINE_PRODUCT(v, 5) DEFINE_PRODUCT(v, 6)
#define PRODUCTS_6(v) NULL, product_##v##_1, product_##v##_2, product_##v##_3, product_##v##_4, product_##v##_5, product_##v##_6

/* ---- Output: A, scaled so that it completes the weights' factors to 12 in each dimension, or to 24 for the first output of four, modulo
 * 2^32. The including file defines OCT_WINOGRAD_PLAIN when weights have no factors. ---- */

#ifdef OCT_WINOGRAD_PLAIN
INLINE six output_4(six m) {
  const V a = V_ADD32(m.p1, m.p2), b = V_SUB32(m.p1, m.p2), s = V_ADD32(a, a), d = V_ADD32(b, b);
  const V t = V_ADD32(m.p3, m.p4), h = V_SUB32(m.p3, m.p4), u = V_SUB32(t, s), c = V_ADD32(m.p0, m.p0);
  const V x = V_ADD32(h, V_ADD32(m.p5, V_ADD32(m.p5, m.p5)));
  return (six){.p0 = V_ADD32(V_SUB32(u, s), V_ADD32(c, V_ADD32(c, c))),
               .p1 = V_SUB32(h, d),
               .p2 = V_ADD32(u, t),
               .p3 = V_SUB32(V_SHIFT32(x, 2), d),
               .p4 = x,
               .p5 = x};
}

INLINE six output_3(six m) {
  const V a = V_ADD32(m.p1, V_ADD32(m.p1, m.p1)), b = V_ADD32(m.p0, V_ADD32(m.p0, m.p0)), c = V_ADD32(m.p5, m.p5);
  const V p = V_ADD32(a, m.p2), q = V_SUB32(m.p2, a), f = V_ADD32(m.p3, m.p3);
  return (six){.p0 = V_SHIFT32(V_ADD32(V_SUB32(b, p), m.p3), 1),
               .p1 = V_SHIFT32(V_ADD32(q, f), 1),
               .p2 = V_SHIFT32(V_ADD32(V_SUB32(V_ADD32(f, f), p), V_ADD32(c, V_ADD32(c, c))), 1),
               .p3 = p,
               .p4 = p,
               .p5 = p};
}
#else
INLINE six output_4(six m) {
  const V s = V_ADD32(m.p1, m.p2), d = V_SUB32(m.p1, m.p2), t = V_ADD32(m.p3, m.p4), h = V_SUB32(m.p3, m.p4), u = V_ADD32(s, t);
  return (six){.p0 = V_ADD32(V_ADD32(m.p0, s), u),
               .p1 = V_ADD32(d, h),
               .p2 = V_ADD32(u, t),
               .p3 = V_ADD32(V_ADD32(d, m.p5), V_SHIFT32(h, 2)),
               .p4 = u,
               .p5 = u};
}

INLINE six output_3(six m) {
  const V a = V_ADD32(m.p1, V_ADD32(m.p1, m.p1)), p = V_ADD32(a, m.p2), q = V_SUB32(a, m.p2), f = V_ADD32(m.p3, m.p3);
  return (six){.p0 = V_ADD32(V_ADD32(m.p0, p), f),
               .p1 = V_ADD32(q, V_ADD32(f, f)),
               .p2 = V_ADD32(V_ADD32(p, m.p5), V_SHIFT32(f, 2)),
               .p3 = p,
               .p4 = p,
               .p5 = p};
}
#endif

INLINE six output_column(const int height, const int32_t *m, ptrdiff_t position, V bias) {
  const ptrdiff_t row = 6 * position;
  six c = {V_LOAD(m), V_ADD32(V_LOAD(m + row), bias), V_LOAD(m + 2 * row), V_LOAD(m + 3 * row), V_ZERO(), V_LOAD(m + 5 * row)};
  if (height == 3) return output_3(c);
  c.p4 = V_LOAD(m + 4 * row);
  return output_4(c);
}

/* 9 * 2^shift (y + bias) becomes y + bias, or, where `sums` is false, 2^shift as much. */
INLINE void output_store(const bool sums, const int shift, int32_t *acc, V x) {
  const V y = V_MUL32(x, V_SET1(OCT_WINOGRAD_NINTH));
  V_STORE(acc, sums ? V_SHIFT_RIGHT32(y, shift) : y);
}

INLINE void output_row(const int width, const bool sums, const int shift, six m, int32_t *acc) {
  const six r = width == 4 ? output_4(m) : output_3(m);
  output_store(sums, shift + (width == 4), acc, r.p0);
  output_store(sums, shift, acc + WIDTH, r.p1);
  output_store(sums, shift, acc + 2 * WIDTH, r.p2);
  if (width == 4) output_store(sums, shift, acc + 3 * WIDTH, r.p3);
}

#define OUTPUT_ROW(i)                                                                                                 \
  output_row(width, sums, i == 0 && height == 4 ? 5 : 4, (six){c0.p##i, c1.p##i, c2.p##i, c3.p##i, c4.p##i, c5.p##i}, \
             acc + i * width * WIDTH);

INLINE void output(const int height, const int width, const bool sums, const int32_t *m, ptrdiff_t position, int vectors,
                   const int32_t *bias, int32_t *acc) {
  const V none = V_ZERO();
  for (; vectors > 0; vectors--, m += LANES / 2, bias += LANES / 2, acc += LANES / 2) {
    const six c0 = output_column(height, m, position, none), c1 = output_column(height, m + position, position, V_LOAD(bias));
    const six c2 = output_column(height, m + 2 * position, position, none), c3 = output_column(height, m + 3 * position, position, none);
    const six c4 = width == 4 ? output_column(height, m + 4 * position, position, none) : c3;
    const six c5 = output_column(height, m + 5 * position, position, none);
    OUTPUT_ROW(0) OUTPUT_ROW(1) OUTPUT_ROW(2) if (height == 4) OUTPUT_ROW(3)
  }
}

/* ---- Weights, when they are packed as they are: G by columns for row i, then by rows ---- */

#ifdef OCT_WINOGRAD_PLAIN
#define TAP(i, j) V_WIDEN_SIGNED(w + (3 * (i) + (j)) * vectors * LANES)

/* G by columns: i and j are constants after inlining. */
INLINE V expand_tap(const int i, const int j, const int8_t *w, int vectors) {
  if (i == 0) return TAP(0, j);
  if (i == 5) return TAP(2, j);
  const V odd = i < 3 ? TAP(1, j) : V_SHIFT16(TAP(1, j), 1), even = V_ADD16(TAP(0, j), i < 3 ? TAP(2, j) : V_SHIFT16(TAP(2, j), 2));
  return i % 2 ? V_ADD16(even, odd) : V_SUB16(even, odd);
}

INLINE void expand_row(const int i, const int8_t *w, int64_t steps, const int vectors, int16_t *u, ptrdiff_t size) {
  for (; steps > 0; steps--, w += 8 * vectors * LANES)
    for (int n = 0; n < vectors; n++, w += LANES, u += LANES) {
      const V t0 = expand_tap(i, 0, w, vectors), t1 = expand_tap(i, 1, w, vectors), t2 = expand_tap(i, 2, w, vectors);
      const V s = V_ADD16(t0, t2), q = V_ADD16(t0, V_SHIFT16(t2, 2)), b = V_ADD16(t1, t1);
      V_STORE(u, t0);
      V_STORE(u + size, V_ADD16(s, t1));
      V_STORE(u + 2 * size, V_SUB16(s, t1));
      V_STORE(u + 3 * size, V_ADD16(q, b));
      V_STORE(u + 4 * size, V_SUB16(q, b));
      V_STORE(u + 5 * size, t2);
    }
}

static void expand(int i, const int8_t *w, int64_t steps, int vectors, int16_t *u, ptrdiff_t size) {
  if (i == 0) expand_row(0, w, steps, vectors, u, size);
  else if (i == 1) expand_row(1, w, steps, vectors, u, size);
  else if (i == 2) expand_row(2, w, steps, vectors, u, size);
  else if (i == 3) expand_row(3, w, steps, vectors, u, size);
  else if (i == 4) expand_row(4, w, steps, vectors, u, size);
  else expand_row(5, w, steps, vectors, u, size);
}
#endif

#define DEFINE_OUTPUT(name, h, w, sums)                                                                    \
  static void name(const int32_t *m, ptrdiff_t position, int vectors, const int32_t *bias, int32_t *acc) { \
    output(h, w, sums, m, position, vectors, bias, acc);                                                   \
  }
#define DEFINE_TRANSFORMS(h, w)                                             \
  static void input_##h##w(const oct_winograd_input *p) { input(h, w, p); } \
  DEFINE_OUTPUT(output_##h##w, h, w, true)

DEFINE_TRANSFORMS(3, 3)
DEFINE_TRANSFORMS(3, 4)
DEFINE_TRANSFORMS(4, 3)
DEFINE_TRANSFORMS(4, 4)

#define INPUTS                                   \
  {                                              \
    {input_33, input_34}, { input_43, input_44 } \
  }
#define OUTPUTS                                      \
  {                                                  \
    {output_33, output_34}, { output_43, output_44 } \
  }

#endif
