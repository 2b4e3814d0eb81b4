/* Kernels for reductions: the mean over the image by average pooling (floats and 8 bits), and sums, means, maxima, minima of
 * floats over the last dims.
 * SPDX-License-Identifier: MIT */
#include "ops/reduce.h"

/* ---- Mean over height and width --------------------------------------------------------------------------------- */

typedef struct pool_params {
  oct_pool_args args;
  void (*kernel)(const oct_pool_args *args, size_t begin, size_t end);
} pool_params;

static octet_status run_pool(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const pool_params *p = params;
  p->kernel(&p->args, begin, end);
  return OCTET_OK;
}

static bool stored_as_u8(oct_lowering *l, const oct_node *node) {
  oct_slot *slot;
  if (oct_lower_stored(l, node->inputs[0], &slot) != OCTET_OK || !slot->quantized || slot->dtype != OCT_U8) return false;
  return node->outputs[0]->quant && oct_lower_dtype(l, node->outputs[0]) == OCT_U8;
}

static octet_status lower_image_mean(oct_lowering *l, oct_node *node) {
  const oct_shape *shape = &node->inputs[0]->shape;
  bool u8 = stored_as_u8(l, node);
  oct_slot *in, *out;
  oct_dtype dtype = u8 ? OCT_U8 : OCT_F32;
  if (u8) OCT_TRY(oct_lower_multiplier(l, node->inputs[0]->quant->scale[0], 1, node->outputs[0]->quant->scale[0]));
  OCT_TRY(oct_lower_input(l, node->inputs[0], dtype, OCT_LAYOUT_CHANNELS_LAST, NULL, &in));
  OCT_TRY(oct_lower_output(l, node->outputs[0], dtype, oct_lower_layout(l, node->outputs[0]), &out));
  pool_params *p;
  oct_step *step;
  OCT_TRY(oct_lower_step(l, node, u8 ? "average_pool_u8" : "average_pool_f32", run_pool, sizeof *p, &p, &step));
  oct_pool_args *a = &p->args;
  int64_t channels = shape->dim[1];
  a->shape = (oct_conv_shape){.batch = shape->dim[0],
                              .in_h = shape->dim[2],
                              .in_w = shape->dim[3],
                              .channels = channels,
                              .out_h = 1,
                              .out_w = 1,
                              .out_channels = channels,
                              .kernel_h = (int)shape->dim[2],
                              .kernel_w = (int)shape->dim[3],
                              .stride_h = 1,
                              .stride_w = 1,
                              .dilation_h = 1,
                              .dilation_w = 1,
                              .groups = (int)channels};
  a->in = oct_slot_view(in);
  /* [N,C,1,1] and [N,C] are one pixel per image */
  a->out = out->layout == OCT_LAYOUT_CHANNELS_LAST ? oct_slot_view(out) : (oct_view){.image = channels, .row = channels, .pixel = channels};
  a->multiplier = u8 ? in->scale / out->scale : 1;
  a->in_zero_point = in->zero_point;
  a->out_zero_point = out->zero_point;
  a->high = 255;
  p->kernel = u8 ? l->vector->average_pool_u8 : l->vector->average_pool_f32;
  step->units = (size_t)shape->dim[0];
  OCT_TRY(oct_lower_read(l, step, &a->in.data, in));
  return oct_lower_write(l, step, &a->out.data, out);
}

/* ---- Floats over the last dims ------------------------------------------------------------------------------------ */

typedef struct rows_params {
  const float *x;
  float *y;
  size_t n;
  oct_reduction kind;
} rows_params;

#define LANES 8

static double sum_row(const float *x, size_t n) {
  double lane[LANES] = {0}, sum = 0;
  size_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int j = 0; j < LANES; j++) lane[j] += (double)x[i + (size_t)j];
  for (int j = 0; j < LANES; j++) sum += lane[j];
  for (; i < n; i++) sum += (double)x[i];
  return sum;
}

static float extreme_row(const float *x, size_t n, bool max) {
  float best = x[0];
  for (size_t i = 1; i < n; i++) {
    float v = max ? (x[i] > best ? x[i] : best) : (x[i] < best ? x[i] : best);
    best = x[i] != x[i] || best != best ? NAN : v;
  }
  return best;
}

static octet_status run_rows(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const rows_params *p = params;
  for (size_t row = begin; row < end; row++) {
    const float *x = p->x + row * p->n;
    if (p->kind == OCT_REDUCE_SUM) p->y[row] = (float)sum_row(x, p->n);
    else if (p->kind == OCT_REDUCE_MEAN) p->y[row] = (float)(sum_row(x, p->n) / (double)p->n);
    else p->y[row] = extreme_row(x, p->n, p->kind == OCT_REDUCE_MAX);
  }
  return OCTET_OK;
}

