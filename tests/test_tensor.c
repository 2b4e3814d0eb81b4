/* tensor: element types, shapes, half precision, conversion, tensors over files, bundles.
 * SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include "context_checks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tensor/tensor.h"

/* ---- types and shapes ---- */

static void dtypes_have_names_and_sizes(void **state) {
  (void)state;
  assert_int_equal(oct_dtype_size(OCT_F32), 4);
  assert_int_equal(oct_dtype_size(OCT_BF16), 2);
  assert_int_equal(oct_dtype_size(OCT_BOOL), 1);
  assert_int_equal(oct_dtype_size((oct_dtype)77), 0);
  for (int d = OCT_DTYPE_NONE + 1; d < OCT_DTYPE_COUNT; d++) assert_int_equal(oct_dtype_parse(oct_dtype_name((oct_dtype)d)), d);
  assert_int_equal(oct_dtype_parse("f8"), OCT_DTYPE_NONE);
  assert_int_equal(oct_dtype_parse("none"), OCT_DTYPE_NONE);
  assert_true(oct_dtype_is_float(OCT_F16) && !oct_dtype_is_float(OCT_I64));
  assert_true(oct_dtype_is_signed(OCT_I8) && !oct_dtype_is_signed(OCT_U8));
}

static void shape_counts(void **state) {
  (void)state;
  oct_shape s = oct_shape_of(3, 2, 3, 4), scalar = oct_shape_of(0), unknown = oct_shape_of(2, OCT_DIM_UNKNOWN, 4);
  oct_shape huge = oct_shape_of(3, INT64_MAX, 2, 3), empty = oct_shape_of(4, INT64_MAX, INT64_MAX, 0, 3);
  int64_t strides[OCT_MAX_RANK];
  assert_int_equal(oct_shape_count(&s), 24);
  assert_int_equal(oct_shape_count(&scalar), 1);
  assert_int_equal(oct_shape_count(&unknown), -1);
  assert_int_equal(oct_shape_count(&huge), -1);
  assert_int_equal(oct_shape_count(&empty), 0);
  assert_true(oct_shape_known(&s) && !oct_shape_known(&unknown));
  oct_shape_strides(&s, strides);
  assert_int_equal(strides[0], 12);
  assert_int_equal(strides[1], 4);
  assert_int_equal(strides[2], 1);
  assert_true(oct_shape_equal(&s, &s) && !oct_shape_equal(&s, &scalar));
}

static void shape_prints(void **state) {
  (void)state;
  char text[OCT_SHAPE_TEXT];
  oct_shape s = oct_shape_of(4, 1, 3, OCT_DIM_UNKNOWN, 224), scalar = oct_shape_of(0);
  assert_string_equal(oct_shape_text(&s, text), "[1,3,?,224]");
  assert_string_equal(oct_shape_text(&scalar, text), "[]");
  oct_shape longest = oct_shape_of(8, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX);
  assert_int_equal(strlen(oct_shape_text(&longest, text)), 8 * 19 + 7 + 2);
}

static void expect_broadcast(oct_shape a, oct_shape b, const char *expected) {
  char text[OCT_SHAPE_TEXT] = "no";
  for (int swap = 0; swap < 2; swap++) {
    oct_shape out;
    bool fits = swap ? oct_shape_broadcast(&b, &a, &out) : oct_shape_broadcast(&a, &b, &out);
    assert_string_equal(fits ? oct_shape_text(&out, text) : "no", expected);
  }
}

static void shapes_broadcast_as_in_numpy(void **state) {
  (void)state;
  expect_broadcast(oct_shape_of(3, 2, 1, 4), oct_shape_of(2, 3, 1), "[2,3,4]");
  expect_broadcast(oct_shape_of(0), oct_shape_of(2, 3, 1), "[3,1]");
  expect_broadcast(oct_shape_of(1, 3), oct_shape_of(1, 2), "no");
  expect_broadcast(oct_shape_of(2, 0, 3), oct_shape_of(2, 1, 3), "[0,3]");
  expect_broadcast(oct_shape_of(1, 0), oct_shape_of(1, 2), "no");
  expect_broadcast(oct_shape_of(1, OCT_DIM_UNKNOWN), oct_shape_of(1, 1), "[?]");
  expect_broadcast(oct_shape_of(1, OCT_DIM_UNKNOWN), oct_shape_of(1, OCT_DIM_UNKNOWN), "[?]");
  expect_broadcast(oct_shape_of(1, OCT_DIM_UNKNOWN), oct_shape_of(1, 7), "[7]");
}

