/* Element access and conversion between element types. Every type passes through one of two wide forms: floats
 * through double, integers through int64 (u64 as the same bits), so that each type has one load and two stores.
 * SPDX-License-Identifier: MIT */
#include <math.h>

#include "tensor/tensor.h"

/* float nearest below in magnitude with a sticky last bit ("round to odd"): a second rounding to a type with at least two
 * bits less then gives what one rounding would (Boldo and Melquiond, "When double rounding is odd", 2004). */
static float odd_float(double value) {
  float f = (float)value;
  if (isnan(value) || (double)f == value) return f;
  uint32_t u;
  memcpy(&u, &f, 4);
  if (fabs((double)f) > fabs(value)) u--; /* also from infinity to the largest float */
  u |= 1;
  memcpy(&f, &u, 4);
  return f;
}

/* Same from an integer's magnitude: 24 leading bits, the last one sticky. */
static float odd_float_u64(uint64_t magnitude) {
  int surplus = magnitude >> 24 ? 40 - __builtin_clzll(magnitude) : 0;
  uint64_t kept = magnitude >> surplus;
  if (kept << surplus != magnitude) kept |= 1;
  return ldexpf((float)kept, surplus);
}

static float odd_float_i64(int64_t value, bool is_u64) {
  if (is_u64 || value >= 0) return odd_float_u64((uint64_t)value);
  return -odd_float_u64(0 - (uint64_t)value);
}

static int64_t saturate(double value, double low, double high) {
  if (isnan(value)) return 0;
  return (int64_t)(value < low ? low : value > high ? high : value);
}

/* 2^63 and 2^64 are the first doubles out of range; the type's own maximum is not a double. */
static int64_t saturate_i64(double value) { return value >= 0x1p63 ? INT64_MAX : saturate(value, -0x1p63, 0x1p63); }

static uint64_t saturate_u64(double value) {
  if (!(value > 0)) return 0;
  return value >= 0x1p64 ? UINT64_MAX : (uint64_t)value;
}

static double u64_to_f64(int64_t bits) { return (double)(uint64_t)bits; }

double oct_get_f64(const void *data, oct_dtype dtype, int64_t index) {
  switch (dtype) {
    case OCT_F32: return (double)((const float *)data)[index];
    case OCT_F64: return ((const double *)data)[index];
    case OCT_F16: return (double)oct_f16_to_f32(((const uint16_t *)data)[index]);
    case OCT_BF16: return (double)oct_bf16_to_f32(((const uint16_t *)data)[index]);
    case OCT_U64: return u64_to_f64(((const int64_t *)data)[index]);
    default: return (double)oct_get_i64(data, dtype, index);
  }
}

int64_t oct_get_i64(const void *data, oct_dtype dtype, int64_t index) {
  switch (dtype) {
    case OCT_I8: return ((const int8_t *)data)[index];
    case OCT_U8: return ((const uint8_t *)data)[index];
    case OCT_I16: return ((const int16_t *)data)[index];
    case OCT_U16: return ((const uint16_t *)data)[index];
    case OCT_I32: return ((const int32_t *)data)[index];
    case OCT_U32: return ((const uint32_t *)data)[index];
    case OCT_I64:
    case OCT_U64: return ((const int64_t *)data)[index];
    case OCT_BOOL: return ((const uint8_t *)data)[index] != 0;
    case OCT_F32:
    case OCT_F64:
    case OCT_F16:
    case OCT_BF16: return saturate_i64(oct_get_f64(data, dtype, index));
    default: return 0;
  }
}

