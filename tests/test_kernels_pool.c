/* Pooling kernels. ONNX's examples, then random windows: the scalar row against the definitions, every other row against the scalar
 * row byte by byte, whatever lies around the output included. Inputs end OCT_OVERREAD bytes before a page that must not be touched.
 * OCTET_LONG=1 compares every function of every row 20,000 times; OCTET_CASE=N repeats one random case.
 * SPDX-License-Identifier: MIT */
#include "kernel_checks.h"

/* One square image, a square kernel with stride 1, and the same padding on all sides. */
static oct_pool_args square_pool(const void *x, void *y, int size, int channels, int kernel, int pad) {
  int out = size + 2 * pad - kernel + 1;
  oct_pool_args a = {.pad_bottom = pad, .pad_right = pad, .multiplier = 1, .high = 255};
  a.shape.batch = a.shape.stride_h = a.shape.stride_w = a.shape.dilation_h = a.shape.dilation_w = 1;
  a.shape.in_h = a.shape.in_w = size, a.shape.out_h = a.shape.out_w = out;
  a.shape.channels = a.shape.out_channels = a.shape.groups = channels;
  a.shape.kernel_h = a.shape.kernel_w = kernel, a.shape.pad_top = a.shape.pad_left = pad;
  a.in = (oct_view){(void *)(uintptr_t)x, size * size * channels, size * channels, channels};
  a.out = (oct_view){y, out * out * channels, out * channels, channels};
  return a;
}

static void test_onnx_pools(void **state) {
  (void)state;
  static const float average[25] = {7,     7.5f, 8,     8.5f, 9,     9.5f, 10,    10.5f, 11,    11.5f, 12,    12.5f, 13,
                                    13.5f, 14,   14.5f, 15,   15.5f, 16,   16.5f, 17,    17.5f, 18,    18.5f, 19};
  static const float padded[25] = {2.5200f,  3.6000f, 4.8000f, 4.0800f, 3.2400f,  4.5600f, 6.4000f, 8.4000f, 7.0400f,
                                   5.5200f,  7.2000f, 10,      13,      10.8000f, 8.4000f, 6.9600f, 9.6000f, 12.4000f,
                                   10.2400f, 7.9200f, 6.1200f, 8.4000f, 10.8000f, 8.8800f, 6.8400f};
  static const float max[25] = {13, 14, 15, 15, 15, 18, 19, 20, 20, 20, 23, 24, 25, 25, 25, 23, 24, 25, 25, 25, 23, 24, 25, 25, 25};
  float x[25 + OCT_OVERREAD / 4] = {0}, y[25];
  for (int i = 0; i < 25; i++) x[i] = (float)(i + 1);
  const oct_vector_kernels *rows[MAX_ROWS];
  for (size_t k = vector_rows_here(rows); k-- > 0;) {
    oct_pool_args a = square_pool(x, y, 5, 1, 5, 2);
    rows[k]->average_pool_f32(&a, 0, 5);
    assert_memory_equal(y, average, sizeof y);
    rows[k]->max_pool_f32(&a, 0, 5);
    assert_memory_equal(y, max, sizeof y);
    a.include_pad = true;
    rows[k]->average_pool_f32(&a, 0, 5);
    for (int i = 0; i < 25; i++) assert_true(fabsf(y[i] - padded[i]) < 1e-6f * padded[i]);
  }
}

