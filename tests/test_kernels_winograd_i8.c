/* Exact Winograd convolution of 8-bit values: every row against the int64 reference, byte by byte, on all tile mixes, epilogues and
 * channel tails; both sides of the bound 2^25; and the choice that follows from it. OCTET_LONG=1 compares every row with 20,000 random
 * problems instead of a sample; OCTET_CASE=N repeats one.
 * SPDX-License-Identifier: MIT */
#include "conv_i8_checks.h"

#include "conv_families.h"
#include "kernels/conv_i8_winograd.h"

enum { BOUND = 1 << 25 };

static bool is_winograd(const conv_row *k) { return strstr(k->name, "winograd") != NULL; }

/* Rows that can run the problem, whether or not they would be chosen for it. */
static bool able(const conv_row *k, const problem *p, const data *d) {
  return is_winograd(k) && !oct_winograd_reject(&p->shape) && !k->reject_weights(&p->shape, d->weights, d->args.epilogue.bias);
}

/* Sizes that are sums of 4 and 3 and some that are not, channels around vectors and panels; about a million products, or a few. */
static problem choose_problem(uint64_t number) {
  random_seed(number);
  problem p = {.number = number, .small_bias = true};
  p.shape = shape_of(PICK(1, 2, 3, 4, 7, 8, 13, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 130),
                     PICK(1, 2, 8, 10, 15, 16, 17, 24, 31, 32, 33, 40, 47, 48, 49, 63, 64, 65, 80, 112, 127, 128, 129, 200), 3);
  p.shape.batch = PICK(1, 1, 1, 2, 3, 9);
  int64_t room = (chance(10) ? 4000000 : 1000000) / (9 * p.shape.batch * p.shape.channels * p.shape.out_channels);
  int64_t out_h = PICK(3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 23), out_w = PICK(3, 4, 6, 7, 8, 9, 10, 11, 13, 14, 19, 29);
  if (out_h * out_w > room) p.shape.batch = 1;
  if (out_h * out_w > room) out_w = PICK(3, 4, 6, 7);
  if (out_h * out_w > room) out_h = PICK(3, 4, 7);
  choose_input(&p, out_h, out_w);
  p.fill = chance(60) ? FILL_RANDOM : (int)between(1, FILLS - 1);
  p.in_gap = random_gap(p.shape.channels, 15), p.out_gap = random_gap(p.shape.out_channels, 40);
  choose_epilogue(&p);
  p.in_place = p.residual && chance(40);
  return p;
}

static void test_random_problems(void **state) {
  (void)state;
  static const family winograd = {0, choose_problem, able, {"winograd"}};
  check_family(&winograd);
  check_all_rows(is_winograd);
}

/* The largest products that the bound allows whatever the zero point: 64 channels of +-127 and -128 against 0 and 255, all output forms. */
static void test_extremes(void **state) {
  (void)state;
  static const int fills[] = {FILL_HIGH, FILL_SIGNS, FILL_LOW};
  for (int i = 0; i < 18; i++) {
    problem p = {.number = 1000000 + (uint64_t)i, .fill = fills[i / 6], .small_bias = true};
    random_seed(p.number);
    p.shape = shape_of(64, 70, 3);
    choose_input(&p, i % 2 ? 7 : 8, i % 2 ? 4 : 6);
    choose_epilogue(&p);
    p.epilogue.out = (oct_epilogue_out)(i % 3);
    if (p.epilogue.out == OCT_EPILOGUE_U8 || p.epilogue.out == OCT_EPILOGUE_S32) p.epilogue.rows_per_scale = 0;
    if (p.epilogue.out != OCT_EPILOGUE_U8) p.epilogue.table = NULL, p.residual = false;
    check_rows(&p, able, 0);
  }
}

