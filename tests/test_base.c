/* base: context, allocator, regions, text buffer, bounds-checked reader, instruction sets, threads.
 * SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "base/reader.h"
#include "base/strbuf.h"
#include "base/threads.h"

static int setup(void **state) {
  unsetenv("OCTET_ISA");
  return oct_context_create((octet_context **)state) == OCTET_OK ? 0 : -1;
}

static int teardown(void **state) {
  oct_context_destroy(*state);
  return 0;
}

/* ---- context ---- */

static void failure_keeps_status_and_message(void **state) {
  octet_context *ctx = *state;
  assert_int_equal(oct_fail(ctx, OCTET_SHAPE, "node %d: %s", 3, "bad"), OCTET_SHAPE);
  assert_string_equal(ctx->message, "node 3: bad");
  assert_int_equal(oct_fail_prefix(ctx, "file %s", "m.onnx"), OCTET_SHAPE);
  assert_string_equal(ctx->message, "file m.onnx: node 3: bad");
  oct_fail(ctx, OCTET_IO, "again: %s", ctx->message); /* the old message as an argument */
  assert_string_equal(ctx->message, "again: file m.onnx: node 3: bad");
}

static void messages_are_cut_and_harmless(void **state) {
  octet_context *ctx = *state;
  char longer[5000];
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = 0;
  oct_fail(ctx, OCTET_FORMAT, "%s", longer);
  assert_int_equal(strlen(ctx->message), sizeof ctx->message - 1);
  assert_string_equal(ctx->message + sizeof ctx->message - 4, "...");
  for (int i = 0; i < 5; i++) oct_fail_prefix(ctx, "%s", longer);
  oct_fail(ctx, OCTET_FORMAT, "name \"%s\"", "a\x1b[2Jb\nc"); /* a name from a file must not drive a terminal */
  assert_string_equal(ctx->message, "name \"a?[2Jb\nc\"");
}

static void warnings_are_kept_once(void **state) {
  octet_context *ctx = *state;
  for (int i = 0; i < 9; i++) oct_warn(ctx, "w%d", i % 5);
  assert_int_equal(ctx->n_warnings, 5);
  assert_string_equal(ctx->warnings[4], "w4");
  oct_warnings_clear(ctx);
  assert_int_equal(ctx->n_warnings, 0);
  for (int i = 0; i < 3000; i++) oct_warn(ctx, "w%d", i);
  assert_int_equal(ctx->n_warnings, 1001);
}

static void status_has_text(void **state) {
  (void)state;
  assert_string_equal(oct_status_text(OCTET_OK), "ok");
  assert_string_equal(oct_status_text(OCTET_NOT_INTEGER), "cannot be integer");
  assert_string_equal(oct_status_text((octet_status)999), "unknown status");
}

static bool stop_at_three(void *user, const char *what, size_t done, size_t total) {
  (void)what;
  (void)total;
  *(size_t *)user = done;
  return done < 3;
}

static void progress_can_cancel(void **state) {
  octet_context *ctx = *state;
  size_t seen = 0;
  assert_int_equal(oct_progress(ctx, "reading", 7, 9), OCTET_OK);
  ctx->progress = stop_at_three;
  ctx->progress_user = &seen;
  assert_int_equal(oct_progress(ctx, "reading", 2, 9), OCTET_OK);
  assert_int_equal(seen, 2);
  assert_int_equal(oct_progress(ctx, "reading", 3, 9), OCTET_CANCELLED);
  assert_string_equal(ctx->message, "reading: cancelled at 3 of 9");
}

/* ---- instruction sets ---- */

static void isa_cap_allows_up_to_the_name(void **state) {
  (void)state;
  uint32_t mask = 0;
  assert_true(oct_isa_cap("scalar", &mask));
  assert_int_equal(mask, 1);
  assert_true(oct_isa_cap("avx2", &mask));
  assert_int_equal(mask, 3);
  assert_true(oct_isa_cap("avx512vnni", &mask));
  assert_int_equal(mask, 63);
  assert_true(oct_isa_cap("amx", &mask));
  assert_int_equal(mask, 127);
  assert_false(oct_isa_cap("avx", &mask));
  assert_false(oct_isa_cap("", &mask));
  assert_string_equal(oct_isa_name(OCT_ISA_AVXVNNI), "avxvnni");
}

