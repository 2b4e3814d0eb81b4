/* Pure arithmetic on slots and loop nests: strides, views, merged loops; and what counts as an int8 weight.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "ops/lower.h"

/* Strides in elements by logical dim of the slot itself. */
static void own_strides(const oct_slot *slot, int64_t strides[OCT_MAX_RANK]) {
  const oct_shape *s = &slot->shape;
  if (slot->layout == OCT_LAYOUT_PLAIN || s->rank < 3) {
    oct_shape_strides(s, strides);
    return;
  }
  const oct_border *b = &slot->border;
  int64_t stride = 1;
  strides[1] = stride;
  stride *= s->dim[1];
  for (int d = s->rank - 1; d >= 2; d--) {
    strides[d] = stride;
    int64_t extra = d == s->rank - 1 ? b->left + b->right : d == s->rank - 2 && s->rank > 3 ? b->top + b->bottom : 0;
    stride *= s->dim[d] + extra;
  }
  strides[0] = stride;
}

void oct_slot_strides(const oct_slot *slot, int rank, int64_t strides[OCT_MAX_RANK]) {
  int64_t own[OCT_MAX_RANK] = {0};
  own_strides(slot, own);
  int shift = rank - slot->shape.rank;
  for (int d = 0; d < rank; d++) {
    bool present = d >= shift;
    strides[d] = present && slot->shape.dim[d - shift] != 1 ? own[d - shift] : 0;
  }
}

oct_view oct_slot_view(const oct_slot *slot) {
  const oct_shape *s = &slot->shape;
  if (slot->layout == OCT_LAYOUT_CHANNELS_LAST && s->rank >= 3) {
    int64_t own[OCT_MAX_RANK] = {0};
    own_strides(slot, own);
    return (oct_view){.image = own[0], .row = s->rank > 3 ? own[s->rank - 2] : own[0], .pixel = s->dim[1]};
  }
  int64_t last = s->rank > 0 ? s->dim[s->rank - 1] : 1, count = oct_shape_count(s);
  return (oct_view){.image = count, .row = count, .pixel = last};
}

void oct_loops_make(oct_loops *loops, int operands, const oct_shape *shape, int64_t strides[][OCT_MAX_RANK]) {
  *loops = (oct_loops){.rank = 0};
  int order[OCT_MAX_RANK], n = 0;
  for (int d = 0; d < shape->rank; d++) {
    if (shape->dim[d] == 1) continue;
    int at = n++; /* insertion by falling output stride; equal strides keep their order */
    while (at > 0 && strides[0][order[at - 1]] < strides[0][d]) {
      order[at] = order[at - 1];
      at--;
    }
    order[at] = d;
  }
  for (int i = 0; i < n; i++) {
    int d = order[i], last = loops->rank - 1;
    bool merge = last >= 0;
    for (int k = 0; k < operands && merge; k++) merge = loops->stride[k][last] == strides[k][d] * shape->dim[d];
    if (!merge) last = loops->rank++;
    loops->count[last] = merge ? loops->count[last] * shape->dim[d] : shape->dim[d];
    for (int k = 0; k < operands; k++) loops->stride[k][last] = strides[k][d];
  }
  if (loops->rank == 0) {
    loops->rank = 1;
    loops->count[0] = 1;
    for (int k = 0; k < operands; k++) loops->stride[k][0] = 1;
  }
}

size_t oct_loops_rows(const oct_loops *loops) {
  size_t rows = 1;
  for (int d = 0; d + 1 < loops->rank; d++) rows *= (size_t)loops->count[d];
  return rows;
}

void oct_loops_row(const oct_loops *loops, size_t row, int operands, int64_t offsets[]) {
  for (int k = 0; k < operands; k++) offsets[k] = 0;
  for (int d = loops->rank - 2; d >= 0; d--) {
    size_t count = (size_t)loops->count[d], above = row < count ? 0 : row / count; /* the outermost dim needs no division */
    int64_t index = (int64_t)(row - above * count);
    row = above;
    for (int k = 0; k < operands; k++) offsets[k] += index * loops->stride[k][d];
  }
}

void oct_loops_start(const oct_loops *loops, size_t row, int operands, oct_loops_cursor *cursor) {
  for (int k = 0; k < operands; k++) cursor->offset[k] = 0;
  for (int d = loops->rank - 2; d >= 0; d--) {
    cursor->index[d] = (int64_t)(row % (size_t)loops->count[d]);
    row /= (size_t)loops->count[d];
    for (int k = 0; k < operands; k++) cursor->offset[k] += cursor->index[d] * loops->stride[k][d];
  }
}

bool oct_weight_is_int8(const oct_value *value, int axis) {
  const oct_tensor *tensor = oct_constant_of(value);
  if (!tensor || !value->quant || tensor->dtype != OCT_I8 || value->quant->dtype != OCT_I8) return false;
  const oct_quant *q = value->quant;
  if (q->axis >= 0 && (q->axis != axis || tensor->shape.dim[q->axis] != q->count)) return false;
  for (int64_t i = 0; i < q->count; i++)
    if (q->zero_point[i] != 0) return false;
  return true;
}
