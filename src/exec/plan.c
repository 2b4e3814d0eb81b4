/* The planner: decides each value's stored form, then lets every operator lower itself, in the order of the graph.
 * SPDX-License-Identifier: MIT */
#include "exec/plan.h"

#include <stdio.h>
#include <string.h>

static bool spatial(const oct_value *v) { return v->has_shape && v->shape.rank >= 3; }

static void widen_border(oct_border *b, const int want[4]) {
  if (want[0] > b->top) b->top = want[0];
  if (want[1] > b->left) b->left = want[1];
  if (want[2] > b->bottom) b->bottom = want[2];
  if (want[3] > b->right) b->right = want[3];
}

/* Channels-last where the producer makes it so, kept through layout-agnostic operators. */
static oct_layout output_layout(const oct_plan *plan, const oct_node *node, const oct_value *v) {
  if (!spatial(v)) return OCT_LAYOUT_PLAIN;
  if (oct_node_has(node, OCT_TRAIT_CHANNELS_LAST)) return OCT_LAYOUT_CHANNELS_LAST;
  if (!oct_node_has(node, OCT_TRAIT_LAYOUT_AGNOSTIC)) return OCT_LAYOUT_PLAIN;
  for (int i = 0; i < node->n_inputs; i++) {
    const oct_value *in = node->inputs[i];
    if (in && in->kind != OCT_CONSTANT && in->shape.rank == v->shape.rank && plan->values[in->id].layout == OCT_LAYOUT_CHANNELS_LAST)
      return OCT_LAYOUT_CHANNELS_LAST;
  }
  return OCT_LAYOUT_PLAIN;
}

static void choose_forms(oct_plan *plan) {
  oct_graph *g = plan->graph;
  for (size_t i = 0; i < g->n_values; i++) {
    const oct_value *v = g->values[i];
    plan->values[i].dtype = oct_quant_is_8bit(v->quant) ? OCT_U8 : v->dtype;
  }
  for (size_t i = 0; i < g->n_nodes; i++) { /* a quantized input goes straight to the form its first consumer wants */
    const oct_node *node = g->nodes[i];
    for (int k = 0; k < node->n_inputs && oct_node_has(node, OCT_TRAIT_CHANNELS_LAST); k++) {
      const oct_value *in = node->inputs[k];
      if (in && in->kind == OCT_INPUT && in->quant && spatial(in)) plan->values[in->id].layout = OCT_LAYOUT_CHANNELS_LAST;
    }
  }
  for (size_t i = 0; i < g->n_nodes; i++) {
    const oct_node *node = g->nodes[i];
    for (int k = 0; k < node->n_outputs; k++)
      if (node->outputs[k]) plan->values[node->outputs[k]->id].layout = output_layout(plan, node, node->outputs[k]);
  }
  for (size_t i = 0; i < g->n_nodes; i++) {
    const oct_node *node = g->nodes[i];
    int border[4] = {0};
    if (!node->op->border || !node->inputs[0]) continue;
    node->op->border(node, border);
    oct_value_plan *vp = &plan->values[node->inputs[0]->id];
    if (vp->layout == OCT_LAYOUT_CHANNELS_LAST) widen_border(&vp->border, border);
  }
  for (size_t i = 0; i < g->n_nodes; i++) { /* fused values exist only inside their step */
    const oct_node *root = plan->fusion.root[i];
    if (!root) continue;
    const oct_fusion *f = &plan->fusion.fusions[root->id];
    const oct_value *root_output = root->outputs[0], *output = g->nodes[i]->outputs[0];
    plan->values[root_output->id].inside = root_output != f->output;
    plan->values[output->id].inside = output != f->output;
    if (output == f->output && spatial(output)) plan->values[output->id].layout = output_layout(plan, root, output);
  }
}

/* Graph inputs: an outer slot of the logical type that the caller fills, converted to the stored form at once. */
static octet_status plan_inputs(oct_plan *plan) {
  octet_context *ctx = plan->lowering.ctx;
  oct_graph *g = plan->graph;
  plan->inputs = oct_region_alloc(ctx, &plan->region, g->n_inputs + 1, sizeof(oct_slot *));
  if (!plan->inputs) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < g->n_inputs; i++) {
    oct_value *v = g->inputs[i];
    oct_value_plan *vp = &plan->values[v->id];
    oct_plan_slot *outer, *stored;
    bool as_it_is = vp->dtype == v->dtype && vp->layout == OCT_LAYOUT_PLAIN && !v->quant;
    oct_layout layout = vp->layout;
    oct_dtype dtype = vp->dtype;
    vp->layout = OCT_LAYOUT_PLAIN; /* the outer form is made through the same call */
    vp->dtype = v->dtype;
    oct_border border = vp->border, none = {0};
    vp->border = none;
    OCT_TRY(oct_plan_stored(plan, v, &outer));
    outer->filled = true;
    plan->inputs[i] = &outer->slot;
    if (as_it_is) continue;
    vp->layout = layout;
    vp->dtype = dtype;
    vp->border = border;
    vp->stored = NULL;
    OCT_TRY(oct_plan_stored(plan, v, &stored));
    OCT_TRY(oct_plan_convert(plan, &outer->slot, &stored->slot));
    stored->filled = true;
    if (v->quant && !oct_quant_is_8bit(v->quant)) OCT_TRY(oct_plan_round(plan, &stored->slot, v->quant));
    outer->filled = false; /* unrounded: nobody else may read it */
  }
  for (size_t i = 0; i < g->n_inputs; i++) OCT_TRY(oct_plan_watch(plan, g->inputs[i]));
  return OCTET_OK;
}

