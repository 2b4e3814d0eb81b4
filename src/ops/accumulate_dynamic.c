/* Dynamic form of convolution, gemm and matmul: scale and zero point of the input are found at run time, from the range of each image, of each row
 * (`dynamic` = 1) or of the whole tensor (`dynamic` = 2, as ONNX's DynamicQuantizeLinear means it); then the integer kernel runs. An input that
 * carries 8-bit parameters already (a range that the graph bounds: passes/bound_ranges.c) is taken as it is.
 * Nodes that read one value in one form share its 8-bit copy.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "ops/accumulate_parts.h"

#define FUSED_ELEMENTS 32768 /* up to here range and rounding are one step: the floats stay in the second-level cache */
#define PART_ELEMENTS 16384  /* of a range scanned by one unit */
#define MAX_PARTS 64

/* The input as lines: rows of images, or of a matrix. A group of lines has one range. A line of an image in planes is a row of each. */
typedef struct dynamic_step {
  oct_view in, out;                 /* f32; u8 with the border that the kernel reads */
  int64_t height, run;              /* lines of an image, elements of a line */
  int64_t planes, width;            /* 0: pixels lie side by side; else channels, and pixels of a line */
  int64_t group;                    /* lines of a group */
  int64_t top, bottom, left, right; /* border; left and right in elements */
  int64_t parts;                    /* ranges of a group; 0: found in this very step */
  float *ranges;                    /* [groups][parts][2] */
  float *scale;                     /* by group */
  int32_t *zero_point;
  const oct_vector_kernels *vector;
} dynamic_step;

static const float *line_of(const dynamic_step *s, int64_t line) {
  return (const float *)s->in.data + line / s->height * s->in.image + line % s->height * s->in.row;
}

/* Row y of the first plane of an image. */
static const float *plane_row(const dynamic_step *s, int64_t image, int64_t y) {
  return (const float *)s->in.data + image * s->run * s->height + y * s->width;
}

static void scan_planes(const dynamic_step *s, int64_t begin, int64_t end, float range[2]) {
  for (int64_t line = begin, rows; line < end; line += rows) {
    const int64_t image = line / s->height, y = line % s->height;
    rows = s->height - y < end - line ? s->height - y : end - line;
    for (int64_t c = 0; c < s->planes; c++)
      s->vector->minmax_f32((size_t)(rows * s->width), plane_row(s, image, y) + c * s->height * s->width, &range[0], &range[1]);
  }
}

static void scan(const dynamic_step *s, int64_t begin, int64_t end, float range[2]) {
  range[0] = range[1] = 0; /* a range always includes 0 */
  if (s->planes) scan_planes(s, begin, end, range);
  else
    for (int64_t line = begin; line < end; line++) s->vector->minmax_f32((size_t)s->run, line_of(s, line), &range[0], &range[1]);
}

/* Units: parts of groups. */
static octet_status run_range(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const dynamic_step *s = params;
  for (size_t i = begin; i < end; i++) {
    int64_t group = (int64_t)i / s->parts, part = (int64_t)i % s->parts, first = group * s->group;
    scan(s, first + part * s->group / s->parts, first + (part + 1) * s->group / s->parts, s->ranges + 2 * i);
  }
  return OCTET_OK;
}

/* scale = (high - low) / 255 (1 when that is no positive number), zero point = round half even of -low / scale. */
static void set_parameters(const float range[2], float *scale, int32_t *zero_point) {
  float s = (range[1] - range[0]) / 255.0f;
  if (!(s > 0) || s > 3.4e38f) s = 1;
  *scale = s;
  *zero_point = (int32_t)rintf(oct_clamp_f32(-range[0] / s, 0, 255));
}

static void round_line(const dynamic_step *s, int64_t line, float scale, int32_t zero_point) {
  int64_t y = line % s->height;
  uint8_t *row = (uint8_t *)s->out.data + line / s->height * s->out.image + y * s->out.row;
  size_t whole = (size_t)(s->left + s->run + s->right);
  for (int64_t i = 1; y == 0 && i <= s->top; i++) memset(row - s->left - i * s->out.row, zero_point, whole);
  if (s->left) memset(row - s->left, zero_point, (size_t)s->left);
  if (s->planes)
    s->vector->quantize_planes_u8(1, (size_t)s->width, (size_t)s->planes, plane_row(s, line / s->height, y), 0, s->height * s->width, row,
                                  0, scale, zero_point);
  else s->vector->quantize_f32_u8((size_t)s->run, line_of(s, line), row, scale, zero_point);
  if (s->right) memset(row + s->run, zero_point, (size_t)s->right);
  for (int64_t i = 1; y == s->height - 1 && i <= s->bottom; i++) memset(row - s->left + i * s->out.row, zero_point, whole);
}

