/* The scheme of static int8: which nodes run on integers, and which values are wanted in 8 bits for that. Decided backwards from the
 * results: a multiplying layer (convolution, gemm, matmul) is integer wherever it can be; any other node only where an integer layer
 * needs its result. What comes after the last integer layer stays float: rounding results would only lose accuracy.
 * A convolution with what is fused to it (residual add, activation) counts as one node; values inside it are never rounded.
 * SPDX-License-Identifier: MIT */
#include "base/strbuf.h"
#include "quantize/calibration.h"

oct_role oct_node_role(const oct_node *node, int i) {
  const oct_role *roles = node->op->quantization.roles;
  if (node->op->max_inputs < 0) { /* the last given one repeats */
    int last = 3;
    while (last > 0 && roles[last] == OCT_ROLE_NONE) last--;
    if (i > last) return roles[last];
  }
  return i < 4 ? roles[i] : OCT_ROLE_NONE;
}

bool oct_node_joins(const oct_node *node) {
  return node->op->max_inputs < 0 && node->n_inputs > 1 && !oct_node_has(node, OCT_TRAIT_ELEMENTWISE) &&
         oct_node_role(node, 1) == OCT_ROLE_ACTIVATION;
}

static bool is_layer(const oct_node *node) {
  return oct_node_has(node, OCT_TRAIT_ACCUMULATES) && node->n_inputs > 1 && oct_node_role(node, 1) == OCT_ROLE_WEIGHT;
}

int oct_weight_axis(const oct_node *node) {
  if (!is_layer(node) || !oct_constant_of(node->inputs[1])) return -1;
  const oct_value *w = node->inputs[1];
  if (w->quant || w->tensor->dtype != OCT_F32) return -1;
  int axis = node->op->quantization.weight_axis ? node->op->quantization.weight_axis(node) : 0;
  return axis >= 0 && axis < w->tensor->shape.rank ? axis : -1;
}

oct_value *oct_calibration_result(const oct_calibration *c, const oct_node *node) {
  if (oct_node_has(node, OCT_TRAIT_ACCUMULATES) && !c->fusion.root[node->id]) return c->fusion.fusions[node->id].output;
  return node->n_outputs > 0 ? node->outputs[0] : NULL;
}

/* ---- Can a node be integer? -------------------------------------------------------------------------------------- */

/* Whether a bias is absent or one constant per output channel (or one for all). Groups that share entries of the weights have their own. */
static bool bias_is_simple(const oct_node *node, int axis) {
  if (node->n_inputs < 3 || !node->inputs[2]) return true;
  const oct_tensor *bias = oct_constant_of(node->inputs[2]), *weights = node->inputs[1]->tensor;
  if (!bias || node->inputs[2]->quant || bias->dtype != OCT_F32) return false;
  int64_t count = oct_shape_count(&bias->shape);
  if (count == 1) return true;
  int64_t entries = weights->shape.dim[axis];
  return entries > 0 && count > 0 && count % entries == 0 && bias->shape.dim[bias->shape.rank - 1] == count;
}

static octet_status say(const oct_calibration *c, const char **reason, const char *format, const char *name) {
  *reason = oct_region_printf(c->ctx, (oct_region *)&c->region, format, name);
  return *reason ? OCTET_OK : OCTET_OUT_OF_MEMORY;
}

static octet_status check_layer(const oct_calibration *c, const oct_node *node, const char **reason) {
  const oct_value *w = node->inputs[1];
  int axis = oct_weight_axis(node);
  if (!oct_constant_of(w)) return say(c, reason, "its weights \"%s\" are computed, not constant", w->name);
  if (axis < 0) return say(c, reason, "its weights \"%s\" are not a constant f32 tensor with an output-channel axis", w->name);
  if (!bias_is_simple(node, axis)) return say(c, reason, "its bias \"%s\" is not one constant per output channel", node->inputs[2]->name);
  return OCTET_OK;
}

static bool is_weight_of_a_layer(const oct_calibration *c, const oct_value *v) {
  for (int k = c->uses.first[v->id]; k < c->uses.first[v->id + 1]; k++) {
    const oct_use *use = &c->uses.uses[k];
    if (use->node && use->index == 1 && is_layer(use->node)) return true;
  }
  return false;
}

static octet_status check_inputs(const oct_calibration *c, const oct_node *node, const char **reason) {
  for (int i = 0; i < node->n_inputs && !*reason; i++) {
    const oct_value *v = node->inputs[i];
    if (!v || oct_node_role(node, i) != OCT_ROLE_ACTIVATION) continue;
    if (v->dtype != OCT_F32) OCT_TRY(say(c, reason, "its input \"%s\" is not f32", v->name));
    else if (c->values[v->id].blocked) OCT_TRY(say(c, reason, "its input \"%s\" is kept float", v->name));
    else if (v->kind == OCT_CONSTANT && is_weight_of_a_layer(c, v))
      OCT_TRY(say(c, reason, "it reads \"%s\", which another layer has as weights", v->name));
  }
  return OCTET_OK;
}

/* *reason NULL: it can. */
static octet_status why_float(const oct_calibration *c, const oct_node *node, const char **reason) {
  const oct_node_choice *choice = &c->nodes[node->id];
  *reason = NULL;
  if (choice->mode == OCT_MODE_FLOAT) *reason = "kept float by request";
  else if (choice->mode != OCT_MODE_INT8)
    *reason = is_layer(node) ? "only its weights are quantized, by request" : "only weights are quantized";
  else if (choice->forced) *reason = choice->forced;
  else if (node->op->quantization.output == OCT_OUTPUT_FLOAT) return say(c, reason, "%s has no integer form", node->op->name);
  else if (oct_node_has(node, OCT_TRAIT_ACCUMULATES) && !is_layer(node)) *reason = "it has no weights to quantize";
  else if (is_layer(node)) OCT_TRY(check_layer(c, node, reason));
  return *reason ? OCTET_OK : check_inputs(c, node, reason);
}

