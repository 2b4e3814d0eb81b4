/* Expand and Tile (ONNX): elements repeated, by broadcasting to a shape or by whole copies.
 * SPDX-License-Identifier: MIT */
#include "ops/movement.h"

static octet_status check_list(octet_context *ctx, const oct_node *node, const oct_value *v) {
  char text[OCT_SHAPE_TEXT];
  if (v->dtype != OCT_DTYPE_NONE && v->dtype != OCT_I64)
    return oct_infer_fail(ctx, node, "'%s' is %s; it must be i64", v->name, oct_dtype_name(v->dtype));
  if (v->has_shape && (v->shape.rank != 1 || v->shape.dim[0] > OCT_MAX_RANK))
    return oct_infer_fail(ctx, node, "'%s' is %s; it must be a list of at most %d numbers", v->name, oct_shape_text(&v->shape, text),
                          OCT_MAX_RANK);
  return OCTET_OK;
}

/* ---- Expand ---------------------------------------------------------------------------------------------------- */

static octet_status infer_expand(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0], *s = node->inputs[1];
  oct_shape wanted = {0}, out;
  char a[OCT_SHAPE_TEXT], b[OCT_SHAPE_TEXT];
  OCT_TRY(check_list(ctx, node, s));
  wanted.rank = oct_constant_ints(s, wanted.dim, OCT_MAX_RANK);
  if (!x->has_shape || wanted.rank < 0) {
    oct_infer_set(node->outputs[0], x->dtype, NULL);
    return OCTET_OK;
  }
  for (int i = 0; i < wanted.rank; i++)
    if (wanted.dim[i] < 0) return oct_infer_fail(ctx, node, "the shape holds %lld", (long long)wanted.dim[i]);
  if (!oct_shape_broadcast(&x->shape, &wanted, &out))
    return oct_infer_fail(ctx, node, "%s does not broadcast to %s", oct_shape_text(&x->shape, a), oct_shape_text(&wanted, b));
  oct_infer_set(node->outputs[0], x->dtype, &out);
  return OCTET_OK;
}

/* Strides of the input seen with the output's dims: 0 where it repeats. */
static void broadcast_strides(const oct_shape *in, int rank, int64_t strides[OCT_MAX_RANK]) {
  int64_t own[OCT_MAX_RANK];
  oct_shape_strides(in, own);
  for (int d = 0; d < rank; d++) {
    int from = d - (rank - in->rank);
    strides[d] = from < 0 || in->dim[from] == 1 ? 0 : own[from];
  }
}

static octet_status reference_expand(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx, (void)node;
  int64_t from[OCT_MAX_RANK], to[OCT_MAX_RANK];
  broadcast_strides(&in[0]->shape, out[0]->shape.rank, from);
  oct_shape_strides(&out[0]->shape, to);
  oct_copy copy = oct_copy_make(&out[0]->shape, from, to);
  oct_copy_run(&copy, oct_dtype_size(in[0]->dtype), in[0]->data, out[0]->data);
  return OCTET_OK;
}

static octet_status lower_expand(oct_lowering *l, oct_node *node) {
  oct_slot *in, *out;
  const uint8_t *table;
  OCT_TRY(oct_movement_slots(l, node->inputs[0], node->outputs[0], &in, &out, &table));
  int64_t from[OCT_MAX_RANK], to[OCT_MAX_RANK];
  oct_slot_strides(in, out->shape.rank, from);
  oct_slot_strides(out, out->shape.rank, to);
  oct_copy copy = oct_copy_make(&out->shape, from, to);
  return oct_movement_step(l, node, &copy, in, out, table);
}

/* ---- Tile -------------------------------------------------------------------------------------------------------- */

static octet_status infer_tile(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0], *r = node->inputs[1];
  int64_t repeats[OCT_MAX_RANK];
  OCT_TRY(check_list(ctx, node, r));
  if (!x->has_shape) {
    oct_infer_set(node->outputs[0], x->dtype, NULL);
    return OCTET_OK;
  }
  oct_shape out = x->shape;
  int count = oct_constant_ints(r, repeats, OCT_MAX_RANK);
  if (count >= 0 && count != out.rank) return oct_infer_fail(ctx, node, "%d repeats for %d dims", count, out.rank);
  for (int i = 0; i < out.rank; i++) {
    if (count < 0 || out.dim[i] == OCT_DIM_UNKNOWN) out.dim[i] = OCT_DIM_UNKNOWN;
    else if (repeats[i] < 0 || __builtin_mul_overflow(out.dim[i], repeats[i], &out.dim[i]))
      return oct_infer_fail(ctx, node, "repeat %d is %lld", i, (long long)repeats[i]);
  }
  oct_infer_set(node->outputs[0], x->dtype, &out);
  return OCTET_OK;
}

