/* Reads operator cases written by scripts/make_ops_golden.py and runs each twice: the reference itself, and a session (with whatever kernels it
 * takes). The outputs of the files come from onnx.reference.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_TESTS_OP_GOLDEN_H
#define OCT_TESTS_OP_GOLDEN_H

#include "context_checks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/session.h"
#include "ops/op.h"

#define GOLDEN_MAX 16

typedef struct golden_case {
  char title[256]; /* "OP ATTRIBUTES" */
  const oct_op *op;
  oct_tensor *inputs[GOLDEN_MAX], *outputs[GOLDEN_MAX];
  bool constant[GOLDEN_MAX];
  int n_inputs, n_outputs;
} golden_case;

static inline oct_tensor *golden_tensor(octet_context *ctx, char *text) {
  char *dtype = strtok(text, " "), *dims = strtok(NULL, " "), *value;
  oct_shape shape = {0};
  if (strcmp(dims, "-") != 0)
    for (char *p = dims; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) shape.dim[shape.rank++] = strtoll(p, NULL, 10);
  oct_tensor *t;
  assert_int_equal(oct_tensor_create(ctx, oct_dtype_parse(dtype), &shape, &t), OCTET_OK);
  for (int64_t i = 0; (value = strtok(NULL, " \n")) != NULL; i++) {
    assert_true(i < oct_shape_count(&shape));
    if (oct_dtype_is_float(t->dtype)) oct_set_f64(t->data, t->dtype, i, strtod(value, NULL));
    else oct_set_i64(t->data, t->dtype, i, strtoll(value, NULL, 10));
  }
  return t;
}

/* "name=value ..." by the operator's rows. */
static inline void golden_attributes(octet_context *ctx, oct_graph *graph, oct_node *node, const char *text) {
  char copy[256];
  snprintf(copy, sizeof copy, "%s", text);
  for (char *item = strtok(copy, " \n"); item; item = strtok(NULL, " \n")) {
    char *value = strchr(item, '=');
    assert_non_null(value);
    *value++ = 0;
    const oct_attribute_spec *spec = node->op->attributes;
    while (spec && spec->name && strcmp(spec->name, item) != 0) spec++;
    assert_true(spec && spec->name);
    int64_t list[32];
    size_t count = 0;
    if (spec->type == OCT_ATTRIBUTE_INT)
      assert_int_equal(oct_node_set_int(ctx, graph, node, spec->name, strtoll(value, NULL, 10)), OCTET_OK);
    else if (spec->type == OCT_ATTRIBUTE_FLOAT)
      assert_int_equal(oct_node_set_float(ctx, graph, node, spec->name, strtof(value, NULL)), OCTET_OK);
    else if (spec->type == OCT_ATTRIBUTE_STRING) assert_int_equal(oct_node_set_string(ctx, graph, node, spec->name, value), OCTET_OK);
    else {
      for (char *p = value; p && *p && count < 32; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) list[count++] = strtoll(p, NULL, 10);
      assert_int_equal(oct_node_set_ints(ctx, graph, node, spec->name, list, count), OCTET_OK);
    }
  }
}

static inline void golden_compare(const golden_case *c, const char *how, int i, oct_dtype dtype, const oct_shape *shape, const void *data) {
  const oct_tensor *want = c->outputs[i];
  char a[OCT_SHAPE_TEXT], b[OCT_SHAPE_TEXT];
  if (dtype != want->dtype || !oct_shape_equal(shape, &want->shape))
    fail_msg("%s (%s), output %d: %s%s instead of %s%s", c->title, how, i, oct_dtype_name(dtype), oct_shape_text(shape, a),
             oct_dtype_name(want->dtype), oct_shape_text(&want->shape, b));
  for (int64_t k = 0; k < oct_shape_count(shape); k++) {
    double got = oct_get_f64(data, dtype, k), right = oct_get_f64(want->data, dtype, k);
    double bound = oct_dtype_is_float(dtype) ? 1e-5 + 1e-5 * fabs(right) : 0;
    if (!(fabs(got - right) <= bound) && got != right)
      fail_msg("%s (%s), output %d, element %lld: %.9g instead of %.9g", c->title, how, i, (long long)k, got, right);
  }
}

