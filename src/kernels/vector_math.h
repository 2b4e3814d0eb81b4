/* What the files of vector_math__*.c share: the names of the rows.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_VECTOR_MATH_H
#define OCT_KERNELS_VECTOR_MATH_H

#include "kernels/kernels.h"

extern const oct_vector_math oct_vector_math__scalar, oct_vector_math__avx2, oct_vector_math__avx512;

#define OCT_VECTOR_MATH_ROW                                                                                         \
  {                                                                                                                 \
    .exp_f32 = exp_f32, .sigmoid_f32 = sigmoid_f32, .tanh_f32 = tanh_f32, .erf_f32 = erf_f32, .gelu_f32 = gelu_f32, \
    .softmax_f32 = softmax_f32, .layer_norm_f32 = layer_norm_f32, .softmax_rows_f32 = softmax_rows_f32,             \
    .softmax_columns_f32 = softmax_columns_f32,                                                                     \
  }

#endif
