/* Extremes and counts of calibration: every row against the definitions, in double, on all lengths around the vectors' widths. Nothing outside [0, n) is
 * read, and zeros do not reach the bins. OCTET_LONG=1 compares every function of every row 20,000 times.
 * SPDX-License-Identifier: MIT */
#include <float.h>
#include <math.h>

#include "kernel_checks.h"

enum { LONGEST = 300 };

static float value_within(int reach) {
  if (chance(30)) return chance(50) ? 0.0f : -0.0f;
  if (chance(5)) return chance(50) ? FLT_MIN : -1e-42f; /* just beside zero: bins 0 and -1 */
  float x = (float)between(-1000000, 1000000) / 1000001.0f * (float)reach;
  return chance(20) ? rintf(x) : x; /* on an edge */
}

static void check_extremes(const oct_vector_kernels *const *rows, size_t n_rows, size_t n) {
  guarded g = guarded_create(n * sizeof(float), 0);
  float *x = guarded_floats(&g), least = INFINITY, most = -INFINITY;
  for (size_t i = 0; i < n; i++) {
    x[i] = value_within(1000);
    least = fminf(least, x[i]), most = fmaxf(most, x[i]);
  }
  for (size_t k = 0; k < n_rows; k++) {
    float low = INFINITY, high = -INFINITY;
    assert_true(rows[k]->extremes_f32(n, x, &low, &high));
    assert_true(low == least && high == most);
    low = -2000, high = 2000;
    assert_true(rows[k]->extremes_f32(n, x, &low, &high));
    assert_true(low == -2000 && high == 2000);
    count_comparison(rows[k]->name, "extremes_f32");
  }
  guarded_destroy(&g);
}

static void test_extremes(void **state) {
  (void)state;
  const oct_vector_kernels *rows[MAX_ROWS];
  size_t n_rows = vector_rows_here(rows);
  random_seed(1);
  for (int repeat = 0; repeat < repeats(1, 67); repeat++)
    for (size_t n = 0; n <= LONGEST; n++) check_extremes(rows, n_rows, n);
  static const char *const functions[] = {"extremes_f32"};
  check_comparisons(rows, n_rows, functions, 1);
}

static void test_one_bad_value_anywhere(void **state) {
  (void)state;
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  const oct_vector_kernels *rows[MAX_ROWS];
  size_t n_rows = vector_rows_here(rows);
  float x[150];
  for (size_t n = 1; n <= 150; n += 7)
    for (size_t at = 0; at < n; at++)
      for (int b = 0; b < 3; b++) {
        for (size_t i = 0; i < n; i++) x[i] = FLT_MAX;
        x[at] = bad[b];
        for (size_t k = 0; k < n_rows; k++) {
          float low = INFINITY, high = -INFINITY;
          assert_false(rows[k]->extremes_f32(n, x, &low, &high));
        }
      }
}

static void test_counts(void **state) {
  (void)state;
  const oct_vector_kernels *rows[MAX_ROWS];
  size_t n_rows = vector_rows_here(rows);
  random_seed(2);
  for (int round = 0; round < repeats(600, 20000); round++) {
    static uint32_t want[OCT_HISTOGRAM_BINS], bins[OCT_HISTOGRAM_BINS + OCT_HISTOGRAM_SLOTS];
    size_t n = (size_t)between(0, LONGEST);
    int exponent = (int)between(-40, 0), reach = PICK(1, 30, 2047);
    uint32_t zeros = 0;
    guarded g = guarded_create(n * sizeof(float), 0);
    float *x = (float *)(void *)g.data;
    memset(want, 0, sizeof want);
    for (size_t i = 0; i < n; i++) {
      x[i] = value_within(reach);
      if (fabsf(x[i]) >= 1e-30f) x[i] = ldexpf(x[i], exponent);
      if (x[i] == 0) zeros++;
      else want[(int)floor(ldexp((double)x[i], -exponent)) + 2048]++;
    }
    for (size_t k = 0; k < n_rows; k++) {
      uint32_t got = 5;
      memset(bins, 0, sizeof bins);
      rows[k]->histogram_f32(n, x, ldexpf(1, -exponent), -2048, bins, &got);
      assert_int_equal(got, zeros + 5);
      assert_memory_equal(bins, want, sizeof want);
      for (int b = OCT_HISTOGRAM_BINS; b < OCT_HISTOGRAM_BINS + OCT_HISTOGRAM_SLOTS; b++) assert_int_equal(bins[b], 0);
      count_comparison(rows[k]->name, "histogram_f32");
    }
    guarded_destroy(&g);
  }
  static const char *const functions[] = {"histogram_f32"};
  check_comparisons(rows, n_rows, functions, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_extremes), cmocka_unit_test(test_one_bad_value_anywhere),
                                     cmocka_unit_test(test_counts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
