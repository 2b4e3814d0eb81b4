/* NumPy arrays: files written by numpy itself (scripts/make_container_cases.py), refused and damaged ones, and writing.
 * SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include "container_checks.h"

#include "formats/npy.h"

static char folder[256], path[512], path2[512];

static int setup(void **state) {
  if (!folder_create(folder)) return -1;
  snprintf(path, sizeof path, "%s/a", folder);
  snprintf(path2, sizeof path2, "%s/b", folder);
  return context_create(state);
}
static int teardown(void **state) {
  (void)state;
  unlink(path);
  unlink(path2);
  rmdir(folder);
  oct_context_destroy(ctx);
  return 0;
}

static oct_tensor *read_file(const char *name) {
  oct_tensor *tensor;
  if (oct_npy_read(ctx, data_path(name), &tensor) != OCTET_OK) fail_msg("%s", ctx->message);
  return tensor;
}

/* Element i of the row-major array is i * step + start. */
static void expect_grid(const char *name, oct_dtype dtype, double start, double step) {
  oct_tensor *tensor = read_file(name);
  oct_shape shape = oct_shape_of(3, (int64_t)2, (int64_t)3, (int64_t)4);
  assert_int_equal(tensor->dtype, dtype);
  assert_true(oct_shape_equal(&tensor->shape, &shape));
  for (int64_t i = 0; i < 24; i++)
    if (oct_get_f64(tensor->data, dtype, i) != start + step * (double)i) fail_msg("%s: element %d", name, (int)i);
  oct_tensor_release(tensor);
}

static void test_orders(void **state) {
  (void)state;
  expect_grid("npy/f32.npy", OCT_F32, 0, 0.125);
  expect_grid("npy/f64_big.npy", OCT_F64, 0, 0.125);
  expect_grid("npy/i16_big_fortran.npy", OCT_I16, -5, 1);
  expect_grid("npy/u8_fortran.npy", OCT_U8, 0, 1);
}

static void test_types(void **state) {
  (void)state;
  oct_tensor *t = read_file("npy/bool.npy");
  assert_int_equal(t->dtype, OCT_BOOL);
  assert_memory_equal(t->data, "\1\0\1", 3);
  oct_tensor_release(t);
  t = read_file("npy/f16.npy");
  assert_true(oct_get_f64(t->data, OCT_F16, 1) == 65504 && oct_get_f64(t->data, OCT_F16, 2) == -2);
  oct_tensor_release(t);
  t = read_file("npy/i64.npy");
  assert_true(((int64_t *)t->data)[0] == INT64_MIN && ((int64_t *)t->data)[1] == INT64_MAX);
  oct_tensor_release(t);
  t = read_file("npy/u64.npy");
  assert_true(t->dtype == OCT_U64 && *(uint64_t *)t->data == UINT64_MAX);
  oct_tensor_release(t);
  t = read_file("npy/scalar.npy");
  assert_true(t->shape.rank == 0 && *(float *)t->data == 0.25f);
  oct_tensor_release(t);
  t = read_file("npy/empty.npy");
  assert_true(t->shape.rank == 2 && t->shape.dim[0] == 0 && t->bytes == 0);
  oct_tensor_release(t);
}

static void test_versions(void **state) {
  (void)state;
  for (int version = 2; version <= 3; version++) {
    oct_tensor *t = read_file(version == 2 ? "npy/version2.npy" : "npy/version3.npy");
    assert_true(t->dtype == OCT_I32 && *(int32_t *)t->data == 7);
    oct_tensor_release(t);
  }
}

static void expect_refused(const char *name, const char *words) {
  oct_tensor *t;
  assert_int_not_equal(oct_npy_read(ctx, data_path(name), &t), OCTET_OK);
  assert_null(t);
  if (!strstr(ctx->message, words)) fail_msg("%s: the message lacks \"%s\": %s", name, words, ctx->message);
  if (!strstr(ctx->message, name)) fail_msg("%s: the message does not name the file: %s", name, ctx->message);
}

static void test_refused(void **state) {
  (void)state;
  expect_refused("npy/bad_object.npy", "Python objects");
  expect_refused("npy/bad_record.npy", "records");
  expect_refused("npy/bad_complex.npy", "<c8");
  expect_refused("npy/bad_text.npy", "<U2");
  expect_refused("npy/bad_nine.npy", "more than 8 dimensions");
  expect_refused("npy/stored.npz", "no .npy file");
}