/* Zero points -128 and 37 of a signed tensor (128 added here): padding is the real number 0, not the byte 0. */
static void test_average_u8_padding(void **state) {
  (void)state;
  static const int zero_points[] = {0, 165};
  const oct_vector_kernels *rows[MAX_ROWS];
  for (size_t k = vector_rows_here(rows); k-- > 0;)
    for (int z = 0; z < 2; z++) {
      uint8_t x[4 + OCT_OVERREAD], y[4] = {0};
      for (int i = 0; i < 4; i++) x[i] = (uint8_t)(zero_points[z] + 40); /* real 40 everywhere */
      oct_pool_args a = square_pool(x, y, 2, 1, 2, 1);
      a.pad_bottom = a.pad_right = 0, a.shape.out_h = a.shape.out_w = 2, a.out.row = 2;
      a.in_zero_point = zero_points[z], a.out_zero_point = 10;
      rows[k]->average_pool_u8(&a, 0, 2);
      for (int i = 0; i < 4; i++) assert_int_equal(y[i], 50);
      a.include_pad = true;
      rows[k]->average_pool_u8(&a, 0, 2);
      static const uint8_t want[4] = {10 + 10, 10 + 20, 10 + 20, 10 + 40};
      assert_memory_equal(y, want, 4);
    }
}

typedef struct pool_case {
  uint64_t number;
  oct_pool_args args;
  int in_gap, out_gap;
} pool_case;

static pool_case random_pool(uint64_t number) {
  random_seed(number);
  pool_case p = {.number = number, .in_gap = chance(30) ? PICK(1, 5, 16) : 0, .out_gap = chance(50) ? PICK(1, 7, 64) : 0};
  oct_conv_shape *s = &p.args.shape;
  *s = (oct_conv_shape){.batch = between(1, 2),
                        .channels = PICK(1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 100, 130, 257, 300)};
  s->kernel_h = PICK(1, 2, 2, 3, 3, 5, 7), s->kernel_w = PICK(1, 2, 2, 3, 3, 5, 7);
  s->stride_h = PICK(1, 2, 2, 3), s->stride_w = PICK(1, 2, 2, 3), s->dilation_h = PICK(1, 1, 1, 2, 3), s->dilation_w = PICK(1, 1, 1, 2, 3);
  s->pad_top = (int)between(0, s->kernel_h - 1), s->pad_left = (int)between(0, s->kernel_w - 1);
  s->in_h = between(1, 9), s->in_w = between(1, 9);
  p.args.pad_bottom = (int)between(0, 3), p.args.pad_right = (int)between(0, 3);
  bool global = chance(20);
  if (global)
    s->kernel_h = (int)s->in_h, s->kernel_w = (int)s->in_w, s->pad_top = s->pad_left = p.args.pad_bottom = p.args.pad_right = 0,
    s->dilation_h = s->dilation_w = 1;
  int64_t reach_h = s->in_h + s->pad_top + p.args.pad_bottom - (s->kernel_h - 1) * s->dilation_h - 1;
  int64_t reach_w = s->in_w + s->pad_left + p.args.pad_right - (s->kernel_w - 1) * s->dilation_w - 1;
  bool ceil_mode = chance(30);
  s->out_h = (reach_h < 0 ? 0 : reach_h / s->stride_h) + 1 + ceil_mode,
  s->out_w = (reach_w < 0 ? 0 : reach_w / s->stride_w) + 1 + ceil_mode;
  s->out_channels = s->channels, s->groups = (int)s->channels;
  p.args.include_pad = chance(50);
  p.args.multiplier = (float)between(1, 4000) / 1000.0f;
  p.args.in_zero_point = (int32_t)between(0, 255), p.args.out_zero_point = (int32_t)between(0, 255);
  p.args.low = (int32_t)between(0, 100), p.args.high = (int32_t)between(p.args.low, 255);
  return p;
}