/* Units: groups. */
static octet_status run_groups(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const dynamic_step *s = params;
  for (size_t i = begin; i < end; i++) {
    int64_t first = (int64_t)i * s->group;
    float range[2];
    scan(s, first, first + s->group, range);
    set_parameters(range, &s->scale[i], &s->zero_point[i]);
    for (int64_t line = first; line < first + s->group; line++) round_line(s, line, s->scale[i], s->zero_point[i]);
  }
  return OCTET_OK;
}

/* Units: lines. Every worker works out the parameters; the one with a group's first line keeps them. */
static octet_status run_lines(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const dynamic_step *s = params;
  int64_t group = -1;
  float scale = 1;
  int32_t zero_point = 0;
  for (int64_t line = (int64_t)begin; line < (int64_t)end; line++) {
    if (line / s->group != group) {
      group = line / s->group;
      float range[2] = {0, 0};
      s->vector->minmax_f32(2 * (size_t)s->parts, s->ranges + 2 * group * s->parts, &range[0], &range[1]);
      set_parameters(range, &scale, &zero_point);
    }
    if (line % s->group == 0) s->scale[group] = scale, s->zero_point[group] = zero_point;
    round_line(s, line, scale, zero_point);
  }
  return OCTET_OK;
}

/* ---- The 8-bit input ------------------------------------------------------------------------------------------------ */

typedef struct dynamic_input {
  oct_slot *slots[3]; /* u8, scales, zero points; the last two NULL where the u8 slot's own parameters are known */
  int64_t groups;
} dynamic_input;

static bool is_whole(const oct_accumulate *a) { return oct_node_int(a->p->node, "dynamic") == 2; }

static dynamic_step lines_of(oct_accumulate *a, const oct_slot *in, const oct_slot *out) {
  const oct_accumulate_problem *p = a->p;
  dynamic_step s = {.in = oct_slot_view(in), .out = oct_slot_view(out), .vector = a->l->vector};
  if (p->spatial) {
    s.height = p->shape.in_h, s.run = p->shape.in_w * p->shape.channels;
    s.group = is_whole(a) ? p->shape.batch * s.height : s.height;
    s.top = p->shape.pad_top, s.bottom = p->pad_bottom;
    s.left = p->shape.pad_left * p->shape.channels, s.right = p->pad_right * p->shape.channels;
    if (in->layout == OCT_LAYOUT_PLAIN) s.planes = p->shape.channels, s.width = p->shape.in_w;
  } else {
    s.height = p->shape.in_w, s.run = p->shape.channels;
    s.in.row = s.in.pixel, s.out.row = s.out.pixel;
    s.group = is_whole(a) ? s.height : 1;
  }
  return s;
}

static octet_status quantize_step(oct_accumulate *a, const dynamic_step *lines, const char *name, oct_step_fn run, oct_slot *in,
                                  oct_slot *ranges, dynamic_input *d) {
  dynamic_step *s;
  oct_step *step;
  OCT_TRY(oct_lower_step(a->l, a->p->node, name, run, sizeof *s, &s, &step));
  *s = *lines;
  int64_t per_unit = ranges ? s->run : s->run * s->group;
  step->units = (size_t)(ranges ? d->groups * s->group : d->groups);
  step->grain = 1 + 8192 / ((size_t)per_unit + 1);
  OCT_TRY(oct_lower_read(a->l, step, &s->in.data, in));
  if (ranges) OCT_TRY(oct_lower_read(a->l, step, &s->ranges, ranges));
  OCT_TRY(oct_lower_write(a->l, step, &s->out.data, d->slots[0]));
  OCT_TRY(oct_lower_write(a->l, step, &s->scale, d->slots[1]));
  return oct_lower_write(a->l, step, &s->zero_point, d->slots[2]);
}

