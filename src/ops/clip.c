/* clip: min(max(x, low), high); either bound may be absent. When low > high everything becomes high, as ONNX says.
 * SPDX-License-Identifier: MIT */
#include "ops/elementwise.h"

static const oct_value *bound_of(const oct_node *node, int i) { return i < node->n_inputs ? node->inputs[i] : NULL; }

/* The constant bounds in double, infinite where absent; false when one is computed at run time. */
static bool bounds(const oct_node *node, double *low, double *high) {
  *low = -INFINITY;
  *high = INFINITY;
  if (bound_of(node, 1) && !oct_constant_scalar(bound_of(node, 1), low)) return false;
  if (bound_of(node, 2) && !oct_constant_scalar(bound_of(node, 2), high)) return false;
  if (*low > *high) *low = *high;
  return true;
}

static bool clamp(const oct_node *node, float *low, float *high) {
  double from, to;
  if (!bounds(node, &from, &to)) return false;
  *low = (float)from;
  *high = (float)to;
  return true;
}

static double clip(const oct_node *node, double x) {
  double low, high;
  if (!bounds(node, &low, &high)) return x;
  return x < low ? low : x > high ? high : x;
}

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0];
  for (int i = 1; i < node->n_inputs; i++) {
    const oct_value *bound = node->inputs[i];
    if (!bound) continue;
    if (bound->dtype != x->dtype)
      return oct_infer_fail(ctx, node, "bound \"%s\" is %s, but the input is %s", bound->name, oct_dtype_name(bound->dtype),
                            oct_dtype_name(x->dtype));
    if (bound->has_shape && oct_shape_count(&bound->shape) > 1) {
      char text[OCT_SHAPE_TEXT];
      return oct_infer_fail(ctx, node, "bound \"%s\" has shape %s, but a scalar is needed", bound->name,
                            oct_shape_text(&bound->shape, text));
    }
  }
  return oct_infer_numbers(ctx, node);
}

static const oct_tensor *given(const oct_node *node, const oct_tensor *const *in, int i) {
  return i < node->n_inputs && in[i] && oct_shape_count(&in[i]->shape) > 0 ? in[i] : NULL;
}

static void clip_floats(const oct_tensor *x, oct_tensor *y, const oct_tensor *low, const oct_tensor *high) {
  double from = low ? oct_get_f64(low->data, low->dtype, 0) : -INFINITY, to = high ? oct_get_f64(high->data, high->dtype, 0) : INFINITY;
  if (from > to) from = to;
  int64_t count = oct_shape_count(&y->shape);
  for (int64_t i = 0; i < count; i++) {
    double v = oct_get_f64(x->data, x->dtype, i);
    oct_set_f64(y->data, y->dtype, i, v < from ? from : v > to ? to : v);
  }
}

static bool less(int64_t a, int64_t b, bool is_unsigned) { return is_unsigned ? (uint64_t)a < (uint64_t)b : a < b; }

static void clip_integers(const oct_tensor *x, oct_tensor *y, const oct_tensor *low, const oct_tensor *high) {
  bool is_unsigned = x->dtype == OCT_U64;
  int64_t count = oct_shape_count(&y->shape);
  for (int64_t i = 0; i < count; i++) {
    int64_t v = oct_get_i64(x->data, x->dtype, i);
    if (low && less(v, oct_get_i64(low->data, low->dtype, 0), is_unsigned)) v = oct_get_i64(low->data, low->dtype, 0);
    if (high && less(oct_get_i64(high->data, high->dtype, 0), v, is_unsigned)) v = oct_get_i64(high->data, high->dtype, 0);
    oct_set_i64(y->data, y->dtype, i, v);
  }
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  const oct_tensor *low = given(node, in, 1), *high = given(node, in, 2);
  if (oct_dtype_is_float(in[0]->dtype)) clip_floats(in[0], out[0], low, high);
  else clip_integers(in[0], out[0], low, high);
  return OCTET_OK;
}

static void apply(const oct_vector_kernels *vector, const float *p, size_t n, const float *x, float *y) {
  vector->clamp_f32(n, x, y, p[0], p[1]);
}

static octet_status lower(oct_lowering *l, oct_node *node) {
  float p[OCT_UNARY_PARAMETERS] = {0};
  if (!clamp(node, &p[0], &p[1])) return oct_lower_decline(l, "the bounds are computed at run time");
  return oct_unary_lower(l, node, "clamp_f32", apply, p);
}

/* Scalar of the element type of `like`. */
static octet_status bound_constant(oct_importer *importer, const oct_value *like, double value, oct_value **out) {
  oct_tensor *tensor;
  oct_dtype dtype = like->dtype == OCT_DTYPE_NONE ? OCT_F32 : like->dtype;
  OCT_TRY(oct_tensor_create(importer->ctx, dtype, &(oct_shape){.rank = 0}, &tensor));
  oct_set_f64(tensor->data, dtype, 0, value);
  return oct_graph_constant(importer->ctx, importer->graph, NULL, tensor, out);
}

/* Opset 6: bounds are attributes; the defaults, the limits of float, mean no bound. */
static octet_status import_6(oct_importer *importer, const oct_foreign_node *foreign) {
  static const char *const known[] = {"min", "max", NULL};
  oct_value *inputs[3] = {oct_foreign_input(foreign, 0)};
  if (!inputs[0]) return oct_import_unsupported(importer, foreign, "the input is absent");
  for (int i = 0; i < 2; i++) {
    const oct_attribute *given_bound = oct_foreign_attribute(foreign, known[i]);
    if (given_bound && given_bound->type == OCT_ATTRIBUTE_FLOAT && fabsf(given_bound->f) < 3.4028234e38f)
      OCT_TRY(bound_constant(importer, inputs[0], (double)given_bound->f, &inputs[i + 1]));
  }
  oct_node *node;
  int count = inputs[2] ? 3 : inputs[1] ? 2 : 1;
  OCT_TRY(oct_import_node(importer, foreign, "clip", inputs, count, 1, &node));
  OCT_TRY(oct_import_attributes(importer, foreign, node, known));
  return oct_import_finish(importer, foreign, node);
}

static const char *const cases[] = {"in=f32[1,3,5,7],f32[]=0,f32[]=6", "in=f32[2,17],-,f32[]=0.5",
                                    "in=f32[9],f32[]=-0.25",           "in=i32[33],i32[]=-3,i32[]=5",
                                    "in=f32[4,4],f32[]=1,f32[]=-1",    "in=f32[3]",
                                    "in=u8[16],u8[]=100,u8[]=200",     NULL};

const oct_op oct_op_clip = {
    .name = "clip",
    .summary = "min(max(x, low), high)",
    .traits = OCT_TRAIT_ELEMENTWISE | OCT_TRAIT_UNARY | OCT_TRAIT_IN_PLACE | OCT_TRAIT_LAYOUT_AGNOSTIC | OCT_TRAIT_CLAMP,
    .min_inputs = 1,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer,
    .reference = reference,
    .scalar1 = clip,
    .clamp = clamp,
    .lower = lower,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_NONE}, .output = OCT_OUTPUT_OBSERVED},
    .imports = (const oct_import_row[]){{"onnx", "Clip", 6, 10, import_6}, {"onnx", "Clip", 11, 0, NULL}, {0}},
    .exports = OCT_ONNX_EXPORT("Clip"),
    .cases = cases,
};
