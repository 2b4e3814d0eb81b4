/* Float convolution kernels. Every variant is compared with a triple loop in double over the unpacked weights, within the bound
 * (K + 4) * 2^-24 * (sum of |x * w| + |bias| + |residual|) that the variants state. Besides: bits do not depend on how units are
 * split, on how far pixels lie apart or on batch mates; nothing but the output's elements is written; inputs end OCT_OVERREAD
 * bytes before a page that must not be touched, and what lies there (NaN) does not leak.
 * OCTET_LONG=1 runs 20,000 random cases instead of a sample; OCTET_CASE=N repeats one.
 * SPDX-License-Identifier: MIT */
#include "kernel_checks.h"

enum { QUICK_CASES = 400, LONG_CASES = 20000 };
enum { FILL_RANDOM, FILL_LARGE, FILL_TINY, FILL_CANCEL, FILLS };

typedef struct problem {
  uint64_t number; /* seed */
  oct_conv_shape shape;
  bool bias, residual, in_place, clamp;
  int pad_bottom, pad_right, in_gap, out_gap, fill;
} problem;

static float random_value(int fill) {
  float x = (float)between(-1048576, 1048576) / 1048576;
  if (fill == FILL_LARGE) return x * 1e15f;
  if (fill == FILL_TINY) return x * 1e-20f; /* products are denormal */
  if (fill == FILL_CANCEL) return chance(50) ? 1e4f : chance(50) ? -1e4f : x;
  return x;
}

/* ---- One problem's data ---- */

typedef struct data {
  guarded in, residual;
  float *weights, *bias; /* bias always allocated, used when the problem has one */
  float *out;            /* the output buffer before the run, canaries included */
  size_t out_count;
  oct_view out_view; /* data is an offset into the buffer, counted in floats */
  ptrdiff_t out_offset;
  double *sum, *size; /* the exact dot products and the sums of |x * w|, [pixel][channel] */
  oct_conv_f32_args args;
} data;

