/* Slots: the planner's side of ops/lower.h.
 * SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "exec/plan.h"

#define COPIED_CONSTANT_LIMIT ((size_t)1 << 20) /* smaller constants are copied so that kernels may read past their end */

octet_status oct_lower_decline(oct_lowering *l, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(l->plan->decline, sizeof l->plan->decline, format, arguments);
  va_end(arguments);
  return OCTET_UNSUPPORTED;
}

oct_fusion oct_lower_fusion(oct_lowering *l, const oct_node *node) { return l->plan->fusion.fusions[node->id]; }

/* The same bytes in both layouts: one channel, or one pixel. */
bool oct_layouts_agree(const oct_shape *shape, oct_layout a, oct_layout b) {
  if (a == b || shape->rank < 3) return true;
  bool one_pixel = true;
  for (int d = 2; d < shape->rank; d++) one_pixel = one_pixel && shape->dim[d] == 1;
  return shape->dim[1] == 1 || one_pixel;
}

static bool has_border(const oct_border *b) { return b->top || b->left || b->bottom || b->right; }

static bool border_covers(const oct_border *have, const oct_border *want) {
  return !want || (have->top >= want->top && have->left >= want->left && have->bottom >= want->bottom && have->right >= want->right);
}

/* Bytes of the slot with its border, and the offset of logical element 0. */
static octet_status slot_extent(oct_plan *plan, const oct_slot *slot, size_t *bytes, size_t *origin) {
  size_t count = oct_dtype_size(slot->dtype);
  const oct_shape *s = &slot->shape;
  bool fits = true;
  for (int d = 0; d < s->rank; d++) {
    size_t extra = 0;
    if (slot->layout == OCT_LAYOUT_CHANNELS_LAST && d >= 2) {
      if (d == s->rank - 1) extra = (size_t)(slot->border.left + slot->border.right);
      if (d == s->rank - 2 && s->rank > 3) extra = (size_t)(slot->border.top + slot->border.bottom);
    }
    fits = fits && oct_mul_size(count, (size_t)s->dim[d] + extra, &count);
  }
  if (!fits || count > (size_t)1 << 46)
    return oct_fail(plan->lowering.ctx, OCTET_SHAPE, "value \"%s\" is too large to be stored", slot->value ? slot->value->name : "scratch");
  *bytes = count;
  oct_view v = oct_slot_view(slot);
  *origin = has_border(&slot->border) ? (size_t)(slot->border.top * v.row + slot->border.left * v.pixel) * oct_dtype_size(slot->dtype) : 0;
  return OCTET_OK;
}

static void set_quantization(oct_slot *slot, const oct_value *value) {
  if (!value || slot->dtype != OCT_U8 || !oct_quant_is_8bit(value->quant)) return;
  slot->quantized = true;
  slot->scale = value->quant->scale[0];
  slot->zero_point = value->quant->zero_point[0] + (value->quant->dtype == OCT_I8 ? 128 : 0);
}

static octet_status new_buffer(oct_plan *plan, size_t bytes, int *out) {
  OCT_TRY(oct_grow(plan->lowering.ctx, &plan->buffers, &plan->buffers_capacity, plan->n_buffers + 1, sizeof *plan->buffers));
  plan->buffers[plan->n_buffers] = (oct_buffer){.bytes = bytes, .first = OCT_FOREVER, .last = -1, .shared_with = -1};
  *out = (int)plan->n_buffers++;
  return OCTET_OK;
}

octet_status oct_plan_slot_new(oct_plan *plan, const oct_value *value, oct_dtype dtype, oct_layout layout, const oct_border *border,
                               oct_plan_slot **out) {
  oct_plan_slot *slot = oct_region_alloc(plan->lowering.ctx, &plan->region, 1, sizeof *slot);
  if (!slot) return OCTET_OUT_OF_MEMORY;
  slot->slot = (oct_slot){.value = value, .dtype = dtype, .layout = layout, .buffer = -1};
  if (border) slot->slot.border = *border;
  if (value) {
    slot->slot.shape = value->shape;
    set_quantization(&slot->slot, value);
    slot->next = plan->values[value->id].slots;
    plan->values[value->id].slots = slot;
  }
  *out = slot;
  return OCTET_OK;
}

