/* Depthwise 8-bit convolution by square kernels, strides 1 and 2, in strips of one or two output rows (AVX-512 VNNI): what 3x3 and 5x5
 * share. Four input rows are interleaved bytewise, so that a dot product takes four rows of one kernel column.
 * A vector holds one pixel of 33 to 64 channels, 2 of 17 to 32, or 4 of at most 16: the last channels of a wide image are such a block too.
 * Packed weights: [block of 64][kernel column][four rows][output row][quarter][16 channels][4 rows].
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_DEPTHWISE_STRIPS_AVX512VNNI_H
#define OCT_KERNELS_CONV_I8_DEPTHWISE_STRIPS_AVX512VNNI_H

#include "kernels/conv_i8_quarters__avx512vnni.h"

#define OCT_STRIP_BLOCKS 8 /* most blocks whose constants are kept at a time */

static inline const char *oct_strip_reject(const oct_conv_shape *s, int side) {
  const char *reason = oct_depthwise_reject(s);
  if (reason) return reason;
  if (s->out_channels != s->channels) return "made for channel multiplier 1";
  if (s->kernel_h != side || s->kernel_w != side || s->dilation_h != 1 || s->dilation_w != 1)
    return "made for another kernel, or for one without dilation";
  return s->stride_h != s->stride_w || s->stride_h > 2 ? "made for strides 1 and 2" : NULL;
}

/* Output rows of a strip: two where they need no more groups of four input rows than one does. */
static inline int oct_strip_rows(const oct_conv_shape *s) { return s->kernel_h == 3 && s->stride_h == 2 ? 1 : 2; }
static inline int oct_strip_fours(int side) { return side == 3 ? 1 : 2; }

/* Pixels of a vector for a block that `left` channels are left for. */
static inline int oct_strip_pixels(int64_t left) { return left > 32 ? 1 : left > 16 ? 2 : 4; }

static inline size_t oct_strip_block_bytes(const oct_conv_shape *s) {
  return (size_t)(s->kernel_w * oct_strip_fours(s->kernel_h) * oct_strip_rows(s) * 256);
}

static inline size_t oct_strip_packed_bytes(const oct_conv_shape *s) {
  return (size_t)((s->channels + 63) / 64) * oct_strip_block_bytes(s);
}

/* One vector's quarters of one kernel column for output row `row`: `out` holds them for `first` and the three input rows after it. */
static inline void oct_strip_pack_column(const oct_conv_shape *s, const int8_t *weights, int64_t channel, int column, int first, int row,
                                         int8_t *out) {
  int width = 64 / oct_strip_pixels(s->channels - channel);
  for (int j = 0; j < 4; j++)
    for (int i = 0; i < 16; i++)
      for (int b = 0; b < 4; b++) {
        int64_t c = channel + oct_quarter_channel(j, i) % width;
        int y = first + b - row * s->stride_h;
        *out++ = c < s->channels && y >= 0 && y < s->kernel_h ? weights[(c * s->kernel_h + y) * s->kernel_w + column] : 0;
      }
}

static inline void oct_strip_pack(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  int8_t *out = (int8_t *)packed;
  for (int64_t c = 0; c < s->channels; c += 64)
    for (int column = 0; column < s->kernel_w; column++)
      for (int four = 0; four < oct_strip_fours(s->kernel_h); four++)
        for (int row = 0; row < oct_strip_rows(s); row++, out += 256) oct_strip_pack_column(s, weights, c, column, 4 * four, row, out);
}

static inline int64_t oct_strip_units_per_image(const oct_conv_shape *s) { return (s->out_h + oct_strip_rows(s) - 1) / oct_strip_rows(s); }
static inline size_t oct_strip_units(const oct_conv_shape *s) { return (size_t)(s->batch * oct_strip_units_per_image(s)); }

/* What is the same for all strips of a block of channels. */
typedef struct oct_strip_block {
  int64_t channel;
  int count, pixels; /* channels; pixels per vector */
  const int8_t *weights;
  oct_quarters bias;
  oct_quarters_epilogue epilogue;
} oct_strip_block;

/* One strip of one block. */
typedef struct oct_strip {
  const oct_conv_i8_args *args;
  const oct_strip_block *block;
  const uint8_t *in[8]; /* input rows; those that do not take part repeat one that does */
  char *out[2];
  const char *residual[2];
  int64_t pixel[2], width; /* index of the first pixel over all images; output pixels */
  ptrdiff_t out_pixel, residual_pixel;
  int rows; /* of the output */
} oct_strip;

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

/* Finishes the vector of pixels that begins at pixel x of output row `row`, by way of accumulators in memory. */
static __attribute__((noinline)) void oct_strip_detour(const oct_strip *t, int row, int64_t x, int together, oct_quarters y) {
  int32_t acc[64] __attribute__((aligned(64)));
  oct_direct_rows rows; /* large: only what is used is set */
  rows.pixel = t->pixel[row] + x, rows.count = together;
  oct_quarters_store_acc(acc, y);
  for (int i = 0; i < together; i++) {
    rows.out[i] = t->out[row] + (x + i) * t->out_pixel;
    if (t->residual[row]) rows.residual[i] = t->residual[row] + (x + i) * t->residual_pixel;
  }
  oct_epilogue_i8_avx512(t->args, &rows, t->block->channel, t->block->count, acc, 64 / t->block->pixels);
}

