/* Float Winograd convolution: the tests of test_kernels_conv_f32.c on the shapes that it takes (every cut of a height and a width
 * into tiles, tails of channels), and what is its own: small integers come out exactly, the error on realistic data is small, the
 * compact form gives the same bits, exact float turns it off.
 * OCTET_LONG=1 compares every row with 20,000 random problems instead of a sample; OCTET_CASE=N repeats one.
 * SPDX-License-Identifier: MIT */
#include "conv_f32_checks.h"

#include "conv_families.h"

static oct_conv_shape shape_of(int64_t batch, int64_t out_h, int64_t out_w, int64_t channels, int64_t out_channels, int pad) {
  return (oct_conv_shape){.batch = batch,
                          .in_h = out_h + 2 - 2 * pad,
                          .in_w = out_w + 2 - 2 * pad,
                          .channels = channels,
                          .out_h = out_h,
                          .out_w = out_w,
                          .out_channels = out_channels,
                          .kernel_h = 3,
                          .kernel_w = 3,
                          .pad_top = pad,
                          .pad_left = pad};
}

static bool is_approximate(const conv_row *row) { return row->approximate; }

static bool is_winograd(const oct_conv_f32_kernel *kernel, const oct_conv_shape *shape) {
  return kernel->approximate && runs_here(kernel, shape);
}

static bool takes(const conv_row *row, const problem *p, const data *d) { return row->approximate && accepts(row, p, d); }

/* The variants that take a shape on this machine. */
static size_t winograd_rows(const oct_conv_f32_kernel *rows[MAX_ROWS], const oct_conv_shape *shape) {
  size_t count = 0;
  for (const oct_conv_f32_kernel *const *k = oct_conv_f32_kernels; *k; k++)
    if (is_winograd(*k, shape) && count < MAX_ROWS) rows[count++] = *k;
  return count;
}

/* ---- Tests ---- */

/* All sizes up to two tiles of 4 and two of 3, alone and with neighbours in the block. */
static void test_cuts(void **state) {
  (void)state;
  uint64_t number = 1000;
  for (int64_t size = 1; size <= 14; size++)
    for (int64_t other = 3; other <= 14; other += size % 2 ? 4 : 3) {
      random_seed(++number);
      problem p = problem_of(number, shape_of(1 + (int64_t)(number % 3), size, other, 32, 33, 1));
      p.residual = number % 2, p.in_place = number % 4 == 1;
      check_rows(&p, takes, 0);
      problem turned = problem_of(number, shape_of(2, other, size, 33, 16, 1));
      check_rows(&turned, takes, 0);
    }
}

/* Sizes that are sums of 4 and 3; channels around vectors and panels. The larger an image, the fewer channels. */
static problem random_problem(uint64_t number) {
  random_seed(number);
  static const int64_t lengths[] = {3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 16, 19};
  int64_t h = lengths[random_u32() % 12], w = lengths[random_u32() % 12], channels = PICK(8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 64),
          out_channels = PICK(8, 13, 16, 17, 32, 40, 48, 63, 64, 65, 80, 130), batch = PICK(1, 1, 2, 3);
  if (batch * h * w * channels * out_channels > 200000 && chance(90)) batch = 1, channels = PICK(8, 9, 15, 16, 17);
  if (batch * h * w * channels * out_channels > 200000 && chance(90)) out_channels = PICK(8, 13, 16, 17, 33);
  problem p = problem_of(number, shape_of(batch, h, w, channels, out_channels, chance(80)));
  p.pad_bottom += chance(20), p.pad_right += chance(20);
  p.bias = chance(80), p.residual = chance(40), p.in_place = chance(50), p.clamp = chance(40);
  p.in_gap = random_gap(p.shape.channels, 30), p.out_gap = random_gap(p.shape.out_channels, 50);
  p.fill = chance(60) ? FILL_RANDOM : (int)between(0, FILLS - 1);
  return p;
}

static void test_random(void **state) {
  (void)state;
  static const family winograd = {0, random_problem, takes, {"winograd"}};
  check_family(&winograd);
  check_all_rows(is_approximate);
}

/* Inputs of -1, 0, 1 and weights of -36, 0, 36 make every intermediate value a small multiple of 1/16: nothing is rounded, so the
 * result is the integer convolution. */
