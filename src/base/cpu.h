/* Which instruction sets this machine has, and the cap set by OCTET_ISA.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_BASE_CPU_H
#define OCT_BASE_CPU_H

#include "base/context.h"

/* Ordered from narrow to wide. A cap of X allows X and everything before it that the machine has (some have VNNI, but not VBMI). */
#define OCT_ISA_LIST(X) \
  X(SCALAR, "scalar")   \
  X(AVX2, "avx2") X(AVXVNNI, "avxvnni") X(AVX512, "avx512") X(AVX512VBMI, "avx512vbmi") X(AVX512VNNI, "avx512vnni") X(AMX, "amx")

typedef enum oct_isa {
#define X(name, text) OCT_ISA_##name,
  OCT_ISA_LIST(X)
#undef X
      OCT_ISA_COUNT
} oct_isa;

/* Bit (1 << oct_isa) for each set that this machine has. OCT_ISA_AVX2 means AVX2 + FMA + F16C; OCT_ISA_AVX512 means F, BW, VL, DQ;
 * OCT_ISA_AMX means AMX-TILE and AMX-INT8 with the system's leave for this process to use them, which is asked for here. */
uint32_t oct_isa_detect(void);
/* Mask of the sets up to `name`; false when the name is unknown. */
bool oct_isa_cap(const char *name, uint32_t *mask);
const char *oct_isa_name(oct_isa isa);
/* The processor's own name, or "unknown processor". Returns `text`. */
const char *oct_cpu_name(char text[64]);
static inline bool oct_isa_allowed(uint32_t mask, oct_isa isa) { return (mask >> isa) & 1; }

#endif