static octet_status lower_rows(oct_lowering *l, oct_node *node, oct_reduction kind, int64_t rows, int64_t n) {
  oct_slot *in, *out;
  OCT_TRY(oct_lower_input(l, node->inputs[0], OCT_F32, OCT_LAYOUT_PLAIN, NULL, &in));
  OCT_TRY(oct_lower_output(l, node->outputs[0], OCT_F32, OCT_LAYOUT_PLAIN, &out));
  rows_params *p;
  oct_step *step;
  OCT_TRY(oct_lower_step(l, node, "reduce_rows_f32", run_rows, sizeof *p, &p, &step));
  p->n = (size_t)n;
  p->kind = kind;
  step->units = (size_t)rows;
  step->grain = n < 4096 ? (size_t)(4096 / n) : 1;
  OCT_TRY(oct_lower_read(l, step, &p->x, in));
  return oct_lower_write(l, step, &p->y, out);
}

/* ---- Floats over dims in the middle: rows are added up ------------------------------------------------------------- */

typedef struct columns_params {
  const float *x; /* [outer][n][inner] */
  float *y;
  size_t n, inner;
  bool mean;
  const oct_vector_kernels *vector;
} columns_params;

static octet_status run_columns(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const columns_params *p = params;
  for (size_t i = begin; i < end; i++) {
    const float *x = p->x + i * p->n * p->inner;
    float *y = p->y + i * p->inner;
    memcpy(y, x, p->inner * sizeof *y);
    for (size_t k = 1; k < p->n; k++) p->vector->add_f32(p->inner, y, x + k * p->inner, y);
    for (size_t j = 0; p->mean && j < p->inner; j++) y[j] = y[j] / (float)p->n;
  }
  return OCTET_OK;
}

static octet_status lower_columns(oct_lowering *l, oct_node *node, bool mean, int64_t outer, int64_t n, int64_t inner) {
  oct_slot *in, *out;
  OCT_TRY(oct_lower_input(l, node->inputs[0], OCT_F32, OCT_LAYOUT_PLAIN, NULL, &in));
  OCT_TRY(oct_lower_output(l, node->outputs[0], OCT_F32, OCT_LAYOUT_PLAIN, &out));
  columns_params *p;
  oct_step *step;
  OCT_TRY(oct_lower_step(l, node, "reduce_columns_f32", run_columns, sizeof *p, &p, &step));
  *p = (columns_params){.n = (size_t)n, .inner = (size_t)inner, .mean = mean, .vector = l->vector};
  step->units = (size_t)outer;
  step->grain = 1 + (size_t)(4096 / (n * inner));
  OCT_TRY(oct_lower_read(l, step, &p->x, in));
  return oct_lower_write(l, step, &p->y, out);
}

/* The reduced dims lie side by side: [outer][n][inner]. Few enough terms that a float holds their sum well. */
static bool in_the_middle(const oct_shape *s, unsigned mask, int64_t *outer, int64_t *n, int64_t *inner) {
  int state = 0; /* before, in, after the reduced dims */
  *outer = *n = *inner = 1;
  for (int d = 0; d < s->rank; d++) {
    bool reduced = mask >> d & 1;
    if (s->dim[d] == 1) continue;
    if (reduced && state == 2) return false;
    if (reduced) state = 1;
    else if (state == 1) state = 2;
    *(state == 0 ? outer : state == 1 ? n : inner) *= s->dim[d];
  }
  return state == 2 && *n <= 1024;
}

octet_status oct_reduce_lower(oct_lowering *l, oct_node *node, oct_reduction kind) {
  const oct_value *x = node->inputs[0];
  unsigned mask, rest = 0;
  int rank = x->shape.rank, first = rank;
  if (x->dtype != OCT_F32) return oct_lower_decline(l, "no kernel for %s", oct_dtype_name(x->dtype));
  if (!oct_reduce_constant_mask(node, rank, &mask)) return oct_lower_decline(l, "the axes are computed at run time");
  int64_t count = oct_shape_count(&x->shape), n = 1;
  while (first > 0 && (mask >> (first - 1) & 1)) n *= x->shape.dim[--first];
  for (int d = 0; d < first; d++)
    if ((mask >> d & 1) && x->shape.dim[d] != 1) rest |= 1u << d;
  if (count < 1) return oct_lower_decline(l, "nothing to reduce");
  bool image = kind == OCT_REDUCE_MEAN && rank == 4 && first == 2 && !rest && n < (1 << 23); /* 255 n fits int32 */
  if (image) return lower_image_mean(l, node);
  int64_t outer, middle, inner;
  bool sums = kind == OCT_REDUCE_SUM || kind == OCT_REDUCE_MEAN;
  if (rest && sums && !stored_as_u8(l, node) && in_the_middle(&x->shape, mask, &outer, &middle, &inner))
    return lower_columns(l, node, kind == OCT_REDUCE_MEAN, outer, middle, inner);
  if (rest) return oct_lower_decline(l, "the reduced axes are not the last ones");
  if (stored_as_u8(l, node)) return oct_lower_decline(l, "8-bit reductions are made over the image only");
  return lower_rows(l, node, kind, count / n, n);
}
