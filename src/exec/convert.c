/* Steps that change the form of a value: element type (quantize, dequantize, another scale), layout, border; and the border fill.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "exec/plan.h"

typedef enum conversion { CONVERT_COPY, CONVERT_QUANTIZE, CONVERT_DEQUANTIZE, CONVERT_TABLE } conversion;

typedef struct convert_params {
  const char *from;
  char *to;
  conversion kind;
  size_t from_size, to_size; /* bytes of an element */
  oct_loops loops;           /* operand 0: to, operand 1: from */
  /* between plain [N,C,H,W] and channels-last, by pieces of image rows: the fast form of what the loops say */
  int64_t channels, height, width, piece, pieces; /* without a border, all of an image is one row */
  int64_t plane;                                  /* elements of a channel in the plain form */
  int64_t image, row;                             /* elements, of the channels-last form */
  float scale;
  int32_t zero_point;
  uint8_t table[256];
  const oct_vector_kernels *vector;
} convert_params;

static void copy_strided(size_t size, int64_t n, const char *from, int64_t from_stride, char *to, int64_t to_stride) {
#define COPY(type) \
  for (int64_t i = 0; i < n; i++) ((type *)(void *)to)[i * to_stride] = ((const type *)(const void *)from)[i * from_stride]
  if (from_stride == 1 && to_stride == 1) memcpy(to, from, (size_t)n * size);
  else if (size == 1) COPY(uint8_t);
  else if (size == 2) COPY(uint16_t);
  else if (size == 4) COPY(uint32_t);
  else COPY(uint64_t);
#undef COPY
}

static void convert_run(const convert_params *p, int64_t n, const char *from, int64_t from_stride, char *to, int64_t to_stride) {
  bool dense = from_stride == 1 && to_stride == 1;
  const float *f = (const float *)(const void *)from;
  const uint8_t *u = (const uint8_t *)from;
  switch (p->kind) {
    case CONVERT_COPY: copy_strided(p->to_size, n, from, from_stride, to, to_stride); return;
    case CONVERT_QUANTIZE:
      if (dense) {
        p->vector->quantize_f32_u8((size_t)n, f, (uint8_t *)to, p->scale, p->zero_point);
        return;
      }
      for (int64_t i = 0; i < n; i++)
        ((uint8_t *)to)[i * to_stride] = (uint8_t)oct_quantize(f[i * from_stride], p->scale, p->zero_point, 0, 255);
      return;
    case CONVERT_DEQUANTIZE:
      if (dense) {
        p->vector->dequantize_u8_f32((size_t)n, u, (float *)(void *)to, p->scale, p->zero_point);
        return;
      }
      for (int64_t i = 0; i < n; i++) ((float *)(void *)to)[i * to_stride] = oct_dequantize(u[i * from_stride], p->scale, p->zero_point);
      return;
    case CONVERT_TABLE:
      if (dense) {
        p->vector->table_u8((size_t)n, u, (uint8_t *)to, p->table);
        return;
      }
      for (int64_t i = 0; i < n; i++) ((uint8_t *)to)[i * to_stride] = p->table[u[i * from_stride]];
      return;
  }
}

static octet_status run_loops(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const convert_params *p = params;
  int inner = p->loops.rank - 1;
  oct_loops_cursor at;
  oct_loops_start(&p->loops, begin, 2, &at);
  for (size_t r = begin; r < end; r++) {
    convert_run(p, p->loops.count[inner], p->from + at.offset[1] * (int64_t)p->from_size, p->loops.stride[1][inner],
                p->to + at.offset[0] * (int64_t)p->to_size, p->loops.stride[0][inner]);
    oct_loops_next(&p->loops, 2, &at);
  }
  return OCTET_OK;
}

static void transpose(const convert_params *p, size_t size, int64_t rows, int64_t columns, const char *x, int64_t x_row, char *y,
                      int64_t y_row) {
  if (size == 1) p->vector->transpose_u8((size_t)rows, (size_t)columns, (const uint8_t *)x, x_row, (uint8_t *)y, y_row);
  else p->vector->transpose_u32((size_t)rows, (size_t)columns, (const uint32_t *)(const void *)x, x_row, (uint32_t *)(void *)y, y_row);
}

/* A unit: `n` pixels side by side, all channels. `plain` and `last` are offsets in elements. */
typedef struct piece {
  int64_t n, plain, last;
} piece;