/* Gives the slot memory of its own, and its border content. */
static octet_status allocate_slot(oct_plan *plan, oct_plan_slot *slot) {
  size_t bytes, origin;
  OCT_TRY(slot_extent(plan, &slot->slot, &bytes, &origin));
  OCT_TRY(new_buffer(plan, bytes, &slot->slot.buffer));
  slot->slot.offset = origin;
  return has_border(&slot->slot.border) ? oct_plan_fill_border(plan, &slot->slot) : OCTET_OK;
}

octet_status oct_plan_stored(oct_plan *plan, const oct_value *value, oct_plan_slot **out) {
  oct_value_plan *vp = &plan->values[value->id];
  if (!vp->stored) {
    OCT_TRY(oct_plan_slot_new(plan, value, vp->dtype, vp->layout, &vp->border, &vp->stored));
    OCT_TRY(allocate_slot(plan, vp->stored));
  }
  *out = vp->stored;
  return OCTET_OK;
}

static octet_status missing(oct_plan *plan, const oct_value *value) {
  return oct_fail(plan->lowering.ctx, OCTET_GRAPH, "value \"%s\" is used before anything made it", value->name);
}

octet_status oct_lower_stored(oct_lowering *l, const oct_value *value, oct_slot **out) {
  oct_plan_slot *slot;
  if (value->kind == OCT_CONSTANT) {
    OCT_TRY(oct_plan_constant(l->plan, value, OCT_DTYPE_NONE, OCT_LAYOUT_PLAIN, &slot));
  } else {
    slot = l->plan->values[value->id].stored;
    if (!slot) return missing(l->plan, value);
  }
  *out = &slot->slot;
  return OCTET_OK;
}

oct_layout oct_lower_layout(oct_lowering *l, const oct_value *value) { return l->plan->values[value->id].layout; }
oct_dtype oct_lower_dtype(oct_lowering *l, const oct_value *value) { return l->plan->values[value->id].dtype; }

static bool form_fits(const oct_slot *s, oct_dtype dtype, oct_layout layout, const oct_border *border) {
  return s->dtype == dtype && s->layout == layout && border_covers(&s->border, border) &&
         (layout == OCT_LAYOUT_CHANNELS_LAST || !has_border(&s->border));
}

/* A filled slot that already has the form, or the same memory seen in the other layout. */
static octet_status find_form(oct_plan *plan, const oct_value *value, oct_dtype dtype, oct_layout layout, const oct_border *border,
                              oct_plan_slot **out) {
  *out = NULL;
  for (oct_plan_slot *s = plan->values[value->id].slots; s; s = s->next)
    if (s->filled && form_fits(&s->slot, dtype, layout, border)) {
      *out = s;
      return OCTET_OK;
    }
  for (oct_plan_slot *s = plan->values[value->id].slots; s; s = s->next) {
    if (!s->filled || s->slot.dtype != dtype || has_border(&s->slot.border) || (border && has_border(border))) continue;
    if (!oct_layouts_agree(&s->slot.shape, s->slot.layout, layout)) continue;
    oct_slot form = s->slot;
    OCT_TRY(oct_plan_slot_new(plan, value, dtype, layout, NULL, out));
    form.layout = layout;
    (*out)->slot = form;
    (*out)->filled = true;
    return OCTET_OK;
  }
  return OCTET_OK;
}

octet_status oct_lower_input(oct_lowering *l, const oct_value *value, oct_dtype dtype, oct_layout layout, const oct_border *border,
                             oct_slot **out) {
  oct_plan *plan = l->plan;
  oct_plan_slot *slot;
  if (layout == OCT_LAYOUT_CHANNELS_LAST && value->shape.rank < 3) layout = OCT_LAYOUT_PLAIN;
  if (value->kind == OCT_CONSTANT && !(border && has_border(border))) {
    OCT_TRY(oct_plan_constant(plan, value, dtype, layout, &slot));
    *out = &slot->slot;
    return OCTET_OK;
  }
  oct_value_plan *vp = &plan->values[value->id];
  if (dtype == OCT_DTYPE_NONE) dtype = vp->dtype;
  OCT_TRY(find_form(plan, value, dtype, layout, border, &slot));
  if (!slot) {
    oct_plan_slot *from = vp->stored;
    if (value->kind == OCT_CONSTANT) OCT_TRY(oct_plan_constant(plan, value, dtype, OCT_LAYOUT_PLAIN, &from));
    if (!from) return missing(plan, value);
    OCT_TRY(oct_plan_slot_new(plan, value, dtype, layout, border, &slot));
    OCT_TRY(allocate_slot(plan, slot));
    OCT_TRY(oct_plan_convert(plan, &from->slot, &slot->slot));
    slot->filled = true;
    if (from->slot.dtype != dtype && from->slot.quantized) plan->boundaries++;
  }
  *out = &slot->slot;
  return OCTET_OK;
}

