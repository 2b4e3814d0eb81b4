/* Transposing and quantizing planes to pixels, in plain C: the oracle.
 * SPDX-License-Identifier: MIT */
#include "kernels/vector_planes.h"

void oct_transpose_u8__scalar(size_t rows, size_t columns, const uint8_t *x, ptrdiff_t x_row, uint8_t *y, ptrdiff_t y_row) {
  for (size_t c = 0; c < columns; c++)
    for (size_t r = 0; r < rows; r++) y[(ptrdiff_t)c * y_row + (ptrdiff_t)r] = x[(ptrdiff_t)r * x_row + (ptrdiff_t)c];
}

void oct_transpose_u32__scalar(size_t rows, size_t columns, const uint32_t *x, ptrdiff_t x_row, uint32_t *y, ptrdiff_t y_row) {
  for (size_t c = 0; c < columns; c++)
    for (size_t r = 0; r < rows; r++) y[(ptrdiff_t)c * y_row + (ptrdiff_t)r] = x[(ptrdiff_t)r * x_row + (ptrdiff_t)c];
}

void oct_quantize_planes_u8__scalar(size_t rows, size_t n, size_t planes, const float *x, ptrdiff_t x_row, ptrdiff_t plane, uint8_t *y,
                                    ptrdiff_t y_row, float scale, int32_t zero_point) {
  for (size_t r = 0; r < rows; r++, x += x_row, y += y_row)
    for (size_t i = 0; i < n; i++)
      for (size_t c = 0; c < planes; c++)
        y[i * planes + c] = (uint8_t)oct_quantize(x[(ptrdiff_t)c * plane + (ptrdiff_t)i], scale, zero_point, 0, 255);
}
