/* Lowering of convolution, gemm and matmul: choice of the path, inputs and outputs as kernels want them, and the float path.
 * The integer paths are in accumulate_i8.c.
 * SPDX-License-Identifier: MIT */
#include "ops/accumulate_parts.h"

#include <stdio.h>

/* ---- Inputs and outputs --------------------------------------------------------------------------------------- */

octet_status oct_accumulate_input(oct_accumulate *a, const oct_value *value, oct_dtype dtype, bool with_border, oct_slot **out) {
  const oct_accumulate_problem *p = a->p;
  oct_border border = {p->shape.pad_top, p->shape.pad_left, p->pad_bottom, p->pad_right};
  if (p->part) border.top = (int)p->part->border[0], border.left = (int)p->part->border[1];
  oct_layout layout = p->spatial ? OCT_LAYOUT_CHANNELS_LAST : OCT_LAYOUT_PLAIN;
  return oct_lower_input(a->l, value, dtype, layout, p->spatial && with_border ? &border : NULL, out);
}

octet_status oct_accumulate_output(oct_accumulate *a, oct_dtype dtype, oct_slot **out) {
  oct_value *y = a->fusion.output;
  oct_layout layout = a->p->spatial ? OCT_LAYOUT_CHANNELS_LAST : OCT_LAYOUT_PLAIN;
  oct_accumulate_part *part = a->p->part;
  if (part && *part->out) {
    *out = *part->out;
    return OCTET_OK;
  }
  if (a->table_after) OCT_TRY(oct_lower_scratch(a->l, OCT_F32, &y->shape, layout, NULL, out)); /* rounded and mapped by a step of its own */
  else OCT_TRY(oct_lower_output(a->l, y, dtype, layout, out));
  if (part && part->scratch.rank) {
    oct_slot *result = part->result = *out;
    OCT_TRY(oct_lower_scratch(a->l, result->dtype, &part->scratch, layout, NULL, out));
    (*out)->quantized = result->quantized, (*out)->scale = result->scale, (*out)->zero_point = result->zero_point;
  }
  if (part) *part->out = *out;
  return OCTET_OK;
}

/* The slot as seen from `elements` after its first one. */
static oct_slot moved(const oct_slot *slot, int64_t elements) {
  oct_slot s = *slot;
  int64_t bytes = elements * (int64_t)oct_dtype_size(slot->dtype);
  if (s.data) s.data = (const char *)s.data + bytes;
  else s.offset = (size_t)((int64_t)s.offset + bytes);
  return s;
}

octet_status oct_accumulate_place_out(oct_accumulate *a, oct_step *step, oct_view *view, oct_slot *slot, bool write) {
  const oct_accumulate_part *part = a->p->part;
  *view = oct_slot_view(slot);
  oct_slot at = moved(slot, part ? part->y * view->row + part->x * view->pixel : 0);
  if (part) view->row *= part->step_y, view->pixel *= part->step_x;
  return write ? oct_lower_write(a->l, step, &view->data, &at) : oct_lower_read(a->l, step, &view->data, &at);
}

octet_status oct_accumulate_place_in(oct_accumulate *a, oct_step *step, oct_view *view, oct_slot *slot) {
  const oct_accumulate_part *part = a->p->part;
  *view = oct_slot_view(slot);
  oct_slot at = moved(slot, part ? part->in_y * view->row + part->in_x * view->pixel : 0);
  if (part && part->empty) { /* zeros for every pixel: an infinite input must not meet the zero weights */
    *view = (oct_view){0};
    at = *slot;
    at.data = oct_lower_memory(a->l, (size_t)a->p->shape.channels * oct_dtype_size(slot->dtype) + OCT_OVERREAD, 1);
    if (!at.data) return OCTET_OUT_OF_MEMORY;
  }
  return oct_lower_read(a->l, step, &view->data, &at);
}

/* ---- What follows the kernel --------------------------------------------------------------------------------- */

typedef struct round_step {
  const float *in;
  uint8_t *out;
  oct_loops loops;
  const oct_vector_kernels *vector;
  float scale;
  int32_t zero_point;
  const uint8_t *table;
} round_step;

static octet_status run_round(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const round_step *s = params;
  int inner = s->loops.rank - 1;
  int64_t n = s->loops.count[inner], to = s->loops.stride[0][inner], from = s->loops.stride[1][inner];
  for (size_t row = begin; row < end; row++) {
    int64_t offset[4];
    oct_loops_row(&s->loops, row, 2, offset);
    const float *x = s->in + offset[1];
    uint8_t *y = s->out + offset[0];
    if (to == 1 && from == 1) {
      s->vector->quantize_f32_u8((size_t)n, x, y, s->scale, s->zero_point);
      s->vector->table_u8((size_t)n, y, y, s->table);
    } else {
      for (int64_t i = 0; i < n; i++) y[i * to] = s->table[oct_quantize(x[i * from], s->scale, s->zero_point, 0, 255)];
    }
  }
  return OCTET_OK;
}

