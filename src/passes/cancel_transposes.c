/* Transposes: two in a row become one, those that change nothing are dropped, one before an elementwise node cancels one after it, and
 * one that only an elementwise node reads goes behind that node, to meet others there.
 * SPDX-License-Identifier: MIT */
#include "passes/rewrite.h"

static bool is_transpose(const oct_node *node) {
  return node && strcmp(node->op->name, "transpose") == 0 && node->inputs[0] && node->outputs[0];
}

/* The permutation, or false when the rank is not known. */
static bool permutation(const oct_node *node, int64_t perm[OCT_MAX_RANK], int *rank) {
  const oct_value *x = node->inputs[0];
  size_t count;
  const int64_t *given = oct_node_ints(node, "perm", &count);
  if (!x->has_shape || (count && count != (size_t)x->shape.rank)) return false;
  *rank = x->shape.rank;
  for (int d = 0; d < *rank; d++) {
    perm[d] = count ? given[d] : *rank - 1 - d;
    if (!oct_axis_normalize(&perm[d], *rank)) return false;
  }
  return true;
}

static bool is_identity(const int64_t *perm, int rank) {
  for (int d = 0; d < rank; d++)
    if (perm[d] != d) return false;
  return true;
}

/* out = first, then second. */
static void compose(const int64_t *first, const int64_t *second, int rank, int64_t *out) {
  for (int d = 0; d < rank; d++) out[d] = first[second[d]];
}

/* The movement loses no rounding: its output is rounded as its input, or not at all. */
static bool keeps_rounding(const oct_value *x, const oct_value *y) { return !y->quant || oct_quant_equal(x->quant, y->quant); }
/* Rounding of y goes over to x, where only `user` reads x. */
static bool can_round(const oct_rewrite *rw, const oct_value *x, const oct_value *y, const oct_node *user) {
  return keeps_rounding(x, y) || (!x->quant && x->kind == OCT_INTERMEDIATE && y->quant->axis < 0 && oct_rewrite_only_user(rw, x) == user);
}

static octet_status drop_identity(oct_rewrite *rw, oct_node *node, bool *done) {
  int64_t perm[OCT_MAX_RANK];
  int rank;
  oct_value *x = oct_rewrite_now(rw, node->inputs[0]), *y = node->outputs[0];
  *done = permutation(node, perm, &rank) && is_identity(perm, rank) && oct_rewrite_can_replace(rw, y, x) && can_round(rw, x, y, node);
  if (!*done) return OCTET_OK;
  if (y->quant) OCT_TRY(oct_value_set_quant(rw->ctx, rw->graph, x, y->quant));
  return oct_rewrite_replace(rw, y, x);
}

/* transpose(transpose(x)): reads x itself. The first one stays for its other users, else it is pruned. */
static octet_status join(oct_rewrite *rw, oct_node *node) {
  oct_node *before = node->inputs[0]->producer;
  int64_t first[OCT_MAX_RANK], second[OCT_MAX_RANK], both[OCT_MAX_RANK];
  int rank;
  if (!is_transpose(before) || !permutation(before, first, &rank) || !permutation(node, second, &rank)) return OCTET_OK;
  const oct_value *middle = before->outputs[0];
  if (middle->quant && !oct_quant_equal(middle->quant, before->inputs[0]->quant) &&
      !oct_quant_equal(middle->quant, node->outputs[0]->quant))
    return OCTET_OK;
  if (middle->quant && middle->quant->axis >= 0) return OCTET_OK;
  compose(first, second, rank, both);
  OCT_TRY(oct_node_set_ints(rw->ctx, rw->graph, node, "perm", both, (size_t)rank));
  node->inputs[0] = before->inputs[0];
  rw->touched[middle->id] = rw->touched[before->inputs[0]->id] = true;
  rw->changed = true;
  return OCTET_OK;
}

/* Inputs of the elementwise node are transposes that `after` undoes, or constants of one element; one at least is a transpose. */
static bool inputs_cancel(const oct_node *node, const int64_t *after, int rank) {
  bool any = false;
  for (int i = 0; i < node->n_inputs; i++) {
    const oct_value *v = node->inputs[i];
    int64_t perm[OCT_MAX_RANK], both[OCT_MAX_RANK];
    int own;
    if (!v) continue;
    if (v->kind == OCT_CONSTANT && !v->quant && oct_shape_count(&v->shape) == 1 && v->shape.rank <= rank) continue;
    const oct_node *t = v->producer;
    if (!is_transpose(t) || !permutation(t, perm, &own) || own != rank || !keeps_rounding(t->inputs[0], v)) return false;
    compose(perm, after, rank, both);
    if (!is_identity(both, rank)) return false;
    any = true;
  }
  return any;
}

