/* Running a graph while looking at values inside it: see probe.h.
 * SPDX-License-Identifier: MIT */
#include "quantize/probe.h"

#include <math.h>
#include <string.h>

#define KEPT_SESSIONS 2 /* a full piece and a remainder */
#define PIECE_BYTES ((size_t)32 << 20)
#define LARGEST_PIECE 256

typedef struct kept_session {
  oct_session *session;
  oct_named_shape *shapes;
} kept_session;

struct oct_probe {
  octet_context *ctx;
  oct_graph *graph; /* a copy with the probed values as outputs */
  size_t n_probed, n_outputs, n_inputs;
  size_t *output_of; /* by probed value: index among the graph's outputs, or SIZE_MAX */
  oct_probed_value *values;
  oct_packed_cache *cache;
  kept_session kept[KEPT_SESSIONS];
  oct_named_shape *sample_shapes;
  int last;
  size_t sample_bytes; /* of the probed values, for one sample */
  oct_watch watch;     /* without functions: values are looked at after the run */
};

/* ---- Making ------------------------------------------------------------------------------------------------------------ */

static octet_status add_output(oct_probe *p, size_t i, const char *name) {
  oct_value *v = oct_graph_find(p->graph, name);
  p->values[i].name = oct_region_strdup(p->ctx, &p->graph->region, name);
  p->output_of[i] = SIZE_MAX;
  if (!p->values[i].name) return OCTET_OUT_OF_MEMORY;
  if (!v || v->dtype != OCT_F32) return OCTET_OK;
  size_t bytes = 4;
  for (int d = 0; v->has_shape && d < v->shape.rank; d++) bytes *= d == 0 || v->shape.dim[d] < 1 ? 1 : (size_t)v->shape.dim[d];
  p->sample_bytes += bytes;
  for (size_t k = 0; k < p->graph->n_outputs; k++)
    if (p->graph->outputs[k] == v) p->output_of[i] = k;
  if (p->output_of[i] != SIZE_MAX) return OCTET_OK;
  p->output_of[i] = p->graph->n_outputs;
  return oct_graph_output(p->ctx, p->graph, v);
}

static octet_status make(oct_probe *p, const oct_graph *graph, const char *const *names, size_t count) {
  OCT_TRY(oct_graph_copy(p->ctx, graph, &p->graph));
  OCT_TRY(oct_packed_create(p->ctx, &p->cache));
  p->n_probed = count;
  if (p->watch.first) p->graph->n_outputs = 0;
  p->n_outputs = p->graph->n_outputs;
  p->n_inputs = p->graph->n_inputs;
  p->values = oct_alloc(p->ctx, count + p->n_outputs + 1, sizeof *p->values);
  p->output_of = oct_alloc(p->ctx, count + 1, sizeof *p->output_of);
  if (!p->values || !p->output_of) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < count; i++) {
    OCT_TRY(add_output(p, i, names[i]));
    if (p->watch.first && p->output_of[i] != i) return oct_fail(p->ctx, OCTET_GRAPH, "value \"%s\" cannot be watched", names[i]);
  }
  for (size_t i = 0; i < p->n_outputs; i++) p->values[count + i].name = p->graph->outputs[i]->name;
  p->sample_shapes = oct_alloc(p->ctx, p->n_inputs + 1, sizeof *p->sample_shapes);
  if (!p->sample_shapes) return OCTET_OUT_OF_MEMORY;
  for (int k = 0; k < KEPT_SESSIONS; k++) {
    p->kept[k].shapes = oct_alloc(p->ctx, p->n_inputs + 1, sizeof *p->kept[k].shapes);
    if (!p->kept[k].shapes) return OCTET_OUT_OF_MEMORY;
  }
  return OCTET_OK;
}

octet_status oct_probe_create_watching(octet_context *ctx, const oct_graph *graph, const char *const *names, size_t count,
                                       const oct_watch *watch, oct_probe **out) {
  *out = NULL;
  oct_probe *p = oct_alloc(ctx, 1, sizeof *p);
  if (!p) return OCTET_OUT_OF_MEMORY;
  p->ctx = ctx;
  if (watch) p->watch = *watch;
  octet_status status = make(p, graph, names, count);
  if (status != OCTET_OK) {
    oct_probe_destroy(p);
    return status;
  }
  *out = p;
  return OCTET_OK;
}

octet_status oct_probe_create(octet_context *ctx, const oct_graph *graph, const char *const *names, size_t count, oct_probe **out) {
  return oct_probe_create_watching(ctx, graph, names, count, NULL, out);
}

void oct_probe_destroy(oct_probe *p) {
  if (!p) return;
  for (int k = 0; k < KEPT_SESSIONS; k++) {
    oct_session_destroy(p->kept[k].session);
    oct_free(p->kept[k].shapes);
  }
  oct_packed_release(p->cache);
  oct_free(p->values);
  oct_free(p->output_of);
  oct_free(p->sample_shapes);
  oct_graph_destroy(p->graph);
  oct_free(p);
}

