/* Half precision and bfloat16 in integer arithmetic, so that rounding and flush modes of the caller do not matter.
 * Formats: IEEE 754-2008 binary16 (5 exponent bits, bias 15, 10 fraction bits); bfloat16 is the upper half of binary32.
 * SPDX-License-Identifier: MIT */
#include "tensor/tensor.h"

static uint32_t bits_of(float value) {
  uint32_t u;
  memcpy(&u, &value, 4);
  return u;
}

static float float_of(uint32_t bits) {
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

float oct_f16_to_f32(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent == 31) return float_of(sign | 0x7f800000u | fraction << 13);
  if (exponent) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
  if (!fraction) return float_of(sign);
  int shift = __builtin_clz(fraction) - 21; /* brings the leading one to bit 10 */
  return float_of(sign | (uint32_t)(113 - shift) << 23 | ((fraction << shift) & 1023) << 13);
}

uint16_t oct_f32_to_f16(float value) {
  uint32_t u = bits_of(value), x = u & 0x7fffffffu;
  uint16_t sign = (uint16_t)((u >> 16) & 0x8000);
  if (x > 0x7f800000u) return (uint16_t)(sign | 0x7e00 | ((x >> 13) & 0x3ff)); /* a quiet NaN */
  if (x >= 0x477ff000u) return sign | 0x7c00;                                  /* 65520 and above round to infinity */
  if (x >= 0x38800000u) return (uint16_t)(sign | ((x - 0x38000000u + 0xfff + ((x >> 13) & 1)) >> 13));
  if (x <= 0x33000000u) return sign; /* up to 2^-25, half of the smallest subnormal: the tie goes to zero */
  uint32_t shift = 126 - (x >> 23), mantissa = (x & 0x7fffffu) | 0x800000u;
  uint32_t q = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
  return (uint16_t)(sign | (q + (rest > half || (rest == half && (q & 1)))));
}

uint16_t oct_f32_to_bf16(float value) {
  uint32_t u = bits_of(value);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40); /* a quiet NaN */
  return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
