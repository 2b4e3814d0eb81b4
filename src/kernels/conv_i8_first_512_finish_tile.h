/* The epilogue of first-layer convolution for AVX-512 VNNI. Of WIDTH and VECTORS, which are defined before this is included.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_FIRST_512_FINISH_TILE_H
#define OCT_KERNELS_CONV_I8_FIRST_512_FINISH_TILE_H

/* How accumulators become bytes. POSITIVE: see conv_i8_positive__avx512vnni.h; then they start elsewhere. */
typedef enum finish_kind { CLAMP = OCT_FINISH_CLAMP, SATURATE = OCT_FINISH_SATURATE, PLAIN = OCT_FINISH_PLAIN, POSITIVE } finish_kind;

/* Constants of the epilogue for one panel. */
typedef struct finish finish;

/* Tiles of ROWS pixels, side by side, to bytes at once. */
typedef void (*bytes_fn)(const oct_first_part parts[2], int tiles, const int8_t *weights, const int32_t *bias, const finish *finish,
                         char *out, ptrdiff_t step);

struct finish {
  __m512i multiplier[VECTORS], offset[VECTORS]; /* as lanes are ordered; offset: if POSITIVE */
  oct_quantize512 quantize;
  finish_kind kind;
  __mmask64 mask; /* channels of the panel */
  bool quick;     /* profile onnx to bytes, no residual, no table */
  bool dense;     /* vectors of bytes are whole in memory: all channels of the panel, and pixels side by side */
  bytes_fn bytes; /* or NULL: accumulators go through memory */
};

static inline __attribute__((always_inline)) __m512i quantize(__m512i acc, const finish *f, int vector, finish_kind kind) {
  const __m512i multiplier = f->multiplier[vector % VECTORS];
  if (kind == POSITIVE) return oct_positive_round(acc, multiplier, f->offset[vector % VECTORS]);
  return oct_quantize_ps512(acc, _mm512_castsi512_ps(multiplier), NULL, &f->quantize, (oct_finish512)kind);
}

/* 64 accumulators to bytes: one pixel of 64 channels, two of 32 or four of 16. `kind` is a constant wherever this is inlined. */
static inline __attribute__((always_inline)) __m512i finish_64(__m512i a, __m512i b, __m512i c, __m512i d, const finish *f,
                                                               finish_kind kind) {
  const oct_finish512 packing = kind == POSITIVE ? OCT_FINISH_PLAIN : (oct_finish512)kind;
  a = quantize(a, f, 0, kind), b = quantize(b, f, 1, kind), c = quantize(c, f, 2, kind), d = quantize(d, f, 3, kind);
  return VECTORS == 4 ? oct_pack_lanes512(a, b, c, d, &f->quantize, packing) : oct_pack_vectors512(a, b, c, d, &f->quantize, packing);
}

/* The first `count` pixels of x, which holds all channels of each. */
static inline __attribute__((always_inline)) void finish_store(char *out, ptrdiff_t step, __m512i x, int count, const finish *f) {
  if (f->dense && count * VECTORS >= 4) {
    _mm512_storeu_si512(out, x);
    return;
  }
  if (VECTORS == 4) _mm512_mask_storeu_epi8(out, f->mask, x);
  if (VECTORS == 2) {
    _mm256_mask_storeu_epi8(out, (__mmask32)f->mask, _mm512_castsi512_si256(x));
    if (count > 1) _mm256_mask_storeu_epi8(out + step, (__mmask32)f->mask, _mm512_extracti64x4_epi64(x, 1));
  }
  if (VECTORS == 1) {
    _mm_mask_storeu_epi8(out, (__mmask16)f->mask, _mm512_castsi512_si128(x));
    if (count > 1) _mm_mask_storeu_epi8(out + step, (__mmask16)f->mask, _mm512_extracti32x4_epi32(x, 1));
    if (count > 2) _mm_mask_storeu_epi8(out + 2 * step, (__mmask16)f->mask, _mm512_extracti32x4_epi32(x, 2));
    if (count > 3) _mm_mask_storeu_epi8(out + 3 * step, (__mmask16)f->mask, _mm512_extracti32x4_epi32(x, 3));
  }
}

#endif
