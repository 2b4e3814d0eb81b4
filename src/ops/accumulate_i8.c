/* Integer lowering of convolution, gemm and matmul: the proof that the accumulator fits, the folded bias, the epilogue, and the dynamic form,
 * which quantizes its input at run time per image or per row.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "ops/accumulate_parts.h"

typedef struct i8_step {
  oct_conv_i8_args args;
  const oct_conv_i8_kernel *kernel;
} i8_step;

static octet_status run_i8(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx;
  const i8_step *s = params;
  s->kernel->run(&s->args, begin, end, workspace);
  return OCTET_OK;
}

/* ---- Weights ---------------------------------------------------------------------------------------------------- */

static int8_t weight_at(const oct_accumulate_problem *p, int64_t channel, int64_t k, int64_t depth) {
  const int8_t *w = p->weights->tensor->data;
  return w[p->weights_by_k ? k * p->shape.out_channels + channel : channel * depth + k];
}

static float weight_scale(const oct_accumulate_problem *p, int64_t channel) {
  const oct_quant *q = p->weights->quant;
  return q->scale[q->count == 1 ? 0 : channel];
}

static void sum_weights(const oct_accumulate_problem *p, int64_t channel, int64_t *sum, int64_t *magnitude) {
  int64_t depth = oct_accumulate_depth(p);
  *sum = *magnitude = 0;
  for (int64_t k = 0; k < depth; k++) {
    int w = weight_at(p, channel, k, depth);
    *sum += w, *magnitude += w < 0 ? -w : w;
  }
}

