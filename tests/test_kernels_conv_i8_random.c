/* 8-bit convolution kernels on random problems, extremes among them: every row is compared byte by byte with a sum of products and the rounding
 * rules written down a second time (conv_i8_checks.h), whatever lies around the output included. OCTET_LONG=1 compares every row 20,000
 * times; OCTET_CASE=N repeats one problem, OCTET_ROW=TEXT checks the rows whose names contain it. Winograd's rows have a test of their own.
 * SPDX-License-Identifier: MIT */
#include "conv_i8_checks.h"

#include "conv_families.h"

/* ---- Problems ---- */

static problem problem_of(uint64_t number) {
  random_seed(number);
  return (problem){.number = number, .shape = shape_of(1, 1, 1)};
}

/* An output of at most out_h x out_w, smaller (one image first, then fewer pixels) where more than `most` products would be needed. */
static void choose_size(problem *p, int64_t out_h, int64_t out_w, int64_t most) {
  oct_conv_shape *s = &p->shape;
  int64_t per_pixel = s->out_channels * (s->channels / s->groups) * s->kernel_h * s->kernel_w, room = most / per_pixel;
  if (s->batch * out_h * out_w > room) s->batch = 1;
  if (out_h * out_w > room) out_h = room / out_w < 1 ? 1 : room / out_w;
  if (out_w > room) out_w = room < 1 ? 1 : room;
  choose_input(p, out_h, out_w);
}

/* The epilogue that most have in 2 of 5 cases, of bytes or of rounded floats, and biases around the largest sums whose floats are exact. */
static problem often_plain(problem p) {
  static const float has_bias;
  if (chance(60)) return p;
  p.epilogue = (oct_epilogue_i8){.out = OCT_EPILOGUE_U8, .profile = OCT_PROFILE_ONNX, .high = 255};
  p.residual = p.in_place = false;
  if (chance(30)) p.epilogue.out = OCT_EPILOGUE_ROUNDED, p.epilogue.float_bias = &has_bias, p.few_floats = true;
  if (chance(40)) p.most_bias = PICK(1 << 22, 6000000, (1 << 23) - 1, 1 << 23, 9000000, 1 << 24, 1 << 30);
  return p;
}

/* Data, gaps and epilogue. */
static problem completed(problem p) {
  p.fill = chance(60) ? FILL_RANDOM : (int)between(1, FILLS - 1);
  p.in_gap = random_gap(p.shape.channels, 20), p.out_gap = random_gap(p.shape.out_channels, 40);
  choose_epilogue(&p);
  if (chance(20)) p.epilogue.zero_point = p.epilogue.low = 0, p.epilogue.high = 255;
  p.small_bias = chance(50);
  p.in_place = p.residual && chance(40);
  return p;
}

/* Channel counts around tile widths and steps; spatial sizes around tile heights; in one group or several. */
static problem choose_direct(uint64_t number) {
  problem p = problem_of(number);
  oct_conv_shape *s = &p.shape;
  s->kernel_h = PICK(1, 1, 2, 3, 3, 5, 7), s->kernel_w = chance(80) ? s->kernel_h : PICK(1, 2, 3, 4);
  s->stride_h = PICK(1, 1, 2, 3), s->stride_w = chance(80) ? s->stride_h : PICK(1, 2);
  s->dilation_h = PICK(1, 1, 1, 2, 3), s->dilation_w = chance(80) ? s->dilation_h : PICK(1, 2);
  s->channels = PICK(1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 32, 64, 65);
  if (s->kernel_h * s->kernel_w == 1 && chance(30)) s->channels = PICK(96, 144, 240);
  s->out_channels = PICK(1, 2, 8, 10, 15, 16, 17, 24, 31, 32, 33, 40, 47, 48, 49, 63, 64, 65, 80, 127, 129);
  if (chance(25)) {
    s->groups = PICK(2, 3, 4, 4, 8, 17);
    s->channels = s->groups * PICK(1, 2, 3, 4, 5, 8, 16, 24), s->out_channels = s->groups * PICK(1, 2, 3, 4, 6, 8, 12, 16, 17, 33);
  }
  s->batch = PICK(1, 1, 1, 2, 3);
  choose_size(&p, PICK(1, 1, 2, 3, 5, 7, 8, 14), PICK(1, 2, 3, 5, 6, 7, 11, 12, 13, 14, 15, 17, 25, 49, 97), 100000);
  return completed(p);
}

/* First layers: few channels, kernel rows that are no multiple of 4 bytes, strides that put pixels at odd and even distances, and rows of
 * pixels around the heights of tiles. The narrow tile is made for long rows. */
