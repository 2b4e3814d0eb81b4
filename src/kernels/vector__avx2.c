/* Vector kernels, AVX2: the bytes of vector__scalar.c, whose functions state what each does. Tails of fewer elements than a
 * vector run the scalar rule: nothing is read or written outside [0, n). Pools: vector_pool__avx2.c.
 * SPDX-License-Identifier: MIT */
#include <float.h>
#include <immintrin.h>

#include "kernels/vector_math.h"
#include "kernels/vector_histogram.h"
#include "kernels/vector_planes.h"
#include "kernels/vector_scale.h"
#include "kernels/vector_pool.h"

#define INLINE static inline __attribute__((always_inline))

INLINE __m256i load_u8(const uint8_t *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
INLINE void store_u8(uint8_t *p, __m256i x) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}

/* The range of an 8-bit result around its zero point, in float as the rounding rule has it. */
typedef struct range {
  __m256 low, high;
  __m256i zero_point;
} range;

INLINE range range_make(int32_t zero_point, int32_t low, int32_t high) {
  return (range){_mm256_set1_ps((float)(low - zero_point)), _mm256_set1_ps((float)(high - zero_point)), _mm256_set1_epi32(zero_point)};
}
INLINE __m256 range_clamp(const range *r, __m256 t) { return _mm256_min_ps(r->high, _mm256_max_ps(r->low, t)); }
INLINE __m256i range_round(const range *r, __m256 t) { return _mm256_add_epi32(_mm256_cvtps_epi32(t), r->zero_point); }

/* x / scale decides ties, but x * (1 / scale) is much cheaper and differs from it by less than 3 * 2^-24 * 512 < 2^-12 inside the
 * range; only a vector with a value that near to a tie is divided. Where 1 / scale is not an ordinary number all are. */
static void quantize_f32_u8(size_t n, const float *x, uint8_t *y, float scale, int32_t zero_point) {
  const range r = range_make(zero_point, 0, 255);
  const float inverse = 1.0f / scale, inverse_size = fabsf(inverse);
  const bool divide =
      !(inverse_size >= FLT_MIN && inverse_size <= FLT_MAX && fabsf(scale) >= FLT_MIN) || zero_point < -128 || zero_point > 383;
  const __m256 divisor = _mm256_set1_ps(scale), factor = _mm256_set1_ps(inverse), near_tie = _mm256_set1_ps(0.5f - 0x1p-12f);
  const __m256 sign = _mm256_set1_ps(-0.0f),
               zero_point_f32 = range_clamp(&r, _mm256_setzero_ps()); /* what NaN becomes, less the zero point */
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i);
    __m256 t = range_clamp(&r, _mm256_mul_ps(v, factor));
    __m256 distance = _mm256_andnot_ps(sign, _mm256_sub_ps(t, _mm256_round_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)));
    if (divide || _mm256_movemask_ps(_mm256_cmp_ps(distance, near_tie, _CMP_GE_OQ))) t = range_clamp(&r, _mm256_div_ps(v, divisor));
    t = _mm256_blendv_ps(t, zero_point_f32, _mm256_cmp_ps(t, t, _CMP_UNORD_Q));
    store_u8(y + i, range_round(&r, t));
  }
  for (; i < n; i++) y[i] = (uint8_t)oct_quantize(x[i], scale, zero_point, 0, 255);
}

static void dequantize_u8_f32(size_t n, const uint8_t *x, float *y, float scale, int32_t zero_point) {
  const __m256i zero = _mm256_set1_epi32(zero_point);
  const __m256 factor = _mm256_set1_ps(scale);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(load_u8(x + i), zero)), factor));
  for (; i < n; i++) y[i] = oct_dequantize(x[i], scale, zero_point);
}

/* A shuffle looks up 16 entries and gives 0 where the index is negative. Block k of a half is looked up with index - 16 * k and
 * holds entries XOR those of the block before: all blocks up to the right one then add up to it. The upper half takes the index
 * with its top bit flipped, so that each half sees the other's indices as negative. */