/* The kernel's view of the processor, from outside: the flags in /proc/cpuinfo. */
static void isa_detection_agrees_with_the_kernel(void **state) {
  (void)state;
  FILE *file = fopen("/proc/cpuinfo", "r");
  char line[8192] = "";
  while (file && fgets(line, sizeof line, file) && strncmp(line, "flags", 5) != 0) continue;
  if (file) fclose(file);
  if (strncmp(line, "flags", 5) != 0) skip();
  line[strcspn(line, "\n")] = ' ';
  bool avx2 = strstr(line, " avx2 ") && strstr(line, " fma ") && strstr(line, " f16c ");
  bool avx512 = avx2 && strstr(line, " avx512f ") && strstr(line, " avx512bw ") && strstr(line, " avx512vl ") && strstr(line, " avx512dq ");
  bool vnni512 = avx512 && strstr(line, " avx512_vnni ");
  uint32_t mask = oct_isa_detect();
  assert_true(oct_isa_allowed(mask, OCT_ISA_SCALAR));
  assert_int_equal(oct_isa_allowed(mask, OCT_ISA_AVX2), avx2);
  assert_int_equal(oct_isa_allowed(mask, OCT_ISA_AVX512), avx512);
  assert_int_equal(oct_isa_allowed(mask, OCT_ISA_AVX512VBMI), avx512 && strstr(line, " avx512vbmi "));
  assert_int_equal(oct_isa_allowed(mask, OCT_ISA_AVX512VNNI), vnni512);
  if (vnni512) assert_true(oct_isa_allowed(mask, OCT_ISA_AVXVNNI));
  bool amx = vnni512 && strstr(line, " amx_tile ") && strstr(line, " amx_int8 ");
  assert_true(amx || !oct_isa_allowed(mask, OCT_ISA_AMX)); /* the system may refuse it */
}

static void environment_caps_the_context(void **state) {
  (void)state;
  octet_context *ctx;
  setenv("OCTET_ISA", "scalar", 1);
  assert_int_equal(oct_context_create(&ctx), OCTET_OK);
  assert_int_equal(ctx->isa_mask, 1);
  oct_context_destroy(ctx);
  setenv("OCTET_ISA", "sse9", 1);
  assert_int_equal(oct_context_create(&ctx), OCTET_INVALID_ARGUMENT);
  assert_non_null(ctx);
  assert_string_equal(ctx->message,
                      "OCTET_ISA=sse9: unknown instruction set; known are: scalar avx2 avxvnni avx512 avx512vbmi avx512vnni amx");
  oct_context_destroy(ctx);
  unsetenv("OCTET_ISA");
}

/* ---- memory ---- */

static void allocations_are_aligned_and_zero(void **state) {
  octet_context *ctx = *state;
  for (size_t n = 0; n < 300; n += 7) {
    unsigned char *p = oct_alloc(ctx, n, 3);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 64, 0);
    for (size_t i = 0; i < 3 * n; i++) assert_int_equal(p[i], 0);
    oct_free(p);
  }
}

static void impossible_sizes_fail_cleanly(void **state) {
  octet_context *ctx = *state;
  oct_region region = {0};
  assert_null(oct_alloc(ctx, SIZE_MAX / 2, 3));
  assert_int_equal(ctx->status, OCTET_OUT_OF_MEMORY);
  assert_null(oct_alloc_raw(ctx, SIZE_MAX));
  assert_null(oct_alloc_raw(ctx, SIZE_MAX - 64));
  assert_null(oct_region_alloc(ctx, &region, SIZE_MAX, 1));
  assert_null(oct_region_alloc(ctx, &region, SIZE_MAX / 4, 8));
  assert_null(oct_region_alloc(ctx, &region, SIZE_MAX - 40, 1));
  oct_region_free(&region);
}

