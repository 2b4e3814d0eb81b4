/* gelu (both forms) and swish. ONNX has them since operator sets 20 and 24 only, so exports write them out in older operators.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "ops/elementwise.h"
#include "ops/math_f32.h"

#define SQRT_HALF 0x1.6a09e667f3bcdp-1
#define SQRT_TWO_OVER_PI 0x1.9884533d43651p-1
#define CUBIC 0.044715

static bool is_tanh_form(const oct_node *node) { return strcmp(oct_node_string(node, "approximate"), "tanh") == 0; }

static double gelu(const oct_node *node, double x) {
  if (x == -INFINITY) return 0;
  if (is_tanh_form(node)) return 0.5 * x * (1 + oct_tanh(SQRT_TWO_OVER_PI * (x + CUBIC * x * x * x)));
  return 0.5 * x * (1 + oct_erf(x * SQRT_HALF));
}

static double swish(const oct_node *node, double x) {
  return x == -INFINITY ? 0 : x * oct_sigmoid((double)oct_node_float(node, "alpha") * x);
}

OCT_APPLY_F32(apply_swish, v *oct_sigmoid_f32(p[0] * v))
OCT_APPLY_MATH(apply_gelu_erf, gelu_f32)
OCT_APPLY_F32(apply_gelu_tanh, 0.5f * v * (1.0f + oct_tanh_f32((float)SQRT_TWO_OVER_PI * (v + (float)CUBIC * v * v * v))))

static octet_status lower_swish(oct_lowering *l, oct_node *node) {
  return oct_unary_lower(l, node, "swish_f32", apply_swish, (const float[OCT_UNARY_PARAMETERS]){oct_node_float(node, "alpha")});
}

static octet_status lower_gelu(oct_lowering *l, oct_node *node) {
  return oct_unary_lower(l, node, "gelu_f32", is_tanh_form(node) ? apply_gelu_tanh : apply_gelu_erf, NULL);
}

static octet_status infer_gelu(octet_context *ctx, oct_node *node) {
  const char *form = oct_node_string(node, "approximate");
  if (strcmp(form, "none") != 0 && strcmp(form, "tanh") != 0)
    return oct_infer_fail(ctx, node, "attribute \"approximate\" is \"%s\"; it can be \"none\" or \"tanh\"", form);
  return oct_infer_floats(ctx, node);
}

/* ---- Export ------------------------------------------------------------------------------------------------------- */

#define NAME 320

/* A chain of one- and two-input nodes; the last one makes the operator's output. */
typedef struct chain {
  oct_exporter *exporter;
  const oct_node *node;
  int links, serial;
  char names[12][NAME]; /* by link; gelu has nine */
} chain;

static octet_status link_node(chain *c, const char *type, const char *a, const char *b, bool last, const char **result) {
  const char *inputs[2] = {a, b}, *output = c->node->outputs[0]->name;
  char *name = c->names[c->links++];
  do snprintf(name, NAME, "%.256s_%s%d", output, type, c->serial++);
  while (oct_graph_find(c->exporter->graph, name));
  if (!last) output = name;
  const oct_foreign_node foreign = {
      .type = type, .domain = "", .name = name, .version = c->exporter->version, .n_inputs = b ? 2 : 1, .outputs = &output, .n_outputs = 1};
  *result = output;
  return c->exporter->emit(c->exporter, &foreign, inputs);
}

/* Scalar of the input's element type. */
static octet_status scalar(chain *c, double value, const char **name) {
  oct_tensor *tensor;
  oct_dtype dtype = c->node->inputs[0]->dtype;
  OCT_TRY(oct_tensor_create(c->exporter->ctx, dtype, &(oct_shape){.rank = 0}, &tensor));
  oct_set_f64(tensor->data, dtype, 0, value);
  *name = c->exporter->constant(c->exporter, "c", tensor);
  oct_tensor_release(tensor);
  return *name ? OCTET_OK : c->exporter->ctx->status;
}

static octet_status with_scalar(chain *c, const char *type, const char *a, double value, bool last, const char **result) {
  const char *name;
  OCT_TRY(scalar(c, value, &name));
  return link_node(c, type, a, name, last, result);
}

