/* The verdict: the quantized graph is planned as a session would, and every layer that was meant to be integer is checked. A layer that the
 * planner would run in float after all (an accumulator that could overflow, a form without kernel) is forced float, so that its
 * neighbours do not round for nothing; the planner's words are the reason.
 * SPDX-License-Identifier: MIT */
#include "quantize/calibration.h"
#include "quantize/probe.h"

static const oct_node_report *report_of(const oct_session *s, const char *name) {
  for (size_t i = 0; i < s->graph->n_nodes; i++)
    if (strcmp(s->graph->nodes[i]->name, name) == 0) return &s->plan.reports[i];
  return NULL;
}

static const char *remark_of(const oct_session *s, const oct_node *node) {
  for (size_t i = 0; i < s->plan.n_steps; i++)
    if (s->plan.steps[i]->node == node && s->plan.steps[i]->reason) return s->plan.steps[i]->reason;
  return NULL;
}

/* Why a node meant to be integer is not, or NULL. */
static const char *objection(const oct_session *s, const oct_node *intended, const oct_node_report *r) {
  bool layer = oct_node_has(intended, OCT_TRAIT_ACCUMULATES);
  if (layer && r->integer) return NULL;
  if (!layer && (!r->kernel || strcmp(r->kernel, "reference") != 0)) return NULL;
  const char *remark = remark_of(s, r->node);
  return r->decline ? r->decline : remark ? remark : "the planner found no integer kernel";
}

static octet_status inspect(oct_conversion *k, const oct_session *s, bool *changed) {
  oct_calibration *c = k->calibration;
  for (size_t i = 0; i < c->graph->n_nodes; i++) {
    const oct_node *node = c->graph->nodes[i];
    if (!c->nodes[i].integer) continue;
    const oct_node_report *r = report_of(s, node->name);
    const char *why = r ? objection(s, node, r) : NULL;
    if (!why) continue;
    c->nodes[i].forced = oct_region_strdup(c->ctx, &c->region, why);
    if (!c->nodes[i].forced) return OCTET_OUT_OF_MEMORY;
    *changed = true;
  }
  return OCTET_OK;
}

/* Scales whose product leaves float32 cannot be multiplied through. */
static octet_status check_units(oct_conversion *k, bool *changed) {
  oct_calibration *c = k->calibration;
  for (size_t i = 0; i < c->graph->n_nodes; i++) {
    if (!c->nodes[i].integer || !oct_node_has(c->graph->nodes[i], OCT_TRAIT_ACCUMULATES)) continue;
    const oct_node *node = c->graph->nodes[i];
    float scale = k->parameters[node->inputs[0]->id].scale, widest = 0;
    const oct_tensor *w = node->inputs[1]->tensor;
    int64_t count = oct_shape_count(&w->shape);
    for (int64_t e = 0; e < count; e++) {
      float a = fabsf(((const float *)w->data)[e]);
      widest = a > widest ? a : widest;
    }
    if (scale * (widest / 127) < 1e30f) continue;
    c->nodes[i].forced = "the scales of its input and weights are too large for float32 together";
    *changed = true;
  }
  return OCTET_OK;
}

octet_status oct_verdict(oct_conversion *k, bool *changed) {
  octet_context *ctx = k->calibration->ctx;
  oct_session_options options = oct_session_options_default();
  options.shapes = oct_probe_sample_shapes(k->calibration->probe, &options.n_shapes);
  oct_session *s;
  *changed = false;
  if (k->calibration->options.mode == OCT_MODE_INT8) OCT_TRY(check_units(k, changed));
  if (*changed) return OCTET_OK;
  octet_status status = oct_session_create(ctx, k->graph, &options, &s);
  if (status == OCTET_OUT_OF_MEMORY) return status;
  if (status != OCTET_OK) { /* shapes depend on data, or an operator cannot run: not for quantization to judge */
    ctx->status = OCTET_OK;
    ctx->message[0] = 0;
    return OCTET_OK;
  }
  status = inspect(k, s, changed);
  oct_session_destroy(s);
  return status;
}
