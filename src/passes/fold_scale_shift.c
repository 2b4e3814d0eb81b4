/* Multiplication, division, addition and subtraction by constants (one, or one per channel) after a convolution, gemm or matmul: into its
 * weights and bias. Factors into weights change float rounding only; the shift becomes the bias, which gives a convolution without bias
 * one.
 * SPDX-License-Identifier: MIT */
#include <math.h>

#include "passes/rewrite.h"

typedef enum kind { NONE, ADD, SUB, MUL, DIV } kind;

static kind kind_of(const oct_node *node) {
  static const char *const names[] = {"", "add", "sub", "mul", "div"};
  for (int i = ADD; i <= DIV; i++)
    if (strcmp(node->op->name, names[i]) == 0) return (kind)i;
  return NONE;
}

typedef struct match {
  oct_node *root;
  oct_value *x;
  const oct_tensor *operand;
  int64_t channels, given; /* given: 1 or channels */
  kind kind;
  bool reversed; /* constant - x */
} match;

static bool find(const oct_rewrite *rw, const oct_node *node, bool factors, match *m) {
  m->kind = kind_of(node);
  if (m->kind == NONE || (m->kind >= MUL) != factors || node->n_inputs != 2) return false;
  for (int side = 0; side < 2; side++) {
    m->x = node->inputs[side];
    m->operand = oct_float_constant(node->inputs[1 - side]);
    m->root = m->x ? m->x->producer : NULL;
    m->reversed = side == 1;
    if (!m->operand || !m->root || oct_rewrite_only_user(rw, m->x) != node || !oct_affine_target(m->root, &m->channels)) continue;
    if (m->reversed && (m->kind == DIV || m->kind == SUB)) continue;
    const oct_value *y = node->outputs[0];
    if (!y->has_shape || y->shape.rank != m->x->shape.rank) continue;
    m->given = oct_per_channel(m->operand, &m->x->shape, oct_channel_axis(m->root));
    if (m->given && oct_rewrite_can_replace(rw, y, m->x)) return true;
  }
  return false;
}

/* Fills `numbers` with the factor or the shift per channel; false when one is not finite. */
static bool numbers_of(const match *m, double *numbers) {
  for (int64_t c = 0; c < m->channels; c++) {
    double x = oct_get_f64(m->operand->data, m->operand->dtype, m->given == 1 ? 0 : c);
    numbers[c] = m->kind == SUB ? -x : m->kind == DIV ? 1 / x : x;
    if (!isfinite(numbers[c])) return false;
  }
  return true;
}

static octet_status fold(oct_rewrite *rw, oct_node *node, bool factors) {
  match m;
  if (!find(rw, node, factors, &m)) return OCTET_OK;
  double *numbers = oct_alloc(rw->ctx, (size_t)m.channels, sizeof *numbers);
  if (!numbers) return OCTET_OUT_OF_MEMORY;
  octet_status status = OCTET_OK;
  oct_value *y = node->outputs[0];
  if (numbers_of(&m, numbers)) {
    status = oct_fold_affine(rw, m.root, m.channels, factors ? numbers : NULL, factors ? NULL : numbers);
    if (status == OCTET_OK) status = oct_value_set_quant(rw->ctx, rw->graph, m.x, y->quant);
    if (status == OCTET_OK) status = oct_rewrite_replace(rw, y, m.x);
  }
  oct_free(numbers);
  return status;
}

static octet_status run(octet_context *ctx, oct_graph *graph, bool factors, bool *changed) {
  oct_rewrite rw;
  OCT_TRY(oct_rewrite_begin(ctx, graph, &rw));
  octet_status status = OCTET_OK;
  for (size_t i = 0; i < graph->n_nodes && status == OCTET_OK; i++) status = fold(&rw, graph->nodes[i], factors);
  return oct_rewrite_end(&rw, status, changed);
}

static octet_status run_factors(octet_context *ctx, oct_graph *graph, bool *changed) { return run(ctx, graph, true, changed); }
static octet_status run_shifts(octet_context *ctx, oct_graph *graph, bool *changed) { return run(ctx, graph, false, changed); }

const oct_pass oct_pass_fold_scale = {
    .name = "fold_scale",
    .summary = "multiplication by constants into the weights before it",
    .run = run_factors,
};

const oct_pass oct_pass_add_bias = {
    .name = "add_bias",
    .summary = "addition of a constant per channel into the bias of the convolution or gemm before it",
    .run = run_shifts,
};
