/* Direct 8-bit convolution with kernels of three columns and at most 16 output channels, stride 1. A tile is up to 16 pixels side by side:
 * what is broadcast from an input pixel is multiplied by the weights of all three columns, for three outputs, so that a product takes 0.44
 * loads instead of the 1.1 of conv_i8_direct_10x16, which loads hold up.
 *
 * Packed weights: [kernel row][step of 4 channels][column][16][4]. A unit is one output row.
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_positive__avx512vnni.h"
#include "kernels/conv_i8_tiles__avx512vnni.h"

#define COLUMNS 3
#define WIDTH 16
#define PIXELS 16  /* most of a tile */
#define TOGETHER 2 /* tiles between epilogues */
#define SHORT 10   /* pixels of a row, below which the products of a column wait for one another */

/* Where a tile's inputs are: kernel row i begins `row` after the one before it, a pixel `pixel` after its neighbour. */
typedef struct rows_part {
  int64_t kernel_h, bytes; /* bytes: of the channels, padded to steps */
  ptrdiff_t row, pixel;
} rows_part;

/* X(input column, accumulators that its products with columns 0, 1, 2 of the kernel go to, pointer, offset in pixels) */
#define EACH_COLUMN(X)     \
  X(0, 0, 0, 0, p0, 0)     \
  X(1, 1, 0, 0, p0, 1)     \
  X(2, 2, 1, 0, p0, 2)     \
  X(3, 3, 2, 1, p1, 0)     \
  X(4, 4, 3, 2, p1, 1)     \
  X(5, 5, 4, 3, p1, 2)     \
  X(6, 6, 5, 4, p2, 0)     \
  X(7, 7, 6, 5, p2, 1)     \
  X(8, 8, 7, 6, p2, 2)     \
  X(9, 9, 8, 7, p3, 0)     \
  X(10, 10, 9, 8, p3, 1)   \
  X(11, 11, 10, 9, p3, 2)  \
  X(12, 12, 11, 10, p4, 0) \
  X(13, 13, 12, 11, p4, 1) \
  X(14, 14, 13, 12, p4, 2) \
  X(15, 15, 14, 13, p5, 0) \
  X(16, 15, 15, 14, p5, 1) \
  X(17, 15, 15, 15, p5, 2)
#define EACH_PIXEL(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

#define DECLARE(r) __m512i c##r = b;
#define MULTIPLY(column, a0, a1, a2, p, offset)                               \
  if (column < pixels + COLUMNS - 1) {                                        \
    const __m512i x = oct_broadcast4(p + (offset)*pixel);                     \
    if (column < pixels) c##a0 = oct_dot512(c##a0, x, w0);                    \
    if (column >= 1 && column - 1 < pixels) c##a1 = oct_dot512(c##a1, x, w1); \
    if (column >= 2) c##a2 = oct_dot512(c##a2, x, w2);                        \
  }
#define STORE(r) \
  if (r < pixels) _mm512_store_si512(acc + r * WIDTH, c##r);

/* `pixels` is a constant wherever this is inlined, so the variables of pixels beyond it vanish. */
static inline __attribute__((always_inline)) void tile(const int pixels, const rows_part *part, const uint8_t *in, const int8_t *w,
                                                       const int32_t *bias, int32_t *acc) {
  const __m512i b = _mm512_load_si512(bias);
  const ptrdiff_t pixel = part->pixel;
  EACH_PIXEL(DECLARE)
  for (int64_t i = 0; i < part->kernel_h; i++, in += part->row) {
    const uint8_t *p0 = in, *p1 = p0 + 3 * pixel, *p2 = p1 + 3 * pixel, *p3 = p2 + 3 * pixel, *p4 = p3 + 3 * pixel, *p5 = p4 + 3 * pixel;
    for (const uint8_t *end = in + part->bytes; p0 < end; p0 += 4, p1 += 4, p2 += 4, p3 += 4, p4 += 4, p5 += 4, w += COLUMNS * 64) {
      const __m512i w0 = _mm512_loadu_si512(w), w1 = _mm512_loadu_si512(w + 64), w2 = _mm512_loadu_si512(w + 128);
      EACH_COLUMN(MULTIPLY)
    }
  }
  EACH_PIXEL(STORE)
}

typedef void (*tile_fn)(const rows_part *part, const uint8_t *in, const int8_t *w, const int32_t *bias, int32_t *acc);
#define DEFINE_TILE(count)                                                                                                 \
  static void tile_##count(const rows_part *part, const uint8_t *in, const int8_t *w, const int32_t *bias, int32_t *acc) { \
    tile(count, part, in, w, bias, acc);                                                                                   \
  }
DEFINE_TILE(8)
DEFINE_TILE(9)
DEFINE_TILE(10)
DEFINE_TILE(11)
DEFINE_TILE(12)
DEFINE_TILE(13)
DEFINE_TILE(14)
DEFINE_TILE(15)
DEFINE_TILE(16)

