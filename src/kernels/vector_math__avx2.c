/* Functions of floats, AVX2. See vector_math.h.
 * SPDX-License-Identifier: MIT */
#define OCT_MATH_ISA_BODY
#include "kernels/vector_math.h"

const oct_vector_math oct_vector_math__avx2 = OCT_VECTOR_MATH_ROW;
