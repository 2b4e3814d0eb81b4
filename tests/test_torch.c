/* PyTorch checkpoints: the project's small files (scripts/torch_files.py says what is in them), refused and damaged ones,
 * and real ones. Expected values are those that the script wrote, or that Python's own pickle reads from the real files.
 * SPDX-License-Identifier: MIT */
#include "container_checks.h"

#include "formats/npy.h"
#include "formats/torch.h"

static void read_file(const char *path, oct_bundle *out) {
  if (oct_torch_read(ctx, path, out) != OCTET_OK) fail_msg("%s", ctx->message);
}

static const oct_named_tensor *item(const oct_bundle *bundle, const char *name, oct_dtype dtype, int64_t count) {
  const oct_named_tensor *found = oct_bundle_find(bundle, name);
  if (!found) fail_msg("no tensor %s", name);
  assert_int_equal(found->tensor->dtype, dtype);
  assert_int_equal(oct_shape_count(&found->tensor->shape), count);
  return found;
}

static void expect(const oct_bundle *bundle, const char *name, oct_dtype dtype, size_t count, const double *values) {
  const oct_tensor *tensor = item(bundle, name, dtype, (int64_t)count)->tensor;
  for (size_t i = 0; i < count; i++)
    if (oct_get_f64(tensor->data, dtype, (int64_t)i) != values[i]) fail_msg("%s[%zu] is not %g", name, i, values[i]);
}
#define EXPECT(bundle, name, dtype, ...) \
  expect(bundle, name, dtype, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

static void check_types(const char *path) {
  oct_bundle b;
  read_file(path, &b);
  assert_int_equal(b.count, 12);
  EXPECT(&b, "f32", OCT_F32, 0.5, -1.25, 3e38f);
  EXPECT(&b, "f64", OCT_F64, 0.1, -2);
  EXPECT(&b, "f16", OCT_F16, 0.5, 65504);
  EXPECT(&b, "bf16", OCT_BF16, 1.5, -3);
  EXPECT(&b, "i8", OCT_I8, -128, 127);
  EXPECT(&b, "u8", OCT_U8, 0, 255);
  EXPECT(&b, "i16", OCT_I16, -32768, 32767);
  EXPECT(&b, "i32", OCT_I32, -2147483648.0, 2147483647);
  const oct_tensor *wide = item(&b, "i64", OCT_I64, 2)->tensor;
  assert_true(oct_get_i64(wide->data, OCT_I64, 0) == INT64_MIN && oct_get_i64(wide->data, OCT_I64, 1) == INT64_MAX);
  EXPECT(&b, "bool", OCT_BOOL, 1, 0);
  EXPECT(&b, "scalar", OCT_I64, 7);
  assert_int_equal(item(&b, "scalar", OCT_I64, 1)->tensor->shape.rank, 0);
  assert_int_equal(item(&b, "empty", OCT_F32, 0)->tensor->shape.dim[1], 3);
  oct_bundle_free(&b);
}

static void test_types(void **state) {
  (void)state;
  check_types(data_path("torch/types.pth"));
  check_types(data_path("torch/types_deflated.pth"));
  check_types(data_path("torch/types_legacy.pth"));
}

static void test_byte_order(void **state) {
  (void)state;
  oct_bundle b;
  read_file(data_path("torch/big_endian.pth"), &b);
  EXPECT(&b, "w", OCT_F32, 0.5, -1.25);
  oct_bundle_free(&b);
  read_file(data_path("torch/big_endian_legacy.pth"), &b);
  EXPECT(&b, "w", OCT_I16, 258, -2);
  oct_bundle_free(&b);
}

static void test_views(void **state) {
  (void)state;
  oct_bundle b;
  read_file(data_path("torch/views.pth"), &b);
  EXPECT(&b, "whole", OCT_F32, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
  EXPECT(&b, "transposed", OCT_F32, 0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11);
  EXPECT(&b, "columns", OCT_F32, 2, 3, 6, 7, 10, 11);
  EXPECT(&b, "every_second", OCT_F32, 0, 2, 4, 6, 8, 10);
  EXPECT(&b, "repeated", OCT_F32, 4, 5, 6, 4, 5, 6);
  EXPECT(&b, "parameter", OCT_F32, 3, 4);
  EXPECT(&b, "old", OCT_F32, 1, 2);
  EXPECT(&b, "untyped", OCT_I16, 2, 3, 4);
  oct_bundle_free(&b);
}

static void check_quantized(const char *path) {
  oct_bundle b;
  read_file(path, &b);
  EXPECT(&b, "conv.weight", OCT_U8, 0, 128, 255);
  const oct_quant *q = oct_bundle_find(&b, "conv.weight")->quant;
  assert_true(q && q->dtype == OCT_U8 && q->count == 1 && q->axis == -1 && q->scale[0] == 0.125f && q->zero_point[0] == 128);
  EXPECT(&b, "listed.weight", OCT_I8, 1, 3, 2, 4); /* strides (1, 2) */
  q = oct_bundle_find(&b, "listed.weight")->quant;
  assert_true(q && q->axis == 1 && q->count == 2 && q->scale[0] == 0.1f && q->scale[1] == 0.2f);
  EXPECT(&b, "fc.weight", OCT_I8, 1, -2, 3, -4, 5, -6); /* from packed parameters */
  q = oct_bundle_find(&b, "fc.weight")->quant;
  assert_true(q && q->axis == 0 && q->scale[0] == 0.5f && q->scale[1] == 0.25f && q->zero_point[0] == 0 && q->zero_point[1] == -3);
  EXPECT(&b, "fc.bias", OCT_F32, 1, 2);
  EXPECT(&b, "wide", OCT_I32, 100000);
  EXPECT(&b, "conv.scale", OCT_F32, 0.0625);
  assert_null(oct_bundle_find(&b, "conv.scale")->quant);
  oct_bundle_free(&b);
}

static void test_quantized(void **state) {
  (void)state;
  check_quantized(data_path("torch/quantized.pth"));
  check_quantized(data_path("torch/quantized_legacy.pth"));
}

static void test_checkpoint(void **state) {
  (void)state;
  oct_bundle b;
  read_file(data_path("torch/checkpoint.pth"), &b);
  assert_int_equal(b.count, 2); /* nothing of the optimizer */
  EXPECT(&b, "fc.weight", OCT_F32, 1, 2, 3, 4);
  EXPECT(&b, "fc.bias", OCT_F32, 5, 6);
  oct_bundle_free(&b);
}

/* Each file with words that its message must have. */
static const char *const REFUSED[][2] = {
    {"calls_system", "asks to call os.system: refused"},
    {"calls_eval_stack_global", "asks to call builtins.eval: refused"},
    {"names_system", "os.system: refused"},
    {"calls_in_inst", "os.system"},
    {"module", "torch.save(model.state_dict()"},
    {"module_legacy", "class mymodel.Net"},
    {"torchscript", "TorchScript"},
    {"beyond", "beyond its storage of 4 elements"},
    {"offset_beyond", "beyond its storage"},
    {"negative_size", "negative"},
    {"negative_stride", "negative"},
    {"overflow", "tensor w"},
    {"stride_overflow", "beyond its storage"},
    {"expanded", "more memory"},
    {"nine_dimensions", "9 dimensions"},
    {"complex", "ComplexFloatStorage"},
    {"sparse", "_rebuild_sparse_tensor"},
    {"zero_scale", "scale 0"},
    {"scale_count", "1 scales"},
    {"no_tensors", "no tensors"},
    {"no_such_storage", "storage"},
    {"self_reference", "refers to itself"},
    {"deep", "nests too deeply"},
    {"marks", "nested too deeply"},
    {"doubling", "nests too deeply"},
    {"memo", "memo index"},
    {"underflow", "stack underflow"},
    {"copies", "copied more often"},
    {"opcode", "opcode 0xff"},
    {"same_name", "two tensors are named \"a.b\""},
    {"cut_off", "cut off"},
    {"count_overflow", "runs past the end"},
};

static void test_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
    char name[64];
    oct_bundle b;
    snprintf(name, sizeof name, "torch/bad_%s.pth", REFUSED[i][0]);
    assert_int_not_equal(oct_torch_read(ctx, data_path(name), &b), OCTET_OK);
    oct_bundle_free(&b);
    if (!strstr(ctx->message, REFUSED[i][1])) fail_msg("%s: the message lacks \"%s\": %s", name, REFUSED[i][1], ctx->message);
    if (!strstr(ctx->message, name)) fail_msg("%s: the message does not name the file: %s", name, ctx->message);
  }
}

