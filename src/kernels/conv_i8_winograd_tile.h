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

INLINE void input_row(const int width, six d, int16_t *v, ptrdiff_t position) {
  const six r = width == 4 ? input_4(d) : input_3(d);
  V_STORE(v, r.p0);
  V_STORE(v + position, r.p1);
  V_STORE(v + 2 * position, r.p2);
  V_STORE(v + 3 * position, r.p3);
  if (width == 4) V_STORE(v + 4 * position, r.p4);
  V_STORE(v + 5 * position, r.p5);
}

#define INPUT_ROW(i) input_row(width, (six){c0.p##i, c1.p##i, c2.p##i, c3.p##i, c4.p##i, c5.p##i}, v + i * 6 * position, position);

INLINE void input(const int height, const int width, const uint8_t *in, ptrdiff_t row, ptrdiff_t pixel, int64_t chunks, int16_t *v,
                  ptrdiff_t position) {
  for (; chunks > 0; chunks--, in += LANES, v += LANES) {
    const six c0 = input_column(height, in, row), c1 = input_column(height, in + pixel, row);
    const six c2 = input_column(height, in + 2 * pixel, row), c3 = input_column(height, in + 3 * pixel, row);
    const six c4 = input_column(height, in + 4 * pixel, row), c5 = width == 4 ? input_column(height, in + 5 * pixel, row) : c4;
    INPUT_ROW(0) INPUT_ROW(1) INPUT_ROW(2) INPUT_ROW(3) INPUT_ROW(5) if (height == 4) INPUT_ROW(4)
  }
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

/* ---- Output: A, scaled so that it completes the weights' factors to 24 in each dimension, modulo 2^32. The including file defines
 * OCT_WINOGRAD_PLAIN when these are 1. ---- */

#ifdef OCT_WINOGRAD_PLAIN
INLINE six output_4(six m) {
  const V s = V_SHIFT32(V_ADD32(m.p1, m.p2), 2), d = V_SHIFT32(V_SUB32(m.p1, m.p2), 2);
  const V t = V_ADD32(m.p3, m.p4), h = V_SUB32(m.p3, m.p4), a = V_ADD32(m.p0, m.p0);
  const V x = V_ADD32(h, V_ADD32(m.p5, V_ADD32(m.p5, m.p5)));
  return (six){.p0 = V_ADD32(V_SUB32(t, s), V_ADD32(a, V_ADD32(a, a))),
               .p1 = V_SUB32(V_ADD32(h, h), d),
               .p2 = V_SUB32(V_SHIFT32(t, 2), s),
               .p3 = V_SUB32(V_SHIFT32(x, 3), d),
               .p4 = x,
               .p5 = x};
}

INLINE six output_3(six m) {
  const V a = V_ADD32(m.p1, V_ADD32(m.p1, m.p1)), b = V_ADD32(m.p0, V_ADD32(m.p0, m.p0)), c = V_ADD32(m.p5, m.p5);
  const V p = V_ADD32(a, m.p2), q = V_SUB32(m.p2, a), f = V_ADD32(m.p3, m.p3);
  return (six){.p0 = V_SHIFT32(V_ADD32(V_SUB32(b, p), m.p3), 2),
               .p1 = V_SHIFT32(V_ADD32(q, f), 2),
               .p2 = V_SHIFT32(V_ADD32(V_SUB32(V_ADD32(f, f), p), V_ADD32(c, V_ADD32(c, c))), 2),
               .p3 = p,
               .p4 = p,
               .p5 = p};
}
#else
INLINE six output_4(six m) {
  const V s = V_ADD32(m.p1, m.p2), d = V_SUB32(m.p1, m.p2), t = V_ADD32(m.p3, m.p4), h = V_SUB32(m.p3, m.p4);
  const V x = V_ADD32(V_SHIFT32(h, 2), m.p5);
  return (six){.p0 = V_ADD32(V_ADD32(m.p0, s), t),
               .p1 = V_ADD32(d, V_ADD32(h, h)),
               .p2 = V_ADD32(s, V_SHIFT32(t, 2)),
               .p3 = V_ADD32(V_ADD32(d, x), x),
               .p4 = x,
               .p5 = x};
}

INLINE six output_3(six m) {
  const V a = V_ADD32(m.p1, V_ADD32(m.p1, m.p1)), p = V_ADD32(a, m.p2), q = V_SUB32(a, m.p2), f = V_SHIFT32(m.p3, 2);
  return (six){.p0 = V_ADD32(V_ADD32(m.p0, m.p0), V_ADD32(p, f)),
               .p1 = V_ADD32(q, V_ADD32(f, f)),
               .p2 = V_ADD32(V_ADD32(p, V_SHIFT32(f, 2)), V_ADD32(m.p5, m.p5)),
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

/* 576 (y + bias) becomes 64 (y + bias), shifted by `shift` bits. */
INLINE void output_store(const int shift, int32_t *acc, V x) {
  const V y = V_MUL32(x, V_SET1(OCT_WINOGRAD_NINTH));
  V_STORE(acc, shift ? V_SHIFT_RIGHT32(y, shift) : y);
}

INLINE void output_row(const int width, const int shift, six m, int32_t *acc) {
  const six r = width == 4 ? output_4(m) : output_3(m);
  output_store(shift, acc, r.p0);
  output_store(shift, acc + WIDTH, r.p1);
  output_store(shift, acc + 2 * WIDTH, r.p2);
  if (width == 4) output_store(shift, acc + 3 * WIDTH, r.p3);
}

#define OUTPUT_ROW(i) output_row(width, shift, (six){c0.p##i, c1.p##i, c2.p##i, c3.p##i, c4.p##i, c5.p##i}, acc + i * width * WIDTH);

INLINE void output(const int height, const int width, const int shift, const int32_t *m, ptrdiff_t position, int vectors,
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

#define DEFINE_OUTPUT(name, h, w, shift)                                                                   \
  static void name(const int32_t *m, ptrdiff_t position, int vectors, const int32_t *bias, int32_t *acc) { \
    output(h, w, shift, m, position, vectors, bias, acc);                                                  \
  }
#define DEFINE_TRANSFORMS(h, w)                                                                                                 \
  static void input_##h##w(const uint8_t *in, ptrdiff_t row, ptrdiff_t pixel, int64_t chunks, int16_t *v, ptrdiff_t position) { \
    input(h, w, in, row, pixel, chunks, v, position);                                                                           \
  }                                                                                                                             \
  DEFINE_OUTPUT(output_##h##w, h, w, 6)

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
