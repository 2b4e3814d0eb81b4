/* Choosing a kernel: the allowed row with the highest preference whose predicate accepts the shape. Rows come from the
 * tables that the build collects; ties go to the row that the table lists first.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"

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

static const char *i8_refusal(uint32_t isa_mask, const oct_conv_shape *shape, const int8_t *weights, const int32_t *bias,
                              const oct_conv_i8_kernel *k) {
  const char *reason = isa_refusal(isa_mask, k->isa);
  if (!reason && k->reject) reason = k->reject(shape);
  if (reason || !k->reject_weights) return reason;
  return weights ? k->reject_weights(shape, weights, bias) : "exact only for some weights, and these are not known";
}

static const char *f32_refusal(uint32_t isa_mask, const oct_conv_shape *shape, const oct_conv_f32_kernel *k) {
  const char *reason = isa_refusal(isa_mask, k->isa);
  if (reason) return reason;
  if ((isa_mask & OCT_EXACT_FLOAT) && k->approximate) return "exact float is asked for";
  return k->reject ? k->reject(shape) : NULL;
}

/* The body of a choice among the rows k of a table; REFUSAL says why k cannot be chosen, or NULL. Two passes: the second reports what
 * was better than the choice of the first. */
#define SELECT(row, table, REFUSAL)                                           \
  const row *best = NULL;                                                     \
  for (const row *const *k_ = table; *k_; k_++) {                             \
    const row *k = *k_;                                                       \
    if ((!best || k->preference > best->preference) && !(REFUSAL)) best = k;  \
  }                                                                           \
  if (reasons && size) reasons[0] = 0;                                        \
  for (const row *const *k_ = table; reasons && *k_; k_++) {                  \
    const row *k = *k_;                                                       \
    bool better = !best || k->preference > best->preference;                  \
    const char *reason = better ? (REFUSAL) : NULL;                           \
    if (reason) reasons_add(reasons, size, k->name, reason);                  \
  }                                                                           \
  return best

const oct_conv_i8_kernel *oct_conv_i8_select_for(uint32_t isa_mask, const oct_conv_shape *shape, const int8_t *weights, const int32_t *bias,
                                                 char *reasons, size_t size) {
  SELECT(oct_conv_i8_kernel, oct_conv_i8_kernels, i8_refusal(isa_mask, shape, weights, bias, k));
}

const oct_conv_i8_kernel *oct_conv_i8_select(uint32_t isa_mask, const oct_conv_shape *shape, char *reasons, size_t size) {
  return oct_conv_i8_select_for(isa_mask, shape, NULL, NULL, reasons, size);
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
