/* Observers: extremes, averages, histograms that re-bin, and the range each kind chooses.
 * SPDX-License-Identifier: MIT */
#include "context_checks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/observers.h"

static oct_observer_settings settings;

static int setup(void **state) {
  settings = oct_observer_settings_default();
  return context_create(state);
}

static oct_observer *fresh(void) {
  oct_observer *o = oct_alloc(ctx, 1, sizeof *o);
  assert_non_null(o);
  return o;
}

static void see(oct_observer *o, const float *x, size_t n, size_t samples) {
  assert_int_equal(oct_observer_update(ctx, o, &settings, "value", x, n, samples), OCTET_OK);
}

static uint64_t binned(const oct_observer *o) {
  uint64_t sum = o->zeros;
  for (size_t b = 0; b < OCT_OBSERVER_BINS; b++) sum += o->bins[b];
  return sum;
}

static double uniform(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return ((double)(*state >> 11) + 0.5) * 0x1p-53;
}

/* Box-Muller. */
static float normal(uint64_t *state) { return (float)(sqrt(-2 * log(uniform(state))) * cos(6.283185307179586 * uniform(state))); }

static float *normals(size_t n) {
  float *x = oct_alloc(ctx, n, sizeof *x);
  uint64_t state = 7;
  assert_non_null(x);
  for (size_t i = 0; i < n; i++) x[i] = normal(&state);
  return x;
}

/* Mean squared error of x rounded to 256 steps over [low, high], straight from the definition. */
static double error_of(const float *x, size_t n, oct_range r) {
  double step = (r.high - r.low) / 255, zero = rint(-r.low / step), sum = 0;
  for (size_t i = 0; i < n; i++) {
    double q = rint((double)x[i] / step) + zero;
    q = q < 0 ? 0 : q > 255 ? 255 : q;
    double d = (double)x[i] - (q - zero) * step;
    sum += d * d;
  }
  return sum / (double)n;
}

/* ---- taking in ---- */

static void extremes_are_exact(void **state) {
  (void)state;
  oct_observer *o = fresh();
  see(o, (const float[]){0.25f, -3.5f, 2, 0}, 4, 1);
  see(o, (const float[]){1, 7.75f, -1}, 3, 3);
  assert_float_equal(o->low, -3.5, 0);
  assert_float_equal(o->high, 7.75, 0);
  assert_int_equal(o->count, 7);
  assert_int_equal(o->zeros, 1);
  oct_range r = oct_observer_range(o, OCT_OBSERVER_MINMAX, &settings, false);
  assert_float_equal(r.low, -3.5, 0);
  assert_float_equal(r.high, 7.75, 0);
  r = oct_observer_range(o, OCT_OBSERVER_MINMAX, &settings, true);
  assert_float_equal(r.low, -7.75, 0);
  oct_free(o);
}

static void a_range_includes_zero(void **state) {
  (void)state;
  for (int kind = 0; kind < OCT_OBSERVER_KINDS; kind++) {
    oct_observer *o = fresh();
    oct_range r = oct_observer_range(o, (oct_observer_kind)kind, &settings, false);
    assert_true(r.low == 0 && r.high == 0); /* nothing seen */
    see(o, (const float[]){3, 4, 5}, 3, 1);
    r = oct_observer_range(o, (oct_observer_kind)kind, &settings, false);
    assert_true(r.low == 0 && r.high >= 2.9 && r.high <= 5);
    oct_free(o);
    o = fresh();
    see(o, (const float[]){-3, -3, -3}, 3, 1);
    r = oct_observer_range(o, (oct_observer_kind)kind, &settings, false);
    assert_true(r.high == 0 && r.low <= -2.9 && r.low >= -3.01);
    oct_free(o);
  }
}

static void nan_and_infinity_are_errors_that_name_the_value(void **state) {
  (void)state;
  const float bad[] = {NAN, INFINITY, -INFINITY};
  for (size_t i = 0; i < 3; i++)
    for (size_t at = 0; at < 19; at++) {
      oct_observer *o = fresh();
      float x[19];
      for (size_t k = 0; k < 19; k++) x[k] = (float)k;
      x[at] = bad[i];
      assert_int_equal(oct_observer_update(ctx, o, &settings, "conv1/out", x, 19, 1), OCTET_DATA);
      assert_non_null(strstr(ctx->message, "conv1/out"));
      assert_int_equal(o->count, 0);
      oct_free(o);
    }
}