static void table_u8(size_t n, const uint8_t *x, uint8_t *y, const uint8_t table[256]) {
  size_t i = 0;
  if (n >= 64) {
    __m256i steps[16];
    for (int k = 0; k < 16; k++) {
      __m128i entries = _mm_loadu_si128((const __m128i *)(table + 16 * k));
      if (k % 8) entries = _mm_xor_si128(entries, _mm_loadu_si128((const __m128i *)(table + 16 * k - 16)));
      steps[k] = _mm256_broadcastsi128_si256(entries);
    }
    const __m256i sixteen = _mm256_set1_epi8(16);
    for (; i + 32 <= n; i += 32) {
      __m256i lower = _mm256_loadu_si256((const __m256i *)(x + i)), upper = _mm256_xor_si256(lower, _mm256_set1_epi8(-128));
      __m256i q = _mm256_setzero_si256();
      for (int k = 0; k < 8; k++) {
        q = _mm256_xor_si256(q, _mm256_xor_si256(_mm256_shuffle_epi8(steps[k], lower), _mm256_shuffle_epi8(steps[k + 8], upper)));
        lower = _mm256_subs_epi8(lower, sixteen);
        upper = _mm256_subs_epi8(upper, sixteen);
      }
      _mm256_storeu_si256((__m256i *)(y + i), q);
    }
  }
  for (; i < n; i++) y[i] = table[x[i]];
}

/* Gathers are slow on many processors of this instruction set. */
static void table_u8_f32(size_t n, const uint8_t *x, float *y, const float table[256]) {
  for (size_t i = 0; i < n; i++) y[i] = table[x[i]];
}

static void add_u8(size_t n, const uint8_t *a, const uint8_t *b, uint8_t *y, float a_scale, int32_t a_zp, float b_scale, int32_t b_zp,
                   int32_t zp, int32_t low, int32_t high) {
  const range r = range_make(zp, low, high);
  const __m256i a_zero = _mm256_set1_epi32(a_zp), b_zero = _mm256_set1_epi32(b_zp);
  const __m256 a_factor = _mm256_set1_ps(a_scale), b_factor = _mm256_set1_ps(b_scale);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 p = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(load_u8(a + i), a_zero)), a_factor);
    const __m256 q = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(load_u8(b + i), b_zero)), b_factor);
    store_u8(y + i, range_round(&r, range_clamp(&r, _mm256_add_ps(p, q))));
  }
  for (; i < n; i++) {
    float t = (float)(a[i] - a_zp) * a_scale + (float)(b[i] - b_zp) * b_scale;
    y[i] = (uint8_t)oct_requantize_onnx(t, zp, low, high);
  }
}

static void mul_u8(size_t n, const uint8_t *a, const uint8_t *b, bool b_broadcast, uint8_t *y, float scale, int32_t a_zp, int32_t b_zp,
                   int32_t zp, int32_t low, int32_t high) {
  const range r = range_make(zp, low, high);
  const int32_t b_value = n && b_broadcast ? b[0] - b_zp : 0;
  const __m256i a_zero = _mm256_set1_epi32(a_zp), b_zero = _mm256_set1_epi32(b_zp), b_values = _mm256_set1_epi32(b_value);
  const __m256 factor = _mm256_set1_ps(scale);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256i p = _mm256_sub_epi32(load_u8(a + i), a_zero), q = b_broadcast ? b_values : _mm256_sub_epi32(load_u8(b + i), b_zero);
    store_u8(y + i, range_round(&r, range_clamp(&r, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_mullo_epi32(p, q)), factor))));
  }
  for (; i < n; i++) {
    float t = (float)((a[i] - a_zp) * (b_broadcast ? b_value : b[i] - b_zp)) * scale;
    y[i] = (uint8_t)oct_requantize_onnx(t, zp, low, high);
  }
}