static octet_status range_step(oct_accumulate *a, const dynamic_step *lines, oct_slot *in, oct_slot *ranges, int64_t groups) {
  dynamic_step *s;
  oct_step *step;
  OCT_TRY(oct_lower_step(a->l, a->p->node, "range_f32", run_range, sizeof *s, &s, &step));
  *s = *lines;
  step->units = (size_t)(groups * s->parts);
  step->grain = 1;
  OCT_TRY(oct_lower_read(a->l, step, &s->in.data, in));
  return oct_lower_write(a->l, step, &s->ranges, ranges);
}

/* Images of few channels are taken as they are stored, so that rounding and changing the layout are one pass. */
static octet_status float_input(oct_accumulate *a, oct_slot **in) {
  const oct_accumulate_problem *p = a->p;
  if (p->spatial && !p->part && p->shape.channels > 1 && p->shape.channels <= OCT_QUANTIZE_PLANES) {
    OCT_TRY(oct_lower_stored(a->l, p->input, in));
    if ((*in)->dtype == OCT_F32 && (*in)->layout == OCT_LAYOUT_PLAIN) return OCTET_OK;
  }
  return oct_accumulate_input(a, p->input, OCT_F32, false, in);
}

static octet_status add_input(oct_accumulate *a, dynamic_input *d) {
  const oct_accumulate_problem *p = a->p;
  oct_border border = {p->shape.pad_top, p->shape.pad_left, p->pad_bottom, p->pad_right};
  oct_shape groups = oct_shape_of(1, d->groups);
  oct_slot *in, *ranges = NULL;
  OCT_TRY(float_input(a, &in));
  OCT_TRY(oct_lower_scratch(a->l, OCT_U8, &in->shape, p->spatial ? OCT_LAYOUT_CHANNELS_LAST : OCT_LAYOUT_PLAIN, p->spatial ? &border : NULL,
                            &d->slots[0]));
  OCT_TRY(oct_lower_scratch(a->l, OCT_F32, &groups, OCT_LAYOUT_PLAIN, NULL, &d->slots[1]));
  OCT_TRY(oct_lower_scratch(a->l, OCT_I32, &groups, OCT_LAYOUT_PLAIN, NULL, &d->slots[2]));
  dynamic_step lines = lines_of(a, in, d->slots[0]);
  int64_t elements = lines.group * lines.run;
  if (elements <= FUSED_ELEMENTS)
    return quantize_step(a, &lines, p->spatial ? "quantize_images" : "quantize_rows", run_groups, in, NULL, d);
  lines.parts = (elements + PART_ELEMENTS - 1) / PART_ELEMENTS;
  if (lines.parts > MAX_PARTS) lines.parts = MAX_PARTS;
  if (lines.parts > lines.group) lines.parts = lines.group;
  oct_shape pairs = oct_shape_of(1, d->groups * lines.parts * 2);
  OCT_TRY(oct_lower_scratch(a->l, OCT_F32, &pairs, OCT_LAYOUT_PLAIN, NULL, &ranges));
  OCT_TRY(range_step(a, &lines, in, ranges, d->groups));
  return quantize_step(a, &lines, "quantize_lines", run_lines, in, ranges, d);
}

static octet_status take_input(oct_accumulate *a, dynamic_input *d) {
  const oct_accumulate_problem *p = a->p;
  char key[96];
  if (oct_lower_dtype(a->l, p->input) == OCT_U8) return oct_accumulate_input(a, p->input, OCT_U8, true, &d->slots[0]);
  d->groups = is_whole(a) ? 1 : p->spatial ? p->shape.batch : p->shape.in_w;
  snprintf(key, sizeof key, "dynamic %d%d %d,%d,%d,%d", is_whole(a), p->spatial, p->shape.pad_top, p->shape.pad_left, p->pad_bottom,
           p->pad_right);
  oct_slot *const *shared = oct_lower_shared(a->l, p->input, key);
  if (shared) {
    memcpy(d->slots, shared, sizeof d->slots);
    return OCTET_OK;
  }
  OCT_TRY(add_input(a, d));
  return oct_lower_share(a->l, p->input, key, d->slots, 3);
}

/* ---- The layer --------------------------------------------------------------------------------------------------------- */

/* The result is rounded to 8 bits with known parameters: the kernel does it, where nothing is added and no table follows. */
static bool rounds(const oct_accumulate *a) {
  const oct_value *rounded = a->fusion.rounded;
  if (a->fusion.table || a->fusion.residual || !rounded || !rounded->quant || rounded->quant->axis >= 0) return false;
  return oct_lower_dtype(a->l, a->fusion.output) == OCT_U8 && oct_dtype_size(rounded->quant->dtype) == 1;
}