octet_status oct_accumulate_table(oct_accumulate *a, const oct_slot *out, const uint8_t **table) {
  *table = NULL;
  if (!a->fusion.table) return OCTET_OK;
  const oct_node *node = a->fusion.table;
  uint8_t *map = oct_lower_memory(a->l, 256, 1);
  if (!map) return OCTET_OUT_OF_MEMORY;
  for (int q = 0; q < 256; q++) {
    double y = node->op->scalar1(node, (double)oct_dequantize(q, a->rounded_scale, a->rounded_zero_point));
    map[q] = (uint8_t)oct_quantize((float)y, out->scale, out->zero_point, 0, 255);
  }
  *table = map;
  return OCTET_OK;
}

/* Rounds the float scratch to the fused table's input and maps it. */
octet_status oct_accumulate_finish(oct_accumulate *a, oct_slot *from) {
  if (!a->table_after || (a->p->part && !a->p->part->last)) return OCTET_OK;
  oct_value *y = a->fusion.output;
  round_step *s;
  oct_step *step;
  oct_slot *out;
  OCT_TRY(oct_lower_output(a->l, y, OCT_U8, from->layout, &out));
  OCT_TRY(oct_lower_step(a->l, a->p->node, "round_table", run_round, sizeof *s, &s, &step));
  OCT_TRY(oct_accumulate_table(a, out, &s->table));
  int64_t strides[4][OCT_MAX_RANK] = {{0}};
  oct_slot_strides(out, y->shape.rank, strides[0]);
  oct_slot_strides(from, y->shape.rank, strides[1]);
  oct_loops_make(&s->loops, 2, &y->shape, strides);
  s->vector = a->l->vector, s->scale = a->rounded_scale, s->zero_point = a->rounded_zero_point;
  step->units = oct_loops_rows(&s->loops);
  step->grain = 1 + 16384 / ((size_t)s->loops.count[s->loops.rank - 1] + 1);
  OCT_TRY(oct_lower_read(a->l, step, &s->in, from));
  return oct_lower_write(a->l, step, &s->out, out);
}

/* Few products per byte: 1x1, one channel per group, or few channels. A part has pixels of its own, and not every row. */
octet_status oct_accumulate_rows(oct_accumulate *a, oct_step *step, const oct_step_rows *rows) {
  const oct_conv_shape *s = &a->p->shape;
  bool pointwise = s->groups == 1 && s->kernel_h * s->kernel_w == 1, depthwise = s->groups == s->channels;
  bool light = pointwise || depthwise || (s->channels <= 4 && s->stride_h > 1);
  if (!a->p->spatial || a->p->part || !light) return OCTET_OK;
  oct_step_rows *own = oct_lower_memory(a->l, 1, sizeof *own);
  if (!own) return OCTET_OUT_OF_MEMORY;
  *own = *rows;
  step->rows = own;
  return OCTET_OK;
}

const char *oct_accumulate_reason(oct_accumulate *a, const char *rejected) {
  const char *why = a->reason ? a->reason : "";
  size_t length = strlen(why) + strlen(rejected) + 3;
  if (length == 3) return NULL;
  char *text = oct_lower_memory(a->l, length, 1);
  if (text) snprintf(text, length, "%s%s%s", why, *why && *rejected ? "; " : "", rejected);
  return text;
}

double oct_accumulate_macs(const oct_conv_shape *s) {
  return (double)s->batch * (double)s->out_h * (double)s->out_w * (double)s->out_channels * (double)(s->channels / s->groups) *
         s->kernel_h * s->kernel_w;
}

/* ---- Constants ------------------------------------------------------------------------------------------------- */

int64_t oct_accumulate_depth(const oct_accumulate_problem *p) {
  return p->shape.channels / p->shape.groups * p->shape.kernel_h * p->shape.kernel_w;
}

bool oct_accumulate_bias(const oct_accumulate_problem *p, int64_t channel, double *real) {
  *real = 0;
  if (!p->bias) return true;
  const oct_tensor *t = oct_constant_of(p->bias);
  int64_t count = t ? oct_shape_count(&t->shape) : 0;
  if (count != 1 && count != p->shape.out_channels) return false;
  int64_t i = count == 1 ? 0 : channel;
  const oct_quant *q = p->bias->quant;
  double factor = p->bias_factor != 0 ? (double)p->bias_factor : 1.0;
  if (q && !oct_dtype_is_float(t->dtype)) {
    int64_t k = q->count == 1 ? 0 : i;
    *real = (double)(oct_get_i64(t->data, t->dtype, i) - q->zero_point[k]) * (double)q->scale[k];
  } else {
    *real = oct_get_f64(t->data, t->dtype, i);
  }
  *real *= factor;
  return true;
}

