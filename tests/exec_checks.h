/* For tests of the executor: graphs from text, run in sessions of every kind, against the plain road of ref_interpreter.h.
 * In the texts `= rnd` after a constant's type stands for random numbers (floats in [-1, 1), small integers).
 * SPDX-License-Identifier: MIT */
#ifndef OCT_TESTS_EXEC_CHECKS_H
#define OCT_TESTS_EXEC_CHECKS_H

#include "context_checks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "exec/session.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ref_interpreter.h"

static uint32_t exec_seed = 1;

/* In [0, below). */
static inline int exec_random(int below) {
  exec_seed = exec_seed * 1664525u + 1013904223u;
  return (int)((exec_seed >> 8) % (uint32_t)below);
}

/* ---- Graphs ---- */

/* Elements of the type that ends before `end` ("... f32[2,3] = rnd"); *integer when it is no float type. */
static inline int64_t exec_type(const char *start, const char *end, bool *integer) {
  const char *open = end;
  int64_t count = 1;
  while (open > start && *open != '[') open--;
  const char *name = open;
  while (name > start && name[-1] != ' ') name--;
  *integer = *name != 'f';
  for (const char *p = open + 1; p < end && *p != ']';) {
    count *= strtoll(p, (char **)(uintptr_t)&p, 10);
    if (*p == ',') p++;
  }
  return count;
}

static inline oct_graph *exec_parse(const char *text) {
  oct_strbuf expanded = oct_strbuf_make(ctx);
  const char *from = text, *mark;
  oct_strbuf_puts(&expanded, "octet 1\n");
  while ((mark = strstr(from, "= rnd")) != NULL) {
    bool integer;
    int64_t count = exec_type(from, mark, &integer);
    oct_strbuf_append(&expanded, from, (size_t)(mark - from) + 2);
    for (int64_t i = 0; i < count; i++) {
      int x = exec_random(255) - 127;
      if (integer) oct_strbuf_printf(&expanded, "%s%d", i ? "," : "", x);
      else oct_strbuf_printf(&expanded, "%s%.7f", i ? "," : "", (double)x / 128 + (double)exec_random(1000) * 1e-6);
    }
    from = mark + strlen("= rnd");
  }
  oct_strbuf_puts(&expanded, from);
  char *whole;
  oct_graph *graph = NULL;
  check(oct_strbuf_take(&expanded, &whole));
  octet_status status = oct_text_parse(ctx, whole, strlen(whole), NULL, NULL, &graph);
  if (status != OCTET_OK) print_error("%s\nin the text\n%s\n", ctx->message, text);
  assert_int_equal(status, OCTET_OK);
  oct_free(whole);
  check(oct_graph_verify(ctx, graph));
  return graph;
}

/* ---- Inputs ---- */

typedef struct exec_tensors {
  oct_tensor *item[16];
  size_t count;
} exec_tensors;

static inline void exec_free(exec_tensors *t) {
  for (size_t i = 0; i < t->count; i++) oct_tensor_release(t->item[i]);
  t->count = 0;
}

/* Floats in [-2, 2), integers in [0, 4), 8-bit ones of any value. Unknown dims become `batch`. */
static inline exec_tensors exec_inputs(const oct_graph *graph, int64_t batch) {
  exec_tensors t = {.count = graph->n_inputs};
  for (size_t i = 0; i < graph->n_inputs; i++) {
    const oct_value *v = graph->inputs[i];
    oct_shape shape = v->shape;
    for (int d = 0; d < shape.rank; d++)
      if (shape.dim[d] == OCT_DIM_UNKNOWN) shape.dim[d] = batch;
    check(oct_tensor_create(ctx, v->dtype, &shape, &t.item[i]));
    for (int64_t k = 0; k < oct_shape_count(&shape); k++) {
      if (oct_dtype_is_float(v->dtype)) oct_set_f64(t.item[i]->data, v->dtype, k, (double)exec_random(4096) / 1024 - 2);
      else
        oct_set_i64(t.item[i]->data, v->dtype, k,
                    oct_dtype_size(v->dtype) == 1 && v->dtype != OCT_BOOL ? exec_random(256)
                                                                          : exec_random(4) & (v->dtype == OCT_BOOL ? 1 : 3));
    }
  }
  return t;
}

static inline exec_tensors exec_expected(oct_graph *graph, const exec_tensors *inputs) {
  exec_tensors t = {.count = graph->n_outputs};
  check(ref_interpret(ctx, NULL, graph, (const oct_tensor *const *)inputs->item, t.item));
  return t;
}

/* ---- Sessions ---- */

typedef struct exec_form {
  unsigned fuse;
  const char *isa; /* NULL: all */
  int threads;     /* 0: one */
  int64_t chunk;   /* samples that run at once; 0: chosen */
  int strip_rows;  /* 0: two; negative: chosen */
} exec_form;

static inline oct_session *exec_session(const oct_graph *graph, exec_form form, const exec_tensors *inputs) {
  oct_session_options o = oct_session_options_default();
  oct_named_shape shapes[16];
  oct_session *session = NULL;
  for (size_t i = 0; i < inputs->count; i++) shapes[i] = (oct_named_shape){graph->inputs[i]->name, inputs->item[i]->shape};
  o.shapes = shapes;
  o.n_shapes = inputs->count;
  o.fuse_kinds = form.fuse;
  o.chunk = form.chunk;
  o.split_short = true;
  o.strip_rows = form.strip_rows ? form.strip_rows : 2;
  if (o.strip_rows < 0) o.strip_rows = 0;
  if (form.isa) {
    assert_true(oct_isa_cap(form.isa, &o.isa_mask));
    o.isa_mask &= oct_isa_detect();
  }
  ctx->threads = form.threads ? form.threads : 1;
  check(oct_session_create(ctx, graph, &o, &session));
  return session;
}

