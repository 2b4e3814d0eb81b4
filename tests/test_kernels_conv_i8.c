/* 8-bit convolution kernels. The scalar row is compared with a triple loop over int64 and with the rounding rules written down
 * here a second time; every other row is compared with the scalar row byte by byte, whatever lies around the output included.
 * Inputs end OCT_OVERREAD bytes before a page that must not be touched. OCTET_LONG=1 runs 20,000 random cases instead of a sample;
 * OCTET_CASE=N repeats one.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/kernels.h"

enum { QUICK_CASES = 500, LONG_CASES = 20000 };
enum { FILL_RANDOM, FILL_HIGH, FILL_LOW, FILL_SIGNS, FILL_ZERO_POINT, FILLS };

typedef struct problem {
  uint64_t number; /* seed */
  oct_conv_shape shape;
  oct_epilogue_i8 epilogue;
  bool residual, in_place; /* in_place: the residual lies where the output goes */
  int pad_bottom, pad_right, in_gap, out_gap, fill;
} problem;

/* ---- Random numbers ---- */

static uint64_t random_state;

static uint32_t random_u32(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (uint32_t)(random_state >> 32);
}
static int64_t between(int64_t low, int64_t high) { return low + (int64_t)(random_u32() % (uint32_t)(high - low + 1)); }
static bool chance(int percent) { return between(1, 100) <= percent; }
static void random_seed(uint64_t seed) {
  random_state = (seed + 1) * 0x9E3779B97F4A7C15u;
  for (int i = 0; i < 8; i++) random_u32();
}
#define PICK(...) (((const int[]){__VA_ARGS__})[random_u32() % (sizeof((const int[]){__VA_ARGS__}) / sizeof(int))])

/* ---- Memory ---- */

typedef struct guarded {
  uint8_t *map, *data;
  size_t mapped;
} guarded;

/* `bytes` that end exactly `slack` bytes before an unreadable page. */
static guarded guarded_create(size_t bytes, size_t slack) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (bytes + slack + page - 1) / page * page;
  guarded g = {.mapped = body + page};
  g.map = (uint8_t *)mmap(NULL, g.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(g.map != (uint8_t *)MAP_FAILED);
  assert_int_equal(mprotect(g.map + body, page, PROT_NONE), 0);
  g.data = g.map + body - slack - bytes;
  return g;
}
static void guarded_destroy(guarded *g) { munmap(g->map, g->mapped); }

static void *aligned(size_t bytes) {
  void *p = NULL;
  assert_int_equal(posix_memalign(&p, 64, bytes ? bytes : 1), 0);
  return p;
}

/* ---- One problem's data ---- */

typedef struct data {
  guarded in, residual;
  int8_t *weights;
  int64_t padded; /* channels in per-channel arrays */
  int32_t *bias, *weight_sum, *row_zero_point;
  float *multiplier, *float_bias, *row_scale;
  uint8_t table[256];
  size_t out_bytes, element;
  oct_conv_i8_args args; /* without packed weights; out.data is an offset from the output's begin */
} data;

static size_t image_bytes(const problem *p) {
  const oct_conv_shape *s = &p->shape;
  return (size_t)((s->in_h + s->pad_top + p->pad_bottom) * (s->in_w + s->pad_left + p->pad_right) * (s->channels + p->in_gap));
}

static void fill_input(const problem *p, uint8_t *x, size_t count) {
  for (size_t i = 0; i < count; i++)
    x[i] = p->fill == FILL_HIGH         ? 255
           : p->fill == FILL_LOW        ? 0
           : p->fill == FILL_SIGNS      ? (random_u32() & 1 ? 255 : 0)
           : p->fill == FILL_ZERO_POINT ? 128
                                        : (uint8_t)random_u32();
}

static void fill_weights(const problem *p, int8_t *w, size_t count) {
  static const int8_t extremes[] = {127, -127, -128};
  int one = PICK(0, 1, 2);
  for (size_t i = 0; i < count; i++)
    w[i] =
        p->fill == FILL_RANDOM || p->fill == FILL_ZERO_POINT ? (int8_t)random_u32() : extremes[p->fill == FILL_SIGNS ? between(0, 2) : one];
}