static octet_status reference_tile(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx, (void)node;
  const oct_shape *is = &in[0]->shape, *os = &out[0]->shape;
  int64_t count = oct_shape_count(os), strides[OCT_MAX_RANK];
  size_t size = oct_dtype_size(in[0]->dtype);
  oct_shape_strides(is, strides);
  for (int64_t i = 0; i < count; i++) {
    int64_t rest = i, from = 0;
    for (int d = os->rank - 1; d >= 0; d--) from += rest % os->dim[d] % is->dim[d] * strides[d], rest /= os->dim[d];
    memcpy((char *)out[0]->data + (size_t)i * size, (const char *)in[0]->data + (size_t)from * size, size);
  }
  return OCTET_OK;
}

/* Each repeated dim becomes two: the copies, and the elements of one. */
static octet_status lower_tile(oct_lowering *l, oct_node *node) {
  oct_slot *in, *out;
  const uint8_t *table;
  const oct_shape *is = &node->inputs[0]->shape, *os = &node->outputs[0]->shape;
  int rank = 0;
  for (int d = 0; d < is->rank; d++) {
    if (oct_shape_count(os) == 0) return oct_lower_decline(l, "the result is empty");
    rank += os->dim[d] != is->dim[d] && is->dim[d] != 1 ? 2 : 1;
  }
  if (rank > OCT_MAX_RANK) return oct_lower_decline(l, "too many repeated dims");
  OCT_TRY(oct_movement_slots(l, node->inputs[0], node->outputs[0], &in, &out, &table));
  int64_t from[OCT_MAX_RANK], to[OCT_MAX_RANK];
  oct_slot_strides(in, is->rank, from);
  oct_slot_strides(out, os->rank, to);
  oct_copy copy = {.shape = {.rank = 0}};
  for (int d = 0; d < is->rank; d++) {
    int64_t repeats = os->dim[d] / is->dim[d];
    if (repeats != 1 && is->dim[d] != 1) {
      copy.in_stride[copy.shape.rank] = 0, copy.out_stride[copy.shape.rank] = to[d] * is->dim[d];
      copy.shape.dim[copy.shape.rank++] = repeats;
    }
    copy.in_stride[copy.shape.rank] = from[d], copy.out_stride[copy.shape.rank] = to[d];
    copy.shape.dim[copy.shape.rank++] = is->dim[d] == 1 ? repeats : is->dim[d];
  }
  return oct_movement_step(l, node, &copy, in, out, table);
}

static const oct_import_row expand_imports[] = {{"onnx", "Expand", 8, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row expand_exports[] = {{"onnx", "Expand", NULL}, {NULL, NULL, NULL}};
static const oct_import_row tile_imports[] = {{"onnx", "Tile", 6, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row tile_exports[] = {{"onnx", "Tile", NULL}, {NULL, NULL, NULL}};
static const char *const expand_cases[] = {"in=f32[3,1],i64[3]=2,1,6", "in=f32[1,4,1,1],i64[4]=2,4,3,5", "in=i64[],i64[1]=3", NULL};
static const char *const tile_cases[] = {"in=f32[2,3],i64[2]=2,3", "in=f32[1,3,2,2],i64[4]=2,1,3,1", "in=u8[5],i64[1]=4", NULL};

const oct_op oct_op_expand = {
    .name = "expand",
    .summary = "broadcast to a shape",
    .traits = OCT_TRAIT_MOVEMENT,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer_expand,
    .reference = reference_expand,
    .lower = lower_expand,
    .per_sample = oct_per_sample_expand,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_NONE}, .output = OCT_OUTPUT_SAME},
    .imports = expand_imports,
    .exports = expand_exports,
    .cases = expand_cases,
};

const oct_op oct_op_tile = {
    .name = "tile",
    .summary = "the input repeated along its dims",
    .traits = OCT_TRAIT_MOVEMENT,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer_tile,
    .reference = reference_tile,
    .lower = lower_tile,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_NONE}, .output = OCT_OUTPUT_SAME},
    .imports = tile_imports,
    .exports = tile_exports,
    .cases = tile_cases,
};
