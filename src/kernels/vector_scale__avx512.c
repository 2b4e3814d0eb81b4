/* The scale of an input in constants of channels, AVX-512. Nothing outside of the operands is read or written.
 * SPDX-License-Identifier: MIT */
#include "kernels/epilogue_i8__avx512.h"
#include "kernels/vector_scale.h"

bool oct_fold_scale__avx512(size_t n, const oct_epilogue_i8 *from, int32_t *bias, float *multiplier, float *float_bias) {
  const __m512 scale = _mm512_set1_ps(from->row_scale[0]), zero = _mm512_setzero_ps();
  const __m512i zero_point = _mm512_set1_epi32(from->row_zero_point[0]);
  __mmask16 more = 0;
  for (size_t c = 0; c < n; c += 16) {
    const __mmask16 mask = oct_mask16(n - c < 16 ? (int)(n - c) : 16);
    const __m512 m = _mm512_mul_ps(scale, _mm512_maskz_loadu_ps(mask, from->multiplier + c));
    __m512 rest = from->float_bias ? _mm512_maskz_loadu_ps(mask, from->float_bias + c) : zero;
    __m512i b = _mm512_sub_epi32(_mm512_maskz_loadu_epi32(mask, from->bias + c),
                                 _mm512_mullo_epi32(zero_point, _mm512_maskz_loadu_epi32(mask, from->weight_sum + c)));
    if (from->out == OCT_EPILOGUE_ROUNDED) b = _mm512_add_epi32(b, oct_take_units512(&rest, m));
    _mm512_mask_storeu_epi32(bias + c, mask, b);
    _mm512_mask_storeu_ps(multiplier + c, mask, m);
    _mm512_mask_storeu_ps(float_bias + c, mask, rest);
    more |= _mm512_cmp_ps_mask(rest, zero, _CMP_NEQ_UQ);
  }
  return !more;
}
