/* Changing graphs: rerouting uses, removing nodes, compaction (dead values, topological order), users, copies.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "ir/names.h"
#include "ir/op.h"

void oct_graph_replace_uses(oct_graph *graph, oct_value *from, oct_value *to) {
  for (size_t i = 0; i < graph->n_nodes; i++)
    for (int k = 0; k < graph->nodes[i]->n_inputs; k++)
      if (graph->nodes[i]->inputs[k] == from) graph->nodes[i]->inputs[k] = to;
  for (size_t i = 0; i < graph->n_outputs; i++)
    if (graph->outputs[i] == from) graph->outputs[i] = to;
}

static void drop_node(oct_graph *graph, oct_node *node) {
  oct_names_remove(graph->node_names, node->name);
  for (int i = 0; i < node->n_outputs; i++)
    if (node->outputs[i]) node->outputs[i]->producer = NULL;
  for (int i = 0; i < node->n_attributes; i++)
    if (node->attributes[i].type == OCT_ATTRIBUTE_TENSOR) oct_tensor_release(node->attributes[i].tensor);
  node->n_attributes = 0;
}

void oct_graph_remove_node(oct_graph *graph, oct_node *node) {
  drop_node(graph, node);
  size_t kept = 0;
  for (size_t i = 0; i < graph->n_nodes; i++)
    if (graph->nodes[i] != node) graph->nodes[kept++] = graph->nodes[i];
  graph->n_nodes = kept;
}

static void number_values(oct_graph *graph) {
  for (size_t i = 0; i < graph->n_values; i++) graph->values[i]->id = (int)i;
}

/* Drops values that no node and no output mentions. */
static octet_status drop_unused_values(octet_context *ctx, oct_graph *graph) {
  number_values(graph);
  bool *used = oct_alloc(ctx, graph->n_values + 1, sizeof *used);
  if (!used) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < graph->n_inputs; i++) used[graph->inputs[i]->id] = true;
  for (size_t i = 0; i < graph->n_outputs; i++) used[graph->outputs[i]->id] = true;
  for (size_t i = 0; i < graph->n_nodes; i++) {
    const oct_node *node = graph->nodes[i];
    for (int k = 0; k < node->n_inputs; k++)
      if (node->inputs[k]) used[node->inputs[k]->id] = true;
    for (int k = 0; k < node->n_outputs; k++)
      if (node->outputs[k]) used[node->outputs[k]->id] = true;
  }
  size_t kept = 0;
  for (size_t i = 0; i < graph->n_values; i++) {
    oct_value *value = graph->values[i];
    if (used[i]) {
      graph->values[kept++] = value;
      continue;
    }
    oct_names_remove(graph->names, value->name);
    oct_tensor_release(value->tensor);
    value->tensor = NULL;
  }
  graph->n_values = kept;
  number_values(graph);
  oct_free(used);
  return OCTET_OK;
}

typedef struct sorter {
  oct_node **order;
  size_t count;
  int *waiting;      /* by node: inputs whose producer is not placed yet */
  int *first, *next; /* by node: list of (waiting) edges; edges are numbered */
  int *edge_to;
  int *heap; /* node ids that are ready, smallest first */
  int heap_size;
} sorter;

static void heap_push(sorter *s, int id) {
  int i = s->heap_size++;
  while (i > 0 && s->heap[(i - 1) / 2] > id) {
    s->heap[i] = s->heap[(i - 1) / 2];
    i = (i - 1) / 2;
  }
  s->heap[i] = id;
}

static int heap_pop(sorter *s) {
  int top = s->heap[0], last = s->heap[--s->heap_size], i = 0;
  for (;;) {
    int child = 2 * i + 1;
    if (child >= s->heap_size) break;
    if (child + 1 < s->heap_size && s->heap[child + 1] < s->heap[child]) child++;
    if (s->heap[child] >= last) break;
    s->heap[i] = s->heap[child];
    i = child;
  }
  s->heap[i] = last;
  return top;
}

static octet_status report_cycle(octet_context *ctx, const oct_graph *graph, const sorter *s) {
  for (size_t i = 0; i < graph->n_nodes; i++)
    if (s->waiting[i] > 0)
      return oct_fail(ctx, OCTET_GRAPH, "the graph has a cycle through node \"%s\" (%s): its inputs depend on its own outputs",
                      graph->nodes[i]->name, graph->nodes[i]->op->name);
  return oct_fail(ctx, OCTET_GRAPH, "the graph has a cycle");
}