/* The first `together` of 2 or 4 pixels to their places. */
static inline void oct_strip_scatter(const oct_strip *t, char *out, int together, __m512i bytes) {
  const __mmask64 mask = t->block->epilogue.mask;
  if (t->block->pixels == 2) {
    _mm256_mask_storeu_epi8(out, (__mmask32)mask, _mm512_castsi512_si256(bytes));
    if (together > 1) _mm256_mask_storeu_epi8(out + t->out_pixel, (__mmask32)mask, _mm512_extracti64x4_epi64(bytes, 1));
    return;
  }
  _mm_mask_storeu_epi8(out, (__mmask16)mask, _mm512_castsi512_si128(bytes));
  if (together > 1) _mm_mask_storeu_epi8(out + t->out_pixel, (__mmask16)mask, _mm512_extracti32x4_epi32(bytes, 1));
  if (together > 2) _mm_mask_storeu_epi8(out + 2 * t->out_pixel, (__mmask16)mask, _mm512_extracti32x4_epi32(bytes, 2));
  if (together > 3) _mm_mask_storeu_epi8(out + 3 * t->out_pixel, (__mmask16)mask, _mm512_extracti32x4_epi32(bytes, 3));
}

/* Finishes the vector of `pixels` (a constant wherever this is inlined) that begins at pixel x of output row `row`. */
static inline __attribute__((always_inline)) void oct_strip_store(const oct_strip *t, int row, int64_t x, oct_quarters y, int pixels) {
  int together = (int)oct_min_i64(pixels, t->width - x);
  if (t->block->epilogue.kind == OCT_QUARTERS_DETOUR) {
    oct_strip_detour(t, row, x, together, y);
    return;
  }
  __m512i bytes = oct_quarters_bytes(y, &t->block->epilogue);
  char *out = t->out[row] + x * t->out_pixel;
  if (pixels == 1) _mm512_mask_storeu_epi8(out, t->block->epilogue.mask, bytes);
  else if (together == pixels && t->out_pixel == t->block->count && t->block->count * pixels == 64) _mm512_storeu_si512(out, bytes);
  else oct_strip_scatter(t, out, together, bytes);
}

static inline oct_strip_block oct_strip_block_of(const oct_conv_i8_args *a, int64_t channel) {
  const oct_conv_shape *s = &a->shape;
  oct_strip_block b = {
      .channel = channel, .pixels = oct_strip_pixels(s->channels - channel), .count = (int)oct_min_i64(64, s->channels - channel)};
  b.weights = (const int8_t *)a->packed + channel / 64 * (int64_t)oct_strip_block_bytes(s);
  b.bias = oct_quarters_repeat(a->epilogue.bias ? a->epilogue.bias + channel : NULL, b.pixels);
  b.epilogue = oct_quarters_epilogue_of(a, channel, b.count, b.pixels);
  return b;
}

/* The rows of a unit, at channel 0. */
static inline oct_strip oct_strip_of(const oct_conv_i8_args *a, int64_t unit) {
  const oct_conv_shape *s = &a->shape;
  const size_t element = oct_epilogue_element(&a->epilogue);
  const int64_t per_image = oct_strip_units_per_image(s), n = oct_quotient(unit, per_image), y = (unit - n * per_image) * oct_strip_rows(s);
  oct_strip t = {.args = a, .width = s->out_w, .rows = (int)oct_min_i64(oct_strip_rows(s), s->out_h - y)};
  t.out_pixel = a->out.pixel * (ptrdiff_t)element, t.residual_pixel = a->residual.pixel * (ptrdiff_t)element;
  const int last = (t.rows - 1) * s->stride_h + s->kernel_h - 1;
  for (int i = 0; i < 8; i++)
    t.in[i] = (const uint8_t *)oct_view_at(&a->in, 1, n, y * s->stride_h - s->pad_top + (i < last ? i : last), -s->pad_left);
  for (int i = 0; i < t.rows; i++) {
    t.pixel[i] = (n * s->out_h + y + i) * s->out_w;
    t.out[i] = (char *)oct_view_at(&a->out, element, n, y + i, 0);
    if (a->residual.data) t.residual[i] = (const char *)oct_view_at(&a->residual, element, n, y + i, 0);
  }
  return t;
}

static inline void oct_strip_move(oct_strip *t, const oct_strip_block *block, int64_t channels) {
  const ptrdiff_t out = (ptrdiff_t)oct_epilogue_element(&t->args->epilogue) * channels;
  t->block = block;
  for (int i = 0; i < 8; i++) t->in[i] += channels;
  for (int i = 0; i < t->rows; i++) {
    t->out[i] += out;
    if (t->residual[i]) t->residual[i] += out;
  }
}

typedef void (*oct_strip_fn)(const oct_strip *t);

/* Units [begin, end): some blocks of channels at a time, strip by strip. */
static inline void oct_strip_run(const oct_conv_i8_args *a, size_t begin, size_t end, oct_strip_fn strip) {
  const int64_t channels = a->shape.channels;
  oct_strip_block blocks[OCT_STRIP_BLOCKS];
  for (int64_t c = 0; c < channels; c += 64 * OCT_STRIP_BLOCKS) {
    int count = (int)oct_min_i64(OCT_STRIP_BLOCKS, (channels - c + 63) / 64);
    for (int i = 0; i < count; i++) blocks[i] = oct_strip_block_of(a, c + 64 * i);
    for (size_t unit = begin; unit < end; unit++) {
      oct_strip t = oct_strip_of(a, (int64_t)unit);
      for (int i = 0; i < count; i++) {
        oct_strip_move(&t, blocks + i, i ? 64 : c);
        strip(&t);
      }
    }
  }
}

#endif
