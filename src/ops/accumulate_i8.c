/* Integer lowering of convolution, gemm and matmul: the proof that the accumulator fits, the folded bias, the epilogue.
 * The dynamic form, which quantizes its input at run time, is in accumulate_dynamic.c.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "ops/accumulate_parts.h"

static octet_status run_i8(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx;
  const oct_i8_step *s = params;
  s->kernel->run(&s->args, begin, end, workspace);
  return OCTET_OK;
}

static bool accepts_rows(const void *params, const oct_conv_shape *shape) {
  const oct_i8_step *s = params;
  return !s->kernel->reject || !s->kernel->reject(shape);
}

static size_t rows_workspace(const void *params, const oct_conv_shape *shape) {
  const oct_i8_step *s = params;
  return s->kernel->workspace_bytes ? s->kernel->workspace_bytes(shape) : 0;
}

static void run_rows(const void *params, const oct_conv_shape *shape, const oct_view *in, const oct_view *out, const oct_view *residual,
                     void *workspace) {
  oct_i8_step s = *(const oct_i8_step *)params;
  s.args.shape = *shape;
  s.args.in = *in, s.args.out = *out;
  if (residual) s.args.residual = *residual;
  s.kernel->run(&s.args, 0, s.kernel->units(shape), workspace);
}

/* Of the static form: scales of the dynamic one are found by the pixel's number. */
static octet_status add_rows(oct_accumulate *a, oct_step *step, const oct_i8_step *s, bool u8, bool adds) {
  oct_step_rows rows = {.shape = &s->args.shape, .in = &s->args.in, .out = &s->args.out, .residual = adds ? &s->args.residual : NULL};
  rows.in_size = 1, rows.out_size = u8 ? 1 : sizeof(float);
  rows.accepts = accepts_rows, rows.workspace_bytes = rows_workspace, rows.run = run_rows;
  return s->kernel->reject_weights || s->kernel->packs_by_size ? OCTET_OK : oct_accumulate_rows(a, step, &rows);
}

/* ---- Weights ---------------------------------------------------------------------------------------------------- */

static int8_t weight_at(const oct_accumulate_problem *p, int64_t channel, int64_t k, int64_t depth) {
  const int8_t *w = p->weights->tensor->data;
  return w[p->weights_by_k ? k * p->shape.out_channels + channel : channel * depth + k];
}

float oct_accumulate_weight_scale(const oct_accumulate_problem *p, int64_t channel) {
  const oct_quant *q = p->weights->quant;
  return q->scale[q->count == 1 ? 0 : channel];
}

void oct_accumulate_sums(const oct_accumulate_problem *p, int64_t channel, int64_t *sum, int64_t *magnitude) {
  int64_t depth = oct_accumulate_depth(p);
  *sum = *magnitude = 0;
  if (!p->weights_by_k) {
    oct_sum_weights((const int8_t *)p->weights->tensor->data + channel * depth, depth, sum, magnitude);
    return;
  }
  for (int64_t k = 0; k < depth; k++) {
    int w = weight_at(p, channel, k, depth);
    *sum += w, *magnitude += w < 0 ? -w : w;
  }
}

octet_status oct_accumulate_pack_i8(oct_accumulate *a, const oct_conv_i8_kernel *kernel, void **packed) {
  const oct_accumulate_problem *p = a->p;
  char packing[256];
  bool fresh;
  oct_accumulate_packing(p, kernel->name, packing, sizeof packing);
  if (kernel->packs_by_size) {
    size_t length = strlen(packing);
    snprintf(packing + length, sizeof packing - length, " %lldx%lld", (long long)p->shape.out_h, (long long)p->shape.out_w);
  }
  OCT_TRY(oct_lower_packed(a->l, p->part ? p->part->source : p->weights->tensor, packing, kernel->packed_bytes(&p->shape), packed, &fresh));
  if (!fresh) return OCTET_OK;
  if (!p->weights_by_k) {
    kernel->pack(&p->shape, p->weights->tensor->data, *packed);
    return OCTET_OK;
  }
  int64_t depth = oct_accumulate_depth(p), n = p->shape.out_channels;
  int8_t *turned = oct_alloc_raw(a->l->ctx, (size_t)depth * (size_t)n);
  if (!turned) return OCTET_OUT_OF_MEMORY;
  for (int64_t c = 0; c < n; c++)
    for (int64_t k = 0; k < depth; k++) turned[c * depth + k] = weight_at(p, c, k, depth);
  kernel->pack(&p->shape, turned, *packed);
  oct_free(turned);
  return OCTET_OK;
}

/* ---- Static: bias folded, accumulator proven -------------------------------------------------------------------- */