/* Average and maximum of one window by their definitions, tap by tap. */
static void pool_definition(const oct_pool_args *a, bool is_f32, int64_t n, int64_t y, int64_t x, int64_t c, double *sum, double *max,
                            int *inside, int *counted) {
  const oct_conv_shape *s = &a->shape;
  *sum = 0, *max = -INFINITY, *inside = *counted = 0;
  for (int i = 0; i < s->kernel_h; i++)
    for (int j = 0; j < s->kernel_w; j++) {
      int64_t in_y = y * s->stride_h - s->pad_top + i * s->dilation_h, in_x = x * s->stride_w - s->pad_left + j * s->dilation_w;
      if (in_y < s->in_h + a->pad_bottom && in_x < s->in_w + a->pad_right) ++*counted;
      if (in_y < 0 || in_y >= s->in_h || in_x < 0 || in_x >= s->in_w) continue;
      const char *at = (const char *)oct_view_at(&a->in, is_f32 ? 4 : 1, n, in_y, in_x);
      double v = is_f32 ? ((const float *)(const void *)at)[c] : ((const uint8_t *)at)[c] - a->in_zero_point;
      *sum += v, ++*inside;
      if (v > *max) *max = v;
    }
}

static void check_pool_definition(const oct_pool_args *a, const void *out, bool is_f32, bool average) {
  const oct_conv_shape *s = &a->shape;
  for (int64_t n = 0; n < s->batch; n++)
    for (int64_t y = 0; y < s->out_h; y++)
      for (int64_t x = 0; x < s->out_w; x++)
        for (int64_t c = 0; c < s->channels; c++) {
          double sum, max;
          int inside, counted;
          pool_definition(a, is_f32, n, y, x, c, &sum, &max, &inside, &counted);
          if (!inside) continue;
          oct_view view = a->out;
          view.data = (void *)(uintptr_t)out;
          const char *at = (const char *)oct_view_at(&view, is_f32 ? 4 : 1, n, y, x);
          double got = is_f32 ? ((const float *)(const void *)at)[c] : ((const uint8_t *)at)[c],
                 mean = sum / (a->include_pad ? counted : inside);
          if (is_f32 && !average) assert_true(got == max);
          if (is_f32 && average) assert_true(fabs(got - mean) <= 1e-4);
          if (!is_f32 && !average) assert_int_equal((int)got, (int)max + a->in_zero_point);
          double q = mean * a->multiplier + a->out_zero_point;
          q = q < a->low ? a->low : q > a->high ? a->high : q;
          if (!is_f32 && average) assert_true(fabs(got - q) < 0.501);
        }
}

typedef void (*pool_fn)(const oct_pool_args *args, size_t begin, size_t end);

static pool_fn pool_of(const oct_vector_kernels *row, bool is_f32, bool average) {
  return is_f32 ? (average ? row->average_pool_f32 : row->max_pool_f32) : average ? row->average_pool_u8 : row->max_pool_u8;
}

static const char *const pool_names[4] = {"max_pool_u8", "max_pool_f32", "average_pool_u8", "average_pool_f32"};

static void check_pool(const pool_case *p, bool is_f32, bool average, const oct_vector_kernels **rows, size_t count) {
  oct_pool_args a = p->args;
  const oct_conv_shape *s = &a.shape;
  size_t size = is_f32 ? 4 : 1;
  ptrdiff_t in_pixel = s->channels + p->in_gap, out_pixel = s->channels + p->out_gap, out_image = (s->out_h * s->out_w + 1) * out_pixel;
  size_t in_count = (size_t)(s->batch * s->in_h * s->in_w * in_pixel - p->in_gap),
         out_bytes = size * (size_t)(out_image * s->batch + out_pixel);
  guarded in = guarded_create(in_count * size, OCT_OVERREAD);
  for (size_t i = 0; i < in_count; i++) {
    float x = (float)between(-100000, 100000) / 1024.0f;
    if (is_f32) memcpy(in.data + 4 * i, &x, 4);
    if (!is_f32) in.data[i] = (uint8_t)random_u32();
  }
  a.in = (oct_view){in.data, s->in_h * s->in_w * in_pixel, s->in_w * in_pixel, in_pixel};
  uint8_t *outs[2] = {malloc(out_bytes), malloc(out_bytes)};
  size_t units = (size_t)(s->batch * s->out_h);
  for (size_t k = 0; k < count; k++) {
    uint8_t *out = outs[k > 0];
    memset(out, 0x5a, out_bytes);
    a.out = (oct_view){out + (size_t)out_pixel * size, out_image, s->out_w * out_pixel, out_pixel};
    pool_of(rows[k], is_f32, average)(&a, units / 2, units);
    pool_of(rows[k], is_f32, average)(&a, 0, units / 2);
    if (k == 0) check_pool_definition(&a, a.out.data, is_f32, average);
    count_comparison(rows[k]->name, pool_names[2 * average + is_f32]);
    if (k == 0 || memcmp(outs[0], outs[1], out_bytes) == 0) continue;
    print_message("%s: %s differs from scalar or writes outside; repeat with OCTET_CASE=%llu\n", rows[k]->name,
                  pool_names[2 * average + is_f32], (unsigned long long)p->number);
    fail();
  }
  free(outs[0]), free(outs[1]);
  guarded_destroy(&in);
}

