/* Per-channel factors and shifts into the weights and bias of the convolution, gemm or matmul before them.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "passes/rewrite.h"

const oct_tensor *oct_float_constant(const oct_value *v) {
  if (!v || v->quant || v->dtype != OCT_F32) return NULL;
  if (v->kind == OCT_CONSTANT) return v->tensor;
  const oct_node *cast = v->producer;
  if (!cast || strcmp(cast->op->name, "cast") != 0) return NULL;
  const oct_tensor *tensor = oct_constant_of(cast->inputs[0]);
  return tensor && !cast->inputs[0]->quant && (tensor->dtype == OCT_F16 || tensor->dtype == OCT_BF16) ? tensor : NULL;
}

int64_t oct_per_channel(const oct_tensor *tensor, const oct_shape *out, int axis) {
  int64_t count = oct_shape_count(&tensor->shape);
  int shift = out->rank - tensor->shape.rank;
  if (shift < 0) return 0;
  if (count == 1) return 1;
  if (axis < shift || axis >= out->rank) return 0;
  return tensor->shape.dim[axis - shift] == count && out->dim[axis] == count ? count : 0;
}

int oct_channel_axis(const oct_node *node) {
  const oct_value *y = node->outputs[0];
  if (!y || !y->has_shape || y->shape.rank < 2) return -1;
  return oct_op_has(node->op, OCT_TRAIT_CHANNELS_LAST) ? 1 : y->shape.rank - 1;
}

static int weight_axis(const oct_node *node) {
  int (*axis)(const oct_node *) = node->op->quantization.weight_axis;
  return axis ? axis(node) : 0;
}

/* Only nodes whose result is factor-linear in the weights and takes the bias as it is. */
static bool is_plain(const oct_node *node) {
  if (strcmp(node->op->name, "matmul") == 0)
    return node->outputs[0]->has_shape && node->outputs[0]->shape.rank == 2 && node->inputs[0]->shape.rank == 2;
  if (strcmp(node->op->name, "gemm") == 0)
    return oct_node_float(node, "alpha") == 1 && (oct_node_float(node, "beta") == 1 || node->n_inputs < 3 || !node->inputs[2]);
  return strcmp(node->op->name, "conv") == 0 || strcmp(node->op->name, "conv_transpose") == 0;
}

/* One number per output channel; gemm takes one for all, too. */
static bool bias_fits(const oct_node *node, const oct_tensor *bias, int64_t channels) {
  if (!bias) return false;
  if (oct_op_has(node->op, OCT_TRAIT_CHANNELS_LAST)) return bias->shape.rank == 1 && bias->shape.dim[0] == channels;
  const oct_shape *out = &node->outputs[0]->shape;
  return oct_per_channel(bias, out, out->rank - 1) != 0;
}

bool oct_affine_target(const oct_node *node, int64_t *channels) {
  if (!oct_node_has(node, OCT_TRAIT_ACCUMULATES) || node->n_inputs < 2 || !node->inputs[1] || !node->outputs[0]) return false;
  if (node->outputs[0]->quant || node->outputs[0]->dtype != OCT_F32 || !is_plain(node)) return false;
  const oct_tensor *weights = oct_float_constant(node->inputs[1]);
  int axis = oct_channel_axis(node), over = weight_axis(node);
  if (!weights || axis < 0 || over < 0 || over >= weights->shape.rank) return false;
  *channels = weights->shape.dim[over];
  if (*channels < 1 || node->outputs[0]->shape.dim[axis] != *channels) return false;
  return node->n_inputs < 3 || !node->inputs[2] || bias_fits(node, oct_float_constant(node->inputs[2]), *channels);
}

static double bias_at(const oct_tensor *bias, int64_t c) {
  return bias ? oct_get_f64(bias->data, bias->dtype, oct_shape_count(&bias->shape) == 1 ? 0 : c) : 0;
}

/* Puts the tensor in the place of node->inputs[index], under the same name if nothing else uses the old one. */
static octet_status set_constant(oct_rewrite *rw, oct_node *node, int index, const char *name, oct_tensor *tensor) {
  oct_value *old = index < node->n_inputs ? node->inputs[index] : NULL;
  if (old && old->kind == OCT_CONSTANT && (!oct_rewrite_is_old(rw, old) || (oct_use_count(&rw->uses, old) == 1 && !rw->touched[old->id]))) {
    oct_value_set_tensor(old, tensor);
    return OCTET_OK;
  }
  oct_value *fresh;
  OCT_TRY(oct_graph_constant(rw->ctx, rw->graph, name, tensor, &fresh));
  if (index < node->n_inputs) {
    node->inputs[index] = fresh;
    return OCTET_OK;
  }
  oct_value *inputs[3] = {node->inputs[0], node->inputs[1], fresh};
  return oct_node_set_inputs(rw->ctx, rw->graph, node, inputs, 3);
}

static octet_status scale_weights(oct_rewrite *rw, oct_node *node, int64_t channels, const double *factor) {
  const oct_tensor *old = oct_float_constant(node->inputs[1]);
  oct_tensor *fresh;
  OCT_TRY(oct_tensor_create(rw->ctx, OCT_F32, &old->shape, &fresh));
  int64_t strides[OCT_MAX_RANK], count = oct_shape_count(&old->shape);
  oct_shape_strides(&old->shape, strides);
  int64_t stride = strides[weight_axis(node)];
  const float *plain = old->dtype == OCT_F32 ? old->data : NULL;
  for (int64_t first = 0, c = 0; first < count; first += stride, c = c + 1 < channels ? c + 1 : 0)
    for (int64_t i = first; i < first + stride; i++)
      ((float *)fresh->data)[i] = (float)((plain ? (double)plain[i] : oct_get_f64(old->data, old->dtype, i)) * factor[c]);
  return set_constant(rw, node, 1, node->inputs[1]->name, fresh);
}

static octet_status shift_bias(oct_rewrite *rw, oct_node *node, int64_t channels, const double *factor, const double *shift) {
  const oct_value *old = node->n_inputs > 2 ? node->inputs[2] : NULL;
  const oct_tensor *bias = old ? oct_float_constant(old) : NULL;
  oct_shape shape = oct_shape_of(1, channels);
  oct_tensor *fresh;
  char name[160];
  OCT_TRY(oct_tensor_create(rw->ctx, OCT_F32, &shape, &fresh));
  for (int64_t c = 0; c < channels; c++)
    ((float *)fresh->data)[c] = (float)(bias_at(bias, c) * (factor ? factor[c] : 1) + (shift ? shift[c] : 0));
  snprintf(name, sizeof name, "%.140s.bias", node->name);
  return set_constant(rw, node, 2, old ? old->name : name, fresh);
}

octet_status oct_fold_affine(oct_rewrite *rw, oct_node *node, int64_t channels, const double *factor, const double *shift) {
  if (factor) OCT_TRY(scale_weights(rw, node, channels, factor));
  if (shift && strcmp(node->op->name, "matmul") == 0 && (node->op = oct_op_find("gemm")) == NULL)
    return oct_fail(rw->ctx, OCTET_GRAPH, "node \"%s\": operator gemm is not there", node->name);
  bool has_bias = node->n_inputs > 2 && node->inputs[2];
  if (shift || has_bias) OCT_TRY(shift_bias(rw, node, channels, factor, shift));
  rw->changed = true;
  return OCTET_OK;
}
