/* Our own exp, log, tanh, erf, pow, ... in double: the same bits on every machine (libm's depend on the CPU). Used by references and 8-bit tables.
 * Error below 1e-15 relative in the ranges that matter; special values as IEEE 754 says.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_MATH_H
#define OCT_OPS_MATH_H

double oct_exp(double x);
double oct_log(double x);
double oct_tanh(double x);
double oct_erf(double x);
double oct_sigmoid(double x);
double oct_pow(double x, double y);

#endif
