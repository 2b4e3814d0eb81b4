/* The scale of an input in constants of channels, AVX2. Nothing outside of the operands is read or written.
 * SPDX-License-Identifier: MIT */
#include "kernels/epilogue_i8__avx2.h"
#include "kernels/vector_scale.h"

bool oct_fold_scale__avx2(size_t n, const oct_epilogue_i8 *from, int32_t *bias, float *multiplier, float *float_bias) {
  const __m256 scale = _mm256_set1_ps(from->row_scale[0]), zero = _mm256_setzero_ps();
  const __m256i zero_point = _mm256_set1_epi32(from->row_zero_point[0]);
  int more = 0;
  for (size_t c = 0; c < n; c += 8) {
    const __m256i mask = oct_mask8(n - c < 8 ? (int)(n - c) : 8);
    const __m256 m = _mm256_mul_ps(scale, _mm256_maskload_ps(from->multiplier + c, mask));
    __m256 rest = from->float_bias ? _mm256_maskload_ps(from->float_bias + c, mask) : zero;
    __m256i b = _mm256_sub_epi32(_mm256_maskload_epi32(from->bias + c, mask),
                                 _mm256_mullo_epi32(zero_point, _mm256_maskload_epi32(from->weight_sum + c, mask)));
    if (from->out == OCT_EPILOGUE_ROUNDED) b = _mm256_add_epi32(b, oct_take_units256(&rest, m));
    _mm256_maskstore_epi32(bias + c, mask, b);
    _mm256_maskstore_ps(multiplier + c, mask, m);
    _mm256_maskstore_ps(float_bias + c, mask, rest);
    more |= _mm256_movemask_ps(_mm256_cmp_ps(rest, zero, _CMP_NEQ_UQ));
  }
  return !more;
}