/* More tiles than one block has, more channels than one panel has, several images: as a real layer. */
static void test_blocks(void **state) {
  (void)state;
  static const int sizes[][3] = {{31, 34, 2}, {14, 14, 5}, {7, 7, 11}};
  for (int i = 0; i < 3; i++) {
    problem p = {.number = 2000000 + (uint64_t)i, .small_bias = true};
    random_seed(p.number);
    p.shape = shape_of(40, 72, 3);
    p.shape.batch = sizes[i][2];
    choose_input(&p, sizes[i][0], sizes[i][1]);
    choose_epilogue(&p);
    check_rows(&p, able, 0);
  }
}

/* Tiles in a row share columns, and multiples of 64 channels are transformed as pairs; neither where channels are too many to be kept. */
static void test_rows_of_tiles(void **state) {
  (void)state;
  static const int shapes[][5] = {{64, 64, 8, 20, 1},  {64, 72, 7, 27, 2},  {128, 64, 11, 14, 1}, {192, 16, 4, 12, 1},
                                  {256, 32, 6, 11, 1}, {320, 33, 4, 12, 1}, {512, 16, 3, 12, 1},  {576, 32, 7, 12, 1},
                                  {576, 16, 3, 9, 1},  {560, 16, 4, 12, 1}, {96, 64, 4, 40, 1},   {65, 64, 8, 12, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    problem p = {.number = 3000000 + (uint64_t)i, .small_bias = true, .most_weight = 40};
    random_seed(p.number);
    p.shape = shape_of(shapes[i][0], shapes[i][1], 3);
    p.shape.batch = shapes[i][4];
    choose_input(&p, shapes[i][2], shapes[i][3]);
    choose_epilogue(&p);
    assert_true(check_rows(&p, able, 0) != 0);
  }
}

/* Profile tflite: powers of two, for which many sums lie on a half, of both signs; the largest that is shifted by two bits, and one that is
 * not; the smallest that counts, and smaller ones. */
static void test_fixed_point(void **state) {
  (void)state;
  static const float multipliers[] = {0x1p-10f, 0x1p-12f, 0x1.8p-12f,     0x1.fffffep-3f,  0x1p-3f,   0x1.000002p-11f, 0x1p-11f, 0x1p-32f,
                                      0x1p-33f, 0,        0x1.fffffep-9f, 0x1.555556p-10f, 0x1p-130f, 0x1p-20f,        0x1p-2f};
  const int count = (int)(sizeof multipliers / sizeof *multipliers);
  for (int i = 0; i < 12; i++) {
    problem p = {.number = 4000000 + (uint64_t)i, .small_bias = true, .multipliers = multipliers};
    p.multiplier_count = i % 3 == 2 ? count : count - 1;
    random_seed(p.number);
    p.shape = shape_of(i % 2 ? 2 : 64, i % 4 < 2 ? 64 : 131, 3);
    p.most_weight = i % 2 ? 0 : 3;
    p.shape.batch = 6;
    choose_input(&p, 13, 14);
    p.epilogue =
        (oct_epilogue_i8){.out = OCT_EPILOGUE_U8, .profile = OCT_PROFILE_TFLITE, .zero_point = i < 6 ? 128 : 0, .high = i < 9 ? 255 : 200};
    check_rows(&p, able, 0);
  }
}

/* Runs one row on an image of equal bytes and equal weights, without padding; returns the first output, and checks that all others are
 * `others`. */
static int32_t run_flat(const oct_conv_i8_kernel *k, int64_t size, int64_t channels, uint8_t byte, int8_t weight, int32_t bias_value,
                        int64_t others) {
  enum { MOST = 4 };
  const int64_t in_size = size + 2;
  oct_conv_i8_args a = {.shape = shape_of(channels, 1, 3)};
  a.shape.in_h = a.shape.in_w = in_size, a.shape.out_h = a.shape.out_w = size;
  size_t in_bytes = (size_t)(in_size * in_size * channels);
  uint8_t *in = aligned(in_bytes + OCT_OVERREAD);
  int8_t *weights = aligned((size_t)channels * 9);
  int32_t bias[64] = {bias_value}, out[MOST * MOST];
  memset(in, byte, in_bytes + OCT_OVERREAD);
  memset(weights, weight, (size_t)channels * 9);
  void *packed = aligned(k->packed_bytes(&a.shape)), *workspace = aligned(k->workspace_bytes ? k->workspace_bytes(&a.shape) : 0);
  k->pack(&a.shape, weights, packed);
  a.in = (oct_view){in, in_size * in_size * channels, in_size * channels, channels};
  a.out = (oct_view){out, size * size, size, 1};
  a.packed = packed;
  a.epilogue = (oct_epilogue_i8){.out = OCT_EPILOGUE_S32, .bias = bias};
  k->run(&a, 0, k->units(&a.shape), workspace);
  for (int64_t i = 1; i < size * size; i++) assert_int_equal(out[i], others);
  free(in), free(weights), free(packed), free(workspace);
  return out[0];
}

typedef struct bound_case {
  int channels, byte, weight, bias;
  int64_t total;
} bound_case;

/* One below the bound: by hand, 9 * 115 * 255 * 127 = 33518475, 9 * 114 * 255 * 128 = 33488640, 2^25 = 33554432. */
static const bound_case inside[] = {
    {115, 255, 127, 35956, BOUND - 1},
    {115, 255, -127, -35956, 1 - BOUND},
    {114, 255, -128, -65791, 1 - BOUND},
    {1, 255, 127, BOUND - 1 - 291465, BOUND - 1},
};

static void test_bound(void **state) {
  (void)state;
  for (const oct_conv_i8_kernel *const *k = oct_conv_i8_kernels; *k; k++) {
    if (!is_winograd(*k) || !isa_here((*k)->isa)) continue;
    assert_non_null((*k)->reject_weights);
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
      const bound_case *c = &inside[i];
      oct_conv_shape s = shape_of(c->channels, 1, 3);
      s.out_h = s.out_w = 3;
      int8_t weights[115 * 9];
      memset(weights, c->weight, sizeof weights);
      int32_t bias[64] = {c->bias};
      assert_null((*k)->reject_weights(&s, weights, bias));
      for (int size = 3; size <= 4; size++)
        assert_int_equal(run_flat(*k, size, c->channels, (uint8_t)c->byte, (int8_t)c->weight, c->bias, c->total), c->total);
      bias[0] += c->bias < 0 ? -1 : 1;
      assert_non_null(strstr((*k)->reject_weights(&s, weights, bias), "33554432"));
      /* and the bound is no caution: at 2^25 the first output of a tile of 4x4 loses its sign */
      if (c->bias > 0) assert_int_equal(run_flat(*k, 4, c->channels, (uint8_t)c->byte, (int8_t)c->weight, bias[0], BOUND), -BOUND);
    }
  }
}

