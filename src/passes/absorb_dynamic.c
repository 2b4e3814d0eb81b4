/* Integer operators that other tools write in place of quantized layers become layers again:
 *
 *   DynamicQuantizeLinear(x) -> q, s, z;  ConvInteger or MatMulInteger(q, w, z, w zero point) -> Cast -> Mul by s and by the scale of w, in any order
 *   -> Add of a constant per channel, if there is one
 *
 * becomes conv, matmul or gemm of x with an int8 weight constant and `dynamic` = 2 (range of the whole tensor), or 1 (range per image or row) where
 * Octet marked the DynamicQuantizeLinear. With QuantizeLinear of constant parameters in its place the layer reads dequantize(q), which absorb_qdq takes
 * from there. What cannot be held as int8 without zero point, or could leave int32, stays as it is. Results change by float rounding only, so a sum after
 * a statically quantized layer stays one.
 * SPDX-License-Identifier: MIT */
#include "passes/rewrite.h"

typedef struct match {
  oct_node *product, *source; /* the integer operator; what quantizes its input */
  oct_node *last;             /* the Mul or Add that becomes the layer */
  bool conv, has_scale;
  int factors;                 /* constant ones */
  const oct_tensor *factor[2]; /* one number each, or one per channel */
  const oct_tensor *bias;      /* or NULL */
  int64_t channels;
} match;

static bool is_op(const oct_node *node, const char *name) { return node && strcmp(node->op->name, name) == 0; }
static oct_value *input_of(const oct_node *node, int i) { return i < node->n_inputs ? node->inputs[i] : NULL; }

/* ---- Weights --------------------------------------------------------------------------------------------------- */

static int64_t zero_point_of(const oct_tensor *zero, int64_t channel) {
  return zero ? oct_get_i64(zero->data, zero->dtype, oct_shape_count(&zero->shape) == 1 ? 0 : channel) : 0;
}

static int64_t channel_at(const match *m, const oct_shape *w, int64_t index) {
  return m->conv ? index / (oct_shape_count(w) / m->channels) : index % m->channels;
}

/* The zero point is one constant number, or one per channel, or absent. */
static bool zero_point_fits(const match *m, const oct_tensor **zero) {
  const oct_value *v = input_of(m->product, 3);
  *zero = oct_constant_of(v);
  if (!v) return true;
  int64_t count = *zero && !v->quant ? oct_shape_count(&(*zero)->shape) : 0;
  return count == 1 || (count == m->channels && (*zero)->shape.rank == 1);
}

/* Weights less their zero points as int8; *out NULL when one does not fit, or a final accumulator could leave int32. */
static octet_status make_weights(octet_context *ctx, const match *m, oct_tensor **out) {
  const oct_tensor *w = m->product->inputs[1]->tensor, *zero;
  int64_t count = oct_shape_count(&w->shape), depth = count / m->channels;
  *out = NULL;
  if (!zero_point_fits(m, &zero) || depth > INT32_MAX / (255 * 128)) return OCTET_OK;
  OCT_TRY(oct_tensor_create(ctx, OCT_I8, &w->shape, out));
  for (int64_t i = 0; i < count; i++) {
    int64_t q = oct_get_i64(w->data, w->dtype, i) - zero_point_of(zero, channel_at(m, &w->shape, i));
    if (q < INT8_MIN || q > INT8_MAX) {
      oct_tensor_release(*out);
      *out = NULL;
      return OCTET_OK;
    }
    ((int8_t *)(*out)->data)[i] = (int8_t)q;
  }
  return OCTET_OK;
}

/* ---- Finding ----------------------------------------------------------------------------------------------------- */

/* One number, or one per output channel of the product, where numpy's broadcasting puts it there. */
static bool is_per_channel(const match *m, const oct_tensor *t, const oct_shape *out) {
  return t && oct_per_channel(t, out, m->conv ? 1 : out->rank - 1) != 0;
}

static bool take_constant(match *m, const oct_value *v, const oct_shape *out) {
  const oct_tensor *t = oct_float_constant(v);
  if (m->factors == 2 || !t || t->dtype != OCT_F32 || !is_per_channel(m, t, out)) return false;
  m->factor[m->factors++] = t;
  return true;
}

static bool is_dynamic(const match *m) { return is_op(m->source, "dynamic_quantize"); }

static bool take_scale(match *m, const oct_value *v) {
  if (m->has_scale || !is_dynamic(m) || m->source->n_outputs < 2 || v != m->source->outputs[1]) return false;
  return m->has_scale = true;
}

