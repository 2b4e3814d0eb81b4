/* What elementwise operators share whatever their number of inputs: type rules and the splitting of loops into units of work.
 * One input: unary.c; two and more: binary.c.
 * SPDX-License-Identifier: MIT */
#include "ops/elementwise.h"

static octet_status need_float(octet_context *ctx, const oct_node *node) {
  oct_dtype dtype = node->inputs[0]->dtype;
  if (dtype == OCT_DTYPE_NONE || oct_dtype_is_float(dtype)) return OCTET_OK;
  return oct_infer_fail(ctx, node, "input \"%s\" is %s, but only float types are possible", node->inputs[0]->name, oct_dtype_name(dtype));
}

static octet_status need_number(octet_context *ctx, const oct_node *node) {
  if (node->inputs[0]->dtype != OCT_BOOL) return OCTET_OK;
  return oct_infer_fail(ctx, node, "input \"%s\" is bool, but a number is needed", node->inputs[0]->name);
}

octet_status oct_infer_floats(octet_context *ctx, oct_node *node) {
  OCT_TRY(need_float(ctx, node));
  return oct_infer_same(ctx, node);
}

octet_status oct_infer_numbers(octet_context *ctx, oct_node *node) {
  OCT_TRY(need_number(ctx, node));
  return oct_infer_same(ctx, node);
}

octet_status oct_infer_broadcast_numbers(octet_context *ctx, oct_node *node) {
  OCT_TRY(need_number(ctx, node));
  return oct_infer_broadcast(ctx, node);
}

octet_status oct_infer_broadcast_floats(octet_context *ctx, oct_node *node) {
  OCT_TRY(need_float(ctx, node));
  return oct_infer_broadcast(ctx, node);
}

octet_status oct_infer_broadcast_bools(octet_context *ctx, oct_node *node) {
  oct_dtype dtype = node->inputs[0]->dtype;
  if (dtype != OCT_DTYPE_NONE && dtype != OCT_BOOL)
    return oct_infer_fail(ctx, node, "input \"%s\" is %s, but bool is needed", node->inputs[0]->name, oct_dtype_name(dtype));
  return oct_infer_broadcast(ctx, node);
}

octet_status oct_infer_compare(octet_context *ctx, oct_node *node) {
  OCT_TRY(oct_infer_broadcast(ctx, node));
  oct_value *out = node->outputs[0];
  if (out) out->dtype = OCT_BOOL;
  return OCTET_OK;
}

void oct_slots_loops(oct_loops *loops, int operands, const oct_slot *const slots[]) {
  int64_t strides[4][OCT_MAX_RANK];
  for (int i = 0; i < operands; i++) oct_slot_strides(slots[i], slots[0]->shape.rank, strides[i]);
  oct_loops_make(loops, operands, &slots[0]->shape, strides);
}

bool oct_loops_aligned(const oct_loops *loops, int operands) {
  for (int k = 1; k < operands; k++)
    for (int d = 0; d < loops->rank; d++)
      if (loops->stride[k][d] != loops->stride[0][d]) return false;
  return true;
}

void oct_units_make(oct_units *units, const oct_loops *loops, oct_step *step) {
  const int64_t target = 8192; /* elements of a unit: a few microseconds */
  int64_t inner = loops->count[loops->rank - 1];
  units->loops = *loops;
  units->piece = inner < target ? inner : target;
  units->pieces = inner > 0 ? (size_t)((inner + units->piece - 1) / units->piece) : 0;
  step->units = oct_loops_rows(loops) * units->pieces;
  step->grain = inner > 0 && inner < target ? (size_t)(target / inner) : 1;
}

oct_run oct_units_run(const oct_units *units, int operands, size_t unit) {
  oct_run run;
  const oct_loops *loops = &units->loops;
  if (loops->rank == 2 && units->pieces == 1) { /* many short rows: no division for each */
    for (int i = 0; i < operands; i++) run.offset[i] = (int64_t)unit * loops->stride[i][0];
    run.n = (size_t)loops->count[1];
    return run;
  }
  size_t row = units->pieces == 1 ? unit : unit / units->pieces;
  int64_t start = (int64_t)(unit - row * units->pieces) * units->piece, left = units->loops.count[units->loops.rank - 1] - start;
  oct_loops_row(&units->loops, row, operands, run.offset);
  for (int i = 0; i < operands; i++) run.offset[i] += start * oct_units_stride(units, i);
  run.n = (size_t)(left < units->piece ? left : units->piece);
  return run;
}
