/* What the files vector_scale__*.c give to the rows of the vector kernels: the scale and zero point of an input put into constants of channels.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_VECTOR_SCALE_H
#define OCT_KERNELS_VECTOR_SCALE_H

#include "kernels/kernels.h"

bool oct_fold_scale__scalar(size_t n, const oct_epilogue_i8 *from, int32_t *bias, float *multiplier, float *float_bias);
bool oct_fold_scale__avx2(size_t n, const oct_epilogue_i8 *from, int32_t *bias, float *multiplier, float *float_bias);
bool oct_fold_scale__avx512(size_t n, const oct_epilogue_i8 *from, int32_t *bias, float *multiplier, float *float_bias);

#endif