static void test_pools(void **state) {
  (void)state;
  const oct_vector_kernels *rows[MAX_ROWS];
  size_t count = vector_rows_here(rows);
  uint64_t first, last;
  case_range(repeats(300, 20000), &first, &last);
  for (uint64_t i = first; i < last; i++) {
    pool_case p = random_pool(i);
    for (int kind = 0; kind < 4; kind++) check_pool(&p, kind & 1, kind & 2, rows, count);
  }
  check_comparisons(rows, count, pool_names, 4);
}

/* Large windows: 8-bit sums past 16 bits and past 2^24 (where float(sum) rounds); a float mean of equal values stays near them. */
static void test_global_average(void **state) {
  (void)state;
  enum { SIDE = 300, CHANNELS = 24, COUNT = SIDE * SIDE * CHANNELS };
  uint8_t *x = malloc(COUNT + OCT_OVERREAD), y[CHANNELS];
  float *f = malloc(4 * COUNT + OCT_OVERREAD), g[CHANNELS];
  memset(x, 255, COUNT + OCT_OVERREAD);
  for (size_t i = 0; i < COUNT + OCT_OVERREAD / 4; i++) f[i] = 0.1f;
  const oct_vector_kernels *rows[MAX_ROWS];
  for (size_t k = vector_rows_here(rows); k-- > 0;) {
    oct_pool_args a = square_pool(x, y, SIDE, CHANNELS, SIDE, 0);
    a.in_zero_point = 5;
    rows[k]->average_pool_u8(&a, 0, 1);
    for (int c = 0; c < CHANNELS; c++) assert_int_equal(y[c], 250);
    a.in.data = f, a.out.data = g;
    rows[k]->average_pool_f32(&a, 0, 1);
    for (int c = 0; c < CHANNELS; c++) assert_true(fabsf(g[c] - 0.1f) < 0.1f * 2 * SIDE * 0x1p-24f);
  }
  free(x), free(f);
}

/* As in ONNX Runtime: a NaN counts only as the window's last element; minus infinity is a number like others. */
static void test_float_max_special(void **state) {
  (void)state;
  const oct_vector_kernels *rows[MAX_ROWS];
  for (size_t k = vector_rows_here(rows); k-- > 0;)
    for (int channels = 1; channels <= 40; channels += 13)
      for (int at = 0; at < 5; at++) {
        float x[4 * 40 + OCT_OVERREAD / 4], y[40];
        for (int i = 0; i < 4 * channels; i++) x[i] = at == 4 ? -INFINITY : i / channels == at ? NAN : 1.0f;
        oct_pool_args a = square_pool(x, y, 2, channels, 2, 0);
        rows[k]->max_pool_f32(&a, 0, 1);
        for (int c = 0; c < channels; c++) assert_true(at == 4 ? y[c] == -INFINITY : at == 3 ? isnan(y[c]) : y[c] == 1.0f);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_onnx_pools),     cmocka_unit_test(test_average_u8_padding), cmocka_unit_test(test_pools),
      cmocka_unit_test(test_global_average), cmocka_unit_test(test_float_max_special),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