/* ---- Batches ------------------------------------------------------------------------------------------------------------- */

static const oct_tensor *tensor_for(const oct_probe *p, const oct_value *input, const oct_named_tensor *inputs, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (inputs[i].name ? strcmp(inputs[i].name, input->name) == 0 : p->n_inputs == 1) return inputs[i].tensor;
  return NULL;
}

static octet_status check_tensor(oct_probe *p, const oct_value *input, const oct_tensor *t, bool finite) {
  char want[OCT_SHAPE_TEXT], got[OCT_SHAPE_TEXT];
  if (!t) return oct_fail(p->ctx, OCTET_DATA, "the samples have no tensor for input \"%s\"", input->name);
  if (t->dtype != input->dtype)
    return oct_fail(p->ctx, OCTET_DATA, "input \"%s\" takes %s, the samples are %s", input->name, oct_dtype_name(input->dtype),
                    oct_dtype_name(t->dtype));
  bool fits = !input->has_shape || input->shape.rank == t->shape.rank;
  for (int d = 1; input->has_shape && fits && d < t->shape.rank; d++)
    fits = input->shape.dim[d] == OCT_DIM_UNKNOWN || input->shape.dim[d] == t->shape.dim[d];
  if (!fits)
    return oct_fail(p->ctx, OCTET_DATA, "input \"%s\" takes shape %s, the samples are %s", input->name, oct_shape_text(&input->shape, want),
                    oct_shape_text(&t->shape, got));
  int64_t elements = oct_shape_count(&t->shape);
  if (elements < 1)
    return oct_fail(p->ctx, OCTET_DATA, "the samples for input \"%s\" are empty: %s", input->name, oct_shape_text(&t->shape, got));
  for (int64_t i = 0; finite && oct_dtype_is_float(t->dtype) && i < elements; i++) {
    double x = t->dtype == OCT_F32 ? (double)((const float *)t->data)[i] : oct_get_f64(t->data, t->dtype, i);
    if (!isfinite(x))
      return oct_fail(p->ctx, OCTET_DATA, "input \"%s\": the samples hold %s at element %lld", input->name,
                      isnan(x) ? "NaN" : "an infinity", (long long)i);
  }
  return OCTET_OK;
}

/* The declared batch size: that of all inputs, or 0 where it is free. */
static int64_t declared_batch(const oct_probe *p) {
  int64_t batch = -1;
  for (size_t i = 0; i < p->n_inputs; i++) {
    const oct_value *v = p->graph->inputs[i];
    if (!v->has_shape || v->shape.rank < 1 || v->shape.dim[0] == OCT_DIM_UNKNOWN) return 0;
    if (batch >= 0 && v->shape.dim[0] != batch) return 0;
    batch = v->shape.dim[0];
  }
  return batch > 0 ? batch : 0;
}

octet_status oct_probe_batch(oct_probe *p, const oct_named_tensor *inputs, size_t count, bool finite, oct_probe_pieces *out) {
  int64_t common = -1;
  bool same = p->n_inputs > 0, as_declared = true;
  for (size_t i = 0; i < p->n_inputs; i++) {
    const oct_value *v = p->graph->inputs[i];
    const oct_tensor *t = tensor_for(p, v, inputs, count);
    OCT_TRY(check_tensor(p, v, t, finite));
    if (t->shape.rank < 1 || (common >= 0 && t->shape.dim[0] != common)) same = false;
    else common = t->shape.dim[0];
    as_declared = as_declared && v->has_shape && (t->shape.rank < 1 || v->shape.dim[0] == t->shape.dim[0]);
  }
  *out = (oct_probe_pieces){1, 1};
  if (!same) return OCTET_OK;
  out->total = out->piece = (size_t)common;
  int64_t batch = declared_batch(p);
  if (as_declared) return OCTET_OK;
  if (batch > 0) {
    if (batch > common)
      return oct_fail(p->ctx, OCTET_DATA, "the graph takes batches of %lld samples, only %lld are given", (long long)batch,
                      (long long)common);
    out->piece = (size_t)batch;
    return OCTET_OK;
  }
  size_t piece = PIECE_BYTES / (p->sample_bytes + 1);
  piece = piece < 1 ? 1 : piece > LARGEST_PIECE ? LARGEST_PIECE : piece;
  if (piece < out->total) out->piece = piece;
  return OCTET_OK;
}

bool oct_probe_next(const oct_probe_pieces *pieces, size_t *begin, size_t *n) {
  *begin += *n;
  if (*begin >= pieces->total) return false;
  *n = pieces->total - *begin < pieces->piece ? pieces->total - *begin : pieces->piece;
  return true;
}

/* ---- Runs --------------------------------------------------------------------------------------------------------------- */

static bool is_for(const oct_probe *p, const kept_session *k, const oct_named_shape *shapes) {
  if (!k->session) return false;
  for (size_t i = 0; i < p->n_inputs; i++)
    if (!oct_shape_equal(&k->shapes[i].shape, &shapes[i].shape)) return false;
  return true;
}

