/* What the machine can do at best, to hold measured kernels against: loops of independent products in registers, and loops that only read.
 * One row per instruction set, at the end of its file (peak__<instruction set>.c); exec/peaks.c times them.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_PEAK_H
#define OCT_KERNELS_PEAK_H

#include "base/cpu.h"

/* Operands: any bytes; floats should be small so that sums stay finite. */
#define OCT_PEAK_OPERAND_BYTES 128
/* oct_peak_kernel.read takes a multiple of this many bytes, aligned to 64. */
#define OCT_PEAK_READ_BLOCK 512

/* Each function returns a value that depends on all of its work; sums begin with different values, or the compiler would make one of them all.
 * NULL: a narrower row's is the fastest. */
typedef struct oct_peak_kernel {
  const char *name;
  oct_isa isa;
  /* `rounds` rounds of dot_macs 8-bit multiply-adds into exact 32-bit sums */
  uint32_t (*dot_i8)(size_t rounds, const void *operands);
  size_t dot_macs;
  /* `rounds` rounds of fma_macs float multiply-adds */
  float (*fma_f32)(size_t rounds, const void *operands);
  size_t fma_macs;
  uint64_t (*read)(const void *data, size_t bytes);
} oct_peak_kernel;

/* All rows, ended by NULL. */
extern const oct_peak_kernel *const oct_peak_kernels[];

#endif
