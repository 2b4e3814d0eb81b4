/* Pooling, written once for every vector width; channels are the lanes. The including file defines
 *   B, BYTES, B_LOAD, B_MAX, B_ZERO, B_STORE(p, v), B_STORE_PART(p, v, n)
 *                                                                  a vector of bytes; the last stores its first n <= BYTES
 *   V, LANES, V_LOAD, V_MAX, V_ADD, V_DIV, V_SET1, V_STORE_PART    a vector of floats
 *   I, I_LOAD_U8, I_ADD, I_ZERO                                    LANES int32; loads LANES bytes
 *   store_requantized(p, sum, constants, n)                        the 8-bit average's last step
 * Rules (order of additions, NaN, empty windows): vector_pool.h. Loads may reach past the last channel, stores never do.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_VECTOR_POOL_SIMD_H
#define OCT_KERNELS_VECTOR_POOL_SIMD_H

#include <immintrin.h>

#include "kernels/vector_pool.h"

#define FOR_VECTORS(X) X(0) X(1) X(2) X(3)
#define INLINE static inline __attribute__((always_inline))

/* Channels left of a vector that starts at channel c. */
INLINE int64_t lanes_left(int64_t channels, int64_t c, int64_t lanes) { return channels - c < lanes ? channels - c : lanes; }

/* Runs block(args, w, c, vectors) over all channels: four vectors at a time, then one at a time; the last may be partial. */
#define FOR_BLOCKS(block, lanes)                                              \
  int64_t c = 0, channels = args->shape.channels;                             \
  for (; c + 4 * (lanes) <= channels; c += 4 * (lanes)) block(args, w, c, 4); \
  for (; c < channels; c += (lanes)) block(args, w, c, 1);

#define START(v) B m##v = B_ZERO();
#define STEP(v) \
  if (vectors > v) m##v = B_MAX(m##v, B_LOAD(in + v * BYTES));