static piece piece_of(const convert_params *p, size_t unit) {
  int64_t x = (int64_t)unit % p->pieces * p->piece, line = (int64_t)unit / p->pieces, y = line % p->height, image = line / p->height;
  return (piece){.n = p->width - x < p->piece ? p->width - x : p->piece,
                 .plain = image * p->channels * p->plane + y * p->width + x,
                 .last = image * p->image + y * p->row + x * p->channels};
}

/* Each channel's pixels are converted into the workspace, then spread. */
static octet_status run_to_pixels(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx;
  const convert_params *p = params;
  for (size_t unit = begin; unit < end; unit++) {
    piece at = piece_of(p, unit);
    const char *from = p->from + at.plain * (int64_t)p->from_size;
    char *to = p->to + at.last * (int64_t)p->to_size, *rows = workspace;
    if (p->kind == CONVERT_COPY) {
      transpose(p, p->to_size, p->channels, at.n, from, p->plane, to, p->channels);
      continue;
    }
    for (int64_t c = 0; c < p->channels; c++)
      convert_run(p, at.n, from + c * p->plane * (int64_t)p->from_size, 1, rows + c * at.n * (int64_t)p->to_size, 1);
    transpose(p, p->to_size, p->channels, at.n, rows, at.n, to, p->channels);
  }
  return OCTET_OK;
}

/* The same for a few channels: a kernel of its own, given whole rows of an image at once. */
static octet_status run_quantize_planes(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const convert_params *p = params;
  for (size_t unit = begin, rows = 1; unit < end; unit += rows) {
    piece at = piece_of(p, unit);
    if (p->pieces == 1) rows = (size_t)p->height - unit % (size_t)p->height;
    if (rows > end - unit) rows = end - unit;
    p->vector->quantize_planes_u8(rows, (size_t)at.n, (size_t)p->channels, (const float *)(const void *)p->from + at.plain, p->width,
                                  p->plane, (uint8_t *)p->to + at.last, p->row, p->scale, p->zero_point);
  }
  return OCTET_OK;
}

/* The way back: channels are gathered in the workspace, then converted. */
static octet_status run_to_planes(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx;
  const convert_params *p = params;
  for (size_t unit = begin; unit < end; unit++) {
    piece at = piece_of(p, unit);
    const char *from = p->from + at.last * (int64_t)p->from_size;
    char *to = p->to + at.plain * (int64_t)p->to_size, *rows = workspace;
    if (p->kind == CONVERT_COPY) {
      transpose(p, p->to_size, at.n, p->channels, from, p->channels, to, p->plane);
      continue;
    }
    transpose(p, p->from_size, at.n, p->channels, from, p->channels, rows, at.n);
    for (int64_t c = 0; c < p->channels; c++)
      convert_run(p, at.n, rows + c * at.n * (int64_t)p->from_size, 1, to + c * p->plane * (int64_t)p->to_size, 1);
  }
  return OCTET_OK;
}

/* Between the layouts of an image; every other change of form goes by the loops. */
static void use_planes(convert_params *p, oct_step *step, const oct_slot *from, const oct_slot *to) {
  bool spread = to->layout == OCT_LAYOUT_CHANNELS_LAST;
  const oct_shape *s = &to->shape;
  size_t middle = spread ? p->to_size : p->from_size;
  bool planes = spread && p->kind == CONVERT_QUANTIZE && s->dim[1] <= OCT_QUANTIZE_PLANES;
  bool sizes = (p->from_size == 1 || p->from_size == 4) && (p->to_size == 1 || p->to_size == 4);
  if (from->layout == to->layout || s->rank != 4 || s->dim[1] < (planes ? 1 : 2) || !step->units || !sizes) return;
  oct_view v = oct_slot_view(spread ? to : from);
  p->channels = s->dim[1];
  p->plane = s->dim[2] * s->dim[3];
  p->image = v.image, p->row = v.row;
  bool one_row = v.row == s->dim[3] * s->dim[1];
  p->height = one_row ? 1 : s->dim[2];
  p->width = one_row ? p->plane : s->dim[3];
  p->piece = (32768 / (p->channels * (int64_t)middle) + 15) / 16 * 16; /* what is gathered stays in the first-level cache */
  if (p->piece < 16) p->piece = 16;
  if (p->piece > p->width) p->piece = p->width;
  p->pieces = (p->width + p->piece - 1) / p->piece;
  step->run = planes ? run_quantize_planes : spread ? run_to_pixels : run_to_planes;
  step->units = (size_t)(s->dim[0] * p->height * p->pieces);
  step->workspace_bytes = (size_t)(p->channels * p->piece) * middle;
  step->grain = (size_t)(1 + 4096 / (p->channels * p->piece));
}

