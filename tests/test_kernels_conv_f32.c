/* Float convolution kernels. Every variant is compared with a triple loop in double over the unpacked weights, within the bound
 * that the variants state (conv_f32_checks.h). Besides: bits do not depend on how units are split, on how far pixels lie apart
 * or on batch mates; nothing but the output's elements is written; inputs end OCT_OVERREAD bytes before a page that must not be
 * touched, and what lies there (NaN) does not leak.
 * OCTET_LONG=1 compares every row 20,000 times on random problems; OCTET_CASE=N repeats one, OCTET_ROW=TEXT checks the rows whose names
 * contain it. Winograd's rows have a test of their own.
 * SPDX-License-Identifier: MIT */
#include "conv_f32_checks.h"

#include "conv_families.h"

/* ---- Chosen problems ---- */

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
        check_rows(&p, accepts, 0);
      }
  /* batch, height = width, channels, out_channels, kernel, stride, padding, groups */
  static const int layers[][8] = {
      {1, 28, 1, 8, 3, 2, 2, 1},    {1, 8, 8, 16, 2, 1, 2, 1},    {1, 6, 16, 32, 2, 1, 2, 1},   {3, 23, 3, 64, 7, 2, 3, 1},
      {1, 7, 512, 66, 3, 1, 1, 1},  {1, 9, 64, 64, 3, 1, 1, 4},   {1, 17, 33, 33, 3, 1, 1, 33}, {1, 15, 130, 130, 5, 1, 2, 130},
      {1, 15, 24, 24, 5, 2, 2, 24}, {1, 12, 7, 21, 3, 1, 1, 7},   {1, 7, 64, 64, 7, 1, 0, 64},  {2, 12, 1, 6, 4, 1, 3, 1},
      {1, 13, 32, 64, 3, 1, 1, 16}, {2, 11, 24, 24, 3, 2, 1, 6},  {1, 10, 24, 96, 5, 1, 2, 12}, {1, 11, 288, 130, 3, 1, 1, 1},
      {2, 9, 20, 32, 1, 1, 0, 1},   {1, 12, 12, 112, 1, 1, 0, 1},
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
    check_rows(&p, accepts, 0);
  }
}

/* ---- Random problems ---- */

/* Strides, dilations, paddings, an output of at most out_h x out_w, gaps and data for the channels and the kernel of `s`. */
static problem completed(uint64_t number, oct_conv_shape s, int64_t out_h, int64_t out_w) {
  s.stride_h = PICK(1, 1, 2, 3), s.stride_w = chance(70) ? s.stride_h : PICK(1, 2, 3);
  s.dilation_h = PICK(1, 1, 1, 2, 3), s.dilation_w = chance(70) ? s.dilation_h : PICK(1, 2);
  s.pad_top = (int)between(0, s.kernel_h - 1), s.pad_left = (int)between(0, s.kernel_w - 1);
  s.out_h = out_h, s.out_w = out_w;
  problem p = problem_of(number, s);
  p.pad_bottom = (int)between(0, 2), p.pad_right = (int)between(0, 2);
  int64_t high = (s.out_h - 1) * s.stride_h + (s.kernel_h - 1) * s.dilation_h + 1 - s.pad_top - p.pad_bottom;
  int64_t wide = (s.out_w - 1) * s.stride_w + (s.kernel_w - 1) * s.dilation_w + 1 - s.pad_left - p.pad_right;
  p.shape.in_h = high > 1 ? high : 1, p.shape.in_w = wide > 1 ? wide : 1;
  p.bias = chance(80), p.residual = chance(40), p.in_place = chance(50), p.clamp = chance(40);
  p.in_gap = random_gap(p.shape.channels, 30), p.out_gap = random_gap(p.shape.out_channels, 50);
  p.fill = chance(60) ? FILL_RANDOM : (int)between(0, FILLS - 1);
  return p;
}

/* Channels around panels and tiles, pixels around tiles, matrices among them. */
static problem choose_direct(uint64_t number) {
  random_seed(number);
  oct_conv_shape s = {.batch = between(1, 2), .groups = PICK(1, 1, 1, 1, 2, 3)};
  s.kernel_h = PICK(1, 1, 2, 3, 3, 5, 7), s.kernel_w = chance(60) ? s.kernel_h : PICK(1, 2, 3, 5);
  s.channels = s.groups * PICK(1, 2, 3, 4, 5, 8, 12, 16, 33),
  s.out_channels = s.groups * PICK(1, 2, 5, 8, 10, 16, 17, 24, 32, 40, 48, 50, 64, 70, 100, 130);
  bool matrix = chance(15);
  if (matrix) s.batch = s.kernel_h = s.kernel_w = 1;
  return completed(number, s, matrix ? 1 : between(1, 5), matrix ? PICK(1, 5, 6, 7, 8, 12, 13, 31, 48, 67) : between(1, 15));
}

