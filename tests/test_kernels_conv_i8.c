/* 8-bit convolution kernels on chosen problems: sums known by hand, roundings, extremes, large problems; and how one is selected. Random
 * problems are in test_kernels_conv_i8_random.c.
 * SPDX-License-Identifier: MIT */
#include "conv_i8_checks.h"

/* All products at their largest: 255 * 127 and 255 * -128 summed over 4,608 taps, in every output form. */
static void test_extremes(void **state) {
  (void)state;
  static const int fills[] = {FILL_HIGH, FILL_SIGNS, FILL_LOW};
  for (int i = 0; i < 12; i++) {
    problem p = {.number = 1000000 + (uint64_t)i, .fill = fills[i / 4]};
    random_seed(p.number);
    p.shape = sized_shape(shape_of(512, 20, 3), 3, 4, 1, 2);
    choose_epilogue(&p);
    p.epilogue.out = (oct_epilogue_out)(i % 4);
    if (p.epilogue.out != OCT_EPILOGUE_U8) p.epilogue.table = NULL, p.residual = false;
    if (p.epilogue.out == OCT_EPILOGUE_U8 || p.epilogue.out == OCT_EPILOGUE_S32) p.epilogue.rows_per_scale = 0;
    check(&p);
  }
}

/* Enough pixels, and few enough weights, for a convolution to be run in several chunks of pixels. */
static void test_chunks(void **state) {
  (void)state;
  static const int problems[][6] = {{64, 80, 1, 3, 25, 31}, {64, 40, 1, 3, 25, 31}, {64, 20, 1, 3, 25, 31}, {96, 8, 3, 1, 50, 90}};
  for (int i = 0; i < 4; i++) { /* channels, output channels, kernel, stride, output height and width */
    const int *n = problems[i];
    problem p = {.number = 2000000 + (uint64_t)i, .shape = shape_of(n[0], n[1], n[2])};
    random_seed(p.number);
    p.shape.batch = 2, p.shape.stride_h = p.shape.stride_w = n[3];
    choose_input(&p, n[4], n[5]);
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
    oct_conv_i8_args a = {.shape = sized_shape(shape_of(1, WIDE, 3), 3, 3, 1, 1)};
    if (!isa_here((*k)->isa)) continue;
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
    oct_conv_i8_args a = {.shape = sized_shape(shape_of(1, 1, 1), 1, 5, 1, 5)};
    if (!isa_here((*k)->isa) || ((*k)->reject && (*k)->reject(&a.shape))) continue;
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

/* Sums at the ends of int32 times multipliers around and beyond 1/2: floats that leave int32 stay at the ends of the range. */
static void check_large_multipliers(oct_conv_shape s) {
  enum { CHANNELS = 64, PIXELS = 2 };
  static const float multipliers[] = {0.5f, 0.50000006f, 0.99999994f, 1.0f, 2.0f, 3e9f};
  uint8_t in[(PIXELS + 4) * 5 * CHANNELS + OCT_OVERREAD] = {0}, out[CHANNELS * PIXELS];
  int8_t weights[CHANNELS * 25] = {0};
  for (const oct_conv_i8_kernel *const *k = oct_conv_i8_kernels; *k; k++) {
    if (!isa_here((*k)->isa) || ((*k)->reject && (*k)->reject(&s)) || (*k)->reject_weights) continue;
    void *packed = aligned((*k)->packed_bytes(&s)), *workspace = (*k)->workspace_bytes ? aligned((*k)->workspace_bytes(&s)) : NULL;
    (*k)->pack(&s, weights, packed);
    for (size_t m = 0; m < sizeof multipliers / sizeof *multipliers; m++) {
      int32_t bias[CHANNELS];
      float multiplier[CHANNELS];
      for (int c = 0; c < CHANNELS; c++) bias[c] = c % 2 ? INT32_MAX : INT32_MIN, multiplier[c] = multipliers[m];
      oct_conv_i8_args a = {.shape = s, .packed = packed};
      a.in = (oct_view){in, sizeof in, (PIXELS + 4) * s.channels, s.channels};
      a.out = (oct_view){out, sizeof out, sizeof out / (size_t)s.out_h, CHANNELS};
      a.epilogue = (oct_epilogue_i8){.out = OCT_EPILOGUE_U8, .bias = bias, .multiplier = multiplier, .low = 0, .high = 255};
      (*k)->run(&a, 0, (*k)->units(&s), workspace);
      for (int i = 0; i < CHANNELS * PIXELS; i++) assert_int_equal(out[i], i % 2 ? 255 : 0);
    }
    free(packed);
    free(workspace);
  }
}

static void test_large_multipliers(void **state) {
  (void)state;
  oct_conv_shape s = sized_shape(shape_of(4, 64, 1), 2, 1, 2, 1);
  check_large_multipliers(s);
  s.channels = s.groups = 64, s.in_h = s.kernel_h = s.kernel_w = 3, s.in_w = 4, s.out_h = 1, s.out_w = 2;
  check_large_multipliers(s);
  s.in_h = s.kernel_h = s.kernel_w = 5, s.in_w = 6;
  check_large_multipliers(s);
}

static void test_selection(void **state) {
  (void)state;
  oct_conv_shape s = sized_shape(shape_of(64, 64, 1), 8, 8, 8, 8);
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
      cmocka_unit_test(test_known_sum), cmocka_unit_test(test_rounding), cmocka_unit_test(test_large_multipliers),
      cmocka_unit_test(test_extremes),  cmocka_unit_test(test_chunks),   cmocka_unit_test(test_selection),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
