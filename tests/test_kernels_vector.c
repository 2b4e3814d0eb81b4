/* Vector kernels on dense runs. Values that ONNX's operator documents give are checked on every variant; beyond them each variant
 * must give the scalar row's bytes (for floats: its bits, any NaN being equal to any other) on all lengths around the vectors'
 * widths, on random and extreme values, and on values at and beside rounding ties. Nothing outside [0, n) is read or written.
 * OCTET_LONG=1 compares every function of every row 20,000 times.
 * SPDX-License-Identifier: MIT */
#include <float.h>

#include "kernel_checks.h"

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

/* Ordinary values, then any bit pattern, then the special ones. */
static float random_float(void) {
  static const float special[] = {0.0f,    -0.0f,  INFINITY, -INFINITY, NAN,   FLT_MAX, -FLT_MAX,
                                  FLT_MIN, 1e-42f, -1e-42f,  1.0f,      -1.0f, 0.5f,    127.5f};
  if (chance(70)) return (float)between(-1000000, 1000000) / 4096.0f;
  if (chance(50)) return float_of(random_u32());
  return special[between(0, (int64_t)(sizeof special / sizeof *special) - 1)];
}

static bool same_float(float a, float b) { return (isnan(a) && isnan(b)) || memcmp(&a, &b, 4) == 0; }

static void test_onnx_quantize(void **state) {
  (void)state;
  static const float x[6] = {0, 2, 3, 1000, -254, -1000};
  static const uint8_t want[6] = {128, 129, 130, 255, 1, 0}, q[4] = {0, 3, 128, 255};
  static const float real[4] = {-256, -250, 0, 254};
  const oct_vector_kernels *rows[MAX_ROWS];
  for (size_t k = vector_rows_here(rows); k-- > 0;) {
    uint8_t y[6];
    float r[4];
    rows[k]->quantize_f32_u8(6, x, y, 2.0f, 128);
    assert_memory_equal(y, want, 6);
    rows[k]->dequantize_u8_f32(4, q, r, 2.0f, 128);
    for (int i = 0; i < 4; i++) assert_true(r[i] == real[i]);
  }
}

/* ---- The scalar row against its definitions ---- */

static void test_quantize_definition(void **state) {
  (void)state;
  const oct_vector_kernels *rows[MAX_ROWS];
  vector_rows_here(rows);
  random_seed(1);
  for (int i = 0; i < repeats(20000, 2000000); i++) {
    float x = random_float(), scale = fabsf(random_float());
    if (!(scale > 0) || isinf(scale)) continue;
    int32_t zero_point = (int32_t)between(0, 255);
    uint8_t got;
    rows[0]->quantize_f32_u8(1, &x, &got, scale, zero_point);
    double t = rint((double)(x / scale)) + zero_point; /* the quotient is a float by definition */
    double want = isnan(x) ? zero_point : t < 0 ? 0 : t > 255 ? 255 : t;
    assert_int_equal(got, (int)want);
  }
}

/* ---- Every row against the scalar one: dense runs ---- */

enum { RUN = 333 };

typedef struct runs {
  guarded a, b, y, z; /* y: scalar's output, z: the other's; floats or bytes at the end of each */
  size_t n;
} runs;

static runs runs_create(size_t n, size_t in_size, size_t out_size) {
  return (runs){guarded_create(n * in_size, 0), guarded_create(n * in_size, 0), guarded_create(n * out_size, 0),
                guarded_create(n * out_size, 0), n};
}

/* Equal outputs, and nothing written before them (after them is the forbidden page). */
static void runs_check(runs *r, size_t out_size, const char *row, const char *what) {
  count_comparison(row, what);
  for (size_t i = 0; i < r->n; i++) {
    float y = 0, z = 0;
    if (out_size == 4) memcpy(&y, r->y.data + 4 * i, 4), memcpy(&z, r->z.data + 4 * i, 4);
    if (out_size == 4 ? same_float(y, z) : r->y.data[i] == r->z.data[i]) continue;
    print_message("%s: %s of %zu elements differs at %zu: %g (scalar %g)\n", row, what, r->n, i, out_size == 4 ? z : r->z.data[i],
                  out_size == 4 ? y : r->y.data[i]);
    fail();
  }
  for (const uint8_t *p = r->z.map; p < r->z.data; p++) assert_int_equal(*p, 0xff);
  guarded_destroy(&r->a), guarded_destroy(&r->b), guarded_destroy(&r->y), guarded_destroy(&r->z);
}