static void test_no_checkpoint(void **state) {
  (void)state;
  oct_bundle b;
  assert_int_equal(oct_torch_read(ctx, data_path("torch/absent.pth"), &b), OCTET_IO);
  oct_bundle_free(&b);
  assert_int_equal(oct_torch_read(ctx, data_path("npy/stored.npz"), &b), OCTET_FORMAT);
  oct_bundle_free(&b);
  assert_int_equal(oct_torch_read(ctx, data_path("npy/f32.npy"), &b), OCTET_FORMAT);
  oct_bundle_free(&b);
  assert_int_equal(oct_torch_read_bytes(ctx, (oct_bytes){(const uint8_t *)"", 0}, "empty", &b), OCTET_FORMAT);
  oct_bundle_free(&b);
}

static octet_status read_bytes(octet_context *context, oct_bytes bytes) {
  oct_bundle b;
  octet_status status = oct_torch_read_bytes(context, bytes, "damaged", &b);
  oct_bundle_free(&b);
  return status;
}

static void test_damaged(void **state) {
  (void)state;
  check_damaged(ctx, data_path("torch/views.pth"), read_bytes);
  check_damaged(ctx, data_path("torch/types_deflated.pth"), read_bytes);
  check_damaged(ctx, data_path("torch/quantized_legacy.pth"), read_bytes);
}

