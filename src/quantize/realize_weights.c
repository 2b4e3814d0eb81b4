/* Weights and biases of the layers whose weights become int8: static, dynamic and weight-only alike.
 * Uses of one constant along one axis share one int8 constant, stored once; each static use gets a bias of its own, since a bias counts in
 * units of input scale * weight scale.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "quantize/calibration.h"

/* Layers that read the same weights in the same way. Ids are node ids. */
typedef struct sharing {
  oct_value *weight; /* in the quantized graph */
  int axis;
  bool per_tensor;
  oct_node **nodes;
  size_t n_nodes;
  bool shared_with_floats; /* something else reads the float constant */
} sharing;

static bool becomes_int8(const oct_calibration *c, const oct_node *node) {
  const oct_node_choice *choice = &c->nodes[node->id];
  if (oct_weight_axis(node) < 0 || oct_is_fused_member(c, node)) return false;
  return choice->integer || choice->mode == OCT_MODE_DYNAMIC || choice->mode == OCT_MODE_WEIGHT_ONLY;
}

/* A table lookup may read the int8 weights: it gets them dequantized. */
static bool is_lookup(const oct_use *use) { return use->node && use->index == 0 && oct_node_has(use->node, OCT_TRAIT_MOVEMENT); }

static bool same_weights(const oct_calibration *c, const oct_node *a, const oct_node *b) {
  return becomes_int8(c, b) && a->inputs[1] == b->inputs[1] && oct_weight_axis(a) == oct_weight_axis(b) &&
         c->nodes[a->id].per_tensor == c->nodes[b->id].per_tensor;
}

static void collect(oct_conversion *k, const oct_node *first, bool *done, sharing *s) {
  oct_calibration *c = k->calibration;
  const oct_value *weight = first->inputs[1];
  s->weight = k->graph->values[weight->id];
  s->axis = oct_weight_axis(first);
  s->per_tensor = c->nodes[first->id].per_tensor;
  s->n_nodes = 0;
  s->shared_with_floats = false;
  for (int u = c->uses.first[weight->id]; u < c->uses.first[weight->id + 1]; u++) {
    const oct_use *use = &c->uses.uses[u];
    if (use->node && use->index == 1 && same_weights(c, first, use->node)) {
      s->nodes[s->n_nodes++] = k->graph->nodes[use->node->id];
      done[use->node->id] = true;
    } else if (!is_lookup(use)) {
      s->shared_with_floats = true;
    }
  }
}

/* ---- Biases ---------------------------------------------------------------------------------------------------------- */

static const oct_value *bias_of(const oct_node *node) { return node->n_inputs > 2 ? node->inputs[2] : NULL; }

static double bias_at(const oct_value *bias, int64_t channel) {
  const oct_tensor *t = bias->tensor;
  return oct_get_f64(t->data, t->dtype, oct_shape_count(&t->shape) == 1 ? 0 : channel);
}

/* Output channels: those of the weights, once for each group that shares them. */
static int64_t channels_of(const oct_value *bias, int64_t entries) {
  int64_t count = oct_shape_count(&bias->tensor->shape);
  return count > entries ? count : entries;
}

static float scale_at(const oct_weight_form *form, int64_t channel) { return form->scale[form->axis >= 0 ? channel : 0]; }

/* smallest[c] = the least weight scale with which the bias and the largest possible sum of products fit an int32 together; 0 where the
 * scale at hand does. *raised counts the others but for channels without weights.
 * True when there are any. A sum that does not fit by itself is left to the planner, which takes a wider path. */
static bool find_smallest(const oct_node *node, const oct_weight_form *form, int axis, float *smallest, int *raised) {
  const oct_value *bias = bias_of(node);
  const oct_quant *in = node->inputs[0]->quant;
  int32_t zero_point = in->zero_point[0], reach = zero_point > 255 - zero_point ? zero_point : 255 - zero_point;
  int64_t entries = form->tensor->shape.dim[axis], channels = channels_of(bias, entries);
  bool any = false;
  for (int64_t k = 0; k < channels; k++) {
    int64_t c = k % entries, magnitude = oct_weight_magnitude(form, axis, c);
    double room = (double)INT32_MAX - 2 - (double)magnitude * reach;
    double b = fabs(bias_at(bias, k)), unit = (double)(in->scale[0] * scale_at(form, c));
    if (room < (1 << 24) || b / unit <= room) continue;
    float least = (float)(b / ((double)in->scale[0] * room) * (1 + 0x1p-20));
    if (least > smallest[c]) smallest[c] = least;
    any = true;
    *raised += magnitude > 0;
  }
  return any;
}

