/* Depthwise 8-bit 5x5 convolution (see conv_i8_depthwise_strips__avx512vnni.h). What two output rows need of a column is interleaved once
 * and written as planes, one per quarter: then the pixels of a vector lie side by side for every kernel column.
 * With stride 1 a column has rows 0 to 3, and rows 4 and 5 beside those of the column before it: 8 dot products instead of 10. With stride 2
 * a place holds two columns of two rows, three times, and row 6 of these two columns and of the two before them.
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_depthwise_strips__avx512vnni.h"

#define PLANES 24576 /* bytes of all: within a first-level cache */

/* Bytes from plane to plane and from column to column: columns side by side, or, where a vector is one, its planes. The latter keeps what is
 * read apart from what was just written, in the lowest 12 bits of addresses too. */
typedef struct layout {
  ptrdiff_t plane, column;
} layout;

static const int8_t taps_1[16][4] = {
    {0, 5, 10, 15},   {-1, 0, 5, 10},   {1, 6, 11, 16},   {-1, 1, 6, 11},   {2, 7, 12, 17},   {-1, 2, 7, 12},
    {3, 8, 13, 18},   {-1, 3, 8, 13},   {4, 9, 14, 19},   {-1, 4, 9, 14},   {20, -1, 21, -1}, {15, 20, 16, 21},
    {22, -1, 23, -1}, {17, 22, 18, 23}, {-1, -1, 24, -1}, {-1, -1, 19, 24},
};
static const int8_t taps_2[17][4] = {
    {0, 1, 5, 6},     {2, 3, 7, 8},     {4, -1, 9, -1},                                                         /* rows 0 and 1 */
    {10, 11, 15, 16}, {0, 1, 5, 6},     {12, 13, 17, 18}, {2, 3, 7, 8},     {14, -1, 19, -1}, {4, -1, 9, -1},   /* 2 and 3 */
    {20, 21, -1, -1}, {10, 11, 15, 16}, {22, 23, -1, -1}, {12, 13, 17, 18}, {24, -1, -1, -1}, {14, -1, 19, -1}, /* 4 and 5 */
    {20, 21, 22, 23}, {-1, -1, 24, -1},
};

static inline __attribute__((always_inline)) void store_quarters(uint8_t *out, ptrdiff_t plane, oct_quarters x) {
  _mm512_store_si512(out, x.q0);
  _mm512_store_si512(out + plane, x.q1);
  _mm512_store_si512(out + 2 * plane, x.q2);
  _mm512_store_si512(out + 3 * plane, x.q3);
}

/* The vector of pixels that begins one pixel before b; a is the one before it. */
static inline __attribute__((always_inline)) oct_strip_pairs preceding(oct_strip_pairs a, oct_strip_pairs b, int pixels) {
  if (pixels == 1) return a;
  if (pixels == 2) return (oct_strip_pairs){_mm512_alignr_epi32(b.low, a.low, 8), _mm512_alignr_epi32(b.high, a.high, 8)};
  return (oct_strip_pairs){_mm512_alignr_epi32(b.low, a.low, 12), _mm512_alignr_epi32(b.high, a.high, 12)};
}

/* The input of some strip, and what its latest columns leave to the next ones. */
typedef struct source {
  const uint8_t *in[OCT_STRIP_ROWS];
  ptrdiff_t pixel, last; /* last: where a row's last column is */
  oct_strip_pairs before;
} source;

/* Planes n .. n + 3 of a vector of columns at `at`. `pixels` is a constant wherever these are inlined. */
static inline __attribute__((always_inline)) void fill_rows(const source *s, ptrdiff_t at, uint8_t *out, ptrdiff_t plane, int pixels) {
  store_quarters(out, plane, oct_strip_column(s->in, at, s->pixel, s->last, pixels));
}

static inline __attribute__((always_inline)) void fill_pairs(source *s, oct_strip_pairs x, uint8_t *out, ptrdiff_t plane, int pixels) {
  store_quarters(out, plane, oct_strip_quads(preceding(s->before, x, pixels), x));
  s->before = x;
}

/* Rows 4 and 5. */
static inline __attribute__((always_inline)) void fill_below(source *s, ptrdiff_t at, uint8_t *out, ptrdiff_t plane, int pixels) {
  fill_pairs(
      s, oct_strip_pair(oct_strip_load(s->in[4], at, s->pixel, s->last, pixels), oct_strip_load(s->in[5], at, s->pixel, s->last, pixels)),
      out + 4 * plane, plane, pixels);
}

/* Two columns of a row. The second one may lie behind the last that there is. */
static inline __attribute__((always_inline)) oct_strip_pairs beside(const source *s, int row, ptrdiff_t at, int pixels) {
  return oct_strip_pair(oct_strip_load(s->in[row], at, 2 * s->pixel, s->last, pixels),
                        oct_strip_load(s->in[row], oct_min_i64(at + s->pixel, s->last), 2 * s->pixel, s->last, pixels));
}