static octet_status pack_i8(oct_accumulate *a, const oct_conv_i8_kernel *kernel, void **packed) {
  const oct_accumulate_problem *p = a->p;
  char packing[256];
  bool fresh;
  oct_accumulate_packing(p, kernel->name, packing, sizeof packing);
  OCT_TRY(oct_lower_packed(a->l, p->weights->tensor, packing, kernel->packed_bytes(&p->shape), packed, &fresh));
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
    sum_weights(p, c, &sum, &magnitude);
    double units = bias_units(p, c, in->scale * weight_scale(p, c), &rescaled);
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

/* Epilogue into stored 8-bit values. */
static octet_status epilogue_u8(oct_accumulate *a, const oct_slot *in, const oct_slot *out, const oct_slot *residual, oct_epilogue_i8 *e, float *multiplier) {
  float scale = a->fusion.rounded ? a->rounded_scale : out->scale;
  int32_t zero_point = a->fusion.rounded ? a->rounded_zero_point : out->zero_point;
  for (int64_t c = 0; c < a->p->shape.out_channels; c++) multiplier[c] = oct_multiplier(in->scale, weight_scale(a->p, c), scale);
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

static void epilogue_f32(oct_accumulate *a, float in_scale, oct_epilogue_i8 *e, float *multiplier) {
  for (int64_t c = 0; c < a->p->shape.out_channels; c++) multiplier[c] = in_scale * weight_scale(a->p, c);
  e->out = OCT_EPILOGUE_F32;
  e->float_low = a->fusion.has_clamp ? a->fusion.low : -INFINITY;
  e->float_high = a->fusion.has_clamp ? a->fusion.high : INFINITY;
}

/* Whether the kernel may write the 8-bit result itself: the result is 8-bit, and so is the residual, in a profile that has it. */
static bool writes_u8(oct_accumulate *a) {
  const oct_value *residual = a->fusion.residual, *rounded = a->fusion.rounded;
  if (oct_lower_dtype(a->l, a->fusion.output) != OCT_U8) return false;
  if (rounded && (!rounded->quant || rounded->quant->count != 1 || oct_dtype_size(rounded->quant->dtype) != 1)) return false;
  if (!residual) return true;
  return a->l->profile == OCT_PROFILE_ONNX && oct_lower_dtype(a->l, residual) == OCT_U8;
}

/* Adds the kernel's step with views, sizes and addresses; arrays and epilogue are the caller's. */
static octet_status kernel_step(oct_accumulate *a, const oct_conv_i8_kernel *kernel, const char *rejected, oct_slot *in, oct_slot *out, oct_slot *residual,
                                i8_step **params, oct_step **step) {
  OCT_TRY(oct_lower_step(a->l, a->p->node, kernel->name, run_i8, sizeof **params, params, step));
  i8_step *s = *params;
  s->kernel = kernel;
  s->args.shape = a->p->shape;
  s->args.in = oct_slot_view(in), s->args.out = oct_slot_view(out);
  if (residual) s->args.residual = oct_slot_view(residual);
  (*step)->units = kernel->units(&a->p->shape);
  (*step)->grain = 1;
  (*step)->workspace_bytes = kernel->workspace_bytes ? kernel->workspace_bytes(&a->p->shape) : 0;
  (*step)->macs = oct_accumulate_macs(&a->p->shape);
  (*step)->reason = oct_accumulate_reason(a, rejected);
  OCT_TRY(oct_lower_read(a->l, *step, &s->args.in.data, in));
  if (residual) OCT_TRY(oct_lower_read(a->l, *step, &s->args.residual.data, residual));
  return oct_lower_write(a->l, *step, &s->args.out.data, out);
}

octet_status oct_accumulate_lower_i8(oct_accumulate *a, bool *done) {
  const oct_accumulate_problem *p = a->p;
  oct_slot *in, *out, *residual = NULL;
  *done = false;
  OCT_TRY(oct_lower_stored(a->l, p->input, &in));
  if (in->dtype != OCT_U8 || !in->quantized) return OCTET_OK;
  int32_t *bias = oct_lower_memory(a->l, (size_t)a->padded, sizeof *bias);
  float *multiplier = oct_lower_memory(a->l, (size_t)a->padded, sizeof *multiplier);
  if (!bias || !multiplier) return OCTET_OUT_OF_MEMORY;
  OCT_TRY(fold_bias(a, in, bias, done));
  if (!*done) return OCTET_OK;
  bool u8 = writes_u8(a);
  a->table_after = a->fusion.table && !u8;
  char reasons[512] = "";
  const oct_conv_i8_kernel *kernel = oct_conv_i8_select(a->l->isa_mask, &p->shape, reasons, sizeof reasons);
  i8_step *s;
  oct_step *step;
  void *packed;
  OCT_TRY(pack_i8(a, kernel, &packed));
  OCT_TRY(oct_accumulate_input(a, p->input, OCT_U8, true, &in));
  if (a->fusion.residual) OCT_TRY(oct_accumulate_input(a, a->fusion.residual, u8 ? OCT_U8 : OCT_F32, false, &residual));
  OCT_TRY(oct_accumulate_output(a, u8 ? OCT_U8 : OCT_F32, &out));
  OCT_TRY(kernel_step(a, kernel, reasons, in, out, residual, &s, &step));
  s->args.packed = packed;
  s->args.epilogue = (oct_epilogue_i8){.profile = a->l->profile, .bias = bias, .multiplier = multiplier, .high = 255};
  if (u8) OCT_TRY(epilogue_u8(a, in, out, residual, &s->args.epilogue, multiplier));
  else epilogue_f32(a, in->scale, &s->args.epilogue, multiplier);
  return oct_accumulate_finish(a, out);
}

/* ---- Dynamic: range, scale and zero point of each image or row at run time --------------------------------------- */

typedef struct dynamic_step {
  oct_view in, out; /* f32, u8 with the same border as the kernel reads */
  int64_t in_unit, out_unit; /* elements between units */
  int64_t height, run;       /* rows of an image, elements of a row */
  int64_t top, bottom, left, right; /* border; left and right in elements */
  float *scale;
  int32_t *zero_point;
  const oct_vector_kernels *vector;
} dynamic_step;

/* low = min(x, 0), high = max(x, 0), scale = (high - low) / 255 (1 when that is no positive number), zero point = round half even of -low / scale. */
static void range_parameters(float low, float high, float *scale, int32_t *zero_point) {
  float s = (high - low) / 255.0f;
  if (!(s > 0) || s > 3.4e38f) s = 1;
  *scale = s;
  *zero_point = (int32_t)rintf(oct_clamp_f32(-low / s, 0, 255));
}

static octet_status run_dynamic(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const dynamic_step *s = params;
  for (size_t i = begin; i < end; i++) {
    const float *x = (const float *)s->in.data + (int64_t)i * s->in_unit;
    uint8_t *y = (uint8_t *)s->out.data + (int64_t)i * s->out_unit;
    float low = 0, high = 0;
    for (int64_t r = 0; r < s->height; r++) s->vector->minmax_f32((size_t)s->run, x + r * s->in.row, &low, &high);
    range_parameters(low, high, &s->scale[i], &s->zero_point[i]);
    for (int64_t r = -s->top; r < s->height + s->bottom; r++) {
      uint8_t *row = y + r * s->out.row;
      if (r < 0 || r >= s->height) {
        memset(row - s->left, s->zero_point[i], (size_t)(s->left + s->run + s->right));
        continue;
      }
      memset(row - s->left, s->zero_point[i], (size_t)s->left);
      s->vector->quantize_f32_u8((size_t)s->run, x + r * s->in.row, row, s->scale[i], s->zero_point[i]);
      memset(row + s->run, s->zero_point[i], (size_t)s->right);
    }
  }
  return OCTET_OK;
}

typedef struct dynamic_slots {
  oct_slot *quantized, *scale, *zero_point;
  int64_t count;
} dynamic_slots;

static octet_status scratch_slots(oct_accumulate *a, const oct_slot *in, dynamic_slots *d) {
  const oct_accumulate_problem *p = a->p;
  oct_border border = {p->shape.pad_top, p->shape.pad_left, p->pad_bottom, p->pad_right};
  d->count = p->spatial ? p->shape.batch : p->shape.in_w;
  oct_shape counts = oct_shape_of(1, d->count);
  OCT_TRY(oct_lower_scratch(a->l, OCT_U8, &in->shape, in->layout, p->spatial ? &border : NULL, &d->quantized));
  OCT_TRY(oct_lower_scratch(a->l, OCT_F32, &counts, OCT_LAYOUT_PLAIN, NULL, &d->scale));
  return oct_lower_scratch(a->l, OCT_I32, &counts, OCT_LAYOUT_PLAIN, NULL, &d->zero_point);
}

static octet_status quantize_step(oct_accumulate *a, oct_slot *in, const dynamic_slots *d) {
  const oct_conv_shape *shape = &a->p->shape;
  dynamic_step *s;
  oct_step *step;
  OCT_TRY(oct_lower_step(a->l, a->p->node, a->p->spatial ? "quantize_images" : "quantize_rows", run_dynamic, sizeof *s, &s, &step));
  s->in = oct_slot_view(in), s->out = oct_slot_view(d->quantized);
  s->in_unit = a->p->spatial ? s->in.image : s->in.pixel;
  s->out_unit = a->p->spatial ? s->out.image : s->out.pixel;
  s->height = shape->in_h;
  s->run = (a->p->spatial ? shape->in_w : 1) * shape->channels;
  if (a->p->spatial) {
    s->top = shape->pad_top, s->bottom = a->p->pad_bottom;
    s->left = shape->pad_left * shape->channels, s->right = a->p->pad_right * shape->channels;
  }
  s->vector = a->l->vector;
  step->units = (size_t)d->count;
  step->grain = 1 + 4096 / ((size_t)(s->run * s->height) + 1);
  OCT_TRY(oct_lower_read(a->l, step, &s->in.data, in));
  OCT_TRY(oct_lower_write(a->l, step, &s->out.data, d->quantized));
  OCT_TRY(oct_lower_write(a->l, step, &s->scale, d->scale));
  return oct_lower_write(a->l, step, &s->zero_point, d->zero_point);
}

static octet_status dynamic_epilogue(oct_accumulate *a, oct_step *step, const dynamic_slots *d, oct_epilogue_i8 *e) {
  float *multiplier = oct_lower_memory(a->l, (size_t)a->padded, sizeof *multiplier);
  int32_t *bias = oct_lower_memory(a->l, (size_t)a->padded, sizeof *bias);
  int32_t *sums = oct_lower_memory(a->l, (size_t)a->padded, sizeof *sums);
  if (!multiplier || !bias || !sums) return OCTET_OUT_OF_MEMORY;
  for (int64_t c = 0; c < a->p->shape.out_channels; c++) {
    int64_t sum, magnitude;
    sum_weights(a->p, c, &sum, &magnitude);
    sums[c] = (int32_t)sum;
  }
  *e = (oct_epilogue_i8){.profile = a->l->profile, .bias = bias, .multiplier = multiplier, .weight_sum = sums, .high = 255};
  epilogue_f32(a, 1, e, multiplier);
  OCT_TRY(oct_accumulate_float_bias(a, &e->float_bias));
  e->rows_per_scale = a->p->spatial ? a->p->shape.out_h * a->p->shape.out_w : 1;
  OCT_TRY(oct_lower_read(a->l, step, &e->row_scale, d->scale));
  return oct_lower_read(a->l, step, &e->row_zero_point, d->zero_point);
}

/* The largest |sum of w * (x - zp)| of any channel fits int32, whatever the zero point. */
static bool dynamic_fits(oct_accumulate *a) {
  for (int64_t c = 0; c < a->p->shape.out_channels; c++) {
    int64_t sum, magnitude;
    sum_weights(a->p, c, &sum, &magnitude);
    if (magnitude * 255 > INT32_MAX) return false;
  }
  return true;
}

octet_status oct_accumulate_lower_dynamic(oct_accumulate *a, bool *done) {
  char reasons[512] = "";
  const oct_conv_i8_kernel *kernel = oct_conv_i8_select(a->l->isa_mask, &a->p->shape, reasons, sizeof reasons);
  oct_slot *in, *out, *residual = NULL;
  dynamic_slots d;
  i8_step *s;
  oct_step *step;
  void *packed;
  *done = dynamic_fits(a);
  if (!*done) {
    a->reason = "float: the accumulator of the dynamic form could leave int32";
    return OCTET_OK;
  }
  a->table_after = a->fusion.table != NULL;
  OCT_TRY(pack_i8(a, kernel, &packed));
  OCT_TRY(oct_accumulate_input(a, a->p->input, OCT_F32, false, &in));
  if (a->fusion.residual) OCT_TRY(oct_accumulate_input(a, a->fusion.residual, OCT_F32, false, &residual));
  OCT_TRY(scratch_slots(a, in, &d));
  OCT_TRY(quantize_step(a, in, &d));
  OCT_TRY(oct_accumulate_output(a, OCT_F32, &out));
  OCT_TRY(kernel_step(a, kernel, reasons, d.quantized, out, residual, &s, &step));
  s->args.packed = packed;
  OCT_TRY(dynamic_epilogue(a, step, &d, &s->args.epilogue));
  return oct_accumulate_finish(a, out);
}