/* Signs cancel: the sums of positive and of negative weights count, not the sum of magnitudes. */
static void test_bound_signs(void **state) {
  (void)state;
  enum { CHANNELS = 230 };
  static int8_t weights[CHANNELS * 9];
  oct_conv_shape s = shape_of(CHANNELS, 1, 3);
  s.out_h = s.out_w = 3;
  for (const oct_conv_i8_kernel *const *k = oct_conv_i8_kernels; *k; k++) {
    if (!is_winograd(*k)) continue;
    for (int i = 0; i < CHANNELS * 9; i++) weights[i] = i % 2 ? 127 : -127;
    assert_null((*k)->reject_weights(&s, weights, NULL));
    for (int i = 0; i < CHANNELS * 9; i++) weights[i] = i % 4 ? 127 : -127;
    assert_non_null((*k)->reject_weights(&s, weights, NULL));
  }
}

/* Copies, and the sum of the neighbourhood: values that need no reference. */
static void test_known_kernels(void **state) {
  (void)state;
  enum { SIZE = 9, OUT = 7 };
  uint8_t in[SIZE * SIZE + OCT_OVERREAD];
  for (size_t i = 0; i < sizeof in; i++) in[i] = (uint8_t)(i * 37);
  for (const oct_conv_i8_kernel *const *k = oct_conv_i8_kernels; *k; k++) {
    oct_conv_i8_args a = {.shape = shape_of(1, 2, 3), .epilogue = {.out = OCT_EPILOGUE_S32}};
    a.shape.in_h = a.shape.in_w = SIZE, a.shape.out_h = a.shape.out_w = OUT;
    if (!is_winograd(*k) || !isa_here((*k)->isa)) continue;
    static const int8_t weights[18] = {0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    int32_t out[OUT * OUT * 2];
    void *packed = aligned((*k)->packed_bytes(&a.shape)), *workspace = aligned((*k)->workspace_bytes(&a.shape));
    (*k)->pack(&a.shape, weights, packed);
    a.in = (oct_view){in, SIZE * SIZE, SIZE, 1};
    a.out = (oct_view){out, OUT * OUT * 2, OUT * 2, 2};
    a.packed = packed;
    (*k)->run(&a, 0, (*k)->units(&a.shape), workspace);
    for (int y = 0; y < OUT; y++)
      for (int x = 0; x < OUT; x++) {
        int sum = 0;
        for (int i = 0; i < 9; i++) sum += in[(y + i / 3) * SIZE + x + i % 3];
        assert_int_equal(out[(y * OUT + x) * 2], in[(y + 1) * SIZE + x + 1]);
        assert_int_equal(out[(y * OUT + x) * 2 + 1], sum);
      }
    free(packed), free(workspace);
  }
}

/* ResNet18's second stage: chosen when the weights allow it, else passed over for direct convolution, with the bound in the reason. With tiles
 * (AMX) direct convolution is faster. */
static void test_selection(void **state) {
  (void)state;
  oct_conv_shape s = shape_of(128, 128, 3);
  s.in_h = s.in_w = s.out_h = s.out_w = 28, s.pad_top = s.pad_left = 1;
  size_t count = 128 * 128 * 9;
  int8_t *weights = aligned(count);
  memset(weights, 3, count);
  char reasons[4096];
  for (int isa = OCT_ISA_AVX2; isa < OCT_ISA_AMX; isa++) {
    uint32_t mask = ((2u << isa) - 1) & oct_isa_detect();
    if (!oct_isa_allowed(mask, (oct_isa)isa)) continue;
    weights[0] = 3;
    const oct_conv_i8_kernel *k = oct_conv_i8_select_for(mask, &s, weights, NULL, reasons, sizeof reasons);
    assert_true(is_winograd(k));
    memset(weights, 127, 128 * 9);
    k = oct_conv_i8_select_for(mask, &s, weights, NULL, reasons, sizeof reasons);
    assert_false(is_winograd(k));
    assert_non_null(strstr(reasons, "33554432"));
    k = oct_conv_i8_select(mask, &s, reasons, sizeof reasons);
    assert_false(is_winograd(k));
    memset(weights, 3, 128 * 9);
    s.stride_h = s.stride_w = 2, s.out_h = s.out_w = 14;
    assert_false(is_winograd(oct_conv_i8_select_for(mask, &s, weights, NULL, reasons, sizeof reasons)));
    s.stride_h = s.stride_w = 1, s.out_h = s.out_w = 28;
  }
  free(weights);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_known_kernels), cmocka_unit_test(test_bound),           cmocka_unit_test(test_bound_signs),
      cmocka_unit_test(test_extremes),      cmocka_unit_test(test_blocks),          cmocka_unit_test(test_rows_of_tiles),
      cmocka_unit_test(test_fixed_point),   cmocka_unit_test(test_random_problems), cmocka_unit_test(test_selection),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
