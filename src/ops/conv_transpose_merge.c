/* Transposed convolution with few output channels as one convolution: the phases become its channels, so that they fill the lanes of a
 * vector together. Its kernel covers what any phase reads, with zeros elsewhere; its result is dealt out to the phases' pixels by a
 * step of its own.
 * SPDX-License-Identifier: MIT */
#include "ops/conv_transpose_steps.h"

#define MERGED_LANES 64 /* most channels of the one convolution */

/* Along one axis: how many phases, results of each, and the union of what they read. */
typedef struct merged_axis {
  int64_t phases, count, low, taps;
} merged_axis;

static oct_transpose_phase phase_at(const oct_window *w, int axis, int64_t first) {
  if (axis >= 0) return oct_transpose_phase_of(w, axis, first);
  return (oct_transpose_phase){.count = 1, .taps = 1, .dilation = 1};
}

/* false: the phases do not fit one kernel. */
static bool merge_axis(const oct_window *w, int axis, merged_axis *m) {
  int64_t high = INT64_MIN;
  *m = (merged_axis){.phases = axis < 0 ? 1 : w->stride[axis], .low = INT64_MAX};
  for (int64_t first = 0; first < m->phases; first++) {
    oct_transpose_phase p = phase_at(w, axis, first);
    if (p.taps < 1 || p.count < 1 || (p.dilation != 1 && p.taps > 1)) return false;
    if (p.offset < m->low) m->low = p.offset;
    if (p.offset + p.taps - 1 > high) high = p.offset + p.taps - 1;
    if (p.count > m->count) m->count = p.count;
  }
  m->taps = high - m->low + 1;
  return true;
}

/* Whether one convolution takes fewer vectors of 16 channels than one per phase, the zeros of its kernel counted. */
static bool pays(const oct_transpose_phases *s, const merged_axis *v, const merged_axis *h) {
  const oct_window *w = &s->window;
  int64_t phases = v->phases * h->phases, channels = phases * s->out_channels,
          taps = w->kernel[w->rank - 1] * (w->rank == 2 ? w->kernel[0] : 1);
  int64_t apart = (s->out_channels + 15) / 16 * taps, together = (channels + 15) / 16 * v->taps * h->taps;
  return phases > 1 && channels <= MERGED_LANES && 2 * together <= apart;
}

/* [phase][out] x [in][taps of v][taps of h] */
static octet_status gather_all(const oct_transpose_phases *s, const merged_axis *v, const merged_axis *h, oct_tensor **out) {
  const oct_window *w = &s->window;
  int64_t width = w->kernel[w->rank - 1], taps = (w->rank == 2 ? w->kernel[0] : 1) * width, rows = v->taps, columns = h->taps;
  oct_shape shape = oct_shape_of(4, v->phases * h->phases * s->out_channels, s->group_in, rows, columns);
  OCT_TRY(oct_tensor_create(s->l->ctx, s->floats ? OCT_F32 : OCT_I8, &shape, out));
  memset((*out)->data, 0, (*out)->bytes);
  for (int64_t phase = 0; phase < v->phases * h->phases; phase++) {
    oct_transpose_phase y = phase_at(w, w->rank == 2 ? 0 : -1, phase / h->phases), x = phase_at(w, w->rank - 1, phase % h->phases);
    for (int64_t o = 0; o < s->out_channels; o++)
      for (int64_t c = 0; c < s->group_in; c++)
        for (int64_t i = 0; i < y.taps; i++)
          for (int64_t j = 0; j < x.taps; j++) {
            int64_t from = (c * s->out_channels + o) * taps + (y.tap + i * y.tap_step) * width + x.tap + j * x.tap_step;
            int64_t to =
                (((phase * s->out_channels + o) * s->group_in + c) * rows + y.offset - v->low + i) * columns + x.offset - h->low + j;
            if (s->floats) ((float *)(*out)->data)[to] = s->floats[from];
            else ((int8_t *)(*out)->data)[to] = ((const int8_t *)s->weights->tensor->data)[from];
          }
  }
  return OCTET_OK;
}

/* Parameters per output channel, repeated for every phase. */
static octet_status repeat_quant(oct_lowering *l, const oct_quant *q, int64_t times, oct_quant *out) {
  *out = *q;
  if (q->count == 1) return OCTET_OK;
  out->count = q->count * times;
  out->scale = oct_lower_memory(l, (size_t)out->count, sizeof(float));
  out->zero_point = oct_lower_memory(l, (size_t)out->count, sizeof(int32_t));
  if (!out->scale || !out->zero_point) return OCTET_OUT_OF_MEMORY;
  for (int64_t i = 0; i < out->count; i++) out->scale[i] = q->scale[i % q->count], out->zero_point[i] = q->zero_point[i % q->count];
  return OCTET_OK;
}

static octet_status repeat_bias(const oct_transpose_phases *s, int64_t times, const oct_value *bias, oct_value *value, oct_quant *quant) {
  const oct_tensor *from = bias->tensor;
  oct_shape shape = oct_shape_of(1, s->out_channels * times);
  *value = *bias;
  value->tensor = NULL;
  OCT_TRY(oct_tensor_create(s->l->ctx, from->dtype, &shape, &value->tensor));
  size_t each = from->bytes / (size_t)s->out_channels;
  for (int64_t i = 0; i < s->out_channels * times; i++)
    memcpy((char *)value->tensor->data + (size_t)i * each, (const char *)from->data + (size_t)(i % s->out_channels) * each, each);
  if (!bias->quant) return OCTET_OK;
  value->quant = quant;
  return repeat_quant(s->l, bias->quant, times, quant);
}

/* ---- The step that deals out -------------------------------------------------------------------------------------- */

