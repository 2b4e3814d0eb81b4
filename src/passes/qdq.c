/* Parameters of quantize and dequantize nodes, and what stands in for a pair of them.
 * SPDX-License-Identifier: MIT */
#include "passes/qdq.h"

#include <math.h>
#include <stdio.h>

/* Scale (inputs[1]) and zero point (inputs[2], absent: 0) as constants. */
static const oct_tensor *plain_constant(const oct_node *node, int i) {
  const oct_value *v = i < node->n_inputs ? node->inputs[i] : NULL;
  return v && !v->quant ? oct_constant_of(v) : NULL;
}

static bool is_stored_type(oct_dtype dtype) {
  return dtype == OCT_I8 || dtype == OCT_U8 || dtype == OCT_I16 || dtype == OCT_U16 || dtype == OCT_I32;
}

/* The axis of per-channel parameters: -1 for one scale, -2 when they do not fit. */
static int axis_of(const oct_node *node, int64_t count) {
  const oct_value *x = node->inputs[0];
  if (count == 1) return -1;
  int64_t axis = oct_node_int(node, "axis");
  if (!x->has_shape || !oct_axis_normalize(&axis, x->shape.rank) || x->shape.dim[axis] != count) return -2;
  return (int)axis;
}

static octet_status read_params(oct_qdq *q, const oct_node *node, oct_quant **out) {
  *out = NULL;
  bool quantizes = oct_node_has(node, OCT_TRAIT_QUANTIZE);
  const oct_value *x = node->inputs[0], *y = node->outputs[0];
  const oct_tensor *scale = plain_constant(node, 1), *zero = plain_constant(node, 2);
  bool has_zero = node->n_inputs > 2 && node->inputs[2];
  oct_dtype stored = quantizes ? y->dtype : x->dtype, real = quantizes ? x->dtype : y->dtype;
  if (!scale || scale->dtype != OCT_F32 || (has_zero && !zero) || real != OCT_F32 || !is_stored_type(stored)) return OCTET_OK;
  if (oct_node_int(node, "block_size") || oct_node_int(node, "precision") > 1) return OCTET_OK; /* 1: ONNX's number of f32 */
  int64_t count = oct_shape_count(&scale->shape), zeros = zero ? oct_shape_count(&zero->shape) : 1;
  int axis = count < 1 || scale->shape.rank > 1 ? -2 : axis_of(node, count);
  if (axis < -1 || (zeros != count && zeros != 1)) return OCTET_OK;
  oct_quant *params = oct_quant_create(q->rw.ctx, &q->region, stored, axis, count, scale->data, NULL);
  if (!params) return OCTET_OUT_OF_MEMORY;
  for (int64_t i = 0; i < count; i++) {
    if (!isfinite(params->scale[i]) || params->scale[i] <= 0) return OCTET_OK;
    if (zero) params->zero_point[i] = (int32_t)oct_get_i64(zero->data, zero->dtype, zeros == 1 ? 0 : i);
  }
  *out = params;
  return OCTET_OK;
}

octet_status oct_qdq_begin(octet_context *ctx, oct_graph *graph, oct_qdq *q) {
  *q = (oct_qdq){.n_nodes = graph->n_nodes};
  OCT_TRY(oct_rewrite_begin(ctx, graph, &q->rw));
  q->n_nodes = graph->n_nodes;
  q->params = oct_alloc(ctx, q->n_nodes + 1, sizeof *q->params);
  octet_status status = q->params ? OCTET_OK : OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < q->n_nodes && status == OCTET_OK; i++) {
    const oct_node *node = graph->nodes[i];
    bool one = oct_node_has(node, OCT_TRAIT_QUANTIZE) || oct_node_has(node, OCT_TRAIT_DEQUANTIZE);
    if (one && node->n_inputs > 1 && node->inputs[0] && node->outputs[0]) status = read_params(q, node, &q->params[i]);
  }
  bool unused;
  return status == OCTET_OK ? OCTET_OK : oct_qdq_end(q, status, &unused);
}

octet_status oct_qdq_end(oct_qdq *q, octet_status status, bool *changed) {
  oct_free(q->params);
  oct_region_free(&q->region);
  return oct_rewrite_end(&q->rw, status, changed);
}

const oct_quant *oct_qdq_params(const oct_qdq *q, const oct_node *node, oct_trait trait) {
  return oct_node_has(node, trait) && (size_t)node->id < q->n_nodes && q->rw.graph->nodes[node->id] == node ? q->params[node->id] : NULL;
}

bool oct_qdq_all_uses(const oct_qdq *q, const oct_value *v, oct_trait trait, const oct_quant *params) {
  const oct_rewrite *rw = &q->rw;
  if (!oct_rewrite_is_old(rw, v) || rw->is_output[v->id] || rw->touched[v->id]) return false;
  for (int i = rw->uses.first[v->id]; i < rw->uses.first[v->id + 1]; i++) {
    const oct_quant *own = oct_qdq_params(q, rw->uses.uses[i].node, trait);
    if (!own || rw->uses.uses[i].index != 0 || !oct_quant_equal(own, params)) return false;
  }
  return oct_use_count(&rw->uses, v) > 0;
}

octet_status oct_qdq_rounded(oct_qdq *q, oct_value *x, const oct_quant *params, oct_value **out) {
  const oct_op *identity = oct_op_find("identity");
  oct_node *node;
  char name[160];
  if (!identity) return oct_fail(q->rw.ctx, OCTET_GRAPH, "operator identity is not there");
  snprintf(name, sizeof name, "%.140s.rounded", x->name);
  OCT_TRY(oct_graph_node(q->rw.ctx, q->rw.graph, identity, name, &x, 1, 1, &node));
  OCT_TRY(oct_node_infer(q->rw.ctx, node));
  *out = node->outputs[0];
  q->rw.changed = true;
  return oct_value_set_quant(q->rw.ctx, q->rw.graph, *out, params);
}

octet_status oct_qdq_replace_output(oct_qdq *q, oct_node *dequantize, oct_value *carrier, const oct_quant *params) {
  oct_value *y = dequantize->outputs[0];
  const oct_quant *wanted = y->quant ? y->quant : params;
  if (!oct_quant_equal(wanted, carrier->quant) || !oct_rewrite_can_replace(&q->rw, y, carrier))
    OCT_TRY(oct_qdq_rounded(q, carrier, wanted, &carrier));
  return oct_rewrite_replace(&q->rw, y, carrier);
}
