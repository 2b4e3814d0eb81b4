/* min, max, sum, mean of any number of inputs, broadcast. 8 bits, two inputs: rounding keeps order, so min and max compare
 * what two tables give.
 * SPDX-License-Identifier: MIT */
#include "ops/elementwise.h"

static double min_of(const oct_node *node, double a, double b) {
  (void)node;
  return a != a || a < b ? a : b; /* NaN wins, as in numpy */
}

static double max_of(const oct_node *node, double a, double b) {
  (void)node;
  return a != a || a > b ? a : b;
}

static double sum_of(const oct_node *node, double a, double b) {
  (void)node;
  return a + b;
}

static bool less(int64_t a, int64_t b, bool is_unsigned) { return is_unsigned ? (uint64_t)a < (uint64_t)b : a < b; }

static int64_t min_integer(const oct_node *node, int64_t a, int64_t b, bool is_unsigned) {
  (void)node;
  return less(b, a, is_unsigned) ? b : a;
}

static int64_t max_integer(const oct_node *node, int64_t a, int64_t b, bool is_unsigned) {
  (void)node;
  return less(a, b, is_unsigned) ? b : a;
}

static octet_status reference_min(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  return oct_variadic_reference(node, in, out[0], min_integer);
}

static octet_status reference_max(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  return oct_variadic_reference(node, in, out[0], max_integer);
}

static octet_status reference_sum(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  return oct_variadic_reference(node, in, out[0], NULL);
}

static octet_status reference_mean(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  OCT_TRY(reference_sum(ctx, node, in, out));
  int64_t count = oct_shape_count(&out[0]->shape);
  for (int64_t i = 0; i < count; i++)
    oct_set_f64(out[0]->data, out[0]->dtype, i, oct_get_f64(out[0]->data, out[0]->dtype, i) / node->n_inputs);
  return OCTET_OK;
}

static inline float min_f32(float a, float b) { return a != a || a < b ? a : b; }
static inline float max_f32(float a, float b) { return a != a || a > b ? a : b; }

static void dense_min(const oct_vector_kernels *v, size_t n, const float *a, const float *b, float *y) {
  (void)v;
  for (size_t i = 0; i < n; i++) y[i] = min_f32(a[i], b[i]);
}

static void dense_max(const oct_vector_kernels *v, size_t n, const float *a, const float *b, float *y) {
  (void)v;
  for (size_t i = 0; i < n; i++) y[i] = max_f32(a[i], b[i]);
}

static void dense_add(const oct_vector_kernels *v, size_t n, const float *a, const float *b, float *y) { v->add_f32(n, a, b, y); }
OCT_APPLY2_F32(apply_min, dense_min, min_f32(u, w))
OCT_APPLY2_F32(apply_max, dense_max, max_f32(u, w))
OCT_APPLY2_F32(apply_add, dense_add, u + w)

/* `table` holds the table of a, then that of b. */
static void min_u8(const oct_binary_u8 *p, size_t n, const uint8_t *a, const uint8_t *b, bool b_broadcast, uint8_t *y) {
  (void)b_broadcast;
  for (size_t i = 0; i < n; i++) {
    uint8_t u = p->table[a[i]], w = p->table[256 + b[i]];
    y[i] = u < w ? u : w;
  }
}

static void max_u8(const oct_binary_u8 *p, size_t n, const uint8_t *a, const uint8_t *b, bool b_broadcast, uint8_t *y) {
  (void)b_broadcast;
  for (size_t i = 0; i < n; i++) {
    uint8_t u = p->table[a[i]], w = p->table[256 + b[i]];
    y[i] = u > w ? u : w;
  }
}

static double unchanged(const oct_node *node, const void *user, double x) {
  (void)node, (void)user;
  return x;
}