static void fill_channels(const problem *p, data *d) {
  const oct_conv_shape *s = &p->shape;
  int64_t products = s->channels / s->groups * s->kernel_h * s->kernel_w;
  d->padded = (s->out_channels + 63) / 64 * 64;
  d->bias = calloc((size_t)d->padded, 4), d->weight_sum = calloc((size_t)d->padded, 4);
  d->multiplier = calloc((size_t)d->padded, 4), d->float_bias = calloc((size_t)d->padded, 4);
  float base = (float)(200.0 / (255.0 * 127.0 * (double)products)) * (chance(20) ? 40.0f : 1.0f);
  for (int64_t c = 0; c < s->out_channels; c++) {
    d->bias[c] = (int32_t)between(-20000, 20000) * (chance(5) ? 100000 : 1);
    d->multiplier[c] = chance(3) ? 0.0f : chance(3) ? 1e-30f : base * (0.25f + (float)(random_u32() % 1000) / 500.0f);
    d->float_bias[c] = (float)between(-1000, 1000) / 128.0f;
    for (int64_t i = 0; i < products; i++) d->weight_sum[c] += d->weights[c * products + i];
  }
  int64_t pixels = s->batch * s->out_h * s->out_w;
  d->row_scale = calloc((size_t)pixels, 4), d->row_zero_point = calloc((size_t)pixels, 4);
  for (int64_t i = 0; i < pixels; i++) d->row_scale[i] = (float)between(1, 1000) / 1000.0f, d->row_zero_point[i] = (int32_t)between(0, 255);
}

static void data_create(const problem *p, data *d) {
  const oct_conv_shape *s = &p->shape;
  memset(d, 0, sizeof *d);
  d->element = p->epilogue.out == OCT_EPILOGUE_U8 ? 1 : 4;
  size_t in_bytes = (size_t)s->batch * image_bytes(p),
         weights = (size_t)(s->out_channels * (s->channels / s->groups) * s->kernel_h * s->kernel_w);
  /* a gap after the last pixel is not part of the buffer */
  d->in = guarded_create(in_bytes - (size_t)p->in_gap, OCT_OVERREAD);
  fill_input(p, d->in.data, in_bytes - (size_t)p->in_gap);
  d->weights = malloc(weights);
  fill_weights(p, d->weights, weights);
  fill_channels(p, d);
  for (int i = 0; i < 256; i++) d->table[i] = (uint8_t)random_u32();
  ptrdiff_t in_pixel = s->channels + p->in_gap, in_row = in_pixel * (s->in_w + s->pad_left + p->pad_right);
  ptrdiff_t out_pixel = s->out_channels + p->out_gap, out_row = out_pixel * (s->out_w + 1), out_image = out_row * (s->out_h + 1);
  d->out_bytes = d->element * (size_t)(out_image * s->batch + out_pixel + 8);
  oct_conv_i8_args *a = &d->args;
  a->shape = *s;
  a->in = (oct_view){d->in.data + s->pad_top * in_row + s->pad_left * in_pixel, (ptrdiff_t)image_bytes(p), in_row, in_pixel};
  a->out = (oct_view){NULL, out_image, out_row, out_pixel};
  a->epilogue = p->epilogue;
  a->epilogue.bias = p->epilogue.out == OCT_EPILOGUE_S32 && chance(50) ? NULL : d->bias;
  a->epilogue.multiplier = d->multiplier;
  a->epilogue.table = p->epilogue.table ? d->table : NULL;
  a->epilogue.float_bias = p->epilogue.float_bias ? d->float_bias : NULL;
  if (p->epilogue.rows_per_scale)
    a->epilogue.row_scale = d->row_scale, a->epilogue.row_zero_point = d->row_zero_point, a->epilogue.weight_sum = d->weight_sum;
  if (p->residual) {
    size_t bytes = d->element * (size_t)(s->batch * s->out_h * s->out_w * s->out_channels);
    d->residual = guarded_create(bytes, OCT_OVERREAD);
    if (d->element == 1) fill_input(p, d->residual.data, bytes);
    else
      for (size_t i = 0; i < bytes / 4; i++) {
        float v = (float)between(-1000, 1000) / 64.0f;
        memcpy(d->residual.data + 4 * i, &v, 4);
      }
    a->residual = (oct_view){d->residual.data, s->out_h * s->out_w * s->out_channels, s->out_w * s->out_channels, s->out_channels};
  }
}

