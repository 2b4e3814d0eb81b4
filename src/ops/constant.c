/* Constant (ONNX): imported as a constant of the graph; as an operator it only copies its attribute.
 * SPDX-License-Identifier: MIT */
#include "ops/op.h"

static const oct_tensor *value_of(const oct_node *node) {
  const oct_attribute *a = oct_node_attribute(node, "value");
  return a && a->type == OCT_ATTRIBUTE_TENSOR ? a->tensor : NULL;
}

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_tensor *t = value_of(node);
  if (!t) return oct_infer_fail(ctx, node, "the attribute value is absent");
  oct_infer_set(node->outputs[0], t->dtype, &t->shape);
  return OCTET_OK;
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx, (void)in;
  const oct_tensor *t = value_of(node);
  if (t->bytes) memcpy(out[0]->data, t->data, t->bytes);
  return OCTET_OK;
}

/* A number or a list of numbers as a tensor; list: rank 1. */
static octet_status numbers(octet_context *ctx, const oct_attribute *a, oct_tensor **out) {
  bool list = a->type == OCT_ATTRIBUTE_INTS || a->type == OCT_ATTRIBUTE_FLOATS,
       floats = a->type == OCT_ATTRIBUTE_FLOAT || a->type == OCT_ATTRIBUTE_FLOATS;
  oct_shape shape = {.rank = list ? 1 : 0, .dim = {list ? (int64_t)a->count : 0}};
  OCT_TRY(oct_tensor_create(ctx, floats ? OCT_F32 : OCT_I64, &shape, out));
  const void *from = a->type == OCT_ATTRIBUTE_INTS     ? (const void *)a->ints
                     : a->type == OCT_ATTRIBUTE_FLOATS ? (const void *)a->floats
                     : a->type == OCT_ATTRIBUTE_INT    ? (const void *)&a->i
                                                       : (const void *)&a->f;
  if ((*out)->bytes) memcpy((*out)->data, from, (*out)->bytes);
  return OCTET_OK;
}

static octet_status import(oct_importer *importer, const oct_foreign_node *foreign) {
  static const char *const names[] = {"value", "value_int", "value_ints", "value_float", "value_floats"};
  static const oct_attribute_type types[] = {OCT_ATTRIBUTE_TENSOR, OCT_ATTRIBUTE_INT, OCT_ATTRIBUTE_INTS, OCT_ATTRIBUTE_FLOAT,
                                             OCT_ATTRIBUTE_FLOATS};
  const char *name = foreign->n_outputs > 0 ? foreign->outputs[0] : NULL;
  for (int i = 0; i < 5; i++) {
    const oct_attribute *a = oct_foreign_attribute(foreign, names[i]);
    oct_tensor *tensor;
    oct_value *value;
    if (!a || a->type != types[i]) continue;
    if (i == 0) tensor = oct_tensor_retain(a->tensor);
    else OCT_TRY(numbers(importer->ctx, a, &tensor));
    OCT_TRY(oct_graph_constant(importer->ctx, importer->graph, name, tensor, &value));
    return oct_import_bind(importer, foreign, 0, value);
  }
  return oct_import_unsupported(importer, foreign, "its value is a string, sparse, or absent");
}

static const oct_attribute_spec attributes[] = {
    {"value", OCT_ATTRIBUTE_TENSOR, true, NULL, 0, 0, "the constant"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row imports[] = {{"onnx", "Constant", 1, 0, import}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row exports[] = {{"onnx", "Constant", NULL}, {NULL, NULL, NULL}};

const oct_op oct_op_constant = {
    .name = "constant",
    .summary = "a tensor written down in the graph",
    .min_inputs = 0,
    .max_inputs = 0,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer,
    .reference = reference,
    .quantization = {.output = OCT_OUTPUT_NONE},
    .imports = imports,
    .exports = exports,
};