/* ---- half precision ---- */

/* IEEE 754 binary16 by its definition. */
static double half_value(uint16_t bits) {
  int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  double magnitude = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                     : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                    : ldexp(fraction, -24);
  return bits & 0x8000 ? -magnitude : magnitude;
}

static void every_half_converts(void **state) {
  (void)state;
  for (uint32_t h = 0; h < 65536; h++) {
    float f = oct_f16_to_f32((uint16_t)h);
    double expected = half_value((uint16_t)h);
    assert_int_equal(signbit(f) != 0, h >> 15);
    if (isnan(expected)) {
      assert_true(isnan(f));
      assert_int_equal(oct_f32_to_f16(f), h | 0x200); /* payload kept, quieted */
    } else {
      assert_true((double)f == expected);
      assert_int_equal(oct_f32_to_f16(f), h);
    }
  }
}

/* Between neighbours: below the middle down, above it up, the middle itself to the even one. */
static void half_rounds_to_nearest_even(void **state) {
  (void)state;
  for (uint32_t h = 0; h < 0x7c00; h++) {
    double upper = h == 0x7bff ? 65536 : half_value((uint16_t)(h + 1)), middle = (half_value((uint16_t)h) + upper) / 2;
    float f = (float)middle; /* exact: one bit more than binary16 has */
    assert_true((double)f == middle);
    assert_int_equal(oct_f32_to_f16(f), h + (h & 1));
    assert_int_equal(oct_f32_to_f16(nextafterf(f, 0)), h);
    assert_int_equal(oct_f32_to_f16(nextafterf(f, INFINITY)), h + 1);
    assert_int_equal(oct_f32_to_f16(-nextafterf(f, INFINITY)), (h + 1) | 0x8000);
  }
  assert_int_equal(oct_f32_to_f16(1e30f), 0x7c00);
  assert_int_equal(oct_f32_to_f16(1e-30f), 0);
  assert_int_equal(oct_f32_to_f16(-0.0f), 0x8000);
}

static void bfloat_rounds_to_nearest_even(void **state) {
  (void)state;
  assert_int_equal(oct_f32_to_bf16(1.0f), 0x3f80);
  assert_int_equal(oct_f32_to_bf16(1.0f + 0x1p-8f), 0x3f80);
  assert_int_equal(oct_f32_to_bf16(1.0f + 0x3p-8f), 0x3f82);
  assert_int_equal(oct_f32_to_bf16(3.4028235e38f), 0x7f80);
  assert_true(isnan(oct_bf16_to_f32(oct_f32_to_bf16(NAN))));
  for (uint32_t b = 0; b < 65536; b++)
    if (!isnan(oct_bf16_to_f32((uint16_t)b))) assert_int_equal(oct_f32_to_bf16(oct_bf16_to_f32((uint16_t)b)), b);
}

/* ---- conversion ---- */

/* Casts one value and returns it as double. */
static double cast_f64(oct_dtype from, double value, oct_dtype to) {
  oct_shape one = oct_shape_of(1, 1);
  oct_tensor *in, *out;
  assert_int_equal(oct_tensor_create(ctx, from, &one, &in), OCTET_OK);
  oct_set_f64(in->data, from, 0, value);
  assert_int_equal(oct_tensor_cast(ctx, in, to, &out), OCTET_OK);
  double result = oct_get_f64(out->data, to, 0);
  oct_tensor_release(in);
  oct_tensor_release(out);
  return result;
}

static int64_t cast_i64(oct_dtype from, int64_t value, oct_dtype to) {
  oct_shape one = oct_shape_of(1, 1);
  oct_tensor *in, *out;
  assert_int_equal(oct_tensor_create(ctx, from, &one, &in), OCTET_OK);
  oct_set_i64(in->data, from, 0, value);
  assert_int_equal(oct_tensor_cast(ctx, in, to, &out), OCTET_OK);
  int64_t result = oct_get_i64(out->data, to, 0);
  oct_tensor_release(in);
  oct_tensor_release(out);
  return result;
}

