/* Shape and Size (ONNX): the input's dims, or their product, as int64.
 * SPDX-License-Identifier: MIT */
#include "ops/op.h"

static void bounds(const oct_node *node, int rank, int64_t *start, int64_t *end) {
  *start = oct_node_int(node, "start");
  *end = oct_node_attribute(node, "end") ? oct_node_int(node, "end") : rank;
  int64_t *both[2] = {start, end};
  for (int i = 0; i < 2; i++) {
    if (*both[i] < 0) *both[i] += rank;
    *both[i] = *both[i] < 0 ? 0 : *both[i] > rank ? rank : *both[i];
  }
}

static octet_status infer_shape(octet_context *ctx, oct_node *node) {
  (void)ctx;
  const oct_value *x = node->inputs[0];
  int64_t start, end;
  oct_shape out = oct_shape_of(1, (int64_t)OCT_DIM_UNKNOWN);
  if (x->has_shape) {
    bounds(node, x->shape.rank, &start, &end);
    out.dim[0] = end > start ? end - start : 0;
  }
  oct_infer_set(node->outputs[0], OCT_I64, &out);
  return OCTET_OK;
}

static octet_status reference_shape(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  int64_t start, end;
  bounds(node, in[0]->shape.rank, &start, &end);
  for (int64_t i = start; i < end; i++) oct_set_i64(out[0]->data, OCT_I64, i - start, in[0]->shape.dim[i]);
  return OCTET_OK;
}

static octet_status infer_size(octet_context *ctx, oct_node *node) {
  (void)ctx;
  oct_shape scalar = {0};
  oct_infer_set(node->outputs[0], OCT_I64, &scalar);
  return OCTET_OK;
}

static octet_status reference_size(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx, (void)node;
  oct_set_i64(out[0]->data, OCT_I64, 0, oct_shape_count(&in[0]->shape));
  return OCTET_OK;
}

static const oct_attribute_spec attributes[] = {
    {"start", OCT_ATTRIBUTE_INT, false, "0", 0, 0, "first dim"},
    {"end", OCT_ATTRIBUTE_INT, false, NULL, 0, 0, "dim after the last one; all when absent"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row shape_imports[] = {{"onnx", "Shape", 1, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row shape_exports[] = {{"onnx", "Shape", NULL}, {NULL, NULL, NULL}};
static const oct_import_row size_imports[] = {{"onnx", "Size", 1, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row size_exports[] = {{"onnx", "Size", NULL}, {NULL, NULL, NULL}};
static const char *const shape_cases[] = {"in=f32[2,3,4]", "in=f32[2,3,4] attr:start=1", "in=f32[2,3,4] attr:start=-2 end=-1", "in=i64[]",
                                          NULL};
static const char *const size_cases[] = {"in=f32[2,3,4]", "in=u8[]", NULL};

const oct_op oct_op_shape = {
    .name = "shape",
    .summary = "the dims as a list",
    .traits = OCT_TRAIT_SHAPE_ONLY,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer_shape,
    .reference = reference_shape,
    .quantization = {.output = OCT_OUTPUT_NONE},
    .imports = shape_imports,
    .exports = shape_exports,
    .cases = shape_cases,
};

const oct_op oct_op_size = {
    .name = "size",
    .summary = "the number of elements",
    .traits = OCT_TRAIT_SHAPE_ONLY,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer_size,
    .reference = reference_size,
    .quantization = {.output = OCT_OUTPUT_NONE},
    .imports = size_imports,
    .exports = size_exports,
    .cases = size_cases,
};
