/* IDX files, plain and gzipped: bytes written out from the format's description, and MNIST's own files.
 * SPDX-License-Identifier: MIT */
#include "container_checks.h"

#include <zlib.h>

#include "formats/idx.h"

/* Type 0x08 (u8), two dimensions 2 x 3. */
static const uint8_t BYTES[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 10, 20, 30, 40, 50, 255};

static oct_tensor *read_ok(const void *bytes, size_t size) {
  oct_tensor *t;
  if (oct_idx_read_bytes(ctx, (oct_bytes){bytes, size}, NULL, "case", &t) != OCTET_OK) fail_msg("%s", ctx->message);
  return t;
}

static void expect_error(const void *bytes, size_t size, const char *words) {
  oct_tensor *t;
  assert_int_not_equal(oct_idx_read_bytes(ctx, (oct_bytes){bytes, size}, NULL, "some.idx", &t), OCTET_OK);
  assert_null(t);
  if (!strstr(ctx->message, words) || !strstr(ctx->message, "some.idx")) fail_msg("the message lacks \"%s\": %s", words, ctx->message);
}

/* One gzip member. */
static size_t gzip(const void *bytes, size_t size, uint8_t *to, size_t room) {
  z_stream z = {0};
  assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  z.next_in = (Bytef *)(uintptr_t)bytes;
  z.avail_in = (uInt)size;
  z.next_out = to;
  z.avail_out = (uInt)room;
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  deflateEnd(&z);
  return room - z.avail_out;
}

static void expect_bytes(oct_tensor *t) {
  assert_int_equal(t->dtype, OCT_U8);
  assert_int_equal(t->shape.rank, 2);
  assert_true(t->shape.dim[0] == 2 && t->shape.dim[1] == 3);
  assert_memory_equal(t->data, BYTES + 12, 6);
  oct_tensor_release(t);
}

static void test_bytes(void **state) {
  (void)state;
  uint8_t packed[256];
  expect_bytes(read_ok(BYTES, sizeof BYTES));
  expect_bytes(read_ok(packed, gzip(BYTES, sizeof BYTES, packed, sizeof packed)));
  size_t first = gzip(BYTES, 7, packed, sizeof packed); /* two members are one stream (RFC 1952, 2.2) */
  expect_bytes(read_ok(packed, first + gzip(BYTES + 7, sizeof BYTES - 7, packed + first, sizeof packed - first)));
}

/* Each element type of the format, with -2 (or 254) and 258 (or 2) stored big-endian. */
static void test_types(void **state) {
  (void)state;
  static const struct {
    uint8_t bytes[24];
    size_t size;
    oct_dtype dtype;
    double values[2];
  } cases[] = {
      {{0, 0, 0x09, 1, 0, 0, 0, 2, 0xfe, 2}, 10, OCT_I8, {-2, 2}},
      {{0, 0, 0x0b, 1, 0, 0, 0, 2, 0xff, 0xfe, 1, 2}, 12, OCT_I16, {-2, 258}},
      {{0, 0, 0x0c, 1, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0xfe, 0, 0, 1, 2}, 16, OCT_I32, {-2, 258}},
      {{0, 0, 0x0d, 1, 0, 0, 0, 2, 0xc0, 0, 0, 0, 0x43, 0x81, 0, 0}, 16, OCT_F32, {-2, 258}},
      {{0, 0, 0x0e, 1, 0, 0, 0, 2, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0x70, 0x20, 0, 0, 0, 0, 0}, 24, OCT_F64, {-2, 258}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    oct_tensor *t = read_ok(cases[i].bytes, cases[i].size);
    assert_int_equal(t->dtype, cases[i].dtype);
    assert_true(oct_get_f64(t->data, t->dtype, 0) == cases[i].values[0] && oct_get_f64(t->data, t->dtype, 1) == cases[i].values[1]);
    oct_tensor_release(t);
  }
}

static void test_refused(void **state) {
  (void)state;
  uint8_t bytes[sizeof BYTES + 32], packed[4096], zeros[1000] = {0};
  expect_error(BYTES, 17, "only 5");
  expect_error(BYTES, 11, "cut off");
  expect_error(BYTES, 3, "no IDX file");
  expect_error("", 0, "no IDX file");
  expect_error("PNG", 3, "no IDX file");
  memcpy(bytes, BYTES, sizeof BYTES);
  bytes[2] = 0x0a;
  expect_error(bytes, sizeof BYTES, "0x0a");
  memcpy(bytes, BYTES, sizeof BYTES);
  memset(bytes + 4, 0xff, 8); /* 4294967295 x 4294967295 */
  expect_error(bytes, sizeof BYTES, "overflows");
  bytes[3] = 9;
  expect_error(bytes, sizeof bytes, "9 dimensions");
  memcpy(bytes, BYTES, sizeof BYTES);
  memset(bytes + 4, 0x7f, 4); /* far more than deflate can hold in so few bytes */
  expect_error(packed, gzip(bytes, sizeof BYTES, packed, sizeof packed), "6417186429 bytes");
  memcpy(zeros, BYTES, sizeof BYTES); /* 982 bytes too many */
  expect_error(packed, gzip(zeros, sizeof zeros, packed, sizeof packed), "beyond the 6 bytes");
  size_t size = gzip(BYTES, sizeof BYTES, packed, sizeof packed);
  for (size_t cut = 2; cut < size; cut++) expect_error(packed, cut, "cut off");
  packed[size - 5] ^= 1; /* check sum */
  expect_error(packed, size, "damaged");
}

static octet_status read_bytes(octet_context *context, oct_bytes bytes) {
  oct_tensor *t;
  octet_status status = oct_idx_read_bytes(context, bytes, NULL, "damaged", &t);
  oct_tensor_release(t);
  return status;
}

static void test_allocations(void **state) {
  (void)state;
  uint8_t packed[256];
  size_t size = gzip(BYTES, sizeof BYTES, packed, sizeof packed);
  octet_status status = OCTET_OUT_OF_MEMORY;
  for (int64_t n = 0; status != OCTET_OK; n++) {
    ctx->allocations_left = n;
    status = read_bytes(ctx, (oct_bytes){packed, size});
    ctx->allocations_left = -1;
    assert_true(status == OCTET_OK || status == OCTET_OUT_OF_MEMORY);
  }
}

static void test_mnist(void **state) {
  (void)state;
  const char *images = shared_path("mnist/t10k-images-idx3-ubyte.gz"), *labels = shared_path("mnist/t10k-labels-idx1-ubyte.gz");
  if (!images || !labels) skip();
  oct_tensor *x, *y;
  assert_int_equal(oct_idx_read(ctx, images, &x), OCTET_OK);
  assert_int_equal(oct_idx_read(ctx, labels, &y), OCTET_OK);
  assert_true(x->shape.rank == 3 && x->shape.dim[0] == 10000 && x->shape.dim[1] == 28 && x->shape.dim[2] == 28);
  assert_true(y->shape.rank == 1 && y->shape.dim[0] == 10000);
  static const uint8_t first[] = {7, 2, 1, 0, 4, 1, 4, 9, 5, 9}; /* the test set begins so */
  assert_memory_equal(y->data, first, sizeof first);
  oct_tensor_release(x);
  oct_tensor_release(y);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bytes),       cmocka_unit_test(test_types), cmocka_unit_test(test_refused),
      cmocka_unit_test(test_allocations), cmocka_unit_test(test_mnist),
  };
  return cmocka_run_group_tests(tests, context_create, context_destroy);
}
