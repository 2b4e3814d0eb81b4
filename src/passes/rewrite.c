/* Replacements of values during a sweep.
 * SPDX-License-Identifier: MIT */
#include "passes/rewrite.h"

octet_status oct_rewrite_begin(octet_context *ctx, oct_graph *graph, oct_rewrite *rw) {
  *rw = (oct_rewrite){.ctx = ctx, .graph = graph};
  OCT_TRY(oct_graph_uses(ctx, graph, &rw->uses));
  rw->n_values = graph->n_values;
  rw->to = oct_alloc(ctx, rw->n_values + 1, sizeof *rw->to);
  rw->is_output = oct_alloc(ctx, rw->n_values + 1, sizeof *rw->is_output);
  rw->touched = oct_alloc(ctx, rw->n_values + 1, sizeof *rw->touched);
  if (!rw->to || !rw->is_output || !rw->touched) {
    bool unused;
    return oct_rewrite_end(rw, OCTET_OUT_OF_MEMORY, &unused);
  }
  for (size_t i = 0; i < graph->n_outputs; i++) rw->is_output[graph->outputs[i]->id] = true;
  return OCTET_OK;
}

oct_value *oct_rewrite_now(const oct_rewrite *rw, oct_value *value) {
  while (value && oct_rewrite_is_old(rw, value) && rw->to[value->id]) value = rw->to[value->id];
  return value;
}

bool oct_rewrite_can_replace(const oct_rewrite *rw, const oct_value *from, const oct_value *to) {
  if (!oct_rewrite_is_old(rw, from) || !rw->is_output[from->id]) return true;
  return to->kind == OCT_INTERMEDIATE && !(oct_rewrite_is_old(rw, to) && rw->is_output[to->id]);
}

octet_status oct_rewrite_replace(oct_rewrite *rw, oct_value *from, oct_value *to) {
  rw->to[from->id] = to;
  rw->changed = true;
  rw->touched[from->id] = true;
  if (oct_rewrite_is_old(rw, to)) rw->touched[to->id] = true;
  if (!rw->is_output[from->id]) return OCTET_OK;
  if (oct_rewrite_is_old(rw, to)) rw->is_output[to->id] = true;
  const char *name = from->name;
  OCT_TRY(oct_value_rename(rw->ctx, rw->graph, from, "replaced"));
  OCT_TRY(oct_value_rename(rw->ctx, rw->graph, to, name));
  for (int d = 0; d < OCT_MAX_RANK; d++) to->dim_names[d] = from->dim_names[d];
  return OCTET_OK;
}

oct_node *oct_rewrite_only_user(const oct_rewrite *rw, const oct_value *v) {
  if (!oct_rewrite_is_old(rw, v) || rw->is_output[v->id] || rw->touched[v->id]) return NULL;
  return oct_only_user(&rw->uses, v);
}

static void apply(oct_rewrite *rw) {
  oct_graph *graph = rw->graph;
  for (size_t i = 0; i < graph->n_nodes; i++)
    for (int k = 0; k < graph->nodes[i]->n_inputs; k++) graph->nodes[i]->inputs[k] = oct_rewrite_now(rw, graph->nodes[i]->inputs[k]);
  for (size_t i = 0; i < graph->n_outputs; i++) graph->outputs[i] = oct_rewrite_now(rw, graph->outputs[i]);
}

octet_status oct_rewrite_end(oct_rewrite *rw, octet_status status, bool *changed) {
  if (status == OCTET_OK && rw->changed) {
    apply(rw);
    *changed = true;
    status = oct_graph_prune(rw->ctx, rw->graph);
  }
  oct_uses_free(&rw->uses);
  oct_free(rw->to);
  oct_free(rw->is_output);
  oct_free(rw->touched);
  *rw = (oct_rewrite){0};
  return status;
}
