/* Choosing a kernel: the allowed row with the highest preference whose predicate accepts the shape. Rows come from the
 * tables that the build collects; ties go to the row that the table lists first.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "kernels/conv_i8_winograd.h"

static void reasons_add(char *reasons, size_t size, const char *name, const char *reason) {
  if (!reasons || !size) return;
  size_t used = strlen(reasons);
  if (used + 1 >= size) return;
  snprintf(reasons + used, size - used, "%s%s: %s", used ? "; " : "", name, reason);
}

/* The instruction sets' own reasons: a table, so that no text is made up at run time. */
static const char *isa_reason(oct_isa isa) {
  static const char *const reasons[OCT_ISA_COUNT] = {
#define X(name, text) "needs " text ", which this machine does not have or OCTET_ISA excludes",
      OCT_ISA_LIST(X)
#undef X
  };
  return reasons[isa];
}

static const char *isa_refusal(uint32_t isa_mask, oct_isa isa) {
  return isa != OCT_ISA_SCALAR && !oct_isa_allowed(isa_mask, isa) ? isa_reason(isa) : NULL;
}

/* All rows ask the same question of the weights (kernels.h), and the answer takes a walk over all of them: it is kept. */
typedef struct weights_answer {
  bool asked;
  const char *reason;
} weights_answer;

static const char *weights_refusal(weights_answer *answer, const oct_conv_shape *shape, const int8_t *weights, const int32_t *bias,
                                   const oct_conv_i8_kernel *k) {
  if (!k->reject_weights) return NULL;
  if (!weights) return "exact only for some weights, and these are not known";
  if (!answer->asked) *answer = (weights_answer){true, k->reject_weights(shape, weights, bias)};
  return answer->reason;
}

static const char *i8_refusal(uint32_t isa_mask, const oct_conv_shape *shape, const int8_t *weights, const int32_t *bias,
                              weights_answer *answer, const oct_conv_i8_kernel *k) {
  const char *reason = isa_refusal(isa_mask, k->isa);
  if (!reason && k->reject) reason = k->reject(shape);
  return reason ? reason : weights_refusal(answer, shape, weights, bias, k);
}

static bool f32_grows(const oct_conv_shape *s, const oct_conv_f32_kernel *k) {
  if (k->reject && k->reject(s)) return false;
  size_t weights = (size_t)(s->out_channels * (s->channels / s->groups) * s->kernel_h * s->kernel_w) * sizeof(float);
  return k->packed_bytes(s) > weights + weights / 2;
}

static const char *f32_refusal(uint32_t isa_mask, const oct_conv_shape *shape, const oct_conv_f32_kernel *k) {
  const char *reason = isa_refusal(isa_mask, k->isa);
  if (reason) return reason;
  if ((isa_mask & OCT_EXACT_FLOAT) && k->approximate) return "exact float is asked for";
  if ((isa_mask & OCT_FEW_BYTES) && k->approximate && f32_grows(shape, k)) return "little memory is asked for";
  return k->reject ? k->reject(shape) : NULL;
}

/* The body of a choice among the rows k of a table; REFUSAL says why k cannot be chosen, or NULL. Two passes: the second reports what
 * was better than the choice of the first. */
#define SELECT(row, table, REFUSAL)                                          \
  const row *best = NULL;                                                    \
  for (const row *const *k_ = table; *k_; k_++) {                            \
    const row *k = *k_;                                                      \
    if ((!best || k->preference > best->preference) && !(REFUSAL)) best = k; \
  }                                                                          \
  if (reasons && size) reasons[0] = 0;                                       \
  for (const row *const *k_ = table; reasons && *k_; k_++) {                 \
    const row *k = *k_;                                                      \
    bool better = !best || k->preference > best->preference;                 \
    const char *reason = better ? (REFUSAL) : NULL;                          \
    if (reason) reasons_add(reasons, size, k->name, reason);                 \
  }                                                                          \
  return best

const oct_conv_i8_kernel *oct_conv_i8_select_for(uint32_t isa_mask, const oct_conv_shape *shape, const int8_t *weights, const int32_t *bias,
                                                 char *reasons, size_t size) {
  weights_answer answer = {false, NULL};
  SELECT(oct_conv_i8_kernel, oct_conv_i8_kernels, i8_refusal(isa_mask, shape, weights, bias, &answer, k));
}

const oct_conv_i8_kernel *oct_conv_i8_select(uint32_t isa_mask, const oct_conv_shape *shape, char *reasons, size_t size) {
  return oct_conv_i8_select_for(isa_mask, shape, NULL, NULL, reasons, size);
}

