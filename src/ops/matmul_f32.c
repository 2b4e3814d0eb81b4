/* Float matrix product of two activations: B is packed at run time, then the dense float kernel runs matrix by matrix. Transpositions before and after
 * are strides here, a factor goes into the packed B (exec/fuse.h).
 * SPDX-License-Identifier: MIT */
#include "ops/accumulate_parts.h"
#include "ops/matmul.h"
#include "ops/movement.h"

/* Element strides of a value's logical dims where it lies plain, seen through the transposition that makes it (`before`) or takes it (`after`). */
static void strides_of(const oct_shape *shape, const oct_node *before, const oct_node *after, int64_t strides[OCT_MAX_RANK]) {
  int perm[OCT_MAX_RANK], rank = shape->rank;
  int64_t own[OCT_MAX_RANK];
  const oct_node *node = before ? before : after;
  if (!node || !oct_transpose_permutation(node, rank, perm)) {
    oct_shape_strides(shape, strides);
    return;
  }
  oct_shape_strides(before ? &node->inputs[0]->shape : &node->outputs[0]->shape, own);
  for (int i = 0; i < rank; i++) {
    if (before) strides[i] = own[perm[i]];
    else strides[perm[i]] = own[i];
  }
}

/* Where each matrix of the batch begins, in elements; dims of size 1 are broadcast. */
static int64_t *matrix_offsets(oct_lowering *l, const oct_shape *shape, const int64_t *strides, const int64_t *batch, int batch_rank, int64_t count) {
  int64_t *offsets = oct_lower_memory(l, (size_t)count, sizeof *offsets);
  int shift = batch_rank - (shape->rank - 2);
  for (int64_t b = 0; offsets && b < count; b++) {
    int64_t rest = b;
    for (int d = batch_rank - 1; d >= 0; d--) {
      int64_t index = rest % batch[d];
      rest /= batch[d];
      if (d >= shift && shape->dim[d - shift] != 1) offsets[b] += index * strides[d - shift];
    }
  }
  return offsets;
}

/* ---- Packing B --------------------------------------------------------------------------------------------------- */

typedef struct pack_step {
  const oct_conv_f32_kernel *kernel;
  oct_conv_shape shape;
  const float *in;
  const int64_t *offsets; /* of each matrix of B */
  int64_t k_stride, n_stride;
  float scale;
  char *packed;
  size_t packed_bytes;
} pack_step;

static octet_status run_pack(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const pack_step *s = params;
  for (size_t b = begin; b < end; b++)
    s->kernel->pack_matrix(&s->shape, s->in + s->offsets[b], s->k_stride, s->n_stride, s->scale, s->packed + b * s->packed_bytes);
  return OCTET_OK;
}

static const oct_value *read_value(const oct_accumulate *a, int input) {
  const oct_node *before = a->fusion.before[input];
  return before ? before->inputs[0] : a->p->node->inputs[input];
}

/* Packs every matrix of B. */
static octet_status add_pack(oct_accumulate *a, const oct_conv_f32_kernel *kernel, oct_slot **packed, size_t *bytes) {
  const oct_value *b = a->p->weights;
  oct_slot *in;
  pack_step *s;
  oct_step *step;
  const oct_conv_shape *shape = &a->p->shape;
  int64_t matrices = 1, strides[OCT_MAX_RANK];
  int rank = b->shape.rank;
  for (int i = 0; i < rank - 2; i++) matrices *= b->shape.dim[i];
  *bytes = (kernel->packed_bytes(shape) + OCT_ALIGNMENT - 1) / OCT_ALIGNMENT * OCT_ALIGNMENT;
  oct_shape packed_shape = oct_shape_of(2, matrices, (int64_t)*bytes);
  OCT_TRY(oct_lower_input(a->l, read_value(a, 1), OCT_F32, OCT_LAYOUT_PLAIN, NULL, &in));
  OCT_TRY(oct_lower_scratch(a->l, OCT_U8, &packed_shape, OCT_LAYOUT_PLAIN, NULL, packed));
  OCT_TRY(oct_lower_step(a->l, a->p->node, "pack_f32", run_pack, sizeof *s, &s, &step));
  strides_of(&b->shape, a->fusion.before[1], NULL, strides);
  s->kernel = kernel, s->shape = *shape, s->packed_bytes = *bytes;
  s->k_stride = strides[rank - 2], s->n_stride = strides[rank - 1];
  s->scale = a->fusion.scale != 0 ? a->fusion.scale : 1;
  s->offsets = matrix_offsets(a->l, &b->shape, strides, b->shape.dim, rank - 2, matrices);
  if (!s->offsets) return OCTET_OUT_OF_MEMORY;
  step->units = (size_t)matrices, step->grain = 1;
  OCT_TRY(oct_lower_read(a->l, step, &s->in, in));
  return oct_lower_write(a->l, step, &s->packed, *packed);
}