static octet_status lower_order(oct_lowering *l, oct_node *node, oct_binary_u8_fn apply_u8, const char *kernel, oct_binary_f32 apply) {
  if (node->n_inputs != 2) return oct_lower_decline(l, "%d inputs; the kernel takes two", node->n_inputs);
  bool done = false;
  if (oct_binary_is_u8(l, node)) OCT_TRY(oct_binary_lower_tables(l, node, OCT_TABLES_LIMIT, &done));
  if (done) return OCTET_OK;
  if (!oct_binary_is_u8(l, node)) return oct_binary_lower(l, node, kernel, apply);
  oct_binary_slots slots;
  OCT_TRY(oct_binary_take(l, node, OCT_U8, &slots));
  uint8_t *tables = oct_lower_memory(l, 2, 256);
  if (!tables) return OCTET_OUT_OF_MEMORY;
  oct_table_fill(tables, slots.a, slots.out, node, unchanged, NULL);
  oct_table_fill(tables + 256, slots.b, slots.out, node, unchanged, NULL);
  return oct_binary_u8_lower(l, node, "order_u8", apply_u8, false, &(oct_binary_u8){.table = tables}, &slots);
}

static octet_status lower_min(oct_lowering *l, oct_node *node) { return lower_order(l, node, min_u8, "min_f32", apply_min); }
static octet_status lower_max(oct_lowering *l, oct_node *node) { return lower_order(l, node, max_u8, "max_f32", apply_max); }

static octet_status lower_sum(oct_lowering *l, oct_node *node) {
  if (node->n_inputs != 2) return oct_lower_decline(l, "%d inputs; the kernel takes two", node->n_inputs);
  return oct_binary_lower(l, node, "add_f32", apply_add);
}

/* Sum and Mean of one input, or of two that are an add, have an operator of their own. */
static octet_status import_sum(oct_importer *importer, const oct_foreign_node *foreign) {
  oct_node *node;
  OCT_TRY(oct_import_node(importer, foreign, foreign->n_inputs == 2 ? "add" : "sum", foreign->inputs, foreign->n_inputs, 1, &node));
  OCT_TRY(oct_import_attributes(importer, foreign, node, NULL));
  return oct_import_finish(importer, foreign, node);
}

#define MANY(op, text, function, whole, onnx)                                                                                        \
  .name = op, .summary = text, .traits = OCT_TRAIT_ELEMENTWISE | OCT_TRAIT_LAYOUT_AGNOSTIC | OCT_TRAIT_COMMUTATIVE, .min_inputs = 1, \
  .max_inputs = -1, .min_outputs = 1, .max_outputs = 1, .reference = whole, .scalar2 = function, .exports = OCT_ONNX_EXPORT(onnx)

static const char *const cases[] = {
    "in=f32[1,3,5,7],f32[1,3,5,7]", "in=f32[2,5],f32[]=0.5", "in=f32[3,1],f32[1,5],f32[3,5]", "in=i32[4],i32[4]", "in=f32[7]", NULL};
static const char *const float_cases[] = {"in=f32[1,3,5,7],f32[1,3,5,7]", "in=f32[3,1],f32[1,5],f32[3,5]", "in=f32[7]", NULL};

const oct_op oct_op_min = {
    MANY("min", "least of the inputs", min_of, reference_min, "Min"),
    .infer = oct_infer_broadcast_numbers,
    .lower = lower_min,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_OBSERVED},
    .imports = OCT_ONNX_IMPORT("Min", 7),
    .cases = cases,
};
const oct_op oct_op_max = {
    MANY("max", "greatest of the inputs", max_of, reference_max, "Max"),
    .infer = oct_infer_broadcast_numbers,
    .lower = lower_max,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_OBSERVED},
    .imports = OCT_ONNX_IMPORT("Max", 7),
    .cases = cases,
};
const oct_op oct_op_sum = {
    MANY("sum", "sum of the inputs", sum_of, reference_sum, "Sum"),
    .infer = oct_infer_broadcast_floats,
    .lower = lower_sum,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_FLOAT},
    .imports = (const oct_import_row[]){{"onnx", "Sum", 7, 0, import_sum}, {0}},
    .cases = float_cases,
};
const oct_op oct_op_mean = {
    MANY("mean", "mean of the inputs", sum_of, reference_mean, "Mean"),
    .infer = oct_infer_broadcast_floats,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_FLOAT},
    .imports = OCT_ONNX_IMPORT("Mean", 7),
    .cases = float_cases,
};
