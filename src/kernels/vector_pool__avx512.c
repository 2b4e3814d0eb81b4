/* Pooling, AVX-512. See vector_pool_simd.h.
 * SPDX-License-Identifier: MIT */
#include <immintrin.h>

#include "kernels/vector_pool.h"

#define BYTES 64
#define LANES 16
#define B __m512i
#define V __m512
#define I __m512i
#define B_ZERO() _mm512_setzero_si512()
#define B_LOAD(p) _mm512_loadu_si512(p)
#define B_MAX(a, b) _mm512_max_epu8(a, b)
#define B_STORE(p, v) _mm512_storeu_si512(p, v)
#define B_STORE_PART(p, v, n) _mm512_mask_storeu_epi8(p, ~0ull >> (64 - (n)), v)
#define V_SET1(x) _mm512_set1_ps(x)
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_MAX(a, b) _mm512_max_ps(a, b)
#define V_ADD(a, b) _mm512_add_ps(a, b)
#define V_DIV(a, b) _mm512_div_ps(a, b)
#define V_STORE_PART(p, v, n) _mm512_mask_storeu_ps(p, (__mmask16)(0xffffu >> (16 - (n))), v)
#define I_ZERO() _mm512_setzero_si512()
#define I_LOAD_U8(p) _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(p)))
#define I_ADD(a, b) _mm512_add_epi32(a, b)

static inline void store_narrow(uint8_t *p, __m128i v, int64_t n) { _mm_mask_storeu_epi8(p, (__mmask16)(0xffffu >> (16 - n)), v); }

typedef struct requantize_constants {
  __m512i zero, out_zero;
  __m512 scale, low, high;
} requantize_constants;

static inline requantize_constants requantize_constants_make(const oct_pool_args *a, const oct_pool_window *w) {
  return (requantize_constants){.zero = _mm512_set1_epi32((int32_t)((uint32_t)(w->rows * w->columns) * (uint32_t)a->in_zero_point)),
                                .out_zero = _mm512_set1_epi32(a->out_zero_point),
                                .scale = _mm512_set1_ps(w->scale),
                                .low = _mm512_set1_ps((float)(a->low - a->out_zero_point)),
                                .high = _mm512_set1_ps((float)(a->high - a->out_zero_point))};
}

static inline void store_requantized(uint8_t *p, __m512i sum, const requantize_constants *r, int64_t n) {
  __m512 t = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(sum, r->zero)), r->scale);
  t = _mm512_min_ps(r->high, _mm512_max_ps(r->low, t));
  store_narrow(p, _mm512_cvtepi32_epi8(_mm512_add_epi32(_mm512_cvtps_epi32(t), r->out_zero)), n);
}

#include "kernels/vector_pool_simd.h"

void oct_max_pool_u8__avx512(const oct_pool_args *args, size_t begin, size_t end) {
  if (args->shape.channels <= 16) oct_pool_rows(args, 1, begin, end, max_u8_narrow, NULL);
  else oct_pool_rows(args, 1, begin, end, max_u8, max_u8_run);
}
void oct_max_pool_f32__avx512(const oct_pool_args *args, size_t begin, size_t end) { oct_pool_rows(args, 4, begin, end, max_f32, NULL); }
void oct_average_pool_u8__avx512(const oct_pool_args *args, size_t begin, size_t end) {
  oct_pool_rows(args, 1, begin, end, average_u8, NULL);
}
void oct_average_pool_f32__avx512(const oct_pool_args *args, size_t begin, size_t end) {
  oct_pool_rows(args, 4, begin, end, average_f32, NULL);
}
