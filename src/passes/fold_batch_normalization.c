/* Batch normalization into the weights and bias of the convolution, gemm or matmul before it, when nothing else uses that one's output.
 * SPDX-License-Identifier: MIT */
#include <math.h>

#include "passes/rewrite.h"

/* y = factor[c] * x + shift[c] in double; false when a number is not finite. */
static bool coefficients(const oct_node *node, int64_t channels, double *factor, double *shift) {
  const oct_tensor *p[5] = {NULL};
  for (int i = 1; i < 5; i++) p[i] = oct_float_constant(node->inputs[i]);
  double epsilon = (double)oct_node_float(node, "epsilon");
  for (int64_t c = 0; c < channels; c++) {
    double scale = oct_get_f64(p[1]->data, p[1]->dtype, c), bias = oct_get_f64(p[2]->data, p[2]->dtype, c);
    double mean = oct_get_f64(p[3]->data, p[3]->dtype, c), variance = oct_get_f64(p[4]->data, p[4]->dtype, c);
    factor[c] = scale / sqrt(variance + epsilon);
    shift[c] = bias - mean * factor[c];
    if (!isfinite(factor[c]) || !isfinite(shift[c])) return false;
  }
  return true;
}

static bool is_foldable(const oct_rewrite *rw, const oct_node *node, oct_node **root, int64_t *channels) {
  if (strcmp(node->op->name, "batch_normalization") != 0 || node->n_inputs < 5) return false;
  for (int i = 1; i < node->n_outputs; i++)
    if (node->outputs[i] && oct_use_count(&rw->uses, node->outputs[i]) > 0) return false;
  oct_value *x = node->inputs[0];
  *root = x->producer;
  if (!*root || oct_rewrite_only_user(rw, x) != node || !oct_affine_target(*root, channels)) return false;
  if (oct_channel_axis(*root) != 1) return false;
  for (int i = 1; i < 5; i++) {
    const oct_tensor *p = oct_float_constant(node->inputs[i]);
    if (!p || oct_shape_count(&p->shape) != *channels) return false;
  }
  return oct_rewrite_can_replace(rw, node->outputs[0], x);
}

static octet_status fold(oct_rewrite *rw, oct_node *node) {
  oct_node *root;
  int64_t channels;
  if (!is_foldable(rw, node, &root, &channels)) return OCTET_OK;
  double *factor = oct_alloc(rw->ctx, (size_t)channels * 2, sizeof *factor);
  if (!factor) return OCTET_OUT_OF_MEMORY;
  oct_value *x = node->inputs[0], *y = node->outputs[0];
  octet_status status = OCTET_OK;
  if (coefficients(node, channels, factor, factor + channels)) {
    status = oct_fold_affine(rw, root, channels, factor, factor + channels);
    if (status == OCTET_OK) status = oct_value_set_quant(rw->ctx, rw->graph, x, y->quant);
    if (status == OCTET_OK) status = oct_rewrite_replace(rw, y, x);
  }
  oct_free(factor);
  return status;
}

static octet_status run(octet_context *ctx, oct_graph *graph, bool *changed) {
  oct_rewrite rw;
  OCT_TRY(oct_rewrite_begin(ctx, graph, &rw));
  octet_status status = OCTET_OK;
  for (size_t i = 0; i < graph->n_nodes && status == OCTET_OK; i++) status = fold(&rw, graph->nodes[i]);
  return oct_rewrite_end(&rw, status, changed);
}

const oct_pass oct_pass_fold_batch_normalization = {
    .name = "fold_batch_normalization",
    .summary = "batch normalization into the convolution or gemm before it",
    .run = run,
};
