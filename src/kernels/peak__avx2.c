/* Peaks of AVX2 + FMA. 8-bit products here are exact only through 16 bits: vpmaddwd and an addition, 16 products per pair.
 * SPDX-License-Identifier: MIT */
#include "kernels/peak.h"

#include <immintrin.h>

#define EACH_OF_12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

#define DECLARE_INT(i) __m256i c##i = _mm256_set1_epi32(i);
#define MULTIPLY_INT(i)           \
  __asm__ volatile("" : "+x"(x)); \
  c##i = _mm256_add_epi32(c##i, _mm256_madd_epi16(x, w));
#define SUM_INT(i) sum = _mm256_xor_si256(sum, c##i);

/* The empty assembly keeps the compiler from taking the product, which is always the same, out of the loop. */
static uint32_t dot_i8(size_t rounds, const void *operands) {
  __m256i x = _mm256_loadu_si256(operands);
  const __m256i w = _mm256_loadu_si256((const __m256i *)operands + 1);
  EACH_OF_12(DECLARE_INT)
  for (size_t r = 0; r < rounds; r++) {
    EACH_OF_12(MULTIPLY_INT)
  }
  __m256i sum = _mm256_setzero_si256();
  EACH_OF_12(SUM_INT)
  return (uint32_t)_mm256_extract_epi32(sum, 0);
}

#define DECLARE_FLOAT(i) __m256 c##i = _mm256_set1_ps(i);
#define MULTIPLY_FLOAT(i) c##i = _mm256_fmadd_ps(x, w, c##i);
#define SUM_FLOAT(i) sum = _mm256_add_ps(sum, c##i);

static float fma_f32(size_t rounds, const void *operands) {
  const __m256 x = _mm256_loadu_ps(operands), w = _mm256_loadu_ps((const float *)operands + 8);
  EACH_OF_12(DECLARE_FLOAT)
  for (size_t r = 0; r < rounds; r++) {
    EACH_OF_12(MULTIPLY_FLOAT)
  }
  __m256 sum = _mm256_setzero_ps();
  EACH_OF_12(SUM_FLOAT)
  return _mm256_cvtss_f32(sum);
}

static uint64_t read_all(const void *data, size_t bytes) {
  const __m256i *x = data;
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  for (size_t i = 0; i < bytes / 32; i += 4) {
    a = _mm256_xor_si256(a, _mm256_load_si256(x + i));
    b = _mm256_xor_si256(b, _mm256_load_si256(x + i + 1));
    c = _mm256_xor_si256(c, _mm256_load_si256(x + i + 2));
    d = _mm256_xor_si256(d, _mm256_load_si256(x + i + 3));
  }
  a = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
  return (uint64_t)_mm256_extract_epi64(a, 0) ^ (uint64_t)_mm256_extract_epi64(a, 1) ^ (uint64_t)_mm256_extract_epi64(a, 2) ^
         (uint64_t)_mm256_extract_epi64(a, 3);
}

const oct_peak_kernel oct_peak__avx2 = {
    .name = "peak__avx2",
    .isa = OCT_ISA_AVX2,
    .dot_i8 = dot_i8,
    .dot_macs = 12 * 16,
    .fma_f32 = fma_f32,
    .fma_macs = 12 * 8,
    .read = read_all,
};
