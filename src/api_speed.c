/* Public functions: how fast each layer of a model is in float and quantized, side by side.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "api.h"

#define ROUNDS 5 /* turns of either form: a machine whose speed drifts slows both alike */

/* A layer of one of the two sessions; layers that run as one step in either form are one group. */
typedef struct speed_layer {
  const char *name, *op, *type;
  size_t group; /* index of the group's first layer: the root of a tree until the end */
  double ms[2]; /* float, quantized; of the whole group in its first layer */
  bool root[2]; /* runs a step of its own in this form */
} speed_layer;

struct octet_speed {
  speed_layer *layers;
  size_t n_layers, capacity;
  octet_layer_speed *rows;
  size_t n_rows;
  double total_ms[2];
  octet_session *sessions[2]; /* own the names */
};

/* ---- Layers and groups ---- */

static size_t find(const octet_speed *s, const char *name) {
  for (size_t i = 0; i < s->n_layers; i++)
    if (strcmp(s->layers[i].name, name) == 0) return i;
  return s->n_layers;
}

static octet_status add(octet_context *ctx, octet_speed *s, const octet_layer *l, int form) {
  size_t i = find(s, l->name);
  if (i == s->n_layers) {
    OCT_TRY(oct_grow(ctx, &s->layers, &s->capacity, s->n_layers + 1, sizeof *s->layers));
    s->layers[s->n_layers++] = (speed_layer){.name = l->name, .op = l->op, .group = i};
  }
  s->layers[i].root[form] = !l->fused_into;
  if (form == 1 || !s->layers[i].type) s->layers[i].type = l->type;
  return OCTET_OK;
}

static size_t root(const octet_speed *s, size_t i) {
  while (s->layers[i].group != i) i = s->layers[i].group;
  return i;
}

static void join(octet_speed *s, size_t a, size_t b) {
  a = root(s, a), b = root(s, b);
  if (a < b) s->layers[b].group = a;
  else s->layers[a].group = b;
}

static octet_status collect(octet_context *ctx, octet_speed *s) {
  for (int form = 0; form < 2; form++)
    for (size_t i = 0; i < octet_session_layer_count(s->sessions[form]); i++) {
      octet_layer l = octet_session_layer(s->sessions[form], i);
      OCT_TRY(add(ctx, s, &l, form));
    }
  for (int form = 0; form < 2; form++)
    for (size_t i = 0; i < octet_session_layer_count(s->sessions[form]); i++) {
      octet_layer l = octet_session_layer(s->sessions[form], i);
      size_t into = l.fused_into ? find(s, l.fused_into) : s->n_layers;
      if (into < s->n_layers) join(s, find(s, l.name), into);
    }
  return OCTET_OK;
}

/* ---- Times ---- */

/* The smaller of what was there and the median of one turn, per step. */
static octet_status time_form(octet_speed *s, int form, double seconds, octet_step_timing *steps, double *best) {
  octet_session *session = s->sessions[form];
  OCT_TRY(octet_session_time_steps(session, seconds, steps));
  for (size_t i = 0; i < octet_session_step_count(session); i++)
    if (best[i] < 0 || steps[i].median_ms < best[i]) best[i] = steps[i].median_ms;
  return OCTET_OK;
}

static octet_status time_both(octet_context *ctx, octet_speed *s, double seconds) {
  size_t counts[2] = {octet_session_step_count(s->sessions[0]), octet_session_step_count(s->sessions[1])},
         most = counts[0] > counts[1] ? counts[0] : counts[1];
  octet_step_timing *steps = oct_alloc(ctx, most + 1, sizeof *steps);
  double *best[2] = {oct_alloc(ctx, counts[0] + 1, sizeof(double)), oct_alloc(ctx, counts[1] + 1, sizeof(double))};
  octet_status status = steps && best[0] && best[1] ? OCTET_OK : OCTET_OUT_OF_MEMORY;
  for (int form = 0; form < 2 && status == OCTET_OK; form++)
    for (size_t i = 0; i < counts[form]; i++) best[form][i] = -1;
  for (int round = 0; round < ROUNDS && status == OCTET_OK; round++)
    for (int form = 0; form < 2 && status == OCTET_OK; form++) status = time_form(s, form, seconds / (2 * ROUNDS), steps, best[form]);
  for (int form = 0; form < 2 && status == OCTET_OK; form++)
    for (size_t i = 0; i < counts[form]; i++) {
      size_t layer = find(s, octet_session_step(s->sessions[form], i).layer);
      s->total_ms[form] += best[form][i];
      if (layer < s->n_layers) s->layers[root(s, layer)].ms[form] += best[form][i];
    }
  oct_free(steps);
  oct_free(best[0]);
  oct_free(best[1]);
  return status;
}

/* A difference counts when it is more than what repeated measurements differ by. */
static bool is_slower(const speed_layer *l) { return l->ms[1] > 1.05 * l->ms[0] + 0.0005; }

/* The layer that a group is known by: one that others are fused into. */
static const speed_layer *speaker(const octet_speed *s, size_t group) {
  for (size_t i = group; i < s->n_layers; i++)
    if (root(s, i) == group && s->layers[i].root[0] && s->layers[i].root[1]) return &s->layers[i];
  return &s->layers[group];
}

static octet_status make_rows(octet_context *ctx, octet_speed *s) {
  s->rows = oct_alloc(ctx, s->n_layers + 1, sizeof *s->rows);
  if (!s->rows) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < s->n_layers; i++) {
    const speed_layer *l = &s->layers[i];
    if (l->group != i || (l->ms[0] <= 0 && l->ms[1] <= 0)) continue;
    const speed_layer *named = speaker(s, i);
    s->rows[s->n_rows++] = (octet_layer_speed){.name = named->name,
                                               .op = named->op,
                                               .type = named->type,
                                               .reference_ms = l->ms[0],
                                               .quantized_ms = l->ms[1],
                                               .slower = is_slower(l)};
  }
  return OCTET_OK;
}

octet_status octet_compare_speed(const octet_model *reference, const octet_model *quantized, const octet_session_options *options,
                                 double seconds, octet_speed **out) {
  octet_context *ctx = reference->ctx;
  octet_speed *s = *out = oct_alloc(ctx, 1, sizeof *s);
  if (!s) return OCTET_OUT_OF_MEMORY;
  octet_status status = octet_session_create(reference, options, &s->sessions[0]);
  if (status == OCTET_OK) status = octet_session_create(quantized, options, &s->sessions[1]);
  if (status == OCTET_OK) {
    octet_session_fill_inputs(s->sessions[0]);
    octet_session_fill_inputs(s->sessions[1]);
    status = collect(ctx, s);
  }
  if (status == OCTET_OK) status = time_both(ctx, s, seconds);
  if (status == OCTET_OK) status = make_rows(ctx, s);
  if (status == OCTET_OK) return OCTET_OK;
  octet_speed_destroy(s);
  *out = NULL;
  return status;
}

void octet_speed_destroy(octet_speed *s) {
  if (!s) return;
  octet_session_destroy(s->sessions[0]);
  octet_session_destroy(s->sessions[1]);
  oct_free(s->layers);
  oct_free(s->rows);
  oct_free(s);
}

size_t octet_speed_layer_count(const octet_speed *s) { return s->n_rows; }
octet_layer_speed octet_speed_layer(const octet_speed *s, size_t index) {
  return index < s->n_rows ? s->rows[index] : (octet_layer_speed){0};
}
double octet_speed_reference_ms(const octet_speed *s) { return s->total_ms[0]; }
double octet_speed_quantized_ms(const octet_speed *s) { return s->total_ms[1]; }