static float canary(size_t i) {
  uint32_t bits = 0x7fc00000u | (uint32_t)(i * 2654435761u >> 12);
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

static void input_create(const problem *p, data *d) {
  const oct_conv_shape *s = &p->shape;
  ptrdiff_t pixel = s->channels + p->in_gap, row = pixel * (s->in_w + s->pad_left + p->pad_right),
            image = row * (s->in_h + s->pad_top + p->pad_bottom);
  /* a gap after the last pixel is not part of the buffer */
  d->in = guarded_create(sizeof(float) * (size_t)(image * s->batch - p->in_gap), OCT_OVERREAD);
  d->args.in = (oct_view){guarded_floats(&d->in) + s->pad_top * row + s->pad_left * pixel, image, row, pixel};
  for (int64_t n = 0; n < s->batch; n++)
    for (int64_t y = -s->pad_top; y < s->in_h + p->pad_bottom; y++)
      for (int64_t x = -s->pad_left; x < s->in_w + p->pad_right; x++) {
        bool inside = y >= 0 && y < s->in_h && x >= 0 && x < s->in_w;
        float *at = (float *)oct_view_at(&d->args.in, sizeof(float), n, y, x);
        for (int64_t c = 0; c < s->channels; c++) at[c] = inside ? random_value(p->fill) : 0;
      }
}

static void output_create(const problem *p, data *d) {
  const oct_conv_shape *s = &p->shape;
  ptrdiff_t pixel = s->out_channels + p->out_gap, row = pixel * (s->out_w + 2), image = row * (s->out_h + 2);
  d->out_count = (size_t)(image * s->batch + 64);
  d->out_offset = row + pixel + 16;
  d->out_view = (oct_view){NULL, image, row, pixel};
  d->out = aligned(d->out_count * sizeof(float));
  for (size_t i = 0; i < d->out_count; i++) d->out[i] = canary(i);
  if (!p->residual) return;
  int64_t outputs = s->batch * s->out_h * s->out_w * s->out_channels;
  d->residual = guarded_create(sizeof(float) * (size_t)outputs, 0);
  d->args.residual = (oct_view){d->residual.data, s->out_h * s->out_w * s->out_channels, s->out_w * s->out_channels, s->out_channels};
  for (int64_t i = 0; i < outputs; i++) guarded_floats(&d->residual)[i] = random_value(p->fill);
  if (!p->in_place) return;
  oct_view out = d->out_view;
  out.data = d->out + d->out_offset;
  for (int64_t n = 0; n < s->batch; n++)
    for (int64_t y = 0; y < s->out_h; y++)
      for (int64_t x = 0; x < s->out_w; x++)
        memcpy(oct_view_at(&out, 4, n, y, x), oct_view_at(&d->args.residual, 4, n, y, x), (size_t)s->out_channels * 4);
}

/* The definition of a convolution, in double. */
static void reference(const problem *p, data *d) {
  const oct_conv_shape *s = &p->shape;
  int64_t in_group = s->channels / s->groups, out_group = s->out_channels / s->groups, index = 0;
  size_t outputs = (size_t)(s->batch * s->out_h * s->out_w * s->out_channels);
  d->sum = aligned(outputs * sizeof(double)), d->size = aligned(outputs * sizeof(double));
  for (int64_t n = 0; n < s->batch; n++)
    for (int64_t y = 0; y < s->out_h; y++)
      for (int64_t x = 0; x < s->out_w; x++)
        for (int64_t o = 0; o < s->out_channels; o++, index++) {
          double sum = 0, size = 0;
          const float *w = d->weights + o * in_group * s->kernel_h * s->kernel_w;
          for (int64_t c = 0; c < in_group; c++)
            for (int i = 0; i < s->kernel_h; i++)
              for (int j = 0; j < s->kernel_w; j++) {
                int64_t in_y = y * s->stride_h - s->pad_top + i * s->dilation_h, in_x = x * s->stride_w - s->pad_left + j * s->dilation_w;
                const float *in = (const float *)oct_view_at(&d->args.in, sizeof(float), n, in_y, in_x);
                double product = (double)in[o / out_group * in_group + c] * *w++;
                sum += product, size += fabs(product);
              }
          d->sum[index] = sum, d->size[index] = size;
        }
}

static void data_create(const problem *p, data *d) {
  const oct_conv_shape *s = &p->shape;
  memset(d, 0, sizeof *d);
  size_t weights = (size_t)(s->out_channels * (s->channels / s->groups) * s->kernel_h * s->kernel_w),
         padded = ((size_t)s->out_channels + 63) / 64 * 64;
  d->args.shape = *s;
  input_create(p, d);
  output_create(p, d);
  d->weights = aligned(weights * sizeof(float));
  for (size_t i = 0; i < weights; i++) d->weights[i] = random_value(p->fill);
  d->bias = aligned(padded * sizeof(float));
  for (size_t i = 0; i < padded; i++) d->bias[i] = i < (size_t)s->out_channels ? random_value(p->fill) : 0;
  d->args.bias = p->bias ? d->bias : NULL;
  d->args.low = p->clamp ? -0.5f : -INFINITY, d->args.high = p->clamp ? 6.0f : INFINITY;
  reference(p, d);
}

static void data_destroy(data *d) {
  guarded_destroy(&d->in);
  if (d->residual.map) guarded_destroy(&d->residual);
  free(d->weights), free(d->bias), free(d->out), free(d->sum), free(d->size);
}

/* ---- Running and checking ---- */

/* A fresh output buffer that `kernel` has worked on, its units in `pieces` calls, the last piece first. */
static float *run_kernel(const oct_conv_f32_kernel *kernel, const problem *p, data *d, size_t pieces) {
  const oct_conv_shape *s = &p->shape;
  size_t bytes = kernel->packed_bytes(s), units = kernel->units(s);
  guarded packed = guarded_create(bytes, 0);
  float *out = aligned(d->out_count * sizeof(float));
  memcpy(out, d->out, d->out_count * sizeof(float));
  kernel->pack(s, d->weights, packed.data);
  oct_conv_f32_args args = d->args;
  args.packed = packed.data;
  args.out = d->out_view;
  args.out.data = out + d->out_offset;
  if (p->in_place && p->residual) args.residual = args.out;
  void *workspace = aligned(kernel->workspace_bytes ? kernel->workspace_bytes(s) : 0);
  for (size_t i = pieces; i-- > 0;) kernel->run(&args, units * i / pieces, units * (i + 1) / pieces, workspace);
  free(workspace);
  guarded_destroy(&packed);
  return out;
}

static void say(const problem *p, const char *kernel, const char *what) {
  const oct_conv_shape *s = &p->shape;
  print_message(
      "%s: %s; repeat with OCTET_CASE=%llu: batch %d in %dx%dx%d out %dx%dx%d kernel %dx%d stride %dx%d dilation %dx%d pad %d,%d groups %d "
      "bias %d residual %d in place %d clamp %d gaps %d,%d fill %d\n",
      kernel, what, (unsigned long long)p->number, (int)s->batch, (int)s->in_h, (int)s->in_w, (int)s->channels, (int)s->out_h,
      (int)s->out_w, (int)s->out_channels, s->kernel_h, s->kernel_w, s->stride_h, s->stride_w, s->dilation_h, s->dilation_w, s->pad_top,
      s->pad_left, s->groups, p->bias, p->residual, p->in_place, p->clamp, p->in_gap, p->out_gap, p->fill);
}

/* One value against the exact sum; true when within the bound. */
static bool value_is_right(const problem *p, const data *d, float got, int64_t index, int64_t c) {
  double products = (double)(p->shape.channels / p->shape.groups) * p->shape.kernel_h * p->shape.kernel_w;
  double bias = p->bias ? d->bias[c] : 0, residual = p->residual ? guarded_floats(&d->residual)[index] : 0;
  double want = d->sum[index] + bias + residual, size = d->size[index] + fabs(bias) + fabs(residual);
  double bound = (products + 4) * (0x1p-24 * size + 0x1p-149);
  if (want < d->args.low) want = d->args.low;
  if (want > d->args.high) want = d->args.high;
  return fabs(got - want) <= bound;
}

static void check_output(const problem *p, data *d, const oct_conv_f32_kernel *kernel, const float *out) {
  const oct_conv_shape *s = &p->shape;
  unsigned char *inside = calloc(d->out_count, 1);
  int64_t index = 0, wrong = 0;
  oct_view view = d->out_view;
  for (int64_t n = 0; n < s->batch; n++)
    for (int64_t y = 0; y < s->out_h; y++)
      for (int64_t x = 0; x < s->out_w; x++) {
        ptrdiff_t at = d->out_offset + n * view.image + y * view.row + x * view.pixel;
        for (int64_t c = 0; c < s->out_channels; c++, index++) {
          inside[at + c] = 1;
          if (value_is_right(p, d, out[at + c], index, c)) continue;
          if (!wrong++)
            print_message("first wrong value at n %d y %d x %d c %d: %g, exact %g\n", (int)n, (int)y, (int)x, (int)c, out[at + c],
                          d->sum[index]);
        }
      }
  if (wrong) say(p, kernel->name, "outside the bound");
  assert_int_equal(wrong, 0);
  for (size_t i = 0; i < d->out_count; i++) {
    if (inside[i] || memcmp(&out[i], &d->out[i], 4) == 0) continue;
    say(p, kernel->name, "wrote outside the output");
    fail();
  }
  free(inside);
}

static bool runs_here(const oct_conv_f32_kernel *kernel, const oct_conv_shape *shape) {
  return isa_here(kernel->isa) && !kernel->reject(shape);
}

static void check_problem(const problem *p) {
  data d;
  data_create(p, &d);
  for (const oct_conv_f32_kernel *const *k = oct_conv_f32_kernels; *k; k++) {
    if (!runs_here(*k, &p->shape)) continue;
    float *whole = run_kernel(*k, p, &d, 1), *pieces = run_kernel(*k, p, &d, 3);
    check_output(p, &d, *k, whole);
    if (memcmp(whole, pieces, d.out_count * sizeof(float)) != 0) {
      say(p, (*k)->name, "bits depend on the split");
      fail();
    }
    free(whole), free(pieces);
  }
  data_destroy(&d);
}

static problem problem_of(uint64_t number, oct_conv_shape shape) {
  if (!shape.batch) shape.batch = 1;
  if (!shape.groups) shape.groups = 1;
  if (!shape.kernel_h) shape.kernel_h = shape.kernel_w = 1;
  if (!shape.stride_h) shape.stride_h = shape.stride_w = 1;
  if (!shape.dilation_h) shape.dilation_h = shape.dilation_w = 1;
  if (!shape.out_h) {
    shape.out_h = (shape.in_h + 2 * shape.pad_top - (shape.kernel_h - 1) * shape.dilation_h - 1) / shape.stride_h + 1;
    shape.out_w = (shape.in_w + 2 * shape.pad_left - (shape.kernel_w - 1) * shape.dilation_w - 1) / shape.stride_w + 1;
  }
  return (problem){.number = number, .shape = shape, .pad_bottom = shape.pad_top, .pad_right = shape.pad_left, .bias = true};
}

/* ---- Tests ---- */

/* ONNX's Conv example: 0..24 in 5x5, a 3x3 kernel of ones, padding 1. */
static void test_onnx_example(void **state) {
  (void)state;
  static const float want[25] = {12,  21, 27, 33,  24,  33,  54,  63, 72,  51,  63,  99, 108,
                                 117, 81, 93, 144, 153, 162, 111, 72, 111, 117, 123, 84};
  problem p = problem_of(
      0,
      (oct_conv_shape){.in_h = 5, .in_w = 5, .channels = 1, .out_channels = 1, .kernel_h = 3, .kernel_w = 3, .pad_top = 1, .pad_left = 1});
  p.bias = false;
  data d;
  random_seed(0);
  data_create(&p, &d);
  for (int i = 0; i < 25; i++) ((float *)d.args.in.data)[i / 5 * d.args.in.row + i % 5] = (float)i;
  for (int i = 0; i < 9; i++) d.weights[i] = 1;
  for (const oct_conv_f32_kernel *const *k = oct_conv_f32_kernels; *k; k++) {
    if (!runs_here(*k, &p.shape)) continue;
    float *out = run_kernel(*k, &p, &d, 1);
    for (int i = 0; i < 25; i++) assert_true(out[d.out_offset + i / 5 * d.out_view.row + i % 5 * d.out_view.pixel] == want[i]);
    free(out);
  }
  data_destroy(&d);
}

/* Widths of tiles, one below and one past them; heights around 6 and 8; the layers of networks that Octet must run well. */
static void test_shapes(void **state) {
  (void)state;
  static const int widths[] = {1, 4, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 47, 48, 49, 63, 64, 65, 80, 127, 128, 129};
  uint64_t number = 1000000;
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
    for (int pixels = 1; pixels <= 13; pixels += pixels == 7 ? 6 : 1)
      for (int k = 4; k <= 7; k += 3) {
        random_seed(++number);
        problem p = problem_of(number, (oct_conv_shape){.in_h = 1, .in_w = pixels, .channels = k, .out_channels = widths[i]});
        p.residual = pixels % 2, p.in_place = pixels % 4 == 1, p.clamp = k == 4;
        check_problem(&p);
      }
  /* batch, height = width, channels, out_channels, kernel, stride, padding, groups */
  static const int layers[][8] = {
      {1, 28, 1, 8, 3, 2, 2, 1},    {1, 8, 8, 16, 2, 1, 2, 1},  {1, 6, 16, 32, 2, 1, 2, 1},   {3, 23, 3, 64, 7, 2, 3, 1},
      {1, 7, 512, 66, 3, 1, 1, 1},  {1, 9, 64, 64, 3, 1, 1, 4}, {1, 17, 33, 33, 3, 1, 1, 33}, {1, 15, 130, 130, 5, 1, 2, 130},
      {1, 15, 24, 24, 5, 2, 2, 24}, {1, 12, 7, 21, 3, 1, 1, 7}, {1, 7, 64, 64, 7, 1, 0, 64},  {2, 12, 1, 6, 4, 1, 3, 1},
  };
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    random_seed(++number);
    const int *l = layers[i];
    problem p = problem_of(number, (oct_conv_shape){.batch = l[0],
                                                    .in_h = l[1],
                                                    .in_w = l[1],
                                                    .channels = l[2],
                                                    .out_channels = l[3],
                                                    .kernel_h = l[4],
                                                    .kernel_w = l[4],
                                                    .stride_h = l[5],
                                                    .stride_w = l[5],
                                                    .pad_top = l[6],
                                                    .pad_left = l[6],
                                                    .groups = l[7]});
    p.residual = i % 2;
    check_problem(&p);
  }
}