static void fill_bytes(uint8_t *p, size_t n) {
  int kind = PICK(0, 0, 0, 1, 2, 3);
  for (size_t i = 0; i < n; i++) p[i] = kind == 0 ? (uint8_t)random_u32() : kind == 1 ? 0 : kind == 2 ? 255 : chance(50) ? 255 : 0;
}
static void fill_floats(float *p, size_t n) {
  for (size_t i = 0; i < n; i++) p[i] = random_float();
}

/* At a tie, or a few floats beside it. */
static float near_tie(float scale, int32_t zero_point) {
  float x = ((float)(between(-3, 258) - zero_point) + 0.5f) * scale;
  for (int64_t i = between(0, 4); i > 0; i--) x = nextafterf(x, chance(50) ? INFINITY : -INFINITY);
  return x;
}

static void check_quantize(const oct_vector_kernels *scalar, const oct_vector_kernels *row, size_t n) {
  static const float scales[] = {1.0f, 0.5f, 2.0f, 1.0f / 255, 0.1f, 3e-5f, 0.0235f, 1e-40f, 1e38f, 3e-39f, FLT_MIN};
  int32_t zero_point = chance(80) ? (int32_t)between(0, 255) : (int32_t)between(-129, 384);
  float scale = chance(60) ? scales[between(0, (int64_t)(sizeof scales / sizeof *scales) - 1)] : (float)between(1, 1000000) / 1e6f;
  runs r = runs_create(n, 4, 1);
  float *x = (float *)(void *)r.a.data;
  bool ties = chance(60);
  for (size_t i = 0; i < n; i++) x[i] = ties ? near_tie(scale, zero_point) : random_float();
  scalar->quantize_f32_u8(n, x, r.y.data, scale, zero_point);
  row->quantize_f32_u8(n, x, r.z.data, scale, zero_point);
  runs_check(&r, 1, row->name, "quantize_f32_u8");
}

static void check_tables(const oct_vector_kernels *scalar, const oct_vector_kernels *row, size_t n) {
  uint8_t table[256];
  float table_f32[256];
  for (int i = 0; i < 256; i++) table[i] = (uint8_t)random_u32();
  fill_floats(table_f32, 256);
  runs r = runs_create(n, 1, 1), s = runs_create(n, 1, 4), t = runs_create(n, 1, 4);
  fill_bytes(r.a.data, n), fill_bytes(s.a.data, n), fill_bytes(t.a.data, n);
  scalar->table_u8(n, r.a.data, r.y.data, table);
  memcpy(r.z.data, r.a.data, n);
  row->table_u8(n, r.z.data, r.z.data, table); /* in place */
  scalar->table_u8_f32(n, s.a.data, (float *)(void *)s.y.data, table_f32);
  row->table_u8_f32(n, s.a.data, (float *)(void *)s.z.data, table_f32);
  float scale = (float)between(1, 10000) / 7777.0f;
  int32_t zero_point = (int32_t)between(0, 255);
  scalar->dequantize_u8_f32(n, t.a.data, (float *)(void *)t.y.data, scale, zero_point);
  row->dequantize_u8_f32(n, t.a.data, (float *)(void *)t.z.data, scale, zero_point);
  runs_check(&r, 1, row->name, "table_u8"), runs_check(&s, 4, row->name, "table_u8_f32"), runs_check(&t, 4, row->name, "dequantize_u8_f32");
}