static octet_status plan_outputs(oct_plan *plan) {
  octet_context *ctx = plan->lowering.ctx;
  oct_graph *g = plan->graph;
  plan->outputs = oct_region_alloc(ctx, &plan->region, g->n_outputs + 1, sizeof(oct_slot *));
  if (!plan->outputs) return OCTET_OUT_OF_MEMORY;
  int boundaries = plan->boundaries;
  plan->current = NULL;
  for (size_t i = 0; i < oct_plan_outputs(plan); i++)
    OCT_TRY(oct_lower_input(&plan->lowering, g->outputs[i], g->outputs[i]->dtype, OCT_LAYOUT_PLAIN, NULL, &plan->outputs[i]));
  OCT_TRY(oct_plan_watch(plan, NULL));
  plan->boundaries = boundaries; /* leaving the graph is no inner boundary */
  return OCTET_OK;
}

static octet_status finish_value(oct_plan *plan, const oct_value *value) {
  OCT_TRY(oct_plan_finish_value(plan, value));
  return oct_plan_watch(plan, value);
}

static octet_status finish_outputs(oct_plan *plan, const oct_node *node) {
  if (oct_node_has(node, OCT_TRAIT_ACCUMULATES)) return finish_value(plan, plan->fusion.fusions[node->id].output);
  for (int i = 0; i < node->n_outputs; i++)
    if (node->outputs[i]) OCT_TRY(finish_value(plan, node->outputs[i]));
  return OCTET_OK;
}

/* After a declined lowering of a fused node: its parts run one by one. */
static octet_status lower_apart(oct_plan *plan, oct_node *root);
static void forget_constants(const oct_node *node);

static octet_status lower_node(oct_plan *plan, oct_node *node) {
  octet_context *ctx = plan->lowering.ctx;
  plan->current = node;
  snprintf(plan->decline, sizeof plan->decline, "%s has no fast form", node->op->name);
  octet_status status = node->op->lower ? node->op->lower(&plan->lowering, node) : OCTET_UNSUPPORTED;
  oct_node_report *report = &plan->reports[node->id];
  if (status == OCTET_UNSUPPORTED) {
    report->decline = oct_region_strdup(ctx, &plan->region, plan->decline);
    if (!report->decline) return OCTET_OUT_OF_MEMORY;
    const oct_fusion *f = &plan->fusion.fusions[node->id];
    bool fused = plan->fusion.last[node->id] != node->id || f->before[0] || f->before[1] || f->scores;
    if (oct_node_has(node, OCT_TRAIT_ACCUMULATES) && fused) return lower_apart(plan, node);
    status = oct_plan_reference(plan, node);
  }
  if (status != OCTET_OK) return status;
  if (plan->chooser && plan->chooser->small) forget_constants(node);
  return finish_outputs(plan, node);
}

static octet_status lower_apart(oct_plan *plan, oct_node *root) {
  int last = plan->fusion.last[root->id];
  oct_fusion *f = &plan->fusion.fusions[root->id];
  const oct_value *rounded = root->outputs[0]->quant ? root->outputs[0] : NULL;
  *f = (oct_fusion){.output = root->outputs[0], .rounded = rounded, .low = -INFINITY, .high = INFINITY};
  plan->fusion.last[root->id] = root->id;
  plan->values[root->outputs[0]->id].inside = false;
  for (int id = 0; id < root->id; id++) { /* transpositions and scores before it */
    if (plan->fusion.root[id] != root) continue;
    plan->fusion.root[id] = NULL;
    plan->values[plan->graph->nodes[id]->outputs[0]->id].inside = false;
    OCT_TRY(lower_node(plan, plan->graph->nodes[id]));
  }
  plan->current = root;
  snprintf(plan->decline, sizeof plan->decline, "%s", plan->reports[root->id].decline);
  OCT_TRY(oct_plan_reference(plan, root));
  OCT_TRY(oct_plan_finish_value(plan, root->outputs[0]));
  for (int id = root->id + 1; id <= last; id++) {
    if (plan->fusion.root[id] != root) continue;
    plan->fusion.root[id] = NULL;
    plan->values[plan->graph->nodes[id]->outputs[0]->id].inside = false;
    OCT_TRY(lower_node(plan, plan->graph->nodes[id]));
  }
  return OCTET_OK;
}