octet_status oct_accumulate_float_bias(oct_accumulate *a, const float **bias) {
  *bias = NULL;
  if (!a->p->bias) return OCTET_OK;
  float *values = oct_lower_memory(a->l, (size_t)a->padded, sizeof *values);
  if (!values) return OCTET_OUT_OF_MEMORY;
  for (int64_t c = 0; c < a->p->shape.out_channels; c++) {
    double real;
    oct_accumulate_bias(a->p, c, &real);
    values[c] = (float)real;
  }
  *bias = values;
  return OCTET_OK;
}

uint64_t oct_accumulate_packing(const oct_accumulate_problem *p, const char *kernel, char *name, size_t size) {
  uint64_t hash = 14695981039346656037u; /* FNV-1a of the scales: one tensor may serve two values */
  const oct_quant *q = p->weights->quant;
  for (int64_t i = 0; q && i < q->count * (int64_t)sizeof(float); i++) hash = (hash ^ ((const uint8_t *)q->scale)[i]) * 1099511628211u;
  if (p->part) hash = (hash ^ (uint64_t)(p->part->number + 1)) * 1099511628211u;
  snprintf(name, size, "%s g%d k%dx%d s%dx%d d%dx%d %lldx%lld %s a%a %llx", kernel, p->shape.groups, p->shape.kernel_h, p->shape.kernel_w,
           p->shape.stride_h, p->shape.stride_w, p->shape.dilation_h, p->shape.dilation_w, (long long)p->shape.out_channels,
           (long long)p->shape.channels, p->weights_by_k ? "kn" : "nk", (double)p->alpha, (unsigned long long)hash);
  return hash;
}

/* ---- The float path ---------------------------------------------------------------------------------------------- */

typedef struct float_step {
  oct_conv_f32_args args;
  const oct_conv_f32_kernel *kernel;
} float_step;

static octet_status run_float(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx;
  const float_step *s = params;
  s->kernel->run(&s->args, begin, end, workspace);
  return OCTET_OK;
}

static bool accepts_float_rows(const void *params, const oct_conv_shape *shape) {
  const float_step *s = params;
  return !s->kernel->reject || !s->kernel->reject(shape);
}

static size_t float_rows_workspace(const void *params, const oct_conv_shape *shape) {
  const float_step *s = params;
  return s->kernel->workspace_bytes ? s->kernel->workspace_bytes(shape) : 0;
}

static void run_float_rows(const void *params, const oct_conv_shape *shape, const oct_view *in, const oct_view *out,
                           const oct_view *residual, void *workspace) {
  float_step s = *(const float_step *)params;
  s.args.shape = *shape;
  s.args.in = *in, s.args.out = *out;
  if (residual) s.args.residual = *residual;
  s.kernel->run(&s.args, 0, s.kernel->units(shape), workspace);
}

static octet_status add_float_rows(oct_accumulate *a, oct_step *step, const float_step *s, bool adds) {
  oct_step_rows rows = {.shape = &s->args.shape, .in = &s->args.in, .out = &s->args.out, .residual = adds ? &s->args.residual : NULL};
  rows.in_size = rows.out_size = sizeof(float);
  rows.accepts = accepts_float_rows, rows.workspace_bytes = float_rows_workspace, rows.run = run_float_rows;
  return s->kernel->approximate ? OCTET_OK : oct_accumulate_rows(a, step, &rows);
}

static octet_status pack_float(oct_accumulate *a, const oct_conv_f32_kernel *kernel, void *packed) {
  const oct_accumulate_problem *p = a->p;
  const float *weights;
  if (p->part) weights = p->weights->tensor->data;
  else OCT_TRY(oct_lower_constant_f32(a->l, p->weights, &weights));
  if (!p->weights_by_k && p->alpha == 1) {
    kernel->pack(&p->shape, weights, packed);
    return OCTET_OK;
  }
  int64_t depth = oct_accumulate_depth(p), n = p->shape.out_channels;
  float *scaled = oct_alloc(a->l->ctx, (size_t)depth * (size_t)n, sizeof *scaled);
  if (!scaled) return OCTET_OUT_OF_MEMORY;
  for (int64_t c = 0; c < n; c++)
    for (int64_t k = 0; k < depth; k++) scaled[c * depth + k] = weights[p->weights_by_k ? k * n + c : c * depth + k] * p->alpha;
  kernel->pack(&p->shape, scaled, packed);
  oct_free(scaled);
  return OCTET_OK;
}