static void check_u8_binary(const oct_vector_kernels *scalar, const oct_vector_kernels *row, size_t n) {
  static const float scales[] = {1.0f, 0.5f, 0.25f, 2.0f, 1.5f, 0.013f, 50.0f, 1e-9f, 1e9f};
  float a_scale = scales[between(0, 8)], b_scale = scales[between(0, 8)];
  int32_t a_zp = (int32_t)between(0, 255), b_zp = (int32_t)between(0, 255), zp = (int32_t)between(0, 255), low = (int32_t)between(0, 255),
          high = (int32_t)between(low, 255);
  bool broadcast = chance(40), whole = chance(50);
  if (whole) low = 0, high = 255;
  runs r = runs_create(n, 1, 1), s = runs_create(n, 1, 1);
  fill_bytes(r.a.data, n), fill_bytes(r.b.data, n), fill_bytes(s.a.data, n), fill_bytes(s.b.data, n);
  scalar->add_u8(n, r.a.data, r.b.data, r.y.data, a_scale, a_zp, b_scale, b_zp, zp, low, high);
  memcpy(r.z.data, r.b.data, n);
  row->add_u8(n, r.a.data, r.z.data, r.z.data, a_scale, a_zp, b_scale, b_zp, zp, low, high); /* b in place */
  scalar->mul_u8(n, s.a.data, s.b.data, broadcast, s.y.data, a_scale * b_scale, a_zp, b_zp, zp, low, high);
  row->mul_u8(n, s.a.data, s.b.data, broadcast, s.z.data, a_scale * b_scale, a_zp, b_zp, zp, low, high);
  runs_check(&r, 1, row->name, "add_u8"), runs_check(&s, 1, row->name, "mul_u8");
}

typedef void (*binary_f32)(size_t n, const float *a, const float *b, float *y);

static void check_f32(const oct_vector_kernels *scalar, const oct_vector_kernels *row, size_t n) {
  const binary_f32 wants[] = {scalar->add_f32, scalar->sub_f32, scalar->mul_f32, scalar->div_f32},
                   gots[] = {row->add_f32, row->sub_f32, row->mul_f32, row->div_f32};
  for (int op = 0; op < 6; op++) {
    static const char *const names[] = {"add_f32", "sub_f32", "mul_f32", "div_f32", "scale_f32", "clamp_f32"};
    runs r = runs_create(n, 4, 4);
    const float *a = (const float *)(void *)r.a.data, *b = (const float *)(void *)r.b.data;
    float *y = (float *)(void *)r.y.data, *z = (float *)(void *)r.z.data;
    fill_floats((float *)(void *)r.a.data, n), fill_floats((float *)(void *)r.b.data, n);
    memcpy(r.z.data, r.a.data, 4 * n); /* in place */
    float p = random_float(), q = random_float();
    if (op < 4) wants[op](n, a, b, y), gots[op](n, z, b, z);
    if (op == 4) scalar->scale_f32(n, a, y, p, q), row->scale_f32(n, z, z, p, q);
    if (op == 5) scalar->clamp_f32(n, a, y, p, q), row->clamp_f32(n, z, z, p, q);
    runs_check(&r, 4, row->name, names[op]);
  }
}

static void check_minmax(const oct_vector_kernels *scalar, const oct_vector_kernels *row, size_t n) {
  guarded g = guarded_create(4 * n, 0);
  float *x = (float *)(void *)g.data, want[2] = {INFINITY, -INFINITY}, got[2] = {INFINITY, -INFINITY};
  bool zeros = chance(20);
  for (size_t i = 0; i < n; i++) x[i] = zeros ? (chance(50) ? 0.0f : -0.0f) : random_float();
  if (chance(30)) want[0] = got[0] = -1, want[1] = got[1] = 2;
  scalar->minmax_f32(n, x, &want[0], &want[1]);
  row->minmax_f32(n, x, &got[0], &got[1]);
  assert_true(same_float(want[0], got[0]) && same_float(want[1], got[1]));
  for (size_t i = 0; i < n; i++) assert_false(x[i] < got[0] || x[i] > got[1]);
  count_comparison(row->name, "minmax_f32");
  guarded_destroy(&g);
}

