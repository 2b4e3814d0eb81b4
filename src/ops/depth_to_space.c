/* DepthToSpace and SpaceToDepth (ONNX): blocks of pixels exchanged for channels.
 * SPDX-License-Identifier: MIT */
#include "ops/movement.h"

static octet_status infer_any(octet_context *ctx, oct_node *node, bool to_space) {
  const oct_value *x = node->inputs[0];
  int64_t b = oct_node_int(node, "blocksize");
  char text[OCT_SHAPE_TEXT];
  const char *mode = oct_node_string(node, "mode");
  if (strcmp(mode, "DCR") != 0 && strcmp(mode, "CRD") != 0) return oct_infer_fail(ctx, node, "mode is '%s'; it must be DCR or CRD", mode);
  if (!x->has_shape) {
    oct_infer_set(node->outputs[0], x->dtype, NULL);
    return OCTET_OK;
  }
  if (x->shape.rank != 4) return oct_infer_fail(ctx, node, "the input is %s; it must be [N,C,H,W]", oct_shape_text(&x->shape, text));
  if (b < 1 || b > 65536) return oct_infer_fail(ctx, node, "blocksize is %lld", (long long)b);
  oct_shape out = x->shape;
  for (int i = 1; i < 4; i++) {
    bool grows = (i == 1) != to_space;
    int64_t factor = i == 1 ? b * b : b;
    if (out.dim[i] == OCT_DIM_UNKNOWN) continue;
    if (!grows && out.dim[i] % factor != 0)
      return oct_infer_fail(ctx, node, "dim %d of %s is no multiple of %lld", i, oct_shape_text(&x->shape, text), (long long)factor);
    if (!grows) out.dim[i] /= factor;
    else if (__builtin_mul_overflow(out.dim[i], factor, &out.dim[i])) return oct_infer_fail(ctx, node, "the result is too large");
  }
  oct_infer_set(node->outputs[0], x->dtype, &out);
  return OCTET_OK;
}

/* The copy between the small image (few pixels, many channels) and the large one; from small to large when to_space. */
static oct_copy make_copy(const oct_node *node, bool to_space, const oct_shape *large, const int64_t small[OCT_MAX_RANK],
                          const int64_t big[OCT_MAX_RANK]) {
  int64_t b = oct_node_int(node, "blocksize"), c = large->dim[1];
  bool by_channel = strcmp(oct_node_string(node, "mode"), "CRD") == 0;
  /* n, c, y, block row, x, block column */
  oct_copy copy = {.shape = oct_shape_of(6, large->dim[0], c, large->dim[2] / b, b, large->dim[3] / b, b)};
  int64_t few[6] = {small[0], by_channel ? small[1] * b * b : small[1], small[2], by_channel ? small[1] * b : small[1] * b * c,
                    small[3], by_channel ? small[1] : small[1] * c};
  int64_t many[6] = {big[0], big[1], big[2] * b, big[2], big[3] * b, big[3]};
  memcpy(to_space ? copy.in_stride : copy.out_stride, few, sizeof few);
  memcpy(to_space ? copy.out_stride : copy.in_stride, many, sizeof many);
  return copy;
}

static octet_status reference_any(const oct_node *node, const oct_tensor *in, oct_tensor *out, bool to_space) {
  int64_t from[OCT_MAX_RANK], to[OCT_MAX_RANK];
  oct_shape_strides(&in->shape, from);
  oct_shape_strides(&out->shape, to);
  oct_copy copy = make_copy(node, to_space, to_space ? &out->shape : &in->shape, to_space ? from : to, to_space ? to : from);
  oct_copy_run(&copy, oct_dtype_size(in->dtype), in->data, out->data);
  return OCTET_OK;
}