octet_status oct_lower_output(oct_lowering *l, oct_value *value, oct_dtype dtype, oct_layout layout, oct_slot **out) {
  oct_plan *plan = l->plan;
  oct_value_plan *vp = &plan->values[value->id];
  oct_plan_slot *slot;
  if (dtype == OCT_DTYPE_NONE) dtype = vp->dtype;
  if (value->shape.rank < 3) layout = OCT_LAYOUT_PLAIN;
  bool same =
      dtype == vp->dtype && (layout == vp->layout || (!has_border(&vp->border) && oct_layouts_agree(&value->shape, layout, vp->layout)));
  if (same) {
    OCT_TRY(oct_plan_stored(plan, value, &slot));
    if (layout != vp->layout) {
      oct_slot form = slot->slot;
      slot->filled = true;
      OCT_TRY(oct_plan_slot_new(plan, value, dtype, layout, NULL, &slot));
      form.layout = layout;
      slot->slot = form;
    }
  } else {
    OCT_TRY(oct_plan_slot_new(plan, value, dtype, layout, NULL, &slot));
    OCT_TRY(allocate_slot(plan, slot));
  }
  slot->filled = true;
  *out = &slot->slot;
  return OCTET_OK;
}

octet_status oct_lower_alias(oct_lowering *l, oct_value *output, oct_slot *slot) {
  oct_plan *plan = l->plan;
  oct_value_plan *vp = &plan->values[output->id];
  oct_plan_slot *alias;
  bool stored = slot->dtype == vp->dtype && !has_border(&vp->border) && oct_layouts_agree(&output->shape, OCT_LAYOUT_PLAIN, vp->layout) &&
                !slot->data;
  OCT_TRY(oct_plan_slot_new(plan, output, slot->dtype, stored ? vp->layout : OCT_LAYOUT_PLAIN, NULL, &alias));
  alias->slot.buffer = slot->buffer;
  alias->slot.offset = slot->offset;
  alias->slot.data = slot->data;
  if (slot->quantized) {
    alias->slot.quantized = true;
    alias->slot.scale = slot->scale;
    alias->slot.zero_point = slot->zero_point;
  }
  alias->filled = true;
  if (stored && !vp->stored) vp->stored = alias;
  return OCTET_OK;
}

/* Makes sure the stored form exists after the node ran: converts from whatever form was written. */
octet_status oct_plan_finish_value(oct_plan *plan, const oct_value *value) {
  oct_value_plan *vp = &plan->values[value->id];
  oct_plan_slot *written = NULL;
  for (oct_plan_slot *s = vp->slots; s; s = s->next)
    if (s->filled) written = s;
  if (!written) return oct_fail(plan->lowering.ctx, OCTET_GRAPH, "nothing writes value \"%s\"", value->name);
  if (value->quant && !oct_quant_is_8bit(value->quant)) OCT_TRY(oct_plan_round(plan, &written->slot, value->quant));
  if (vp->stored && vp->stored->filled) return OCTET_OK;
  oct_plan_slot *stored;
  OCT_TRY(oct_plan_stored(plan, value, &stored));
  OCT_TRY(oct_plan_convert(plan, &written->slot, &stored->slot));
  stored->filled = true;
  if (written->slot.dtype != stored->slot.dtype && stored->slot.quantized) plan->boundaries++;
  if (stored->slot.quantized && !written->slot.quantized) { /* the unrounded form must not be read any more */
    for (oct_plan_slot *s = vp->slots; s; s = s->next)
      if (!s->slot.quantized) s->filled = false;
  }
  return OCTET_OK;
}

