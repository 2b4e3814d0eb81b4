/* exp, tanh, sigmoid and erf in float for loops of operators; where a vector kernel has the function (oct_vector_math), that is faster.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_MATH_F32_H
#define OCT_OPS_MATH_F32_H

#include "kernels/math_f32.h"

#endif