static octet_status lower_any(oct_lowering *l, oct_node *node, bool to_space) {
  oct_slot *in, *out;
  const uint8_t *table;
  OCT_TRY(oct_movement_slots(l, node->inputs[0], node->outputs[0], &in, &out, &table));
  int64_t from[OCT_MAX_RANK], to[OCT_MAX_RANK];
  oct_slot_strides(in, 4, from);
  oct_slot_strides(out, 4, to);
  oct_copy copy = make_copy(node, to_space, to_space ? &out->shape : &in->shape, to_space ? from : to, to_space ? to : from);
  return oct_movement_step(l, node, &copy, in, out, table);
}

static octet_status infer_d2s(octet_context *ctx, oct_node *node) { return infer_any(ctx, node, true); }
static octet_status infer_s2d(octet_context *ctx, oct_node *node) { return infer_any(ctx, node, false); }
static octet_status reference_d2s(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  return reference_any(node, in[0], out[0], true);
}
static octet_status reference_s2d(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  return reference_any(node, in[0], out[0], false);
}
static octet_status lower_d2s(oct_lowering *l, oct_node *node) { return lower_any(l, node, true); }
static octet_status lower_s2d(oct_lowering *l, oct_node *node) { return lower_any(l, node, false); }

static const oct_attribute_spec attributes[] = {
    {"blocksize", OCT_ATTRIBUTE_INT, true, NULL, 1, 65536, "pixels of a block's side"},
    {"mode", OCT_ATTRIBUTE_STRING, false, "DCR", 0, 0, "which part of the channel number is the block: DCR the high one, CRD the low one"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row d2s_imports[] = {{"onnx", "DepthToSpace", 1, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row d2s_exports[] = {{"onnx", "DepthToSpace", NULL}, {NULL, NULL, NULL}};
static const oct_import_row s2d_imports[] = {{"onnx", "SpaceToDepth", 1, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
/* ONNX's SpaceToDepth has a mode since operator set 28; DCR is what it always did. */
static octet_status export_s2d(oct_exporter *exporter, const oct_node *node) {
  if (strcmp(oct_node_string(node, "mode"), "DCR") != 0 && exporter->version < 28)
    return oct_fail(exporter->ctx, OCTET_UNSUPPORTED, "node '%s': space_to_depth with mode CRD is not in ONNX operator set %d", node->name,
                    exporter->version);
  oct_attribute size = {.name = "blocksize", .type = OCT_ATTRIBUTE_INT, .i = oct_node_int(node, "blocksize")};
  oct_node copy = *node;
  if (exporter->version < 28) copy.attributes = &size, copy.n_attributes = 1;
  return oct_export_default(exporter, &copy, "SpaceToDepth");
}

static const oct_export_row s2d_exports[] = {{"onnx", "SpaceToDepth", export_s2d}, {NULL, NULL, NULL}};
static const char *const d2s_cases[] = {"in=f32[1,8,2,3] attr:blocksize=2", "in=f32[2,18,3,2] attr:blocksize=3 mode=CRD", NULL};
static const char *const s2d_cases[] = {"in=f32[1,2,4,6] attr:blocksize=2", "in=f32[1,2,6,3] attr:blocksize=3 mode=CRD", NULL};

const oct_op oct_op_depth_to_space = {
    .name = "depth_to_space",
    .summary = "channels become blocks of pixels",
    .traits = OCT_TRAIT_MOVEMENT | OCT_TRAIT_LAYOUT_AGNOSTIC,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer_d2s,
    .reference = reference_d2s,
    .lower = lower_d2s,
    .per_sample = oct_per_sample_always,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_SAME},
    .imports = d2s_imports,
    .exports = d2s_exports,
    .cases = d2s_cases,
};

const oct_op oct_op_space_to_depth = {
    .name = "space_to_depth",
    .summary = "blocks of pixels become channels",
    .traits = OCT_TRAIT_MOVEMENT | OCT_TRAIT_LAYOUT_AGNOSTIC,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer_s2d,
    .reference = reference_s2d,
    .lower = lower_s2d,
    .per_sample = oct_per_sample_always,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_SAME},
    .imports = s2d_imports,
    .exports = s2d_exports,
    .cases = s2d_cases,
};