static void test_integers_are_exact(void **state) {
  (void)state;
  static const int sizes[][4] = {{7, 7, 20, 24}, {14, 13, 17, 70}, {8, 12, 16, 48}, {3, 6, 33, 16}, {9, 10, 40, 130}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    random_seed(i);
    problem p = problem_of(i, shape_of(2, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], 1));
    p.bias = false;
    data d;
    data_create(&p, &d);
    const oct_conv_shape *s = &p.shape;
    for (int64_t n = 0; n < s->batch; n++)
      for (int64_t y = 0; y < s->in_h; y++)
        for (int64_t x = 0; x < s->in_w; x++)
          for (int64_t c = 0; c < s->channels; c++) ((float *)oct_view_at(&d.args.in, 4, n, y, x))[c] = (float)between(-1, 1);
    for (int64_t w = 0; w < s->out_channels * s->channels * 9; w++) d.weights[w] = (float)(36 * between(-1, 1));
    free(d.sum), free(d.size);
    reference(&p, &d);
    const oct_conv_f32_kernel *rows[MAX_ROWS];
    size_t count = winograd_rows(rows, s);
    for (size_t k = 0; k < count; k++) {
      float *out = run_kernel(rows[k], &p, &d, 1);
      int64_t index = 0;
      for (int64_t n = 0; n < s->batch; n++)
        for (int64_t y = 0; y < s->out_h; y++)
          for (int64_t x = 0; x < s->out_w; x++)
            for (int64_t c = 0; c < s->out_channels; c++, index++)
              assert_true(out[d.out_offset + n * d.out_view.image + y * d.out_view.row + x * d.out_view.pixel + c] == (float)d.sum[index]);
      free(out);
    }
    data_destroy(&d);
  }
}

/* Near enough to a normal distribution: the sum of twelve uniform values. */
static float normal(void) {
  float sum = -6;
  for (int i = 0; i < 12; i++) sum += (float)between(0, 1048576) / 1048576;
  return sum;
}

/* Positive inputs and weights as networks have them: the error of an output is below 1e-5 of the root mean square of the outputs
 * on average, and below 1e-4 of it anywhere. */
static void test_error_on_realistic_data(void **state) {
  (void)state;
  static const int sizes[][3] = {{14, 16, 16}, {12, 64, 64}, {7, 256, 32}, {10, 128, 16}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    random_seed(i);
    problem p = problem_of(i, shape_of(1, sizes[i][0], sizes[i][0], sizes[i][1], sizes[i][2], 1));
    p.bias = false;
    data d;
    data_create(&p, &d);
    const oct_conv_shape *s = &p.shape;
    for (int64_t y = 0; y < s->in_h; y++)
      for (int64_t x = 0; x < s->in_w; x++)
        for (int64_t c = 0; c < s->channels; c++) ((float *)oct_view_at(&d.args.in, 4, 0, y, x))[c] = fmaxf(normal(), 0);
    for (int64_t w = 0; w < s->out_channels * s->channels * 9; w++) d.weights[w] = normal() * sqrtf(2 / (9 * (float)s->channels));
    free(d.sum), free(d.size);
    reference(&p, &d);
    int64_t outputs = s->out_h * s->out_w * s->out_channels;
    const oct_conv_f32_kernel *rows[MAX_ROWS];
    size_t count = winograd_rows(rows, s);
    for (size_t k = 0; k < count; k++) {
      float *out = run_kernel(rows[k], &p, &d, 1);
      double squares = 0, errors = 0, most = 0;
      for (int64_t j = 0; j < outputs; j++) {
        int64_t pixel = j / s->out_channels;
        float got = out[d.out_offset + pixel / s->out_w * d.out_view.row + pixel % s->out_w * d.out_view.pixel + j % s->out_channels];
        double error = fabs(got - d.sum[j]);
        squares += d.sum[j] * d.sum[j], errors += error * error, most = fmax(most, error);
      }
      double size = sqrt(squares / (double)outputs);
      assert_true(sqrt(errors / (double)outputs) < 1e-5 * size);
      assert_true(most < 1e-4 * size);
      free(out);
    }
    data_destroy(&d);
  }
}

