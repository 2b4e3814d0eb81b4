/* PyTorch's quantized state dicts: which activation a module's scale and zero_point belong to. The weights are on the graph already.
 * Rules in model.h. Source: the state dicts of torch.nn.quantized (Conv2d, Linear, Quantize) and of torch.nn.intrinsic.quantized
 * (ConvReLU2d), whose output is quint8 and is rounded after the ReLU.
 * SPDX-License-Identifier: MIT */
#include <math.h>

#include "formats/model_parts.h"
#include "ir/op.h"

static bool ends_with(const char *text, const char *ending) {
  size_t n = strlen(text), m = strlen(ending);
  return n > m && strcmp(text + n - m, ending) == 0;
}

bool oct_is_torch_state(const char *name) {
  static const char *const endings[] = {".scale",    ".zero_point", ".num_batches_tracked", ".min_val", ".max_val", ".min_vals",
                                        ".max_vals", NULL};
  for (size_t i = 0; endings[i]; i++)
    if (ends_with(name, endings[i])) return true;
  return false;
}

typedef struct state {
  octet_context *ctx;
  oct_graph *graph;
  const oct_bundle *bundle;
  oct_uses uses;
} state;

/* The tensor MODULE + ending. */
static octet_status find_part(state *s, const char *module, size_t length, const char *ending, const oct_named_tensor **item,
                              oct_value **value) {
  size_t more = strlen(ending);
  char *name = oct_alloc(s->ctx, length + more + 1, 1);
  if (!name) return OCTET_OUT_OF_MEMORY;
  memcpy(name, module, length);
  memcpy(name + length, ending, more);
  *item = oct_bundle_find(s->bundle, name);
  if (value) *value = oct_graph_find(s->graph, name);
  oct_free(name);
  return OCTET_OK;
}

static bool scalar(const oct_named_tensor *item, double *out) {
  if (!item || oct_shape_count(&item->tensor->shape) != 1) return false;
  *out = oct_get_f64(item->tensor->data, item->tensor->dtype, 0);
  return true;
}

static octet_status set_params(state *s, oct_value *v, double scale, double zero_point) {
  float scale_f = (float)scale;
  int32_t zero = (int32_t)zero_point;
  if (!isfinite(scale_f) || scale_f <= 0 || zero_point < 0 || zero_point > 255)
    return oct_fail(s->ctx, OCTET_DATA,
                    "the checkpoint gives value \"%s\" scale %g and zero point %g, which are no parameters of 8-bit values", v->name, scale,
                    zero_point);
  return oct_value_set_quant(s->ctx, s->graph, v,
                             &(oct_quant){.dtype = OCT_U8, .axis = -1, .count = 1, .scale = &scale_f, .zero_point = &zero});
}

/* Output of the node that uses the weights, behind the clamp (ReLU) that alone follows it; NULL when no node does. */
static oct_value *module_output(const state *s, const oct_value *weight) {
  for (int i = s->uses.first[weight->id]; i < s->uses.first[weight->id + 1]; i++) {
    oct_node *node = s->uses.uses[i].node;
    if (!oct_node_has(node, OCT_TRAIT_ACCUMULATES)) continue;
    oct_value *v = node->outputs[0];
    const oct_node *next = oct_only_user(&s->uses, v);
    return oct_node_has(next, OCT_TRAIT_CLAMP) && next->inputs[0] == v ? next->outputs[0] : v;
  }
  return NULL;
}

/* The first float input without parameters. */
static oct_value *plain_input(const oct_graph *graph) {
  for (size_t i = 0; i < graph->n_inputs; i++)
    if (graph->inputs[i]->dtype == OCT_F32 && !graph->inputs[i]->quant) return graph->inputs[i];
  return NULL;
}

static octet_status apply_scale(state *s, const oct_named_tensor *item) {
  size_t length = strlen(item->name) - strlen(".scale");
  const oct_named_tensor *zero_item, *weight_item;
  oct_value *weight, *target = NULL;
  double scale, zero_point;
  OCT_TRY(find_part(s, item->name, length, ".zero_point", &zero_item, NULL));
  OCT_TRY(find_part(s, item->name, length, ".weight", &weight_item, &weight));
  if (!scalar(item, &scale) || !scalar(zero_item, &zero_point)) return OCTET_OK;
  if (weight) target = module_output(s, weight);
  else if (!weight_item) target = plain_input(s->graph);
  if (target && target->dtype == OCT_F32) return set_params(s, target, scale, zero_point);
  oct_warn(s->ctx, "the checkpoint's %s belongs to no value of the graph", item->name);
  return OCTET_OK;
}

/* Pooling, shape changes and clamps of quantized values keep their parameters in PyTorch. */
static bool keeps_params(const oct_node *node) {
  static const char *const pools[] = {"average_pool", "global_average_pool", "reduce_mean", NULL};
  if (node->op->quantization.output == OCT_OUTPUT_SAME) return true;
  if (oct_node_has(node, OCT_TRAIT_MOVEMENT) || oct_node_has(node, OCT_TRAIT_IDENTITY) || oct_node_has(node, OCT_TRAIT_CLAMP)) return true;
  for (size_t i = 0; pools[i]; i++)
    if (strcmp(node->op->name, pools[i]) == 0) return true;
  return false;
}