typedef struct deal_step {
  oct_view in, out;
  int64_t in_h, in_w, out_h, out_w, phases_h, phases_w, channels;
  size_t element;
} deal_step;

/* Units are output rows: of each pixel of the convolution's row, the channels of one row of phases lie as the pixels want them. */
static octet_status run_deal(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const deal_step *s = params;
  for (size_t unit = begin; unit < end; unit++) {
    int64_t n = (int64_t)unit / s->out_h, y = (int64_t)unit % s->out_h;
    const char *from = (const char *)oct_view_at(&s->in, s->element, n, y / s->phases_h, 0) +
                       (size_t)(y % s->phases_h * s->phases_w * s->channels) * s->element;
    char *to = oct_view_at(&s->out, s->element, n, y, 0);
    for (int64_t x = 0; x < s->out_w; x += s->phases_w) {
      int64_t pixels = s->out_w - x < s->phases_w ? s->out_w - x : s->phases_w;
      memcpy(to, from, (size_t)(pixels * s->channels) * s->element);
      from += (size_t)s->in.pixel * s->element;
      to += (size_t)(s->phases_w * s->out.pixel) * s->element;
    }
  }
  return OCTET_OK;
}

static octet_status deal(const oct_transpose_phases *s, const merged_axis *v, const merged_axis *h, oct_slot *from, oct_slot *to) {
  deal_step *d;
  oct_step *step;
  const oct_shape *y = &s->node->outputs[0]->shape;
  OCT_TRY(oct_lower_step(s->l, s->node, "deal_phases", run_deal, sizeof *d, &d, &step));
  *d = (deal_step){.in = oct_slot_view(from),
                   .out = oct_slot_view(to),
                   .out_h = y->rank == 4 ? y->dim[2] : 1,
                   .out_w = y->dim[y->rank - 1],
                   .phases_h = v->phases,
                   .phases_w = h->phases,
                   .channels = s->out_channels,
                   .element = oct_dtype_size(from->dtype)};
  step->units = (size_t)(y->dim[0] * d->out_h);
  step->grain = 1 + 16384 / ((size_t)(d->out_w * d->channels) + 1);
  OCT_TRY(oct_lower_read(s->l, step, &d->in.data, from));
  return oct_lower_write(s->l, step, &d->out.data, to);
}

/* ---- Lowering ------------------------------------------------------------------------------------------------------ */

static const oct_value *bias_of(const oct_transpose_phases *s, const oct_fusion *f) {
  return f->bias ? f->bias : s->node->n_inputs > 2 ? s->node->inputs[2] : NULL;
}

static bool can_merge(const oct_transpose_phases *s, const oct_fusion *f, merged_axis *v, merged_axis *h) {
  const oct_window *w = &s->window;
  const oct_value *bias = bias_of(s, f);
  if (oct_node_int(s->node, "group") != 1 || f->residual) return false;
  if (f->table && (s->floats || oct_lower_dtype(s->l, f->output) != OCT_U8)) return false;
  if (bias && (!oct_constant_of(bias) || oct_shape_count(&bias->tensor->shape) != s->out_channels)) return false;
  return merge_axis(w, w->rank == 2 ? 0 : -1, v) && merge_axis(w, w->rank - 1, h) && pays(s, v, h);
}

octet_status oct_transpose_merge(const oct_transpose_phases *s, const int64_t border[4], bool *done) {
  oct_fusion fusion = oct_lower_fusion(s->l, s->node);
  merged_axis v, h;
  *done = false;
  if (!can_merge(s, &fusion, &v, &h)) return OCTET_OK;
  *done = true;
  const oct_shape *x = &s->node->inputs[0]->shape;
  int64_t phases = v.phases * h.phases;
  oct_slot *out = NULL;
  oct_value weights = *s->weights, bias = {0};
  oct_quant quant, bias_quant;
  oct_accumulate_part part = {.source = s->weights->tensor, .number = -1, .last = true, .step_y = 1, .step_x = 1, .out = &out};
  memcpy(part.border, border, sizeof part.border);
  part.in_y = v.low > 0 ? v.low : 0, part.in_x = h.low > 0 ? h.low : 0;
  part.scratch = oct_shape_of(4, x->dim[0], phases * s->out_channels, v.count, h.count);
  weights.tensor = NULL;
  oct_accumulate_problem p = {
      .node = s->node, .input = s->node->inputs[0], .weights = &weights, .spatial = true, .alpha = 1, .part = &part};
  p.pad_bottom = (int)border[2], p.pad_right = (int)border[3];
  oct_transpose_phase vertical = {.count = v.count, .taps = v.taps, .offset = v.low, .dilation = 1};
  oct_transpose_phase horizontal = {.count = h.count, .taps = h.taps, .offset = h.low, .dilation = 1};
  p.shape = oct_transpose_shape(s, &vertical, &horizontal);
  p.shape.out_channels = phases * s->out_channels;
  octet_status status = gather_all(s, &v, &h, &weights.tensor);
  if (weights.tensor) weights.shape = weights.tensor->shape;
  weights.quant = s->floats ? NULL : &quant;
  if (status == OCTET_OK && !s->floats) status = repeat_quant(s->l, &s->quant, phases, &quant);
  if (status == OCTET_OK && bias_of(s, &fusion)) {
    status = repeat_bias(s, phases, bias_of(s, &fusion), &bias, &bias_quant);
    part.bias = &bias;
  }
  if (status == OCTET_OK) status = oct_accumulate_lower(s->l, &p);
  if (status == OCTET_OK) status = deal(s, &v, &h, out, part.result);
  oct_tensor_release(weights.tensor);
  oct_tensor_release(bias.tensor);
  return status;
}