static void data_destroy(data *d) {
  guarded_destroy(&d->in);
  if (d->residual.map) guarded_destroy(&d->residual);
  free(d->weights), free(d->bias), free(d->weight_sum), free(d->row_zero_point);
  free(d->multiplier), free(d->float_bias), free(d->row_scale);
}

/* ---- The rules a second time ---- */

static int64_t reference_sum(const data *d, int64_t n, int64_t y, int64_t x, int64_t o) {
  const oct_conv_shape *s = &d->args.shape;
  int64_t depth = s->channels / s->groups, first = o / (s->out_channels / s->groups) * depth, sum = 0;
  for (int64_t c = 0; c < depth; c++)
    for (int64_t i = 0; i < s->kernel_h; i++)
      for (int64_t j = 0; j < s->kernel_w; j++) {
        int64_t iy = y * s->stride_h - s->pad_top + i * s->dilation_h, ix = x * s->stride_w - s->pad_left + j * s->dilation_w;
        const uint8_t *pixel = (const uint8_t *)d->args.in.data + n * d->args.in.image + iy * d->args.in.row + ix * d->args.in.pixel;
        sum += (int64_t)pixel[first + c] * d->weights[((o * depth + c) * s->kernel_h + i) * s->kernel_w + j];
      }
  return sum;
}

/* TFLite's rule by its definition: round(v * mantissa / 2^31), halves up, then / 2^shift, halves away from zero. */
static int64_t reference_fixed(int32_t v, float multiplier) {
  if (multiplier == 0) return 0;
  int exponent;
  int64_t mantissa = (int64_t)(frexp(multiplier, &exponent) * 2147483648.0);
  if (exponent < -31) return 0;
  int64_t high = ((int64_t)(int32_t)((uint32_t)v << (exponent > 0 ? exponent : 0)) * mantissa + (1LL << 30)) >> 31;
  return exponent < 0 ? (int64_t)round((double)high / (double)(1LL << -exponent)) : high;
}

static void reference_element(const data *d, int64_t sum, int64_t pixel, int64_t o, const void *residual, void *out) {
  const oct_epilogue_i8 *e = &d->args.epilogue;
  int64_t total = sum + (e->bias ? e->bias[o] : 0);
  if (e->row_scale) total -= (int64_t)e->row_zero_point[pixel / e->rows_per_scale] * e->weight_sum[o];
  int32_t v = (int32_t)(uint32_t)(uint64_t)total;
  if (e->out == OCT_EPILOGUE_S32) {
    memcpy(out, &v, 4);
  } else if (e->out == OCT_EPILOGUE_F32) {
    volatile float scale = e->row_scale ? e->row_scale[pixel / e->rows_per_scale] * e->multiplier[o] : e->multiplier[o],
                   y = (float)v * scale;
    if (e->float_bias) y = y + e->float_bias[o];
    float r = 0;
    if (residual) memcpy(&r, residual, 4), y = y + r;
    float clamped = y < e->float_low ? e->float_low : y > e->float_high ? e->float_high : y;
    memcpy(out, &clamped, 4);
  } else {
    double q;
    if (e->profile == OCT_PROFILE_TFLITE) {
      q = (double)reference_fixed(v, e->multiplier[o]) + e->zero_point;
    } else {
      volatile float t = (float)v * e->multiplier[o];
      volatile float r = residual ? (float)(*(const uint8_t *)residual - e->residual_zero_point) * e->residual_scale : 0.0f;
      if (residual) t = t + r;
      q = nearbyint((double)t) + e->zero_point;
    }
    q = q < e->low ? e->low : q > e->high ? e->high : q;
    *(uint8_t *)out = e->table ? e->table[(int)q] : (uint8_t)q;
  }
}

static void reference_run(const data *d, uint8_t *out) {
  const oct_conv_shape *s = &d->args.shape;
  const oct_conv_i8_args *a = &d->args;
  for (int64_t n = 0; n < s->batch; n++)
    for (int64_t y = 0; y < s->out_h; y++)
      for (int64_t x = 0; x < s->out_w; x++)
        for (int64_t o = 0; o < s->out_channels; o++) {
          const void *residual =
              a->residual.data ? (const uint8_t *)oct_view_at(&a->residual, d->element, n, y, x) + (size_t)o * d->element : NULL;
          size_t at = d->element * (size_t)(n * a->out.image + y * a->out.row + x * a->out.pixel + o);
          reference_element(d, reference_sum(d, n, y, x, o), (n * s->out_h + y) * s->out_w + x, o, residual, out + at);
        }
}

