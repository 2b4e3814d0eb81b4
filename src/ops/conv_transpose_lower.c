/* Lowering of transposed convolution: each phase of the output is an ordinary convolution with the kernel elements that meet it,
 * turned around, and writes into its pixels of the output. So every convolution kernel and what is fused to it serves here too.
 * SPDX-License-Identifier: MIT */
#include "ops/conv_transpose_steps.h"

/* The phases of both image axes; rank-3 problems have height 1. */
static void phase_pair(const oct_window *w, int64_t y, int64_t x, oct_transpose_phase *vertical, oct_transpose_phase *horizontal) {
  *vertical = w->rank == 2 ? oct_transpose_phase_of(w, 0, y) : (oct_transpose_phase){.count = 1, .taps = 1, .dilation = 1};
  *horizontal = oct_transpose_phase_of(w, w->rank - 1, x);
}

static int64_t row_stride(const oct_window *w) { return w->rank == 2 ? w->stride[0] : 1; }
static int64_t row_count(const oct_window *w) { return w->rank == 2 ? w->in[0] : 1; }

/* Pixels that the phases of one axis read before and behind the image, as if all read what any reads. */
static void reach(const oct_window *w, int axis, int64_t *before, int64_t *after) {
  int64_t low = INT64_MAX, high = INT64_MIN, count = 0;
  for (int64_t first = 0; first < w->stride[axis]; first++) {
    oct_transpose_phase p = oct_transpose_phase_of(w, axis, first);
    if (!p.taps || !p.count) continue;
    int64_t last = p.offset + (p.taps - 1) * p.dilation;
    if (p.offset < low) low = p.offset;
    if (last > high) high = last;
    if (p.count > count) count = p.count;
  }
  if (!count) return;
  if (low < 0) *before = -low;
  if (count - 1 + high > w->in[axis] - 1) *after = count - 1 + high - (w->in[axis] - 1);
}

/* Top, left, bottom, right; false when it is beyond the kernels' range. */
static bool border_of(const oct_window *w, int64_t border[4]) {
  memset(border, 0, 4 * sizeof *border);
  if (w->rank == 2) reach(w, 0, &border[0], &border[2]);
  reach(w, w->rank - 1, &border[1], &border[3]);
  for (int i = 0; i < 4; i++)
    if (border[i] > INT16_MAX) return false;
  return true;
}

/* What is beyond the kernels' range, or NULL. Many phases would be many steps. */
static const char *range(const oct_window *w) {
  if (w->rank > 2) return "transposed convolution over more than two spatial axes has no kernel";
  for (int i = 0; i < w->rank; i++)
    if (w->kernel[i] > INT16_MAX || w->dilation[i] > INT16_MAX || w->stride[i] > 16) return "a size is beyond the kernels' range";
  return NULL;
}

void oct_transpose_border(const oct_node *node, int border[4]) {
  const oct_value *x = node->inputs[0], *w = node->inputs[1];
  oct_window window;
  int axis;
  int64_t wanted[4];
  memset(border, 0, 4 * sizeof *border);
  if (!x->has_shape || !w->has_shape || w->shape.rank != x->shape.rank || oct_shape_count(&x->shape) < 1) return;
  if (oct_transpose_window(node, &x->shape, &w->shape.dim[2], &window, &axis) || range(&window) || !border_of(&window, wanted)) return;
  for (int i = 0; i < 4; i++) border[i] = (int)wanted[i];
}

/* ---- Weights ------------------------------------------------------------------------------------------------------- */

/* The phase's weights as [out][in / group][taps of v][taps of h]; without taps one of zero. */
static octet_status gather(const oct_transpose_phases *s, const oct_transpose_phase *v, const oct_transpose_phase *h, oct_tensor **out) {
  const oct_window *w = &s->window;
  int64_t rows = v->taps ? v->taps : 1, columns = h->taps ? h->taps : 1, width = w->kernel[w->rank - 1],
          taps = (w->rank == 2 ? w->kernel[0] : 1) * width;
  const int8_t *bytes = s->weights->tensor->data;
  oct_shape shape = oct_shape_of(4, s->out_channels, s->group_in, rows, columns);
  OCT_TRY(oct_tensor_create(s->l->ctx, s->floats ? OCT_F32 : OCT_I8, &shape, out));
  memset((*out)->data, 0, (*out)->bytes);
  if (!v->taps || !h->taps) return OCTET_OK;
  int64_t at = 0;
  for (int64_t o = 0; o < s->out_channels; o++)
    for (int64_t c = 0; c < s->group_in; c++) {
      int64_t from = ((o / s->group_out * s->group_in + c) * s->group_out + o % s->group_out) * taps;
      for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++, at++) {
          int64_t tap = from + (v->tap + i * v->tap_step) * width + h->tap + j * h->tap_step;
          if (s->floats) ((float *)(*out)->data)[at] = s->floats[tap];
          else ((int8_t *)(*out)->data)[at] = bytes[tap];
        }
    }
  return OCTET_OK;
}

