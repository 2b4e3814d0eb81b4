/* Runs a graph node by node through the operators' references: the slow, plain road, for tests of importers, passes and executors.
 * Values with quantization parameters are rounded there, constants with such are dequantized.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_TESTS_REF_INTERPRETER_H
#define OCT_TESTS_REF_INTERPRETER_H

#include "ir/op.h"
#include "kernels/numerics.h"

typedef struct ref_run {
  octet_context *ctx;
  oct_graph *graph;     /* a copy, whose shapes the run makes exact */
  oct_tensor **tensors; /* by value id */
} ref_run;

static inline void ref_limits(oct_dtype dtype, int32_t *low, int32_t *high) {
  int bits = (int)oct_dtype_size(dtype) * 8;
  *low = oct_dtype_is_signed(dtype) ? (int32_t) - (1LL << (bits - 1)) : 0;
  *high = (int32_t)((1LL << (oct_dtype_is_signed(dtype) ? bits - 1 : bits)) - 1);
}

/* Which scale belongs to flat element i. */
static inline int64_t ref_channel(const oct_quant *q, const oct_shape *shape, int64_t i) {
  int64_t inner = 1;
  if (q->axis < 0) return 0;
  for (int d = q->axis + 1; d < shape->rank; d++) inner *= shape->dim[d];
  return i / inner % shape->dim[q->axis];
}

/* f32 of an integer constant; or rounds f32 in place when the tensor is f32 already. */
static inline octet_status ref_round(octet_context *ctx, const oct_quant *q, const oct_tensor *in, oct_tensor **out) {
  int32_t low, high;
  ref_limits(q->dtype, &low, &high);
  OCT_TRY(oct_tensor_create(ctx, OCT_F32, &in->shape, out));
  for (int64_t i = 0; i < oct_shape_count(&in->shape); i++) {
    int64_t c = ref_channel(q, &in->shape, i);
    int32_t x = in->dtype == OCT_F32 ? oct_quantize(((const float *)in->data)[i], q->scale[c], q->zero_point[c], low, high)
                                     : (int32_t)oct_get_i64(in->data, in->dtype, i);
    ((float *)(*out)->data)[i] = oct_dequantize(x, q->scale[c], q->zero_point[c]);
  }
  return OCTET_OK;
}

/* Takes over the reference. */
static inline octet_status ref_set(ref_run *run, const oct_value *value, oct_tensor *tensor) {
  octet_status status = OCTET_OK;
  if (value->quant && !value->observed_only) {
    oct_tensor *rounded = NULL;
    status = ref_round(run->ctx, value->quant, tensor, &rounded);
    oct_tensor_release(tensor);
    tensor = rounded;
  } else if (value->kind == OCT_CONSTANT && tensor->dtype != value->dtype) {
    oct_tensor *cast = NULL;
    status = oct_tensor_cast(run->ctx, tensor, value->dtype, &cast);
    oct_tensor_release(tensor);
    tensor = cast;
  }
  run->tensors[value->id] = tensor;
  return status;
}