static octet_status make_bias(octet_context *ctx, oct_graph *graph, oct_node *node, const oct_value *weight, int axis, bool in_place) {
  oct_value *bias = node->inputs[2], *target = bias;
  const oct_quant *in = node->inputs[0]->quant, *w = weight->quant;
  int64_t channels = channels_of(bias, weight->tensor->shape.dim[axis]);
  oct_shape shape = oct_shape_of(1, channels);
  oct_quant *quant = oct_quant_create(ctx, &graph->region, OCT_I32, w->axis >= 0 ? 0 : -1, w->axis >= 0 ? channels : 1, NULL, NULL);
  oct_tensor *tensor;
  if (!quant) return OCTET_OUT_OF_MEMORY;
  for (int64_t i = 0; i < quant->count; i++) quant->scale[i] = in->scale[0] * w->scale[i % w->count];
  OCT_TRY(oct_tensor_create(ctx, OCT_I32, &shape, &tensor));
  int32_t *q = tensor->data;
  for (int64_t c = 0; c < channels; c++) {
    double units = rint(bias_at(bias, c) / (double)quant->scale[w->axis >= 0 ? c : 0]);
    q[c] = (int32_t)fmin(fmax(units, -(double)INT32_MAX), (double)INT32_MAX);
  }
  if (in_place) {
    bias->quant = quant;
    oct_value_set_tensor(bias, tensor);
  } else {
    OCT_TRY(oct_graph_constant(ctx, graph, bias->name, tensor, &target));
    target->quant = quant;
  }
  target->dtype = OCT_F32;
  node->inputs[2] = target;
  return OCTET_OK;
}

/* ---- One constant ------------------------------------------------------------------------------------------------------ */

static bool is_static(const oct_conversion *k, const oct_node *node) { return k->calibration->nodes[node->id].integer; }

static octet_status raise_scales(oct_conversion *k, const sharing *s, oct_weight_form *form) {
  octet_context *ctx = k->calibration->ctx;
  int64_t channels = form->tensor->shape.dim[s->axis];
  float *smallest = oct_alloc(ctx, (size_t)channels, sizeof *smallest);
  bool again = false;
  octet_status status = smallest ? OCTET_OK : OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < s->n_nodes && status == OCTET_OK; i++) {
    const oct_value *bias = bias_of(s->nodes[i]);
    if (!bias || !is_static(k, s->nodes[i])) continue;
    status = oct_check_finite(ctx, bias);
    int more = 0;
    if (status == OCTET_OK && find_smallest(s->nodes[i], form, s->axis, smallest, &more)) again = true;
    if (status == OCTET_OK && more)
      status =
          oct_report_warn(ctx, k->report, "\"%s\" (%s): the bias of %d channel%s would overflow int32; the weight scale was raised there",
                          s->nodes[i]->name, s->nodes[i]->op->name, more, more == 1 ? "" : "s");
  }
  if (status == OCTET_OK && again) {
    oct_tensor_release(form->tensor);
    form->tensor = NULL;
    status = oct_weight_quantize(ctx, &k->graph->region, s->weight, s->axis, s->per_tensor, smallest, form);
  }
  oct_free(smallest);
  return status;
}