static problem random_problem(uint64_t number) {
  random_seed(number);
  int depthwise = chance(35), groups = depthwise ? PICK(1, 3, 8, 15, 16, 17, 31, 33, 64, 65, 130) : PICK(1, 1, 1, 1, 2, 3);
  oct_conv_shape s = {
      .batch = between(1, 3), .groups = groups, .kernel_h = PICK(1, 1, 2, 3, 3, 5, 7), .kernel_w = PICK(1, 1, 2, 3, 3, 5, 7)};
  s.channels = groups * (depthwise ? 1 : PICK(1, 2, 3, 4, 5, 8, 12, 16, 33));
  s.out_channels = groups * (depthwise ? PICK(1, 1, 1, 2, 3) : PICK(1, 2, 5, 8, 10, 16, 17, 24, 32, 40, 48, 50, 64, 70, 100, 130));
  s.stride_h = PICK(1, 1, 2, 3), s.stride_w = chance(70) ? s.stride_h : PICK(1, 2, 3);
  s.dilation_h = PICK(1, 1, 1, 2, 3), s.dilation_w = chance(70) ? s.dilation_h : PICK(1, 2);
  s.pad_top = (int)between(0, s.kernel_h - 1), s.pad_left = (int)between(0, s.kernel_w - 1);
  s.out_h = between(1, 6), s.out_w = between(1, 19);
  problem p = problem_of(number, s);
  p.pad_bottom = (int)between(0, 2), p.pad_right = (int)between(0, 2);
  int64_t high = (s.out_h - 1) * s.stride_h + (s.kernel_h - 1) * s.dilation_h + 1 - s.pad_top - p.pad_bottom;
  int64_t wide = (s.out_w - 1) * s.stride_w + (s.kernel_w - 1) * s.dilation_w + 1 - s.pad_left - p.pad_right;
  p.shape.in_h = high > 1 ? high : 1, p.shape.in_w = wide > 1 ? wide : 1;
  p.bias = chance(80), p.residual = chance(40), p.in_place = chance(50), p.clamp = chance(40);
  p.in_gap = chance(30) ? PICK(1, 4, 16) : 0, p.out_gap = chance(50) ? PICK(1, 3, 16, 64) : 0;
  p.fill = chance(60) ? FILL_RANDOM : (int)between(0, FILLS - 1);
  return p;
}