static octet_status export_gelu(oct_exporter *exporter, const oct_node *node) {
  chain c = {.exporter = exporter, .node = node};
  const char *x = exporter->name_of(exporter, node->inputs[0]), *t;
  if (!x) return exporter->ctx->status;
  if (is_tanh_form(node)) {
    OCT_TRY(link_node(&c, "Mul", x, x, false, &t));
    OCT_TRY(with_scalar(&c, "Mul", t, CUBIC, false, &t));
    OCT_TRY(with_scalar(&c, "Add", t, 1, false, &t));
    OCT_TRY(link_node(&c, "Mul", t, x, false, &t));
    OCT_TRY(with_scalar(&c, "Mul", t, SQRT_TWO_OVER_PI, false, &t));
    OCT_TRY(link_node(&c, "Tanh", t, NULL, false, &t));
  } else {
    OCT_TRY(with_scalar(&c, "Mul", x, SQRT_HALF, false, &t));
    OCT_TRY(link_node(&c, "Erf", t, NULL, false, &t));
  }
  OCT_TRY(with_scalar(&c, "Add", t, 1, false, &t));
  OCT_TRY(link_node(&c, "Mul", t, x, false, &t));
  return with_scalar(&c, "Mul", t, 0.5, true, &t);
}

static octet_status export_swish(oct_exporter *exporter, const oct_node *node) {
  chain c = {.exporter = exporter, .node = node};
  const char *x = exporter->name_of(exporter, node->inputs[0]), *t = x;
  float alpha = oct_node_float(node, "alpha");
  if (!x) return exporter->ctx->status;
  if (alpha != 1) OCT_TRY(with_scalar(&c, "Mul", x, (double)alpha, false, &t));
  OCT_TRY(link_node(&c, "Sigmoid", t, NULL, false, &t));
  return link_node(&c, "Mul", t, x, true, &t);
}

static const oct_attribute_spec swish_attributes[] = {{"alpha", OCT_ATTRIBUTE_FLOAT, false, "1", 0, 0, "slope inside the sigmoid"}, {0}};
static const oct_attribute_spec gelu_attributes[] = {{"approximate", OCT_ATTRIBUTE_STRING, false, "none", 0, 0, "none (erf) or tanh"}, {0}};

static const char *const swish_cases[] = {"in=f32[1,3,5,7]", "in=f32[2,17] attr:alpha=1.5", "in=f16[5]", NULL};
static const char *const gelu_cases[] = {"in=f32[1,3,5,7]", "in=f32[2,17] attr:approximate=tanh", NULL};

const oct_op oct_op_gelu = {
    .name = "gelu",
    .summary = "x Phi(x), Phi the normal distribution",
    .traits = OCT_TRAIT_ELEMENTWISE | OCT_TRAIT_UNARY | OCT_TRAIT_IN_PLACE | OCT_TRAIT_LAYOUT_AGNOSTIC,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = gelu_attributes,
    .infer = infer_gelu,
    .reference = oct_unary_reference,
    .scalar1 = gelu,
    .lower = lower_gelu,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_OBSERVED},
    .imports = OCT_ONNX_IMPORT("Gelu", 20),
    .exports = (const oct_export_row[]){{"onnx", "Gelu", export_gelu}, {0}},
    .cases = gelu_cases,
};

const oct_op oct_op_swish = {
    .name = "swish",
    .summary = "x sigmoid(alpha x)",
    .traits = OCT_TRAIT_ELEMENTWISE | OCT_TRAIT_UNARY | OCT_TRAIT_IN_PLACE | OCT_TRAIT_LAYOUT_AGNOSTIC,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = swish_attributes,
    .infer = oct_infer_floats,
    .reference = oct_unary_reference,
    .scalar1 = swish,
    .lower = lower_swish,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_OBSERVED},
    .imports = OCT_ONNX_IMPORT("Swish", 24),
    .exports = (const oct_export_row[]){{"onnx", "Swish", export_swish}, {0}},
    .cases = swish_cases,
};
