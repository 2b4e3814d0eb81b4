/* Type conversion as a step, row by row.
 * SPDX-License-Identifier: MIT */
#include "ops/convert_rows.h"

typedef struct convert_step {
  oct_convert_rows convert;
  oct_loops loops; /* operand 0 output, 1 input */
  const char *in;
  char *out;
  const oct_vector_kernels *vector;
} convert_step;

static void quantize_row(const convert_step *s, size_t n, const float *x, uint8_t *y) {
  const oct_convert_rows *c = &s->convert;
  float scale = c->run_scale ? *c->run_scale : c->scale;
  int32_t zero_point = c->run_zero_point ? *c->run_zero_point : c->zero_point;
  s->vector->quantize_f32_u8(n, x, y, scale, zero_point);
  if (c->table) s->vector->table_u8(n, y, y, c->table);
}

/* Dense rows. */
static void dense(const convert_step *s, size_t n, const char *in, char *out) {
  switch (s->convert.kind) {
    case OCT_CONVERT_QUANTIZE: quantize_row(s, n, (const float *)(const void *)in, (uint8_t *)out); break;
    case OCT_CONVERT_TABLE: s->vector->table_u8(n, (const uint8_t *)in, (uint8_t *)out, s->convert.table); break;
    case OCT_CONVERT_TABLE_F32: s->vector->table_u8_f32(n, (const uint8_t *)in, (float *)(void *)out, s->convert.floats); break;
  }
}

static octet_status run(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const convert_step *s = params;
  int inner = s->loops.rank - 1;
  int64_t n = s->loops.count[inner], to = s->loops.stride[0][inner], from = s->loops.stride[1][inner];
  int64_t in_size = s->convert.kind == OCT_CONVERT_QUANTIZE ? 4 : 1, out_size = s->convert.kind == OCT_CONVERT_TABLE_F32 ? 4 : 1;
  for (size_t row = begin; row < end; row++) {
    int64_t offset[4];
    oct_loops_row(&s->loops, row, 2, offset);
    const char *in = s->in + offset[1] * in_size;
    char *out = s->out + offset[0] * out_size;
    if (to == 1 && from == 1) dense(s, (size_t)n, in, out);
    else
      for (int64_t i = 0; i < n; i++) dense(s, 1, in + i * from * in_size, out + i * to * out_size);
  }
  return OCTET_OK;
}

static octet_status add(oct_lowering *l, const oct_node *node, const oct_convert_rows *convert, oct_slot *in, oct_slot *out,
                        convert_step **params, oct_step **step) {
  static const char *const names[] = {"quantize_f32_u8", "table_u8", "table_u8_f32"};
  OCT_TRY(oct_lower_step(l, node, names[convert->kind], run, sizeof **params, params, step));
  convert_step *s = *params;
  int64_t strides[4][OCT_MAX_RANK] = {{0}};
  s->convert = *convert, s->vector = l->vector;
  oct_slot_strides(out, out->shape.rank, strides[0]);
  oct_slot_strides(in, out->shape.rank, strides[1]);
  oct_loops_make(&s->loops, 2, &out->shape, strides);
  (*step)->units = oct_loops_rows(&s->loops);
  (*step)->grain = 1 + 16384 / ((size_t)s->loops.count[s->loops.rank - 1] + 1);
  OCT_TRY(oct_lower_read(l, *step, &s->in, in));
  return oct_lower_write(l, *step, &s->out, out);
}

octet_status oct_convert_rows_step(oct_lowering *l, const oct_node *node, const oct_convert_rows *convert, oct_slot *in, oct_slot *out) {
  convert_step *s;
  oct_step *step;
  return add(l, node, convert, in, out, &s, &step);
}

octet_status oct_convert_rows_dynamic(oct_lowering *l, const oct_node *node, oct_slot *in, oct_slot *scale, oct_slot *zero_point,
                                      oct_slot *out) {
  oct_convert_rows convert = {.kind = OCT_CONVERT_QUANTIZE};
  convert_step *s;
  oct_step *step;
  OCT_TRY(add(l, node, &convert, in, out, &s, &step));
  OCT_TRY(oct_lower_read(l, step, &s->convert.run_scale, scale));
  return oct_lower_read(l, step, &s->convert.run_zero_point, zero_point);
}