/* Constants of channels; with known parameters of the input they are in these. */
static octet_status dynamic_epilogue(oct_accumulate *a, const dynamic_input *d, const int32_t *sums, oct_epilogue_i8 *e) {
  float *multiplier = oct_lower_memory(a->l, (size_t)a->padded, sizeof *multiplier);
  int32_t *bias = oct_lower_memory(a->l, (size_t)a->padded, sizeof *bias);
  if (!multiplier || !bias) return OCTET_OUT_OF_MEMORY;
  const oct_slot *in = d->slots[0];
  const bool known = !d->slots[1];
  *e = (oct_epilogue_i8){.profile = a->l->profile, .bias = bias, .multiplier = multiplier, .weight_sum = sums, .high = 255};
  oct_accumulate_epilogue_f32(a, known ? in->scale : 1, e, multiplier);
  OCT_TRY(oct_accumulate_float_bias(a, &e->float_bias));
  for (int64_t c = 0; known && c < a->p->shape.out_channels; c++) bias[c] = -in->zero_point * sums[c];
  return OCTET_OK;
}

static octet_status read_scales(oct_accumulate *a, oct_step *step, const dynamic_input *d, oct_epilogue_i8 *e) {
  const oct_conv_shape *shape = &a->p->shape;
  if (!d->slots[1]) return OCTET_OK;
  e->rows_per_scale = shape->batch * shape->out_h * shape->out_w / d->groups;
  OCT_TRY(oct_lower_read(a->l, step, &e->row_scale, d->slots[1]));
  return oct_lower_read(a->l, step, &e->row_zero_point, d->slots[2]);
}

/* What kernels multiply by is finite, and so is what they add. */
static octet_status check_multipliers(oct_accumulate *a, bool u8) {
  bool known = oct_lower_dtype(a->l, a->p->input) == OCT_U8;
  float in_scale = known ? a->p->input->quant->scale[0] : 1;
  double bias = 0;
  for (int64_t c = 0; u8 && c < a->p->shape.out_channels; c++)
    if (oct_accumulate_bias(a->p, c, &bias) && !isfinite(bias)) return oct_lower_decline(a->l, "a bias is %g", bias);
  return oct_accumulate_multipliers(a, in_scale, u8 ? a->rounded_scale : 0);
}

/* Rounded floats that have no biases are what static layers give in profile onnx. */
static void without_floats(oct_epilogue_i8 *e) {
  e->out = OCT_EPILOGUE_U8;
  e->profile = OCT_PROFILE_ONNX;
  e->float_bias = NULL;
}

/* From a float result to a rounded one: everything in units of the output's scale. With known parameters of the input, and biases that its
 * accumulators can hold, it is that of a static layer. */
static void round_epilogue(const oct_accumulate *a, const dynamic_input *d, oct_epilogue_i8 *e) {
  const bool known = !d->slots[1];
  const float scale = a->rounded_scale, in_scale = known ? d->slots[0]->scale : 1;
  float *multiplier = (float *)(uintptr_t)e->multiplier, *bias = (float *)(uintptr_t)e->float_bias; /* this layer's own */
  int32_t *units = (int32_t *)(uintptr_t)e->bias;
  bool whole = known;
  for (int64_t c = 0; c < a->p->shape.out_channels; c++) {
    multiplier[c] = oct_multiplier(in_scale, oct_accumulate_weight_scale(a->p, c), scale);
    if (!bias) continue;
    bias[c] = bias[c] / scale;
    if (known) units[c] += oct_take_units(&bias[c], multiplier[c]);
    whole = whole && bias[c] == 0;
  }
  e->out = OCT_EPILOGUE_ROUNDED;
  e->zero_point = a->rounded_zero_point;
  if (whole) without_floats(e);
  if (!a->fusion.has_clamp) return;
  e->low = oct_quantize(a->fusion.low, scale, e->zero_point, 0, 255);
  e->high = oct_quantize(a->fusion.high, scale, e->zero_point, 0, 255);
}