/* Rows 2n and 2n + 1. */
static inline __attribute__((always_inline)) void fill_two(const source *s, int n, ptrdiff_t at, uint8_t *out, ptrdiff_t plane,
                                                           int pixels) {
  store_quarters(out + 4 * n * plane, plane, oct_strip_quads(beside(s, 2 * n, at, pixels), beside(s, 2 * n + 1, at, pixels)));
}

/* Row 6. */
static inline __attribute__((always_inline)) void fill_last(source *s, ptrdiff_t at, uint8_t *out, ptrdiff_t plane, int pixels) {
  fill_pairs(s, beside(s, 6, at, pixels), out + 12 * plane, plane, pixels);
}

static inline __attribute__((always_inline)) void fill(source *s, ptrdiff_t at, uint8_t *out, ptrdiff_t plane, int stride, int pixels) {
  if (stride == 1) {
    fill_rows(s, at, out, plane, pixels);
    fill_below(s, at, out, plane, pixels);
    return;
  }
  for (int n = 0; n < 3; n++) fill_two(s, n, at, out, plane, pixels);
  fill_last(s, at, out, plane, pixels);
}

/* A vector that two dot products use is loaded once: compilers would make it a memory operand of each. */
static inline __attribute__((always_inline)) __m512i weights_at(const int8_t *w, bool twice) {
  __m512i x = _mm512_loadu_si512(w);
  if (twice) __asm__("" : "+v"(x));
  return x;
}

/* Sums are computed up to here: clang 14 would leave some for after the stores of others, and keep all that they need on the stack. */
static inline __attribute__((always_inline)) void pin(oct_quarters *y) {
  __asm__ volatile("" : "+v"(y->q0), "+v"(y->q1), "+v"(y->q2), "+v"(y->q3));
}

/* Sums of output rows 0 and 1: y at one vector, z at the one after it. */
typedef struct sums {
  oct_quarters y0, y1, z0, z1;
} sums;

static inline __attribute__((always_inline)) oct_quarters load_quarters(const uint8_t *p, layout l) {
  return (oct_quarters){_mm512_loadu_si512(p), _mm512_loadu_si512(p + l.plane), _mm512_loadu_si512(p + 2 * l.plane),
                        _mm512_loadu_si512(p + 3 * l.plane)};
}

/* One quarter of one dot product of each: for row 0, for row 1, or for both, whose weights follow one another. */
#define QUARTER(q, n)                                                               \
  {                                                                                 \
    const __m512i v = x->q, u = pair ? _mm512_loadu_si512(after + (n)*l.plane) : v; \
    if (row_0) {                                                                    \
      const __m512i f = weights_at(w + 64 * (n), pair);                             \
      s->y0.q = _mm512_dpbusd_epi32(s->y0.q, v, f);                                 \
      if (pair) s->z0.q = _mm512_dpbusd_epi32(s->z0.q, u, f);                       \
    }                                                                               \
    if (row_1) {                                                                    \
      const __m512i f = weights_at(w + 64 * (n) + (row_0 ? 256 : 0), pair);         \
      s->y1.q = _mm512_dpbusd_epi32(s->y1.q, v, f);                                 \
      if (pair) s->z1.q = _mm512_dpbusd_epi32(s->z1.q, u, f);                       \
    }                                                                               \
    x->q = u;                                                                       \
  }
/* x: of one column; with `pair`, of the column after it afterwards. */
static inline __attribute__((always_inline)) void dot(sums *s, oct_quarters *x, const uint8_t *after, layout l, const int8_t *w, bool row_0,
                                                      bool row_1, bool pair) {
  QUARTER(q0, 0)
  QUARTER(q1, 1)
  QUARTER(q2, 2)
  QUARTER(q3, 3)
  if (row_0) pin(&s->y0);
  if (row_1) pin(&s->y1);
  if (row_0 && pair) pin(&s->z0);
  if (row_1 && pair) pin(&s->z1);
}
/* Columns k and k + 1, whose planes begin at `plane`. */
#define COLUMN(n, k) (p->two[(k) / 2] + (k) % 2 * l.column + (n)*l.plane)
#define FIRST(at, plane, k, row_0, row_1) \
  x = load_quarters(COLUMN(plane, k), l); \
  dot(s, &x, COLUMN(plane, (k) + 1), l, w + (at), row_0, row_1, pair);
#define NEXT(at, plane, k, row_0, row_1)             \
  if (!pair) x = load_quarters(COLUMN(plane, k), l); \
  dot(s, &x, COLUMN(plane, (k) + 1), l, w + (at), row_0, row_1, pair);