/* ---- Running a row ---- */

static uint8_t *output_create(const data *d) {
  uint8_t *out = aligned(d->out_bytes);
  for (size_t i = 0; i < d->out_bytes; i++) out[i] = (uint8_t)(0xA5 ^ i);
  return out;
}

static void copy_residual(const data *d, const oct_view *out) {
  const oct_conv_shape *s = &d->args.shape;
  for (int64_t n = 0; n < s->batch; n++)
    for (int64_t y = 0; y < s->out_h; y++)
      for (int64_t x = 0; x < s->out_w; x++)
        memcpy(oct_view_at(out, d->element, n, y, x), oct_view_at(&d->args.residual, d->element, n, y, x),
               d->element * (size_t)s->out_channels);
}

/* Runs all units, in up to three pieces of which the last comes first. */
static void run_row(const problem *p, const oct_conv_i8_kernel *k, const data *d, uint8_t *out) {
  const oct_conv_shape *s = &d->args.shape;
  void *packed = aligned(k->packed_bytes(s)), *workspace = k->workspace_bytes ? aligned(k->workspace_bytes(s)) : NULL;
  k->pack(s, d->weights, packed);
  oct_conv_i8_args args = d->args;
  args.packed = packed;
  args.out.data = out;
  if (p->in_place) {
    copy_residual(d, &args.out);
    args.residual = args.out;
  }
  size_t units = k->units(s), a = (size_t)between(0, (int64_t)units), b = (size_t)between((int64_t)a, (int64_t)units);
  if (b < units) k->run(&args, b, units, workspace);
  if (a < b) k->run(&args, a, b, workspace);
  if (a > 0) k->run(&args, 0, a, workspace);
  free(packed);
  free(workspace);
}

static void describe(const problem *p, const char *name, size_t at, uint8_t expected, uint8_t got) {
  const oct_conv_shape *s = &p->shape;
  const oct_epilogue_i8 *e = &p->epilogue;
  printf("%s differs at byte %zu: expected %d, got %d\n  batch %ld in %ldx%ldx%ld out %ldx%ldx%ld kernel %dx%d stride %d,%d dilation %d,%d "
         "groups %d; profile %d out %d table %d "
         "residual %d rows_per_scale %ld gaps %d,%d fill %d\n  repeat with OCTET_CASE=%lu\n",
         name, at, expected, got, (long)s->batch, (long)s->in_h, (long)s->in_w, (long)s->channels, (long)s->out_h, (long)s->out_w,
         (long)s->out_channels, s->kernel_h, s->kernel_w, s->stride_h, s->stride_w, s->dilation_h, s->dilation_w, s->groups, e->profile,
         e->out, e->table != NULL, p->residual, (long)e->rows_per_scale, p->in_gap, p->out_gap, p->fill, (unsigned long)p->number);
}

static void compare(const problem *p, const char *name, const uint8_t *expected, const uint8_t *got, size_t bytes) {
  if (!memcmp(expected, got, bytes)) return;
  size_t at = 0;
  while (expected[at] == got[at]) at++;
  describe(p, name, at, expected[at], got[at]);
  fail_msg("%s differs from its reference", name);
}

/* Every row on one problem; returns how many variants took part. */
static int check(const problem *p) {
  data d;
  data_create(p, &d);
  uint8_t *expected = output_create(&d);
  reference_run(&d, expected);
  uint32_t isa = oct_isa_detect();
  int rows = 0;
  for (const oct_conv_i8_kernel *const *k = oct_conv_i8_kernels; *k; k++) {
    if (!oct_isa_allowed(isa, (*k)->isa) && (*k)->isa != OCT_ISA_SCALAR) continue;
    if ((*k)->reject && (*k)->reject(&p->shape)) continue;
    uint8_t *out = output_create(&d);
    run_row(p, *k, &d, out);
    compare(p, (*k)->name, expected, out, d.out_bytes);
    free(out);
    rows++;
  }
  free(expected);
  data_destroy(&d);
  return rows;
}

/* ---- Problems ---- */

