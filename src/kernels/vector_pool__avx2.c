/* Pooling, AVX2. See vector_pool_simd.h.
 * SPDX-License-Identifier: MIT */
#include <immintrin.h>
#include <string.h>

#include "kernels/vector_pool.h"

#define BYTES 32
#define LANES 8
#define B __m256i
#define V __m256
#define I __m256i
#define B_ZERO() _mm256_setzero_si256()
#define B_LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define B_MAX(a, b) _mm256_max_epu8(a, b)
#define B_STORE(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define B_STORE_PART(p, v, n) store_bytes(p, v, n)
#define V_SET1(x) _mm256_set1_ps(x)
#define V_LOAD(p) _mm256_loadu_ps(p)
#define V_MAX(a, b) _mm256_max_ps(a, b)
#define V_ADD(a, b) _mm256_add_ps(a, b)
#define V_DIV(a, b) _mm256_div_ps(a, b)
#define V_STORE_PART(p, v, n) store_floats(p, v, n)
#define I_ZERO() _mm256_setzero_si256()
#define I_LOAD_U8(p) _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p)))
#define I_ADD(a, b) _mm256_add_epi32(a, b)

static inline void store_narrow(uint8_t *p, __m128i v, int64_t n) {
  if (n == 16) {
    _mm_storeu_si128((__m128i *)p, v);
  } else if (n == 8) {
    _mm_storel_epi64((__m128i *)p, v);
  } else {
    uint8_t bytes[16];
    _mm_storeu_si128((__m128i *)bytes, v);
    memcpy(p, bytes, (size_t)n);
  }
}

static inline void store_bytes(uint8_t *p, __m256i v, int64_t n) {
  if (n == 32) {
    _mm256_storeu_si256((__m256i *)p, v);
  } else if (n <= 16) {
    store_narrow(p, _mm256_castsi256_si128(v), n);
  } else {
    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(v));
    store_narrow(p + 16, _mm256_extracti128_si256(v, 1), n - 16);
  }
}

static inline void store_floats(float *p, __m256 v, int64_t n) {
  if (n == 8) _mm256_storeu_ps(p, v);
  else _mm256_maskstore_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)), v);
}

typedef struct requantize_constants {
  __m256i zero, out_zero;
  __m256 scale, low, high;
} requantize_constants;

static inline requantize_constants requantize_constants_make(const oct_pool_args *a, const oct_pool_window *w) {
  return (requantize_constants){.zero = _mm256_set1_epi32((int32_t)((uint32_t)(w->rows * w->columns) * (uint32_t)a->in_zero_point)),
                                .out_zero = _mm256_set1_epi32(a->out_zero_point),
                                .scale = _mm256_set1_ps(w->scale),
                                .low = _mm256_set1_ps((float)(a->low - a->out_zero_point)),
                                .high = _mm256_set1_ps((float)(a->high - a->out_zero_point))};
}

static inline void store_requantized(uint8_t *p, __m256i sum, const requantize_constants *r, int64_t n) {
  __m256 t = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(sum, r->zero)), r->scale);
  t = _mm256_min_ps(r->high, _mm256_max_ps(r->low, t));
  __m256i q = _mm256_add_epi32(_mm256_cvtps_epi32(t), r->out_zero);
  __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
  store_narrow(p, _mm_packus_epi16(words, words), n);
}

#include "kernels/vector_pool_simd.h"

void oct_max_pool_u8__avx2(const oct_pool_args *args, size_t begin, size_t end) {
  if (args->shape.channels <= 16) oct_pool_rows(args, 1, begin, end, max_u8_narrow, NULL);
  else oct_pool_rows(args, 1, begin, end, max_u8, max_u8_run);
}
void oct_max_pool_f32__avx2(const oct_pool_args *args, size_t begin, size_t end) { oct_pool_rows(args, 4, begin, end, max_f32, NULL); }
void oct_average_pool_u8__avx2(const oct_pool_args *args, size_t begin, size_t end) {
  oct_pool_rows(args, 1, begin, end, average_u8, NULL);
}
void oct_average_pool_f32__avx2(const oct_pool_args *args, size_t begin, size_t end) {
  oct_pool_rows(args, 4, begin, end, average_f32, NULL);
}
