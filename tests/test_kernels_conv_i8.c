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