/* Element of a constant as it is to be stored in `slot`. */
static void store_constant(const oct_value *value, const oct_slot *slot, void *to, int64_t to_index, int64_t from_index) {
  const oct_tensor *t = value->tensor;
  if (slot->dtype == OCT_U8 && t->dtype == OCT_I8 && value->quant) {
    oct_set_i64(to, OCT_U8, to_index, oct_get_i64(t->data, OCT_I8, from_index) + 128);
  } else if (value->quant && slot->dtype == OCT_F32) {
    const oct_quant *q = value->quant;
    int64_t c = 0;
    if (q->axis >= 0) {
      int64_t inner = 1;
      for (int d = q->axis + 1; d < t->shape.rank; d++) inner *= t->shape.dim[d];
      c = from_index / inner % t->shape.dim[q->axis];
    }
    ((float *)to)[to_index] = (float)(oct_get_i64(t->data, t->dtype, from_index) - q->zero_point[c]) * q->scale[c];
  } else if (oct_dtype_is_float(slot->dtype)) {
    oct_set_f64(to, slot->dtype, to_index, oct_get_f64(t->data, t->dtype, from_index));
  } else {
    oct_set_i64(to, slot->dtype, to_index, oct_get_i64(t->data, t->dtype, from_index));
  }
}

octet_status oct_plan_constant(oct_plan *plan, const oct_value *value, oct_dtype dtype, oct_layout layout, oct_plan_slot **out) {
  octet_context *ctx = plan->lowering.ctx;
  const oct_tensor *t = value->tensor;
  if (dtype == OCT_DTYPE_NONE) dtype = oct_quant_is_8bit(value->quant) ? OCT_U8 : value->dtype;
  OCT_TRY(find_form(plan, value, dtype, layout, NULL, out));
  if (*out) return OCTET_OK;
  OCT_TRY(oct_plan_slot_new(plan, value, dtype, layout, NULL, out));
  oct_slot *slot = &(*out)->slot;
  (*out)->filled = true;
  int64_t count = oct_shape_count(&t->shape);
  bool same = t->dtype == dtype && !(value->quant && dtype == OCT_F32) && oct_layouts_agree(&t->shape, layout, OCT_LAYOUT_PLAIN);
  if (same && t->bytes > COPIED_CONSTANT_LIMIT) {
    slot->data = t->data;
    return OCTET_OK;
  }
  size_t bytes = (size_t)count * oct_dtype_size(dtype);
  void *copy = oct_region_alloc(ctx, &plan->region, bytes + OCT_OVERREAD, 1);
  if (!copy) return OCTET_OUT_OF_MEMORY;
  plan->constant_bytes += bytes;
  slot->data = copy;
  if (same) {
    if (bytes) memcpy(copy, t->data, bytes);
    return OCTET_OK;
  }
  int64_t strides[2][OCT_MAX_RANK], offsets[2];
  oct_slot_strides(slot, t->shape.rank, strides[0]);
  oct_shape_strides(&t->shape, strides[1]);
  oct_loops loops;
  oct_loops_make(&loops, 2, &t->shape, strides);
  size_t rows = count ? oct_loops_rows(&loops) : 0;
  for (size_t r = 0; r < rows; r++) {
    oct_loops_row(&loops, r, 2, offsets);
    for (int64_t i = 0; i < loops.count[loops.rank - 1]; i++)
      store_constant(value, slot, copy, offsets[0] + i * loops.stride[0][loops.rank - 1], offsets[1] + i * loops.stride[1][loops.rank - 1]);
  }
  return OCTET_OK;
}

octet_status oct_lower_constant_f32(oct_lowering *l, const oct_value *value, const float **out) {
  oct_plan_slot *slot;
  OCT_TRY(oct_plan_constant(l->plan, value, OCT_F32, OCT_LAYOUT_PLAIN, &slot));
  *out = slot->slot.data;
  return OCTET_OK;
}

