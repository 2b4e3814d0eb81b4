/* Direct 8-bit convolution for few output channels. The lanes of a tile are
 * pairs of a kernel column and an output channel: a pixel is multiplied by the
 * weights of all columns at once, as if by a kernel one column wide, and an
 * output is the sum of its columns' lanes in neighbouring pixels. 9 channels of
 * 3 columns fill 27 of 32 lanes, where 9 channels would fill 9 of 16 three
 * times over; and a step is broadcast once instead of three times. The tiles
 * are those of direct convolution.
 *
 * Packed weights: [kernel row][step of 4 channels][column, output channel][4].
 * A unit is one output row. SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_tiles__avx512vnni.h"

#define WIDEST 64
#define STRIP \
  96                                                  /* most output pixels whose columns lie in the first-level cache together \
      */
#define HALO 16                                       /* most pixels that a strip needs beyond them */
#define TOGETHER (OCT_DIRECT_ROWS * OCT_DIRECT_TILES) /* most pixels of one epilogue */
#define SUMS 32                                       /* most output channels, as whole vectors */

static const oct_direct_tile *const tiles[] = {&oct_conv_i8_tile_10x16__avx512vnni, &oct_conv_i8_tile_10x32__avx512vnni,
                                               &oct_conv_i8_tile_8x48__avx512vnni, &oct_conv_i8_tile_6x64__avx512vnni};

static int64_t vectors(int64_t lanes) { return (lanes + 15) / 16; }
static int width_of(const oct_conv_shape *s) { return (int)vectors(s->kernel_w * s->out_channels) * 16; }
static int64_t halo_of(const oct_conv_shape *s) { return (int64_t)(s->kernel_w - 1) * s->dilation_w; }
static int64_t steps_of(const oct_conv_shape *s) { return (s->channels + 3) / 4; }

/* Instructions per output pixel against those of direct convolution, sums and
 * pixels beyond the row included. */
static const char *reject(const oct_conv_shape *s) {
  if (s->groups != 1 || s->stride_w != 1 || s->kernel_w == 1) return "made for kernels of several columns with stride 1 and one group";
  if (s->out_channels > SUMS || s->kernel_w * s->out_channels > WIDEST) return "made for at most 64 output channels times kernel columns";
  if (halo_of(s) > HALO || s->kernel_h > OCT_DIRECT_SEGMENTS) return "the kernel is too large";
  int64_t here = s->kernel_h * steps_of(s) * (width_of(s) / 16) * (s->out_w + halo_of(s)) / s->out_w + 2 * s->kernel_w + 4;
  int64_t direct = s->kernel_h * ((s->kernel_w * s->channels + 3) / 4) * vectors(s->out_channels);
  return here < direct ? NULL
                       : "made for numbers of output channels that fill their "
                         "vectors badly";
}

static size_t packed_bytes(const oct_conv_shape *s) { return (size_t)(s->kernel_h * steps_of(s) * width_of(s) * 4); }

static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  int8_t *out = (int8_t *)packed;
  memset(packed, 0, packed_bytes(s));
  for (int64_t o = 0; o < s->out_channels; o++)
    for (int64_t c = 0; c < s->channels; c++)
      for (int64_t i = 0; i < s->kernel_h; i++)
        for (int64_t j = 0; j < s->kernel_w; j++)
          out[((i * steps_of(s) + c / 4) * width_of(s) + j * s->out_channels + o) * 4 + c % 4] =
              weights[((o * s->channels + c) * s->kernel_h + i) * s->kernel_w + j];
}

static size_t units(const oct_conv_shape *s) { return (size_t)(s->batch * s->out_h); }

/* acc[pixel][width] for `count` pixels, by tiles of equal heights, as far as
 * possible. */
static void multiply(const oct_direct_walk *walk, const int8_t *weights, const int32_t *bias, int width, const uint8_t *in, ptrdiff_t step,
                     int64_t count, int32_t *acc) {
  const oct_direct_tile *tile = tiles[width / 16 - 1];
  const int64_t parts = oct_quotient(count + tile->rows - 1, tile->rows);
  for (int64_t part = 0, at = 0; part < parts; part++) {
    const uint8_t *pixels[OCT_DIRECT_ROWS];
    int64_t take = oct_quotient((part + 1) * count, parts) - at;
    for (int64_t r = 0; r < take; r++) pixels[r] = in + (at + r) * step;
    tile->by_rows[take](walk, pixels, weights, bias, acc + at * width);
    at += take;
  }
}

/* The sums of 16 output channels of `count` pixels, `lanes` apart; `columns` is
 * a constant wherever it matters. */