/* ---- What is needed ---------------------------------------------------------------------------------------------- */

static bool can_round(const oct_calibration *c, const oct_value *v) {
  const oct_value_choice *choice = &c->values[v->id];
  return v->dtype == OCT_F32 && v->kind != OCT_CONSTANT && !choice->blocked && !choice->inside;
}

static void need(oct_calibration *c, const oct_value *v) {
  if (v && can_round(c, v)) c->values[v->id].needed = true;
}

static bool feeds_integers(const oct_calibration *c, const oct_value *v, bool *leads) {
  bool needed = c->values[v->id].needed;
  for (int k = c->uses.first[v->id]; k < c->uses.first[v->id + 1]; k++) {
    const oct_node *user = c->uses.uses[k].node;
    if (user && leads[user->id]) needed = true;
  }
  return needed;
}

static void need_inputs(oct_calibration *c, const oct_node *node, bool result_needed) {
  for (int i = 0; i < node->n_inputs; i++)
    if (oct_node_role(node, i) == OCT_ROLE_ACTIVATION) need(c, node->inputs[i]);
  if (is_layer(node) && result_needed && c->fusion.fusions[node->id].residual) need(c, c->fusion.fusions[node->id].residual);
}

static bool reads_floats(const oct_node *node) {
  for (int i = 0; i < node->n_inputs; i++) {
    const oct_value *v = node->inputs[i];
    if (v && v->dtype == OCT_F32 && (v->kind != OCT_CONSTANT || oct_node_role(node, i) == OCT_ROLE_ACTIVATION)) return true;
  }
  return false;
}

/* One node with what is fused to it; everything after it is decided. */
static octet_status decide_node(oct_calibration *c, const oct_node *node, bool *leads) {
  oct_node_choice *choice = &c->nodes[node->id];
  bool layer = oct_node_has(node, OCT_TRAIT_ACCUMULATES), needed = false;
  const oct_value *result = oct_calibration_result(c, node);
  if (layer && result) {
    needed = c->values[result->id].needed;
    leads[node->id] = feeds_integers(c, result, leads);
  }
  for (int i = 0; i < node->n_outputs && !layer; i++) {
    if (!node->outputs[i]) continue;
    needed = needed || c->values[node->outputs[i]->id].needed;
    leads[node->id] = leads[node->id] || feeds_integers(c, node->outputs[i], leads);
  }
  if (node->op->quantization.output == OCT_OUTPUT_NONE || !reads_floats(node)) return OCTET_OK;
  OCT_TRY(why_float(c, node, &choice->reason));
  if (!choice->reason && !layer && !needed) {
    choice->tail = !leads[node->id];
    choice->reason = choice->tail ? "no integer layer comes after it" : "only float nodes read its result";
  }
  choice->integer = !choice->reason;
  choice->island = !choice->integer && leads[node->id];
  if (!choice->integer) return OCTET_OK;
  leads[node->id] = true;
  need_inputs(c, node, needed);
  return OCTET_OK;
}

static octet_status decide_step(oct_calibration *c, const oct_node *root, bool *leads) {
  OCT_TRY(decide_node(c, root, leads));
  for (int id = root->id + 1; id <= c->fusion.last[root->id]; id++)
    if (c->fusion.root[id] == root) leads[id] = leads[root->id];
  return OCTET_OK;
}

octet_status oct_scheme_decide(oct_calibration *c) {
  oct_graph *g = c->graph;
  bool *leads = oct_alloc(c->ctx, g->n_nodes + 1, sizeof *leads); /* by node: an integer node depends on it, or it is one */
  if (!leads) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < g->n_values; i++) c->values[i].needed = false;
  for (size_t i = 0; i < g->n_nodes; i++) {
    oct_node_choice *n = &c->nodes[i];
    n->integer = n->tail = n->island = false;
    n->reason = NULL;
  }
  if (c->options.io != OCT_IO_FLOAT)
    for (size_t i = 0; i < g->n_outputs; i++) need(c, g->outputs[i]);
  octet_status status = OCTET_OK;
  for (size_t i = g->n_nodes; i-- > 0 && status == OCTET_OK;) {
    const oct_node *node = g->nodes[i], *root = c->fusion.root[i];
    bool waits = !root && oct_node_has(node, OCT_TRAIT_ACCUMULATES) && c->fusion.last[i] != (int)i;
    if (root && c->fusion.last[root->id] == (int)i) status = decide_step(c, root, leads);
    else if (!root && !waits) status = decide_node(c, node, leads);
  }
  oct_free(leads);
  return status;
}

octet_status oct_scheme_check_strict(const oct_calibration *c) {
  oct_strbuf text = oct_strbuf_make(c->ctx);
  size_t count = 0;
  for (size_t i = 0; i < c->graph->n_nodes; i++) {
    const oct_node *node = c->graph->nodes[i];
    const oct_node_choice *n = &c->nodes[i];
    if (!n->reason || n->tail || n->by_request || oct_is_fused_member(c, node)) continue;
    if (count++ < 20) oct_strbuf_printf(&text, "\n  \"%s\" (%s): %s", node->name, node->op->name, n->reason);
  }
  char *list;
  octet_status status = oct_strbuf_take(&text, &list);
  if (status == OCTET_OK && count)
    status = oct_fail(c->ctx, OCTET_NOT_INTEGER, "strict: %zu node%s cannot be integer (see --keep-float):%s%s", count,
                      count == 1 ? "" : "s", list, count > 20 ? "\n  ..." : "");
  oct_free(list);
  return status;
}