/* Scales per output channel of all groups. */
static octet_status spread_scales(oct_transpose_phases *s) {
  const oct_quant *q = s->weights->quant;
  s->quant = *q;
  if (q->count == 1) { /* one scale for all, or one output channel */
    s->quant.axis = -1;
    return OCTET_OK;
  }
  s->quant.axis = 0, s->quant.count = s->out_channels;
  s->quant.scale = oct_lower_memory(s->l, (size_t)s->out_channels, sizeof(float));
  s->quant.zero_point = oct_lower_memory(s->l, (size_t)s->out_channels, sizeof(int32_t));
  if (!s->quant.scale || !s->quant.zero_point) return OCTET_OUT_OF_MEMORY;
  for (int64_t o = 0; o < s->out_channels; o++) s->quant.scale[o] = q->scale[q->axis == 1 ? o % s->group_out : o];
  return OCTET_OK;
}

/* ---- Steps --------------------------------------------------------------------------------------------------------- */

oct_conv_shape oct_transpose_shape(const oct_transpose_phases *s, const oct_transpose_phase *v, const oct_transpose_phase *h) {
  const oct_shape *x = &s->node->inputs[0]->shape;
  return (oct_conv_shape){.batch = x->dim[0],
                          .in_h = row_count(&s->window),
                          .in_w = s->window.in[s->window.rank - 1],
                          .channels = x->dim[1],
                          .out_h = v->count,
                          .out_w = h->count,
                          .out_channels = s->out_channels,
                          .kernel_h = v->taps ? (int)v->taps : 1,
                          .kernel_w = h->taps ? (int)h->taps : 1,
                          .stride_h = 1,
                          .stride_w = 1,
                          .dilation_h = (int)v->dilation,
                          .dilation_w = (int)h->dilation,
                          .pad_top = v->offset < 0 ? (int)-v->offset : 0,
                          .pad_left = h->offset < 0 ? (int)-h->offset : 0,
                          .groups = (int)oct_node_int(s->node, "group")};
}

static octet_status lower_phase(const oct_transpose_phases *s, const oct_transpose_phase *v, const oct_transpose_phase *h,
                                oct_accumulate_part *part) {
  oct_tensor *tensor = NULL;
  oct_value weights = *s->weights;
  oct_quant quant = s->quant;
  part->y = v->first, part->x = h->first;
  part->in_y = v->offset > 0 ? v->offset : 0, part->in_x = h->offset > 0 ? h->offset : 0;
  part->empty = !v->taps || !h->taps;
  octet_status status = gather(s, v, h, &tensor);
  weights.tensor = tensor;
  weights.shape = tensor ? tensor->shape : weights.shape;
  weights.quant = s->floats ? NULL : &quant;
  const oct_node *node = s->node;
  oct_accumulate_problem p = {.node = s->node,
                              .input = node->inputs[0],
                              .weights = &weights,
                              .bias = node->n_inputs > 2 ? node->inputs[2] : NULL,
                              .shape = oct_transpose_shape(s, v, h),
                              .spatial = true,
                              .alpha = 1,
                              .part = part};
  p.pad_bottom = (int)part->border[2], p.pad_right = (int)part->border[3];
  if (status == OCTET_OK) status = oct_accumulate_lower(s->l, &p);
  oct_tensor_release(tensor);
  return status;
}

