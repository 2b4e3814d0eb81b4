/* conv_integer and matmul_integer on the 8-bit kernels. The zero point of x is known only at run time: a first step folds it into the bias
 * (-zero point * sum of weights) and, for images, lays x out channels-last inside a border of zero points.
 * SPDX-License-Identifier: MIT */
#include "ops/integer_lower.h"

#include "ops/movement.h"

/* ---- Weights as int8 without zero point --------------------------------------------------------------------------- */

typedef struct weights_view {
  const oct_tensor *tensor, *zero;
  int64_t n, depth;
  bool by_k;
} weights_view;

static int64_t weight_at(const weights_view *w, int64_t channel, int64_t k) {
  int64_t i = w->by_k ? k * w->n + channel : channel * w->depth + k, z = 0;
  if (w->zero) z = oct_get_i64(w->zero->data, w->zero->dtype, oct_shape_count(&w->zero->shape) == 1 ? 0 : channel);
  return oct_get_i64(w->tensor->data, w->tensor->dtype, i) - z;
}

static octet_status view_weights(oct_lowering *l, const oct_integer_problem *p, weights_view *w) {
  const oct_node *node = p->node;
  const oct_value *zero = node->n_inputs > 3 ? node->inputs[3] : NULL;
  *w = (weights_view){
      .tensor = oct_constant_of(node->inputs[1]), .zero = oct_constant_of(zero), .n = p->shape.out_channels, .by_k = p->weights_by_k};
  w->depth = p->shape.channels / p->shape.groups * p->shape.kernel_h * p->shape.kernel_w;
  if (!w->tensor || (zero && !w->zero)) return oct_lower_decline(l, "the weights or their zero point are not constant");
  if (w->zero && oct_shape_count(&w->zero->shape) != 1 && oct_shape_count(&w->zero->shape) != w->n)
    return oct_lower_decline(l, "the zero points of the weights are not per output channel");
  for (int64_t c = 0; c < w->n; c++)
    for (int64_t k = 0; k < w->depth; k++) {
      int64_t v = weight_at(w, c, k);
      if (v < -128 || v > 127) return oct_lower_decline(l, "a weight less its zero point (%lld) is outside int8", (long long)v);
    }
  return OCTET_OK;
}

static octet_status pack(oct_lowering *l, const oct_integer_problem *p, const weights_view *w, const oct_conv_i8_kernel *kernel,
                         void **packed) {
  void *memory = oct_lower_memory(l, kernel->packed_bytes(&p->shape) + OCT_ALIGNMENT, 1);
  int8_t *plain = oct_alloc_raw(l->ctx, (size_t)(w->n * w->depth) + 1);
  if (!memory || !plain) {
    oct_free(plain);
    return OCTET_OUT_OF_MEMORY;
  }
  for (int64_t c = 0; c < w->n; c++)
    for (int64_t k = 0; k < w->depth; k++) plain[c * w->depth + k] = (int8_t)weight_at(w, c, k);
  *packed = (void *)(((uintptr_t)memory + OCT_ALIGNMENT - 1) / OCT_ALIGNMENT * OCT_ALIGNMENT);
  kernel->pack(&p->shape, plain, *packed);
  oct_free(plain);
  return OCTET_OK;
}

/* ---- First step: bias and border ----------------------------------------------------------------------------------- */

typedef struct fold_step {
  const uint8_t *zero_point; /* raw byte; NULL: 0 */
  int32_t *bias;
  const int32_t *sums;
  int64_t n;
  int32_t flip;   /* 128 when x is signed: it is stored with 128 added */
  uint8_t *image; /* NULL: no border to fill */
  oct_view view;
  int64_t batch, top, bottom, height, left, row_bytes; /* of a row with its border; left in bytes */
} fold_step;

static octet_status run_fold(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)begin, (void)end, (void)workspace;
  const fold_step *s = params;
  uint8_t byte = s->zero_point ? *s->zero_point : 0;
  int32_t zero = (uint8_t)(byte ^ s->flip);
  for (int64_t c = 0; c < s->n; c++) s->bias[c] = (int32_t)(0u - (uint32_t)zero * (uint32_t)s->sums[c]);
  for (int64_t i = 0; s->image && i < s->batch; i++)
    for (int64_t y = -s->top; y < s->height + s->bottom; y++)
      memset(s->image + i * s->view.image + y * s->view.row - s->left, zero, (size_t)s->row_bytes);
  return OCTET_OK;
}

static octet_status add_fold(oct_lowering *l, const oct_integer_problem *p, const weights_view *w, oct_slot *image, oct_slot *bias) {
  const oct_value *zero = p->node->n_inputs > 2 ? p->node->inputs[2] : NULL;
  fold_step *s;
  oct_step *step;
  oct_slot *slot;
  OCT_TRY(oct_lower_step(l, p->node, "fold_zero_point", run_fold, sizeof *s, &s, &step));
  int32_t *sums = oct_lower_memory(l, (size_t)w->n, sizeof *sums);
  if (!sums) return OCTET_OUT_OF_MEMORY;
  for (int64_t c = 0; c < w->n; c++)
    for (int64_t k = 0; k < w->depth; k++) sums[c] += (int32_t)weight_at(w, c, k);
  s->sums = sums, s->n = w->n;
  s->flip = p->node->inputs[0]->dtype == OCT_I8 ? 128 : 0;
  if (image) {
    s->view = oct_slot_view(image);
    s->batch = p->shape.batch, s->height = p->shape.in_h, s->top = image->border.top, s->bottom = image->border.bottom;
    s->left = image->border.left * p->shape.channels;
    s->row_bytes = (p->shape.in_w + image->border.left + image->border.right) * p->shape.channels;
    OCT_TRY(oct_lower_write(l, step, &s->image, image));
  }
  if (zero) {
    OCT_TRY(oct_lower_input(l, zero, zero->dtype, OCT_LAYOUT_PLAIN, NULL, &slot));
    OCT_TRY(oct_lower_read(l, step, &s->zero_point, slot));
  }
  return oct_lower_write(l, step, &s->bias, bias);
}

