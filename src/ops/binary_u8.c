/* 8-bit forms of the two-input operators: a constant operand becomes tables, two activations go through an 8-bit kernel in dense runs.
 * SPDX-License-Identifier: MIT */
#include "ops/elementwise.h"

/* ---- A constant operand: one table for each of its elements ----------------------------------------------------- */

typedef struct tables_params {
  const uint8_t *x;
  uint8_t *y;
  const uint8_t *tables;
  oct_units units; /* operands: output, activation, constant (offset: number of the table) */
  const oct_vector_kernels *vector;
} tables_params;

static octet_status run_tables(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const tables_params *p = params;
  ptrdiff_t sy = oct_units_stride(&p->units, 0), sx = oct_units_stride(&p->units, 1), st = oct_units_stride(&p->units, 2) * 256;
  for (size_t unit = begin; unit < end; unit++) {
    oct_run run = oct_units_run(&p->units, 3, unit);
    const uint8_t *x = p->x + run.offset[1], *table = p->tables + run.offset[2] * 256;
    uint8_t *y = p->y + run.offset[0];
    if (sy == 1 && sx == 1 && st == 0) p->vector->table_u8(run.n, x, y, table);
    else
      for (ptrdiff_t i = 0; i < (ptrdiff_t)run.n; i++) y[i * sy] = table[i * st + x[i * sx]];
  }
  return OCTET_OK;
}

typedef struct constant_operand {
  double value;
  bool first;
} constant_operand;

static double with_constant(const oct_node *node, const void *user, double x) {
  const constant_operand *c = user;
  return c->first ? node->op->scalar2(node, c->value, x) : node->op->scalar2(node, x, c->value);
}

static octet_status add_tables(oct_lowering *l, oct_node *node, int activation, int64_t count) {
  oct_value *constant = node->inputs[1 - activation], *result = node->outputs[0];
  oct_slot *in, *out;
  const float *values;
  OCT_TRY(oct_lower_stored(l, node->inputs[activation], &in));
  OCT_TRY(oct_lower_output(l, result, OCT_U8, in->layout, &out));
  OCT_TRY(oct_lower_constant_f32(l, constant, &values));
  uint8_t *tables = oct_lower_memory(l, (size_t)count, 256);
  if (!tables) return OCTET_OUT_OF_MEMORY;
  for (int64_t i = 0; i < count; i++)
    oct_table_fill(tables + i * 256, in, out, node, with_constant, &(constant_operand){(double)values[i], activation == 1});
  tables_params *p;
  oct_step *step;
  OCT_TRY(oct_lower_step(l, node, "tables_u8", run_tables, sizeof *p, &p, &step));
  int64_t strides[3][OCT_MAX_RANK];
  oct_loops loops;
  oct_slot_strides(out, result->shape.rank, strides[0]);
  oct_slot_strides(in, result->shape.rank, strides[1]);
  oct_broadcast_strides(&constant->shape, &result->shape, strides[2]);
  oct_loops_make(&loops, 3, &result->shape, strides);
  oct_units_make(&p->units, &loops, step);
  step->in_place = oct_loops_aligned(&loops, 2);
  p->tables = tables;
  p->vector = l->vector;
  OCT_TRY(oct_lower_read(l, step, &p->x, in));
  return oct_lower_write(l, step, &p->y, out);
}

octet_status oct_binary_lower_tables(oct_lowering *l, oct_node *node, int64_t limit, bool *done) {
  *done = false;
  const oct_value *result = node->outputs[0];
  if (!result->quant || oct_lower_dtype(l, result) != OCT_U8) return OCTET_OK;
  for (int i = 0; i < 2; i++) {
    oct_slot *slot;
    const oct_tensor *constant = oct_constant_of(node->inputs[1 - i]);
    if (!constant) continue;
    int64_t count = oct_shape_count(&constant->shape), work = oct_shape_count(&result->shape);
    if (count < 1 || count > limit || (count > 1 && work / count < 16)) continue;
    OCT_TRY(oct_lower_stored(l, node->inputs[i], &slot));
    if (!slot->quantized || slot->dtype != OCT_U8 || !oct_shape_equal(&slot->shape, &result->shape)) continue;
    *done = true;
    return add_tables(l, node, i, count);
  }
  return OCTET_OK;
}