/* Every kind of allocation; the number of steps that succeeded. */
static int allocate_each_kind(octet_context *ctx) {
  oct_region region = {0};
  int *array = NULL, done = 0;
  size_t capacity = 0;
  void *memory[4] = {0};
  if ((memory[0] = oct_alloc(ctx, 1, 8))) done++;
  if ((memory[1] = oct_alloc_raw(ctx, 8))) done++;
  if ((memory[2] = oct_strdup(ctx, "abc"))) done++;
  if ((memory[3] = oct_strndup(ctx, "abcdef", 2))) done++;
  if (oct_grow(ctx, &array, &capacity, 5, sizeof *array) == OCTET_OK) done++;
  if (oct_grow(ctx, &array, &capacity, 500, sizeof *array) == OCTET_OK) done++;
  if (oct_region_alloc(ctx, &region, 1, 8)) done++;
  if (oct_region_strdup(ctx, &region, "abc")) done++;
  if (oct_region_strndup(ctx, &region, "abcdef", 2)) done++;
  if (oct_region_printf(ctx, &region, "%d", 7)) done++;
  for (int i = 0; i < 4; i++) oct_free(memory[i]);
  oct_free(array);
  oct_region_free(&region);
  return done;
}

static void hook_fails_every_kind_of_allocation(void **state) {
  octet_context *ctx = *state;
  int64_t before = ctx->allocations_made;
  assert_int_equal(allocate_each_kind(ctx), 10);
  assert_int_equal(ctx->allocations_made - before, 10);
  for (int n = 0; n < 10; n++) {
    ctx->status = OCTET_OK;
    ctx->allocations_left = n;
    assert_int_equal(allocate_each_kind(ctx), n);
    assert_int_equal(ctx->status, OCTET_OUT_OF_MEMORY);
  }
}

static void growing_keeps_and_zeroes(void **state) {
  octet_context *ctx = *state;
  int64_t *array = NULL;
  size_t capacity = 0;
  for (size_t n = 1; n <= 1000; n++) {
    assert_int_equal(oct_grow(ctx, &array, &capacity, n, sizeof *array), OCTET_OK);
    assert_true(capacity >= n);
    assert_int_equal(array[n - 1], 0);
    array[n - 1] = (int64_t)n;
  }
  for (size_t n = 1; n <= 1000; n++) assert_int_equal(array[n - 1], n);
  assert_int_equal(oct_grow(ctx, &array, &capacity, SIZE_MAX, sizeof *array), OCTET_OUT_OF_MEMORY);
  assert_int_equal(array[999], 1000);
  oct_free(array);
}

static void regions_give_separate_zeroed_pieces(void **state) {
  octet_context *ctx = *state;
  oct_region region = {0};
  enum { N = 400 };
  unsigned char *piece[N];
  size_t size[N];
  for (size_t i = 0; i < N; i++) {
    size[i] = i % 50 == 49 ? 300000 + i : i * 37 % 1500; /* now and then one larger than a block */
    piece[i] = oct_region_alloc(ctx, &region, size[i], 1);
    assert_non_null(piece[i]);
    assert_int_equal((uintptr_t)piece[i] % 16, 0);
    for (size_t k = 0; k < size[i]; k++) assert_int_equal(piece[i][k], 0);
    memset(piece[i], (int)(i & 255), size[i]);
  }
  for (size_t i = 0; i < N; i++)
    for (size_t k = 0; k < size[i]; k++) assert_int_equal(piece[i][k], i & 255);
  assert_string_equal(oct_region_printf(ctx, &region, "%s-%05d", "a", 42), "a-00042");
  assert_string_equal(oct_region_strndup(ctx, &region, "abcdef", 3), "abc");
  oct_region_free(&region);
  oct_region_free(&region);
}