/* Constants that were packed or copied: their pages of the model's file can be read again, should anybody want them. */
static void forget_constants(const oct_node *node) {
  for (int i = 0; i < node->n_inputs; i++) {
    const oct_tensor *t = oct_constant_of(node->inputs[i]);
    if (t && t->file) oct_file_forget(t->file, t->data, t->bytes);
  }
}

/* A fused step is placed where its last node stands: only there is the residual ready. */
static octet_status lower_nodes(oct_plan *plan) {
  oct_graph *g = plan->graph;
  for (size_t i = 0; i < g->n_nodes; i++) {
    oct_node *node = g->nodes[i], *root = plan->fusion.root[i];
    bool waits = !root && oct_node_has(node, OCT_TRAIT_ACCUMULATES) && plan->fusion.last[i] != (int)i;
    if (root) {
      plan->reports[i].fused = true;
      if (plan->fusion.last[root->id] == (int)i && !plan->fusion.root[root->id]) OCT_TRY(lower_node(plan, root));
    } else if (!waits) {
      OCT_TRY(lower_node(plan, node));
    }
  }
  return OCTET_OK;
}

static octet_status fill_reports(oct_plan *plan) {
  for (size_t i = 0; i < plan->graph->n_nodes; i++) plan->reports[i].node = plan->graph->nodes[i];
  for (size_t s = 0; s < plan->n_steps; s++) {
    const oct_step *step = plan->steps[s];
    if (step->workspace_bytes > plan->workspace_bytes) plan->workspace_bytes = step->workspace_bytes;
    if (!step->node || step->form) continue;
    oct_node_report *report = &plan->reports[step->node->id];
    if (!report->why && step->macs > 0) {
      report->why =
          oct_region_printf(plan->lowering.ctx, &plan->region, "by rule%s%s", step->reason ? "; " : "", step->reason ? step->reason : "");
      if (!report->why) return OCTET_OUT_OF_MEMORY;
    }
    if (!report->kernel || step->macs > 0 || strcmp(step->kernel, "reference") == 0) report->kernel = step->kernel;
  }
  for (size_t i = 0; i < plan->graph->n_nodes; i++) {
    oct_node_report *report = &plan->reports[i];
    const oct_node *node = report->node;
    if (report->fused && plan->fusion.root[i]) continue;
    bool integer = !report->kernel || strcmp(report->kernel, "reference") != 0;
    const oct_value *in = node->n_inputs ? node->inputs[0] : NULL;
    integer = integer && in && oct_quant_is_8bit(in->quant);
    if (oct_node_has(node, OCT_TRAIT_ACCUMULATES)) integer = report->kernel && strstr(report->kernel, "i8") != NULL;
    report->integer = integer;
  }
  for (size_t i = 0; i < plan->graph->n_nodes; i++)
    if (plan->fusion.root[i]) plan->reports[i].integer = plan->reports[plan->fusion.root[i]->id].integer;
  return OCTET_OK;
}

octet_status oct_plan_make(octet_context *ctx, oct_graph *graph, const oct_plan_options *o, oct_plan *plan) {
  *plan = (oct_plan){.graph = graph, .fuse_kinds = o->fuse_kinds, .strip_rows = o->strip_rows, .chooser = o->chooser};
  plan->lowering = (oct_lowering){.ctx = ctx, .graph = graph, .isa_mask = o->isa_mask, .profile = o->profile, .plan = plan};
  plan->lowering.vector = oct_vector_select(o->isa_mask);
  plan->cache = oct_packed_retain(o->cache);
  OCT_TRY(oct_fuse(ctx, graph, o->fuse_kinds, &plan->fusion));
  plan->values = oct_region_alloc(ctx, &plan->region, graph->n_values + 1, sizeof *plan->values);
  plan->reports = oct_region_alloc(ctx, &plan->region, graph->n_nodes + 1, sizeof *plan->reports);
  if (!plan->values || !plan->reports) return OCTET_OUT_OF_MEMORY;
  OCT_TRY(oct_plan_watch_begin(plan, o->watch));
  choose_forms(plan);
  OCT_TRY(plan_inputs(plan));
  OCT_TRY(lower_nodes(plan));
  OCT_TRY(plan_outputs(plan));
  OCT_TRY(fill_reports(plan));
  if (plan->fuse_kinds & OCT_FUSE_STRIPS) OCT_TRY(oct_plan_strips(plan));
  plan->chooser = NULL;
  plan->choice = NULL;
  return oct_plan_place(plan);
}

void oct_plan_free(oct_plan *plan) {
  oct_fusion_map_free(&plan->fusion);
  oct_packed_release(plan->cache);
  oct_free(plan->steps);
  oct_free(plan->is_border);
  oct_free(plan->buffers);
  oct_free(plan->relocations);
  oct_region_free(&plan->region);
  *plan = (oct_plan){0};
}
