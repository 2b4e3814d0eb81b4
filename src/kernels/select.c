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

/* Two passes: the second reports what was better than the choice of the first. */
#define NEVER(row) false
#define IS_APPROXIMATE(row) (row)->approximate
#define DEFINE_SELECT(function, row, table, is_approximate)                                                      \
  static const char *function##_refusal(uint32_t isa_mask, const oct_conv_shape *shape, const row *k) {          \
    if (k->isa != OCT_ISA_SCALAR && !oct_isa_allowed(isa_mask, k->isa)) return isa_reason(k->isa);               \
    if ((isa_mask & OCT_EXACT_FLOAT) && is_approximate(k)) return "exact float is asked for";                    \
    return k->reject ? k->reject(shape) : NULL;                                                                  \
  }                                                                                                              \
  const row *function(uint32_t isa_mask, const oct_conv_shape *shape, char *reasons, size_t size) {              \
    const row *best = NULL;                                                                                      \
    for (const row *const *k = table; *k; k++)                                                                   \
      if ((!best || (*k)->preference > best->preference) && !function##_refusal(isa_mask, shape, *k)) best = *k; \
    if (reasons && size) reasons[0] = 0;                                                                         \
    for (const row *const *k = table; *k; k++) {                                                                 \
      if (best && (*k)->preference <= best->preference) continue;                                                \
      const char *reason = function##_refusal(isa_mask, shape, *k);                                              \
      if (reason) reasons_add(reasons, size, (*k)->name, reason);                                                \
    }                                                                                                            \
    return best;                                                                                                 \
  }

DEFINE_SELECT(oct_conv_i8_select, oct_conv_i8_kernel, oct_conv_i8_kernels, NEVER)
DEFINE_SELECT(oct_conv_f32_select, oct_conv_f32_kernel, oct_conv_f32_kernels, IS_APPROXIMATE)

const oct_vector_kernels *oct_vector_select(uint32_t isa_mask) {
  const oct_vector_kernels *best = NULL;
  for (const oct_vector_kernels *const *k = oct_vector_kernel_rows; *k; k++) {
    bool allowed = (*k)->isa == OCT_ISA_SCALAR || oct_isa_allowed(isa_mask, (*k)->isa);
    if (allowed && (!best || (*k)->isa > best->isa)) best = *k;
  }
  return best;
}