static inline void exec_fill(oct_session *session, const exec_tensors *inputs) {
  assert_int_equal(oct_session_inputs(session), inputs->count);
  for (size_t i = 0; i < inputs->count; i++) {
    oct_session_port port = oct_session_input(session, i);
    assert_int_equal(port.bytes, inputs->item[i]->bytes);
    if (port.bytes) memcpy(port.data, inputs->item[i]->data, port.bytes);
  }
}

static inline exec_tensors exec_outputs(const oct_session *session) {
  exec_tensors t = {.count = oct_session_outputs(session)};
  for (size_t i = 0; i < t.count; i++) {
    oct_session_port port = oct_session_output(session, i);
    check(oct_tensor_create(ctx, port.value->dtype, &port.value->shape, &t.item[i]));
    assert_int_equal(t.item[i]->bytes, port.bytes);
    if (port.bytes) memcpy(t.item[i]->data, port.data, port.bytes);
  }
  return t;
}

static inline exec_tensors exec_run(const oct_graph *graph, exec_form form, const exec_tensors *inputs) {
  oct_session *session = exec_session(graph, form, inputs);
  exec_fill(session, inputs);
  check(oct_session_run(session));
  exec_tensors t = exec_outputs(session);
  oct_session_destroy(session);
  ctx->threads = 1;
  return t;
}

/* ---- Comparing ---- */

static inline bool exec_same_bytes(const exec_tensors *a, const exec_tensors *b) {
  for (size_t i = 0; i < a->count; i++)
    if (a->item[i]->bytes != b->item[i]->bytes || (a->item[i]->bytes && memcmp(a->item[i]->data, b->item[i]->data, a->item[i]->bytes) != 0))
      return false;
  return a->count == b->count;
}

/* `step` 0: floats agree to 1e-5 of the largest value; negative: to that share of it. Else the size of a quantization step: every element is within one, and about one in fifty at most
 * (a tie that float32 sums in another order resolve differently) is off at all. */
static inline bool exec_close(const exec_tensors *got, const exec_tensors *want, double step) {
  if (got->count != want->count) return false;
  for (size_t i = 0; i < got->count; i++) {
    const oct_tensor *g = got->item[i], *w = want->item[i];
    int64_t n = oct_shape_count(&w->shape), off = 0;
    double largest = 1e-6, share = step < 0 ? -step : 1e-5;
    if (g->dtype != w->dtype || !oct_shape_equal(&g->shape, &w->shape)) {
      print_error("output %zu has another type or shape\n", i);
      return false;
    }
    for (int64_t k = 0; k < n; k++) largest = fmax(largest, fabs(oct_get_f64(w->data, w->dtype, k)));
    for (int64_t k = 0; k < n; k++) {
      double d = fabs(oct_get_f64(g->data, g->dtype, k) - oct_get_f64(w->data, w->dtype, k));
      off += d > share * largest;
      if (d <= (step > 0 ? 1.01 * step : share * largest) && off <= (step > 0 ? 1 + n / 50 : 0)) continue;
      print_error("output %zu element %lld is %g, expected %g (%lld of %lld off)\n", i, (long long)k, oct_get_f64(g->data, g->dtype, k),
                  oct_get_f64(w->data, w->dtype, k), (long long)off, (long long)n);
      return false;
    }
  }
  return true;
}

/* Everything fused, nothing, then all but one kind; exec_fusions() of them. */
static inline unsigned exec_fusion(int i) { return i == 0 ? OCT_FUSE_ALL : i == 1 ? 0 : OCT_FUSE_ALL & ~(1u << (i - 2)); }
static inline int exec_fusions(void) {
  int bits = 0;
  while ((unsigned)OCT_FUSE_ALL >> bits) bits++;
  return 2 + bits;
}

static inline void exec_agrees_as(const char *title, const oct_graph *graph, exec_form form, const exec_tensors *inputs,
                                  const exec_tensors *want, double step) {
  exec_tensors got = exec_run(graph, form, inputs);
  if (!exec_close(&got, want, step)) {
    print_error("%s, batch %lld, fusion %u, %d threads, chunk %lld\n", title,
                inputs->count && inputs->item[0]->shape.rank ? (long long)inputs->item[0]->shape.dim[0] : 0, form.fuse, form.threads,
                (long long)form.chunk);
    fail();
  }
  exec_free(&got);
}

/* The graph gives what the references give: for batches, whole and in pieces, with each kind of fusion off, with one and three threads. */
static inline void exec_agrees(const char *title, const char *text, double step) {
  static const int64_t batches[] = {1, 2, 3, 5};
  oct_graph *graph = exec_parse(text);
  bool open = false;
  for (size_t i = 0; i < graph->n_inputs; i++) open = open || !oct_shape_known(&graph->inputs[i]->shape);
  for (size_t b = 0; b < (open ? 4 : 1); b++) {
    exec_tensors inputs = exec_inputs(graph, batches[b]), want = exec_expected(graph, &inputs);
    for (int f = 0; f < exec_fusions(); f++)
      exec_agrees_as(title, graph, (exec_form){.fuse = exec_fusion(f), .threads = f == 0 && b == 1 ? 3 : 1}, &inputs, &want, step);
    for (int64_t chunk = 1; chunk <= 5; chunk += chunk == 2 ? 3 : 1)
      exec_agrees_as(title, graph, (exec_form){.fuse = OCT_FUSE_ALL, .chunk = chunk}, &inputs, &want, step);
    exec_free(&inputs);
    exec_free(&want);
  }
  oct_graph_destroy(graph);
}

#endif