static octet_status lower_float(oct_accumulate *a) {
  const oct_accumulate_problem *p = a->p;
  char reasons[512] = "", packing[256];
  const oct_conv_f32_kernel *kernel = oct_conv_f32_select(a->l->isa_mask, &p->shape, reasons, sizeof reasons);
  oct_slot *in, *out, *residual = NULL;
  float_step *s;
  oct_step *step;
  void *packed;
  bool fresh;
  a->table_after = a->fusion.table != NULL;
  OCT_TRY(oct_accumulate_input(a, p->input, OCT_F32, true, &in));
  if (a->fusion.residual) OCT_TRY(oct_accumulate_input(a, a->fusion.residual, OCT_F32, false, &residual));
  OCT_TRY(oct_accumulate_output(a, OCT_F32, &out));
  oct_accumulate_packing(p, kernel->name, packing, sizeof packing);
  OCT_TRY(
      oct_lower_packed(a->l, p->part ? p->part->source : p->weights->tensor, packing, kernel->packed_bytes(&p->shape), &packed, &fresh));
  if (fresh) OCT_TRY(pack_float(a, kernel, packed));
  OCT_TRY(oct_lower_step(a->l, p->node, kernel->name, run_float, sizeof *s, &s, &step));
  s->kernel = kernel;
  s->args = (oct_conv_f32_args){.shape = p->shape, .packed = packed, .low = -INFINITY, .high = INFINITY};
  if (a->fusion.has_clamp) s->args.low = a->fusion.low, s->args.high = a->fusion.high;
  OCT_TRY(oct_accumulate_float_bias(a, &s->args.bias));
  step->units = kernel->units(&p->shape);
  step->grain = 1;
  step->workspace_bytes = kernel->workspace_bytes ? kernel->workspace_bytes(&p->shape) : 0;
  step->macs = oct_accumulate_macs(&p->shape);
  step->reason = oct_accumulate_reason(a, reasons);
  OCT_TRY(add_float_rows(a, step, s, residual != NULL));
  OCT_TRY(oct_accumulate_place_in(a, step, &s->args.in, in));
  if (residual) OCT_TRY(oct_accumulate_place_out(a, step, &s->args.residual, residual, false));
  OCT_TRY(oct_accumulate_place_out(a, step, &s->args.out, out, true));
  return oct_accumulate_finish(a, out);
}

/* ---- The choice ---------------------------------------------------------------------------------------------------- */

static octet_status check(oct_accumulate *a) {
  const oct_accumulate_problem *p = a->p;
  double real;
  if (!oct_constant_of(p->weights)) return oct_lower_decline(a->l, "the weights '%s' are not constant", p->weights->name);
  if (p->input->dtype != OCT_F32 || p->weights->dtype != OCT_F32)
    return oct_lower_decline(a->l, "only f32 has a kernel, the input is %s", oct_dtype_name(p->input->dtype));
  if (p->shape.batch < 1 || p->shape.out_h < 1 || p->shape.out_w < 1 || p->shape.out_channels < 1 || p->shape.channels < 1)
    return oct_lower_decline(a->l, "a dimension is zero");
  if (!oct_accumulate_bias(p, 0, &real))
    return oct_lower_decline(a->l, "the bias '%s' is not a constant per output channel", p->bias->name);
  return OCTET_OK;
}

octet_status oct_accumulate_lower(oct_lowering *l, const oct_accumulate_problem *given) {
  oct_accumulate_problem own = *given, *problem = &own;
  oct_accumulate a = {.l = l, .p = problem, .padded = oct_accumulate_padded(&given->shape), .fusion = oct_lower_fusion(l, given->node)};
  if (a.fusion.bias) own.bias = a.fusion.bias, own.bias_factor = 0;
  if (own.part && own.part->bias) own.bias = own.part->bias, own.bias_factor = 0;
  OCT_TRY(check(&a));
  if (a.fusion.rounded && a.fusion.rounded->quant) {
    const oct_quant *q = a.fusion.rounded->quant;
    a.rounded_scale = q->scale[0];
    a.rounded_zero_point = q->zero_point[0] + (q->dtype == OCT_I8 ? 128 : 0);
  }
  int axis = problem->weights_by_k ? 1 : 0;
  bool done = false;
  bool int8_weights = oct_weight_is_int8(problem->weights, axis) && problem->alpha == 1;
  if (int8_weights && oct_node_int(problem->node, "dynamic")) OCT_TRY(oct_accumulate_lower_dynamic(&a, &done));
  if (!done && int8_weights && oct_lower_dtype(l, problem->input) == OCT_U8) OCT_TRY(oct_accumulate_lower_i8(&a, &done));
  return done ? OCTET_OK : lower_float(&a);
}