static inline octet_status ref_node(ref_run *run, oct_node *node) {
  octet_context *ctx = run->ctx;
  octet_status status = OCTET_OK;
  for (int i = 0; i < node->n_outputs; i++) /* sizes of an earlier, open inference must not survive */
    if (node->outputs[i]) node->outputs[i]->has_shape = false;
  OCT_TRY(oct_node_infer(ctx, node));
  const oct_tensor **in = oct_alloc(ctx, (size_t)node->n_inputs + 1, sizeof *in);
  oct_tensor **out = oct_alloc(ctx, (size_t)node->n_outputs + 1, sizeof *out);
  if (!in || !out) status = OCTET_OUT_OF_MEMORY;
  for (int i = 0; status == OCTET_OK && i < node->n_inputs; i++) in[i] = node->inputs[i] ? run->tensors[node->inputs[i]->id] : NULL;
  for (int i = 0; status == OCTET_OK && i < node->n_outputs; i++) {
    const oct_value *v = node->outputs[i];
    if (!v) continue;
    if (!v->has_shape || !oct_shape_known(&v->shape))
      status =
          oct_fail(ctx, OCTET_UNSUPPORTED, "node \"%s\" (%s): the shape of \"%s\" depends on data", node->name, node->op->name, v->name);
    else status = oct_tensor_create(ctx, v->dtype, &v->shape, &out[i]);
  }
  if (status == OCTET_OK) status = node->op->reference(ctx, node, in, out);
  for (int i = 0; out && i < node->n_outputs; i++) {
    if (status == OCTET_OK && node->outputs[i]) status = ref_set(run, node->outputs[i], out[i]);
    else oct_tensor_release(out[i]);
  }
  /* What a node makes of constants alone is a constant to those that read shapes from it. */
  bool constant = status == OCTET_OK && node->n_outputs == 1 && node->outputs[0] && !node->outputs[0]->quant &&
                  !oct_op_has(node->op, OCT_TRAIT_NO_FOLD);
  for (int i = 0; i < node->n_inputs && constant && !oct_op_has(node->op, OCT_TRAIT_SHAPE_ONLY); i++)
    constant = !node->inputs[i] || node->inputs[i]->kind == OCT_CONSTANT;
  if (constant) {
    node->outputs[0]->kind = OCT_CONSTANT;
    node->outputs[0]->tensor = oct_tensor_retain(run->tensors[node->outputs[0]->id]);
  }
  oct_free(in);
  oct_free(out);
  return status;
}

static inline octet_status ref_start(ref_run *run, const oct_tensor *const *inputs) {
  for (size_t i = 0; i < run->graph->n_inputs; i++) {
    oct_value *v = run->graph->inputs[i];
    if (v->dtype != inputs[i]->dtype) return oct_fail(run->ctx, OCTET_DATA, "input \"%s\" has the wrong type", v->name);
    v->shape = inputs[i]->shape;
    v->has_shape = true;
    OCT_TRY(ref_set(run, v, oct_tensor_retain((oct_tensor *)(uintptr_t)inputs[i])));
  }
  for (size_t i = 0; i < run->graph->n_values; i++) {
    const oct_value *v = run->graph->values[i];
    if (v->kind == OCT_CONSTANT && !run->tensors[v->id]) OCT_TRY(ref_set(run, v, oct_tensor_retain(v->tensor)));
  }
  return OCTET_OK;
}

/* Runs `graph` (left as it is) on inputs in graph order; one tensor per graph output. Has the form of oct_check_run. */
static inline octet_status ref_interpret(octet_context *ctx, void *user, oct_graph *graph, const oct_tensor *const *inputs,
                                         oct_tensor **outputs) {
  (void)user;
  ref_run run = {.ctx = ctx};
  octet_status status = oct_graph_copy(ctx, graph, &run.graph);
  if (status == OCTET_OK) status = oct_graph_compact(ctx, run.graph);
  if (status == OCTET_OK && !(run.tensors = oct_alloc(ctx, run.graph->n_values, sizeof *run.tensors))) status = OCTET_OUT_OF_MEMORY;
  size_t n_values = status == OCTET_OK ? run.graph->n_values : 0;
  if (status == OCTET_OK) status = ref_start(&run, inputs);
  for (size_t i = 0; status == OCTET_OK && i < run.graph->n_nodes; i++) status = ref_node(&run, run.graph->nodes[i]);
  for (size_t i = 0; status == OCTET_OK && i < run.graph->n_outputs; i++)
    outputs[i] = oct_tensor_retain(run.tensors[run.graph->outputs[i]->id]);
  for (size_t i = 0; i < n_values; i++) oct_tensor_release(run.tensors[i]);
  oct_free(run.tensors);
  oct_graph_destroy(run.graph);
  return status;
}

#endif
