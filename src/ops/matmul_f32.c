/* Float matrix product of two activations: B is turned and packed at run time, then the dense float kernel runs matrix by matrix.
 * SPDX-License-Identifier: MIT */
#include "ops/accumulate_parts.h"
#include "ops/matmul.h"

typedef struct pack_step {
  const oct_conv_f32_kernel *kernel;
  oct_conv_shape shape;
  const float *in; /* [k][n] per matrix */
  float *turned;   /* [n][k] per matrix */
  char *packed;
  size_t packed_bytes;
} pack_step;

static octet_status run_pack(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const pack_step *s = params;
  int64_t n = s->shape.out_channels, k = s->shape.channels;
  for (size_t b = begin; b < end; b++) {
    const float *in = s->in + (int64_t)b * n * k;
    float *turned = s->turned + (int64_t)b * n * k;
    for (int64_t block = 0; block < n; block += 16) {
      int64_t last = block + 16 < n ? block + 16 : n;
      for (int64_t i = 0; i < k; i++)
        for (int64_t j = block; j < last; j++) turned[j * k + i] = in[i * n + j];
    }
    s->kernel->pack(&s->shape, turned, s->packed + b * s->packed_bytes);
  }
  return OCTET_OK;
}

typedef struct product_step {
  oct_conv_f32_args args; /* of the first matrix */
  const oct_conv_f32_kernel *kernel;
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
    args.in.data = (float *)args.in.data + a * s->matmul.m * s->matmul.k;
    args.out.data = (float *)args.out.data + batch * s->matmul.m * s->matmul.n;
    if (args.residual.data) args.residual.data = (float *)args.residual.data + batch * s->matmul.m * s->matmul.n;
    args.packed = s->packed + (size_t)b * s->packed_bytes;
    s->kernel->run(&args, first, last, workspace);
    begin += last - first;
  }
  return OCTET_OK;
}

/* Packs every matrix of B. */
static octet_status add_pack(oct_accumulate *a, const oct_conv_f32_kernel *kernel, const oct_value *b, oct_slot **packed, size_t *bytes) {
  oct_slot *in, *turned;
  pack_step *s;
  oct_step *step;
  const oct_conv_shape *shape = &a->p->shape;
  int64_t matrices = 1;
  for (int i = 0; i < b->shape.rank - 2; i++) matrices *= b->shape.dim[i];
  *bytes = (kernel->packed_bytes(shape) + OCT_ALIGNMENT - 1) / OCT_ALIGNMENT * OCT_ALIGNMENT;
  oct_shape packed_shape = oct_shape_of(2, matrices, (int64_t)*bytes);
  OCT_TRY(oct_lower_input(a->l, b, OCT_F32, OCT_LAYOUT_PLAIN, NULL, &in));
  OCT_TRY(oct_lower_scratch(a->l, OCT_F32, &b->shape, OCT_LAYOUT_PLAIN, NULL, &turned));
  OCT_TRY(oct_lower_scratch(a->l, OCT_U8, &packed_shape, OCT_LAYOUT_PLAIN, NULL, packed));
  OCT_TRY(oct_lower_step(a->l, a->p->node, "pack_f32", run_pack, sizeof *s, &s, &step));
  s->kernel = kernel, s->shape = *shape, s->packed_bytes = *bytes;
  step->units = (size_t)matrices, step->grain = 1;
  OCT_TRY(oct_lower_read(a->l, step, &s->in, in));
  OCT_TRY(oct_lower_write(a->l, step, &s->turned, turned));
  return oct_lower_write(a->l, step, &s->packed, *packed);
}

static octet_status add_product(oct_accumulate *a, const oct_conv_f32_kernel *kernel, const char *reasons, const oct_matmul_shape *matmul,
                                oct_slot *packed, size_t bytes) {
  const oct_conv_shape *shape = &a->p->shape;
  oct_slot *in, *out, *residual = NULL;
  product_step *s;
  oct_step *step;
  OCT_TRY(oct_accumulate_input(a, a->p->input, OCT_F32, false, &in));
  if (a->fusion.residual) OCT_TRY(oct_accumulate_input(a, a->fusion.residual, OCT_F32, false, &residual));
  OCT_TRY(oct_accumulate_output(a, OCT_F32, &out));
  OCT_TRY(oct_lower_step(a->l, a->p->node, kernel->name, run_product, sizeof *s, &s, &step));
  oct_view a_view = {.image = shape->in_w * shape->channels, .row = shape->in_w * shape->channels, .pixel = shape->channels};
  oct_view y_view = {.image = shape->out_w * shape->out_channels, .row = shape->out_w * shape->out_channels, .pixel = shape->out_channels};
  s->args = (oct_conv_f32_args){.shape = *shape, .in = a_view, .out = y_view, .low = -INFINITY, .high = INFINITY};
  if (residual) s->args.residual = y_view;
  if (a->fusion.has_clamp) s->args.low = a->fusion.low, s->args.high = a->fusion.high;
  s->kernel = kernel, s->matmul = *matmul, s->packed_bytes = bytes, s->units = kernel->units(shape);
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
  p.shape = (oct_conv_shape){.batch = 1,
                             .in_h = 1,
                             .in_w = matmul.m,
                             .channels = matmul.k,
                             .out_h = 1,
                             .out_w = matmul.m,
                             .out_channels = matmul.n,
                             .kernel_h = 1,
                             .kernel_w = 1,
                             .stride_h = 1,
                             .stride_w = 1,
                             .dilation_h = 1,
                             .dilation_w = 1,
                             .groups = 1};
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
  OCT_TRY(add_pack(&work, kernel, b, &packed, &bytes));
  return add_product(&work, kernel, reasons, &matmul, packed, bytes);
}