static problem choose_first_layer(uint64_t number) {
  problem p = problem_of(number);
  oct_conv_shape *s = &p.shape;
  s->channels = PICK(1, 1, 2, 3, 3, 3, 4), s->batch = PICK(1, 1, 2);
  s->out_channels = PICK(1, 8, 11, 15, 16, 16, 17, 24, 31, 32, 33, 49, 63, 64, 64, 96, 127, 128);
  s->kernel_h = PICK(1, 2, 3, 3, 5, 5, 7, 11), s->kernel_w = chance(70) ? s->kernel_h : PICK(2, 3, 4, 5, 6, 7, 9);
  s->stride_h = PICK(1, 2, 3), s->stride_w = PICK(1, 1, 2, 2, 3, 4, 5);
  s->dilation_h = PICK(1, 1, 1, 2);
  int64_t out_w = s->out_channels > 16 || chance(20) ? PICK(1, 2, 5, 6, 7, 8, 9, 13, 14, 15, 16, 17, 18, 28, 29, 33, 40)
                                                     : PICK(40, 41, 47, 48, 49, 56, 61, 73);
  choose_size(&p, PICK(1, 1, 2, 3), out_w, 200000);
  p = completed(p);
  if (chance(50)) p.residual = false, p.epilogue.out = OCT_EPILOGUE_U8, p.epilogue.profile = OCT_PROFILE_ONNX, p.epilogue.table = NULL;
  if (p.epilogue.out == OCT_EPILOGUE_U8) p.epilogue.rows_per_scale = 0;
  p.in_place &= p.residual;
  return often_plain(p);
}

/* Few output channels, stride 1 along rows: numbers that fill vectors badly, also when multiplied by the kernel's columns, and rows of
 * pixels around the lengths of strips. */
static problem choose_few_channels(uint64_t number) {
  problem p = problem_of(number);
  oct_conv_shape *s = &p.shape;
  s->channels = PICK(1, 4, 5, 8, 16, 31, 32), s->batch = PICK(1, 1, 2), s->out_channels = PICK(1, 2, 3, 5, 6, 8, 9, 10, 12, 15, 16, 20, 21);
  s->kernel_h = PICK(1, 2, 3, 3, 5), s->kernel_w = PICK(2, 3, 3, 3, 5, 9);
  s->stride_h = PICK(1, 1, 2), s->dilation_h = PICK(1, 1, 2), s->dilation_w = PICK(1, 1, 1, 2);
  choose_size(&p, PICK(1, 1, 2, 3), PICK(1, 3, 8, 9, 10, 11, 15, 16, 17, 26, 31, 32, 33, 39, 40, 41, 95, 96, 97, 113, 193), 300000);
  return often_plain(completed(p));
}

/* Matrix products: rows, inputs and outputs around the sizes of tiles, blocks and panels. */
static problem choose_matrix(uint64_t number) {
  problem p = problem_of(number);
  oct_conv_shape *s = &p.shape;
  s->channels = PICK(16, 17, 31, 60, 63, 64, 65, 100, 128, 130, 200);
  s->out_channels = PICK(1, 2, 10, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 97);
  s->in_h = s->out_h = 1, s->in_w = s->out_w = PICK(1, 16, 17, 18, 31, 32, 33, 47, 48, 49, 63, 64, 65, 127, 128, 129, 145);
  return completed(p);
}

/* Convolutions for tiles: enough products per output, around steps of 64 bytes, and enough pixels. */
static problem choose_tiles(uint64_t number) {
  problem p = problem_of(number);
  oct_conv_shape *s = &p.shape;
  s->kernel_h = PICK(1, 2, 3, 3, 5), s->kernel_w = chance(75) ? s->kernel_h : PICK(1, 2, 3);
  s->channels = s->kernel_h == 1 ? PICK(40, 63, 64, 65, 100) : PICK(3, 12, 15, 16, 20, 21, 22, 32, 43, 64);
  s->out_channels = PICK(1, 8, 15, 16, 17, 31, 32, 33, 40, 64);
  s->stride_h = PICK(1, 1, 2, 3), s->stride_w = chance(80) ? s->stride_h : PICK(1, 2);
  s->dilation_h = PICK(1, 1, 1, 2), s->dilation_w = chance(80) ? s->dilation_h : PICK(1, 2), s->batch = PICK(1, 1, 2, 3);
  choose_size(&p, PICK(2, 3, 4, 5, 9), PICK(5, 7, 8, 14, 15, 16, 17, 20, 31, 33, 40), 500000);
  return completed(p);
}

/* One input channel per group: channels around whole and part vectors, rows of pixels around strips, kernels that have tiles of their own
 * and others; often with the epilogue that most have, of which some sums are large. */