static void choose_epilogue(problem *p) {
  static const uint8_t has_table;
  static const float has_bias;
  oct_epilogue_i8 *e = &p->epilogue;
  const oct_conv_shape *s = &p->shape;
  e->out = (oct_epilogue_out)PICK(OCT_EPILOGUE_U8, OCT_EPILOGUE_U8, OCT_EPILOGUE_U8, OCT_EPILOGUE_F32, OCT_EPILOGUE_F32, OCT_EPILOGUE_S32);
  e->zero_point = PICK(0, 3, 117, 128, 255);
  e->low = chance(50) ? 0 : (int32_t)between(0, 100);
  e->high = chance(50) ? 255 : (int32_t)between(e->low, 255);
  e->float_low = chance(50) ? -INFINITY : (float)between(-50, 5);
  e->float_high = chance(50) ? INFINITY : (float)between(6, 60);
  if (e->out == OCT_EPILOGUE_U8) {
    e->profile = chance(30) ? OCT_PROFILE_TFLITE : OCT_PROFILE_ONNX;
    e->table = chance(25) ? &has_table : NULL;
    p->residual = e->profile == OCT_PROFILE_ONNX && chance(40);
    e->residual_scale = (float)between(1, 2000) / 1000.0f;
    e->residual_zero_point = (int32_t)between(0, 255);
  } else if (e->out == OCT_EPILOGUE_F32) {
    e->float_bias = chance(50) ? &has_bias : NULL;
    p->residual = chance(40);
    if (chance(60)) e->rows_per_scale = chance(50) ? 1 : s->out_h * s->out_w;
  }
}

/* Sets the input's size so that the output is out_h x out_w. */
static void choose_input(problem *p, int64_t out_h, int64_t out_w) {
  oct_conv_shape *s = &p->shape;
  s->out_h = out_h, s->out_w = out_w;
  int64_t need_h = (out_h - 1) * s->stride_h + (s->kernel_h - 1) * s->dilation_h + 1,
          need_w = (out_w - 1) * s->stride_w + (s->kernel_w - 1) * s->dilation_w + 1;
  s->pad_top = (int)between(0, oct_clamp_i32((int32_t)need_h - 1, 0, 3)),
  s->pad_left = (int)between(0, oct_clamp_i32((int32_t)need_w - 1, 0, 3));
  p->pad_bottom = (int)between(0, oct_clamp_i32((int32_t)need_h - s->pad_top - 1, 0, 3)),
  p->pad_right = (int)between(0, oct_clamp_i32((int32_t)need_w - s->pad_left - 1, 0, 3));
  s->in_h = need_h - s->pad_top - p->pad_bottom, s->in_w = need_w - s->pad_left - p->pad_right;
}

/* Channel counts around tile widths and steps; spatial sizes around tile heights; about 300,000 products at most. */
static problem choose_problem(uint64_t number) {
  random_seed(number);
  problem p = {.number = number};
  oct_conv_shape *s = &p.shape;
  s->kernel_h = PICK(1, 1, 2, 3, 3, 5, 7), s->kernel_w = chance(80) ? s->kernel_h : PICK(1, 2, 3, 4);
  s->stride_h = PICK(1, 1, 2, 3), s->stride_w = chance(80) ? s->stride_h : PICK(1, 2);
  s->dilation_h = PICK(1, 1, 1, 2, 3), s->dilation_w = chance(80) ? s->dilation_h : PICK(1, 2);
  s->groups = 1;
  int kind = PICK(0, 0, 0, 0, 1, 2, 2);
  s->channels = PICK(1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 32, 64, 65),
  s->out_channels = PICK(1, 2, 8, 10, 15, 16, 17, 24, 31, 32, 33, 40, 47, 48, 49, 63, 64, 65, 80, 127, 129);
  if (kind == 1) {
    s->groups = PICK(2, 3, 4);
    s->channels = s->groups * PICK(1, 2, 3, 4, 8, 16), s->out_channels = s->groups * PICK(1, 3, 8, 16, 17, 33);
  } else if (kind == 2) {
    s->channels = PICK(1, 3, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 128, 130);
    s->groups = (int)s->channels;
    s->out_channels = s->channels * PICK(1, 1, 1, 1, 2, 3);
  }
  s->batch = PICK(1, 1, 1, 2, 3);
  int64_t per_pixel = s->batch * s->out_channels * (s->channels / s->groups) * s->kernel_h * s->kernel_w, room = 300000 / per_pixel;
  int64_t out_h = PICK(1, 1, 2, 3, 5, 7, 8, 14), out_w = PICK(1, 2, 3, 5, 6, 7, 11, 12, 13, 14, 15, 17, 25, 49, 97);
  if (room < 1) s->batch = 1, room = 1;
  if (out_w > room) out_w = room;
  if (out_h > room / out_w) out_h = room / out_w;
  choose_input(&p, out_h, out_w);
  p.fill = chance(60) ? FILL_RANDOM : (int)between(1, FILLS - 1);
  p.in_gap = chance(85) ? 0 : PICK(1, 4, 13), p.out_gap = chance(70) ? 0 : PICK(1, 3, 16);
  choose_epilogue(&p);
  p.in_place = p.residual && chance(40);
  return p;
}

