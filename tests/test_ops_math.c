/* Elementary functions of src/ops: the double ones against the C library's long double, the float ones against its double.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "ops/math.h"
#include "ops/math_f32.h"

static uint64_t seed = 88172645463325252u;
static double uniform(double low, double high) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return low + (high - low) * (double)(seed >> 11) / 9007199254740992.0;
}

static long double sigmoidl(long double x) { return 1 / (1 + expl(-x)); }

/* Greatest relative error of f against g over [low, high]. */
static double worst(double (*f)(double), long double (*g)(long double), double low, double high) {
  double most = 0;
  for (int i = 0; i < 40000; i++) {
    double x = uniform(low, high);
    long double right = g((long double)x);
    if (right == 0) continue;
    double error = (double)fabsl(((long double)f(x) - right) / right);
    if (error > most) most = error;
  }
  return most;
}

static void functions_are_accurate_to_1e15(void **state) {
  (void)state;
  static const struct {
    const char *name;
    double (*f)(double);
    long double (*g)(long double);
    double low, high;
  } rows[] = {
      {"exp", oct_exp, expl, -700, 700},
      {"exp", oct_exp, expl, -1, 1},
      {"log", oct_log, logl, 1e-300, 1e300},
      {"log", oct_log, logl, 0.5, 2},
      {"log", oct_log, logl, 0.9999, 1.0001},
      {"tanh", oct_tanh, tanhl, -30, 30},
      {"tanh", oct_tanh, tanhl, -1, 1},
      {"tanh", oct_tanh, tanhl, -1e-6, 1e-6},
      {"erf", oct_erf, erfl, -7, 7},
      {"erf", oct_erf, erfl, -1e-3, 1e-3},
      {"sigmoid", oct_sigmoid, sigmoidl, -700, 700},
      {"sigmoid", oct_sigmoid, sigmoidl, -2, 2},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    double error = worst(rows[i].f, rows[i].g, rows[i].low, rows[i].high);
    if (error >= 1e-15) fail_msg("%s on [%g, %g]: relative error %g", rows[i].name, rows[i].low, rows[i].high, error);
  }
}

static void pow_is_accurate_to_1e15(void **state) {
  (void)state;
  for (int i = 0; i < 100000; i++) {
    double x = i & 1 ? exp(uniform(-100, 100)) : uniform(0.75, 1.25), y = i & 1 ? uniform(-7, 7) : uniform(-2000, 2000);
    long double right = powl((long double)x, (long double)y);
    double error = (double)fabsl(((long double)oct_pow(x, y) - right) / right);
    if (error >= 1e-15 && right > 1e-300L && right < 1e300L) fail_msg("pow(%.17g, %.17g): relative error %g", x, y, error);
  }
}

/* IEEE 754-2008, 9.2.1. */
static void special_values_follow_ieee(void **state) {
  (void)state;
  assert_true(oct_exp(-INFINITY) == 0 && oct_exp(INFINITY) == INFINITY && isnan(oct_exp(NAN)) && oct_exp(0) == 1 && oct_exp(-745) > 0);
  assert_true(oct_log(0) == -INFINITY && isnan(oct_log(-1)) && oct_log(1) == 0 && oct_log(INFINITY) == INFINITY && oct_log(5e-324) < -744);
  assert_true(oct_tanh(INFINITY) == 1 && oct_tanh(-INFINITY) == -1 && isnan(oct_tanh(NAN)) && signbit(oct_tanh(-0.0)) &&
              oct_tanh(1e-310) == 1e-310);
  assert_true(oct_erf(INFINITY) == 1 && oct_erf(-INFINITY) == -1 && oct_erf(0) == 0 && isnan(oct_erf(NAN)));
  assert_true(oct_sigmoid(-INFINITY) == 0 && oct_sigmoid(INFINITY) == 1 && oct_sigmoid(0) == 0.5);
  static const double values[] = {0,  -0.0,  1,      -1,     2,        -2,        0.5, -0.5, 3,
                                  -3, 1e300, -1e300, 1e-300, INFINITY, -INFINITY, NAN, 1e18, 9007199254740993.0};
  enum { COUNT = sizeof values / sizeof *values };
  for (int i = 0; i < COUNT; i++)
    for (int k = 0; k < COUNT; k++) {
      double right = pow(values[i], values[k]), got = oct_pow(values[i], values[k]); /* exact cases: the C library follows the standard */
      bool same =
          (isnan(right) && isnan(got)) || (right == got && signbit(right) == signbit(got)) || fabs(got - right) <= 1e-15 * fabs(right);
      if (!same) fail_msg("pow(%g, %g) is %g; it should be %g", values[i], values[k], got, right);
    }
}

static double worst_f32(float (*f)(float), double (*g)(double), double low, double high) {
  double most = 0;
  for (int i = 0; i < 100000; i++) {
    float x = (float)uniform(low, high);
    double right = g((double)x), error = fabs(((double)f(x) - right) / right);
    if (fabs(right) > 1.2e-38 && error > most) most = error;
  }
  return most;
}

static float exp_f32(float x) { return oct_exp_f32(x); }
static float tanh_f32(float x) { return oct_tanh_f32(x); }
static float sigmoid_f32(float x) { return oct_sigmoid_f32(x); }
static float erf_f32(float x) { return oct_erf_f32(x); }
static double sigmoid_libm(double x) { return 1 / (1 + exp(-x)); }

static void float_functions_are_accurate_to_4e7(void **state) {
  (void)state;
  assert_true(worst_f32(exp_f32, exp, -87.3, 88.7) < 2e-7);
  assert_true(worst_f32(tanh_f32, tanh, -15, 15) < 3e-7 && worst_f32(tanh_f32, tanh, -1e-2, 1e-2) < 3e-7);
  assert_true(worst_f32(sigmoid_f32, sigmoid_libm, -80, 80) < 3e-7);
  assert_true(worst_f32(erf_f32, erf, -6, 6) < 4e-7);
  assert_true(exp_f32(-1000) == 0 && exp_f32(1000) == INFINITY && isnan(exp_f32(NAN)) && exp_f32(0) == 1 && exp_f32(-INFINITY) == 0);
  assert_true(tanh_f32(INFINITY) == 1 && tanh_f32(-INFINITY) == -1 && isnan(tanh_f32(NAN)) && isnan(sigmoid_f32(NAN)) &&
              isnan(erf_f32(NAN)));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(functions_are_accurate_to_1e15), cmocka_unit_test(pow_is_accurate_to_1e15),
                                     cmocka_unit_test(special_values_follow_ieee), cmocka_unit_test(float_functions_are_accurate_to_4e7)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