static octet_status session_for(oct_probe *p, const oct_named_shape *shapes, size_t samples, oct_session **out) {
  for (int k = 0; k < KEPT_SESSIONS; k++) {
    if (!is_for(p, &p->kept[k], shapes)) continue;
    p->last = k;
    *out = p->kept[k].session;
    return OCTET_OK;
  }
  kept_session *slot = &p->kept[p->last = (p->last + 1) % KEPT_SESSIONS];
  oct_session_destroy(slot->session);
  slot->session = NULL;
  oct_session_options options = oct_session_options_default();
  options.shapes = shapes;
  options.n_shapes = p->n_inputs;
  options.cache = p->cache;
  p->watch.samples = samples;
  if (p->watch.first) {
    options.watch = &p->watch;
    options.chunk = INT64_MAX;
    options.fuse_kinds &= ~(unsigned)OCT_FUSE_STRIPS; /* whose inner values are never whole */
  }
  OCT_TRY(oct_session_create(p->ctx, p->graph, &options, &slot->session));
  memcpy(slot->shapes, shapes, p->n_inputs * sizeof *shapes);
  *out = slot->session;
  return OCTET_OK;
}

/* Where the piece would reach past the end of a fixed batch, it starts earlier. */
static octet_status fill_inputs(oct_probe *p, oct_session *s, const oct_named_tensor *inputs, size_t count, const oct_probe_pieces *pieces,
                                size_t begin, size_t n) {
  for (size_t i = 0; i < oct_session_inputs(s); i++) {
    oct_session_port port = oct_session_input(s, i);
    const oct_tensor *t = tensor_for(p, port.value, inputs, count);
    bool cut = pieces->total > 1 && t->shape.rank > 0 && t->shape.dim[0] == (int64_t)pieces->total;
    size_t from = cut ? t->bytes / pieces->total * begin : 0, bytes = cut ? t->bytes / pieces->total * n : t->bytes;
    if (bytes != port.bytes || from + bytes > t->bytes)
      return oct_fail(p->ctx, OCTET_DATA, "input \"%s\" takes %zu bytes, the samples give %zu", port.value->name, port.bytes, bytes);
    memcpy(port.data, (const uint8_t *)t->data + from, bytes);
  }
  return OCTET_OK;
}

static oct_probed_value value_of(const oct_session *s, const char *name, size_t output) {
  oct_probed_value v = {.name = name};
  if (output == SIZE_MAX) return v;
  oct_session_port port = oct_session_output(s, output);
  if (port.value->dtype != OCT_F32) return v;
  v.data = port.data;
  v.elements = port.bytes / sizeof(float);
  v.shape = port.value->shape;
  return v;
}

octet_status oct_probe_run_piece(oct_probe *p, const oct_named_tensor *inputs, size_t count, const oct_probe_pieces *pieces, size_t begin,
                                 size_t n, oct_probe_run *out) {
  oct_named_shape *shapes = oct_alloc(p->ctx, p->n_inputs + 1, sizeof *shapes);
  oct_session *s;
  if (!shapes) return OCTET_OUT_OF_MEMORY;
  size_t length = n;
  if (n < pieces->piece && declared_batch(p) == (int64_t)pieces->piece) length = pieces->piece, begin = pieces->total - length;
  for (size_t i = 0; i < p->n_inputs; i++) {
    shapes[i].name = p->graph->inputs[i]->name;
    shapes[i].shape = tensor_for(p, p->graph->inputs[i], inputs, count)->shape;
    if (pieces->total > 1 && shapes[i].shape.rank > 0 && shapes[i].shape.dim[0] == (int64_t)pieces->total)
      shapes[i].shape.dim[0] = (int64_t)length;
  }
  octet_status status = session_for(p, shapes, length, &s);
  oct_free(shapes);
  if (status != OCTET_OK) return status;
  OCT_TRY(fill_inputs(p, s, inputs, count, pieces, begin, length));
  OCT_TRY(oct_session_run(s));
  for (size_t i = 0; i < p->n_probed && !p->watch.first; i++) p->values[i] = value_of(s, p->values[i].name, p->output_of[i]);
  for (size_t i = 0; i < p->n_outputs; i++) p->values[p->n_probed + i] = value_of(s, p->values[p->n_probed + i].name, i);
  *out = (oct_probe_run){.values = p->values, .count = p->n_probed, .outputs = p->n_outputs, .samples = length, .session = s};
  return OCTET_OK;
}

const oct_named_shape *oct_probe_sample_shapes(oct_probe *p, size_t *count) {
  *count = 0;
  if (!p || !p->kept[p->last].session) return NULL;
  for (size_t i = 0; i < p->n_inputs; i++) {
    p->sample_shapes[i] = p->kept[p->last].shapes[i];
    if (declared_batch(p) == 0 && p->sample_shapes[i].shape.rank > 0) p->sample_shapes[i].shape.dim[0] = 1;
  }
  *count = p->n_inputs;
  return p->sample_shapes;
}
