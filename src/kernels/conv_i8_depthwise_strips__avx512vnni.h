/* Depthwise 8-bit convolution by square kernels, strides 1 and 2, in strips of one or two output rows (AVX-512 VNNI): what 3x3 and 5x5
 * share. Four input bytes of each channel, which lie below or beside one another, are interleaved, so that a dot product takes four taps.
 * A vector holds one pixel of 33 to 64 channels, 2 of 17 to 32, or 4 of at most 16: the last channels of a wide image are such a block too.
 * Packed weights: [block of 64][dot product][quarter][16 channels][4 taps].
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_DEPTHWISE_STRIPS_AVX512VNNI_H
#define OCT_KERNELS_CONV_I8_DEPTHWISE_STRIPS_AVX512VNNI_H

#include "kernels/conv_i8_positive__avx512vnni.h"

#define OCT_STRIP_BLOCKS 8  /* most blocks whose constants are kept at a time */
#define OCT_STRIP_PART 8    /* most vectors between epilogues by way of memory */
#define OCT_STRIP_NARROW 64 /* output pixels: images of which each block's weights are to stay near, rather than rows */
#define OCT_STRIP_ROWS 7    /* most input rows */

/* One block of channels. */
typedef struct oct_strip_block {
  int64_t channel;
  int count, pixels; /* pixels: of a vector */
  bool positive;     /* see conv_i8_positive__avx512vnni.h; two output rows or more */
  const int8_t *weights;
  oct_quarters start;              /* of sums */
  oct_quarters multiplier, offset; /* if positive */
  oct_quarters_epilogue epilogue;  /* if not */
} oct_strip_block;

/* Some strips of one block, one below the other. */
typedef struct oct_strip {
  const oct_conv_i8_args *args;
  const oct_strip_block *block;
  const uint8_t *in[OCT_STRIP_ROWS]; /* the first strip's input rows; those that do not take part repeat one that does */
  char *out[2];
  ptrdiff_t in_next, out_next; /* from one strip to the next */
  int64_t image, y, width;     /* y: of the first output row; width: output pixels */
  ptrdiff_t out_pixel;
  int count, rows; /* strips; output rows of each */
  bool odd;        /* the last strip begins one row below the one before it, not two */
} oct_strip;

/* Output pixels [first, end) of a strip, or of some, if bytes are stored. */
typedef struct oct_strip_part {
  int64_t first, end;
  int32_t *sums; /* NULL: bytes go to the output; else each row's vectors, to sums + row * OCT_STRIP_PART * 64 */
} oct_strip_part;

typedef void (*oct_strip_fn)(const oct_strip *t, oct_strip_part part);

/* One way of computing strips: which taps (kernel row * width + column, or -1) each dot product takes. */
typedef struct oct_strip_form {
  int dots, most;          /* most: vectors of a part, where they have more than one pixel */
  const int8_t (*taps)[4]; /* [dots] */
  oct_strip_fn part;
} oct_strip_form;

static inline const char *oct_strip_reject(const oct_conv_shape *s, int side) {
  const char *reason = oct_depthwise_reject(s);
  if (reason) return reason;
  if (s->out_channels != s->channels) return "made for channel multiplier 1";
  if (s->kernel_h != side || s->kernel_w != side || s->dilation_h != 1 || s->dilation_w != 1)
    return "made for another kernel, or for one without dilation";
  return s->stride_h != s->stride_w || s->stride_h > 2 ? "made for strides 1 and 2" : NULL;
}

/* Pixels of a vector for a block that `left` channels are left for. */
static inline int oct_strip_pixels(int64_t left) { return left > 32 ? 1 : left > 16 ? 2 : 4; }

static inline size_t oct_strip_packed_bytes(const oct_conv_shape *s, const oct_strip_form *form) {
  return (size_t)((s->channels + 63) / 64) * (size_t)form->dots * 256;
}

static inline void oct_strip_pack(const oct_conv_shape *s, const oct_strip_form *form, const int8_t *weights, void *packed) {
  int8_t *out = (int8_t *)packed;
  const int64_t taps = (int64_t)s->kernel_h * s->kernel_w;
  for (int64_t first = 0; first < s->channels; first += 64)
    for (int dot = 0; dot < form->dots; dot++)
      for (int i = 0; i < 64; i++)
        for (int b = 0; b < 4; b++) {
          const int64_t c = first + oct_quarter_channel(i / 16, i % 16) % (64 / oct_strip_pixels(s->channels - first));
          const int tap = form->taps[dot][b];
          *out++ = c < s->channels && tap >= 0 ? weights[c * taps + tap] : 0;
        }
}