static inline oct_graph *golden_graph(octet_context *ctx, const golden_case *c, oct_node **node) {
  oct_graph *graph;
  oct_value *inputs[GOLDEN_MAX] = {0};
  char name[32];
  assert_int_equal(oct_graph_create(ctx, "golden", &graph), OCTET_OK);
  for (int i = 0; i < c->n_inputs; i++) {
    const oct_tensor *t = c->inputs[i];
    snprintf(name, sizeof name, "i%d", i);
    if (!t) continue;
    if (c->constant[i]) assert_int_equal(oct_graph_constant(ctx, graph, name, oct_tensor_retain(c->inputs[i]), &inputs[i]), OCTET_OK);
    else assert_int_equal(oct_graph_input(ctx, graph, name, t->dtype, &t->shape, &inputs[i]), OCTET_OK);
  }
  assert_int_equal(oct_graph_node(ctx, graph, c->op, "node", inputs, c->n_inputs, c->n_outputs, node), OCTET_OK);
  golden_attributes(ctx, graph, *node, strchr(c->title, ' ') ? strchr(c->title, ' ') + 1 : "");
  if (oct_node_infer(ctx, *node) != OCTET_OK) fail_msg("%s: %s", c->title, ctx->message);
  for (int i = 0; i < c->n_outputs; i++) assert_int_equal(oct_graph_output(ctx, graph, (*node)->outputs[i]), OCTET_OK);
  return graph;
}

static inline void golden_run_reference(octet_context *ctx, const golden_case *c) {
  oct_node *node;
  oct_graph *graph = golden_graph(ctx, c, &node);
  const oct_tensor *in[GOLDEN_MAX];
  oct_tensor *out[GOLDEN_MAX];
  for (int i = 0; i < c->n_inputs; i++) in[i] = c->inputs[i];
  for (int i = 0; i < c->n_outputs; i++)
    assert_int_equal(oct_tensor_create(ctx, node->outputs[i]->dtype, &node->outputs[i]->shape, &out[i]), OCTET_OK);
  if (c->op->reference(ctx, node, in, out) != OCTET_OK) fail_msg("%s: %s", c->title, ctx->message);
  for (int i = 0; i < c->n_outputs; i++) {
    golden_compare(c, "reference", i, out[i]->dtype, &out[i]->shape, out[i]->data);
    oct_tensor_release(out[i]);
  }
  oct_graph_destroy(graph);
}

static inline void golden_run_session(octet_context *ctx, const golden_case *c) {
  oct_node *node;
  oct_session *session;
  oct_graph *graph = golden_graph(ctx, c, &node);
  oct_session_options options = oct_session_options_default();
  if (oct_session_create(ctx, graph, &options, &session) != OCTET_OK) fail_msg("%s: %s", c->title, ctx->message);
  for (size_t k = 0; k < oct_session_inputs(session); k++) {
    oct_session_port port = oct_session_input(session, k);
    const oct_tensor *t = c->inputs[atoi(port.value->name + 1)];
    assert_true(port.bytes == t->bytes);
    if (t->bytes) memcpy(port.data, t->data, t->bytes);
  }
  if (oct_session_run(session) != OCTET_OK) fail_msg("%s: %s", c->title, ctx->message);
  for (int i = 0; i < c->n_outputs; i++) {
    oct_session_port port = oct_session_output(session, (size_t)i);
    golden_compare(c, "session", i, port.value->dtype, &port.value->shape, port.data);
  }
  oct_session_destroy(session);
  oct_graph_destroy(graph);
}

/* Runs every case of a file in tests/data/ops; returns how many there were. */
static inline int golden_file(const char *name) {
  octet_context *ctx;
  char path[512];
  static char line[1 << 16];
  golden_case c;
  int count = 0;
  assert_int_equal(oct_context_create(&ctx), OCTET_OK);
  snprintf(path, sizeof path, "%s/tests/data/ops/%s", OCTET_SOURCE_DIR, name);
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("%s is not there", path);
  memset(&c, 0, sizeof c);
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    if (strncmp(line, "case ", 5) == 0) {
      char op[64] = "";
      memset(&c, 0, sizeof c);
      snprintf(c.title, sizeof c.title, "%.250s", line + 5);
      sscanf(c.title, "%63s", op);
      c.op = oct_op_find(op);
      if (!c.op) fail_msg("operator %s is not there", op);
    } else if (strcmp(line, "absent") == 0) {
      c.n_inputs++;
    } else if (strncmp(line, "input ", 6) == 0 || strncmp(line, "constant ", 9) == 0) {
      c.constant[c.n_inputs] = line[0] == 'c';
      c.inputs[c.n_inputs++] = golden_tensor(ctx, strchr(line, ' ') + 1);
    } else if (strncmp(line, "output ", 7) == 0) {
      c.outputs[c.n_outputs++] = golden_tensor(ctx, line + 7);
    } else if (strcmp(line, "end") == 0) {
      golden_run_reference(ctx, &c);
      golden_run_session(ctx, &c);
      for (int i = 0; i < GOLDEN_MAX; i++) oct_tensor_release(c.inputs[i]), oct_tensor_release(c.outputs[i]);
      count++;
    }
  }
  fclose(file);
  oct_context_destroy(ctx);
  return count;
}

#endif