static void test_dense_runs(void **state) {
  (void)state;
  const oct_vector_kernels *rows[MAX_ROWS];
  size_t count = vector_rows_here(rows);
  random_seed(2);
  for (size_t k = 1; k < count; k++)
    for (int repeat = 0; repeat < repeats(2, 140); repeat++)
      for (size_t n = 0; n <= RUN; n += n < 140 ? 1 : 64) {
        check_quantize(rows[0], rows[k], n);
        check_tables(rows[0], rows[k], n);
        check_u8_binary(rows[0], rows[k], n);
        check_f32(rows[0], rows[k], n);
        check_minmax(rows[0], rows[k], n);
      }
  static const char *const functions[] = {"quantize_f32_u8", "dequantize_u8_f32", "table_u8", "table_u8_f32", "add_u8",
                                          "mul_u8",          "minmax_f32",        "add_f32",  "sub_f32",      "mul_f32",
                                          "div_f32",         "scale_f32",         "clamp_f32"};
  check_comparisons(rows + 1, count - 1, functions, sizeof functions / sizeof *functions);
}

/* Every byte through every table position, and every pair of bytes through add and mul. */
static void test_all_bytes(void **state) {
  (void)state;
  const oct_vector_kernels *rows[MAX_ROWS];
  size_t count = vector_rows_here(rows);
  static uint8_t a[65536], b[65536], want[65536], got[65536];
  uint8_t table[256];
  for (int i = 0; i < 65536; i++) a[i] = (uint8_t)(i >> 8), b[i] = (uint8_t)i;
  for (int i = 0; i < 256; i++) table[i] = (uint8_t)(i * 37 + 11);
  for (size_t k = 1; k < count; k++) {
    rows[k]->table_u8(65536, b, got, table);
    for (int i = 0; i < 65536; i++) assert_int_equal(got[i], table[b[i]]);
    for (int z = 0; z < 256; z += 51) {
      rows[0]->add_u8(65536, a, b, want, 0.5f, z, 0.25f, 255 - z, z, 0, 255),
          rows[k]->add_u8(65536, a, b, got, 0.5f, z, 0.25f, 255 - z, z, 0, 255);
      assert_memory_equal(want, got, 65536);
      rows[0]->mul_u8(65536, a, b, false, want, 1.0f / 128, z, 255 - z, z, 3, 250),
          rows[k]->mul_u8(65536, a, b, false, got, 1.0f / 128, z, 255 - z, z, 3, 250);
      assert_memory_equal(want, got, 65536);
    }
  }
}

/* Every sum of scale * k / 8 for all zero points: ties and their neighbourhood, both signs. */
static void test_quantize_ties(void **state) {
  (void)state;
  const oct_vector_kernels *rows[MAX_ROWS];
  size_t count = vector_rows_here(rows);
  static float x[4096];
  static uint8_t want[4096], got[4096];
  static const float scales[] = {1.0f, 0.1f, 1.0f / 255, 0.007843138f, 3.0f};
  for (size_t s = 0; s < sizeof scales / sizeof *scales; s++)
    for (int32_t zero_point = 0; zero_point < 256; zero_point += repeats(17, 1)) {
      for (int i = 0; i < 4096; i++)
        x[i] = nextafterf((float)(i / 3 - 682) * 0.5f * scales[s], i % 3 == 0   ? -INFINITY
                                                                   : i % 3 == 1 ? (float)(i / 3 - 682) * 0.5f * scales[s]
                                                                                : INFINITY);
      rows[0]->quantize_f32_u8(4096, x, want, scales[s], zero_point);
      for (size_t k = 1; k < count; k++) {
        rows[k]->quantize_f32_u8(4096, x, got, scales[s], zero_point);
        assert_memory_equal(want, got, 4096);
      }
    }
}

/* ---- Transposing, and planes to pixels: strided operands that end at a forbidden page, with bytes between the rows that stay ---- */

/* `rows` rows of `columns` elements, `row` elements apart. */
static guarded strided_create(size_t rows, size_t columns, size_t row, size_t size) {
  guarded g = guarded_create(((rows - 1) * row + columns) * size, 0);
  for (size_t r = 0; r < rows; r++)
    for (size_t i = 0; i < columns * size; i++) g.data[r * row * size + i] = (uint8_t)random_u32();
  return g;
}