static void growing_loses_nothing(void **state) {
  (void)state;
  oct_observer *o = fresh();
  uint64_t seen = 0, random = 3;
  for (int e = -30; e <= 100; e += 10) { /* each time a thousand times wider than before, on both sides in turn */
    float x[50];
    for (size_t i = 0; i < 50; i++) x[i] = (float)(ldexp(uniform(&random), e) * (e % 20 ? 1 : -1));
    see(o, x, 50, 1);
    seen += 50;
    assert_int_equal(binned(o), seen);
    assert_true(oct_observer_edge(o, 0) <= (double)o->low && oct_observer_edge(o, OCT_OBSERVER_BINS) >= (double)o->high);
  }
  oct_free(o);
}

static void bins_hold_their_values(void **state) {
  (void)state;
  oct_observer *o = fresh();
  float x[1000];
  for (int i = 0; i < 1000; i++) x[i] = (float)(i - 300) / 100; /* -3 .. 6.99 */
  see(o, x, 1000, 1);
  see(o, (const float[]){-11.5f, 20}, 2, 1);
  for (int64_t b = 0; b < OCT_OBSERVER_BINS; b++) {
    uint64_t expected = 0;
    double from = oct_observer_edge(o, b), to = oct_observer_edge(o, b + 1);
    for (int i = 0; i < 1000; i++) expected += x[i] != 0 && (double)x[i] >= from && (double)x[i] < to;
    expected += (-11.5 >= from && -11.5 < to) + (20 >= from && 20 < to);
    assert_int_equal(o->bins[b], expected);
  }
  assert_true(oct_observer_edge(o, 1) - oct_observer_edge(o, 0) <= 31.5 / 2047); /* at least half of the bins lie over the range */
  oct_free(o);
}

static void half_precision_extremes_fit(void **state) {
  (void)state;
  oct_observer *o = fresh();
  see(o, (const float[]){54800, -65504, 5.9604645e-8f, 1e-45f, -3.4e38f, 3.4e38f}, 6, 1);
  assert_int_equal(binned(o), 6);
  assert_true(isfinite(oct_observer_effect(o, (oct_range){-65504, 65504}).clipped));
  oct_free(o);
}

static void memory_does_not_grow_with_samples(void **state) {
  (void)state;
  oct_observer *o = fresh();
  float x[64];
  for (size_t i = 0; i < 64; i++) x[i] = (float)i;
  int64_t before = ctx->allocations_made;
  for (int i = 0; i < 1000; i++) see(o, x, 64, 4);
  assert_int_equal(ctx->allocations_made, before);
  oct_free(o);
}

/* ---- choosing ---- */

static void moving_average_follows_its_formula(void **state) {
  (void)state;
  oct_observer *o = fresh();
  settings.momentum = 0.25;
  see(o, (const float[]){-1, 4, -2, 8, -6, 0}, 6, 3); /* samples [-1,4], [-2,8], [-6,0] */
  oct_range r = oct_observer_range(o, OCT_OBSERVER_MOVING_AVERAGE, &settings, false);
  assert_float_equal(r.high, (4 + 0.25 * 4) * 0.75, 1e-12);
  assert_float_equal(r.low, (-1 - 0.25) * 0.75 - 6 * 0.25, 1e-12);
  oct_observer *whole = fresh(); /* cutting into batches changes nothing */
  see(whole, (const float[]){-1, 4}, 2, 1);
  see(whole, (const float[]){-2, 8, -6, 0}, 4, 2);
  oct_range again = oct_observer_range(whole, OCT_OBSERVER_MOVING_AVERAGE, &settings, false);
  assert_true(again.low == r.low && again.high == r.high);
  oct_free(o);
  oct_free(whole);
}

static void percentile_leaves_out_the_tails(void **state) {
  (void)state;
  oct_observer *o = fresh();
  enum { N = 20000 };
  float *x = oct_alloc(ctx, N, sizeof *x);
  for (int i = 0; i < N; i++) x[i] = (float)(i + 1) / N;
  see(o, x, N, 1);
  settings.percentile = 98; /* one percent at each end */
  oct_range r = oct_observer_range(o, OCT_OBSERVER_PERCENTILE, &settings, false);
  assert_float_equal(r.high, 0.99, 0.001);
  settings.percentile = 100;
  r = oct_observer_range(o, OCT_OBSERVER_PERCENTILE, &settings, false);
  assert_float_equal(r.high, 1, 0);
  oct_free(x);
  oct_free(o);
}