/* A whole-kernel problem for which only the question is asked whether its accumulators fit. */
static octet_status fits_integers(const oct_transpose_phases *s, bool *fits) {
  const oct_node *node = s->node;
  oct_transpose_phase v = {.count = 1, .taps = s->window.rank == 2 ? s->window.kernel[0] : 1, .tap_step = 1, .dilation = 1};
  oct_transpose_phase h = {.count = 1, .taps = s->window.kernel[s->window.rank - 1], .tap_step = 1, .dilation = 1};
  oct_tensor *tensor = NULL;
  oct_value weights = *s->weights;
  oct_quant quant = s->quant;
  octet_status status = gather(s, &v, &h, &tensor);
  weights.tensor = tensor, weights.quant = &quant;
  oct_accumulate_problem p = {
      .node = s->node, .input = node->inputs[0], .weights = &weights, .bias = node->n_inputs > 2 ? node->inputs[2] : NULL, .alpha = 1};
  p.shape = oct_transpose_shape(s, &v, &h);
  if (status == OCTET_OK) status = oct_accumulate_fits(s->l, &p, fits);
  oct_tensor_release(tensor);
  return status;
}

/* int8 weights that meet an 8-bit input stay as they are, as long as no accumulator can overflow; else the weights become floats. */
static octet_status choose_weights(oct_transpose_phases *s) {
  const oct_value *w = s->weights, *x = s->node->inputs[0];
  bool fits = false, int8 = w->quant && oct_weight_is_int8(w, w->quant->axis < 0 ? 0 : w->quant->axis);
  if (int8 && w->quant->count > 1) /* per output channel: axis 1, or axis 0 where that is the same */
    int8 = w->quant->axis == 1 || (w->quant->axis == 0 && s->group_in == 1 && s->group_out == 1);
  if (int8 && oct_lower_dtype(s->l, x) == OCT_U8) {
    OCT_TRY(spread_scales(s));
    OCT_TRY(fits_integers(s, &fits));
  }
  return fits ? OCTET_OK : oct_lower_constant_f32(s->l, w, &s->floats);
}

/* The phase that comes last ends what the phases share. */
static octet_status lower_phases(const oct_transpose_phases *s) {
  const oct_window *w = &s->window;
  oct_slot *out = NULL;
  oct_accumulate_part part = {.source = s->weights->tensor, .step_y = row_stride(w), .step_x = w->stride[w->rank - 1], .out = &out};
  if (!border_of(w, part.border)) return oct_lower_decline(s->l, "the border is beyond the kernels' range");
  bool done;
  OCT_TRY(oct_transpose_merge(s, part.border, &done));
  if (done) return OCTET_OK;
  int64_t rows = w->rank == 2 ? w->out[0] : 1, columns = w->out[w->rank - 1];
  if (rows > part.step_y) rows = part.step_y;
  if (columns > part.step_x) columns = part.step_x;
  for (int64_t y = 0; y < rows; y++)
    for (int64_t x = 0; x < columns; x++) {
      oct_transpose_phase v, h;
      phase_pair(w, y, x, &v, &h);
      part.number = (int)(y * columns + x);
      part.last = y + 1 == rows && x + 1 == columns;
      OCT_TRY(lower_phase(s, &v, &h, &part));
    }
  return OCTET_OK;
}

octet_status oct_transpose_lower(oct_lowering *l, oct_node *node) {
  const oct_value *x = node->inputs[0], *w = node->inputs[1];
  int64_t kernel[OCT_WINDOW_MAX];
  int axis;
  oct_transpose_phases s = {.l = l, .node = node, .weights = w};
  if (oct_shape_count(&node->outputs[0]->shape) < 1 || oct_shape_count(&x->shape) < 1 || oct_shape_count(&w->shape) < 1)
    return oct_lower_decline(l, "a dimension is zero");
  if (!oct_constant_of(w)) return oct_lower_decline(l, "the weights '%s' are not constant", w->name);
  if (x->dtype != OCT_F32 || w->dtype != OCT_F32)
    return oct_lower_decline(l, "only f32 has a kernel, the input is %s", oct_dtype_name(x->dtype));
  OCT_TRY(oct_window_kernel(l->ctx, node, &w->shape, x->shape.rank - 2, kernel));
  const char *why = oct_transpose_window(node, &x->shape, kernel, &s.window, &axis);
  if (!why) why = range(&s.window);
  if (why) return oct_lower_decline(l, "%s", why);
  int64_t group = oct_node_int(node, "group");
  s.group_in = w->shape.dim[0] / group, s.group_out = w->shape.dim[1], s.out_channels = s.group_out * group;
  OCT_TRY(choose_weights(&s));
  return lower_phases(&s);
}