static inline int64_t oct_strip_units_per_image(const oct_conv_shape *s) { return s->out_h > 1 ? s->out_h / 2 : 1; }
static inline size_t oct_strip_units(const oct_conv_shape *s) { return (size_t)(s->batch * oct_strip_units_per_image(s)); }

/* 64 bytes of `loads` pixels of one input row, at `at` and every `step` bytes after it. Pixels behind `last` are not wanted: any bytes do.
 * With one load the pixels lie side by side, and it may reach behind the last one. */
static inline __attribute__((always_inline)) __m512i oct_strip_load(const uint8_t *in, ptrdiff_t at, ptrdiff_t step, ptrdiff_t last,
                                                                    int loads) {
  if (loads == 1) return _mm512_loadu_si512(in + at);
  const ptrdiff_t second = oct_min_i64(at + step, last);
  if (loads == 2) {
    __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(in + at)),
            y = _mm256_loadu_si256((const __m256i *)(const void *)(in + second));
    return _mm512_inserti64x4(_mm512_castsi256_si512(x), y, 1);
  }
  const ptrdiff_t third = oct_min_i64(at + 2 * step, last), fourth = oct_min_i64(at + 3 * step, last);
  __m512i x = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)(in + at)));
  x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(const void *)(in + second)), 1);
  x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(const void *)(in + third)), 2);
  return _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(const void *)(in + fourth)), 3);
}

/* Four rows of that, interleaved. */
static inline __attribute__((always_inline)) oct_quarters oct_strip_column(const uint8_t *const *in, ptrdiff_t at, ptrdiff_t step,
                                                                           ptrdiff_t last, int loads) {
  return oct_quarters_interleave(oct_strip_load(in[0], at, step, last, loads), oct_strip_load(in[1], at, step, last, loads),
                                 oct_strip_load(in[2], at, step, last, loads), oct_strip_load(in[3], at, step, last, loads));
}

/* Bytes side by side, and pairs of bytes: two steps of oct_quarters_interleave(). */
typedef struct oct_strip_pairs {
  __m512i low, high;
} oct_strip_pairs;

static inline __attribute__((always_inline)) oct_strip_pairs oct_strip_pair(__m512i a, __m512i b) {
  return (oct_strip_pairs){_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b)};
}

static inline __attribute__((always_inline)) oct_quarters oct_strip_quads(oct_strip_pairs a, oct_strip_pairs b) {
  return (oct_quarters){_mm512_unpacklo_epi16(a.low, b.low), _mm512_unpackhi_epi16(a.low, b.low), _mm512_unpacklo_epi16(a.high, b.high),
                        _mm512_unpackhi_epi16(a.high, b.high)};
}

/* The first `together` of 2 or 4 pixels to their places. */
static inline void oct_strip_scatter(const oct_strip *t, char *out, int together, __m512i bytes) {
  const int count = t->block->count;
  const __mmask32 mask = count == 32 ? ~(__mmask32)0 : ((__mmask32)1 << count) - 1;
  if (count == 32 && together == 2) {
    _mm256_storeu_si256((__m256i *)(void *)out, _mm512_castsi512_si256(bytes));
    _mm256_storeu_si256((__m256i *)(void *)(out + t->out_pixel), _mm512_extracti64x4_epi64(bytes, 1));
    return;
  }
  if (count == 16 && together == 4) {
    _mm_storeu_si128((__m128i *)(void *)out, _mm512_castsi512_si128(bytes));
    _mm_storeu_si128((__m128i *)(void *)(out + t->out_pixel), _mm512_extracti32x4_epi32(bytes, 1));
    _mm_storeu_si128((__m128i *)(void *)(out + 2 * t->out_pixel), _mm512_extracti32x4_epi32(bytes, 2));
    _mm_storeu_si128((__m128i *)(void *)(out + 3 * t->out_pixel), _mm512_extracti32x4_epi32(bytes, 3));
    return;
  }
  if (t->block->pixels == 2) {
    _mm256_mask_storeu_epi8(out, mask, _mm512_castsi512_si256(bytes));
    if (together > 1) _mm256_mask_storeu_epi8(out + t->out_pixel, mask, _mm512_extracti64x4_epi64(bytes, 1));
    return;
  }
  _mm_mask_storeu_epi8(out, (__mmask16)mask, _mm512_castsi512_si128(bytes));
  if (together > 1) _mm_mask_storeu_epi8(out + t->out_pixel, (__mmask16)mask, _mm512_extracti32x4_epi32(bytes, 1));
  if (together > 2) _mm_mask_storeu_epi8(out + 2 * t->out_pixel, (__mmask16)mask, _mm512_extracti32x4_epi32(bytes, 2));
  if (together > 3) _mm_mask_storeu_epi8(out + 3 * t->out_pixel, (__mmask16)mask, _mm512_extracti32x4_epi32(bytes, 3));
}

