/* Observers at work: extremes of each sample while the value is made, then its counts. Threads see parts of a value; what they add up does not depend on
 * which parts, and the moving average takes the samples in order.
 * SPDX-License-Identifier: MIT */
#include <pthread.h>

#include "quantize/calibration.h"

typedef struct watched {
  oct_observer *observer;
  const char *name;
  oct_extremes *samples;
  size_t bad; /* index of the first value that is not finite, or SIZE_MAX */
  bool bad_is_nan;
} watched;

struct oct_watching {
  octet_context *ctx;
  const oct_observer_settings *settings;
  const oct_vector_kernels *vector;
  watched *values;
  size_t count, capacity; /* of samples */
  oct_extremes *extremes; /* of all values */
  pthread_mutex_t lock;   /* of what threads add to */
};

octet_status oct_watching_create(octet_context *ctx, const oct_observer_settings *settings, oct_observer *const *observers,
                                 const char *const *names, size_t count, oct_watching **out) {
  *out = NULL;
  oct_watching *w = oct_alloc(ctx, 1, sizeof *w);
  if (!w) return OCTET_OUT_OF_MEMORY;
  *w = (oct_watching){.ctx = ctx, .settings = settings, .vector = oct_vector_select(ctx->isa_mask), .count = count};
  w->values = oct_alloc(ctx, count + 1, sizeof *w->values);
  if (!w->values || pthread_mutex_init(&w->lock, NULL) != 0) {
    oct_free(w->values);
    oct_free(w);
    return OCTET_OUT_OF_MEMORY;
  }
  for (size_t i = 0; i < count; i++) w->values[i] = (watched){.observer = observers[i], .name = names[i]};
  *out = w;
  return OCTET_OK;
}

void oct_watching_destroy(oct_watching *w) {
  if (!w) return;
  pthread_mutex_destroy(&w->lock);
  oct_free(w->extremes);
  oct_free(w->values);
  oct_free(w);
}

octet_status oct_watching_begin(oct_watching *w, size_t samples) {
  if (samples > w->capacity) {
    size_t all;
    if (!oct_mul_size(samples, w->count + 1, &all)) return OCTET_OUT_OF_MEMORY;
    oct_extremes *extremes = oct_alloc(w->ctx, all, sizeof *extremes);
    if (!extremes) return OCTET_OUT_OF_MEMORY;
    oct_free(w->extremes);
    w->extremes = extremes;
    w->capacity = samples;
  }
  for (size_t i = 0; i < w->count; i++) {
    w->values[i].samples = w->extremes + i * w->capacity;
    w->values[i].bad = SIZE_MAX;
    for (size_t s = 0; s < w->capacity; s++) w->values[i].samples[s] = OCT_NO_EXTREMES;
  }
  return OCTET_OK;
}

octet_status oct_watching_end(oct_watching *w) {
  for (size_t i = 0; i < w->count; i++)
    if (w->values[i].bad != SIZE_MAX) return oct_observer_refuse(w->ctx, w->values[i].name, w->values[i].bad_is_nan, w->values[i].bad);
  return OCTET_OK;
}

static void find_bad(oct_watching *w, watched *value, const oct_watch_view *view, const oct_watch_piece *p) {
  pthread_mutex_lock(&w->lock);
  for (size_t i = 0; i < p->count; i++) {
    size_t index = isfinite(p->data[i]) ? SIZE_MAX : oct_watch_index(view, p->sample, p->first + i);
    if (index >= value->bad) continue;
    value->bad = index;
    value->bad_is_nan = isnan(p->data[i]);
  }
  pthread_mutex_unlock(&w->lock);
}

static void add_extremes(oct_watching *w, oct_extremes *to, oct_extremes e) {
  pthread_mutex_lock(&w->lock);
  if (e.low < to->low) to->low = e.low;
  if (e.high > to->high) to->high = e.high;
  pthread_mutex_unlock(&w->lock);
}

static void look_for_extremes(void *user, size_t index, const oct_watch_view *view, size_t begin, size_t end) {
  oct_watching *w = user;
  watched *value = &w->values[index];
  oct_extremes e = OCT_NO_EXTREMES;
  for (size_t unit = begin; unit < end; unit++) {
    const oct_watch_piece p = oct_watch_piece_at(view, unit);
    if (!w->vector->extremes_f32(p.count, p.data, &e.low, &e.high)) find_bad(w, value, view, &p);
    if (unit + 1 < end && oct_watch_piece_at(view, unit + 1).sample == p.sample) continue;
    add_extremes(w, &value->samples[p.sample], e);
    e = OCT_NO_EXTREMES;
  }
}

static void make_room(void *user, size_t index, const oct_watch_view *view) {
  oct_watching *w = user;
  watched *value = &w->values[index];
  if (value->bad != SIZE_MAX) return;
  oct_extremes all = OCT_NO_EXTREMES;
  for (size_t s = 0; s < view->samples; s++) {
    oct_extremes e = {value->samples[s].low + 0.0f, value->samples[s].high + 0.0f}; /* one sign of zero, whoever found it */
    oct_observer_average(value->observer, w->settings, e);
    if (e.low < all.low) all.low = e.low;
    if (e.high > all.high) all.high = e.high;
  }
  oct_observer_reach(value->observer, all, view->samples * view->lines * view->line);
}

static void add_counts(oct_watching *w, oct_observer *observer, const oct_observer_counts *counts) {
  pthread_mutex_lock(&w->lock);
  oct_observer_add(observer, counts);
  pthread_mutex_unlock(&w->lock);
}

static void look_for_counts(void *user, size_t index, const oct_watch_view *view, size_t begin, size_t end) {
  oct_watching *w = user;
  const watched *value = &w->values[index];
  if (value->bad != SIZE_MAX) return;
  for (size_t unit = begin; unit < end;) {
    oct_observer_counts counts = {.zeros = 0};
    for (size_t n = 0; unit < end && n < OCT_OBSERVER_MOST - view->piece; unit++) {
      const oct_watch_piece p = oct_watch_piece_at(view, unit);
      oct_observer_count(value->observer, w->vector, p.data, p.count, &counts);
      n += p.count;
    }
    add_counts(w, value->observer, &counts);
  }
}

oct_watch oct_watching_functions(oct_watching *watching) {
  return (oct_watch){.user = watching, .first = look_for_extremes, .between = make_room, .second = look_for_counts};
}