static void test_random(void **state) {
  (void)state;
  uint64_t first, last;
  case_range(repeats(QUICK_CASES, LONG_CASES), &first, &last);
  for (uint64_t i = first; i < last; i++) {
    problem p = random_problem(i);
    check_problem(&p);
  }
}

/* The bits of an image's result: alone, among batch mates, and with gaps between its pixels. */
static void test_bits_do_not_depend_on_surroundings(void **state) {
  (void)state;
  static const oct_conv_shape shapes[] = {
      {.in_h = 1, .in_w = 1, .channels = 100, .out_channels = 10},
      {.in_h = 1, .in_w = 1, .channels = 36, .out_channels = 150},
      {.in_h = 5, .in_w = 7, .channels = 3, .out_channels = 24, .kernel_h = 3, .kernel_w = 3},
      {.in_h = 5, .in_w = 7, .channels = 4, .out_channels = 12, .kernel_h = 3, .kernel_w = 3},
      {.in_h = 5, .in_w = 7, .channels = 20, .out_channels = 20, .kernel_h = 3, .kernel_w = 3, .groups = 20},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    problem one = problem_of(i, shapes[i]), many = one;
    many.shape.batch = 7, many.in_gap = 3;
    data a, b;
    random_seed(i);
    data_create(&many, &b);
    random_seed(i);
    data_create(&one, &a);
    memcpy(a.weights, b.weights,
           (size_t)(one.shape.out_channels * (one.shape.channels / one.shape.groups) * one.shape.kernel_h * one.shape.kernel_w) * 4);
    memcpy(a.bias, b.bias, (size_t)one.shape.out_channels * 4);
    for (int64_t y = 0; y < one.shape.in_h; y++)
      for (int64_t x = 0; x < one.shape.in_w; x++)
        memcpy(oct_view_at(&a.args.in, 4, 0, y, x), oct_view_at(&b.args.in, 4, 5, y, x), (size_t)one.shape.channels * 4);
    for (const oct_conv_f32_kernel *const *k = oct_conv_f32_kernels; *k; k++) {
      if (!runs_here(*k, &one.shape)) continue;
      float *alone = run_kernel(*k, &one, &a, 1), *among = run_kernel(*k, &many, &b, 1);
      const float *image = among + 5 * b.out_view.image;
      for (int64_t y = 0; y < one.shape.out_h; y++)
        for (int64_t x = 0; x < one.shape.out_w; x++) {
          ptrdiff_t at = a.out_offset + y * a.out_view.row + x * a.out_view.pixel;
          assert_memory_equal(alone + at, image + at, (size_t)one.shape.out_channels * 4);
        }
      free(alone), free(among);
    }
    data_destroy(&a), data_destroy(&b);
  }
}