/* The vector of pixels that begins at pixel x of output row `row`, all of it or not. */
static inline void oct_strip_store(const oct_strip *t, int row, int64_t x, __m512i bytes) {
  const oct_strip_block *b = t->block;
  char *out = t->out[row] + x * t->out_pixel;
  if (b->pixels > 1) oct_strip_scatter(t, out, (int)oct_min_i64(b->pixels, t->width - x), bytes);
  else _mm512_mask_storeu_epi8(out, b->epilogue.mask, bytes);
}

static inline __attribute__((always_inline)) void oct_strip_store_sums(int32_t *sums, oct_quarters y) {
  _mm512_store_si512(sums, y.q0);
  _mm512_store_si512(sums + 16, y.q1);
  _mm512_store_si512(sums + 32, y.q2);
  _mm512_store_si512(sums + 48, y.q3);
}

/* Where a part's vectors go, and what they need on the way: copies, which no store can change. */
typedef struct oct_strip_output {
  const oct_strip *strip;
  oct_quarters multiplier, offset;
  char *out[2];
  int32_t *sums; /* of pixel 0 */
  int64_t width;
  ptrdiff_t out_pixel;
  int rows;
  bool dense;      /* the pixels of a vector lie side by side */
  __mmask16 words; /* of a pixel: a mask of bytes would cost twice as much */
} oct_strip_output;

static inline __attribute__((always_inline)) oct_strip_output oct_strip_output_of(const oct_strip *t, const oct_strip_part *part) {
  const oct_strip_block *b = t->block;
  return (oct_strip_output){.strip = t,
                            .multiplier = b->multiplier,
                            .offset = b->offset,
                            .out = {t->out[0], t->out[1]},
                            .sums = part->sums,
                            .width = t->width,
                            .out_pixel = t->out_pixel,
                            .rows = t->rows,
                            .dense = b->count * b->pixels == 64 && t->out_pixel == b->count,
                            .words = (__mmask16)((1u << b->count / 4) - 1)};
}

/* From one of a block's strips to the next. */
static inline __attribute__((always_inline)) void oct_strip_next(const oct_strip *t, int strip, const uint8_t **in, int rows,
                                                                 oct_strip_output *o) {
  const bool half = t->odd && strip + 2 == t->count;
  const ptrdiff_t below = half ? t->in_next / 2 : t->in_next, out_below = half ? t->out_next / 2 : t->out_next;
  for (int i = 0; i < rows; i++) in[i] += below;
  o->out[0] += out_below, o->out[1] += out_below;
}

/* The vector of `pixels` that begins at pixel x of output row `row`. Both `pixels` and `direct` are constants wherever this is inlined. */
static inline __attribute__((always_inline)) void oct_strip_put(const oct_strip_output *o, int row, int64_t x, oct_quarters y, int pixels,
                                                                bool direct) {
  if (!direct) {
    oct_strip_store_sums(o->sums + ((x >> pixels / 2) % OCT_STRIP_PART + row * OCT_STRIP_PART) * 64, y);
    return;
  }
  const __m512i bytes = oct_positive_bytes(y, &o->multiplier, &o->offset);
  char *out = o->out[row] + x * o->out_pixel;
  if (pixels == 1) _mm512_mask_storeu_epi32(out, o->words, bytes);
  else if (o->dense && x + pixels <= o->width) _mm512_storeu_si512(out, bytes);
  else oct_strip_scatter(o->strip, out, (int)oct_min_i64(pixels, o->width - x), bytes);
}

/* Finishes pixels [first, end) of one output row, in any form of output. */
static inline void oct_strip_detour(const oct_strip *t, int row, int64_t first, int64_t end, int32_t *sums) {
  const oct_conv_i8_args *a = t->args;
  const int pixels = t->block->pixels;
  const size_t element = oct_epilogue_element(&a->epilogue);
  oct_direct_rows rows; /* large: only what is used is set */
  rows.pixel = (t->image * a->shape.out_h + t->y + row) * t->width + first, rows.count = (int)(end - first);
  for (int i = 0; i < rows.count; i++) {
    rows.out[i] = t->out[row] + (first + i) * t->out_pixel;
    if (a->residual.data)
      rows.residual[i] =
          (const char *)oct_view_at(&a->residual, element, t->image, t->y + row, first + i) + (ptrdiff_t)element * t->block->channel;
  }
  for (int i = 0; i < rows.count; i += pixels) {
    int32_t *at = sums + i / pixels * 64;
    oct_quarters_store_acc(
        at, (oct_quarters){_mm512_load_si512(at), _mm512_load_si512(at + 16), _mm512_load_si512(at + 32), _mm512_load_si512(at + 48)});
  }
  oct_epilogue_i8_avx512(a, &rows, t->block->channel, t->block->count, sums, 64 / pixels);
}

