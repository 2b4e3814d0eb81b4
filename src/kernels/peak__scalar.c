/* Peaks without vector instructions of choice: what the compiler makes of plain C.
 * SPDX-License-Identifier: MIT */
#include "kernels/peak.h"

static uint32_t dot_i8(size_t rounds, const void *operands) {
  const uint8_t *x = operands;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  for (size_t r = 0; r < rounds; r++) {
    const uint32_t k = (uint32_t)r & 63; /* different in each round, so that no product can be taken out of the loop */
    a += (uint32_t)x[k] * x[64];
    b += (uint32_t)x[k] * x[65];
    c += (uint32_t)x[k] * x[66];
    d += (uint32_t)x[k] * x[67];
  }
  return a ^ b ^ c ^ d;
}

static float fma_f32(size_t rounds, const void *operands) {
  const float *x = operands;
  float a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
  for (size_t r = 0; r < rounds; r++) {
    a = a * x[0] + x[1];
    b = b * x[2] + x[3];
    c = c * x[4] + x[5];
    d = d * x[6] + x[7];
    e = e * x[8] + x[9];
    f = f * x[10] + x[11];
    g = g * x[12] + x[13];
    h = h * x[14] + x[15];
  }
  return a + b + c + d + e + f + g + h;
}

static uint64_t read_all(const void *data, size_t bytes) {
  const uint64_t *x = data;
  uint64_t a = 0, b = 0, c = 0, d = 0;
  for (size_t i = 0; i < bytes / 8; i += 4) {
    a ^= x[i];
    b ^= x[i + 1];
    c ^= x[i + 2];
    d ^= x[i + 3];
  }
  return a ^ b ^ c ^ d;
}

const oct_peak_kernel oct_peak__scalar = {
    .name = "peak__scalar",
    .isa = OCT_ISA_SCALAR,
    .dot_i8 = dot_i8,
    .dot_macs = 4,
    .fma_f32 = fma_f32,
    .fma_macs = 8,
    .read = read_all,
};