/* Of a row that is not short, 8 pixels at least. */
static const tile_fn by_pixels[PIXELS + 1] = {[8] = tile_8, tile_9, tile_10, tile_11, tile_12, tile_13, tile_14, tile_15, tile_16};

static const char *reject(const oct_conv_shape *s) {
  if (s->groups != 1 || s->stride_w != 1 || s->kernel_w != COLUMNS) return "made for kernels of three columns with stride 1 and one group";
  if (s->dilation_w != 1) return "made for columns side by side";
  if (s->out_channels > WIDTH) return "made for at most 16 output channels";
  return s->out_w < SHORT ? "made for longer rows" : NULL;
}

static int64_t steps_of(const oct_conv_shape *s) { return (s->channels + 3) / 4; }

static size_t packed_bytes(const oct_conv_shape *s) { return (size_t)(s->kernel_h * steps_of(s) * COLUMNS * WIDTH * 4); }

static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  int8_t *out = packed;
  memset(packed, 0, packed_bytes(s));
  for (int64_t o = 0; o < s->out_channels; o++)
    for (int64_t c = 0; c < s->channels; c++)
      for (int64_t i = 0; i < s->kernel_h; i++)
        for (int64_t j = 0; j < COLUMNS; j++)
          out[(((i * steps_of(s) + c / 4) * COLUMNS + j) * WIDTH + o) * 4 + c % 4] =
              weights[((o * s->channels + c) * s->kernel_h + i) * COLUMNS + j];
}

static size_t units(const oct_conv_shape *s) { return (size_t)(s->batch * s->out_h); }

/* Some pixels of one row: where the first one is, its index over all images, and bytes from one to the next. */
typedef struct rows_line {
  const uint8_t *in;
  char *out;
  const char *residual;
  ptrdiff_t out_step, residual_step;
  int64_t pixel;
} rows_line;

/* What makes bytes of sums that are positive (conv_i8_positive__avx512vnni.h). */
typedef struct rows_sums {
  __m512i multiplier, offset;
  bool positive;
} rows_sums;

/* Then the bias becomes the start of sums. */
static rows_sums sums_of(const oct_conv_i8_args *a, int32_t *bias) {
  const oct_conv_shape *s = &a->shape;
  rows_sums sums = {.positive = false};
  if (s->out_channels != WIDTH || a->out.pixel != WIDTH || oct_quarters_kind_of(a, 0, WIDTH) != OCT_QUARTERS_PLAIN) return sums;
  __m512i start = _mm512_load_si512(bias);
  sums.multiplier = _mm512_loadu_si512(a->epilogue.multiplier);
  sums.positive = oct_positive_set_all(1, a->packed, s->kernel_h * steps_of(s) * COLUMNS, &start, &sums.multiplier, &sums.offset);
  _mm512_store_si512(bias, start);
  return sums;
}

/* Pixels side by side. Of sums past the last pixel, up to a multiple of 4, the values do not matter. */
static void finish_positive(const rows_sums *sums, char *out, int64_t count, const int32_t *acc) {
  const __m512i m = sums->multiplier, offset = sums->offset;
#define PIXEL(r) oct_positive_round(_mm512_load_si512(acc + (r)*WIDTH), m, offset)
  for (; count > 0; count -= 4, acc += 4 * WIDTH, out += 4 * WIDTH) {
    const __m512i bytes = oct_pack_vectors512(PIXEL(0), PIXEL(1), PIXEL(2), PIXEL(3), NULL, OCT_FINISH_PLAIN);
    if (count >= 4) _mm512_storeu_si512(out, bytes);
    else _mm512_mask_storeu_epi64(out, (__mmask8)((1 << 2 * count) - 1), bytes);
  }
#undef PIXEL
}

/* Four pixels of 16 channels whose bytes lie side by side; `residual` and `how` are constant where this is inlined. */
static inline __attribute__((always_inline)) void finish_quads(const oct_conv_i8_args *a, char *out, const char *residual, ptrdiff_t step,
                                                               int64_t count, const int32_t *acc, const oct_finish512 how) {
  const oct_quantize512 q = oct_quantize512_of(&a->epilogue);
  const __m512 m = _mm512_loadu_ps(a->epilogue.multiplier);
#define PIXEL(r) oct_quantize_ps512(_mm512_load_si512(acc + (r)*WIDTH), m, residual ? residual + (r)*step : NULL, &q, how)
  for (int64_t r = 0; r < count; r += 4, acc += 4 * WIDTH, out += 4 * WIDTH) {
    _mm512_storeu_si512(out, oct_pack_vectors512(PIXEL(0), PIXEL(1), PIXEL(2), PIXEL(3), &q, how));
    if (residual) residual += 4 * step;
  }
#undef PIXEL
}

