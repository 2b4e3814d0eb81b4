/* The scale of an input in constants of channels, in plain C: the oracle.
 * SPDX-License-Identifier: MIT */
#include "kernels/vector_scale.h"

bool oct_fold_scale__scalar(size_t n, const oct_epilogue_i8 *from, int32_t *bias, float *multiplier, float *float_bias) {
  const float scale = from->row_scale[0];
  const uint32_t zero_point = (uint32_t)from->row_zero_point[0];
  bool whole = true;
  for (size_t c = 0; c < n; c++) {
    float rest = from->float_bias ? from->float_bias[c] : 0;
    multiplier[c] = scale * from->multiplier[c];
    const uint32_t units = from->out == OCT_EPILOGUE_ROUNDED ? (uint32_t)oct_take_units(&rest, multiplier[c]) : 0;
    bias[c] = (int32_t)((uint32_t)from->bias[c] - zero_point * (uint32_t)from->weight_sum[c] + units);
    float_bias[c] = rest;
    whole = whole && rest == 0;
  }
  return whole;
}