/* Two columns, or places, to be filled while others are multiplied, because both keep other parts of the processor busy. */
typedef struct ahead {
  source *source; /* NULL: none */
  ptrdiff_t at[2];
  uint8_t *out;
} ahead;

/* The planes of a vector's columns, two by two. */
typedef struct window {
  const uint8_t *two[3];
} window;

static inline __attribute__((always_inline)) void dots_1(sums *s, const window *p, layout l, const int8_t *w, bool pair, ahead f) {
  oct_quarters x;
  FIRST(0, 0, 0, true, true)
  if (f.source) fill_rows(f.source, f.at[0], f.out, l.plane, 1);
  NEXT(512, 0, 1, true, true)
  NEXT(1024, 0, 2, true, true)
  if (f.source) fill_below(f.source, f.at[0], f.out, l.plane, 1);
  NEXT(1536, 0, 3, true, true)
  NEXT(2048, 0, 4, true, true)
  if (f.source) fill_rows(f.source, f.at[1], f.out + l.column, l.plane, 1);
  FIRST(2560, 4, 1, true, true)
  FIRST(3072, 4, 3, true, true)
  if (f.source) fill_below(f.source, f.at[1], f.out + l.column, l.plane, 1);
  NEXT(3584, 4, 4, true, true)
}

/* A store whose address has the lowest 12 bits of a later load delays it: planes are filled after those that lie 4096 bytes before them
 * were read. */
static inline __attribute__((always_inline)) void dots_2(sums *s, const window *p, layout l, const int8_t *w, bool pair, ahead f) {
  oct_quarters x;
  FIRST(0, 0, 0, true, false)
  NEXT(256, 0, 1, true, false)
  NEXT(512, 0, 2, true, false)
  if (f.source) fill_two(f.source, 0, f.at[0], f.out, l.plane, 1);
  FIRST(768, 4, 0, true, true)
  if (f.source) fill_two(f.source, 0, f.at[1], f.out + l.column, l.plane, 1);
  NEXT(1280, 4, 1, true, true)
  NEXT(1792, 4, 2, true, true)
  if (f.source) fill_two(f.source, 1, f.at[0], f.out, l.plane, 1);
  FIRST(2304, 8, 0, true, true)
  if (f.source) fill_two(f.source, 1, f.at[1], f.out + l.column, l.plane, 1);
  NEXT(2816, 8, 1, true, true)
  NEXT(3328, 8, 2, true, true)
  if (f.source) fill_two(f.source, 2, f.at[0], f.out, l.plane, 1);
  FIRST(3840, 12, 1, false, true)
  if (f.source) fill_two(f.source, 2, f.at[1], f.out + l.column, l.plane, 1);
  NEXT(4096, 12, 2, false, true)
  if (f.source) fill_last(f.source, f.at[0], f.out, l.plane, 1);
  if (f.source) fill_last(f.source, f.at[1], f.out + l.column, l.plane, 1);
}

/* The vectors at pixel x and, with `pair`, the one after it. */
static inline __attribute__((always_inline)) void vectors(const oct_strip_output *o, const oct_strip_block *b, const window *p, int64_t x,
                                                          int stride, layout l, int pixels, bool pair, bool direct, ahead f) {
  const oct_quarters start = b->start;
  sums s = {start, start, start, start};
  if (stride == 1) dots_1(&s, p, l, b->weights, pair, f);
  else dots_2(&s, p, l, b->weights, pair, f);
  oct_strip_put(o, 0, x, s.y0, pixels, direct);
  oct_strip_put(o, 1, x, s.y1, pixels, direct);
  if (pair) oct_strip_put(o, 0, x + pixels, s.z0, pixels, direct);
  if (pair) oct_strip_put(o, 1, x + pixels, s.z1, pixels, direct);
}

static inline source source_of(const oct_strip *t, int stride) {
  source s = {.pixel = t->args->in.pixel};
  s.last = ((t->width - 1) * stride + 4) * s.pixel;
  for (int i = 0; i < OCT_STRIP_ROWS; i++) s.in[i] = t->in[i];
  s.before = (oct_strip_pairs){_mm512_setzero_si512(), _mm512_setzero_si512()};
  return s;
}

/* Planes are read from memory: gcc 12 would keep what was just written on the stack, too. */
static inline __attribute__((always_inline)) void written(const uint8_t *planes) { __asm__ volatile("" : : "r"(planes) : "memory"); }

