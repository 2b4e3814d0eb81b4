/* cast and cast_like: another element type. Floats round to nearest even, float to integer truncates, integers wrap, to bool is != 0.
 * SPDX-License-Identifier: MIT */
#include "ops/elementwise.h"

/* ONNX's TensorProto.DataType; the types that Octet does not have are named for messages. */
static const struct {
  int64_t number;
  oct_dtype dtype;
  const char *name;
} onnx_types[] = {
    {1, OCT_F32, "FLOAT"},   {2, OCT_U8, "UINT8"},      {3, OCT_I8, "INT8"},     {4, OCT_U16, "UINT16"},
    {5, OCT_I16, "INT16"},   {6, OCT_I32, "INT32"},     {7, OCT_I64, "INT64"},   {8, 0, "STRING"},
    {9, OCT_BOOL, "BOOL"},   {10, OCT_F16, "FLOAT16"},  {11, OCT_F64, "DOUBLE"}, {12, OCT_U32, "UINT32"},
    {13, OCT_U64, "UINT64"}, {14, 0, "COMPLEX64"},      {15, 0, "COMPLEX128"},   {16, OCT_BF16, "BFLOAT16"},
    {17, 0, "FLOAT8E4M3FN"}, {18, 0, "FLOAT8E4M3FNUZ"}, {19, 0, "FLOAT8E5M2"},   {20, 0, "FLOAT8E5M2FNUZ"},
    {21, 0, "UINT4"},        {22, 0, "INT4"},           {23, 0, "FLOAT4E2M1"},   {24, 0, "FLOAT8E8M0"},
    {25, 0, "UINT2"},        {26, 0, "INT2"},
};
#define ONNX_TYPES (sizeof onnx_types / sizeof onnx_types[0])

static octet_status infer_cast(octet_context *ctx, oct_node *node) {
  const char *name = oct_node_string(node, "to");
  oct_dtype dtype = oct_dtype_parse(name);
  if (dtype == OCT_DTYPE_NONE) return oct_infer_fail(ctx, node, "attribute \"to\" is \"%s\", which is no element type", name);
  const oct_value *in = node->inputs[0];
  oct_infer_set(node->outputs[0], dtype, in->has_shape ? &in->shape : NULL);
  return OCTET_OK;
}

static octet_status infer_like(octet_context *ctx, oct_node *node) {
  (void)ctx;
  const oct_value *in = node->inputs[0];
  oct_infer_set(node->outputs[0], node->inputs[1]->dtype, in->has_shape ? &in->shape : NULL);
  return OCTET_OK;
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx, (void)node;
  const oct_tensor *x = in[0];
  oct_tensor *y = out[0];
  int64_t count = oct_shape_count(&y->shape);
  bool wide = x->dtype == OCT_U64 && oct_dtype_is_float(y->dtype);
  if (x->dtype == y->dtype) {
    if (x->bytes) memcpy(y->data, x->data, x->bytes);
  } else if (y->dtype == OCT_F32 && x->dtype == OCT_I64) { /* masks and lengths of language models */
    for (int64_t i = 0; i < count; i++) ((float *)y->data)[i] = (float)((const int64_t *)x->data)[i];
  } else if (oct_dtype_is_float(x->dtype) || wide) {
    for (int64_t i = 0; i < count; i++) oct_set_f64(y->data, y->dtype, i, oct_get_f64(x->data, x->dtype, i));
  } else {
    for (int64_t i = 0; i < count; i++) oct_set_i64(y->data, y->dtype, i, oct_get_i64(x->data, x->dtype, i));
  }
  return OCTET_OK;
}

