/* Functions of floats in every instruction set against libm in double: errors, special values, odd lengths, nothing read or written outside.
 * OCTET_LONG=1 compares every function of every row 20,000 times (the elementwise ones once per value).
 * SPDX-License-Identifier: MIT */
#include "kernel_checks.h"

#include <math.h>

#include "base/cpu.h"

typedef struct function {
  const char *name;
  void (*const *kernel)(size_t, const float *, float *); /* in the row under test */
  double (*exact)(double);
  double low, high;
  double bound; /* relative, or absolute below `small` */
  double small;
  float at_minus, at_plus; /* infinity; NAN: not asked */
} function;

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double gelu(double x) { return 0.5 * x * erfc(-x / sqrt(2.0)); }

static const oct_vector_math *row;

static void with_rows(void (*test)(const char *name)) {
  const oct_vector_kernels *rows[MAX_ROWS] = {NULL};
  for (size_t k = 0, count = vector_rows_here(rows); k < count; k++) {
    row = rows[k]->math;
    test(rows[k]->name);
  }
}

/* `functions` were compared often enough in each row. */
static void check_math_comparisons(const char *const *functions, size_t n) {
  const oct_vector_kernels *rows[MAX_ROWS];
  size_t count = vector_rows_here(rows);
  check_comparisons(rows, count, functions, n);
}

#define COUNT 60001

static double error_of(const function *f, float x, float y) {
  double exact = f->exact((double)x);
  return fabs((double)y - exact) / fmax(fabs(exact), f->small > 0 ? 1 : 1e-38);
}

/* Every length around the vectors' widths: values between others, first and last ones. */
static void check_lengths(const char *name, const function *f) {
  for (size_t n = 1; n <= 70; n++) {
    guarded x = guarded_create(n * 4, 0), y = guarded_create(n * 4, 0);
    for (size_t i = 0; i < n; i++) guarded_floats(&x)[i] = (float)(f->low + (f->high - f->low) * (double)random_u32() / UINT32_MAX);
    (*f->kernel)(n, guarded_floats(&x), guarded_floats(&y));
    for (size_t i = 0; i < n; i++) {
      assert_true(error_of(f, guarded_floats(&x)[i], guarded_floats(&y)[i]) <= f->bound);
      count_comparison(name, f->name);
    }
    for (const uint8_t *p = y.map; p < y.data; p++) assert_int_equal(*p, 0xff);
    guarded_destroy(&x), guarded_destroy(&y);
  }
}

static void check_functions(const char *name) {
  const function functions[] = {{"exp", &row->exp_f32, exp, -87, 88.7, 3e-7, 0, 0, INFINITY},
                                {"sigmoid", &row->sigmoid_f32, sigmoid, -80, 80, 5e-7, 0, NAN, 1},
                                {"tanh", &row->tanh_f32, tanh, -12, 12, 5e-7, 0, -1, 1},
                                {"erf", &row->erf_f32, erf, -6, 6, 5e-7, 0, -1, 1},
                                {"gelu", &row->gelu_f32, gelu, -2, 12, 1e-6, 1e-6, NAN, INFINITY}};
  float *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
  for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
    const function *t = &functions[f];
    double worst = 0;
    for (int i = 0; i < COUNT; i++) x[i] = (float)(t->low + (t->high - t->low) * i / (COUNT - 1));
    (*t->kernel)(COUNT, x, y);
    for (int i = 0; i < COUNT; i++) worst = fmax(worst, error_of(t, x[i], y[i]));
    printf("%s %s: largest error %.3g\n", name, t->name, worst);
    assert_true(worst <= t->bound);
    float special[3] = {-INFINITY, INFINITY, NAN};
    (*t->kernel)(3, special, special);
    if (t->at_minus == t->at_minus) assert_true(special[0] == t->at_minus);
    assert_true(special[1] == t->at_plus);
    assert_true(special[2] != special[2]);
    for (int repeat = 0; repeat < repeats(1, 10); repeat++) check_lengths(name, t); /* 70 * 71 / 2 values each time */
  }
  free(x), free(y);
}

static void test_functions(void **state) {
  (void)state;
  random_seed(2);
  with_rows(check_functions);
  static const char *const names[] = {"exp", "sigmoid", "tanh", "erf", "gelu"};
  check_math_comparisons(names, 5);
}

/* Softmax and normalization of one row, odd lengths, nothing beyond either end. In a normalization each rounding of the mean and of the
 * differences, in units of the largest value, grows by as much as the differences do. */
static void check_row(const char *name, size_t n) {
  guarded x = guarded_create(n * 4, 0), y = guarded_create(n * 4, 0), scale = guarded_create(n * 4, 0), shift = guarded_create(n * 4, 0);
  float *xs = guarded_floats(&x), *ys = guarded_floats(&y), *a = guarded_floats(&scale), *b = guarded_floats(&shift);
  double max = -INFINITY, size = 0, sum = 0, mean = 0, variance = 0, total = 0;
  for (size_t i = 0; i < n; i++) {
    xs[i] = (float)between(-1000, 1000) / 100.0f, a[i] = (float)between(-100, 100) / 50.0f, b[i] = (float)between(-100, 100) / 50.0f;
    max = fmax(max, (double)xs[i]), size = fmax(size, fabs((double)xs[i])), mean += (double)xs[i] / (double)n;
  }
  for (size_t i = 0; i < n; i++) sum += exp((double)xs[i] - max), variance += ((double)xs[i] - mean) * ((double)xs[i] - mean) / (double)n;
  row->softmax_f32(n, xs, ys);
  for (size_t i = 0; i < n; i++) {
    assert_true(fabs((double)ys[i] - exp((double)xs[i] - max) / sum) <= 1e-6);
    total += (double)ys[i];
  }
  assert_true(fabs(total - 1) < 1e-5);
  double deviation = sqrt(variance + 1e-5), bound = 2e-5 + 0x1p-22 * size / deviation * 2;
  row->layer_norm_f32(n, xs, a, b, 1e-5f, ys);
  for (size_t i = 0; i < n; i++)
    assert_true(fabs((double)ys[i] - (((double)xs[i] - mean) / deviation * (double)a[i] + (double)b[i])) <= bound);
  row->layer_norm_f32(n, xs, a, NULL, 1e-5f, ys);
  for (size_t i = 0; i < n; i++) assert_true(fabs((double)ys[i] - ((double)xs[i] - mean) / deviation * (double)a[i]) <= bound);
  row->exp_f32(n, xs, xs); /* in place */
  count_comparison(name, "softmax_f32"), count_comparison(name, "layer_norm_f32");
  guarded_destroy(&x), guarded_destroy(&y), guarded_destroy(&scale), guarded_destroy(&shift);
}