/* One input channel per group, or groups that are a part of a vector; rows of pixels around tiles, columns longer than a unit. */
static problem choose_depthwise(uint64_t number) {
  random_seed(number);
  bool parts = chance(25);
  int in_group = parts ? PICK(2, 2, 3, 4, 4, 8) : 1, out_group = parts ? PICK(2, 4, 4, 8) : PICK(1, 1, 1, 2, 3, 7);
  oct_conv_shape s = {.batch = between(1, 2), .groups = PICK(2, 3, 8, 15, 16, 17, 31, 33, 64, 65, 130)};
  if (parts) s.groups = PICK(2, 3, 4, 5, 8, 16, 17);
  s.kernel_h = PICK(1, 2, 3, 3, 3, 5, 7), s.kernel_w = chance(70) ? s.kernel_h : PICK(1, 2, 3, 5);
  s.channels = s.groups * in_group, s.out_channels = s.groups * out_group;
  return completed(number, s, chance(10) ? PICK(15, 16, 17, 33) : between(1, 6), between(1, 19));
}

static void test_direct(void **state) {
  (void)state;
  static const family direct = {0, choose_direct, accepts, {"_direct_"}};
  check_family(&direct);
}

static void test_depthwise(void **state) {
  (void)state;
  static const family depthwise = {10000000, choose_depthwise, accepts, {"_depthwise_"}};
  check_family(&depthwise);
}

static bool is_exact(const conv_row *row) { return !row->approximate; }

static void test_all_rows_were_compared(void **state) {
  (void)state;
  check_all_rows(is_exact);
}

/* A matrix that lies anywhere is packed as the same one, scaled before, that lies in order. */
static void check_pack_matrix(const oct_conv_f32_kernel *row, const problem *p, int64_t k_stride, int64_t n_stride, float scale) {
  const oct_conv_shape *s = &p->shape;
  int64_t k = s->channels, n = s->out_channels;
  guarded matrix = guarded_create(sizeof(float) * (size_t)((k - 1) * k_stride + (n - 1) * n_stride + 1), 0);
  guarded want = guarded_create(row->packed_bytes(s), 0), got = guarded_create(row->packed_bytes(s), 0);
  float *ordered = aligned(sizeof(float) * (size_t)(k * n));
  for (int64_t i = 0; i < k * n; i++) {
    float w = random_value(p->fill);
    guarded_floats(&matrix)[i % k * k_stride + i / k * n_stride] = w, ordered[i] = w * scale;
  }
  row->pack(s, ordered, want.data);
  row->pack_matrix(s, guarded_floats(&matrix), k_stride, n_stride, scale, got.data);
  if (memcmp(want.data, got.data, row->packed_bytes(s)) != 0) say(p, row->name, "packs a matrix in another way");
  assert_memory_equal(want.data, got.data, row->packed_bytes(s));
  free(ordered);
  guarded_destroy(&matrix), guarded_destroy(&want), guarded_destroy(&got);
}

static void test_pack_matrix(void **state) {
  (void)state;
  for (long i = 0; i < comparisons_wanted(); i++) {
    random_seed((uint64_t)i);
    oct_conv_shape s = {
        .in_h = 1, .in_w = 5, .channels = PICK(1, 2, 7, 15, 16, 17, 32, 33), .out_channels = PICK(1, 5, 15, 16, 17, 31, 64, 65, 130)};
    problem p = problem_of((uint64_t)i, s);
    bool columns = chance(50);
    int64_t gap = PICK(0, 0, 1, 5), apart = PICK(1, 1, 1, 2), k_stride = columns ? s.out_channels * apart + gap : apart,
            n_stride = columns ? apart : s.channels * apart + gap;
    p.fill = (int)between(0, FILLS - 1);
    for (int k = 0; conv_rows[k]; k++)
      if (runs_here(conv_rows[k], &p.shape) && conv_rows[k]->pack_matrix)
        check_pack_matrix(conv_rows[k], &p, k_stride, n_stride, chance(50) ? 1 : 0.176776695f);
  }
}

/* ---- What must not matter ---- */

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

/* In exact variants a NaN reaches just the outputs whose window holds it, and passes the clamp; a zero weight does not hide it. */
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
      if ((*k)->approximate || !runs_here(*k, &p.shape)) continue;
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
      cmocka_unit_test(test_onnx_example),
      cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_direct),
      cmocka_unit_test(test_depthwise),
      cmocka_unit_test(test_all_rows_were_compared),
      cmocka_unit_test(test_pack_matrix),
      cmocka_unit_test(test_bits_do_not_depend_on_surroundings),
      cmocka_unit_test(test_nan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