void oct_set_f64(void *data, oct_dtype dtype, int64_t index, double value) {
  switch (dtype) {
    case OCT_F32: ((float *)data)[index] = (float)value; break;
    case OCT_F64: ((double *)data)[index] = value; break;
    case OCT_F16: ((uint16_t *)data)[index] = oct_f32_to_f16(odd_float(value)); break;
    case OCT_BF16: ((uint16_t *)data)[index] = oct_f32_to_bf16(odd_float(value)); break;
    case OCT_I8: ((int8_t *)data)[index] = (int8_t)saturate(value, INT8_MIN, INT8_MAX); break;
    case OCT_U8: ((uint8_t *)data)[index] = (uint8_t)saturate(value, 0, UINT8_MAX); break;
    case OCT_I16: ((int16_t *)data)[index] = (int16_t)saturate(value, INT16_MIN, INT16_MAX); break;
    case OCT_U16: ((uint16_t *)data)[index] = (uint16_t)saturate(value, 0, UINT16_MAX); break;
    case OCT_I32: ((int32_t *)data)[index] = (int32_t)saturate(value, INT32_MIN, INT32_MAX); break;
    case OCT_U32: ((uint32_t *)data)[index] = (uint32_t)saturate(value, 0, UINT32_MAX); break;
    case OCT_I64: ((int64_t *)data)[index] = saturate_i64(value); break;
    case OCT_U64: ((uint64_t *)data)[index] = saturate_u64(value); break;
    case OCT_BOOL: ((uint8_t *)data)[index] = value != 0; break;
    default: break;
  }
}

/* Stores an integer whose bits are in `value`; floats are rounded once. */
static void set_integer(void *data, oct_dtype dtype, int64_t index, int64_t value, bool is_u64) {
  switch (dtype) {
    case OCT_F32: ((float *)data)[index] = is_u64 ? (float)(uint64_t)value : (float)value; break;
    case OCT_F64: ((double *)data)[index] = is_u64 ? u64_to_f64(value) : (double)value; break;
    case OCT_F16: ((uint16_t *)data)[index] = oct_f32_to_f16(odd_float_i64(value, is_u64)); break;
    case OCT_BF16: ((uint16_t *)data)[index] = oct_f32_to_bf16(odd_float_i64(value, is_u64)); break;
    case OCT_I8:
    case OCT_U8: ((uint8_t *)data)[index] = (uint8_t)value; break;
    case OCT_I16:
    case OCT_U16: ((uint16_t *)data)[index] = (uint16_t)value; break;
    case OCT_I32:
    case OCT_U32: ((uint32_t *)data)[index] = (uint32_t)value; break;
    case OCT_I64:
    case OCT_U64: ((uint64_t *)data)[index] = (uint64_t)value; break;
    case OCT_BOOL: ((uint8_t *)data)[index] = value != 0; break;
    default: break;
  }
}

void oct_set_i64(void *data, oct_dtype dtype, int64_t index, int64_t value) { set_integer(data, dtype, index, value, false); }

octet_status oct_tensor_cast(octet_context *ctx, const oct_tensor *in, oct_dtype dtype, oct_tensor **out) {
  OCT_TRY(oct_tensor_create(ctx, dtype, &in->shape, out));
  int64_t count = oct_shape_count(&in->shape);
  void *to = (*out)->data;
  const void *from = in->data;
  if (dtype == in->dtype) {
    if (in->bytes) memcpy(to, from, in->bytes);
  } else if (in->dtype == OCT_F32 && dtype == OCT_F16) {
    for (int64_t i = 0; i < count; i++) ((uint16_t *)to)[i] = oct_f32_to_f16(((const float *)from)[i]);
  } else if (in->dtype == OCT_F16 && dtype == OCT_F32) {
    for (int64_t i = 0; i < count; i++) ((float *)to)[i] = oct_f16_to_f32(((const uint16_t *)from)[i]);
  } else if (oct_dtype_is_float(in->dtype)) {
    for (int64_t i = 0; i < count; i++) oct_set_f64(to, dtype, i, oct_get_f64(from, in->dtype, i));
  } else {
    for (int64_t i = 0; i < count; i++) set_integer(to, dtype, i, oct_get_i64(from, in->dtype, i), in->dtype == OCT_U64);
  }
  return OCTET_OK;
}
