/* Quantization parameters: creation and comparison. The arithmetic is in kernels/numerics.h.
 * SPDX-License-Identifier: MIT */
#include "tensor/tensor.h"

oct_quant *oct_quant_create(octet_context *ctx, oct_region *region, oct_dtype dtype, int axis, int64_t count, const float *scales,
                            const int32_t *zero_points) {
  if (count < 1) {
    oct_fail(ctx, OCTET_INVALID_ARGUMENT, "quantization parameters for %lld channels; at least one is needed", (long long)count);
    return NULL;
  }
  oct_quant *quant = oct_region_alloc(ctx, region, 1, sizeof *quant);
  if (!quant) return NULL;
  *quant = (oct_quant){.dtype = dtype, .axis = axis, .count = count};
  quant->scale = oct_region_alloc(ctx, region, (size_t)count, sizeof *quant->scale);
  quant->zero_point = oct_region_alloc(ctx, region, (size_t)count, sizeof *quant->zero_point);
  if (!quant->scale || !quant->zero_point) return NULL;
  if (scales) memcpy(quant->scale, scales, (size_t)count * sizeof *scales);
  if (zero_points) memcpy(quant->zero_point, zero_points, (size_t)count * sizeof *zero_points);
  return quant;
}

bool oct_quant_equal(const oct_quant *a, const oct_quant *b) {
  if (!a || !b) return a == b;
  if (a->dtype != b->dtype || a->axis != b->axis || a->count != b->count) return false;
  size_t n = (size_t)a->count;
  return memcmp(a->scale, b->scale, n * sizeof *a->scale) == 0 && memcmp(a->zero_point, b->zero_point, n * sizeof *a->zero_point) == 0;
}