static void test_allocations(void **state) {
  (void)state;
  check_allocations(ctx, data_path("torch/types_deflated.pth"), read_bytes);
  check_allocations(ctx, data_path("torch/quantized_legacy.pth"), read_bytes);
  check_allocations(ctx, data_path("torch/checkpoint.pth"), read_bytes);
}

/* ---- real files ---- */

static void test_seed_float(void **state) {
  (void)state;
  const char *pth = shared_path("seed-mnist/orig.pth"), *npz = shared_path("seed-mnist/orig.npz");
  if (!pth || !npz) skip();
  oct_bundle a, b;
  read_file(pth, &a);
  assert_int_equal(oct_npz_read(ctx, npz, &b), OCTET_OK);
  assert_int_equal(a.count, 8);
  assert_int_equal(b.count, 8);
  for (size_t i = 0; i < a.count; i++) {
    const oct_named_tensor *other = oct_bundle_find(&b, a.items[i].name);
    assert_non_null(other);
    assert_true(oct_shape_equal(&a.items[i].tensor->shape, &other->tensor->shape));
    assert_memory_equal(a.items[i].tensor->data, other->tensor->data, other->tensor->bytes);
  }
  oct_bundle_free(&a);
  oct_bundle_free(&b);
}

/* Sum of (i % 7 + 1) * value in row-major order: tells element orders apart. */
static int64_t weighted_sum(const oct_bundle *b, const char *name, int64_t count) {
  const oct_tensor *t = item(b, name, OCT_I8, count)->tensor;
  int64_t sum = 0;
  for (int64_t i = 0; i < count; i++) sum += (i % 7 + 1) * oct_get_i64(t->data, OCT_I8, i);
  return sum;
}

