/* x / sqrt 2 - erf - + 1 - * x - * 1/2, in any order of the factors, becomes gelu(x): one step in place of five. Changes float rounding only.
 * SPDX-License-Identifier: MIT */
#include <math.h>

#include "passes/rewrite.h"

static bool is_op(const oct_node *node, const char *name) { return node && strcmp(node->op->name, name) == 0 && node->n_inputs > 0; }

/* A scalar of rank 0: it broadcasts to no other shape, even where the shape of the other operand is not known. */
static bool is_near(const oct_value *v, double wanted) {
  double number;
  return v && !v->quant && oct_constant_of(v) && v->tensor->shape.rank == 0 && oct_constant_scalar(v, &number) &&
         fabs(number - wanted) < 1e-6;
}

/* The other input of a two-input node when one is a constant near `wanted`; else NULL. */
static oct_value *beside(const oct_node *node, double wanted) {
  if (node->n_inputs != 2) return NULL;
  if (is_near(node->inputs[1], wanted)) return node->inputs[0];
  return is_near(node->inputs[0], wanted) ? node->inputs[1] : NULL;
}

/* x of erf(x / sqrt 2) + 1, where only this chain uses each value; else NULL. */
static oct_value *argument_of(const oct_rewrite *rw, const oct_value *v) {
  const oct_node *add = v->producer;
  if (!is_op(add, "add")) return NULL;
  const oct_value *e = beside(add, 1);
  const oct_node *erf = e ? e->producer : NULL;
  if (!is_op(erf, "erf") || oct_rewrite_only_user(rw, e) != add || e->quant) return NULL;
  const oct_value *scaled = erf->inputs[0];
  const oct_node *scale = scaled->producer;
  if (oct_rewrite_only_user(rw, scaled) != erf || scaled->quant) return NULL;
  if (is_op(scale, "mul")) return beside(scale, 0.70710678118654752);
  return is_op(scale, "div") && scale->n_inputs == 2 && is_near(scale->inputs[1], 1.4142135623730951) ? scale->inputs[0] : NULL;
}

/* Inputs of a product that only `user` reads. */
static bool product_of(const oct_rewrite *rw, const oct_value *v, const oct_node *user, oct_value **a, oct_value **b) {
  const oct_node *mul = v->producer;
  if (!is_op(mul, "mul") || mul->n_inputs != 2 || v->quant || oct_rewrite_only_user(rw, v) != user) return false;
  *a = mul->inputs[0], *b = mul->inputs[1];
  return true;
}

/* x where `last` is the last product of the pattern: three factors x, 1/2 and 1 + erf. */
static oct_value *find(const oct_rewrite *rw, const oct_node *last) {
  if (!is_op(last, "mul") || last->n_inputs != 2 || last->outputs[0]->dtype != OCT_F32) return NULL;
  for (int side = 0; side < 2; side++) {
    oct_value *a, *b, *c = last->inputs[1 - side];
    if (!product_of(rw, last->inputs[side], last, &a, &b)) continue;
    oct_value *factors[3][3] = {{a, b, c}, {b, a, c}, {c, a, b}}; /* first: 1 + erf */
    for (int i = 0; i < 3; i++) {
      oct_value *sum = factors[i][0], *x = argument_of(rw, sum);
      if (!x || oct_use_count(&rw->uses, sum) != 1 || sum->quant) continue;
      if ((factors[i][1] == x && is_near(factors[i][2], 0.5)) || (factors[i][2] == x && is_near(factors[i][1], 0.5))) return x;
    }
  }
  return NULL;
}

static octet_status run(octet_context *ctx, oct_graph *graph, bool *changed) {
  oct_rewrite rw;
  const oct_op *gelu = oct_op_find("gelu");
  OCT_TRY(oct_rewrite_begin(ctx, graph, &rw));
  octet_status status = OCTET_OK;
  for (size_t i = 0; gelu && i < graph->n_nodes && status == OCTET_OK; i++) {
    oct_value *x = find(&rw, graph->nodes[i]);
    if (!x) continue;
    graph->nodes[i]->op = gelu;
    status = oct_node_set_inputs(ctx, graph, graph->nodes[i], &x, 1);
    rw.changed = true;
  }
  return oct_rewrite_end(&rw, status, changed);
}

const oct_pass oct_pass_recognize_gelu = {
    .name = "recognize_gelu",
    .summary = "the operators that write out gelu become gelu",
    .run = run,
};
