/* quantize and dequantize nodes with constant parameters become quantization parameters of values:
 *
 * - quantize - dequantize with equal parameters: the value before carries them, if only such quantize nodes read it; else an identity
 *   node whose output carries them stands in for the pair.
 * - dequantize of a constant: a quantized constant. Unsigned bytes with zero point 128 become signed ones with zero point 0: the same
 *   real numbers.
 * - dequantize after an operator that moves or selects elements (transpose, reshape, max pooling): goes before it, to meet its quantize.
 * - dequantize of an 8-bit graph input, quantize to an 8-bit graph output: stay, but the value on the float side carries the parameters.
 * SPDX-License-Identifier: MIT */
#include "passes/qdq.h"

static bool is_narrow(const oct_quant *params) { return oct_dtype_size(params->dtype) <= 2; }

/* ---- Pairs --------------------------------------------------------------------------------------------------- */

/* The value that carries `params` for x, made if need be; NULL: not in this sweep, or not wanted. */
static octet_status find_carrier(oct_qdq *q, oct_value *x, const oct_quant *params, bool may_insert, oct_value **out) {
  *out = NULL;
  if (oct_quant_equal(x->quant, params)) {
    *out = x;
    return OCTET_OK;
  }
  bool old = oct_rewrite_is_old(&q->rw, x);
  if (!x->quant && oct_qdq_all_uses(q, x, OCT_TRAIT_QUANTIZE, params)) {
    OCT_TRY(oct_value_set_quant(q->rw.ctx, q->rw.graph, x, params));
    q->rw.changed = true;
    *out = x;
    return OCTET_OK;
  }
  if (!x->quant && old && q->rw.touched[x->id]) return OCTET_OK; /* the next sweep knows its uses */
  return may_insert ? oct_qdq_rounded(q, x, params, out) : OCTET_OK;
}

static octet_status absorb_pair(oct_qdq *q, oct_node *quantize, const oct_quant *params) {
  oct_rewrite *rw = &q->rw;
  oct_value *stored = quantize->outputs[0], *x = oct_rewrite_now(rw, quantize->inputs[0]), *carrier;
  if (x->kind == OCT_CONSTANT || rw->touched[stored->id] || rw->to[stored->id]) return OCTET_OK;
  int first = rw->uses.first[stored->id], end = rw->uses.first[stored->id + 1], pairs = 0;
  for (int i = first; i < end; i++) pairs += oct_quant_equal(oct_qdq_params(q, rw->uses.uses[i].node, OCT_TRAIT_DEQUANTIZE), params);
  if (pairs == 0 && !rw->is_output[stored->id]) return OCTET_OK;
  OCT_TRY(find_carrier(q, x, params, pairs > 0, &carrier));
  if (!carrier) return OCTET_OK;
  if (pairs < end - first) quantize->inputs[0] = carrier; /* others read the integers */
  for (int i = first; i < end; i++) {
    oct_node *user = rw->uses.uses[i].node;
    if (oct_quant_equal(oct_qdq_params(q, user, OCT_TRAIT_DEQUANTIZE), params)) OCT_TRY(oct_qdq_replace_output(q, user, carrier, params));
  }
  return OCTET_OK;
}

/* ---- Constants ------------------------------------------------------------------------------------------------- */

static bool is_biased_byte(const oct_quant *params) {
  bool all = params->dtype == OCT_U8;
  for (int64_t i = 0; i < params->count && all; i++) all = params->zero_point[i] == 128;
  return all;
}

/* u8 with zero point 128 as i8 with zero point 0. */
static octet_status make_signed(oct_qdq *q, oct_value *v) {
  oct_tensor *fresh;
  OCT_TRY(oct_tensor_create(q->rw.ctx, OCT_I8, &v->tensor->shape, &fresh));
  for (size_t i = 0; i < fresh->bytes; i++) ((uint8_t *)fresh->data)[i] = ((const uint8_t *)v->tensor->data)[i] ^ 0x80;
  oct_value_set_tensor(v, fresh);
  v->quant->dtype = OCT_I8;
  memset(v->quant->zero_point, 0, (size_t)v->quant->count * sizeof *v->quant->zero_point);
  return OCTET_OK;
}

/* No rounding of its own beyond what the parameters say. */
static bool rounds_like(const oct_value *v, const oct_quant *params) { return !v->quant || oct_quant_equal(v->quant, params); }

static octet_status absorb_constant(oct_qdq *q, oct_node *node, const oct_quant *params) {
  oct_rewrite *rw = &q->rw;
  oct_value *stored = node->inputs[0], *y = node->outputs[0];
  if (stored->quant || !rounds_like(y, params) || rw->is_output[y->id]) return OCTET_OK;
  int first = rw->uses.first[stored->id], end = rw->uses.first[stored->id + 1];
  bool whole = oct_qdq_all_uses(q, stored, OCT_TRAIT_DEQUANTIZE, params);
  oct_value *constant = stored;
  if (!whole) OCT_TRY(oct_graph_constant(rw->ctx, rw->graph, stored->name, oct_tensor_retain(stored->tensor), &constant));
  OCT_TRY(oct_value_set_quant(rw->ctx, rw->graph, constant, params));
  if (is_biased_byte(params)) OCT_TRY(make_signed(q, constant));
  for (int i = first; i < end; i++) { /* every dequantize node of these parameters at once */
    oct_node *user = rw->uses.uses[i].node;
    bool like = user && oct_quant_equal(oct_qdq_params(q, user, OCT_TRAIT_DEQUANTIZE), params);
    if (like && rounds_like(user->outputs[0], params) && !rw->is_output[user->outputs[0]->id] && !rw->to[user->outputs[0]->id])
      OCT_TRY(oct_rewrite_replace(rw, user->outputs[0], constant));
  }
  return OCTET_OK;
}