static void test_random_problems(void **state) {
  (void)state;
  const char *one = getenv("OCTET_CASE");
  uint64_t first = one ? strtoull(one, NULL, 10) : 0, last = one ? first + 1 : getenv("OCTET_LONG") ? LONG_CASES : QUICK_CASES;
  long checks = 0;
  for (uint64_t i = first; i < last; i++) {
    problem p = choose_problem(i);
    checks += check(&p);
  }
  printf("%ld comparisons\n", checks);
}

/* All products at their largest: 255 * 127 and 255 * -128 summed over 4,608 taps, in every output form. */
static void test_extremes(void **state) {
  (void)state;
  static const int fills[] = {FILL_HIGH, FILL_SIGNS, FILL_LOW};
  for (int i = 0; i < 9; i++) {
    problem p = {.number = 1000000 + (uint64_t)i, .fill = fills[i / 3]};
    random_seed(p.number);
    p.shape = (oct_conv_shape){.batch = 1,
                               .in_h = 3,
                               .in_w = 4,
                               .channels = 512,
                               .out_h = 1,
                               .out_w = 2,
                               .out_channels = 20,
                               .kernel_h = 3,
                               .kernel_w = 3,
                               .stride_h = 1,
                               .stride_w = 1,
                               .dilation_h = 1,
                               .dilation_w = 1,
                               .groups = 1};
    choose_epilogue(&p);
    p.epilogue.out = (oct_epilogue_out)(i % 3);
    if (p.epilogue.out != OCT_EPILOGUE_U8) p.epilogue.table = NULL, p.residual = false;
    check(&p);
  }
}

/* Enough pixels, and few enough weights, for a convolution to be run in several chunks of pixels. */
static void test_chunks(void **state) {
  (void)state;
  static const int widths[] = {80, 40, 20};
  for (int i = 0; i < 3; i++) {
    problem p = {.number = 2000000 + (uint64_t)i};
    random_seed(p.number);
    p.shape = (oct_conv_shape){.batch = 2,
                               .channels = 64,
                               .out_channels = widths[i],
                               .kernel_h = 1,
                               .kernel_w = 1,
                               .stride_h = 3,
                               .stride_w = 3,
                               .dilation_h = 1,
                               .dilation_w = 1,
                               .groups = 1};
    choose_input(&p, 25, 31);
    choose_epilogue(&p);
    check(&p);
  }
}

/* 255 * 127 * 9 by hand: what every row must give, with no reference in between. */
static void test_known_sum(void **state) {
  (void)state;
  enum { WIDE = 65 };
  uint8_t in[9 + OCT_OVERREAD];
  int8_t weights[9 * WIDE];
  memset(in, 255, sizeof in);
  memset(weights, 127, sizeof weights);
  for (const oct_conv_i8_kernel *const *k = oct_conv_i8_kernels; *k; k++) {
    oct_conv_i8_args a = {.shape = {.batch = 1,
                                    .in_h = 3,
                                    .in_w = 3,
                                    .channels = 1,
                                    .out_h = 1,
                                    .out_w = 1,
                                    .out_channels = WIDE,
                                    .kernel_h = 3,
                                    .kernel_w = 3,
                                    .stride_h = 1,
                                    .stride_w = 1,
                                    .dilation_h = 1,
                                    .dilation_w = 1,
                                    .groups = 1}};
    if ((*k)->isa != OCT_ISA_SCALAR && !oct_isa_allowed(oct_isa_detect(), (*k)->isa)) continue;
    if ((*k)->reject && (*k)->reject(&a.shape)) a.shape.out_channels = 1;
    if ((*k)->reject && (*k)->reject(&a.shape)) continue;
    int32_t out[WIDE] = {0};
    void *packed = aligned((*k)->packed_bytes(&a.shape));
    (*k)->pack(&a.shape, weights, packed);
    a.in = (oct_view){in, 9, 3, 1};
    a.out = (oct_view){out, WIDE, WIDE, WIDE};
    a.packed = packed;
    a.epilogue.out = OCT_EPILOGUE_S32;
    (*k)->run(&a, 0, (*k)->units(&a.shape), NULL);
    for (int64_t c = 0; c < a.shape.out_channels; c++) assert_int_equal(out[c], 291465);
    free(packed);
  }
}

