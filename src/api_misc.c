/* Public functions: recorded cases, arrays in files, what this build knows.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "api.h"
#include "formats/check.h"
#include "formats/npy.h"

/* Runs a case's graph through a session. */
static octet_status run_in_session(octet_context *ctx, void *user, oct_graph *graph, const oct_tensor *const *inputs,
                                   oct_tensor **outputs) {
  (void)user;
  oct_session_options o = oct_session_options_default();
  o.exact_float = true; /* recorded outputs are compared to a few units in the last place */
  oct_named_shape *shapes = oct_alloc(ctx, graph->n_inputs + 1, sizeof *shapes);
  if (!shapes) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < graph->n_inputs; i++) shapes[i] = (oct_named_shape){graph->inputs[i]->name, inputs[i]->shape};
  o.shapes = shapes;
  o.n_shapes = graph->n_inputs;
  oct_session *session = NULL;
  octet_status status = oct_session_create(ctx, graph, &o, &session);
  oct_free(shapes);
  if (status != OCTET_OK) return status;
  for (size_t i = 0; i < oct_session_inputs(session); i++) {
    oct_session_port port = oct_session_input(session, i);
    if (port.bytes) memcpy(port.data, inputs[i]->data, port.bytes);
  }
  status = oct_session_run(session);
  for (size_t i = 0; i < oct_session_outputs(session) && status == OCTET_OK; i++) {
    oct_session_port port = oct_session_output(session, i);
    status = oct_tensor_create(ctx, port.value->dtype, &port.value->shape, &outputs[i]);
    if (status == OCTET_OK && port.bytes) memcpy(outputs[i]->data, port.data, port.bytes);
  }
  oct_session_destroy(session);
  return status;
}

octet_status octet_check_case(octet_context *ctx, const char *folder, octet_case_result *result, char detail[512]) {
  oct_check_result r = {0};
  OCT_TRY(oct_check_case(ctx, folder, run_in_session, NULL, &r));
  *result = r.verdict == OCT_CHECK_PASSED ? OCTET_CASE_PASSED : r.verdict == OCT_CHECK_FAILED ? OCTET_CASE_FAILED : OCTET_CASE_SKIPPED;
  snprintf(detail, 512, "%.511s", r.verdict == OCT_CHECK_PASSED ? "" : r.message);
  return OCTET_OK;
}

octet_status octet_tensor_read(octet_context *ctx, const char *path, octet_tensor *out) {
  *out = (octet_tensor){0};
  oct_tensor *t;
  OCT_TRY(oct_npy_read(ctx, path, &t));
  octet_tensor result = {.dtype = oct_dtype_name(t->dtype), .rank = t->shape.rank, .bytes = t->bytes};
  for (int d = 0; d < t->shape.rank; d++) result.dims[d] = t->shape.dim[d];
  result.name = oct_strdup(ctx, path);
  result.data = oct_alloc(ctx, t->bytes + 1, 1);
  if (result.data && t->bytes) memcpy(result.data, t->data, t->bytes);
  oct_tensor_release(t);
  if (!result.name || !result.data) {
    octet_tensor_free(&result);
    return OCTET_OUT_OF_MEMORY;
  }
  *out = result;
  return OCTET_OK;
}

octet_status octet_tensor_write(octet_context *ctx, const char *path, const octet_tensor *tensor) {
  oct_dtype dtype = oct_dtype_parse(tensor->dtype ? tensor->dtype : "");
  if (dtype == OCT_DTYPE_NONE || tensor->rank < 0 || tensor->rank > OCT_MAX_RANK)
    return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "%s: the tensor has no valid type and shape", path);
  oct_tensor t = {.dtype = dtype, .shape.rank = tensor->rank, .data = tensor->data, .bytes = tensor->bytes, .references = 1};
  for (int d = 0; d < tensor->rank; d++) t.shape.dim[d] = tensor->dims[d];
  int64_t count = oct_shape_count(&t.shape);
  if (count < 0 || (size_t)count * oct_dtype_size(dtype) != t.bytes)
    return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "%s: %zu bytes do not fit the tensor's shape", path, t.bytes);
  return oct_npy_write(ctx, path, &t);
}

void octet_tensor_free(octet_tensor *tensor) {
  oct_free((void *)(uintptr_t)tensor->name);
  oct_free(tensor->data);
  *tensor = (octet_tensor){0};
}

size_t octet_operator_count(void) {
  size_t n = 0;
  while (oct_op_registry[n]) n++;
  return n;
}

static const char *quantization_of(const oct_op *op) {
  if (op->quantization.output == OCT_OUTPUT_FLOAT) return "float";
  if (op->quantization.output == OCT_OUTPUT_NONE) return "none";
  if (op->scalar1) return "table";
  return op->traits & OCT_TRAIT_MOVEMENT ? "moves" : "integer";
}

octet_operator_info octet_operator(size_t index) {
  if (index >= octet_operator_count()) return (octet_operator_info){0};
  const oct_op *op = oct_op_registry[index];
  octet_operator_info info = {
      .name = op->name, .summary = op->summary, .has_lowering = op->lower != NULL, .quantization = quantization_of(op)};
  if (op->imports && op->imports->format) info.onnx_import = op->imports->name;
  if (op->exports && op->exports->format) info.onnx_export = op->exports->name;
  return info;
}

const char *octet_operator_import(size_t index, size_t row) {
  if (index >= octet_operator_count() || !oct_op_registry[index]->imports) return NULL;
  const oct_import_row *r = oct_op_registry[index]->imports;
  for (size_t i = 0; r[i].format; i++)
    if (i == row) return r[i].name;
  return NULL;
}

size_t octet_kernel_count(void) {
  size_t n = 0;
  for (size_t i = 0; oct_conv_i8_kernels[i]; i++) n++;
  for (size_t i = 0; oct_conv_f32_kernels[i]; i++) n++;
  for (size_t i = 0; oct_vector_kernel_rows[i]; i++) n++;
  return n;
}

const char *octet_kernel_name(size_t index) {
  for (size_t i = 0; oct_conv_i8_kernels[i]; i++)
    if (index-- == 0) return oct_conv_i8_kernels[i]->name;
  for (size_t i = 0; oct_conv_f32_kernels[i]; i++)
    if (index-- == 0) return oct_conv_f32_kernels[i]->name;
  for (size_t i = 0; oct_vector_kernel_rows[i]; i++)
    if (index-- == 0) return oct_vector_kernel_rows[i]->name;
  return NULL;
}