static void floats_truncate_and_saturate(void **state) {
  (void)state;
  assert_true(cast_f64(OCT_F32, 2.9, OCT_I8) == 2);
  assert_true(cast_f64(OCT_F32, -2.9, OCT_I8) == -2);
  assert_true(cast_f64(OCT_F32, 300, OCT_I8) == 127);
  assert_true(cast_f64(OCT_F32, -300, OCT_I8) == -128);
  assert_true(cast_f64(OCT_F32, -1, OCT_U8) == 0);
  assert_true(cast_f64(OCT_F32, 1e9, OCT_U16) == 65535);
  assert_true(cast_f64(OCT_F64, 4294967296.0, OCT_U32) == 4294967295.0);
  assert_true(cast_f64(OCT_F16, (double)INFINITY, OCT_I32) == 2147483647.0);
  assert_true(cast_f64(OCT_F32, (double)NAN, OCT_I32) == 0);
  oct_shape one = oct_shape_of(1, 1);
  oct_tensor *t;
  assert_int_equal(oct_tensor_create(ctx, OCT_I64, &one, &t), OCTET_OK);
  oct_set_f64(t->data, OCT_I64, 0, 1e30);
  assert_true(*(int64_t *)t->data == INT64_MAX);
  oct_set_f64(t->data, OCT_I64, 0, -1e30);
  assert_true(*(int64_t *)t->data == INT64_MIN);
  oct_set_f64(t->data, OCT_U64, 0, 1e30);
  assert_true(*(uint64_t *)t->data == UINT64_MAX);
  oct_set_f64(t->data, OCT_U64, 0, -5);
  assert_true(*(uint64_t *)t->data == 0);
  oct_tensor_release(t);
}

static void integers_wrap(void **state) {
  (void)state;
  assert_int_equal(cast_i64(OCT_I32, 300, OCT_U8), 44);
  assert_int_equal(cast_i64(OCT_I32, 200, OCT_I8), -56);
  assert_int_equal(cast_i64(OCT_I8, -1, OCT_U32), 4294967295);
  assert_int_equal(cast_i64(OCT_U8, 255, OCT_I8), -1);
  assert_int_equal(cast_i64(OCT_I64, -1, OCT_U64), -1);
  assert_int_equal(cast_i64(OCT_I64, 0x100000000, OCT_BOOL), 1);
  assert_int_equal(cast_i64(OCT_BOOL, 1, OCT_I16), 1);
  assert_true(cast_f64(OCT_F32, 0.25, OCT_BOOL) == 1);
  assert_true(cast_f64(OCT_F32, -0.0, OCT_BOOL) == 0);
}

/* Expected values as numpy's astype gives them (bfloat16: by the rule). */
static void conversions_round_once(void **state) {
  (void)state;
  int64_t out64;
  uint16_t half;
  float f;
  oct_set_f64(&half, OCT_F16, 0, 1 + 0x1p-11 + 0x1p-40); /* through float it would become a tie and go down */
  assert_int_equal(half, 0x3c01);
  oct_set_f64(&half, OCT_F16, 0, 1 + 0x1p-11);
  assert_int_equal(half, 0x3c00);
  oct_set_f64(&half, OCT_F16, 0, 0x1p-25 + 0x1p-60);
  assert_int_equal(half, 1);
  oct_set_f64(&half, OCT_F16, 0, 1e300);
  assert_int_equal(half, 0x7c00);
  oct_set_f64(&half, OCT_BF16, 0, 1 + 0x1p-8 + 0x1p-40);
  assert_int_equal(half, 0x3f81);
  oct_set_i64(&half, OCT_BF16, 0, (1LL << 62) + (1LL << 54) + 1);
  assert_int_equal(half, 0x5e81);
  oct_set_i64(&half, OCT_BF16, 0, -((1LL << 62) + (1LL << 54)));
  assert_int_equal(half, 0xde80);
  oct_set_i64(&f, OCT_F32, 0, (1LL << 62) + (1LL << 38) + 1); /* through double it would become a tie and go down */
  assert_true(f == 0x1.000002p62f);
  oct_set_i64(&out64, OCT_I64, 0, -7);
  assert_int_equal(oct_get_i64(&out64, OCT_I64, 0), -7);
}

static void u64_is_not_negative(void **state) {
  (void)state;
  oct_shape one = oct_shape_of(1, 1);
  oct_tensor *in, *out;
  assert_int_equal(oct_tensor_create(ctx, OCT_U64, &one, &in), OCTET_OK);
  *(uint64_t *)in->data = UINT64_MAX;
  const oct_dtype floats[] = {OCT_F32, OCT_F64, OCT_BF16};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(oct_tensor_cast(ctx, in, floats[i], &out), OCTET_OK);
    assert_true(oct_get_f64(out->data, floats[i], 0) == 0x1p64);
    oct_tensor_release(out);
  }
  assert_int_equal(oct_tensor_cast(ctx, in, OCT_F16, &out), OCTET_OK);
  assert_true(isinf(oct_get_f64(out->data, OCT_F16, 0)));
  oct_tensor_release(out);
  oct_tensor_release(in);
}

