/* What the quantization tests share: graphs from text with random weights, samples, conversion, runs.
 * Each test program has its own copy of everything.
 * SPDX-License-Identifier: MIT */
#ifndef QUANTIZE_CHECKS_H
#define QUANTIZE_CHECKS_H

#include "context_checks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/session.h"
#include "ir/text.h"
#include "quantize/quantize.h"

static uint64_t random_state;
static oct_bundle weights; /* what the graphs' weights file holds */

static int setup(void **state) {
  random_state = 42;
  weights = (oct_bundle){0};
  return context_create(state);
}

static int teardown(void **state) {
  (void)state;
  oct_bundle_free(&weights);
  oct_context_destroy(ctx);
  return 0;
}

#define must(expression) must_at(expression, __LINE__)
static inline void must_at(octet_status status, int line) {
  if (status != OCTET_OK) fail_msg("line %d: %s", line, ctx->message);
}

/* Even over [low, high). */
static inline float even(float low, float high) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return low + (high - low) * (float)(random_state >> 40) * 0x1p-24f;
}

static inline oct_tensor *random_tensor(oct_shape shape, float low, float high) {
  oct_tensor *t;
  must(oct_tensor_create(ctx, OCT_F32, &shape, &t));
  for (int64_t i = 0; i < oct_shape_count(&shape); i++) ((float *)t->data)[i] = even(low, high);
  return t;
}

/* Weights of a name: random in [-reach, reach); returns the data for changes. */
static inline float *weight(const char *name, oct_shape shape, float reach) {
  oct_tensor *t = random_tensor(shape, -reach, reach);
  must(oct_bundle_add(ctx, &weights, name, t, NULL));
  return t->data;
}

static inline octet_status load_weights(octet_context *c, void *user, const char *file, oct_bundle *out) {
  (void)user, (void)file;
  *out = (oct_bundle){0};
  for (size_t i = 0; i < weights.count; i++) {
    octet_status status = oct_bundle_add(c, out, weights.items[i].name, oct_tensor_retain(weights.items[i].tensor), NULL);
    if (status != OCTET_OK) return status;
  }
  return OCTET_OK;
}

/* Lines after the head; "weights" is written where there are any. */
static inline oct_graph *graph_of(const char *body) {
  oct_strbuf text = oct_strbuf_make(ctx);
  oct_strbuf_printf(&text, "octet 1\ngraph test\n%s%s", weights.count ? "weights \"w.npz\"\n" : "", body);
  oct_graph *g;
  must(oct_text_parse(ctx, text.text, text.length, load_weights, NULL, &g));
  oct_strbuf_free(&text);
  return g;
}

/* One batch for the graph's only input, given once. */
typedef struct one_batch {
  oct_tensor *tensor;
  oct_named_tensor named;
  size_t times; /* how often it is given; 0: never */
} one_batch;

static inline one_batch batch_of(oct_tensor *t) { return (one_batch){.tensor = t, .times = 1}; }

static inline octet_status next_batch(octet_context *c, void *user, size_t index, const oct_named_tensor **inputs, size_t *count) {
  (void)c;
  one_batch *b = user;
  b->named = (oct_named_tensor){.tensor = b->tensor};
  *inputs = &b->named;
  *count = index < b->times ? 1 : 0;
  return OCTET_OK;
}

static inline oct_graph *quantized(const oct_graph *g, const oct_quantize_options *options, oct_tensor *samples,
                                   oct_quantize_report *report) {
  oct_quantize_options defaults = oct_quantize_options_default();
  one_batch b = batch_of(samples);
  oct_graph *q;
  must(oct_quantize_graph(ctx, g, options ? options : &defaults, next_batch, &b, &q, report));
  return q;
}

/* Output `index` of a run on one tensor; oct_free() it. */
static inline float *run_on(const oct_graph *g, const oct_tensor *in, size_t index, size_t *count) {
  oct_session_options o = oct_session_options_default();
  oct_named_shape shape = {g->inputs[0]->name, in->shape};
  o.shapes = &shape;
  o.n_shapes = 1;
  oct_session *s;
  must(oct_session_create(ctx, g, &o, &s));
  assert_int_equal(oct_session_input(s, 0).bytes, in->bytes);
  memcpy(oct_session_input(s, 0).data, in->data, in->bytes);
  must(oct_session_run(s));
  oct_session_port port = oct_session_output(s, index);
  *count = (size_t)oct_shape_count(&port.value->shape);
  float *out = oct_alloc(ctx, *count + 1, sizeof *out);
  assert_non_null(out);
  for (size_t i = 0; i < *count; i++) out[i] = (float)oct_get_f64(port.data, port.value->dtype, (int64_t)i);
  oct_session_destroy(s);
  return out;
}

static inline double sqnr(const float *reference, const float *value, size_t n) {
  double signal = 0, noise = 0;
  for (size_t i = 0; i < n; i++) {
    double d = (double)value[i] - (double)reference[i];
    signal += (double)reference[i] * (double)reference[i], noise += d * d;
  }
  return noise > 0 ? 10 * log10(signal / noise) : INFINITY;
}

/* SQNR of output `index` of two graphs on the same input. */
static inline double agreement(const oct_graph *a, const oct_graph *b, const oct_tensor *in, size_t index) {
  size_t n, m;
  float *x = run_on(a, in, index, &n), *y = run_on(b, in, index, &m);
  assert_int_equal(n, m);
  for (size_t i = 0; i < m; i++) assert_true(isfinite(y[i]));
  double db = sqnr(x, y, n);
  oct_free(x);
  oct_free(y);
  return db;
}

static inline const oct_layer_report *layer_named(const oct_quantize_report *r, const char *name) {
  for (size_t i = 0; i < r->n_layers; i++)
    if (strcmp(r->layers[i].name, name) == 0) return &r->layers[i];
  fail_msg("the report has no layer \"%s\"", name);
  return NULL;
}

static inline void all_layers_are(const oct_quantize_report *r, const char *type) {
  for (size_t i = 0; i < r->n_layers; i++)
    if (strcmp(r->layers[i].type, type) != 0)
      fail_msg("layer \"%s\" (%s) is %s: %s", r->layers[i].name, r->layers[i].op, r->layers[i].type,
               r->layers[i].reason ? r->layers[i].reason : "");
}

static inline bool has_warning(const char *const *list, size_t n, const char *part, const char *other) {
  for (size_t i = 0; i < n; i++)
    if (strstr(list[i], part) && strstr(list[i], other)) return true;
  return false;
}

static inline void is_warned(const oct_quantize_report *r, const char *part, const char *other) {
  if (has_warning(r->warnings, r->n_warnings, part, other)) return;
  for (size_t i = 0; i < r->n_warnings; i++) print_message("warning: %s\n", r->warnings[i]);
  fail_msg("no warning about \"%s\" and \"%s\"", part, other);
}

static inline oct_value *value_named(const oct_graph *g, const char *name) {
  oct_value *v = oct_graph_find(g, name);
  if (!v) fail_msg("the graph has no value \"%s\"", name);
  return v;
}

#endif