/* ---- Two activations -------------------------------------------------------------------------------------------- */

bool oct_binary_is_u8(oct_lowering *l, const oct_node *node) {
  for (int i = 0; i < 2; i++) {
    oct_slot *slot;
    if (oct_lower_stored(l, node->inputs[i], &slot) != OCTET_OK || !slot->quantized || slot->dtype != OCT_U8) return false;
  }
  return node->outputs[0]->quant && oct_lower_dtype(l, node->outputs[0]) == OCT_U8;
}

typedef struct binary_u8_params {
  const uint8_t *a, *b;
  uint8_t *y;
  oct_units units;
  oct_binary_u8_fn apply;
  bool broadcasts;
  oct_binary_u8 p;
} binary_u8_params;

/* n elements at any stride as a dense run: themselves, or copied into `block`. */
static const uint8_t *dense(const uint8_t *x, ptrdiff_t stride, size_t n, uint8_t block[OCT_BINARY_RUN]) {
  if (stride == 1) return x;
  if (stride == 0) memset(block, *x, n);
  else
    for (size_t i = 0; i < n; i++) block[i] = x[(ptrdiff_t)i * stride];
  return block;
}

static void run_blocks(const binary_u8_params *p, const oct_run *run, ptrdiff_t sy, ptrdiff_t sa, ptrdiff_t sb) {
  uint8_t block_a[OCT_BINARY_RUN], block_b[OCT_BINARY_RUN], block_y[OCT_BINARY_RUN];
  for (size_t start = 0; start < run->n; start += OCT_BINARY_RUN) {
    size_t n = run->n - start < OCT_BINARY_RUN ? run->n - start : OCT_BINARY_RUN;
    ptrdiff_t at = (ptrdiff_t)start;
    const uint8_t *a = dense(p->a + run->offset[1] + at * sa, sa, n, block_a);
    const uint8_t *b = p->b + run->offset[2] + at * sb;
    bool broadcast = sb == 0 && p->broadcasts;
    uint8_t *y = p->y + run->offset[0] + at * sy;
    p->apply(&p->p, n, a, broadcast ? b : dense(b, sb, n, block_b), broadcast, sy == 1 ? y : block_y);
    for (size_t i = 0; sy != 1 && i < n; i++) y[(ptrdiff_t)i * sy] = block_y[i];
  }
}

static octet_status run_u8(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const binary_u8_params *p = params;
  ptrdiff_t sy = oct_units_stride(&p->units, 0), sa = oct_units_stride(&p->units, 1), sb = oct_units_stride(&p->units, 2);
  for (size_t unit = begin; unit < end; unit++) {
    oct_run run = oct_units_run(&p->units, 3, unit);
    if (sy == 1 && sa == 1 && (sb == 1 || (sb == 0 && p->broadcasts)))
      p->apply(&p->p, run.n, p->a + run.offset[1], p->b + run.offset[2], sb == 0, p->y + run.offset[0]);
    else run_blocks(p, &run, sy, sa, sb);
  }
  return OCTET_OK;
}

octet_status oct_binary_u8_lower(oct_lowering *l, oct_node *node, const char *kernel, oct_binary_u8_fn apply, bool broadcasts,
                                 const oct_binary_u8 *p, const oct_binary_slots *slots) {
  binary_u8_params *params;
  oct_step *step;
  OCT_TRY(oct_lower_step(l, node, kernel, run_u8, sizeof *params, &params, &step));
  params->apply = apply;
  params->broadcasts = broadcasts;
  params->p = *p;
  params->p.vector = l->vector;
  params->p.a_zero_point = slots->a->zero_point;
  params->p.b_zero_point = slots->b->zero_point;
  params->p.zero_point = slots->out->zero_point;
  oct_units_make(&params->units, &slots->loops, step);
  step->in_place = oct_loops_aligned(&slots->loops, 3);
  OCT_TRY(oct_lower_read(l, step, &params->a, slots->a));
  OCT_TRY(oct_lower_read(l, step, &params->b, slots->b));
  return oct_lower_write(l, step, &params->y, slots->out);
}