static void check_rows(const char *name) {
  for (int repeat = 0; repeat < repeats(6, 550); repeat++)
    for (size_t n = 1; n <= 70; n += n < 36 ? 1 : 17) check_row(name, n);
}

static void test_rows(void **state) {
  (void)state;
  static const char *const names[] = {"softmax_f32", "layer_norm_f32"};
  random_seed(3);
  with_rows(check_rows);
  check_math_comparisons(names, 2);
}

/* Many rows, or columns, of a matrix: each against libm, and the same bits wherever it stands. */
static void check_softmax_matrix(const char *name, size_t rows, size_t n) {
  guarded x = guarded_create(rows * n * 4, 0), y = guarded_create(rows * n * 4, 0), z = guarded_create(rows * n * 4, 0),
          one = guarded_create(n * 4, 0);
  float *xs = guarded_floats(&x), *ys = guarded_floats(&y), *zs = guarded_floats(&z);
  for (size_t i = 0; i < rows * n; i++) xs[i] = (float)between(-3000, 3000) / 100.0f;
  row->softmax_rows_f32(rows, n, xs, ys);
  for (size_t r = 0; r < rows; r++) {
    double max = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++) max = fmax(max, (double)xs[r * n + i]);
    for (size_t i = 0; i < n; i++) sum += exp((double)xs[r * n + i] - max);
    for (size_t i = 0; i < n; i++) assert_true(fabs((double)ys[r * n + i] - exp((double)xs[r * n + i] - max) / sum) <= 1e-6);
    row->softmax_rows_f32(1, n, xs + r * n, guarded_floats(&one));
    assert_memory_equal(guarded_floats(&one), ys + r * n, n * 4);
  }
  memcpy(zs, xs, rows * n * 4);
  row->softmax_rows_f32(rows, n, zs, zs); /* in place */
  assert_memory_equal(ys, zs, rows * n * 4);
  row->softmax_columns_f32(n, rows, xs, ys, n); /* the same matrix by columns */
  for (size_t c = 0; c < n; c++) {
    double max = -INFINITY, sum = 0;
    for (size_t i = 0; i < rows; i++) max = fmax(max, (double)xs[i * n + c]);
    for (size_t i = 0; i < rows; i++) sum += exp((double)xs[i * n + c] - max);
    for (size_t i = 0; i < rows; i++) assert_true(fabs((double)ys[i * n + c] - exp((double)xs[i * n + c] - max) / sum) <= 1e-6);
  }
  size_t part = n / 2;
  row->softmax_columns_f32(part, rows, xs, xs, n);
  row->softmax_columns_f32(n - part, rows, xs + part, xs + part, n);
  assert_memory_equal(xs, ys, rows * n * 4);
  count_comparison(name, "softmax_rows_f32"), count_comparison(name, "softmax_columns_f32");
  guarded_destroy(&x), guarded_destroy(&y), guarded_destroy(&z), guarded_destroy(&one);
}

static void check_softmax(const char *name) {
  for (int repeat = 0; repeat < repeats(1, 45); repeat++)
    for (size_t rows = 1; rows <= 40; rows += rows < 18 ? 1 : 11)
      for (size_t n = 1; n <= 36; n += n < 20 ? 1 : 5) check_softmax_matrix(name, rows, n);
  float x[8] = {1, NAN, NAN, 1, -INFINITY, 0, -INFINITY, -INFINITY}, y[8];
  row->softmax_rows_f32(4, 2, x, y);
  assert_true(isnan(y[0]) && isnan(y[1]) && isnan(y[2]) && isnan(y[3])); /* a NaN spoils its row and no other */
  assert_true(y[4] == 0 && y[5] == 1 && isnan(y[6]) && isnan(y[7]));
}

static void test_softmax(void **state) {
  (void)state;
  static const char *const names[] = {"softmax_rows_f32", "softmax_columns_f32"};
  random_seed(4);
  with_rows(check_softmax);
  check_math_comparisons(names, 2);
}

/* Logits that a mask of -10000 or -inf switches off get nothing. */
static void check_masked(const char *name) {
  (void)name;
  float x[20], y[20];
  for (int i = 0; i < 20; i++) x[i] = i < 5 ? 1 : i < 12 ? -10000 : -INFINITY;
  row->softmax_f32(20, x, y);
  for (int i = 0; i < 20; i++) assert_true(i < 5 ? fabsf(y[i] - 0.2f) < 1e-6f : y[i] == 0);
}

static void test_masked(void **state) {
  (void)state;
  with_rows(check_masked);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_functions), cmocka_unit_test(test_rows), cmocka_unit_test(test_masked),
                                     cmocka_unit_test(test_softmax)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