static void finish_dense(const oct_conv_i8_args *a, const rows_line *at, int64_t count, const int32_t *acc) {
  const oct_finish512 how = oct_finish512_of(&a->epilogue, _mm512_loadu_si512(a->epilogue.multiplier), at->residual != NULL);
  if (how == OCT_FINISH_PLAIN) {
    if (at->residual) finish_quads(a, at->out, at->residual, at->residual_step, count, acc, OCT_FINISH_PLAIN);
    else finish_quads(a, at->out, NULL, 0, count, acc, OCT_FINISH_PLAIN);
  } else if (how == OCT_FINISH_SATURATE) {
    if (at->residual) finish_quads(a, at->out, at->residual, at->residual_step, count, acc, OCT_FINISH_SATURATE);
    else finish_quads(a, at->out, NULL, 0, count, acc, OCT_FINISH_SATURATE);
  } else {
    if (at->residual) finish_quads(a, at->out, at->residual, at->residual_step, count, acc, OCT_FINISH_CLAMP);
    else finish_quads(a, at->out, NULL, 0, count, acc, OCT_FINISH_CLAMP);
  }
}

static void advance(const oct_conv_i8_args *a, rows_line *at, int64_t count) {
  at->in += count * a->in.pixel;
  at->out += count * at->out_step;
  if (at->residual) at->residual += count * at->residual_step;
  at->pixel += count;
}

/* Finishes `count` pixels of acc and goes past them. */
static void finish(const oct_conv_i8_args *a, const rows_sums *sums, rows_line *at, int64_t count, const int32_t *acc) {
  if (sums->positive) {
    finish_positive(sums, at->out, count, acc);
    advance(a, at, count);
    return;
  }
  const oct_epilogue_i8 *e = &a->epilogue;
  const bool bytes = e->out == OCT_EPILOGUE_U8 && e->profile == OCT_PROFILE_ONNX && !e->table;
  if (bytes && a->shape.out_channels == WIDTH && at->out_step == WIDTH) {
    const int64_t whole = count / 4 * 4;
    finish_dense(a, at, whole, acc);
    advance(a, at, whole);
    count -= whole, acc += whole * WIDTH;
  }
  if (!count) return;
  oct_direct_rows rows = {.pixel = at->pixel, .count = (int)count};
  for (int64_t r = 0; r < count; r++) rows.out[r] = at->out + r * at->out_step;
  for (int64_t r = 0; r < count && at->residual; r++) rows.residual[r] = at->residual + r * at->residual_step;
  oct_epilogue_i8_avx512(a, &rows, 0, (int)a->shape.out_channels, acc, WIDTH);
  advance(a, at, count);
}

/* By tiles of equal lengths, as far as possible. */
static void run_row(const oct_conv_i8_args *a, const rows_part *part, const int32_t *bias, const rows_sums *sums, int64_t n, int64_t y) {
  int32_t acc[PIXELS * TOGETHER * WIDTH] __attribute__((aligned(64)));
  const oct_conv_shape *s = &a->shape;
  const size_t element = oct_epilogue_element(&a->epilogue);
  rows_line at = {.in = oct_view_at(&a->in, 1, n, y * s->stride_h - s->pad_top, -s->pad_left),
                  .out = oct_view_at(&a->out, element, n, y, 0),
                  .residual = a->residual.data ? oct_view_at(&a->residual, element, n, y, 0) : NULL,
                  .out_step = a->out.pixel * (ptrdiff_t)element,
                  .residual_step = a->residual.pixel * (ptrdiff_t)element,
                  .pixel = (n * s->out_h + y) * s->out_w};
  const int64_t count = (s->out_w + PIXELS - 1) / PIXELS, least = oct_quotient(s->out_w, count), longer = s->out_w - count * least;
  for (int64_t t = 0; t < count; t += TOGETHER) {
    int64_t pixels = 0;
    for (int64_t k = t; k < count && k < t + TOGETHER; k++) {
      int64_t take = least + (k < longer);
      by_pixels[take](part, at.in + pixels * a->in.pixel, a->packed, bias, acc + pixels * WIDTH);
      pixels += take;
    }
    finish(a, sums, &at, pixels, acc);
  }
}

static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  const oct_conv_shape *s = &a->shape;
  int32_t bias[WIDTH] __attribute__((aligned(64))) = {0};
  for (int64_t i = 0; i < s->out_channels && a->epilogue.bias; i++) bias[i] = a->epilogue.bias[i];
  const rows_sums sums = sums_of(a, bias);
  const rows_part part = {.kernel_h = s->kernel_h, .bytes = steps_of(s) * 4, .row = s->dilation_h * a->in.row, .pixel = a->in.pixel};
  for (int64_t unit = (int64_t)begin; unit < (int64_t)end; unit++) {
    int64_t n = oct_quotient(unit, s->out_h);
    run_row(a, &part, bias, &sums, n, unit - n * s->out_h);
  }
}

const oct_conv_i8_kernel oct_conv_i8_rows_16x16__avx512vnni = {
    .name = "conv_i8_rows_16x16__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 435,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = units,
    .run = run,
};