static inline __attribute__((always_inline)) void add_vector(const int columns, const int32_t *acc, ptrdiff_t width, ptrdiff_t distance,
                                                             int count, int32_t *sums, ptrdiff_t lanes) {
  for (int r = 0; r < count; r++, acc += width, sums += lanes) {
    __m512i sum = _mm512_loadu_si512(acc);
    for (int j = 1; j < columns; j++) sum = _mm512_add_epi32(sum, _mm512_loadu_si512(acc + j * distance));
    _mm512_store_si512(sums, sum);
  }
}

/* sums[pixel][lanes] of `count` pixels, lanes being the output channels as
 * whole vectors. */
static void add_columns(const oct_conv_shape *s, int width, const int32_t *acc, int count, int32_t *sums) {
  const ptrdiff_t lanes = vectors(s->out_channels) * 16, distance = s->dilation_w * width + s->out_channels;
  for (ptrdiff_t lane = 0; lane < lanes; lane += 16) {
    if (s->kernel_w == 3) add_vector(3, acc + lane, width, distance, count, sums + lane, lanes);
    else add_vector(s->kernel_w, acc + lane, width, distance, count, sums + lane, lanes);
  }
}

/* `count` outputs from pixel (y, x) of image n on. */
static void finish(const oct_conv_i8_args *a, int64_t n, int64_t y, int64_t x, int width, const int32_t *acc, int count) {
  const oct_conv_shape *s = &a->shape;
  const size_t element = oct_epilogue_element(&a->epilogue);
  int32_t sums[TOGETHER * SUMS] __attribute__((aligned(64)));
  oct_direct_rows rows = {.pixel = (n * s->out_h + y) * s->out_w + x, .count = count};
  char *out = (char *)oct_view_at(&a->out, element, n, y, x);
  for (int r = 0; r < count; r++, out += a->out.pixel * (ptrdiff_t)element) rows.out[r] = out;
  for (int r = 0; r < count && a->residual.data; r++) rows.residual[r] = (const char *)oct_view_at(&a->residual, element, n, y, x + r);
  add_columns(s, width, acc, count, sums);
  oct_epilogue_i8_avx512(a, &rows, 0, (int)s->out_channels, sums, (int)vectors(s->out_channels) * 16);
}

static void run_row(const oct_conv_i8_args *a, const oct_direct_walk *walk, const int32_t *bias, int64_t n, int64_t y, int32_t *acc) {
  const oct_conv_shape *s = &a->shape;
  const int width = width_of(s);
  const uint8_t *in = (const uint8_t *)oct_view_at(&a->in, 1, n, y * s->stride_h - s->pad_top, -s->pad_left);
  const int64_t strips = oct_quotient(s->out_w + STRIP - 1, STRIP);
  for (int64_t strip = 0, x = 0, next; strip < strips; strip++, x = next) {
    next = oct_quotient((strip + 1) * s->out_w, strips);
    multiply(walk, (const int8_t *)a->packed, bias, width, in + x * a->in.pixel, a->in.pixel, next - x + halo_of(s), acc);
    for (int64_t at = x; at < next; at += TOGETHER)
      finish(a, n, y, at, width, acc + (at - x) * width, (int)oct_min_i64(TOGETHER, next - at));
  }
}

static size_t workspace_bytes(const oct_conv_shape *s) {
  return (size_t)((oct_min_i64(STRIP, s->out_w) + halo_of(s)) * width_of(s) + SUMS) * sizeof(int32_t);
}

static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  const oct_conv_shape *s = &a->shape;
  int32_t bias[WIDEST] __attribute__((aligned(64))) = {0};
  for (int64_t i = 0; i < s->out_channels && a->epilogue.bias; i++) bias[i] = a->epilogue.bias[i];
  oct_direct_walk walk = {.segments = s->kernel_h, .bytes = steps_of(s) * 4, .next = (const char *)a->packed};
  for (int i = 0; i < s->kernel_h; i++) walk.offsets[i] = (ptrdiff_t)i * s->dilation_h * a->in.row;
  for (int64_t unit = (int64_t)begin; unit < (int64_t)end; unit++) {
    int64_t n = oct_quotient(unit, s->out_h);
    run_row(a, &walk, bias, n, unit - n * s->out_h, (int32_t *)workspace);
  }
}

const oct_conv_i8_kernel oct_conv_i8_few__avx512vnni = {
    .name = "conv_i8_few__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 440,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .workspace_bytes = workspace_bytes,
    .units = units,
    .run = run,
};