octet_status oct_lower_step(oct_lowering *l, const oct_node *node, const char *kernel, oct_step_fn run, size_t size, void *params,
                            oct_step **out) {
  oct_plan *plan = l->plan;
  OCT_TRY(oct_grow(l->ctx, &plan->steps, &plan->steps_capacity, plan->n_steps + 1, sizeof *plan->steps));
  OCT_TRY(oct_grow(l->ctx, &plan->is_border, &plan->is_border_capacity, plan->n_steps + 1, sizeof *plan->is_border));
  oct_step *step = oct_region_alloc(l->ctx, &plan->region, 1, sizeof *step);
  void *memory = oct_region_alloc(l->ctx, &plan->region, size ? size : 1, 1);
  if (!step || !memory) return OCTET_OUT_OF_MEMORY;
  *step = (oct_step){.kernel = kernel, .node = node, .run = run, .params = memory, .units = 1, .grain = 1};
  if (plan->choice && plan->choice->candidates[plan->choice->chosen].kernel->name == kernel) {
    step->choice = plan->choice;
    plan->choice = NULL;
  }
  plan->is_border[plan->n_steps] = false;
  plan->steps[plan->n_steps++] = step;
  memcpy(params, &memory, sizeof memory);
  *out = step;
  return OCTET_OK;
}

static octet_status relocate(oct_lowering *l, const oct_step *step, void *where, const oct_slot *slot, bool write) {
  oct_plan *plan = l->plan;
  OCT_TRY(oct_grow(l->ctx, &plan->relocations, &plan->relocations_capacity, plan->n_relocations + 1, sizeof *plan->relocations));
  int index = (int)plan->n_steps - 1;
  while (index > 0 && plan->steps[index] != step) index--;
  plan->relocations[plan->n_relocations++] = (oct_relocation){
      .where = where, .buffer = slot->data ? -1 : slot->buffer, .offset = slot->offset, .data = slot->data, .step = index, .write = write};
  return OCTET_OK;
}

octet_status oct_lower_read(oct_lowering *l, oct_step *step, void *where, oct_slot *slot) { return relocate(l, step, where, slot, false); }
octet_status oct_lower_write(oct_lowering *l, oct_step *step, void *where, oct_slot *slot) { return relocate(l, step, where, slot, true); }

octet_status oct_lower_scratch(oct_lowering *l, oct_dtype dtype, const oct_shape *shape, oct_layout layout, const oct_border *border,
                               oct_slot **out) {
  oct_plan_slot *slot;
  OCT_TRY(oct_plan_slot_new(l->plan, NULL, dtype, layout, border, &slot));
  slot->slot.shape = *shape;
  size_t bytes, origin;
  OCT_TRY(slot_extent(l->plan, &slot->slot, &bytes, &origin));
  OCT_TRY(new_buffer(l->plan, bytes, &slot->slot.buffer));
  slot->slot.offset = origin;
  *out = &slot->slot;
  return OCTET_OK;
}

oct_slot *const *oct_lower_shared(oct_lowering *l, const oct_value *value, const char *key) {
  for (const oct_shared_slots *s = l->plan->values[value->id].shared; s; s = s->next)
    if (strcmp(s->key, key) == 0) return s->slots;
  return NULL;
}

octet_status oct_lower_share(oct_lowering *l, const oct_value *value, const char *key, oct_slot *const *slots, int count) {
  oct_plan *plan = l->plan;
  oct_shared_slots *s = oct_region_alloc(l->ctx, &plan->region, 1, sizeof *s);
  if (!s) return OCTET_OUT_OF_MEMORY;
  s->slots = oct_region_alloc(l->ctx, &plan->region, (size_t)count, sizeof *s->slots);
  s->key = oct_region_strdup(l->ctx, &plan->region, key);
  if (!s->slots || !s->key) return OCTET_OUT_OF_MEMORY;
  memcpy(s->slots, slots, (size_t)count * sizeof *slots);
  s->next = plan->values[value->id].shared;
  plan->values[value->id].shared = s;
  return OCTET_OK;
}

void *oct_lower_memory(oct_lowering *l, size_t count, size_t size) {
  l->plan->constant_bytes += count * size;
  return oct_region_alloc(l->ctx, &l->plan->region, count ? count : 1, size);
}

octet_status oct_lower_packed(oct_lowering *l, const oct_tensor *weights, const char *packing, size_t bytes, void **packed, bool *fresh) {
  if (l->plan->current) l->plan->reports[l->plan->current->id].packed_bytes = bytes;
  return oct_packed_find(l->ctx, l->plan->cache, weights, packing, bytes, packed, fresh);
}
