/* What the files vector_planes__*.c give to the rows of the vector kernels: transposing, and quantizing planes to pixels.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_VECTOR_PLANES_H
#define OCT_KERNELS_VECTOR_PLANES_H

#include "kernels/kernels.h"

void oct_transpose_u8__scalar(size_t rows, size_t columns, const uint8_t *x, ptrdiff_t x_row, uint8_t *y, ptrdiff_t y_row);
void oct_transpose_u32__scalar(size_t rows, size_t columns, const uint32_t *x, ptrdiff_t x_row, uint32_t *y, ptrdiff_t y_row);
void oct_quantize_planes_u8__scalar(size_t rows, size_t n, size_t planes, const float *x, ptrdiff_t x_row, ptrdiff_t plane, uint8_t *y,
                                    ptrdiff_t y_row, float scale, int32_t zero_point);

void oct_transpose_u8__avx2(size_t rows, size_t columns, const uint8_t *x, ptrdiff_t x_row, uint8_t *y, ptrdiff_t y_row);
void oct_transpose_u32__avx2(size_t rows, size_t columns, const uint32_t *x, ptrdiff_t x_row, uint32_t *y, ptrdiff_t y_row);
void oct_quantize_planes_u8__avx2(size_t rows, size_t n, size_t planes, const float *x, ptrdiff_t x_row, ptrdiff_t plane, uint8_t *y,
                                  ptrdiff_t y_row, float scale, int32_t zero_point);
void oct_quantize_planes_u8__avx512(size_t rows, size_t n, size_t planes, const float *x, ptrdiff_t x_row, ptrdiff_t plane, uint8_t *y,
                                    ptrdiff_t y_row, float scale, int32_t zero_point);

#endif
