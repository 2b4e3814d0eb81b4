/* 8-bit convolution kernels. The scalar row is compared with a triple loop over int64 and with the rounding rules written down
 * here a second time; every other row is compared with the scalar row byte by byte, whatever lies around the output included.
 * Inputs end OCT_OVERREAD bytes before a page that must not be touched. OCTET_LONG=1 runs 20,000 random cases instead of a sample;
 * OCTET_CASE=N repeats one.
 * SPDX-License-Identifier: MIT */
#include "conv_i8_checks.h"

enum { QUICK_CASES = 500, LONG_CASES = 20000 };

/* Channel counts around tile widths and steps; spatial sizes around tile heights; about 300,000 products at most. */
static problem choose_problem(uint64_t number) {
  random_seed(number);
  problem p = {.number = number};
  oct_conv_shape *s = &p.shape;
  s->kernel_h = PICK(1, 1, 2, 3, 3, 5, 7), s->kernel_w = chance(80) ? s->kernel_h : PICK(1, 2, 3, 4);
  s->stride_h = PICK(1, 1, 2, 3), s->stride_w = chance(80) ? s->stride_h : PICK(1, 2);
  s->dilation_h = PICK(1, 1, 1, 2, 3), s->dilation_w = chance(80) ? s->dilation_h : PICK(1, 2);
  s->groups = 1;
  int kind = PICK(0, 0, 0, 0, 1, 1, 2, 2);
  s->channels = PICK(1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 32, 64, 65),
  s->out_channels = PICK(1, 2, 8, 10, 15, 16, 17, 24, 31, 32, 33, 40, 47, 48, 49, 63, 64, 65, 80, 127, 129);
  if (kind == 1) {
    s->groups = PICK(2, 3, 4, 4, 8, 17, 32);
    s->channels = s->groups * PICK(1, 2, 3, 4, 4, 5, 8, 8, 16, 24),
    s->out_channels = s->groups * PICK(1, 2, 3, 4, 4, 6, 8, 8, 12, 16, 17, 33);
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
  uint64_t first = one ? strtoull(one, NULL, 10) : 0, last = one ? first + 1 : (uint64_t)repeats(QUICK_CASES, LONG_CASES);
  long checks = 0;
  for (uint64_t i = first; i < last; i++) {
    problem p = choose_problem(i);
    checks += check(&p);
  }
  printf("%ld comparisons\n", checks);
}

/* First layers: few channels, kernel rows that are no multiple of 4 bytes, strides that put pixels at odd and even distances, and rows of
 * pixels around the heights of tiles; padding and gaps as above. */
static problem choose_first_layer(uint64_t number) {
  random_seed(number);
  problem p = {.number = number};
  oct_conv_shape *s = &p.shape;
  s->channels = PICK(1, 1, 2, 3, 3, 3, 4), s->groups = 1, s->batch = PICK(1, 1, 2);
  s->out_channels = PICK(1, 8, 15, 16, 17, 24, 31, 32, 33, 49, 63, 64, 65, 96, 127, 128);
  s->kernel_h = PICK(1, 2, 3, 3, 5, 5, 7, 11), s->kernel_w = chance(70) ? s->kernel_h : PICK(2, 3, 4, 5, 6, 7, 9);
  s->stride_h = PICK(1, 2, 3), s->stride_w = PICK(1, 1, 2, 2, 3, 4, 5);
  s->dilation_h = PICK(1, 1, 1, 2), s->dilation_w = 1;
  choose_input(&p, PICK(1, 1, 2, 3), PICK(1, 2, 5, 6, 7, 8, 9, 13, 14, 15, 16, 17, 18, 28, 29, 33, 40, 41, 47, 49, 56, 113));
  p.fill = chance(70) ? FILL_RANDOM : (int)between(1, FILLS - 1);
  p.in_gap = chance(90) ? 0 : PICK(1, 4, 13), p.out_gap = chance(70) ? 0 : PICK(1, 3, 16);
  choose_epilogue(&p);
  if (chance(50)) p.residual = false, p.epilogue.out = OCT_EPILOGUE_U8, p.epilogue.profile = OCT_PROFILE_ONNX, p.epilogue.table = NULL;
  if (p.epilogue.out == OCT_EPILOGUE_U8) p.epilogue.rows_per_scale = 0;
  if (chance(30)) p.epilogue.zero_point = p.epilogue.low = 0, p.epilogue.high = 255;
  p.small_bias = chance(50);
  p.in_place = p.residual && chance(40);
  return p;
}

/* Few output channels, stride 1 along rows: numbers that fill vectors badly, also when multiplied by the kernel's columns, and rows of
 * pixels around the lengths of strips. */
static problem choose_few_channels(uint64_t number) {
  random_seed(number);
  problem p = {.number = number};
  oct_conv_shape *s = &p.shape;
  s->channels = PICK(1, 4, 5, 8, 16, 31, 32), s->groups = 1, s->batch = PICK(1, 1, 2),
  s->out_channels = PICK(1, 2, 3, 5, 6, 9, 10, 12, 20, 21);
  s->kernel_h = PICK(1, 2, 3, 3, 5), s->kernel_w = PICK(2, 3, 3, 3, 5, 9);
  s->stride_h = PICK(1, 1, 2), s->stride_w = 1, s->dilation_h = PICK(1, 1, 2), s->dilation_w = PICK(1, 1, 1, 2);
  choose_input(&p, PICK(1, 1, 2, 3), PICK(1, 3, 8, 17, 39, 40, 41, 95, 96, 97, 113, 193));
  p.fill = chance(70) ? FILL_RANDOM : (int)between(1, FILLS - 1);
  p.in_gap = chance(70) ? 0 : PICK(1, 4, 13), p.out_gap = chance(70) ? 0 : PICK(1, 3, 16);
  choose_epilogue(&p);
  p.in_place = p.residual && chance(40);
  return p;
}

/* Problems [base, base + QUICK_CASES / 4), or more of them. */
static void check_problems(problem (*choose)(uint64_t number), uint64_t base) {
  const char *one = getenv("OCTET_CASE");
  uint64_t first = one ? strtoull(one, NULL, 10) : base, count = one ? 1 : repeats(QUICK_CASES, LONG_CASES) / 4;
  if (first < base || first >= base + LONG_CASES) return;
  for (uint64_t i = first; i < first + count; i++) {
    problem p = choose(i);
    check(&p);
  }
}

static void test_first_layers(void **state) {
  (void)state;
  check_problems(choose_first_layer, 3000000);
}

static void test_few_channels(void **state) {
  (void)state;
  check_problems(choose_few_channels, 4000000);
}

/* All products at their largest: 255 * 127 and 255 * -128 summed over 4,608 taps, in every output form. */
static void test_extremes(void **state) {
  (void)state;
  static const int fills[] = {FILL_HIGH, FILL_SIGNS, FILL_LOW};
  for (int i = 0; i < 12; i++) {
    problem p = {.number = 1000000 + (uint64_t)i, .fill = fills[i / 4]};
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
    p.epilogue.out = (oct_epilogue_out)(i % 4);
    if (p.epilogue.out != OCT_EPILOGUE_U8) p.epilogue.table = NULL, p.residual = false;
    if (p.epilogue.out == OCT_EPILOGUE_U8 || p.epilogue.out == OCT_EPILOGUE_S32) p.epilogue.rows_per_scale = 0;
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

/* Matrix products: rows, inputs and outputs around the sizes of tiles, blocks and panels. */
static void test_matrices(void **state) {
  (void)state;
  int cases = repeats(200, 4000);
  for (int i = 0; i < cases; i++) {
    problem p = {.number = 3000000 + (uint64_t)i};
    random_seed(p.number);
    oct_conv_shape *s = &p.shape;
    *s = (oct_conv_shape){
        .batch = 1, .kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1, .groups = 1};
    s->channels = PICK(16, 17, 31, 60, 63, 64, 65, 100, 128, 130, 200);
    s->out_channels = PICK(1, 2, 10, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 97);
    int64_t rows = PICK(1, 2, 7, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 127, 128, 129, 200, 290);
    s->in_h = s->out_h = 1, s->in_w = s->out_w = rows;
    p.fill = chance(60) ? FILL_RANDOM : (int)between(1, FILLS - 1);
    p.in_gap = chance(70) ? 0 : PICK(1, 4, 13), p.out_gap = chance(70) ? 0 : PICK(1, 3, 16);
    choose_epilogue(&p);
    p.in_place = p.residual && chance(40);
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

/* Sums at the ends of int32 times multipliers around and beyond 1/2: floats that leave int32 stay at the ends of the range. */
static void check_large_multipliers(oct_conv_shape s) {
  enum { CHANNELS = 64, PIXELS = 2 };
  static const float multipliers[] = {0.5f, 0.50000006f, 0.99999994f, 1.0f, 2.0f, 3e9f};
  uint8_t in[(PIXELS + 4) * 5 * CHANNELS + OCT_OVERREAD] = {0}, out[CHANNELS * PIXELS];
  int8_t weights[CHANNELS * 25] = {0};
  for (const oct_conv_i8_kernel *const *k = oct_conv_i8_kernels; *k; k++) {
    if (((*k)->isa != OCT_ISA_SCALAR && !oct_isa_allowed(oct_isa_detect(), (*k)->isa)) || ((*k)->reject && (*k)->reject(&s)) ||
        (*k)->reject_weights)
      continue;
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
  oct_conv_shape s = {.batch = 1, .in_h = 2, .in_w = 1, .channels = 4, .out_h = 2, .out_w = 1, .out_channels = 64};
  s.groups = s.kernel_h = s.kernel_w = s.stride_h = s.stride_w = s.dilation_h = s.dilation_w = 1;
  check_large_multipliers(s);
  s.channels = s.groups = 64, s.in_h = s.kernel_h = s.kernel_w = 3, s.in_w = 4, s.out_h = 1, s.out_w = 2;
  check_large_multipliers(s);
  s.in_h = s.kernel_h = s.kernel_w = 5, s.in_w = 6;
  check_large_multipliers(s);
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
      cmocka_unit_test(test_known_sum),       cmocka_unit_test(test_rounding),     cmocka_unit_test(test_large_multipliers),
      cmocka_unit_test(test_extremes),        cmocka_unit_test(test_chunks),       cmocka_unit_test(test_selection),
      cmocka_unit_test(test_random_problems), cmocka_unit_test(test_first_layers), cmocka_unit_test(test_few_channels),
      cmocka_unit_test(test_matrices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