/* The bias in units of input scale * weight scale. Taken as it is when it is stored so, else rounded half to even from the real value. */
static double bias_units(const oct_accumulate_problem *p, int64_t channel, float unit, bool *rescaled) {
  double real;
  if (!p->bias) return 0;
  const oct_tensor *t = p->bias->tensor;
  const oct_quant *q = p->bias->quant;
  if (q && t->dtype == OCT_I32 && p->bias_factor == 0 && oct_shape_count(&t->shape) == p->shape.out_channels) {
    int64_t k = q->count == 1 ? 0 : channel;
    if (q->scale[k] == unit && q->zero_point[k] == 0) return (double)oct_get_i64(t->data, t->dtype, channel);
    *rescaled = true;
  }
  oct_accumulate_bias(p, channel, &real);
  return rint(real / (double)unit);
}

/* Fills bias[c] = bias - zero_point * sum of weights. false, with the reason, when a final accumulator could leave int32. */
static octet_status fold_bias(oct_accumulate *a, const oct_slot *in, int32_t *bias, bool *fits) {
  const oct_accumulate_problem *p = a->p;
  int64_t reach = in->zero_point > 255 - in->zero_point ? in->zero_point : 255 - in->zero_point;
  bool rescaled = false;
  *fits = true;
  for (int64_t c = 0; c < p->shape.out_channels && *fits; c++) {
    int64_t sum, magnitude;
    oct_accumulate_sums(p, c, &sum, &magnitude);
    double units = bias_units(p, c, in->scale * oct_accumulate_weight_scale(p, c), &rescaled);
    *fits = (double)magnitude * (double)reach + fabs(units) <= (double)INT32_MAX;
    if (*fits) bias[c] = (int32_t)((uint32_t)(int64_t)units - (uint32_t)in->zero_point * (uint32_t)(int32_t)sum);
    else {
      char *text = oct_lower_memory(a->l, 160, 1);
      if (!text) return OCTET_OUT_OF_MEMORY;
      snprintf(text, 160, "float: the accumulator of output channel %lld could leave int32 (sum of products %.0f, bias %.0f)", (long long)c,
               (double)magnitude * (double)reach, units);
      a->reason = text;
    }
  }
  if (*fits && rescaled) a->reason = "bias rescaled to input scale * weight scale";
  return OCTET_OK;
}

/* Whether the kernel may write the 8-bit result itself: the result is 8-bit, and so is the residual. */
static bool writes_u8(oct_accumulate *a) {
  const oct_value *residual = a->fusion.residual, *rounded = a->fusion.rounded;
  if (oct_lower_dtype(a->l, a->fusion.output) != OCT_U8) return false;
  if (rounded && (!rounded->quant || rounded->quant->count != 1 || oct_dtype_size(rounded->quant->dtype) != 1)) return false;
  return !residual || oct_lower_dtype(a->l, residual) == OCT_U8;
}

static octet_status check_multipliers(oct_accumulate *a, const oct_slot *in) {
  const oct_value *residual = a->fusion.residual, *rounded = a->fusion.rounded ? a->fusion.rounded : a->fusion.output;
  float out_scale = writes_u8(a) && rounded->quant ? rounded->quant->scale[0] : 0;
  if (out_scale > 0 && residual) OCT_TRY(oct_lower_multiplier(a->l, residual->quant->scale[0], 1, out_scale));
  return oct_accumulate_multipliers(a, in->scale, out_scale);
}

octet_status oct_accumulate_fits(oct_lowering *l, const oct_accumulate_problem *problem, bool *fits) {
  oct_accumulate_problem own = *problem;
  oct_accumulate a = {.l = l, .p = &own, .fusion = oct_lower_fusion(l, problem->node)};
  oct_slot *in;
  double real;
  if (a.fusion.bias) own.bias = a.fusion.bias, own.bias_factor = 0;
  *fits = false;
  OCT_TRY(oct_lower_stored(l, own.input, &in));
  if (in->dtype != OCT_U8 || !in->quantized || !oct_accumulate_bias(&own, 0, &real)) return OCTET_OK;
  OCT_TRY(check_multipliers(&a, in));
  int32_t *bias = oct_lower_memory(l, (size_t)own.shape.out_channels, sizeof *bias);
  return bias ? fold_bias(&a, in, bias, fits) : OCTET_OUT_OF_MEMORY;
}

/* Epilogue into stored 8-bit values. */
static octet_status epilogue_u8(oct_accumulate *a, const oct_slot *in, const oct_slot *out, const oct_slot *residual, oct_epilogue_i8 *e,
                                float *multiplier) {
  float scale = a->fusion.rounded ? a->rounded_scale : out->scale;
  int32_t zero_point = a->fusion.rounded ? a->rounded_zero_point : out->zero_point;
  for (int64_t c = 0; c < a->p->shape.out_channels; c++)
    multiplier[c] = oct_multiplier(in->scale, oct_accumulate_weight_scale(a->p, c), scale);
  e->out = OCT_EPILOGUE_U8;
  e->zero_point = zero_point;
  e->low = 0, e->high = 255;
  if (a->fusion.has_clamp) {
    e->low = oct_quantize(a->fusion.low, scale, zero_point, 0, 255);
    e->high = oct_quantize(a->fusion.high, scale, zero_point, 0, 255);
  }
  if (residual) e->residual_scale = residual->scale / scale, e->residual_zero_point = residual->zero_point;
  return oct_accumulate_table(a, out, &e->table);
}

