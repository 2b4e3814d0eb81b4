/* Measuring: steps and their costs, peaks that no compiler took away, energy counters read from files like the kernel's.
 * No test holds a time against a limit: only what must be so at any speed.
 * SPDX-License-Identifier: MIT */
#include "api_checks.h"

#include <sys/stat.h>

#include "base/energy.h"
#include "kernels/peak.h"

/* ---- Steps ---- */

static octet_session *mnist_session(int64_t batch) {
  octet_model *model = read_model(MNIST "mnist.oct");
  octet_session_options o = octet_session_options_default();
  octet_session *session;
  o.batch = batch;
  check(octet_session_create(model, &o, &session));
  octet_model_destroy(model);
  return session;
}

/* conv1 15x15x8x9, conv2 11x11x16x(8x4), conv3 9x9x32x(16x4), fc 32x10 */
#define MNIST_MACS (16200.0 + 61952 + 165888 + 320)

static void steps_have_times_and_costs(void **state) {
  (void)state;
  for (int64_t batch = 1; batch <= 300; batch += 299) { /* 300 runs in pieces */
    octet_session *session = mnist_session(batch);
    size_t n = octet_session_step_count(session);
    octet_step_timing *t = calloc(n, sizeof *t);
    assert_non_null(t);
    check(octet_session_time_steps(session, 0.001, t));
    double macs = 0, weights = 0, written = 0;
    for (size_t i = 0; i < n; i++) {
      assert_true(t[i].min_ms >= 0 && t[i].min_ms <= t[i].median_ms && t[i].median_ms < 1e6);
      assert_false(t[i].integer);
      macs += octet_session_step(session, i).macs;
      weights += t[i].weight_bytes;
      written += t[i].written_bytes;
    }
    assert_true(fabs(macs - MNIST_MACS * (double)batch) <= MNIST_MACS * 64); /* the last piece may do samples twice */
    assert_true(weights >= 4.0 * (72 + 512 + 2048 + 320));                   /* floats of the four layers */
    assert_true(written >= 4.0 * (double)batch * (15 * 15 * 8 + 11 * 11 * 16 + 9 * 9 * 32 + 10));
    free(t);
    octet_session_destroy(session);
  }
}

static void timing_is_ordered(void **state) {
  (void)state;
  octet_session *session = mnist_session(1);
  octet_timing t;
  check(octet_session_time(session, 0.01, &t));
  assert_true(t.runs >= 3 && t.min_ms > 0);
  assert_true(t.min_ms <= t.median_ms && t.median_ms <= t.p90_ms && t.p90_ms <= t.p99_ms);
  octet_energy e;
  check(octet_session_energy(session, 0.01, &e));
  assert_true(e.reason[0] ? e.joules <= 0 : e.joules > 0 && e.watts > 0 && e.runs > 0);
  octet_session_destroy(session);
}

/* ---- Peaks ---- */

static void peaks_are_possible(void **state) {
  (void)state;
  octet_peaks p;
  check(octet_context_peaks(ctx, &p));
  /* A loop that the compiler took away would show millions. */
  assert_true(p.int8_gmacs > 0 && p.int8_gmacs < 20000);
  assert_true(p.float_gmacs > 0 && p.float_gmacs < 5000);
  for (int i = 0; i < 4; i++) assert_true(p.read_gbs[i] > 0 && p.read_gbs[i] < 20000);
  octet_peaks scalar;
  check(octet_context_set_isa(ctx, "scalar"));
  check(octet_context_peaks(ctx, &scalar));
  assert_true(scalar.int8_gmacs > 0 && scalar.int8_gmacs < 20000 && scalar.float_gmacs > 0 && scalar.float_gmacs < 5000);
}

/* One changed byte anywhere changes what reading returns. */
static void reading_reads_all(void **state) {
  (void)state;
  uint32_t mask = oct_isa_detect();
  static _Alignas(64) uint8_t data[3 * OCT_PEAK_READ_BLOCK];
  for (const oct_peak_kernel *const *k = oct_peak_kernels; *k; k++) {
    if (!(*k)->read || !oct_isa_allowed(mask, (*k)->isa)) continue;
    assert_true((*k)->read(data, sizeof data) == 0);
    for (size_t i = 0; i < sizeof data; i++) {
      data[i] = 1;
      assert_true((*k)->read(data, sizeof data) != 0);
      data[i] = 0;
    }
  }
}

static void rounds_are_done(void **state) {
  (void)state;
  uint32_t mask = oct_isa_detect();
  float operands[OCT_PEAK_OPERAND_BYTES / sizeof(float)];
  for (size_t i = 0; i < sizeof operands / sizeof *operands; i++) operands[i] = 0.5f;
  for (const oct_peak_kernel *const *k = oct_peak_kernels; *k; k++) {
    if (!oct_isa_allowed(mask, (*k)->isa) || !(*k)->fma_f32) continue;
    float one = (*k)->fma_f32(1, operands), two = (*k)->fma_f32(2, operands);
    assert_true(isfinite(one) && two > one);
  }
}

/* ---- Energy ---- */

static char folder[] = "energy_zones_XXXXXX";

static void write_zone(int zone, const char *file, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/intel-rapl:%d", folder, zone);
  mkdir(path, 0700);
  snprintf(path, sizeof path, "%s/intel-rapl:%d/%s", folder, zone, file);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static void energy_is_of_packages(void **state) {
  (void)state;
  oct_energy_reading before, after;
  assert_non_null(oct_energy_read("no/such/folder", &before));
  assert_non_null(mkdtemp(folder));
  assert_non_null(oct_energy_read(folder, &before));
  write_zone(0, "name", "package-0\n");
  write_zone(0, "energy_uj", "1000000\n");
  write_zone(0, "max_energy_range_uj", "9000000\n");
  write_zone(1, "name", "psys\n"); /* counts the packages once more */
  write_zone(1, "energy_uj", "5\n");
  write_zone(2, "name", "package-1\n");
  write_zone(2, "energy_uj", "8000000\n");
  write_zone(2, "max_energy_range_uj", "9000000\n");
  assert_null(oct_energy_read(folder, &before));
  assert_int_equal(before.zones, 2);
  write_zone(0, "energy_uj", "3500000\n");
  write_zone(2, "energy_uj", "500000\n"); /* went round: 1 J to the end and 0.5 J after it */
  assert_null(oct_energy_read(folder, &after));
  assert_true(fabs(oct_energy_between(&before, &after) - (2.5 + 1.5)) < 1e-9);
  write_zone(0, "energy_uj", "none\n");
  write_zone(2, "energy_uj", "\n");
  assert_non_null(oct_energy_read(folder, &after));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(steps_have_times_and_costs, setup, teardown),
      cmocka_unit_test_setup_teardown(timing_is_ordered, setup, teardown),
      cmocka_unit_test_setup_teardown(peaks_are_possible, setup, teardown),
      cmocka_unit_test(reading_reads_all),
      cmocka_unit_test(rounds_are_done),
      cmocka_unit_test(energy_is_of_packages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
