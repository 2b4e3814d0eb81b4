/* For tests of graph rewrites: graphs from text, and their evaluation by the operators' references.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_TESTS_PASS_HELPERS_H
#define OCT_TESTS_PASS_HELPERS_H

#include "context_checks.h"

#include <math.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "kernels/numerics.h"
#include "passes/pass.h"

static oct_graph *parse(const char *text) {
  oct_graph *graph;
  check(oct_text_parse(ctx, text, strlen(text), NULL, NULL, &graph));
  return graph;
}

static int count_ops(const oct_graph *graph, const char *op) {
  int count = 0;
  for (size_t i = 0; i < graph->n_nodes; i++) count += strcmp(graph->nodes[i]->op->name, op) == 0;
  return count;
}

/* A fixed pattern in [-1, 1] for inputs. */
static void fill_input(oct_tensor *t) {
  int64_t count = oct_shape_count(&t->shape);
  for (int64_t i = 0; i < count; i++) {
    double x = (double)((i * 37 + 11) % 41) / 20.0 - 1.0;
    oct_set_f64(t->data, t->dtype, i, oct_dtype_is_float(t->dtype) ? x : (double)((i * 53) % 256 - (t->dtype == OCT_I8 ? 128 : 0)));
  }
}

static int64_t channel_of(const oct_shape *shape, int axis, int64_t index) {
  int64_t strides[OCT_MAX_RANK];
  if (axis < 0) return 0;
  oct_shape_strides(shape, strides);
  return index / strides[axis] % shape->dim[axis];
}

/* What a value that carries parameters does to the numbers in it: quantize, dequantize. */
static void round_tensor(oct_tensor *t, const oct_quant *q) {
  int bits = (int)oct_dtype_size(q->dtype) * 8, is_signed = oct_dtype_is_signed(q->dtype);
  int32_t high = (int32_t)(((int64_t)1 << (bits - is_signed)) - 1), low = is_signed ? -high - 1 : 0;
  for (int64_t i = 0; i < oct_shape_count(&t->shape); i++) {
    int64_t c = channel_of(&t->shape, q->axis, i);
    float *x = (float *)t->data + i;
    *x = oct_dequantize(oct_quantize(*x, q->scale[c], q->zero_point[c], low, high), q->scale[c], q->zero_point[c]);
  }
}

static oct_tensor *real_constant(const oct_value *v) {
  oct_tensor *t;
  if (!v->quant) return oct_tensor_retain(v->tensor);
  check(oct_tensor_create(ctx, OCT_F32, &v->tensor->shape, &t));
  for (int64_t i = 0; i < oct_shape_count(&t->shape); i++) {
    int64_t c = channel_of(&t->shape, v->quant->axis, i);
    ((float *)t->data)[i] = (float)(oct_get_i64(v->tensor->data, v->tensor->dtype, i) - v->quant->zero_point[c]) * v->quant->scale[c];
  }
  return t;
}

/* All values by id; inputs are filled by pattern. Every shape must be known. */
static oct_tensor **evaluate(oct_graph *graph) {
  check(oct_graph_compact(ctx, graph));
  check(oct_graph_infer(ctx, graph));
  oct_tensor **t = oct_alloc(ctx, graph->n_values + 1, sizeof *t);
  for (size_t i = 0; i < graph->n_values; i++) {
    oct_value *v = graph->values[i];
    if (v->kind == OCT_CONSTANT) t[i] = real_constant(v);
    else check(oct_tensor_create(ctx, v->dtype, &v->shape, &t[i]));
    if (v->kind == OCT_INPUT) fill_input(t[i]);
    if (v->kind == OCT_INPUT && v->quant) round_tensor(t[i], v->quant);
  }
  for (size_t i = 0; i < graph->n_nodes; i++) {
    oct_node *node = graph->nodes[i];
    const oct_tensor *in[16] = {0};
    oct_tensor *out[16] = {0};
    for (int k = 0; k < node->n_inputs; k++) in[k] = node->inputs[k] ? t[node->inputs[k]->id] : NULL;
    for (int k = 0; k < node->n_outputs; k++) out[k] = node->outputs[k] ? t[node->outputs[k]->id] : NULL;
    check(node->op->reference(ctx, node, in, out));
    for (int k = 0; k < node->n_outputs; k++)
      if (node->outputs[k] && node->outputs[k]->quant) round_tensor(out[k], node->outputs[k]->quant);
  }
  return t;
}

static void free_values(oct_tensor **t, const oct_graph *graph) {
  for (size_t i = 0; i < graph->n_values; i++) oct_tensor_release(t[i]);
  oct_free(t);
}

/* The graph after the passes gives what it gave before, within `bound`, under the same names of outputs. `pass` NULL: all. */
static oct_graph *rewritten(const char *text, const char *pass, double bound) {
  oct_graph *before = parse(text), *after = parse(text);
  check(pass ? oct_pass_run(ctx, after, pass) : oct_passes_run(ctx, after, NULL));
  check(oct_graph_verify(ctx, after));
  oct_tensor **a = evaluate(before), **b = evaluate(after);
  assert_int_equal(before->n_outputs, after->n_outputs);
  for (size_t i = 0; i < before->n_outputs; i++) {
    const oct_value *x = before->outputs[i], *y = after->outputs[i];
    assert_string_equal(x->name, y->name);
    assert_int_equal(x->dtype, y->dtype);
    assert_true(oct_shape_equal(&x->shape, &y->shape));
    for (int64_t k = 0; k < oct_shape_count(&x->shape); k++) {
      double d = oct_get_f64(a[x->id]->data, x->dtype, k) - oct_get_f64(b[y->id]->data, y->dtype, k);
      if (!(fabs(d) <= bound)) print_error("output %s[%lld] differs by %g\n", x->name, (long long)k, d);
      assert_true(fabs(d) <= bound);
    }
  }
  free_values(a, before);
  free_values(b, after);
  oct_graph_destroy(before);
  return after;
}

#endif