static void check_transpose(const oct_vector_kernels *row, size_t rows, size_t columns, size_t size) {
  size_t x_row = columns + (size_t)between(0, 5), y_row = rows + (size_t)between(0, 5);
  guarded x = strided_create(rows, columns, x_row, size), y = guarded_create(((columns - 1) * y_row + rows) * size, 0);
  if (size == 1) row->transpose_u8(rows, columns, x.data, (ptrdiff_t)x_row, y.data, (ptrdiff_t)y_row);
  else
    row->transpose_u32(rows, columns, (const uint32_t *)(const void *)x.data, (ptrdiff_t)x_row, (uint32_t *)(void *)y.data,
                       (ptrdiff_t)y_row);
  for (size_t c = 0; c < columns; c++)
    for (size_t r = 0; r < y_row && (c + 1 < columns || r < rows); r++)
      for (size_t i = 0; i < size; i++)
        assert_int_equal(y.data[(c * y_row + r) * size + i], r < rows ? x.data[(r * x_row + c) * size + i] : 0xff);
  for (const uint8_t *p = y.map; p < y.data; p++) assert_int_equal(*p, 0xff);
  count_comparison(row->name, size == 1 ? "transpose_u8" : "transpose_u32");
  guarded_destroy(&x), guarded_destroy(&y);
}

static void test_transpose(void **state) {
  (void)state;
  const oct_vector_kernels *rows[MAX_ROWS];
  size_t count = vector_rows_here(rows);
  random_seed(4);
  for (size_t k = 0; k < count; k++)
    for (int repeat = 0; repeat < repeats(1, 48); repeat++)
      for (size_t r = 1; r <= 19; r++)
        for (size_t c = 1; c <= 35; c += c < 20 ? 1 : 5) check_transpose(rows[k], r, c, 1), check_transpose(rows[k], r, c, 4);
  static const char *const functions[] = {"transpose_u8", "transpose_u32"};
  check_comparisons(rows, count, functions, 2);
}

static void check_quantize_planes(const oct_vector_kernels *row, size_t n, size_t planes, float scale, int32_t zero_point) {
  size_t rows = (size_t)between(1, 3), x_row = n + (size_t)between(0, 2), plane = rows * x_row + (size_t)between(0, 9);
  size_t y_row = n * planes + (size_t)between(0, 9), x_count = (planes - 1) * plane + (rows - 1) * x_row + n,
         y_count = (rows - 1) * y_row + n * planes;
  guarded x = guarded_create(x_count * 4, 0), y = guarded_create(y_count, 0);
  bool ties = chance(50);
  for (size_t i = 0; i < x_count; i++) guarded_floats(&x)[i] = ties ? near_tie(scale, zero_point) : random_float();
  row->quantize_planes_u8(rows, n, planes, guarded_floats(&x), (ptrdiff_t)x_row, (ptrdiff_t)plane, y.data, (ptrdiff_t)y_row, scale,
                          zero_point);
  for (size_t r = 0; r < rows; r++) {
    for (size_t i = 0; i < n * planes; i++) {
      float value = guarded_floats(&x)[i % planes * plane + r * x_row + i / planes];
      assert_int_equal(y.data[r * y_row + i], oct_quantize(value, scale, zero_point, 0, 255));
    }
    for (size_t i = n * planes; r + 1 < rows && i < y_row; i++) assert_int_equal(y.data[r * y_row + i], 0xff);
  }
  for (const uint8_t *p = y.map; p < y.data; p++) assert_int_equal(*p, 0xff);
  count_comparison(row->name, "quantize_planes_u8");
  guarded_destroy(&x), guarded_destroy(&y);
}

static void test_quantize_planes(void **state) {
  (void)state;
  static const float scales[] = {1.0f, 1.0f / 255, 0.1f, 0.0235f, 1e-40f, 1e38f, FLT_MIN};
  const oct_vector_kernels *rows[MAX_ROWS];
  size_t count = vector_rows_here(rows);
  random_seed(5);
  for (size_t k = 0; k < count; k++)
    for (size_t planes = 1; planes <= OCT_QUANTIZE_PLANES; planes++)
      for (size_t n = 1; n <= 70; n++)
        for (int repeat = 0; repeat < repeats(2, 72); repeat++)
          check_quantize_planes(rows[k], n, planes, scales[between(0, (int64_t)(sizeof scales / sizeof *scales) - 1)],
                                (int32_t)between(0, 255));
  static const char *const functions[] = {"quantize_planes_u8"};
  check_comparisons(rows, count, functions, 1);
}