/* transpose(f(transpose(x))) with transposes that undo one another: f(x). */
static octet_status cancel_through(oct_rewrite *rw, oct_node *node) {
  oct_value *middle = node->inputs[0], *y = node->outputs[0];
  oct_node *f = middle->producer;
  int64_t after[OCT_MAX_RANK];
  int rank;
  if (!f || !oct_node_has(f, OCT_TRAIT_ELEMENTWISE) || f->n_outputs != 1 || oct_rewrite_only_user(rw, middle) != node) return OCTET_OK;
  if (!permutation(node, after, &rank) || !inputs_cancel(f, after, rank) || !oct_rewrite_can_replace(rw, y, middle)) return OCTET_OK;
  if ((middle->quant && middle->quant->axis >= 0) || !can_round(rw, middle, y, node)) return OCTET_OK;
  for (int i = 0; i < f->n_inputs; i++) {
    oct_value *v = f->inputs[i];
    if (!v || v->kind == OCT_CONSTANT) continue;
    f->inputs[i] = v->producer->inputs[0];
    rw->touched[v->id] = rw->touched[f->inputs[i]->id] = true;
  }
  if (y->quant) OCT_TRY(oct_value_set_quant(rw->ctx, rw->graph, middle, y->quant));
  middle->shape = y->shape;
  middle->has_shape = y->has_shape;
  return oct_rewrite_replace(rw, y, middle);
}

/* The permutation of all inputs that are no single numbers; false when they differ, or when another node reads one of the transposes. */
static bool inputs_share(const oct_rewrite *rw, const oct_node *node, int64_t perm[OCT_MAX_RANK], int *rank) {
  *rank = 0;
  for (int i = 0; i < node->n_inputs; i++) {
    const oct_value *v = node->inputs[i];
    int64_t own[OCT_MAX_RANK];
    int n;
    if (!v || (v->kind == OCT_CONSTANT && !v->quant && oct_shape_count(&v->shape) == 1)) continue;
    const oct_node *t = v->producer;
    if (!is_transpose(t) || !permutation(t, own, &n) || oct_rewrite_only_user(rw, v) != node || !keeps_rounding(t->inputs[0], v))
      return false;
    if (*rank && (n != *rank || memcmp(own, perm, (size_t)n * sizeof *perm) != 0)) return false;
    memcpy(perm, own, (size_t)n * sizeof *perm);
    *rank = n;
  }
  return *rank > 0;
}

/* f(transpose(x)) becomes transpose(f(x)). The value after it keeps its name and its users. */
static octet_status sink(oct_rewrite *rw, oct_node *f) {
  int64_t perm[OCT_MAX_RANK];
  int rank;
  oct_value *y = f->n_outputs == 1 ? f->outputs[0] : NULL, *inner;
  if (!y || !oct_node_has(f, OCT_TRAIT_ELEMENTWISE) || !y->has_shape || rw->is_output[y->id] || rw->touched[y->id] ||
      (y->quant && y->quant->axis >= 0))
    return OCTET_OK;
  if (!inputs_share(rw, f, perm, &rank) || y->shape.rank != rank) return OCTET_OK;
  oct_shape shape = y->shape;
  for (int d = 0; d < rank; d++) shape.dim[perm[d]] = y->shape.dim[d];
  oct_node *t = NULL;
  for (int i = 0; i < f->n_inputs; i++) {
    oct_value *v = f->inputs[i];
    if (!v || v->kind == OCT_CONSTANT) continue;
    t = v->producer;
    f->inputs[i] = t->inputs[0];
    rw->touched[v->id] = rw->touched[t->inputs[0]->id] = true;
  }
  OCT_TRY(oct_graph_value(rw->ctx, rw->graph, y->name, OCT_INTERMEDIATE, y->dtype, &shape, &inner));
  OCT_TRY(oct_value_set_quant(rw->ctx, rw->graph, inner, y->quant));
  f->outputs[0] = inner;
  inner->producer = f;
  y->producer = NULL;
  rw->touched[y->id] = rw->changed = true;
  OCT_TRY(oct_graph_node_into(rw->ctx, rw->graph, t->op, t->name, &inner, 1, &y, 1, &t));
  return oct_node_set_ints(rw->ctx, rw->graph, t, "perm", perm, (size_t)rank);
}

static octet_status visit(oct_rewrite *rw, oct_node *node) {
  bool done;
  if (!is_transpose(node) && node->n_inputs > 0) return sink(rw, node);
  if (!is_transpose(node) || !oct_rewrite_is_old(rw, node->inputs[0]) || rw->touched[node->inputs[0]->id]) return OCTET_OK;
  OCT_TRY(drop_identity(rw, node, &done));
  if (done) return OCTET_OK;
  if (is_transpose(node->inputs[0]->producer)) return join(rw, node);
  return cancel_through(rw, node);
}

static octet_status run(octet_context *ctx, oct_graph *graph, bool *changed) {
  oct_rewrite rw;
  OCT_TRY(oct_rewrite_begin(ctx, graph, &rw));
  octet_status status = OCTET_OK;
  size_t count = graph->n_nodes; /* sinking appends more */
  for (size_t i = 0; i < count && status == OCTET_OK; i++) status = visit(&rw, graph->nodes[i]);
  return oct_rewrite_end(&rw, status, changed);
}

const oct_pass oct_pass_cancel_transposes = {
    .name = "cancel_transposes",
    .summary = "transposes in a row are joined, those that undo one another are dropped",
    .run = run,
};