static octet_status import_cast(oct_importer *importer, const oct_foreign_node *foreign) {
  static const char *const known[] = {"to", "saturate", "round_mode", NULL}; /* the last two concern float8 only */
  if (!oct_foreign_attribute(foreign, "to")) return oct_import_unsupported(importer, foreign, "attribute \"to\" is required");
  int64_t to = oct_foreign_int(foreign, "to", 0);
  size_t i = 0;
  while (i < ONNX_TYPES && onnx_types[i].number != to) i++;
  if (i == ONNX_TYPES) return oct_import_unsupported(importer, foreign, "element type number %lld", (long long)to);
  if (!onnx_types[i].dtype) return oct_import_unsupported(importer, foreign, "element type %s", onnx_types[i].name);
  oct_node *node;
  OCT_TRY(oct_import_node(importer, foreign, "cast", foreign->inputs, foreign->n_inputs, 1, &node));
  OCT_TRY(oct_import_attributes(importer, foreign, node, known));
  OCT_TRY(oct_node_set_string(importer->ctx, importer->graph, node, "to", oct_dtype_name(onnx_types[i].dtype)));
  return oct_import_finish(importer, foreign, node);
}

static octet_status import_like(oct_importer *importer, const oct_foreign_node *foreign) {
  static const char *const known[] = {"saturate", "round_mode", NULL};
  oct_node *node;
  OCT_TRY(oct_import_node(importer, foreign, "cast_like", foreign->inputs, foreign->n_inputs, 1, &node));
  OCT_TRY(oct_import_attributes(importer, foreign, node, known));
  return oct_import_finish(importer, foreign, node);
}

static octet_status export_cast(oct_exporter *exporter, const oct_node *node) {
  const char *input = exporter->name_of(exporter, node->inputs[0]);
  if (!input) return exporter->ctx->status;
  oct_attribute to = {.name = "to", .type = OCT_ATTRIBUTE_INT};
  for (size_t i = 0; i < ONNX_TYPES; i++)
    if (onnx_types[i].dtype == node->outputs[0]->dtype) to.i = onnx_types[i].number;
  const oct_foreign_node foreign = {.type = "Cast",
                                    .domain = "",
                                    .name = node->name,
                                    .version = exporter->version,
                                    .n_inputs = 1,
                                    .outputs = (const char *[]){node->outputs[0]->name},
                                    .n_outputs = 1,
                                    .attributes = &to,
                                    .n_attributes = 1};
  return exporter->emit(exporter, &foreign, &input);
}

static const oct_attribute_spec attributes[] = {{"to", OCT_ATTRIBUTE_STRING, true, NULL, 0, 0, "element type: f32, f16, i64, bool, ..."},
                                                {0}};

static const char *const cases[] = {"in=f32[3,5] attr:to=f16",
                                    "in=f16[7] attr:to=f32",
                                    "in=f32[9] attr:to=i32",
                                    "in=i64[4] attr:to=u8",
                                    "in=f32[4] attr:to=bool",
                                    "in=f32[2,2] attr:to=bf16",
                                    NULL};
static const char *const like_cases[] = {"in=f32[3,5],f16[1]", "in=i32[4],f32[2]", NULL};

const oct_op oct_op_cast = {
    .name = "cast",
    .summary = "another element type",
    .traits = OCT_TRAIT_ELEMENTWISE,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer_cast,
    .reference = reference,
    .quantization = {.roles = {OCT_ROLE_NONE}, .output = OCT_OUTPUT_NONE},
    .imports = (const oct_import_row[]){{"onnx", "Cast", 7, 0, import_cast}, {0}},
    .exports = (const oct_export_row[]){{"onnx", "Cast", export_cast}, {0}},
    .cases = cases,
};

const oct_op oct_op_cast_like = {
    .name = "cast_like",
    .summary = "the element type of input 1",
    .traits = OCT_TRAIT_ELEMENTWISE,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer_like,
    .reference = reference,
    .quantization = {.roles = {OCT_ROLE_NONE}, .output = OCT_OUTPUT_NONE},
    .imports = (const oct_import_row[]){{"onnx", "CastLike", 15, 0, import_like}, {0}},
    .exports = OCT_ONNX_EXPORT("CastLike"),
    .cases = like_cases,
};