/* Halves go to the even neighbour in profile onnx, away from zero in profile tflite. */
static void test_rounding(void **state) {
  (void)state;
  static const uint8_t onnx[] = {128, 128, 130, 130, 132}, tflite[] = {128, 129, 130, 131, 132};
  for (const oct_conv_i8_kernel *const *k = oct_conv_i8_kernels; *k; k++) {
    oct_conv_i8_args a = {.shape = {.batch = 1,
                                    .in_h = 1,
                                    .in_w = 5,
                                    .channels = 1,
                                    .out_h = 1,
                                    .out_w = 5,
                                    .out_channels = 1,
                                    .kernel_h = 1,
                                    .kernel_w = 1,
                                    .stride_h = 1,
                                    .stride_w = 1,
                                    .dilation_h = 1,
                                    .dilation_w = 1,
                                    .groups = 1}};
    if (((*k)->isa != OCT_ISA_SCALAR && !oct_isa_allowed(oct_isa_detect(), (*k)->isa)) || ((*k)->reject && (*k)->reject(&a.shape)))
      continue;
    uint8_t in[5 + OCT_OVERREAD] = {0, 1, 3, 5, 8}, out[5];
    const int8_t weight = 1;
    int32_t bias[64] = {0};
    float multiplier[64] = {0.5f};
    void *packed = aligned((*k)->packed_bytes(&a.shape));
    (*k)->pack(&a.shape, &weight, packed);
    a.in = (oct_view){in, 5, 5, 1};
    a.out = (oct_view){out, 5, 5, 1};
    a.packed = packed;
    a.epilogue =
        (oct_epilogue_i8){.out = OCT_EPILOGUE_U8, .bias = bias, .multiplier = multiplier, .zero_point = 128, .low = 0, .high = 255};
    (*k)->run(&a, 0, (*k)->units(&a.shape), NULL);
    assert_memory_equal(out, onnx, 5);
    a.epilogue.profile = OCT_PROFILE_TFLITE;
    (*k)->run(&a, 0, (*k)->units(&a.shape), NULL);
    assert_memory_equal(out, tflite, 5);
    free(packed);
  }
}

static void test_selection(void **state) {
  (void)state;
  oct_conv_shape s = {.batch = 1,
                      .in_h = 8,
                      .in_w = 8,
                      .channels = 64,
                      .out_h = 8,
                      .out_w = 8,
                      .out_channels = 64,
                      .kernel_h = 1,
                      .kernel_w = 1,
                      .stride_h = 1,
                      .stride_w = 1,
                      .dilation_h = 1,
                      .dilation_w = 1,
                      .groups = 1};
  char reasons[4096];
  const oct_conv_i8_kernel *k = oct_conv_i8_select(1u << OCT_ISA_SCALAR, &s, reasons, sizeof reasons);
  assert_string_equal(k->name, "conv_i8_direct__scalar");
  if (oct_conv_i8_kernels[1]) assert_non_null(strstr(reasons, "needs "));
  k = oct_conv_i8_select(UINT32_MAX, &s, reasons, sizeof reasons);
  assert_non_null(k);
  for (const oct_conv_i8_kernel *const *r = oct_conv_i8_kernels; *r; r++) {
    assert_true((*r)->preference <= k->preference || ((*r)->reject && (*r)->reject(&s) && strstr(reasons, (*r)->name)));
    assert_true((*r)->isa == OCT_ISA_SCALAR || (*r)->preference > 0);
  }
  char little[12];
  oct_conv_i8_select(1u << OCT_ISA_SCALAR, &s, little, sizeof little);
  assert_true(strlen(little) < sizeof little);
  assert_non_null(oct_conv_i8_select(0, &s, NULL, 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_known_sum), cmocka_unit_test(test_rounding),  cmocka_unit_test(test_extremes),
      cmocka_unit_test(test_chunks),    cmocka_unit_test(test_selection), cmocka_unit_test(test_random_problems),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