#define STORE(v) \
  if (vectors > v) B_STORE_PART(out + v * BYTES, m##v, vectors > 1 ? BYTES : lanes_left(args->shape.channels, c, BYTES));
#define STEP_2X2(v) \
  if (vectors > v) m##v = B_MAX(B_MAX(B_LOAD(a + v * BYTES), B_LOAD(a2 + v * BYTES)), B_MAX(B_LOAD(b + v * BYTES), B_LOAD(b2 + v * BYTES)));
#define STEP_ROW_3(v) \
  if (vectors > v)    \
    m##v = B_MAX(m##v, B_MAX(B_LOAD(in + v * BYTES), B_MAX(B_LOAD(in + step + v * BYTES), B_LOAD(in + 2 * step + v * BYTES))));
INLINE void max_u8_block(const oct_pool_args *args, const oct_pool_window *w, int64_t c, const int vectors) {
  uint8_t *out = (uint8_t *)w->out + c;
  FOR_VECTORS(START);
  if (w->rows == 2 && w->columns == 2) { /* the most usual window, without its loops */
    const uint8_t *a = (const uint8_t *)w->in + c, *a2 = a + w->column_step, *b = a + w->row_step, *b2 = b + w->column_step;
    FOR_VECTORS(STEP_2X2);
    FOR_VECTORS(STORE);
    return;
  }
  if (w->rows == 3 && w->columns == 3) { /* the usual one before residual blocks */
    const ptrdiff_t step = w->column_step;
    const uint8_t *in = (const uint8_t *)w->in + c;
    FOR_VECTORS(STEP_ROW_3);
    in += w->row_step;
    FOR_VECTORS(STEP_ROW_3);
    in += w->row_step;
    FOR_VECTORS(STEP_ROW_3);
    FOR_VECTORS(STORE);
    return;
  }
  for (int64_t i = 0; i < w->rows; i++) {
    const uint8_t *in = (const uint8_t *)w->in + i * w->row_step + c;
    for (int64_t j = 0; j < w->columns; j++, in += w->column_step) {
      FOR_VECTORS(STEP);
    }
  }
  FOR_VECTORS(STORE);
}
#undef START
#undef STEP
#undef STEP_2X2
#undef STEP_ROW_3
#undef STORE

INLINE void max_u8(const oct_pool_args *args, const oct_pool_window *w) { FOR_BLOCKS(max_u8_block, BYTES) }

/* The greatest bytes of a column of 3. */
#define COLUMN(p) B_MAX(B_LOAD(p), B_MAX(B_LOAD((p) + row), B_LOAD((p) + 2 * row)))

/* Whole windows of 3x3 two columns apart, one vector of channels of each: neighbours share a column. */
INLINE void max_u8_run_3x3(const oct_pool_args *args, const oct_pool_window *w, int64_t c, int64_t count, const bool whole) {
  const uint8_t *in = (const uint8_t *)w->in + c;
  uint8_t *out = (uint8_t *)w->out + c;
  const ptrdiff_t pixel = args->in.pixel, row = w->row_step;
  B shared = COLUMN(in);
  for (; count > 0; count--, out += args->out.pixel) {
    const B middle = COLUMN(in + pixel);
    in += 2 * pixel;
    const B last = COLUMN(in), max = B_MAX(B_MAX(shared, middle), last);
    if (whole) B_STORE(out, max);
    else B_STORE_PART(out, max, args->shape.channels - c);
    shared = last;
  }
}
#undef COLUMN

INLINE bool max_u8_run(const oct_pool_args *args, const oct_pool_window *w, int64_t count) {
  const oct_conv_shape *s = &args->shape;
  if (w->rows != 3 || w->columns != 3 || s->stride_w != 2 || s->dilation_w != 1) return false;
  int64_t c = 0;
  for (; c + BYTES <= s->channels; c += BYTES) max_u8_run_3x3(args, w, c, count, true);
  if (c < s->channels) max_u8_run_3x3(args, w, c, count, false);
  return true;
}

/* At most 16 channels: wide loads would cross cache lines at nearly every pixel. */
INLINE void max_u8_narrow(const oct_pool_args *args, const oct_pool_window *w) {
  __m128i max = _mm_setzero_si128();
  if (w->rows == 2 && w->columns == 2) {
    const uint8_t *a = (const uint8_t *)w->in, *b = a + w->row_step;
    max = _mm_max_epu8(_mm_loadu_si128((const __m128i *)a), _mm_loadu_si128((const __m128i *)(a + w->column_step)));
    max = _mm_max_epu8(max, _mm_loadu_si128((const __m128i *)b));
    max = _mm_max_epu8(max, _mm_loadu_si128((const __m128i *)(b + w->column_step)));
    store_narrow((uint8_t *)w->out, max, args->shape.channels);
    return;
  }
  for (int64_t i = 0; i < w->rows; i++) {
    const uint8_t *in = (const uint8_t *)w->in + i * w->row_step;
    for (int64_t j = 0; j < w->columns; j++, in += w->column_step) max = _mm_max_epu8(max, _mm_loadu_si128((const __m128i *)in));
  }
  store_narrow((uint8_t *)w->out, max, args->shape.channels);
}

#define START(v) V m##v = V_SET1(-INFINITY);
#define STEP(v) \
  if (vectors > v) m##v = V_MAX(m##v, V_LOAD(in + v * LANES));
#define STORE(v) \
  if (vectors > v) V_STORE_PART(out + v * LANES, m##v, vectors > 1 ? LANES : lanes_left(args->shape.channels, c, LANES));
INLINE void max_f32_block(const oct_pool_args *args, const oct_pool_window *w, int64_t c, const int vectors) {
  float *out = (float *)(void *)w->out + c;
  FOR_VECTORS(START);
  for (int64_t i = 0; i < w->rows; i++) {
    const float *in = (const float *)(const void *)w->in + i * w->row_step + c;
    for (int64_t j = 0; j < w->columns; j++, in += w->column_step) {
      FOR_VECTORS(STEP);
    }
  }
  FOR_VECTORS(STORE);
}
#undef START
#undef STEP
#undef STORE

INLINE void max_f32(const oct_pool_args *args, const oct_pool_window *w){FOR_BLOCKS(max_f32_block, LANES)}

#define START(v) V sum##v = V_SET1(0);
#define ROW_START(v) V row##v = V_SET1(0);
#define STEP(v) \
  if (vectors > v) row##v = V_ADD(row##v, V_LOAD(in + v * LANES));
#define ROW_END(v) \
  if (vectors > v) sum##v = V_ADD(sum##v, row##v);
#define STORE(v) \
  if (vectors > v) V_STORE_PART(out + v * LANES, V_DIV(sum##v, count), vectors > 1 ? LANES : lanes_left(args->shape.channels, c, LANES));
INLINE void average_f32_block(const oct_pool_args *args, const oct_pool_window *w, int64_t c, const int vectors) {
  float *out = (float *)(void *)w->out + c;
  const V count = V_SET1((float)w->count);
  FOR_VECTORS(START);
  for (int64_t i = 0; i < w->rows; i++) {
    const float *in = (const float *)(const void *)w->in + i * w->row_step + c;
    FOR_VECTORS(ROW_START);
    for (int64_t j = 0; j < w->columns; j++, in += w->column_step) {
      FOR_VECTORS(STEP);
    }
    FOR_VECTORS(ROW_END);
  }
  FOR_VECTORS(STORE);
}
#undef START
#undef ROW_START
#undef STEP
#undef ROW_END
#undef STORE

INLINE void average_f32(const oct_pool_args *args, const oct_pool_window *w){FOR_BLOCKS(average_f32_block, LANES)}

#define START(v) I sum##v = I_ZERO();
#define STEP(v) \
  if (vectors > v) sum##v = I_ADD(sum##v, I_LOAD_U8(in + v * LANES));
#define STORE(v) \
  if (vectors > v) store_requantized(out + v * LANES, sum##v, &r, vectors > 1 ? LANES : lanes_left(args->shape.channels, c, LANES));
INLINE void average_u8_block(const oct_pool_args *args, const oct_pool_window *w, int64_t c, const int vectors) {
  uint8_t *out = (uint8_t *)w->out + c;
  const requantize_constants r = requantize_constants_make(args, w);
  FOR_VECTORS(START);
  for (int64_t i = 0; i < w->rows; i++) {
    const uint8_t *in = (const uint8_t *)w->in + i * w->row_step + c;
    for (int64_t j = 0; j < w->columns; j++, in += w->column_step) {
      FOR_VECTORS(STEP);
    }
  }
  FOR_VECTORS(STORE);
}
#undef START
#undef STEP
#undef STORE

INLINE void average_u8(const oct_pool_args *args, const oct_pool_window *w) { FOR_BLOCKS(average_u8_block, LANES) }

#endif
