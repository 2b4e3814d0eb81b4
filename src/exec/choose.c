/* Choosing kernels: see choose.h.
 * SPDX-License-Identifier: MIT */
#include "exec/choose.h"

#include <stdio.h>
#include <string.h>

#include "exec/plan.h"

#define KEY_SIZE 160
#define TEXT_SIZE 1024

/* Everything that the time depends on, but for the processor and the kernels, which the log's section names. */
static void make_key(const oct_conv_shape *s, int threads, char key[KEY_SIZE]) {
  snprintf(key, KEY_SIZE, "conv_i8 n%lld %lldx%lldx%lld-%lldx%lldx%lld k%dx%d s%dx%d d%dx%d p%d,%d g%d t%d", (long long)s->batch,
           (long long)s->in_h, (long long)s->in_w, (long long)s->channels, (long long)s->out_h, (long long)s->out_w,
           (long long)s->out_channels, s->kernel_h, s->kernel_w, s->stride_h, s->stride_w, s->dilation_h, s->dilation_w, s->pad_top,
           s->pad_left, s->groups, threads);
}

static size_t fewest_bytes(const oct_choice *c, const oct_conv_shape *shape) {
  size_t best = 0, bytes = c->candidates[0].kernel->packed_bytes(shape);
  for (size_t i = 1; i < c->n_candidates; i++) {
    size_t other = c->candidates[i].kernel->packed_bytes(shape);
    if (other >= bytes - bytes / 8) continue; /* no faster one is given up for a little padding */
    best = i, bytes = other;
  }
  return best;
}

/* The candidate that the log names; n_candidates: none. */
static size_t logged(const oct_choice *c, const oct_tune_log *log) {
  const char *name = oct_tune_log_kernel(log, c->key);
  size_t i = name ? 0 : c->n_candidates;
  while (i < c->n_candidates && strcmp(c->candidates[i].kernel->name, name) != 0) i++;
  return i;
}

/* "timed: A 0.213 ms; B 0.342 ms; refused C: reason", the chosen one first. */
static void describe(const oct_choice *c, const oct_chooser *chooser, bool timed, const char *refused, char text[TEXT_SIZE]) {
  size_t used = (size_t)snprintf(text, TEXT_SIZE, "%s", timed ? "timed" : chooser->small ? "for few bytes, estimated" : "estimated");
  const char *separator = ": ";
  for (size_t i = 0; i <= c->n_candidates; i++) { /* the chosen one, then the others */
    size_t at = i == 0 ? c->chosen : i - 1;
    if (i > 0 && at == c->chosen) continue;
    const oct_candidate *k = &c->candidates[at];
    double ms = timed ? oct_tune_log_time(chooser->log, c->key, k->kernel->name) : k->estimate;
    if (ms <= 0 || used >= TEXT_SIZE) continue;
    used += (size_t)snprintf(text + used, TEXT_SIZE - used, "%s%s %.3g ms", separator, k->kernel->name, ms);
    separator = "; ";
  }
  if (*refused && used < TEXT_SIZE) snprintf(text + used, TEXT_SIZE - used, "; refused %s", refused);
}

octet_status oct_lower_choose_i8(oct_lowering *l, const oct_conv_shape *shape, const int8_t *weights, const int32_t *bias,
                                 const oct_conv_i8_kernel **kernel, char *refused, size_t size) {
  static const oct_chooser by_rule = {.threads = 1};
  oct_plan *plan = l->plan;
  const oct_chooser *chooser = plan->chooser ? plan->chooser : &by_rule;
  char key[KEY_SIZE], text[TEXT_SIZE];
  oct_choice *c = oct_region_alloc(l->ctx, &plan->region, 1, sizeof *c);
  if (!c) return OCTET_OUT_OF_MEMORY;
  make_key(shape, chooser->threads, key);
  c->key = oct_region_strdup(l->ctx, &plan->region, key);
  if (!c->key) return OCTET_OUT_OF_MEMORY;
  c->n_candidates = oct_conv_i8_candidates(l->isa_mask, shape, weights, bias, c->candidates, refused, size);
  size_t from_log = chooser->small || chooser->candidate ? c->n_candidates : logged(c, chooser->log);
  bool timed = from_log < c->n_candidates;
  if (timed) c->chosen = from_log;
  else if (chooser->small) c->chosen = fewest_bytes(c, shape);
  else if (chooser->candidate < c->n_candidates) c->chosen = chooser->candidate;
  describe(c, chooser, timed, refused, text);
  oct_node_report *report = &plan->reports[plan->current->id];
  plan->choice = c;
  report->why = oct_region_strdup(l->ctx, &plan->region, text);
  *kernel = c->candidates[c->chosen].kernel;
  return report->why ? OCTET_OK : OCTET_OUT_OF_MEMORY;
}
