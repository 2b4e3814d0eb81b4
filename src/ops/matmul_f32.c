/* Float matrix product of two activations: B is packed at run time, then the dense float kernel runs matrix by matrix.
 * Transpositions before and after are strides here, a factor goes into the packed B (exec/fuse.h). With scores fused:
 * matmul_attention.c.
 * SPDX-License-Identifier: MIT */
#include "ops/matmul_f32.h"

#include "ops/movement.h"

/* Element strides of a value's logical dims where it lies plain, seen through the transposition that makes it (`before`) or takes
 * it (`after`). */
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
static int64_t *matrix_offsets(oct_lowering *l, const oct_shape *shape, const int64_t *strides, const int64_t *batch, int batch_rank,
                               int64_t count) {
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

const oct_value *oct_matmul_read_value(const oct_accumulate *a, int input) {
  const oct_node *before = a->fusion.before[input];
  return before ? before->inputs[0] : a->p->node->inputs[input];
}

octet_status oct_matmul_pack(oct_accumulate *a, const oct_conv_f32_kernel *kernel, oct_slot **packed, size_t *bytes) {
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
  OCT_TRY(oct_lower_input(a->l, oct_matmul_read_value(a, 1), OCT_F32, OCT_LAYOUT_PLAIN, NULL, &in));
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

oct_conv_f32_args oct_matmul_args(const oct_matmul_product *p, int64_t batch) {
  int64_t a, b;
  oct_conv_f32_args args = p->args;
  oct_matmul_batch(&p->matmul, batch, &a, &b);
  oct_matmul_advance(&args.in, p->a_offsets[batch]);
  oct_matmul_advance(&args.out, p->y_offsets[batch]);
  if (args.residual.data) oct_matmul_advance(&args.residual, p->residual_offsets[batch]);
  args.packed = p->packed + (size_t)b * p->packed_bytes;
  return args;
}

static octet_status run_product(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx;
  const oct_matmul_product *s = params;
  while (begin < end) {
    size_t first = begin % s->units, last = first + (end - begin) < s->units ? first + (end - begin) : s->units;
    oct_conv_f32_args args = oct_matmul_args(s, (int64_t)(begin / s->units));
    s->kernel->run(&args, first, last, workspace);
    begin += last - first;
  }
  return OCTET_OK;
}

/* A matrix as an image of one row; rows that broadcast lie on one another. */
static oct_view matrix_view(const oct_shape *shape, const int64_t *strides) {
  int row = shape->rank - 2;
  ptrdiff_t pixel = row < 0 || shape->dim[row] == 1 ? 0 : (ptrdiff_t)strides[row];
  return (oct_view){.pixel = pixel};
}

static octet_status set_places(oct_accumulate *a, oct_matmul_product *s) {
  const oct_shape *in = &a->p->input->shape, *out = &a->p->node->outputs[0]->shape;
  const oct_matmul_shape *m = &s->matmul;
  int64_t strides[OCT_MAX_RANK];
  strides_of(in, a->fusion.before[0], NULL, strides);
  s->args.in = matrix_view(in, strides);
  s->a_offsets = matrix_offsets(a->l, in, strides, m->batch, m->rank, m->batches);
  strides_of(out, NULL, a->fusion.after, strides);
  s->args.out = matrix_view(out, strides);
  s->y_offsets = matrix_offsets(a->l, out, strides, m->batch, m->rank, m->batches);
  if (a->fusion.residual) {
    const oct_shape *residual = &a->fusion.residual->shape;
    oct_shape_strides(residual, strides);
    s->args.residual = matrix_view(residual, strides);
    s->residual_offsets = matrix_offsets(a->l, residual, strides, m->batch, m->rank, m->batches);
    if (!s->residual_offsets) return OCTET_OUT_OF_MEMORY;
  }
  return s->a_offsets && s->y_offsets ? OCTET_OK : OCTET_OUT_OF_MEMORY;
}

octet_status oct_matmul_product_make(oct_accumulate *a, const oct_matmul_shape *matmul, const oct_conv_f32_kernel *kernel,
                                     size_t packed_bytes, oct_matmul_product *s) {
  const oct_conv_shape *shape = &a->p->shape;
  *s = (oct_matmul_product){.kernel = kernel, .matmul = *matmul, .packed_bytes = packed_bytes, .units = kernel->units(shape)};
  s->args = (oct_conv_f32_args){.shape = *shape, .low = -INFINITY, .high = INFINITY};
  if (a->fusion.has_clamp) s->args.low = a->fusion.low, s->args.high = a->fusion.high;
  return set_places(a, s);
}

static octet_status add_product(oct_accumulate *a, const oct_conv_f32_kernel *kernel, const char *reasons, const oct_matmul_shape *matmul,
                                oct_slot *packed, size_t bytes) {
  const oct_conv_shape *shape = &a->p->shape;
  oct_slot *in, *out, *residual = NULL;
  oct_matmul_product *s;
  oct_step *step;
  OCT_TRY(oct_lower_input(a->l, oct_matmul_read_value(a, 0), OCT_F32, OCT_LAYOUT_PLAIN, NULL, &in));
  if (a->fusion.residual) OCT_TRY(oct_accumulate_input(a, a->fusion.residual, OCT_F32, false, &residual));
  OCT_TRY(oct_accumulate_output(a, OCT_F32, &out));
  OCT_TRY(oct_lower_step(a->l, a->p->node, kernel->name, run_product, sizeof *s, &s, &step));
  OCT_TRY(oct_matmul_product_make(a, matmul, kernel, bytes, s));
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

oct_accumulate_problem oct_matmul_problem(oct_node *node, const oct_matmul_shape *matmul) {
  oct_accumulate_problem p = {.node = node, .input = node->inputs[0], .weights = node->inputs[1], .alpha = 1};
  p.shape = (oct_conv_shape){.batch = 1, .in_h = 1, .out_h = 1, .groups = 1};
  p.shape.in_w = p.shape.out_w = matmul->m, p.shape.channels = matmul->k, p.shape.out_channels = matmul->n;
  p.shape.kernel_h = p.shape.kernel_w = p.shape.stride_h = p.shape.stride_w = p.shape.dilation_h = p.shape.dilation_w = 1;
  return p;
}

octet_status oct_matmul_lower_f32(oct_lowering *l, oct_node *node) {
  const oct_value *a = node->inputs[0], *b = node->inputs[1];
  if (a->dtype != OCT_F32 || a->shape.rank < 2 || b->shape.rank < 2) return oct_lower_decline(l, "only f32 matrices have a kernel");
  oct_matmul_shape matmul = oct_matmul_shape_make(&a->shape, &b->shape);
  if (matmul.m < 1 || matmul.k < 1 || matmul.n < 1 || matmul.batches < 1) return oct_lower_decline(l, "a dimension is zero");
  oct_accumulate_problem p = oct_matmul_problem(node, &matmul);
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
  if (work.fusion.scores) return oct_matmul_lower_attention(&work, &matmul, kernel, reasons);
  OCT_TRY(oct_matmul_pack(&work, kernel, &packed, &bytes));
  return add_product(&work, kernel, reasons, &matmul, packed, bytes);
}