/* ---- text ---- */

static void expect_float(octet_context *ctx, float value, const char *text) {
  oct_strbuf b = oct_strbuf_make(ctx);
  oct_strbuf_float(&b, value);
  assert_string_equal(b.text, text);
  oct_strbuf_free(&b);
}

static void expect_double(octet_context *ctx, double value, const char *text) {
  oct_strbuf b = oct_strbuf_make(ctx);
  oct_strbuf_double(&b, value);
  assert_string_equal(b.text, text);
  oct_strbuf_free(&b);
}

/* The digits are those that numpy's repr (shortest round trip) prints. */
static void numbers_are_shortest(void **state) {
  octet_context *ctx = *state;
  expect_float(ctx, 0.1f, "0.1");
  expect_float(ctx, 1.0f / 3, "0.33333334");
  expect_float(ctx, 3.4028235e38f, "3.4028235e+38");
  expect_float(ctx, 0x1p-149f, "1e-45");
  expect_float(ctx, 0x1p-126f, "1.1754944e-38");
  expect_float(ctx, 16777216, "16777216");
  expect_float(ctx, -0.0f, "-0");
  expect_float(ctx, INFINITY, "inf");
  expect_float(ctx, -INFINITY, "-inf");
  expect_float(ctx, NAN, "nan");
  expect_double(ctx, 0.1, "0.1");
  expect_double(ctx, 1.0 / 3, "0.3333333333333333");
  expect_double(ctx, 5e-324, "5e-324");
  expect_double(ctx, 1.7976931348623157e308, "1.7976931348623157e+308");
}

static void floats_read_back(void **state) {
  octet_context *ctx = *state;
  uint32_t bits = 1;
  for (int i = 0; i < 20000; i++, bits = bits * 1664525u + 1013904223u) {
    float value;
    memcpy(&value, &bits, 4);
    if (!isfinite(value)) continue;
    oct_strbuf b = oct_strbuf_make(ctx);
    oct_strbuf_float(&b, value);
    float back = strtof(b.text, NULL);
    assert_memory_equal(&back, &value, 4);
    oct_strbuf_free(&b);
  }
}

static void json_is_escaped_and_valid_utf8(void **state) {
  octet_context *ctx = *state;
  oct_strbuf b = oct_strbuf_make(ctx);
  oct_strbuf_json(&b, "a\"b\\c\n\x01\xc3\xa9 \xff \xc0\xaf \xed\xa0\x80 \xe2\x82\xac \xf0\x9f\x98\x80 \xe2\x82");
  assert_string_equal(b.text, "\"a\\\"b\\\\c\\n\\u0001\xc3\xa9 \\ufffd \\ufffd\\ufffd \\ufffd\\ufffd\\ufffd \xe2\x82\xac "
                              "\xf0\x9f\x98\x80 \\ufffd\\ufffd\"");
  oct_strbuf_free(&b);
}

static void buffer_grows_and_is_taken(void **state) {
  octet_context *ctx = *state;
  oct_strbuf b = oct_strbuf_make(ctx);
  char *text;
  assert_int_equal(oct_strbuf_take(&b, &text), OCTET_OK);
  assert_string_equal(text, "");
  oct_free(text);
  for (int i = 0; i < 1000; i++) oct_strbuf_printf(&b, "%04d,", i);
  oct_strbuf_append(&b, "xyz", 2);
  assert_int_equal(oct_strbuf_take(&b, &text), OCTET_OK);
  assert_int_equal(strlen(text), 5002);
  assert_memory_equal(text + 5 * 789, "0789,0790,", 10);
  oct_free(text);
}

static void buffer_failure_is_found_at_the_end(void **state) {
  octet_context *ctx = *state;
  oct_strbuf b = oct_strbuf_make(ctx);
  char *text;
  ctx->allocations_left = 1;
  for (int i = 0; i < 100; i++) oct_strbuf_puts(&b, "0123456789");
  assert_true(b.failed);
  assert_int_equal(oct_strbuf_take(&b, &text), OCTET_OUT_OF_MEMORY);
  assert_null(text);
}