/* Every type holds small integers; each conversion between two types keeps them. */
static void small_values_survive_every_pair(void **state) {
  (void)state;
  oct_shape shape = oct_shape_of(2, 3, 5);
  for (int a = OCT_DTYPE_NONE + 1; a < OCT_DTYPE_COUNT; a++)
    for (int b = OCT_DTYPE_NONE + 1; b < OCT_DTYPE_COUNT; b++) {
      oct_tensor *in, *out;
      assert_int_equal(oct_tensor_create(ctx, (oct_dtype)a, &shape, &in), OCTET_OK);
      for (int i = 0; i < 15; i++) oct_set_i64(in->data, (oct_dtype)a, i, i * 8);
      assert_int_equal(oct_tensor_cast(ctx, in, (oct_dtype)b, &out), OCTET_OK);
      assert_true(out->dtype == (oct_dtype)b && oct_shape_equal(&out->shape, &shape));
      for (int i = 0; i < 15; i++) {
        double expected = a == OCT_BOOL || b == OCT_BOOL ? i != 0 : i * 8;
        assert_true(oct_get_f64(out->data, (oct_dtype)b, i) == expected);
      }
      oct_tensor_release(in);
      oct_tensor_release(out);
    }
}

/* ---- tensors ---- */

static void creation_checks_its_shape(void **state) {
  (void)state;
  oct_tensor *t;
  oct_shape unknown = oct_shape_of(2, OCT_DIM_UNKNOWN, 4), huge = oct_shape_of(2, INT64_MAX / 2, 2), s = oct_shape_of(2, 3, 5);
  oct_shape rank = {.rank = 99}, empty = oct_shape_of(2, 0, 5);
  assert_int_equal(oct_tensor_create(ctx, OCT_F32, &unknown, &t), OCTET_SHAPE);
  assert_string_equal(ctx->message, "shape [?,4] is not fully known");
  assert_int_equal(oct_tensor_create(ctx, OCT_F32, &huge, &t), OCTET_SHAPE);
  assert_null(t);
  assert_int_equal(oct_tensor_create(ctx, OCT_DTYPE_NONE, &s, &t), OCTET_INVALID_ARGUMENT);
  assert_int_equal(oct_tensor_create(ctx, OCT_F32, &rank, &t), OCTET_UNSUPPORTED);
  assert_int_equal(oct_tensor_create(ctx, OCT_F32, &empty, &t), OCTET_OK);
  assert_int_equal(t->bytes, 0);
  oct_tensor_release(t);
  assert_int_equal(oct_tensor_create(ctx, OCT_F64, &s, &t), OCTET_OK);
  assert_int_equal(t->bytes, 120);
  assert_int_equal((uintptr_t)t->data % OCT_ALIGNMENT, 0);
  oct_tensor_release(oct_tensor_retain(t));
  oct_tensor_release(t);
  oct_tensor_release(NULL);
}

static void allocation_failures_are_reported(void **state) {
  (void)state;
  oct_shape s = oct_shape_of(2, 3, 5);
  oct_tensor *t;
  for (int n = 0; n < 2; n++) {
    ctx->allocations_left = n;
    assert_int_equal(oct_tensor_create(ctx, OCT_F32, &s, &t), OCTET_OUT_OF_MEMORY);
    assert_null(t);
  }
}

static void tensors_lie_in_files(void **state) {
  (void)state;
  char path[] = "/tmp/octet-tensor-XXXXXX";
  close(mkstemp(path));
  float values[6] = {1, 2, 3, 4, 5, 6};
  assert_int_equal(oct_file_write(ctx, path, values, sizeof values), OCTET_OK);
  oct_file *file;
  assert_int_equal(oct_file_open(ctx, path, &file), OCTET_OK);
  const uint8_t *bytes = oct_file_bytes(file).data;
  oct_shape two = oct_shape_of(1, 2);
  oct_tensor *view, *copy, *none;
  assert_int_equal(oct_tensor_from_bytes(ctx, OCT_F32, &two, file, bytes + 4, 8, &view), OCTET_OK);
  assert_int_equal(oct_tensor_from_bytes(ctx, OCT_F32, &two, file, bytes + 3, 8, &copy), OCTET_OK);
  assert_int_equal(oct_tensor_from_bytes(ctx, OCT_F32, &two, file, bytes, 9, &none), OCTET_FORMAT);
  assert_string_equal(ctx->message, "9 bytes of data for f32 [2], which needs 8");
  assert_null(none);
  oct_file_close(file);
  assert_ptr_equal(view->data, bytes + 4); /* a view, and it keeps the file */
  assert_true(((const float *)view->data)[1] == 3);
  assert_null(copy->file);
  assert_int_equal((uintptr_t)copy->data % OCT_ALIGNMENT, 0);
  oct_tensor_release(view);
  oct_tensor_release(copy);
  unlink(path);
}

