/* Identity, and Dropout as it is at inference: the input, and a mask of ones where it is asked for.
 * SPDX-License-Identifier: MIT */
#include "ops/movement.h"

static octet_status infer_dropout(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0];
  if (node->n_outputs > 1 && node->outputs[1]) oct_infer_set(node->outputs[1], OCT_BOOL, x->has_shape ? &x->shape : NULL);
  return oct_infer_same(ctx, node);
}

static octet_status reference_dropout(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  if (node->n_outputs > 1 && node->outputs[1] && out[1]->bytes) memset(out[1]->data, 1, out[1]->bytes);
  return oct_reference_view(ctx, node, in, out);
}

static octet_status lower_dropout(oct_lowering *l, oct_node *node) {
  if (node->n_outputs > 1 && node->outputs[1]) return oct_lower_decline(l, "the mask output has no kernel");
  return oct_lower_view(l, node);
}

/* Ratio and seed have no effect at inference. */
static octet_status import_dropout(oct_importer *importer, const oct_foreign_node *foreign) {
  oct_value *x = oct_foreign_input(foreign, 0), *training = oct_foreign_input(foreign, 2);
  bool mask = foreign->n_outputs > 1 && foreign->outputs[1] && *foreign->outputs[1];
  double on = 0;
  oct_node *node;
  if (training && !oct_constant_scalar(training, &on)) return oct_import_unsupported(importer, foreign, "training_mode is not constant");
  if (on != 0) return oct_import_unsupported(importer, foreign, "training_mode is true: training");
  if (mask && foreign->version < 10) return oct_import_unsupported(importer, foreign, "a mask of the input's type");
  OCT_TRY(oct_import_node(importer, foreign, mask ? "dropout" : "identity", &x, 1, mask ? 2 : 1, &node));
  return oct_import_finish(importer, foreign, node);
}

static const oct_import_row identity_imports[] = {{"onnx", "Identity", 1, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row identity_exports[] = {{"onnx", "Identity", NULL}, {NULL, NULL, NULL}};
static const oct_import_row dropout_imports[] = {{"onnx", "Dropout", 7, 0, import_dropout}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row dropout_exports[] = {{"onnx", "Dropout", NULL}, {NULL, NULL, NULL}};
static const char *const cases[] = {"in=f32[2,3,4]", "in=f32[1,8,5,5]", "in=f32[]", NULL};

const oct_op oct_op_identity = {
    .name = "identity",
    .summary = "the input",
    .traits = OCT_TRAIT_VIEW | OCT_TRAIT_MOVEMENT | OCT_TRAIT_IDENTITY,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = oct_infer_same,
    .reference = oct_reference_view,
    .lower = oct_lower_view,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_SAME},
    .imports = identity_imports,
    .exports = identity_exports,
    .cases = cases,
};

const oct_op oct_op_dropout = {
    .name = "dropout",
    .summary = "the input; a mask of ones on request",
    .traits = OCT_TRAIT_VIEW | OCT_TRAIT_MOVEMENT | OCT_TRAIT_IDENTITY,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 2,
    .infer = infer_dropout,
    .reference = reference_dropout,
    .lower = lower_dropout,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_SAME},
    .imports = dropout_imports,
    .exports = dropout_exports,
    .cases = cases,
};
