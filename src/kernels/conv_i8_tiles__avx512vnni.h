/* The AVX-512 VNNI tiles of direct convolution, one per file, and the parts that their rows share. A shape's last panel
 * may be narrower than the rest, so a wide row uses the narrow tiles too.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_TILES_AVX512VNNI_H
#define OCT_KERNELS_CONV_I8_TILES_AVX512VNNI_H

#include "kernels/epilogue_i8__avx512.h"

extern const oct_direct_tile oct_conv_i8_tile_10x16__avx512vnni, oct_conv_i8_tile_10x32__avx512vnni, oct_conv_i8_tile_8x48__avx512vnni,
    oct_conv_i8_tile_6x64__avx512vnni;

/* In conv_i8_direct_6x64__avx512vnni.c. */
size_t oct_conv_i8_direct_packed_bytes__avx512vnni(const oct_conv_shape *shape);
void oct_conv_i8_direct_pack__avx512vnni(const oct_conv_shape *shape, const int8_t *weights, void *packed);
size_t oct_conv_i8_direct_units__avx512vnni(const oct_conv_shape *shape);
void oct_conv_i8_direct_run__avx512vnni(const oct_conv_i8_args *args, size_t begin, size_t end, void *workspace);

/* vpdpbusd, never the saturating form: partial sums may wrap. */
static inline __m512i oct_dot512(__m512i acc, __m512i x, __m512i w) { return _mm512_dpbusd_epi32(acc, x, w); }

/* An accumulator that becomes floats: as __m512i, whose elements have 64 bits, gcc 12 copies it from one view to the other at every step. */
typedef int32_t oct_acc512 __attribute__((vector_size(64)));

static inline oct_acc512 oct_dot_acc512(oct_acc512 c, __m512i x, __m512i w) { return (oct_acc512)_mm512_dpbusd_epi32((__m512i)c, x, w); }

static inline __m512i oct_broadcast4(const uint8_t *p) {
  int32_t word;
  memcpy(&word, p, 4);
  return _mm512_set1_epi32(word);
}

#endif