static problem choose_depthwise(uint64_t number) {
  problem p = problem_of(number);
  oct_conv_shape *s = &p.shape;
  bool own = chance(80);
  s->channels = PICK(2, 3, 8, 15, 16, 17, 24, 31, 32, 33, 40, 47, 48, 49, 63, 64, 65, 80, 96, 97, 127, 128, 130, 192, 200);
  bool wide = chance(3); /* more blocks of channels than run together */
  if (wide) s->channels = PICK(449, 512, 513, 575, 577, 640, 1040);
  s->groups = (int)s->channels, s->batch = PICK(1, 1, 1, 2);
  s->out_channels = s->channels * PICK(1, 1, 1, 1, 1, 2, 2, 3);
  s->kernel_h = own ? PICK(3, 3, 5) : PICK(1, 2, 3, 4, 7), s->kernel_w = own ? s->kernel_h : PICK(1, 2, 3, 5, 7);
  s->stride_h = own ? PICK(1, 1, 2) : PICK(1, 2, 3), s->stride_w = own ? s->stride_h : PICK(1, 2, 3);
  s->dilation_h = own ? 1 : PICK(1, 1, 2, 3), s->dilation_w = own ? 1 : PICK(1, 1, 2);
  bool broad = chance(5); /* rows that are run for several blocks of channels in turn */
  if (broad) choose_size(&p, PICK(2, 3, 4), PICK(65, 66, 67), 500000);
  else choose_size(&p, PICK(1, 1, 2, 3, 4, 5, 7, 8), PICK(1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 15, 16, 17, 23, 28, 31, 33), 60000);
  return often_plain(completed(p));
}

/* Groups of several channels, narrower than a vector: widths that divide vectors and such that do not. */
static problem choose_groups(uint64_t number) {
  problem p = problem_of(number);
  oct_conv_shape *s = &p.shape;
  s->groups = PICK(2, 3, 4, 5, 8, 12, 16, 17, 32);
  s->channels = s->groups * PICK(2, 2, 3, 4, 4, 4, 5, 8, 8, 12, 16), s->out_channels = s->groups * PICK(1, 2, 3, 4, 4, 5, 6, 8, 8, 10, 12);
  s->kernel_h = PICK(1, 2, 3, 3, 5), s->kernel_w = chance(75) ? s->kernel_h : PICK(1, 2, 3);
  s->stride_h = PICK(1, 1, 2), s->stride_w = chance(80) ? s->stride_h : PICK(1, 2, 3);
  s->dilation_h = PICK(1, 1, 2), s->dilation_w = PICK(1, 1, 2), s->batch = PICK(1, 1, 2);
  choose_size(&p, PICK(1, 1, 2, 3, 5), PICK(1, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 23), 60000);
  return completed(p);
}

/* 1x1 of few channels, several rows: panels of 64, 32 and 16 output channels with rests, pixels around tiles. */
static problem choose_pointwise(uint64_t number) {
  problem p = problem_of(number);
  oct_conv_shape *s = &p.shape;
  s->channels = PICK(1, 2, 3, 4, 5, 8, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 96, 127, 128, 141, 144, 240);
  s->out_channels = PICK(16, 16, 17, 24, 31, 32, 33, 40, 47, 48, 49, 63, 64, 65, 80, 96, 97, 112, 127, 128, 129, 144);
  s->stride_h = PICK(1, 1, 1, 2), s->stride_w = chance(80) ? s->stride_h : PICK(1, 2, 3), s->batch = PICK(1, 1, 2);
  bool large = chance(3); /* more pixels than pass through the panels together */
  if (large) choose_size(&p, PICK(17, 23), PICK(28, 33, 47), 5000000);
  else choose_size(&p, PICK(2, 2, 3, 4, 5), PICK(1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 19, 28, 33), 100000);
  return often_plain(completed(p));
}

/* ---- Tests ---- */

enum { DIRECT, FIRST, FEW, MATRIX, TILES, DEPTHWISE, GROUPS, POINTWISE };

static const family families[] = {
    [DIRECT] = {0, choose_direct, takes_part, {"direct__", "direct_1", "direct_3x", "direct_6x", "direct_8x"}},
    [FIRST] = {10000000, choose_first_layer, takes_part, {"_first_"}},
    [FEW] = {20000000, choose_few_channels, takes_part, {"_few_", "_rows_"}},
    [MATRIX] = {30000000, choose_matrix, takes_part, {"_matrix_"}},
    [TILES] = {40000000, choose_tiles, takes_part, {"direct_32x32__amx"}},
    [DEPTHWISE] = {50000000, choose_depthwise, takes_part, {"_depthwise_"}},
    [GROUPS] = {60000000, choose_groups, takes_part, {"_groups_"}},
    [POINTWISE] = {70000000, choose_pointwise, takes_part, {"_pointwise_"}},
};

#define TEST(name, which)                 \
  static void test_##name(void **state) { \
    (void)state;                          \
    check_family(&families[which]);       \
  }
TEST(direct, DIRECT)
TEST(first_layers, FIRST)
TEST(few_channels, FEW)
TEST(matrices, MATRIX)
TEST(tiles, TILES)
TEST(depthwise, DEPTHWISE)
TEST(groups, GROUPS)
TEST(pointwise, POINTWISE)

static bool always(const conv_row *row) { return !row->reject_weights; }

static void test_all_rows_were_compared(void **state) {
  (void)state;
  check_all_rows(always);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_direct),   cmocka_unit_test(test_first_layers), cmocka_unit_test(test_few_channels),
      cmocka_unit_test(test_matrices), cmocka_unit_test(test_tiles),        cmocka_unit_test(test_depthwise),
      cmocka_unit_test(test_groups),   cmocka_unit_test(test_pointwise),    cmocka_unit_test(test_all_rows_were_compared),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
