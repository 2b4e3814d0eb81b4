/* Transpose (ONNX).
 * SPDX-License-Identifier: MIT */
#include "ops/movement.h"

bool oct_transpose_permutation(const oct_node *node, int rank, int perm[OCT_MAX_RANK]) {
  size_t count;
  const int64_t *list = oct_node_ints(node, "perm", &count);
  bool seen[OCT_MAX_RANK] = {false};
  if (!oct_node_attribute(node, "perm")) {
    for (int i = 0; i < rank; i++) perm[i] = rank - 1 - i;
    return true;
  }
  if (count != (size_t)rank) return false;
  for (int i = 0; i < rank; i++) {
    int64_t axis = list[i];
    if (!oct_axis_normalize(&axis, rank) || seen[axis]) return false;
    seen[axis] = true;
    perm[i] = (int)axis;
  }
  return true;
}

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0];
  int perm[OCT_MAX_RANK];
  if (!x->has_shape) {
    oct_infer_set(node->outputs[0], x->dtype, NULL);
    return OCTET_OK;
  }
  if (!oct_transpose_permutation(node, x->shape.rank, perm))
    return oct_infer_fail(ctx, node, "perm is no permutation of the input's %d dims", x->shape.rank);
  oct_shape out = {.rank = x->shape.rank};
  for (int i = 0; i < out.rank; i++) out.dim[i] = x->shape.dim[perm[i]];
  oct_infer_set(node->outputs[0], x->dtype, &out);
  return OCTET_OK;
}

static oct_copy make_copy(const oct_node *node, const oct_shape *out, const int64_t in_stride[OCT_MAX_RANK],
                          const int64_t out_stride[OCT_MAX_RANK]) {
  int perm[OCT_MAX_RANK];
  int64_t permuted[OCT_MAX_RANK] = {0};
  if (oct_transpose_permutation(node, out->rank, perm))
    for (int i = 0; i < out->rank; i++) permuted[i] = in_stride[perm[i]];
  return oct_copy_make(out, permuted, out_stride);
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  int64_t from[OCT_MAX_RANK], to[OCT_MAX_RANK];
  oct_shape_strides(&in[0]->shape, from);
  oct_shape_strides(&out[0]->shape, to);
  oct_copy copy = make_copy(node, &out[0]->shape, from, to);
  oct_copy_run(&copy, oct_dtype_size(in[0]->dtype), in[0]->data, out[0]->data);
  return OCTET_OK;
}

/* Channels moved to the end of an image that is stored so, without a border: the bytes stay where they are. */
static bool is_stored_order(const oct_node *node, const oct_slot *in) {
  int perm[OCT_MAX_RANK], rank = in->shape.rank;
  const oct_border *b = &in->border;
  if (in->layout != OCT_LAYOUT_CHANNELS_LAST || rank < 3 || b->top || b->left || b->bottom || b->right || in->data) return false;
  if (!oct_transpose_permutation(node, rank, perm) || perm[0] != 0 || perm[rank - 1] != 1) return false;
  for (int i = 1; i + 1 < rank; i++)
    if (perm[i] != i + 1) return false;
  return true;
}

static octet_status lower(oct_lowering *l, oct_node *node) {
  oct_slot *in, *out;
  const uint8_t *table;
  OCT_TRY(oct_lower_stored(l, node->inputs[0], &in));
  if (oct_quant_equal(node->inputs[0]->quant, node->outputs[0]->quant) && is_stored_order(node, in))
    return oct_lower_alias(l, node->outputs[0], in);
  OCT_TRY(oct_movement_slots(l, node->inputs[0], node->outputs[0], &in, &out, &table));
  int64_t from[OCT_MAX_RANK], to[OCT_MAX_RANK];
  oct_slot_strides(in, in->shape.rank, from);
  oct_slot_strides(out, out->shape.rank, to);
  oct_copy copy = make_copy(node, &out->shape, from, to);
  return oct_movement_step(l, node, &copy, in, out, table);
}

static const oct_attribute_spec attributes[] = {
    {"perm", OCT_ATTRIBUTE_INTS, false, "", -OCT_MAX_RANK, OCT_MAX_RANK - 1, "input dim of each output dim; reversed when absent"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row imports[] = {{"onnx", "Transpose", 1, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row exports[] = {{"onnx", "Transpose", NULL}, {NULL, NULL, NULL}};
static const char *const cases[] = {
    "in=f32[3,5]",
    "in=f32[2,3,4,5] attr:perm=0,2,3,1",
    "in=f32[2,5,7,3] attr:perm=0,3,1,2",
    "in=f32[1,12,33,64] attr:perm=0,2,1,3",
    "in=u8[65,67]",
    "in=i64[2,3,4] attr:perm=2,0,1",
    NULL,
};

const oct_op oct_op_transpose = {
    .name = "transpose",
    .summary = "dims in another order",
    .traits = OCT_TRAIT_MOVEMENT | OCT_TRAIT_PERMUTES,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer,
    .reference = reference,
    .lower = lower,
    .per_sample = oct_per_sample_permutation,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_SAME},
    .imports = imports,
    .exports = exports,
    .cases = cases,
};