/* ---- The product ------------------------------------------------------------------------------------------------------ */

typedef struct product_step {
  oct_conv_i8_args args;
  const oct_conv_i8_kernel *kernel;
} product_step;

static octet_status run_product(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx;
  const product_step *s = params;
  s->kernel->run(&s->args, begin, end, workspace);
  return OCTET_OK;
}

static octet_status add_product(oct_lowering *l, const oct_integer_problem *p, const oct_conv_i8_kernel *kernel, const void *packed,
                                oct_slot *in, oct_slot *bias) {
  product_step *s;
  oct_step *step;
  oct_slot *out;
  OCT_TRY(oct_lower_output(l, p->node->outputs[0], OCT_I32, p->spatial ? OCT_LAYOUT_CHANNELS_LAST : OCT_LAYOUT_PLAIN, &out));
  OCT_TRY(oct_lower_step(l, p->node, kernel->name, run_product, sizeof *s, &s, &step));
  s->kernel = kernel;
  s->args = (oct_conv_i8_args){.shape = p->shape, .in = oct_slot_view(in), .out = oct_slot_view(out), .packed = packed};
  s->args.epilogue = (oct_epilogue_i8){.profile = l->profile, .out = OCT_EPILOGUE_S32, .high = 255};
  step->units = kernel->units(&p->shape);
  step->workspace_bytes = kernel->workspace_bytes ? kernel->workspace_bytes(&p->shape) : 0;
  step->macs = (double)p->shape.batch * (double)(p->shape.out_h * p->shape.out_w) * (double)p->shape.out_channels *
               (double)(p->shape.channels / p->shape.groups * p->shape.kernel_h * p->shape.kernel_w);
  OCT_TRY(oct_lower_read(l, step, &s->args.in.data, in));
  OCT_TRY(oct_lower_read(l, step, &s->args.epilogue.bias, bias));
  return oct_lower_write(l, step, &s->args.out.data, out);
}

/* x as unsigned bytes where the kernel reads it: as it lies, or copied into a scratch image or matrix. */
static octet_status stage(oct_lowering *l, const oct_integer_problem *p, oct_slot *x, oct_slot *staged) {
  uint8_t *table = NULL;
  if (x->dtype == OCT_I8) {
    table = oct_lower_memory(l, 256, 1);
    if (!table) return OCTET_OUT_OF_MEMORY;
    for (int i = 0; i < 256; i++) table[i] = (uint8_t)(i ^ 128);
  }
  int64_t from[OCT_MAX_RANK], to[OCT_MAX_RANK];
  oct_slot_strides(x, x->shape.rank, from);
  oct_slot_strides(staged, x->shape.rank, to);
  oct_copy copy = oct_copy_make(&x->shape, from, to);
  return oct_movement_step(l, p->node, &copy, x, staged, table);
}

octet_status oct_integer_lower(oct_lowering *l, const oct_integer_problem *p) {
  const oct_value *x = p->node->inputs[0];
  weights_view w;
  oct_slot *in, *staged = NULL, *bias;
  void *packed;
  oct_shape channels = oct_shape_of(1, (p->shape.out_channels + 63) / 64 * 64);
  oct_border border = {p->shape.pad_top, p->shape.pad_left, p->pad_bottom, p->pad_right};
  const oct_value *zero = p->node->n_inputs > 2 ? p->node->inputs[2] : NULL;
  if (oct_shape_count(&p->node->outputs[0]->shape) == 0 || oct_shape_count(&x->shape) == 0)
    return oct_lower_decline(l, "a dimension is zero");
  if (zero && oct_shape_count(&zero->shape) != 1) return oct_lower_decline(l, "the zero point of the input differs from row to row");
  OCT_TRY(view_weights(l, p, &w));
  char refused[64] = "";
  const oct_conv_i8_kernel *kernel;
  OCT_TRY(oct_lower_choose_i8(l, &p->shape, NULL, NULL, &kernel, refused, sizeof refused));
  OCT_TRY(pack(l, p, &w, kernel, &packed));
  OCT_TRY(oct_lower_input(l, x, x->dtype, OCT_LAYOUT_PLAIN, NULL, &in));
  OCT_TRY(oct_lower_scratch(l, OCT_I32, &channels, OCT_LAYOUT_PLAIN, NULL, &bias));
  if (p->spatial) OCT_TRY(oct_lower_scratch(l, OCT_U8, &x->shape, OCT_LAYOUT_CHANNELS_LAST, &border, &staged));
  else if (x->dtype == OCT_I8) OCT_TRY(oct_lower_scratch(l, OCT_U8, &x->shape, OCT_LAYOUT_PLAIN, NULL, &staged));
  OCT_TRY(add_fold(l, p, &w, p->spatial ? staged : NULL, bias));
  if (staged) OCT_TRY(stage(l, p, in, staged));
  return add_product(l, p, kernel, packed, staged ? staged : in, bias);
}