/* A factor: the scale, a constant, or the product of both. */
static bool take_factor(match *m, const oct_value *v, const oct_shape *out) {
  if (take_scale(m, v) || take_constant(m, v, out)) return true;
  const oct_node *mul = v->producer;
  if (!is_op(mul, "mul") || mul->n_inputs != 2) return false;
  match before = *m;
  for (int i = 0; i < 2; i++) {
    if (take_scale(m, mul->inputs[i]) && take_constant(m, mul->inputs[1 - i], out)) return true;
    *m = before;
  }
  if (take_constant(m, mul->inputs[0], out) && take_constant(m, mul->inputs[1], out)) return true; /* not folded yet */
  *m = before;
  return false;
}

/* The product's shape; where the graph does not know it, what is certain: no factor that fits this changes the rank. */
static oct_shape product_shape(const match *m, const oct_value *v) {
  if (v->has_shape) return v->shape;
  oct_shape shape = oct_shape_of(1, m->channels);
  if (!m->conv) return shape;
  shape.rank = m->product->inputs[1]->shape.rank;
  for (int d = 0; d < shape.rank; d++) shape.dim[d] = d == 1 ? m->channels : OCT_DIM_UNKNOWN;
  return shape;
}

static bool keeps_rank(const oct_node *node, const oct_value *v) {
  const oct_value *y = node->outputs[0];
  return y->has_shape == v->has_shape && (!v->has_shape || y->shape.rank == v->shape.rank);
}

/* From the Cast on: multiplications until scale and constant are found, then the bias. */
static bool find_end(const oct_rewrite *rw, match *m) {
  oct_node *cast = oct_rewrite_only_user(rw, m->product->outputs[0]), *user;
  if (!is_op(cast, "cast") || cast->outputs[0]->dtype != OCT_F32) return false;
  oct_value *v = cast->outputs[0];
  const oct_shape shape = product_shape(m, v), *out = &shape;
  bool whole = !is_dynamic(m); /* the scale is among the constants */
  while ((!m->has_scale && !whole) || m->factors == 0) {
    user = oct_rewrite_only_user(rw, v);
    if (!is_op(user, "mul") || user->n_inputs != 2 || !keeps_rank(user, v)) break;
    if (!take_factor(m, user->inputs[user->inputs[0] == v], out)) break;
    m->last = user;
    v = user->outputs[0];
    if (v->quant) break;
  }
  if (!m->last || (!m->has_scale && !whole) || (whole && !m->factors)) return false;
  user =
      v->quant || whole ? NULL : oct_rewrite_only_user(rw, v); /* a bias after 8-bit inputs would be rounded to the accumulator's units */
  if (!is_op(user, "add") || user->n_inputs != 2 || !v->has_shape || !keeps_rank(user, v)) return true;
  if (!m->conv && (out->rank != 2 || m->product->inputs[0]->shape.rank != 2)) return true; /* no layer with bias: the Add stays */
  const oct_tensor *bias = oct_float_constant(user->inputs[user->inputs[0] == v]);
  if (!is_per_channel(m, bias, out)) return true;
  m->bias = bias;
  m->last = user;
  return true;
}

/* The input's zero point is the very one of what quantizes it. */
static bool same_zero_point(const match *m) {
  const oct_value *mine = input_of(m->product, 2), *theirs;
  if (is_dynamic(m)) return m->source->n_outputs > 2 && mine == m->source->outputs[2];
  theirs = input_of(m->source, 2);
  double a = 0, b = 0, scale;
  if (mine && !oct_constant_scalar(mine, &a)) return false;
  if (theirs && !oct_constant_scalar(theirs, &b)) return false;
  return a == b && oct_constant_scalar(m->source->inputs[1], &scale);
}

static bool find(const oct_rewrite *rw, oct_node *node, match *m) {
  *m = (match){.product = node, .conv = is_op(node, "conv_integer")};
  if (!m->conv && !is_op(node, "matmul_integer")) return false;
  const oct_value *q = node->inputs[0], *w = node->inputs[1];
  m->source = q->producer;
  if (!m->source || m->source->outputs[0] != q || !(is_dynamic(m) || oct_node_has(m->source, OCT_TRAIT_QUANTIZE))) return false;
  if (!oct_constant_of(w) || w->quant || !same_zero_point(m)) return false;
  if (m->conv ? w->shape.rank < 3 || w->shape.rank > 4 : w->shape.rank != 2) return false;
  m->channels = w->shape.dim[m->conv ? 0 : 1];
  return m->channels > 0 && oct_shape_count(&w->shape) > 0 && find_end(rw, m);
}

/* ---- Making ------------------------------------------------------------------------------------------------------ */

static float number_at(const oct_tensor *t, int64_t channel) {
  return ((const float *)t->data)[oct_shape_count(&t->shape) == 1 ? 0 : channel];
}