static octet_status set_kind(oct_plan *plan, const oct_slot *from, const oct_slot *to, convert_params *p) {
  p->kind = CONVERT_COPY;
  if (from->dtype == OCT_F32 && to->dtype == OCT_U8 && to->quantized) {
    p->kind = CONVERT_QUANTIZE;
    p->scale = to->scale;
    p->zero_point = to->zero_point;
  } else if (from->dtype == OCT_U8 && to->dtype == OCT_F32 && from->quantized) {
    p->kind = CONVERT_DEQUANTIZE;
    p->scale = from->scale;
    p->zero_point = from->zero_point;
  } else if (from->dtype != to->dtype) {
    return oct_fail(plan->lowering.ctx, OCTET_UNSUPPORTED, "value \"%s\": no conversion from %s to %s",
                    to->value ? to->value->name : "scratch", oct_dtype_name(from->dtype), oct_dtype_name(to->dtype));
  } else if (from->quantized && to->quantized && (from->scale != to->scale || from->zero_point != to->zero_point)) {
    p->kind = CONVERT_TABLE;
    for (int q = 0; q < 256; q++)
      p->table[q] = (uint8_t)oct_quantize(oct_dequantize(q, from->scale, from->zero_point), to->scale, to->zero_point, 0, 255);
  }
  return OCTET_OK;
}

static const char *conversion_name(conversion kind) {
  static const char *const names[] = {"copy", "quantize", "dequantize", "requantize"};
  return names[kind];
}

octet_status oct_plan_convert(oct_plan *plan, oct_slot *from, oct_slot *to) {
  oct_lowering *l = &plan->lowering;
  convert_params *p;
  oct_step *step;
  convert_params kind = {0};
  OCT_TRY(set_kind(plan, from, to, &kind));
  OCT_TRY(oct_lower_step(l, plan->current, conversion_name(kind.kind), run_loops, sizeof *p, &p, &step));
  step->form = true;
  *p = kind;
  p->vector = l->vector;
  p->from_size = oct_dtype_size(from->dtype);
  p->to_size = oct_dtype_size(to->dtype);
  const oct_shape *s = &to->shape;
  int64_t strides[2][OCT_MAX_RANK];
  oct_slot_strides(to, s->rank, strides[0]);
  oct_slot_strides(from, s->rank, strides[1]);
  oct_loops_make(&p->loops, 2, s, strides);
  step->units = oct_shape_count(s) ? oct_loops_rows(&p->loops) : 0;
  int64_t inner = p->loops.count[p->loops.rank - 1];
  step->grain = inner >= 4096 ? 1 : (size_t)(4096 / (inner > 0 ? inner : 1));
  use_planes(p, step, from, to);
  OCT_TRY(oct_lower_read(l, step, &p->from, from));
  return oct_lower_write(l, step, &p->to, to);
}

typedef struct border_params {
  char *to;                                         /* logical element 0 of image 0 */
  int64_t images, image, row, pixel, height, width; /* strides in bytes */
  oct_border border;
  int value;
} border_params;

static octet_status run_border(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const border_params *p = params;
  for (size_t n = begin; n < end; n++) {
    char *origin = p->to + (int64_t)n * p->image;
    char *start = origin - p->border.top * p->row - p->border.left * p->pixel;
    /* From the first byte to pixel (0,0), then from the end of each row to the next row's first pixel, then to the last byte. */
    size_t gap = (size_t)((p->border.left + p->border.right) * p->pixel);
    memset(start, p->value, (size_t)(origin - start));
    for (int64_t y = 0; y + 1 < p->height; y++) memset(origin + y * p->row + p->width * p->pixel, p->value, gap);
    char *last = origin + (p->height - 1) * p->row + p->width * p->pixel;
    memset(last, p->value, (size_t)(p->border.right * p->pixel + p->border.bottom * p->row));
  }
  return OCTET_OK;
}

bool oct_plan_border(const oct_step *step, oct_border *border, int *value) {
  if (step->run != run_border) return false;
  const border_params *p = step->params;
  *border = p->border;
  *value = p->value;
  return true;
}

bool oct_plan_same_border(const oct_step *a, const oct_step *b) {
  const border_params *p = a->params, *q = b->params;
  bool geometry = p->images == q->images && p->image == q->image && p->row == q->row && p->pixel == q->pixel && p->height == q->height &&
                  p->width == q->width;
  bool border = p->border.top == q->border.top && p->border.left == q->border.left && p->border.bottom == q->border.bottom &&
                p->border.right == q->border.right;
  return a->run == run_border && b->run == run_border && geometry && border && p->value == q->value;
}