/* A NaN reaches exactly the outputs whose window holds it, and passes the clamp; a zero weight does not hide it. */
static void test_nan(void **state) {
  (void)state;
  for (int depthwise = 0; depthwise < 2; depthwise++) {
    problem p = problem_of(
        9, (oct_conv_shape){
               .in_h = 9, .in_w = 9, .channels = 5, .out_channels = 5, .kernel_h = 3, .kernel_w = 3, .groups = depthwise ? 5 : 1});
    p.clamp = true;
    data d;
    random_seed(9);
    data_create(&p, &d);
    ((float *)oct_view_at(&d.args.in, 4, 0, 4, 5))[2] = NAN;
    memset(d.weights, 0, (size_t)(depthwise ? 45 : 225) * 4);
    for (const oct_conv_f32_kernel *const *k = oct_conv_f32_kernels; *k; k++) {
      if (!runs_here(*k, &p.shape)) continue;
      float *out = run_kernel(*k, &p, &d, 1);
      for (int y = 0; y < 7; y++)
        for (int x = 0; x < 7; x++)
          for (int c = 0; c < 5; c++) {
            bool holds = y >= 2 && y <= 4 && x >= 3 && x <= 5 && (!depthwise || c == 2);
            assert_int_equal(isnan(out[d.out_offset + y * d.out_view.row + x * d.out_view.pixel + c]) != 0, holds);
          }
      free(out);
    }
    data_destroy(&d);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_onnx_example), cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_random),       cmocka_unit_test(test_bits_do_not_depend_on_surroundings),
      cmocka_unit_test(test_nan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