/* 100,000 values N(0,1) and one 400: the single value costs minmax most of its resolution. */
static void an_outlier_shows_in_the_effects(void **state) {
  (void)state;
  enum { N = 100000 };
  float *x = normals(N + 1);
  x[N] = 400;
  oct_observer *o = fresh();
  see(o, x, N + 1, 1);
  oct_range whole = oct_observer_range(o, OCT_OBSERVER_MINMAX, &settings, false);
  assert_float_equal(whole.high, 400, 0);
  oct_range_effect effect = oct_observer_effect(o, whole);
  assert_true(effect.clipped == 0);
  /* step 404/255: noise step^2/12 = 0.21 against a power of 1 + 1.6 */
  assert_float_equal(effect.sqnr_db, 10 * log10(2.6 / (404.0 / 255 * (404.0 / 255) / 12)), 0.5);
  oct_range percentile = oct_observer_range(o, OCT_OBSERVER_PERCENTILE, &settings, false);
  assert_true(percentile.high > 3 && percentile.high < 5);
  effect = oct_observer_effect(o, percentile);
  assert_true(effect.clipped > 0 && effect.clipped < 2e-4);
  oct_range kl = oct_observer_range(o, OCT_OBSERVER_KL, &settings, false);
  assert_true(kl.high < 40); /* 128 of 2048 bins of 400/2048 are the least it can choose: 25 */
  oct_free(x);
  oct_free(o);
}

static void mse_beats_minmax_by_the_true_error(void **state) {
  (void)state;
  enum { N = 50000 };
  float *x = normals(N);
  for (size_t i = 0; i < N; i++) x[i] = x[i] * x[i] * x[i]; /* heavy tails */
  oct_observer *o = fresh();
  see(o, x, N, 1);
  oct_range whole = oct_observer_range(o, OCT_OBSERVER_MINMAX, &settings, false),
            chosen = oct_observer_range(o, OCT_OBSERVER_MSE, &settings, false);
  assert_true(error_of(x, N, chosen) <= error_of(x, N, whole) * 1.001);
  assert_float_equal(oct_observer_error(o, whole) / error_of(x, N, whole), 1, 0.05);
  assert_float_equal(oct_observer_error(o, chosen) / error_of(x, N, chosen), 1, 0.05);
  oct_free(x);
  oct_free(o);
}

static void kl_keeps_a_flat_distribution(void **state) {
  (void)state;
  oct_observer *o = fresh();
  enum { N = 100000 };
  float *x = oct_alloc(ctx, N, sizeof *x);
  for (int i = 0; i < N; i++) x[i] = ((float)i + 0.5f) / N * 2 - 1;
  see(o, x, N, 1);
  oct_range r = oct_observer_range(o, OCT_OBSERVER_KL, &settings, false);
  assert_true(r.high > 0.95 && r.low < -0.95); /* clipping a flat distribution only moves mass */
  oct_free(x);
  oct_free(o);
}

static void kinds_have_names(void **state) {
  (void)state;
  static const char *const names[] = {"minmax", "moving-average", "percentile", "kl", "mse"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    oct_observer_kind kind;
    assert_true(oct_observer_kind_parse(names[i], &kind));
    assert_string_equal(oct_observer_kind_name(kind), names[i]);
  }
  oct_observer_kind kind;
  assert_false(oct_observer_kind_parse("max", &kind));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(extremes_are_exact, setup, context_destroy),
      cmocka_unit_test_setup_teardown(a_range_includes_zero, setup, context_destroy),
      cmocka_unit_test_setup_teardown(nan_and_infinity_are_errors_that_name_the_value, setup, context_destroy),
      cmocka_unit_test_setup_teardown(growing_loses_nothing, setup, context_destroy),
      cmocka_unit_test_setup_teardown(bins_hold_their_values, setup, context_destroy),
      cmocka_unit_test_setup_teardown(half_precision_extremes_fit, setup, context_destroy),
      cmocka_unit_test_setup_teardown(memory_does_not_grow_with_samples, setup, context_destroy),
      cmocka_unit_test_setup_teardown(moving_average_follows_its_formula, setup, context_destroy),
      cmocka_unit_test_setup_teardown(percentile_leaves_out_the_tails, setup, context_destroy),
      cmocka_unit_test_setup_teardown(an_outlier_shows_in_the_effects, setup, context_destroy),
      cmocka_unit_test_setup_teardown(mse_beats_minmax_by_the_true_error, setup, context_destroy),
      cmocka_unit_test_setup_teardown(kl_keeps_a_flat_distribution, setup, context_destroy),
      cmocka_unit_test_setup_teardown(kinds_have_names, setup, context_destroy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