/* Sums of the weights; *fits when the largest |sum of w * (x - zp)| of any channel, and a bias, fit int32, whatever the zero point. */
static octet_status sum_all(oct_accumulate *a, int32_t **sums, bool *fits) {
  *sums = oct_lower_memory(a->l, (size_t)a->padded, sizeof **sums);
  if (!*sums) return OCTET_OUT_OF_MEMORY;
  *fits = true;
  for (int64_t c = 0; c < a->p->shape.out_channels && *fits; c++) {
    int64_t sum, magnitude;
    oct_accumulate_sums(a->p, c, &sum, &magnitude);
    (*sums)[c] = (int32_t)sum;
    *fits = magnitude * 255 <= INT32_MAX - (rounds(a) ? OCT_MOST_UNITS : 0);
  }
  return OCTET_OK;
}

/* All pixels have one scale: it goes into constants, which lie at the start of the workspace, so that kernels see an epilogue without scales
 * of rows, which they finish in registers. The arithmetic is the same (kernels.h). */
static octet_status run_one_scale(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx;
  const oct_i8_step *s = params;
  const int64_t padded = oct_accumulate_padded(&s->args.shape);
  int32_t *bias = workspace;
  float *multiplier = (float *)workspace + padded, *float_bias = multiplier + padded;
  oct_conv_i8_args args = s->args;
  oct_epilogue_i8 *e = &args.epilogue;
  const bool whole = s->vector->fold_scale((size_t)padded, e, bias, multiplier, float_bias);
  e->bias = bias, e->multiplier = multiplier;
  if (e->float_bias) e->float_bias = float_bias;
  e->row_scale = NULL, e->row_zero_point = NULL, e->weight_sum = NULL;
  if (whole && e->out == OCT_EPILOGUE_ROUNDED) without_floats(e);
  s->kernel->run(&args, begin, end, float_bias + padded);
  return OCTET_OK;
}

/* Not where the biases that come into accumulators could make the kernel inexact. */
static void run_with_one_scale(oct_step *step, const oct_i8_step *s) {
  const oct_conv_shape *shape = &s->args.shape;
  const oct_epilogue_i8 *e = &s->args.epilogue;
  if (!e->rows_per_scale || e->rows_per_scale < shape->batch * shape->out_h * shape->out_w) return;
  if (e->out == OCT_EPILOGUE_ROUNDED && s->kernel->reject_weights) return;
  step->run = run_one_scale;
  step->workspace_bytes += (size_t)oct_accumulate_padded(shape) * (sizeof(int32_t) + 2 * sizeof(float));
}

octet_status oct_accumulate_lower_dynamic(oct_accumulate *a, bool *done) {
  char reasons[512] = "";
  const int8_t *weights = a->p->weights_by_k ? NULL : a->p->weights->tensor->data;
  const oct_conv_i8_kernel *kernel;
  oct_slot *out, *residual = NULL;
  dynamic_input d = {{NULL}, 0};
  oct_epilogue_i8 e;
  oct_i8_step *s;
  oct_step *step;
  void *packed;
  int32_t *sums;
  bool u8 = rounds(a);
  OCT_TRY(check_multipliers(a, u8));
  OCT_TRY(sum_all(a, &sums, done));
  if (!*done) {
    a->reason = "float: the accumulator of the dynamic form could leave int32";
    return OCTET_OK;
  }
  a->table_after = a->fusion.table != NULL;
  if (a->fusion.residual) OCT_TRY(oct_accumulate_input(a, a->fusion.residual, OCT_F32, false, &residual));
  OCT_TRY(take_input(a, &d));
  if (u8 && d.slots[1]) OCT_TRY(oct_accumulate_limit_scales(a, d.groups, &d.slots[1]));
  OCT_TRY(dynamic_epilogue(a, &d, sums, &e));
  if (u8) round_epilogue(a, &d, &e);
  OCT_TRY(oct_lower_choose_i8(a->l, &a->p->shape, weights, e.bias, &kernel, reasons, sizeof reasons));
  OCT_TRY(oct_accumulate_pack_i8(a, kernel, &packed));
  OCT_TRY(oct_accumulate_output(a, u8 ? OCT_U8 : OCT_F32, &out));
  OCT_TRY(oct_accumulate_step_i8(a, kernel, reasons, d.slots[0], out, residual, &s, &step));
  s->args.packed = packed;
  s->args.epilogue = e;
  oct_accumulate_fetch_before(a, &s->args, kernel);
  OCT_TRY(read_scales(a, step, &d, &s->args.epilogue));
  run_with_one_scale(step, s);
  return oct_accumulate_finish(a, out);
}