/* ---- The product --------------------------------------------------------------------------------------------------- */

typedef struct product_step {
  oct_conv_f32_args args; /* of the first matrix */
  const oct_conv_f32_kernel *kernel;
  const int64_t *a_offsets, *y_offsets, *residual_offsets; /* by matrix of the result */
  oct_matmul_shape matmul;
  const char *packed;
  size_t packed_bytes, units; /* units per matrix */
} product_step;

static octet_status run_product(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx;
  const product_step *s = params;
  while (begin < end) {
    int64_t batch = (int64_t)(begin / s->units), a, b;
    size_t first = begin % s->units, last = first + (end - begin) < s->units ? first + (end - begin) : s->units;
    oct_conv_f32_args args = s->args;
    oct_matmul_batch(&s->matmul, batch, &a, &b);
    args.in.data = (float *)args.in.data + s->a_offsets[batch];
    args.out.data = (float *)args.out.data + s->y_offsets[batch];
    if (args.residual.data) args.residual.data = (float *)args.residual.data + s->residual_offsets[batch];
    args.packed = s->packed + (size_t)b * s->packed_bytes;
    s->kernel->run(&args, first, last, workspace);
    begin += last - first;
  }
  return OCTET_OK;
}

/* A matrix as an image of one row. */
static oct_view matrix_view(const oct_shape *shape, const int64_t *strides) {
  ptrdiff_t pixel = (ptrdiff_t)strides[shape->rank - 2], all = pixel * (ptrdiff_t)shape->dim[shape->rank - 2];
  return (oct_view){.image = all, .row = all, .pixel = pixel};
}

static octet_status set_places(oct_accumulate *a, product_step *s) {
  const oct_shape *in = &a->p->input->shape, *out = &a->p->node->outputs[0]->shape;
  const oct_matmul_shape *m = &s->matmul;
  int64_t in_strides[OCT_MAX_RANK], out_strides[OCT_MAX_RANK], plain[OCT_MAX_RANK];
  strides_of(in, a->fusion.before[0], NULL, in_strides);
  strides_of(out, NULL, a->fusion.after, out_strides);
  oct_shape_strides(out, plain);
  s->args.in = matrix_view(in, in_strides), s->args.out = matrix_view(out, out_strides);
  if (a->fusion.residual) s->args.residual = matrix_view(out, plain);
  s->a_offsets = matrix_offsets(a->l, in, in_strides, m->batch, m->rank, m->batches);
  s->y_offsets = matrix_offsets(a->l, out, out_strides, m->batch, m->rank, m->batches);
  s->residual_offsets = matrix_offsets(a->l, out, plain, m->batch, m->rank, m->batches);
  return s->a_offsets && s->y_offsets && s->residual_offsets ? OCTET_OK : OCTET_OUT_OF_MEMORY;
}