static inline void oct_strip_finish(const oct_strip *t, int row, int64_t first, int64_t end, int32_t *sums) {
  if (t->block->epilogue.kind == OCT_QUARTERS_DETOUR) {
    oct_strip_detour(t, row, first, end, sums);
    return;
  }
  const oct_quarters_epilogue e = t->block->epilogue;
  for (int64_t x = first; x < end; x += t->block->pixels, sums += 64) {
    const oct_quarters y = {_mm512_load_si512(sums), _mm512_load_si512(sums + 16), _mm512_load_si512(sums + 32),
                            _mm512_load_si512(sums + 48)};
    oct_strip_store(t, row, x, oct_quarters_bytes(y, &e));
  }
}

/* Bytes are stored at once in the common case: two output rows, and a simple epilogue. Else there is one strip. */
static inline void oct_strip_parts(const oct_strip *t, const oct_strip_form *form) {
  const bool direct = t->block->positive && t->rows == 2;
  const int64_t most = (int64_t)(!direct ? OCT_STRIP_PART : t->block->pixels > 1 ? form->most : INT32_MAX) * t->block->pixels;
  int32_t sums[2 * OCT_STRIP_PART * 64] __attribute__((aligned(64)));
  for (int64_t x = 0; x < t->width; x += most) {
    const oct_strip_part part = {x, oct_min_i64(x + most, t->width), direct ? NULL : sums};
    form->part(t, part);
    for (int row = 0; row < t->rows && !direct; row++) oct_strip_finish(t, row, x, part.end, sums + row * OCT_STRIP_PART * 64);
  }
}

/* The least and the largest sums of products: every weight stands in the dot products of two output rows. */
static inline void oct_strip_bounds(const int8_t *weights, int dots, __m512i *low, __m512i *high) {
  oct_positive_bounds(weights, dots, 256, low, high);
  *low = _mm512_srai_epi32(*low, 1), *high = _mm512_srai_epi32(*high, 1);
}

/* Whether the block, of whole words, is positive; then start, multiplier and offset are set. */
static inline bool oct_strip_set_positive(oct_strip_block *b, const oct_conv_i8_args *a, int dots) {
  if (b->count % 4 || !oct_positive_possible(a, b->channel, b->count)) return false;
  b->offset = oct_quarters_repeat(oct_positive_floats(&a->epilogue, b->channel), b->pixels);
  oct_quarters m = oct_quarters_repeat(a->epilogue.multiplier + b->channel, b->pixels), start = b->start;
  __m512i *const starts[] = {&start.q0, &start.q1, &start.q2, &start.q3}, *const multipliers[] = {&m.q0, &m.q1, &m.q2, &m.q3};
  __m512i *const offsets[] = {&b->offset.q0, &b->offset.q1, &b->offset.q2, &b->offset.q3};
  const __m512i common = _mm512_set1_epi32(OCT_POSITIVE_LIMIT / 2); /* more than 128 products of 255 * 128 sum to */
  for (int i = 0; i < 4; i++) {
    __m512i low = _mm512_sub_epi32(_mm512_setzero_si512(), common), high = common;
    if (_mm512_cmpgt_epu32_mask(_mm512_abs_epi32(*starts[i]), common) || _mm512_test_epi32_mask(*offsets[i], *offsets[i]))
      oct_strip_bounds(b->weights + 64 * i, dots, &low, &high);
    if (!oct_positive_set(*starts[i], low, high, starts[i], multipliers[i], offsets[i])) return false;
  }
  b->start = start, b->multiplier = m;
  return true;
}

/* Only what will be used is set: for narrow images this is a good part of the work. */
static inline void oct_strip_block_set(oct_strip_block *b, const oct_conv_i8_args *a, const oct_strip_form *form, int64_t channel) {
  const oct_conv_shape *s = &a->shape;
  b->channel = channel, b->count = (int)oct_min_i64(64, s->channels - channel), b->pixels = oct_strip_pixels(s->channels - channel);
  b->weights = (const int8_t *)a->packed + channel / 64 * form->dots * 256;
  b->start = oct_quarters_repeat(a->epilogue.bias ? a->epilogue.bias + channel : NULL, b->pixels);
  b->positive = s->out_h > 1 && oct_strip_set_positive(b, a, form->dots);
  if (b->positive) return;
  b->multiplier = b->offset = oct_quarters_load(NULL);
  b->epilogue = oct_quarters_epilogue_of(a, channel, b->count, b->pixels);
}

