/* Pooling in plain C: the oracle of the other variants. Rules: vector_pool.h.
 * SPDX-License-Identifier: MIT */
#include "kernels/vector_pool.h"

static void max_u8(const oct_pool_args *args, const oct_pool_window *w) {
  uint8_t *out = (uint8_t *)w->out;
  for (int64_t c = 0; c < args->shape.channels; c++) {
    uint8_t max = 0;
    for (int64_t i = 0; i < w->rows; i++) {
      const uint8_t *in = (const uint8_t *)w->in + i * w->row_step + c;
      for (int64_t j = 0; j < w->columns; j++, in += w->column_step) max = *in > max ? *in : max;
    }
    out[c] = max;
  }
}

static void max_f32(const oct_pool_args *args, const oct_pool_window *w) {
  float *out = (float *)(void *)w->out;
  for (int64_t c = 0; c < args->shape.channels; c++) {
    float max = -INFINITY;
    for (int64_t i = 0; i < w->rows; i++) {
      const float *in = (const float *)(const void *)w->in + i * w->row_step + c;
      for (int64_t j = 0; j < w->columns; j++, in += w->column_step) max = max > *in ? max : *in;
    }
    out[c] = max;
  }
}

static void average_u8(const oct_pool_args *args, const oct_pool_window *w) {
  uint8_t *out = (uint8_t *)w->out;
  uint32_t zero = (uint32_t)(w->rows * w->columns) * (uint32_t)args->in_zero_point;
  for (int64_t c = 0; c < args->shape.channels; c++) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < w->rows; i++) {
      const uint8_t *in = (const uint8_t *)w->in + i * w->row_step + c;
      for (int64_t j = 0; j < w->columns; j++, in += w->column_step) sum += *in;
    }
    out[c] = (uint8_t)oct_requantize_onnx((float)(int32_t)(sum - zero) * w->scale, args->out_zero_point, args->low, args->high);
  }
}

static void average_f32(const oct_pool_args *args, const oct_pool_window *w) {
  float *out = (float *)(void *)w->out;
  for (int64_t c = 0; c < args->shape.channels; c++) {
    float sum = 0;
    for (int64_t i = 0; i < w->rows; i++) {
      const float *in = (const float *)(const void *)w->in + i * w->row_step + c;
      float row = 0;
      for (int64_t j = 0; j < w->columns; j++, in += w->column_step) row += *in;
      sum += row;
    }
    out[c] = sum / (float)w->count;
  }
}

void oct_max_pool_u8__scalar(const oct_pool_args *args, size_t begin, size_t end) { oct_pool_rows(args, 1, begin, end, max_u8, NULL); }
void oct_max_pool_f32__scalar(const oct_pool_args *args, size_t begin, size_t end) { oct_pool_rows(args, 4, begin, end, max_f32, NULL); }
void oct_average_pool_u8__scalar(const oct_pool_args *args, size_t begin, size_t end) {
  oct_pool_rows(args, 1, begin, end, average_u8, NULL);
}
void oct_average_pool_f32__scalar(const oct_pool_args *args, size_t begin, size_t end) {
  oct_pool_rows(args, 4, begin, end, average_f32, NULL);
}