/* min(x, m) is m when x is NaN. */
static void minmax_f32(size_t n, const float *x, float *low, float *high) {
  __m256 min0 = _mm256_set1_ps(*low), max0 = _mm256_set1_ps(*high), min1 = min0, max1 = max0;
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256 v = _mm256_loadu_ps(x + i), w = _mm256_loadu_ps(x + i + 8);
    min0 = _mm256_min_ps(v, min0), max0 = _mm256_max_ps(v, max0);
    min1 = _mm256_min_ps(w, min1), max1 = _mm256_max_ps(w, max1);
  }
  float mins[8], maxs[8], min = *low, max = *high;
  _mm256_storeu_ps(mins, _mm256_min_ps(min1, min0));
  _mm256_storeu_ps(maxs, _mm256_max_ps(max1, max0));
  for (int lane = 0; lane < 8; lane++) {
    min = mins[lane] < min ? mins[lane] : min;
    max = maxs[lane] > max ? maxs[lane] : max;
  }
  for (; i < n; i++) {
    min = x[i] < min ? x[i] : min;
    max = x[i] > max ? x[i] : max;
  }
  *low = min + 0.0f;
  *high = max + 0.0f;
}

#define BINARY_F32(name, intrinsic, operator)                                                                      \
  static void name(size_t n, const float *a, const float *b, float *y) {                                           \
    size_t i = 0;                                                                                                  \
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, intrinsic(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i))); \
    for (; i < n; i++) y[i] = a[i] operator b[i];                                                                  \
  }
BINARY_F32(add_f32, _mm256_add_ps, +)
BINARY_F32(sub_f32, _mm256_sub_ps, -)
BINARY_F32(mul_f32, _mm256_mul_ps, *)
BINARY_F32(div_f32, _mm256_div_ps, /)

static void scale_f32(size_t n, const float *x, float *y, float scale, float shift) {
  const __m256 factor = _mm256_set1_ps(scale), term = _mm256_set1_ps(shift);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), factor), term));
  for (; i < n; i++) y[i] = x[i] * scale + shift;
}

/* `low` first, also where low > high. */
static void clamp_f32(size_t n, const float *x, float *y, float low, float high) {
  const __m256 least = _mm256_set1_ps(low), most = _mm256_set1_ps(high);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i);
    _mm256_storeu_ps(y + i, _mm256_blendv_ps(_mm256_min_ps(most, v), least, _mm256_cmp_ps(v, least, _CMP_LT_OQ)));
  }
  for (; i < n; i++) y[i] = oct_clamp_f32(x[i], low, high);
}

const oct_vector_kernels oct_vector__avx2 = {
    .name = "vector__avx2",
    .isa = OCT_ISA_AVX2,
    .quantize_f32_u8 = quantize_f32_u8,
    .dequantize_u8_f32 = dequantize_u8_f32,
    .table_u8 = table_u8,
    .table_u8_f32 = table_u8_f32,
    .add_u8 = add_u8,
    .mul_u8 = mul_u8,
    .minmax_f32 = minmax_f32,
    .add_f32 = add_f32,
    .sub_f32 = sub_f32,
    .mul_f32 = mul_f32,
    .div_f32 = div_f32,
    .scale_f32 = scale_f32,
    .clamp_f32 = clamp_f32,
    .math = &oct_vector_math__avx2,
    .max_pool_u8 = oct_max_pool_u8__avx2,
    .max_pool_f32 = oct_max_pool_f32__avx2,
    .average_pool_u8 = oct_average_pool_u8__avx2,
    .average_pool_f32 = oct_average_pool_f32__avx2,
    .transpose_u8 = oct_transpose_u8__avx2,
    .transpose_u32 = oct_transpose_u32__avx2,
    .quantize_planes_u8 = oct_quantize_planes_u8__avx2,
    .fold_scale = oct_fold_scale__avx2,
    .extremes_f32 = oct_extremes_f32__avx2,
    .histogram_f32 = oct_histogram_f32__avx2,
};