/* Output row y of image n and the one below it, if there is one; `count` times. */
static inline void oct_strip_set(oct_strip *t, const oct_conv_i8_args *a, int64_t n, int64_t y, int rows, int count) {
  const oct_conv_shape *s = &a->shape;
  const ptrdiff_t element = (ptrdiff_t)oct_epilogue_element(&a->epilogue);
  t->args = a, t->image = n, t->y = y, t->width = s->out_w, t->rows = rows, t->count = count, t->odd = false;
  t->out_pixel = a->out.pixel * element, t->out_next = 2 * a->out.row * element, t->in_next = 2 * s->stride_h * a->in.row;
  const int last = (rows - 1) * s->stride_h + s->kernel_h - 1;
  t->in[0] = (const uint8_t *)oct_view_at(&a->in, 1, n, y * s->stride_h - s->pad_top, -s->pad_left);
  for (int i = 1; i < OCT_STRIP_ROWS; i++) t->in[i] = t->in[i - 1] + (i <= last ? a->in.row : 0);
  t->out[0] = (char *)oct_view_at(&a->out, (size_t)element, n, y, 0);
  t->out[1] = t->out[0] + (rows > 1 ? a->out.row * element : 0);
}

static inline void oct_strip_blocks(oct_strip *t, const oct_strip_block *blocks, int count, const oct_strip_form *form) {
  const ptrdiff_t element = (ptrdiff_t)oct_epilogue_element(&t->args->epilogue);
  int64_t move = blocks->channel;
  for (int b = 0; b < count; b++, move = 64) {
    t->block = blocks + b;
    for (int i = 0; i < OCT_STRIP_ROWS; i++) t->in[i] += move;
    t->out[0] += element * move, t->out[1] += element * move;
    oct_strip_parts(t, form);
  }
}

/* Output rows [y, end) of an image. A last row alone is computed with the one above it, once more: not where that could have become its own
 * residual. */
static inline void oct_strip_rows(const oct_conv_i8_args *a, int64_t n, int64_t y, int64_t end, const oct_strip_block *blocks, int count,
                                  const oct_strip_form *form) {
  const int64_t first = y;
  oct_strip t;
  if (a->shape.out_w <= OCT_STRIP_NARROW && blocks->positive) {
    oct_strip_set(&t, a, n, y, 2, (int)((end - y + 1) / 2));
    t.odd = (end - y) % 2 != 0;
    oct_strip_blocks(&t, blocks, 1, form);
    return;
  }
  for (; y + 1 < end; y += 2) {
    oct_strip_set(&t, a, n, y, 2, 1);
    oct_strip_blocks(&t, blocks, count, form);
  }
  for (int b = 0; b < count && y < end; b++) {
    const int again = blocks[b].positive && y > first;
    oct_strip_set(&t, a, n, y - again, 1 + again, 1);
    oct_strip_blocks(&t, blocks + b, 1, form);
  }
}

/* Units [begin, end): some blocks of channels at a time, strip by strip; all of a narrow image, block by block. A unit is two rows, or three
 * at the end of an image. */
static inline void oct_strip_run(const oct_conv_i8_args *a, size_t begin, size_t end, const oct_strip_form *form) {
  const oct_conv_shape *s = &a->shape;
  const int64_t per_image = oct_strip_units_per_image(s), at_once = s->out_w <= OCT_STRIP_NARROW ? 1 : OCT_STRIP_BLOCKS;
  oct_strip_block blocks[OCT_STRIP_BLOCKS];
  for (int64_t c = 0; c < s->channels; c += 64 * at_once) {
    const int count = (int)oct_min_i64(at_once, (s->channels - c + 63) / 64);
    for (int i = 0; i < count; i++) oct_strip_block_set(blocks + i, a, form, c + 64 * i);
    for (int64_t unit = (int64_t)begin, stop; unit < (int64_t)end; unit = stop) {
      const int64_t n = oct_quotient(unit, per_image), first = unit - n * per_image;
      stop = oct_min_i64((int64_t)end, (n + 1) * per_image);
      const int64_t last = stop - n * per_image;
      oct_strip_rows(a, n, 2 * first, last == per_image ? s->out_h : 2 * last, blocks, count, form);
    }
  }
}

#endif