/* ---- Candidates ---- */

#define CLEARLY 1.2  /* times as long by estimate: then the estimate overrules the rows' preferences */
#define HOPELESS 2.5 /* times as long as the best one by estimate: not worth being timed */

/* Whether the row is made for the problem at all: Winograd's rows reject sizes for which they are slower, too. */
static bool i8_fits(uint32_t isa_mask, const oct_conv_shape *shape, const oct_conv_i8_kernel *k) {
  if (isa_refusal(isa_mask, k->isa)) return false;
  if (k->reject_weights) return !oct_winograd_reject(shape);
  return !k->reject || !k->reject(shape);
}

/* What has no estimate comes last, neither overrules nor is overruled. */
static double rank(const oct_candidate *c) { return c->estimate > 0 ? c->estimate : HUGE_VAL; }

/* Puts c among list[1..n) by estimate; a full list loses its last. */
static size_t insert(oct_candidate list[OCT_MAX_CANDIDATES], size_t n, oct_candidate c) {
  size_t at = n;
  while (at > 1 && rank(&list[at - 1]) > rank(&c)) at--;
  if (at == OCT_MAX_CANDIDATES) return n;
  if (n < OCT_MAX_CANDIDATES) n++;
  for (size_t i = n - 1; i > at; i--) list[i] = list[i - 1];
  list[at] = c;
  return n;
}

/* The second one takes the first one's place, which goes where its estimate belongs. */
static void prefer_second(oct_candidate list[OCT_MAX_CANDIDATES], size_t n) {
  oct_candidate first = list[0];
  list[0] = list[1];
  size_t at = 1;
  for (; at + 1 < n && rank(&list[at + 1]) < rank(&first); at++) list[at] = list[at + 1];
  list[at] = first;
}

/* Rows with one function to run are one way of doing it. */
static bool listed(const oct_candidate *list, size_t n, const oct_conv_i8_kernel *k) {
  for (size_t i = 0; i < n; i++)
    if (list[i].kernel->run == k->run) return true;
  return false;
}

size_t oct_conv_i8_candidates(uint32_t isa_mask, const oct_conv_shape *shape, const int8_t *weights, const int32_t *bias,
                              oct_candidate list[OCT_MAX_CANDIDATES], char *reasons, size_t size) {
  weights_answer answer = {false, NULL};
  const oct_conv_i8_kernel *best = NULL;
  if (reasons && size) reasons[0] = 0;
  for (const oct_conv_i8_kernel *const *row = oct_conv_i8_kernels; *row; row++)
    if ((!best || (*row)->preference > best->preference) && !i8_refusal(isa_mask, shape, weights, bias, &answer, *row)) best = *row;
  list[0] = (oct_candidate){best, oct_conv_i8_estimate(best, shape)};
  size_t n = 1;
  for (const oct_conv_i8_kernel *const *row = oct_conv_i8_kernels; *row; row++) {
    const oct_conv_i8_kernel *k = *row;
    if (listed(list, n, k) || !i8_fits(isa_mask, shape, k)) continue;
    const char *reason = weights_refusal(&answer, shape, weights, bias, k);
    if (!reason) n = insert(list, n, (oct_candidate){k, oct_conv_i8_estimate(k, shape)});
    else if (weights && k->preference > best->preference) reasons_add(reasons, size, k->name, reason);
  }
  if (n > 1 && list[0].estimate > CLEARLY * rank(&list[1])) prefer_second(list, n);
  double least = n > 1 && rank(&list[1]) < rank(&list[0]) ? rank(&list[1]) : rank(&list[0]);
  while (n > 1 && list[n - 1].estimate > HOPELESS * least) n--;
  return n;
}

const oct_conv_f32_kernel *oct_conv_f32_select(uint32_t isa_mask, const oct_conv_shape *shape, char *reasons, size_t size) {
  SELECT(oct_conv_f32_kernel, oct_conv_f32_kernels, f32_refusal(isa_mask, shape, k));
}

const oct_vector_kernels *oct_vector_select(uint32_t isa_mask) {
  const oct_vector_kernels *best = NULL;
  for (const oct_vector_kernels *const *k = oct_vector_kernel_rows; *k; k++) {
    bool allowed = (*k)->isa == OCT_ISA_SCALAR || oct_isa_allowed(isa_mask, (*k)->isa);
    if (allowed && (!best || (*k)->isa > best->isa)) best = *k;
  }
  return best;
}