/* Scales of the weights: the product of the constants, without the scale of a statically quantized input. */
static octet_status set_scales(oct_rewrite *rw, const match *m, oct_value *weights) {
  double input_scale = 1;
  bool single = true;
  if (!is_dynamic(m)) oct_constant_scalar(m->source->inputs[1], &input_scale);
  for (int i = 0; i < m->factors; i++) single = single && oct_shape_count(&m->factor[i]->shape) == 1;
  int64_t count = single ? 1 : m->channels;
  oct_quant quant = {.dtype = OCT_I8, .axis = single ? -1 : m->conv ? 0 : 1, .count = count};
  quant.scale = oct_alloc(rw->ctx, (size_t)count, sizeof *quant.scale);
  quant.zero_point = oct_alloc(rw->ctx, (size_t)count, sizeof *quant.zero_point);
  octet_status status = quant.scale && quant.zero_point ? OCTET_OK : OCTET_OUT_OF_MEMORY;
  for (int64_t c = 0; status == OCTET_OK && c < count; c++) {
    float scale = 1;
    for (int i = 0; i < m->factors; i++) scale *= number_at(m->factor[i], c);
    quant.scale[c] = is_dynamic(m) ? scale : (float)((double)scale / input_scale);
  }
  if (status == OCTET_OK) status = oct_value_set_quant(rw->ctx, rw->graph, weights, &quant);
  oct_free(quant.scale);
  oct_free(quant.zero_point);
  return status;
}

static octet_status make_bias(oct_rewrite *rw, const match *m, oct_value **out) {
  oct_shape shape = oct_shape_of(1, m->channels);
  oct_tensor *tensor;
  OCT_TRY(oct_tensor_create(rw->ctx, OCT_F32, &shape, &tensor));
  for (int64_t c = 0; c < m->channels; c++)
    ((float *)tensor->data)[c] = (float)oct_get_f64(m->bias->data, m->bias->dtype, oct_shape_count(&m->bias->shape) == 1 ? 0 : c);
  return oct_graph_constant(rw->ctx, rw->graph, "bias", tensor, out);
}

/* What the layer reads: the source's float input, or the quantized values made float again. */
static octet_status make_input(oct_rewrite *rw, const match *m, oct_value **out) {
  *out = m->source->inputs[0];
  if (is_dynamic(m)) return OCTET_OK;
  oct_value *inputs[3] = {m->source->outputs[0], m->source->inputs[1], input_of(m->source, 2)};
  const oct_op *op = oct_op_find("dequantize");
  oct_node *node;
  if (!op) return oct_fail(rw->ctx, OCTET_GRAPH, "operator dequantize is not there");
  OCT_TRY(oct_graph_node(rw->ctx, rw->graph, op, m->source->name, inputs, inputs[2] ? 3 : 2, 1, &node));
  OCT_TRY(oct_node_infer(rw->ctx, node));
  *out = node->outputs[0];
  return OCTET_OK;
}

static octet_status absorb(oct_rewrite *rw, oct_node *product) {
  match m;
  oct_tensor *tensor;
  oct_value *inputs[3];
  if (!find(rw, product, &m)) return OCTET_OK;
  OCT_TRY(make_weights(rw->ctx, &m, &tensor));
  if (!tensor) return OCTET_OK;
  OCT_TRY(oct_graph_constant(rw->ctx, rw->graph, product->inputs[1]->name, tensor, &inputs[1]));
  OCT_TRY(set_scales(rw, &m, inputs[1]));
  OCT_TRY(make_input(rw, &m, &inputs[0]));
  if (m.bias) OCT_TRY(make_bias(rw, &m, &inputs[2]));
  const oct_op *op = oct_op_find(m.conv ? "conv" : m.bias ? "gemm" : "matmul");
  if (!op) return oct_fail(rw->ctx, OCTET_GRAPH, "operator conv, gemm or matmul is not there");
  m.last->op = op;
  OCT_TRY(oct_node_set_inputs(rw->ctx, rw->graph, m.last, inputs, m.bias ? 3 : 2));
  for (int i = 0; i < product->n_attributes; i++) OCT_TRY(oct_node_set_attribute(rw->ctx, rw->graph, m.last, &product->attributes[i]));
  rw->changed = true;
  if (!is_dynamic(&m)) return OCTET_OK;
  return oct_node_set_int(rw->ctx, rw->graph, m.last, "dynamic", oct_node_int(m.source, "per_sample") ? 1 : 2);
}

static octet_status run(octet_context *ctx, oct_graph *graph, bool *changed) {
  oct_rewrite rw;
  OCT_TRY(oct_rewrite_begin(ctx, graph, &rw));
  size_t n_nodes = graph->n_nodes;
  octet_status status = OCTET_OK;
  for (size_t i = 0; i < n_nodes && status == OCTET_OK; i++) status = absorb(&rw, graph->nodes[i]);
  return oct_rewrite_end(&rw, status, changed);
}

const oct_pass oct_pass_absorb_dynamic = {
    .name = "absorb_dynamic",
    .summary = "integer convolutions and matrix products, with what quantizes and scales around them, become quantized layers",
    .run = run,
};