/* ---- Movement between the two ------------------------------------------------------------------------------------ */

static bool moves(const oct_node *node) {
  return oct_node_has(node, OCT_TRAIT_MOVEMENT) || oct_node_has(node, OCT_TRAIT_WINDOW_MAX) || oct_node_has(node, OCT_TRAIT_IDENTITY);
}

/* The operator acts on input 0 alone, elementwise in value, and has one output. */
static bool can_pass(const oct_qdq *q, const oct_node *mover, const oct_value *moved) {
  if (!mover || !moves(mover) || mover->outputs[0] != moved || !mover->inputs[0] || mover->inputs[0]->dtype != moved->dtype) return false;
  for (int i = 1; i < mover->n_inputs; i++)
    if (mover->inputs[i] && mover->inputs[i]->dtype == moved->dtype) return false;
  for (int i = 1; i < mover->n_outputs; i++)
    if (mover->outputs[i] && oct_use_count(&q->rw.uses, mover->outputs[i]) > 0) return false;
  return true;
}

static octet_status pass_movement(oct_qdq *q, oct_node *node, const oct_quant *params, bool *done) {
  oct_rewrite *rw = &q->rw;
  oct_value *moved = node->inputs[0];
  oct_node *mover = moved->producer, *before;
  *done = params->axis < 0 && is_narrow(params) && can_pass(q, mover, moved) && oct_qdq_all_uses(q, moved, OCT_TRAIT_DEQUANTIZE, params);
  if (!*done) return OCTET_OK;
  oct_value *inputs[3] = {mover->inputs[0], node->inputs[1], node->n_inputs > 2 ? node->inputs[2] : NULL};
  OCT_TRY(oct_graph_node(rw->ctx, rw->graph, node->op, node->name, inputs, node->n_inputs < 3 ? node->n_inputs : 3, 1, &before));
  OCT_TRY(oct_node_infer(rw->ctx, before));
  OCT_TRY(oct_value_set_quant(rw->ctx, rw->graph, before->outputs[0], params));
  if (oct_rewrite_is_old(rw, mover->inputs[0])) rw->touched[mover->inputs[0]->id] = true;
  mover->inputs[0] = before->outputs[0];
  moved->dtype = OCT_F32;
  OCT_TRY(oct_value_set_quant(rw->ctx, rw->graph, moved, params));
  for (int i = rw->uses.first[moved->id]; i < rw->uses.first[moved->id + 1]; i++)
    OCT_TRY(oct_qdq_replace_output(q, rw->uses.uses[i].node, moved, params));
  return OCTET_OK;
}

/* ---- The sweep ---------------------------------------------------------------------------------------------------- */

static octet_status visit_dequantize(oct_qdq *q, oct_node *node, const oct_quant *params) {
  oct_value *stored = node->inputs[0], *y = node->outputs[0];
  bool done;
  if (q->rw.to[y->id] || q->rw.touched[y->id] || !oct_rewrite_is_old(&q->rw, stored)) return OCTET_OK;
  if (stored->kind == OCT_CONSTANT) return absorb_constant(q, node, params);
  OCT_TRY(pass_movement(q, node, params, &done));
  if (done || y->quant || !is_narrow(params) || q->rw.touched[stored->id]) return OCTET_OK;
  q->rw.changed = true;
  return oct_value_set_quant(q->rw.ctx, q->rw.graph, y, params); /* 8-bit graph input, or integers from elsewhere */
}

static octet_status run(octet_context *ctx, oct_graph *graph, bool *changed) {
  oct_qdq q;
  OCT_TRY(oct_qdq_begin(ctx, graph, &q));
  octet_status status = OCTET_OK;
  for (size_t i = 0; i < q.n_nodes && status == OCTET_OK; i++) {
    oct_node *node = graph->nodes[i];
    const oct_quant *quantize = oct_qdq_params(&q, node, OCT_TRAIT_QUANTIZE), *dequantize = oct_qdq_params(&q, node, OCT_TRAIT_DEQUANTIZE);
    if (quantize && is_narrow(quantize)) status = absorb_pair(&q, node, quantize);
    else if (dequantize) status = visit_dequantize(&q, node, dequantize);
  }
  return oct_qdq_end(&q, status, changed);
}

const oct_pass oct_pass_absorb_qdq = {
    .name = "absorb_qdq",
    .summary = "quantize and dequantize nodes become quantization parameters of values",
    .run = run,
};