static octet_status add_product(oct_accumulate *a, const oct_conv_f32_kernel *kernel, const char *reasons, const oct_matmul_shape *matmul, oct_slot *packed,
                                size_t bytes) {
  const oct_conv_shape *shape = &a->p->shape;
  oct_slot *in, *out, *residual = NULL;
  product_step *s;
  oct_step *step;
  OCT_TRY(oct_lower_input(a->l, read_value(a, 0), OCT_F32, OCT_LAYOUT_PLAIN, NULL, &in));
  if (a->fusion.residual) OCT_TRY(oct_accumulate_input(a, a->fusion.residual, OCT_F32, false, &residual));
  OCT_TRY(oct_accumulate_output(a, OCT_F32, &out));
  OCT_TRY(oct_lower_step(a->l, a->p->node, kernel->name, run_product, sizeof *s, &s, &step));
  s->args = (oct_conv_f32_args){.shape = *shape, .low = -INFINITY, .high = INFINITY};
  s->kernel = kernel, s->matmul = *matmul, s->packed_bytes = bytes, s->units = kernel->units(shape);
  OCT_TRY(set_places(a, s));
  if (a->fusion.has_clamp) s->args.low = a->fusion.low, s->args.high = a->fusion.high;
  step->units = s->units * (size_t)matmul->batches, step->grain = 1;
  step->workspace_bytes = kernel->workspace_bytes ? kernel->workspace_bytes(shape) : 0;
  step->macs = oct_accumulate_macs(shape) * (double)matmul->batches;
  step->reason = oct_accumulate_reason(a, reasons);
  OCT_TRY(oct_lower_read(a->l, step, &s->args.in.data, in));
  if (residual) OCT_TRY(oct_lower_read(a->l, step, &s->args.residual.data, residual));
  OCT_TRY(oct_lower_read(a->l, step, &s->packed, packed));
  OCT_TRY(oct_lower_write(a->l, step, &s->args.out.data, out));
  return oct_accumulate_finish(a, out);
}

octet_status oct_matmul_lower_f32(oct_lowering *l, oct_node *node) {
  const oct_value *a = node->inputs[0], *b = node->inputs[1];
  if (a->dtype != OCT_F32 || a->shape.rank < 2 || b->shape.rank < 2) return oct_lower_decline(l, "only f32 matrices have a kernel");
  oct_matmul_shape matmul = oct_matmul_shape_make(&a->shape, &b->shape);
  if (matmul.m < 1 || matmul.k < 1 || matmul.n < 1 || matmul.batches < 1) return oct_lower_decline(l, "a dimension is zero");
  oct_accumulate_problem p = {.node = node, .input = a, .weights = b, .alpha = 1};
  p.shape = (oct_conv_shape){.batch = 1, .in_h = 1, .out_h = 1, .groups = 1};
  p.shape.in_w = p.shape.out_w = matmul.m, p.shape.channels = matmul.k, p.shape.out_channels = matmul.n;
  p.shape.kernel_h = p.shape.kernel_w = p.shape.stride_h = p.shape.stride_w = p.shape.dilation_h = p.shape.dilation_w = 1;
  oct_accumulate work = {.l = l, .p = &p, .fusion = oct_lower_fusion(l, node), .reason = "float: both factors are activations"};
  if (work.fusion.rounded && work.fusion.rounded->quant) {
    work.rounded_scale = work.fusion.rounded->quant->scale[0];
    work.rounded_zero_point = work.fusion.rounded->quant->zero_point[0] + (work.fusion.rounded->quant->dtype == OCT_I8 ? 128 : 0);
  }
  work.table_after = work.fusion.table != NULL;
  char reasons[512] = "";
  const oct_conv_f32_kernel *kernel = oct_conv_f32_select(l->isa_mask, &p.shape, reasons, sizeof reasons);
  oct_slot *packed;
  size_t bytes;
  if (!kernel->pack_matrix) return oct_lower_decline(l, "%s cannot pack at run time", kernel->name);
  OCT_TRY(add_pack(&work, kernel, &packed, &bytes));
  return add_product(&work, kernel, reasons, &matmul, packed, bytes);
}