/* ---- The scale of an input in constants of channels ---- */

/* Float biases and multipliers on both sides of the bounds within which biases become numbers of an accumulator's units: a multiplier of 1/4, and
 * 2^29 units. */
static void check_fold_scale(const oct_vector_kernels *row, size_t n, bool rounded, bool biased) {
  static const float edges[] = {0.25f, 0.25000003f, 0.24999999f, 0.125f, 0, 1e-30f, -0.1f},
                     far[] = {0x1p27f, 0x1.000002p27f, -0x1p27f, 1e30f, 0.5f};
  guarded g[7];
  for (int i = 0; i < 7; i++) g[i] = guarded_create(4 * n, 0);
  float *multiplier = guarded_floats(&g[0]), *float_bias = guarded_floats(&g[1]), *to_multiplier = guarded_floats(&g[2]),
        *to_float = guarded_floats(&g[3]);
  int32_t *bias = (int32_t *)(void *)g[4].data, *sums = (int32_t *)(void *)g[5].data, *to_bias = (int32_t *)(void *)g[6].data;
  const float scale = chance(50) ? 1.0f : (float)between(1, 1000) / 500.0f;
  const int32_t zero_point = (int32_t)between(0, 255);
  const bool zeros = chance(30);
  for (size_t i = 0; i < n; i++) {
    multiplier[i] = !zeros && chance(30) ? edges[between(0, 6)] : (float)between(1, 1000) / 65536.0f;
    float_bias[i] = zeros ? 0 : chance(20) ? far[between(0, 4)] : (float)between(-10000, 10000) / 128.0f;
    bias[i] = (int32_t)between(-100000, 100000), sums[i] = (int32_t)between(-1000000, 1000000);
  }
  const oct_epilogue_i8 e = {.out = rounded ? OCT_EPILOGUE_ROUNDED : OCT_EPILOGUE_F32,
                             .bias = bias,
                             .multiplier = multiplier,
                             .float_bias = biased ? float_bias : NULL,
                             .row_scale = &scale,
                             .row_zero_point = &zero_point,
                             .weight_sum = sums};
  const bool whole = row->fold_scale(n, &e, to_bias, to_multiplier, to_float);
  bool want = true;
  for (size_t i = 0; i < n; i++) {
    volatile float m = scale * multiplier[i], rest = biased ? float_bias[i] : 0, units = rest / m;
    int64_t b = (int64_t)bias[i] - (int64_t)zero_point * sums[i];
    if (rounded && m > 0 && m <= 0.25f && fabs((double)units) <= 0x1p29) b += (int64_t)nearbyint((double)units), rest = 0;
    assert_int_equal(to_bias[i], (int32_t)(uint32_t)(uint64_t)b);
    assert_true(to_multiplier[i] == m && to_float[i] == rest);
    want = want && rest == 0;
  }
  assert_int_equal(whole, want);
  for (int i = 0; i < 7; i++)
    for (const uint8_t *p = g[i].map; p < g[i].data; p++) assert_int_equal(*p, 0xff);
  count_comparison(row->name, "fold_scale");
  for (int i = 0; i < 7; i++) guarded_destroy(&g[i]);
}

static void test_fold_scale(void **state) {
  (void)state;
  const oct_vector_kernels *rows[MAX_ROWS];
  size_t count = vector_rows_here(rows);
  random_seed(6);
  for (size_t k = 0; k < count; k++)
    for (size_t n = 1; n <= 70; n++)
      for (int repeat = 0; repeat < repeats(3, 288); repeat++) check_fold_scale(rows[k], n, chance(70), chance(80));
  static const char *const functions[] = {"fold_scale"};
  check_comparisons(rows, count, functions, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_onnx_quantize),   cmocka_unit_test(test_quantize_definition), cmocka_unit_test(test_dense_runs),
      cmocka_unit_test(test_all_bytes),       cmocka_unit_test(test_quantize_ties),       cmocka_unit_test(test_transpose),
      cmocka_unit_test(test_quantize_planes), cmocka_unit_test(test_fold_scale),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