/* One pixel per vector. There is room for eight columns, whose places are used in turn. */
static inline __attribute__((always_inline)) void narrow(const oct_strip *t, oct_strip_part part, int stride) {
  uint8_t planes[8192] __attribute__((aligned(64)));
  const layout l = {64, stride * 512};
  source s = source_of(t, stride);
  oct_strip_output o = oct_strip_output_of(t, &part);
  const ptrdiff_t column = stride * s.pixel, last = s.last / column * column;
  const int before = 4 / stride; /* columns, or places, that a vector needs besides its own */
  for (int strip = 0; strip < t->count; strip++) {
    ptrdiff_t at = part.first * column;
    for (int i = 0; i < before + 2; i++, at = oct_min_i64(at + column, last)) fill(&s, at, planes + i * l.column, l.plane, stride, 1);
    uint8_t *two[4] = {planes, planes + 2 * l.column, planes + 4 * l.column, planes + 6 * l.column};
    int64_t x = part.first;
    for (; x + 1 < part.end; x += 2) {
      written(planes);
      const window w = {{two[0], two[1], two[2]}};
      const ahead f = {&s, {at, oct_min_i64(at + column, last)}, two[before / 2 + 1]};
      vectors(&o, t->block, &w, x, stride, l, 1, true, true, f);
      at = oct_min_i64(f.at[1] + column, last);
      uint8_t *first = two[0];
      two[0] = two[1], two[1] = two[2], two[2] = two[3], two[3] = first;
    }
    written(planes);
    const window w = {{two[0], two[1], two[2]}};
    if (x < part.end) vectors(&o, t->block, &w, x, stride, l, 1, false, true, (ahead){NULL, {0, 0}, NULL});
    oct_strip_next(t, strip, s.in, OCT_STRIP_ROWS, &o);
  }
}

static inline __attribute__((always_inline)) void fill_all(const source *source, oct_strip_part part, int stride, int pixels,
                                                           uint8_t *planes) {
  struct source s = *source;
  const ptrdiff_t column = stride * s.pixel, end = oct_min_i64(s.last + 1, (part.end + 4 / stride) * column);
  for (ptrdiff_t at = part.first * column; at < end; at += pixels * column, planes += 64)
    fill(&s, at, planes, PLANES / 8 / stride, stride, pixels);
}

/* Any number of pixels per vector, and any output. */
static inline __attribute__((always_inline)) void general(const oct_strip *t, oct_strip_part part, int stride) {
  uint8_t planes[PLANES] __attribute__((aligned(64)));
  const int pixels = t->block->pixels;
  const layout l = {PLANES / 8 / stride, 64 / pixels};
  source s = source_of(t, stride);
  oct_strip_output o = oct_strip_output_of(t, &part);
  for (int strip = 0; strip < t->count; strip++) {
    if (pixels == 1) fill_all(&s, part, stride, 1, planes);
    else if (pixels == 2) fill_all(&s, part, stride, 2, planes);
    else fill_all(&s, part, stride, 4, planes);
    const uint8_t *p = planes;
    for (int64_t x = part.first; x < part.end; x += pixels, p += 64) {
      const window w = {{p, p + 2 * l.column, p + 4 * l.column}};
      vectors(&o, t->block, &w, x, stride, l, pixels, false, !part.sums, (ahead){NULL, {0, 0}, NULL});
    }
    oct_strip_next(t, strip, s.in, OCT_STRIP_ROWS, &o);
  }
}

static void narrow_1(const oct_strip *t, oct_strip_part part) { narrow(t, part, 1); }
static void narrow_2(const oct_strip *t, oct_strip_part part) { narrow(t, part, 2); }
static void general_1(const oct_strip *t, oct_strip_part part) { general(t, part, 1); }
static void general_2(const oct_strip *t, oct_strip_part part) { general(t, part, 2); }

static void part(const oct_strip *t, oct_strip_part part) {
  static const oct_strip_fn list[2][2] = {{narrow_1, general_1}, {narrow_2, general_2}};
  list[t->args->shape.stride_w - 1][t->block->pixels > 1 || part.sums](t, part);
}

static const oct_strip_form *form_of(const oct_conv_shape *s) {
  static const oct_strip_form forms[2] = {{.dots = 16, .taps = taps_1, .most = PLANES / 64 / 8 - 4, .part = part},
                                          {.dots = 17, .taps = taps_2, .most = PLANES / 64 / 16 - 4, .part = part}};
  return &forms[s->stride_w - 1];
}

static const char *reject(const oct_conv_shape *s) { return oct_strip_reject(s, 5); }
static size_t packed_bytes(const oct_conv_shape *s) { return oct_strip_packed_bytes(s, form_of(s)); }
static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) { oct_strip_pack(s, form_of(s), weights, packed); }

static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  oct_strip_run(a, begin, end, form_of(&a->shape));
}

const oct_conv_i8_kernel oct_conv_i8_depthwise_5x5__avx512vnni = {
    .name = "conv_i8_depthwise_5x5__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 515,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = oct_strip_units,
    .run = run,
};
