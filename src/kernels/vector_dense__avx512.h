/* What the rows of vector__avx512.c and vector__avx512vbmi.c share; the functions are in the former and in the files of their names.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_VECTOR_DENSE__AVX512_H
#define OCT_KERNELS_VECTOR_DENSE__AVX512_H

#include "kernels/vector_histogram.h"
#include "kernels/vector_math.h"
#include "kernels/vector_planes.h"
#include "kernels/vector_pool.h"
#include "kernels/vector_range__avx512.h"
#include "kernels/vector_scale.h"

void oct_quantize_f32_u8__avx512(size_t n, const float *x, uint8_t *y, float scale, int32_t zero_point);
void oct_dequantize_u8_f32__avx512(size_t n, const uint8_t *x, float *y, float scale, int32_t zero_point);
void oct_table_u8_f32__avx512(size_t n, const uint8_t *x, float *y, const float table[256]);
void oct_add_u8__avx512(size_t n, const uint8_t *a, const uint8_t *b, uint8_t *y, float a_scale, int32_t a_zp, float b_scale, int32_t b_zp,
                        int32_t zp, int32_t low, int32_t high);
void oct_mul_u8__avx512(size_t n, const uint8_t *a, const uint8_t *b, bool b_broadcast, uint8_t *y, float scale, int32_t a_zp, int32_t b_zp,
                        int32_t zp, int32_t low, int32_t high);
void oct_minmax_f32__avx512(size_t n, const float *x, float *low, float *high);
void oct_add_f32__avx512(size_t n, const float *a, const float *b, float *y);
void oct_sub_f32__avx512(size_t n, const float *a, const float *b, float *y);
void oct_mul_f32__avx512(size_t n, const float *a, const float *b, float *y);
void oct_div_f32__avx512(size_t n, const float *a, const float *b, float *y);
void oct_scale_f32__avx512(size_t n, const float *x, float *y, float scale, float shift);
void oct_clamp_f32__avx512(size_t n, const float *x, float *y, float low, float high);

/* Fields of a row. */
#define OCT_VECTOR_DENSE__AVX512                                                                                                          \
  .quantize_f32_u8 = oct_quantize_f32_u8__avx512, .dequantize_u8_f32 = oct_dequantize_u8_f32__avx512,                                     \
  .table_u8_f32 = oct_table_u8_f32__avx512, .add_u8 = oct_add_u8__avx512, .mul_u8 = oct_mul_u8__avx512,                                   \
  .minmax_f32 = oct_minmax_f32__avx512, .add_f32 = oct_add_f32__avx512, .sub_f32 = oct_sub_f32__avx512, .mul_f32 = oct_mul_f32__avx512,   \
  .div_f32 = oct_div_f32__avx512, .scale_f32 = oct_scale_f32__avx512, .clamp_f32 = oct_clamp_f32__avx512,                                 \
  .math = &oct_vector_math__avx512, .max_pool_u8 = oct_max_pool_u8__avx512, .max_pool_f32 = oct_max_pool_f32__avx512,                     \
  .average_pool_u8 = oct_average_pool_u8__avx512, .average_pool_f32 = oct_average_pool_f32__avx512,                                       \
  .transpose_u8 = oct_transpose_u8__avx2, .transpose_u32 = oct_transpose_u32__avx2, .quantize_planes_u8 = oct_quantize_planes_u8__avx512, \
  .fold_scale = oct_fold_scale__avx512, .extremes_f32 = oct_extremes_f32__avx512, .histogram_f32 = oct_histogram_f32__avx512

#endif