/* One scale for channels of very different size is the usual cause of a bad layer: said by name. */
static octet_status judge_per_tensor(oct_conversion *k, const sharing *s, const oct_weight_form *form) {
  octet_context *ctx = k->calibration->ctx;
  if (!s->per_tensor) return OCTET_OK;
  oct_region region = {0};
  oct_weight_form channelwise;
  octet_status status = oct_weight_quantize(ctx, &region, s->weight, s->axis, false, NULL, &channelwise);
  float low = INFINITY, high = 0;
  for (int64_t c = 0; c < channelwise.count && status == OCTET_OK; c++) {
    bool used = oct_weight_magnitude(&channelwise, s->axis, c) > 0;
    if (used && channelwise.scale[c] < low) low = channelwise.scale[c];
    if (used && channelwise.scale[c] > high) high = channelwise.scale[c];
  }
  if (status == OCTET_OK && high > 0 && high / low >= 8)
    status = oct_report_warn(ctx, k->report,
                             "\"%s\" (%s): one weight scale per tensor, but its channels differ %.3g times: the weights keep %.1f dB, per "
                             "channel they would keep %.1f dB",
                             s->nodes[0]->name, s->nodes[0]->op->name, (double)(high / low), form->sqnr_db, channelwise.sqnr_db);
  oct_tensor_release(channelwise.tensor);
  oct_region_free(&region);
  return status;
}

/* The others run in float, with weights of 8 bits. */
static bool has_dynamic_form(const oct_node *node) {
  for (const oct_attribute_spec *a = node->op->attributes; a && a->name; a++)
    if (strcmp(a->name, "dynamic") == 0) return true;
  return false;
}

static octet_status finish_node(oct_conversion *k, oct_node *node, const oct_value *weight, const sharing *s, const oct_weight_form *form,
                                bool first) {
  oct_calibration *c = k->calibration;
  const oct_node *original = c->graph->nodes[node->id];
  oct_layer_report *layer = &k->layers[node->id];
  layer->weights = weight->quant->axis < 0 ? "int8 per tensor" : "int8 per channel";
  layer->weight_sqnr_db = form->sqnr_db;
  if (first) layer->bytes += weight->tensor->bytes + (size_t)weight->quant->count * sizeof(float);
  if (c->nodes[node->id].mode == OCT_MODE_DYNAMIC && has_dynamic_form(node))
    OCT_TRY(oct_node_set_int(c->ctx, k->graph, node, "dynamic", 1));
  const oct_value *bias = bias_of(original);
  if (!bias || !oct_constant_of(bias)) return OCTET_OK;
  if (is_static(k, node)) OCT_TRY(make_bias(c->ctx, k->graph, node, weight, s->axis, oct_use_count(&c->uses, bias) == 1));
  layer->bytes += node->inputs[2]->tensor->bytes;
  return OCTET_OK;
}

static octet_status realize_weight(oct_conversion *k, const sharing *s) {
  octet_context *ctx = k->calibration->ctx;
  oct_weight_form form;
  oct_value *weight = NULL;
  octet_status status = oct_weight_quantize(ctx, &k->graph->region, s->weight, s->axis, s->per_tensor, NULL, &form);
  if (status != OCTET_OK) {
    oct_tensor_release(form.tensor);
    return status;
  }
  status = raise_scales(k, s, &form);
  if (status == OCTET_OK) status = judge_per_tensor(k, s, &form);
  if (status == OCTET_OK)
    status = oct_weight_install(ctx, k->graph, s->weight, &form, s->nodes, s->n_nodes, !s->shared_with_floats, &weight);
  for (size_t i = 0; i < s->n_nodes && status == OCTET_OK; i++) status = finish_node(k, s->nodes[i], weight, s, &form, i == 0);
  oct_tensor_release(form.tensor);
  return status;
}

octet_status oct_realize_weights(oct_conversion *k) {
  oct_calibration *c = k->calibration;
  size_t n = c->graph->n_nodes;
  bool *done = oct_alloc(c->ctx, n + 1, sizeof *done);
  sharing s = {.nodes = oct_alloc(c->ctx, n + 1, sizeof *s.nodes)};
  octet_status status = done && s.nodes ? OCTET_OK : OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < n && status == OCTET_OK; i++) {
    const oct_node *node = c->graph->nodes[i];
    if (done[i] || !becomes_int8(c, node)) continue;
    collect(k, node, done, &s);
    status = realize_weight(k, &s);
  }
  oct_free(done);
  oct_free(s.nodes);
  return status;
}