/* Kahn's algorithm; among ready nodes the earliest in the present order comes first, so a sorted graph stays as it is. */
static octet_status sort_nodes(octet_context *ctx, oct_graph *graph) {
  size_t n = graph->n_nodes, edges = 0;
  for (size_t i = 0; i < n; i++) {
    graph->nodes[i]->id = (int)i;
    edges += (size_t)graph->nodes[i]->n_inputs;
  }
  sorter s = {0};
  octet_status status = OCTET_OUT_OF_MEMORY;
  s.order = oct_alloc(ctx, n + 1, sizeof *s.order);
  s.waiting = oct_alloc(ctx, 3 * n + 2 * edges + 3, sizeof *s.waiting);
  if (!s.order || !s.waiting) goto done;
  s.first = s.waiting + n + 1;
  s.heap = s.first + n + 1;
  s.next = s.heap + n + 1;
  s.edge_to = s.next + edges;
  for (size_t i = 0; i < n; i++) s.first[i] = -1;
  int edge = 0;
  for (size_t i = n; i-- > 0;) {
    for (int k = 0; k < graph->nodes[i]->n_inputs; k++) {
      const oct_value *v = graph->nodes[i]->inputs[k];
      if (!v || !v->producer) continue;
      s.edge_to[edge] = (int)i;
      s.next[edge] = s.first[v->producer->id];
      s.first[v->producer->id] = edge++;
      s.waiting[i]++;
    }
  }
  for (size_t i = 0; i < n; i++)
    if (s.waiting[i] == 0) heap_push(&s, (int)i);
  while (s.heap_size > 0) {
    int id = heap_pop(&s);
    s.order[s.count++] = graph->nodes[id];
    for (int e = s.first[id]; e >= 0; e = s.next[e])
      if (--s.waiting[s.edge_to[e]] == 0) heap_push(&s, s.edge_to[e]);
  }
  status = s.count == n ? OCTET_OK : report_cycle(ctx, graph, &s);
  if (status == OCTET_OK && n) memcpy(graph->nodes, s.order, n * sizeof *s.order);
  for (size_t i = 0; status == OCTET_OK && i < n; i++) graph->nodes[i]->id = (int)i;
done:
  oct_free(s.order);
  oct_free(s.waiting);
  return status;
}

octet_status oct_graph_compact(octet_context *ctx, oct_graph *graph) {
  OCT_TRY(drop_unused_values(ctx, graph));
  return sort_nodes(ctx, graph);
}

octet_status oct_graph_prune(octet_context *ctx, oct_graph *graph) {
  OCT_TRY(oct_graph_compact(ctx, graph));
  bool *live = oct_alloc(ctx, graph->n_nodes + 1, sizeof *live);
  if (!live) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < graph->n_outputs; i++)
    if (graph->outputs[i]->producer) live[graph->outputs[i]->producer->id] = true;
  for (size_t i = graph->n_nodes; i-- > 0;)
    for (int k = 0; live[i] && k < graph->nodes[i]->n_inputs; k++) {
      const oct_value *v = graph->nodes[i]->inputs[k];
      if (v && v->producer) live[v->producer->id] = true;
    }
  size_t kept = 0;
  for (size_t i = 0; i < graph->n_nodes; i++) {
    if (live[i]) graph->nodes[kept++] = graph->nodes[i];
    else drop_node(graph, graph->nodes[i]);
  }
  graph->n_nodes = kept;
  oct_free(live);
  return oct_graph_compact(ctx, graph);
}

octet_status oct_graph_uses(octet_context *ctx, oct_graph *graph, oct_uses *out) {
  *out = (oct_uses){0};
  OCT_TRY(oct_graph_compact(ctx, graph));
  size_t total = graph->n_outputs;
  for (size_t i = 0; i < graph->n_nodes; i++) total += (size_t)graph->nodes[i]->n_inputs;
  out->first = oct_alloc(ctx, graph->n_values + 2, sizeof *out->first);
  out->uses = oct_alloc(ctx, total + 1, sizeof *out->uses);
  if (!out->first || !out->uses) {
    oct_uses_free(out);
    return OCTET_OUT_OF_MEMORY;
  }
  int *cursor = out->first + 1; /* counts, then running starts: cursor[id] ends as the start of id + 1 */
  for (int pass = 0; pass < 2; pass++) {
    for (size_t i = 0; i <= graph->n_nodes; i++) {
      oct_node *node = i < graph->n_nodes ? graph->nodes[i] : NULL;
      int n = node ? node->n_inputs : (int)graph->n_outputs;
      for (int k = 0; k < n; k++) {
        const oct_value *v = node ? node->inputs[k] : graph->outputs[k];
        if (!v) continue;
        if (pass == 1) out->uses[cursor[v->id]] = (oct_use){node, k};
        cursor[v->id]++;
      }
    }
    if (pass == 1) break;
    int sum = 0;
    for (size_t v = 0; v < graph->n_values; v++) {
      int count = cursor[v];
      cursor[v] = sum;
      sum += count;
    }
  }
  return OCTET_OK;
}