void oct_accumulate_epilogue_f32(oct_accumulate *a, float in_scale, oct_epilogue_i8 *e, float *multiplier) {
  for (int64_t c = 0; c < a->p->shape.out_channels; c++) multiplier[c] = in_scale * oct_accumulate_weight_scale(a->p, c);
  e->out = OCT_EPILOGUE_F32;
  e->float_low = a->fusion.has_clamp ? a->fusion.low : -INFINITY;
  e->float_high = a->fusion.has_clamp ? a->fusion.high : INFINITY;
}

octet_status oct_accumulate_step_i8(oct_accumulate *a, const oct_conv_i8_kernel *kernel, const char *rejected, oct_slot *in, oct_slot *out,
                                    oct_slot *residual, oct_i8_step **params, oct_step **step) {
  OCT_TRY(oct_lower_step(a->l, a->p->node, kernel->name, run_i8, sizeof **params, params, step));
  oct_i8_step *s = *params;
  s->kernel = kernel, s->vector = a->l->vector;
  s->args.shape = a->p->shape;
  (*step)->units = kernel->units(&a->p->shape);
  (*step)->grain = 1;
  (*step)->workspace_bytes = kernel->workspace_bytes ? kernel->workspace_bytes(&a->p->shape) : 0;
  (*step)->macs = oct_accumulate_macs(&a->p->shape);
  (*step)->reason = oct_accumulate_reason(a, rejected);
  OCT_TRY(oct_accumulate_place_in(a, *step, &s->args.in, in));
  if (residual) OCT_TRY(oct_accumulate_place_out(a, *step, &s->args.residual, residual, false));
  return oct_accumulate_place_out(a, *step, &s->args.out, out, true);
}

#define FEW_PIXELS 2           /* a product of so few ... */
#define MANY_BYTES (128 << 10) /* ... and so many weights takes as long as these take to arrive */

void oct_accumulate_fetch_before(oct_accumulate *a, oct_conv_i8_args *args, const oct_conv_i8_kernel *kernel) {
  oct_lowering *l = a->l;
  const oct_conv_shape *s = &args->shape;
  const size_t bytes = kernel->packed_bytes(s);
  if (l->before && s->batch * s->out_h * s->out_w <= FEW_PIXELS && bytes >= MANY_BYTES)
    l->before->next = args->packed, l->before->next_bytes = bytes;
  l->before = args;
}

octet_status oct_accumulate_lower_i8(oct_accumulate *a, bool *done) {
  const oct_accumulate_problem *p = a->p;
  oct_slot *in, *out, *residual = NULL;
  *done = false;
  OCT_TRY(oct_lower_stored(a->l, p->input, &in));
  if (in->dtype != OCT_U8 || !in->quantized) return OCTET_OK;
  OCT_TRY(check_multipliers(a, in));
  int32_t *bias = oct_lower_memory(a->l, (size_t)a->padded, sizeof *bias);
  float *multiplier = oct_lower_memory(a->l, (size_t)a->padded, sizeof *multiplier);
  if (!bias || !multiplier) return OCTET_OUT_OF_MEMORY;
  OCT_TRY(fold_bias(a, in, bias, done));
  if (!*done) return OCTET_OK;
  bool u8 = writes_u8(a);
  a->table_after = a->fusion.table && !u8;
  char reasons[512] = "";
  const int8_t *weights = p->weights_by_k ? NULL : p->weights->tensor->data;
  const oct_conv_i8_kernel *kernel;
  OCT_TRY(oct_lower_choose_i8(a->l, &p->shape, weights, bias, &kernel, reasons, sizeof reasons));
  oct_i8_step *s;
  oct_step *step;
  void *packed;
  OCT_TRY(oct_accumulate_pack_i8(a, kernel, &packed));
  OCT_TRY(oct_accumulate_input(a, p->input, OCT_U8, true, &in));
  if (a->fusion.residual) OCT_TRY(oct_accumulate_input(a, a->fusion.residual, u8 ? OCT_U8 : OCT_F32, false, &residual));
  OCT_TRY(oct_accumulate_output(a, u8 ? OCT_U8 : OCT_F32, &out));
  OCT_TRY(oct_accumulate_step_i8(a, kernel, reasons, in, out, residual, &s, &step));
  OCT_TRY(add_rows(a, step, s, u8, residual != NULL));
  s->args.packed = packed;
  oct_accumulate_fetch_before(a, &s->args, kernel);
  const oct_profile profile = a->fusion.residual ? OCT_PROFILE_ONNX : a->l->profile; /* tflite has no sum without rounding before it */
  s->args.epilogue = (oct_epilogue_i8){.profile = profile, .bias = bias, .multiplier = multiplier, .high = 255};
  if (u8) OCT_TRY(epilogue_u8(a, in, out, residual, &s->args.epilogue, multiplier));
  else oct_accumulate_epilogue_f32(a, in->scale, &s->args.epilogue, multiplier);
  return oct_accumulate_finish(a, out);
}