static void test_seed_quantized(void **state) {
  (void)state;
  const char *path = shared_path("seed-mnist/q.pth");
  if (!path) skip();
  oct_bundle b;
  read_file(path, &b);
  assert_int_equal(b.count, 16);
  assert_int_equal(weighted_sum(&b, "conv1.weight", 72), 2090);
  assert_int_equal(weighted_sum(&b, "conv2.weight", 512), -13088);
  assert_int_equal(weighted_sum(&b, "conv3.weight", 2048), -97077);
  assert_int_equal(weighted_sum(&b, "fc.weight", 320), -155);
  const oct_quant *q = oct_bundle_find(&b, "conv1.weight")->quant;
  assert_true(q && q->count == 1 && q->scale[0] == (float)0.024976026266813278 && q->zero_point[0] == 0);
  EXPECT(&b, "conv1.scale", OCT_F32, 0.05126289278268814);
  EXPECT(&b, "fc.scale", OCT_F32, 0.334920734167099);
  EXPECT(&b, "fc.zero_point", OCT_I64, 58);
  oct_bundle_free(&b);
}

static void test_seed_trained_quantized(void **state) {
  (void)state;
  const char *path = shared_path("seed-mnist/qa_q.pth");
  if (!path) skip();
  oct_bundle b;
  read_file(path, &b);
  assert_int_equal(weighted_sum(&b, "conv1.weight", 72), 2970);
  assert_int_equal(weighted_sum(&b, "conv2.weight", 512), -16509);
  assert_int_equal(weighted_sum(&b, "conv3.weight", 2048), -152513);
  assert_int_equal(weighted_sum(&b, "fc.weight", 320), 107);
  const oct_quant *q = oct_bundle_find(&b, "conv1.weight")->quant;
  assert_true(q && q->count == 8 && q->axis == 0);
  assert_true(q->scale[0] == (float)0.02008102834224701 && q->scale[7] == (float)0.024976147338747978);
  oct_bundle_free(&b);
}

static void test_seed_observers(void **state) {
  (void)state;
  const char *path = shared_path("seed-mnist/qa_best.pth");
  if (!path) skip();
  oct_bundle b;
  read_file(path, &b);
  assert_int_equal(item(&b, "conv2.weight_fake_quant.scale", OCT_F32, 16)->tensor->shape.rank, 1);
  item(&b, "conv1.observer.observer.max_val", OCT_F32, 1);
  oct_bundle_free(&b);
}

static void test_resnet(void **state) {
  (void)state;
  const char *path = shared_path("resnet-cifar10/resnet20-12fca82f.th");
  if (!path) skip();
  oct_bundle b;
  read_file(path, &b);
  int64_t parameters = 0;
  for (size_t i = 0; i < b.count; i++) {
    assert_null(strstr(b.items[i].name, "module."));
    if (!strstr(b.items[i].name, "running_")) parameters += oct_shape_count(&b.items[i].tensor->shape);
  }
  assert_int_equal(parameters, 269722); /* 0.27 M in its authors' table; 19 convolutions, 19 normalizations, one dense */
  item(&b, "layer3.2.conv2.weight", OCT_F32, 64 * 64 * 9);
  oct_bundle_free(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_types),          cmocka_unit_test(test_byte_order),     cmocka_unit_test(test_views),
      cmocka_unit_test(test_quantized),      cmocka_unit_test(test_checkpoint),     cmocka_unit_test(test_refused),
      cmocka_unit_test(test_no_checkpoint),  cmocka_unit_test(test_damaged),        cmocka_unit_test(test_allocations),
      cmocka_unit_test(test_seed_float),     cmocka_unit_test(test_seed_quantized), cmocka_unit_test(test_seed_trained_quantized),
      cmocka_unit_test(test_seed_observers), cmocka_unit_test(test_resnet),
  };
  return cmocka_run_group_tests(tests, context_create, context_destroy);
}