/* Variants of one vector width that keep transformed or plain weights: the same bits, so either may be chosen. */
static void test_compact_gives_the_same_bits(void **state) {
  (void)state;
  static const int sizes[][4] = {{7, 7, 64, 64}, {19, 14, 33, 70}, {4, 4, 128, 24}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    random_seed(i);
    problem p = problem_of(i, shape_of(3, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], 1));
    p.residual = p.clamp = i % 2;
    data d;
    data_create(&p, &d);
    float *first[OCT_ISA_COUNT] = {NULL};
    for (const oct_conv_f32_kernel *const *k = oct_conv_f32_kernels; *k; k++) {
      if (!(*k)->approximate || !isa_here((*k)->isa)) continue;
      float *out = run_kernel(*k, &p, &d, 1 + i);
      if (first[(*k)->isa]) {
        assert_memory_equal(first[(*k)->isa], out, d.out_count * sizeof(float));
        free(out);
      } else {
        first[(*k)->isa] = out;
      }
    }
    for (int isa = 0; isa < OCT_ISA_COUNT; isa++) free(first[isa]);
    data_destroy(&d);
  }
}

/* An image's bits, alone and as one of many. */
static void test_bits_do_not_depend_on_batch(void **state) {
  (void)state;
  problem many = problem_of(3, shape_of(7, 10, 11, 20, 24, 1)), one = many;
  one.shape.batch = 1, many.in_gap = 3;
  data a, b;
  random_seed(1);
  data_create(&many, &b);
  data_create(&one, &a);
  memcpy(a.weights, b.weights, (size_t)(24 * 20 * 9) * 4);
  memcpy(a.bias, b.bias, 24 * 4);
  for (int64_t y = 0; y < one.shape.in_h; y++)
    for (int64_t x = 0; x < one.shape.in_w; x++) memcpy(oct_view_at(&a.args.in, 4, 0, y, x), oct_view_at(&b.args.in, 4, 4, y, x), 20 * 4);
  for (const oct_conv_f32_kernel *const *k = oct_conv_f32_kernels; *k; k++) {
    if (!is_winograd(*k, &one.shape) || !is_winograd(*k, &many.shape)) continue;
    float *alone = run_kernel(*k, &one, &a, 1), *among = run_kernel(*k, &many, &b, 1);
    for (int64_t y = 0; y < one.shape.out_h; y++)
      for (int64_t x = 0; x < one.shape.out_w; x++) {
        ptrdiff_t at = a.out_offset + y * a.out_view.row + x * a.out_view.pixel;
        assert_memory_equal(alone + at, among + at + 4 * b.out_view.image, 24 * 4);
      }
    free(alone), free(among);
  }
  data_destroy(&a), data_destroy(&b);
}

static void test_exact_float_turns_it_off(void **state) {
  (void)state;
  oct_conv_shape shape = shape_of(1, 56, 56, 64, 64, 1);
  shape.batch = shape.groups = shape.stride_h = shape.stride_w = shape.dilation_h = shape.dilation_w = 1;
  char reasons[512];
  uint32_t here = oct_isa_detect();
  for (int isa = OCT_ISA_AVX2; isa < OCT_ISA_COUNT; isa++) {
    if (!oct_isa_allowed(here, (oct_isa)isa)) continue;
    uint32_t mask;
    assert_true(oct_isa_cap(oct_isa_name((oct_isa)isa), &mask));
    assert_true(oct_conv_f32_select(mask & here, &shape, reasons, sizeof reasons)->approximate);
    assert_false(oct_conv_f32_select((mask & here) | OCT_EXACT_FLOAT, &shape, reasons, sizeof reasons)->approximate);
    assert_non_null(strstr(reasons, "exact float"));
  }
  assert_false(oct_conv_f32_select(0, &shape, NULL, 0)->approximate);
  shape.out_h = 5, shape.in_h = 5;
  assert_false(oct_conv_f32_select(here, &shape, reasons, sizeof reasons)->approximate);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cuts),
      cmocka_unit_test(test_random),
      cmocka_unit_test(test_integers_are_exact),
      cmocka_unit_test(test_error_on_realistic_data),
      cmocka_unit_test(test_compact_gives_the_same_bits),
      cmocka_unit_test(test_bits_do_not_depend_on_batch),
      cmocka_unit_test(test_exact_float_turns_it_off),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