void oct_uses_free(oct_uses *uses) {
  oct_free(uses->first);
  oct_free(uses->uses);
  *uses = (oct_uses){0};
}

static octet_status copy_value(octet_context *ctx, oct_graph *to, const oct_value *v, oct_value **out) {
  OCT_TRY(oct_graph_value(ctx, to, v->name, v->kind, v->dtype, v->has_shape ? &v->shape : NULL, out));
  (*out)->tensor = oct_tensor_retain(v->tensor);
  (*out)->observed_only = v->observed_only;
  for (int d = 0; d < OCT_MAX_RANK; d++)
    if (v->dim_names[d] && !((*out)->dim_names[d] = oct_region_strdup(ctx, &to->region, v->dim_names[d]))) return OCTET_OUT_OF_MEMORY;
  return v->quant ? oct_value_set_quant(ctx, to, *out, v->quant) : OCTET_OK;
}

static octet_status copy_node(octet_context *ctx, oct_graph *to, const oct_node *node, oct_value **map) {
  int most = node->n_inputs > node->n_outputs ? node->n_inputs : node->n_outputs;
  oct_value **list = oct_alloc(ctx, (size_t)(2 * most + 1), sizeof *list);
  if (!list) return OCTET_OUT_OF_MEMORY;
  for (int k = 0; k < node->n_inputs; k++) list[k] = node->inputs[k] ? map[node->inputs[k]->id] : NULL;
  for (int k = 0; k < node->n_outputs; k++) list[most + k] = node->outputs[k] ? map[node->outputs[k]->id] : NULL;
  oct_node *copy = NULL;
  octet_status status = oct_graph_node_into(ctx, to, node->op, node->name, list, node->n_inputs, list + most, node->n_outputs, &copy);
  for (int k = 0; status == OCTET_OK && k < node->n_attributes; k++) status = oct_node_set_attribute(ctx, to, copy, &node->attributes[k]);
  oct_free(list);
  return status;
}

static octet_status copy_into(octet_context *ctx, const oct_graph *graph, oct_graph *to, oct_value **map) {
  for (size_t i = 0; i < graph->n_values; i++) {
    graph->values[i]->id = (int)i;
    OCT_TRY(copy_value(ctx, to, graph->values[i], &map[i]));
  }
  for (size_t i = 0; i < graph->n_nodes; i++) OCT_TRY(copy_node(ctx, to, graph->nodes[i], map));
  for (size_t i = 0; i < graph->n_inputs; i++) {
    OCT_TRY(oct_grow(ctx, &to->inputs, &to->inputs_capacity, to->n_inputs + 1, sizeof *to->inputs));
    to->inputs[to->n_inputs++] = map[graph->inputs[i]->id];
  }
  for (size_t i = 0; i < graph->n_outputs; i++) OCT_TRY(oct_graph_output(ctx, to, map[graph->outputs[i]->id]));
  for (size_t i = 0; i < graph->n_metadata; i++) OCT_TRY(oct_graph_set_metadata(ctx, to, graph->metadata[i].key, graph->metadata[i].text));
  return OCTET_OK;
}

octet_status oct_graph_copy(octet_context *ctx, const oct_graph *graph, oct_graph **out) {
  OCT_TRY(oct_graph_create(ctx, graph->name, out));
  oct_value **map = oct_alloc(ctx, graph->n_values + 1, sizeof *map);
  octet_status status = map ? copy_into(ctx, graph, *out, map) : OCTET_OUT_OF_MEMORY;
  oct_free(map);
  if (status == OCTET_OK) return status;
  oct_graph_destroy(*out);
  *out = NULL;
  return status;
}