/* A header of version 1 around a literal; `data` zero bytes follow. */
static octet_status read_literal(const char *literal, size_t data) {
  uint8_t bytes[1024] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
  size_t length = strlen(literal);
  bytes[8] = (uint8_t)length;
  memcpy(bytes + 10, literal, length);
  oct_tensor *t;
  octet_status status = oct_npy_read_bytes(ctx, (oct_bytes){bytes, 10 + length + data}, NULL, "literal", &t);
  oct_tensor_release(t);
  return status;
}

static void test_headers(void **state) {
  (void)state;
  assert_int_equal(read_literal("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 12), OCTET_OK);
  assert_int_equal(read_literal("{\"shape\":(3L, 1L),\"descr\":\"<f4\",\"fortran_order\":True}\n", 12), OCTET_OK);
  assert_int_equal(read_literal("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 11), OCTET_FORMAT);
  assert_int_equal(read_literal("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 12), OCTET_FORMAT);
  assert_int_equal(read_literal("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,), }", 12), OCTET_FORMAT);
  assert_int_equal(read_literal("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296), }", 12), OCTET_FORMAT);
  assert_int_equal(read_literal("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,), }", 12), OCTET_FORMAT);
  assert_int_equal(read_literal("{'descr': '<f4', 'fortran_order': False}", 12), OCTET_FORMAT);
  assert_int_equal(read_literal("{'descr': '<f4', 'fortran_order': Maybe, 'shape': ()}", 12), OCTET_FORMAT);
  assert_int_equal(read_literal("{'descr': '<f4', 'fortran_order': False, 'shape': (3", 12), OCTET_FORMAT);
  assert_int_equal(read_literal("{'other': 1, 'descr': '<f4', 'fortran_order': False, 'shape': ()}", 12), OCTET_FORMAT);
  assert_int_equal(read_literal("", 0), OCTET_FORMAT);
}

static void check_archive(const char *file) {
  oct_bundle b;
  if (oct_npz_read(ctx, file, &b) != OCTET_OK) fail_msg("%s", ctx->message);
  assert_int_equal(b.count, 2);
  const oct_tensor *a = oct_bundle_find(&b, "a")->tensor;
  for (int64_t i = 0; i < 24; i++) assert_true(((float *)a->data)[i] == (float)i);
  assert_memory_equal(oct_bundle_find(&b, "b")->tensor->data, "\1\2\3", 3);
  oct_bundle_free(&b);
}

static void test_archives(void **state) {
  (void)state;
  check_archive(data_path("npy/stored.npz"));
  check_archive(data_path("npy/deflated.npz"));
  oct_bundle b;
  assert_int_equal(oct_npz_read(ctx, data_path("npy/f32.npy"), &b), OCTET_FORMAT);
}

/* A bundle with one tensor of every type, of ranks 0 to 3, with bytes that count up. */
static void make_bundle(oct_bundle *b) {
  *b = (oct_bundle){0};
  for (oct_dtype dtype = OCT_F32; dtype < OCT_DTYPE_COUNT; dtype++) {
    oct_tensor *t;
    oct_shape shape = oct_shape_of((int)dtype % 4, (int64_t)2, (int64_t)3, (int64_t)5);
    assert_int_equal(oct_tensor_create(ctx, dtype, &shape, &t), OCTET_OK);
    for (size_t i = 0; i < t->bytes; i++) ((uint8_t *)t->data)[i] = dtype == OCT_BOOL ? i & 1 : (uint8_t)(i * 7 + dtype);
    assert_int_equal(oct_bundle_add(ctx, b, oct_dtype_name(dtype), t, NULL), OCTET_OK);
  }
}

static void expect_same(const oct_tensor *a, const oct_tensor *b) {
  assert_int_equal(a->dtype, b->dtype);
  assert_true(oct_shape_equal(&a->shape, &b->shape));
  assert_memory_equal(a->data, b->data, a->bytes);
}

static void test_written(void **state) {
  (void)state;
  oct_bundle b, back;
  make_bundle(&b);
  for (size_t i = 0; i < b.count; i++) {
    oct_tensor *t;
    assert_int_equal(oct_npy_write(ctx, path, b.items[i].tensor), OCTET_OK);
    assert_int_equal(oct_npy_read(ctx, path, &t), OCTET_OK);
    expect_same(b.items[i].tensor, t);
    oct_tensor_release(t);
  }
  assert_int_equal(oct_npz_write(ctx, path, &b), OCTET_OK);
  assert_int_equal(oct_npz_read(ctx, path, &back), OCTET_OK);
  assert_int_equal(back.count, b.count);
  for (size_t i = 0; i < b.count; i++) {
    assert_string_equal(back.items[i].name, b.items[i].name); /* in order */
    expect_same(b.items[i].tensor, back.items[i].tensor);
  }
  oct_bundle_free(&back);
  oct_bundle_free(&b);
}

static void expect_equal_files(const char *a, const char *b) {
  oct_file *x, *y;
  assert_int_equal(oct_file_open(ctx, a, &x), OCTET_OK);
  assert_int_equal(oct_file_open(ctx, b, &y), OCTET_OK);
  assert_int_equal(oct_file_bytes(x).size, oct_file_bytes(y).size);
  assert_memory_equal(oct_file_bytes(x).data, oct_file_bytes(y).data, oct_file_bytes(x).size);
  oct_file_close(x);
  oct_file_close(y);
}

/* What is written is what numpy writes, byte for byte, for plain arrays; archives repeat. */
static void test_bytes(void **state) {
  (void)state;
  static const char *const names[] = {"npy/f32.npy", "npy/bool.npy", "npy/i64.npy", "npy/scalar.npy", "npy/empty.npy"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    oct_tensor *t = read_file(names[i]);
    assert_int_equal(oct_npy_write(ctx, path, t), OCTET_OK);
    expect_equal_files(path, data_path(names[i]));
    oct_tensor_release(t);
  }
  oct_bundle b;
  make_bundle(&b);
  assert_int_equal(oct_npz_write(ctx, path, &b), OCTET_OK);
  assert_int_equal(oct_npz_write(ctx, path2, &b), OCTET_OK);
  expect_equal_files(path, path2);
  oct_bundle_free(&b);
}

/* An entry that claims 4 GB in a few bytes is refused before memory is taken. */
static void test_bomb(void **state) {
  (void)state;
  oct_file *file;
  oct_bundle b;
  assert_int_equal(oct_file_open(ctx, data_path("npy/deflated.npz"), &file), OCTET_OK);
  oct_bytes bytes = oct_file_bytes(file);
  uint8_t *copy = malloc(bytes.size);
  memcpy(copy, bytes.data, bytes.size);
  for (size_t i = 0; i + 46 < bytes.size; i++)
    if (!memcmp(copy + i, "PK\1\2", 4)) memcpy(copy + i + 24, "\xfe\xff\xff\xff", 4);
  assert_int_equal(oct_npz_read_bytes(ctx, (oct_bytes){copy, bytes.size}, "bomb", &b), OCTET_FORMAT);
  assert_non_null(strstr(ctx->message, "declares 4294967294 bytes"));
  oct_bundle_free(&b);
  free(copy);
  oct_file_close(file);
}

static octet_status read_array(octet_context *context, oct_bytes bytes) {
  oct_tensor *t;
  octet_status status = oct_npy_read_bytes(context, bytes, NULL, "damaged", &t);
  oct_tensor_release(t);
  return status;
}
static octet_status read_archive(octet_context *context, oct_bytes bytes) {
  oct_bundle b;
  octet_status status = oct_npz_read_bytes(context, bytes, "damaged", &b);
  oct_bundle_free(&b);
  return status;
}

static void test_damaged(void **state) {
  (void)state;
  check_damaged(ctx, data_path("npy/i16_big_fortran.npy"), read_array);
  check_damaged(ctx, data_path("npy/stored.npz"), read_archive);
  check_damaged(ctx, data_path("npy/deflated.npz"), read_archive);
}

static void test_allocations(void **state) {
  (void)state;
  check_allocations(ctx, data_path("npy/i16_big_fortran.npy"), read_array);
  check_allocations(ctx, data_path("npy/deflated.npz"), read_archive);
  oct_bundle b;
  make_bundle(&b);
  octet_status status = OCTET_OUT_OF_MEMORY;
  for (int64_t n = 0; status != OCTET_OK; n++) {
    ctx->allocations_left = n;
    status = oct_npz_write(ctx, path, &b);
    ctx->allocations_left = -1;
    assert_true(status == OCTET_OK || status == OCTET_OUT_OF_MEMORY);
  }
  oct_bundle_free(&b);
}

static void test_real(void **state) {
  (void)state;
  const char *file = shared_path("data-kws/mfcc_49x10_f32.npy");
  if (!file) skip();
  oct_tensor *t;
  assert_int_equal(oct_npy_read(ctx, file, &t), OCTET_OK);
  assert_int_equal(t->dtype, OCT_F32);
  assert_int_equal(t->shape.dim[0], 16);
  oct_tensor_release(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_orders),  cmocka_unit_test(test_types),    cmocka_unit_test(test_versions),    cmocka_unit_test(test_refused),
      cmocka_unit_test(test_headers), cmocka_unit_test(test_archives), cmocka_unit_test(test_written),     cmocka_unit_test(test_bytes),
      cmocka_unit_test(test_bomb),    cmocka_unit_test(test_damaged),  cmocka_unit_test(test_allocations), cmocka_unit_test(test_real),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