static void quantization_parameters(void **state) {
  (void)state;
  oct_region region = {0};
  const float scales[2] = {0.5f, 0.25f};
  const int32_t zeros[2] = {3, -4};
  oct_quant *a = oct_quant_create(ctx, &region, OCT_I8, 0, 2, scales, zeros);
  oct_quant *b = oct_quant_create(ctx, &region, OCT_I8, 0, 2, scales, NULL);
  assert_non_null(a);
  assert_true(a->scale[1] == 0.25f && a->zero_point[1] == -4 && b->zero_point[0] == 0);
  assert_false(oct_quant_equal(a, b));
  memcpy(b->zero_point, zeros, sizeof zeros);
  assert_true(oct_quant_equal(a, b));
  assert_true(oct_quant_equal(NULL, NULL) && !oct_quant_equal(a, NULL));
  assert_null(oct_quant_create(ctx, &region, OCT_I8, -1, 0, NULL, NULL));
  assert_null(oct_quant_create(ctx, &region, OCT_I8, -1, INT64_MAX, NULL, NULL));
  oct_region_free(&region);
}

static oct_tensor *small_tensor(void) {
  oct_shape one = oct_shape_of(1, 1);
  oct_tensor *t = NULL;
  oct_tensor_create(ctx, OCT_F32, &one, &t);
  return t;
}

static void bundles_find_by_name(void **state) {
  (void)state;
  oct_bundle bundle = {0};
  char name[32];
  assert_null(oct_bundle_find(&bundle, "w0"));
  for (int i = 0; i < 1000; i++) {
    snprintf(name, sizeof name, "w%d", i);
    oct_tensor *t = small_tensor();
    *(float *)t->data = (float)i;
    assert_int_equal(oct_bundle_add(ctx, &bundle, name, t, NULL), OCTET_OK);
  }
  for (int i = 0; i < 1000; i++) {
    snprintf(name, sizeof name, "w%d", i);
    assert_true(*(float *)oct_bundle_find(&bundle, name)->tensor->data == (float)i);
  }
  assert_string_equal(bundle.items[5].name, "w5"); /* in the order of adding */
  assert_null(oct_bundle_find(&bundle, "w1000"));
  assert_int_equal(oct_bundle_add(ctx, &bundle, "w7", small_tensor(), NULL), OCTET_FORMAT);
  assert_string_equal(ctx->message, "two tensors are named \"w7\"");
  oct_bundle_free(&bundle);
}

static void failed_add_leaves_the_bundle_as_it_was(void **state) {
  (void)state;
  for (int64_t n = 0; n < 3; n++) { /* the table, the list, the name */
    oct_bundle bundle = {0};
    oct_tensor *t = small_tensor();
    ctx->allocations_left = n;
    assert_int_equal(oct_bundle_add(ctx, &bundle, "x", t, NULL), OCTET_OUT_OF_MEMORY);
    ctx->allocations_left = -1;
    assert_null(oct_bundle_find(&bundle, "x"));
    assert_int_equal(oct_bundle_add(ctx, &bundle, "x", small_tensor(), NULL), OCTET_OK);
    assert_non_null(oct_bundle_find(&bundle, "x"));
    oct_bundle_free(&bundle);
  }
}

#define T(f) cmocka_unit_test_setup_teardown(f, context_create, context_destroy)

int main(void) {
  const struct CMUnitTest tests[] = {
      T(dtypes_have_names_and_sizes),
      T(shape_counts),
      T(shape_prints),
      T(shapes_broadcast_as_in_numpy),
      T(every_half_converts),
      T(half_rounds_to_nearest_even),
      T(bfloat_rounds_to_nearest_even),
      T(floats_truncate_and_saturate),
      T(integers_wrap),
      T(conversions_round_once),
      T(u64_is_not_negative),
      T(small_values_survive_every_pair),
      T(creation_checks_its_shape),
      T(allocation_failures_are_reported),
      T(tensors_lie_in_files),
      T(quantization_parameters),
      T(bundles_find_by_name),
      T(failed_add_leaves_the_bundle_as_it_was),
  };
  return cmocka_run_group_tests_name("tensor", tests, NULL, NULL);
}