/* ---- reader ---- */

static void reader_stops_at_the_end(void **state) {
  (void)state;
  const uint8_t bytes[] = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b};
  oct_reader r = oct_reader_make(bytes, sizeof bytes);
  assert_int_equal(oct_read_u16le(&r), 0x0201);
  assert_int_equal(oct_read_u32be(&r), 0x03040506);
  assert_int_equal(oct_read_u8(&r), 7);
  assert_int_equal(oct_reader_left(&r), 4);
  assert_int_equal(oct_read_u64le(&r), 0);
  assert_true(r.failed);
  assert_int_equal(oct_read_u8(&r), 0); /* failure sticks */
  r = oct_reader_make(bytes, sizeof bytes);
  assert_null(oct_read_bytes(&r, SIZE_MAX));
}

/* ---- threads ---- */

typedef struct tally {
  unsigned char seen[1000];
  size_t workers[16], pieces;
  bool upward;
} tally;

/* Whether float additions round up; the mode itself may differ from what fegetround() says, which asks another unit on x86. */
static bool rounds_upward(void) {
  volatile float one = 1, tiny = 0x1p-30f;
  return one + tiny > 1;
}

static void count_items(void *user, size_t begin, size_t end, size_t worker) {
  tally *t = user;
  bool good = worker < 16 && begin < end && end <= 1000 && rounds_upward() == t->upward;
  __atomic_add_fetch(&t->pieces, good ? 1 : 999, __ATOMIC_RELAXED); /* 999 fails the caller's check: no assertion in a worker */
  if (!good) return;
  for (size_t i = begin; i < end; i++) t->seen[i]++;
  t->workers[worker]++;
}

static void each_item_is_done_once(void **state) {
  octet_context *ctx = *state;
  for (int threads = 1; threads <= 5; threads++) {
    ctx->threads = threads;
    for (size_t count = 0; count <= 1000; count = count * 3 + 1) {
      for (size_t grain = 0; grain < 40; grain += 13) {
        tally t = {0};
        oct_parallel(ctx, count, grain, count_items, &t);
        for (size_t i = 0; i < 1000; i++) assert_int_equal(t.seen[i], i < count);
        for (int w = 0; w < 16; w++) assert_true(t.workers[w] <= 1);
        assert_true(t.pieces <= (size_t)threads && (grain == 0 || t.pieces <= count / grain + 1));
      }
    }
  }
}

static void workers_take_the_callers_rounding(void **state) {
  octet_context *ctx = *state;
  ctx->threads = 3;
  tally first = {0}, second = {.upward = true};
  oct_parallel(ctx, 900, 1, count_items, &first);
  fesetround(FE_UPWARD);
  oct_parallel(ctx, 900, 1, count_items, &second);
  fesetround(FE_TONEAREST);
  assert_int_equal(first.pieces, 3);
  assert_int_equal(second.pieces, 3);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      T(failure_keeps_status_and_message),
      T(messages_are_cut_and_harmless),
      T(warnings_are_kept_once),
      T(status_has_text),
      T(progress_can_cancel),
      T(isa_cap_allows_up_to_the_name),
      T(isa_detection_agrees_with_the_kernel),
      T(environment_caps_the_context),
      T(allocations_are_aligned_and_zero),
      T(impossible_sizes_fail_cleanly),
      T(hook_fails_every_kind_of_allocation),
      T(growing_keeps_and_zeroes),
      T(regions_give_separate_zeroed_pieces),
      T(numbers_are_shortest),
      T(floats_read_back),
      T(json_is_escaped_and_valid_utf8),
      T(buffer_grows_and_is_taken),
      T(buffer_failure_is_found_at_the_end),
      T(reader_stops_at_the_end),
      T(each_item_is_done_once),
      T(workers_take_the_callers_rounding),
  };
  return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
