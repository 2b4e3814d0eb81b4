/* Attention, softmax(Q K^T * factor + mask) V, as one step: the scores of some rows of Q are made, normalized and multiplied by V
 * while they lie in the nearer caches; no whole matrix of scores is ever in memory. The parts are those of matmul_f32.c and
 * softmax.c, with the same bytes of results.
 * SPDX-License-Identifier: MIT */
#include "ops/matmul_f32.h"

#define SCORES 16384 /* floats of scores at a time */
#define LEAST_ROWS 24
#define TILE_ROWS 12 /* a multiple of every tile's height */

typedef struct attention_step {
  oct_matmul_product scores, product;
  int64_t rows, blocks, pitch; /* rows of a block, blocks of a matrix, floats between rows of scores */
  size_t product_workspace;    /* bytes from the scores' workspace to the kernels' */
  const oct_vector_kernels *vector;
} attention_step;

static oct_conv_f32_args rows_of(const oct_matmul_product *p, int64_t matrix, int64_t first, int64_t count) {
  oct_conv_f32_args args = oct_matmul_args(p, matrix);
  args.shape.in_w = args.shape.out_w = count;
  oct_matmul_advance(&args.in, first * args.in.pixel);
  oct_matmul_advance(&args.out, first * args.out.pixel);
  oct_matmul_advance(&args.residual, first * args.residual.pixel);
  return args;
}

static void run_block(const attention_step *s, int64_t matrix, int64_t first, int64_t count, float *scores, void *workspace) {
  const oct_view between = {.data = scores, .pixel = s->pitch};
  oct_conv_f32_args args = rows_of(&s->scores, matrix, first, count);
  args.out = between;
  s->scores.kernel->run(&args, 0, s->scores.kernel->units(&args.shape), workspace);
  size_t n = (size_t)s->product.matmul.k;
  for (int64_t row = 0; row < count; row++) s->vector->math->softmax_f32(n, scores + row * s->pitch, scores + row * s->pitch);
  args = rows_of(&s->product, matrix, first, count);
  args.in = between;
  s->product.kernel->run(&args, 0, s->product.kernel->units(&args.shape), workspace);
}

/* Units: blocks of rows of every matrix. */
static octet_status run_attention(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx;
  const attention_step *s = params;
  for (size_t i = begin; i < end; i++) {
    int64_t matrix = (int64_t)i / s->blocks, first = (int64_t)i % s->blocks * s->rows, left = s->product.matmul.m - first;
    run_block(s, matrix, first, left < s->rows ? left : s->rows, workspace, (char *)workspace + s->product_workspace);
  }
  return OCTET_OK;
}

/* Blocks of equal height, as far as possible, in whole tiles. */
static void cut(attention_step *s) {
  int64_t m = s->product.matmul.m, most = SCORES / s->pitch;
  if (most < LEAST_ROWS) most = LEAST_ROWS;
  int64_t blocks = (m + most - 1) / most;
  s->rows = ((m + blocks - 1) / blocks + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
  s->blocks = (m + s->rows - 1) / s->rows;
}

static size_t workspace_of(const oct_matmul_product *p) {
  return p->kernel->workspace_bytes ? p->kernel->workspace_bytes(&p->args.shape) : 0;
}

static octet_status read_factor(oct_accumulate *a, oct_step *step, oct_matmul_product *p, oct_slot *in, oct_slot *residual,
                                oct_slot *packed) {
  if (in) OCT_TRY(oct_lower_read(a->l, step, &p->args.in.data, in));
  if (residual) OCT_TRY(oct_lower_read(a->l, step, &p->args.residual.data, residual));
  return oct_lower_read(a->l, step, &p->packed, packed);
}

static octet_status residual_slot(oct_accumulate *a, oct_slot **slot) {
  *slot = NULL;
  return a->fusion.residual ? oct_accumulate_input(a, a->fusion.residual, OCT_F32, false, slot) : OCTET_OK;
}

static void size_step(const oct_accumulate *q, const oct_accumulate *a, attention_step *s, oct_step *step) {
  size_t product = workspace_of(&s->product), scores = workspace_of(&s->scores);
  s->pitch = (s->product.matmul.k + 15) / 16 * 16;
  cut(s);
  s->product_workspace = ((size_t)(s->rows * s->pitch) * sizeof(float) + OCT_OVERREAD + OCT_ALIGNMENT - 1) / OCT_ALIGNMENT * OCT_ALIGNMENT;
  step->workspace_bytes = s->product_workspace + (product > scores ? product : scores);
  step->units = (size_t)(s->blocks * s->product.matmul.batches), step->grain = 1;
  step->macs = (oct_accumulate_macs(&q->p->shape) + oct_accumulate_macs(&a->p->shape)) * (double)s->product.matmul.batches;
}

octet_status oct_matmul_lower_attention(oct_accumulate *a, const oct_matmul_shape *matmul, const oct_conv_f32_kernel *kernel,
                                        const char *reasons) {
  oct_node *node = a->fusion.scores;
  oct_matmul_shape shape = oct_matmul_shape_make(&node->inputs[0]->shape, &node->inputs[1]->shape);
  oct_accumulate_problem p = oct_matmul_problem(node, &shape);
  oct_accumulate q = {.l = a->l, .p = &p, .fusion = oct_lower_fusion(a->l, node)};
  const oct_conv_f32_kernel *before = oct_conv_f32_select(a->l->isa_mask, &p.shape, NULL, 0);
  oct_slot *keys, *values, *in, *mask, *residual, *out;
  size_t key_bytes, value_bytes;
  attention_step *s;
  oct_step *step;
  if (!before->pack_matrix) return oct_lower_decline(a->l, "%s cannot pack at run time", before->name);
  OCT_TRY(oct_matmul_pack(&q, before, &keys, &key_bytes));
  OCT_TRY(oct_matmul_pack(a, kernel, &values, &value_bytes));
  OCT_TRY(oct_lower_input(a->l, oct_matmul_read_value(&q, 0), OCT_F32, OCT_LAYOUT_PLAIN, NULL, &in));
  OCT_TRY(residual_slot(&q, &mask));
  OCT_TRY(residual_slot(a, &residual));
  OCT_TRY(oct_accumulate_output(a, OCT_F32, &out));
  OCT_TRY(oct_lower_step(a->l, a->p->node, "attention_f32", run_attention, sizeof *s, &s, &step));
  OCT_TRY(oct_matmul_product_make(&q, &shape, before, key_bytes, &s->scores));
  OCT_TRY(oct_matmul_product_make(a, matmul, kernel, value_bytes, &s->product));
  s->vector = a->l->vector;
  size_step(&q, a, s, step);
  step->reason = oct_accumulate_reason(a, reasons);
  OCT_TRY(read_factor(a, step, &s->scores, in, mask, keys));
  OCT_TRY(read_factor(a, step, &s->product, NULL, residual, values));
  OCT_TRY(oct_lower_write(a->l, step, &s->product.args.out.data, out));
  return oct_accumulate_finish(a, out);
}