static octet_status pass_on(state *s) {
  for (size_t i = 0; i < s->graph->n_nodes; i++) {
    const oct_node *node = s->graph->nodes[i];
    const oct_value *x = node->n_inputs ? node->inputs[0] : NULL;
    oct_value *y = node->n_outputs ? node->outputs[0] : NULL;
    if (!x || !y || !x->quant || x->quant->axis >= 0 || x->kind == OCT_CONSTANT || y->quant || y->dtype != OCT_F32 || !keeps_params(node))
      continue;
    OCT_TRY(oct_value_set_quant(s->ctx, s->graph, y, x->quant));
  }
  return OCTET_OK;
}

static octet_status quantize_bias(state *s, const oct_tensor *bias, const oct_quant *input, const oct_quant *weight, oct_tensor **out,
                                  bool *fits) {
  oct_shape shape = bias->shape;
  OCT_TRY(oct_tensor_create(s->ctx, OCT_I32, &shape, out));
  int64_t count = oct_shape_count(&shape);
  *fits = true;
  for (int64_t c = 0; c < count && *fits; c++) {
    float unit = input->scale[0] * weight->scale[weight->count == 1 ? 0 : c];
    double q = rint((double)((float)oct_get_f64(bias->data, bias->dtype, c) / unit));
    *fits = fabs(q) <= (double)INT32_MAX;
    if (*fits) ((int32_t *)(*out)->data)[c] = (int32_t)q;
  }
  return OCTET_OK;
}

/* The int32 form of a node's bias, as a constant of its own if others use it too. */
static octet_status set_bias(state *s, oct_node *node, oct_tensor *tensor) {
  const oct_quant *input = node->inputs[0]->quant, *weight = node->inputs[1]->quant;
  oct_value *bias = node->inputs[2];
  bool per_channel = weight->count > 1;
  oct_quant *quant =
      oct_quant_create(s->ctx, &s->graph->region, OCT_I32, per_channel ? 0 : -1, per_channel ? weight->count : 1, NULL, NULL);
  if (!quant) {
    oct_tensor_release(tensor);
    return OCTET_OUT_OF_MEMORY;
  }
  for (int64_t c = 0; c < quant->count; c++) quant->scale[c] = input->scale[0] * weight->scale[c];
  if (oct_use_count(&s->uses, bias) > 1) OCT_TRY(oct_graph_constant(s->ctx, s->graph, bias->name, tensor, &bias));
  else oct_value_set_tensor(bias, tensor);
  bias->quant = quant;
  bias->dtype = OCT_F32;
  node->inputs[2] = bias;
  return OCTET_OK;
}

static octet_status quantize_biases(state *s) {
  for (size_t i = 0; i < s->graph->n_nodes; i++) {
    oct_node *node = s->graph->nodes[i];
    if (!oct_node_has(node, OCT_TRAIT_ACCUMULATES) || node->n_inputs < 3 || !node->inputs[0] || !node->inputs[1]) continue;
    const oct_quant *input = node->inputs[0]->quant, *weight = node->inputs[1]->quant;
    const oct_tensor *bias = oct_constant_of(node->inputs[2]);
    if (!input || input->axis >= 0 || !weight || !bias || node->inputs[2]->quant || bias->dtype != OCT_F32 || bias->shape.rank != 1)
      continue;
    if (weight->count > 1 && weight->count != bias->shape.dim[0]) continue;
    oct_tensor *tensor = NULL;
    bool fits;
    octet_status status = quantize_bias(s, bias, input, weight, &tensor, &fits);
    if (status == OCTET_OK && fits) {
      OCT_TRY(set_bias(s, node, tensor));
      continue;
    }
    oct_tensor_release(tensor);
    OCT_TRY(status);
    oct_warn(s->ctx, "bias \"%s\" does not fit int32 at its scale, and stays float", node->inputs[2]->name);
  }
  return OCTET_OK;
}

static octet_status apply_all(state *s) {
  for (size_t i = 0; i < s->bundle->count; i++)
    if (ends_with(s->bundle->items[i].name, ".scale")) OCT_TRY(apply_scale(s, &s->bundle->items[i]));
  oct_value *input = plain_input(s->graph);
  if (input) {
    oct_warn(s->ctx,
             "the checkpoint holds no parameters for input \"%s\": it is rounded to whole numbers (scale 1, zero point 0), as "
             "quantize_per_tensor(x, 1, 0) does; "
             "a quant statement in the .oct text states others",
             input->name);
    OCT_TRY(set_params(s, input, 1, 0));
  }
  OCT_TRY(pass_on(s));
  return quantize_biases(s);
}

octet_status oct_apply_torch_activations(octet_context *ctx, oct_graph *graph, const oct_bundle *bundle) {
  state s = {.ctx = ctx, .graph = graph, .bundle = bundle};
  OCT_TRY(oct_graph_uses(ctx, graph, &s.uses));
  octet_status status = apply_all(&s);
  oct_uses_free(&s.uses);
  return status;
}