octet_status oct_plan_fill_border(oct_plan *plan, oct_slot *slot) {
  oct_lowering *l = &plan->lowering;
  border_params *p;
  oct_step *step;
  const oct_shape *s = &slot->shape;
  if (oct_shape_count(s) == 0) return OCTET_OK;
  OCT_TRY(oct_lower_step(l, plan->current, "fill_border", run_border, sizeof *p, &p, &step));
  oct_view v = oct_slot_view(slot);
  int64_t size = (int64_t)oct_dtype_size(slot->dtype);
  *p = (border_params){.image = v.image * size, .row = v.row * size, .pixel = v.pixel * size, .border = slot->border};
  p->images = s->dim[0];
  p->height = s->rank > 3 ? s->dim[s->rank - 2] : 1;
  p->width = s->dim[s->rank - 1];
  p->value = slot->quantized ? slot->zero_point : 0;
  step->form = true;
  step->units = (size_t)s->dim[0];
  plan->is_border[plan->n_steps - 1] = true;
  return oct_lower_write(l, step, &p->to, slot);
}

typedef struct round_params {
  float *values; /* logical element 0 */
  const oct_quant *quant;
  oct_loops loops;
  int64_t count, inner; /* with a scale per slice of an axis: elements, and elements between two slices */
  int32_t low, high;
} round_params;

static float round_value(const round_params *p, float x, int64_t c) {
  float scale = p->quant->scale[c];
  int32_t zero_point = p->quant->zero_point[c];
  return oct_dequantize(oct_quantize(x, scale, zero_point, p->low, p->high), scale, zero_point);
}

static octet_status run_round(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const round_params *p = params;
  int inner = p->loops.rank - 1;
  for (int64_t i = 0; p->quant->axis >= 0 && i < p->count; i++) p->values[i] = round_value(p, p->values[i], i / p->inner % p->quant->count);
  for (size_t r = begin; p->quant->axis < 0 && r < end; r++) {
    int64_t offset;
    oct_loops_row(&p->loops, r, 1, &offset);
    for (int64_t i = 0; i < p->loops.count[inner]; i++) {
      float *x = p->values + offset + i * p->loops.stride[0][inner];
      *x = round_value(p, *x, 0);
    }
  }
  return OCTET_OK;
}

octet_status oct_plan_round(oct_plan *plan, oct_slot *slot, const oct_quant *quant) {
  oct_lowering *l = &plan->lowering;
  bool plain = oct_layouts_agree(&slot->shape, slot->layout, OCT_LAYOUT_PLAIN) &&
               slot->border.top + slot->border.left + slot->border.bottom + slot->border.right == 0;
  if (slot->dtype != OCT_F32 || (quant->axis >= 0 && !plain))
    return oct_fail(l->ctx, OCTET_UNSUPPORTED,
                    "value \"%s\": %s quantization of an activation per slice of an axis needs a plain float form", slot->value->name,
                    oct_dtype_name(quant->dtype));
  round_params *p;
  oct_step *step;
  OCT_TRY(oct_lower_step(l, plan->current, "fake_quantize", run_round, sizeof *p, &p, &step));
  step->form = true;
  static const struct {
    oct_dtype dtype;
    int32_t low, high;
  } ranges[] = {{OCT_U8, 0, 255}, {OCT_I8, -128, 127}, {OCT_U16, 0, 65535}, {OCT_I16, -32768, 32767}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (ranges[i].dtype == quant->dtype) p->low = ranges[i].low, p->high = ranges[i].high;
  if (p->low == p->high)
    return oct_fail(l->ctx, OCTET_UNSUPPORTED, "value \"%s\": activations quantized to %s are not supported", slot->value->name,
                    oct_dtype_name(quant->dtype));
  p->quant = quant;
  p->count = oct_shape_count(&slot->shape);
  p->inner = 1;
  for (int d = quant->axis + 1; quant->axis >= 0 && d < slot->shape.rank; d++) p->inner *= slot->shape.dim[d];
  int64_t strides[1][OCT_MAX_RANK];
  oct_slot_strides(slot, slot->shape.rank, strides[0]);
  oct_loops_make(&p->loops, 1, &slot->shape, strides);
  if (p->count == 0) step->units = 0;
  else if (quant->axis < 0) step->units = oct_loops_rows(&p->loops);
  return oct_lower_write(l, step, &p->values, slot);
}
