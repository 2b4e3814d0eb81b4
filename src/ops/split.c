/* Split (ONNX): pieces along an axis, of given sizes or as equal as possible (the last one smaller). Sizes are an input today; before operator
 * set 13 an attribute.
 * SPDX-License-Identifier: MIT */
#include "ops/movement.h"

#define MAX_PIECES 1024

/* Size of piece i when `dim` is split into n. */
static int64_t equal_piece(int64_t dim, int n, int i) {
  if (dim == OCT_DIM_UNKNOWN) return OCT_DIM_UNKNOWN;
  int64_t chunk = dim / n + (dim % n != 0);
  if (chunk == 0 || i > dim / chunk) return 0;
  int64_t left = dim - chunk * i;
  return left < chunk ? left : chunk;
}

static octet_status given_sizes(octet_context *ctx, const oct_node *node, const oct_value *sizes, int64_t dim, int64_t *list) {
  int64_t sum = 0;
  int count = oct_constant_ints(sizes, list, node->n_outputs);
  if (count != node->n_outputs) return oct_infer_fail(ctx, node, "%d sizes for %d outputs", count, node->n_outputs);
  for (int i = 0; i < count; i++)
    if (list[i] < 0 || __builtin_add_overflow(sum, list[i], &sum))
      return oct_infer_fail(ctx, node, "size %d is %lld", i, (long long)list[i]);
  if (dim != OCT_DIM_UNKNOWN && sum != dim)
    return oct_infer_fail(ctx, node, "the sizes add up to %lld, but the axis has %lld", (long long)sum, (long long)dim);
  return OCTET_OK;
}

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0], *sizes = node->n_inputs > 1 ? node->inputs[1] : NULL;
  int64_t axis = oct_node_int(node, "axis"), list[MAX_PIECES], pieces = oct_node_int(node, "num_outputs");
  if (node->n_outputs > MAX_PIECES) return oct_infer_fail(ctx, node, "%d outputs; at most %d are possible", node->n_outputs, MAX_PIECES);
  if (pieces && pieces != node->n_outputs)
    return oct_infer_fail(ctx, node, "num_outputs is %lld, but there are %d outputs", (long long)pieces, node->n_outputs);
  if (!x->has_shape) {
    for (int i = 0; i < node->n_outputs; i++) oct_infer_set(node->outputs[i], x->dtype, NULL);
    return OCTET_OK;
  }
  if (!oct_axis_normalize(&axis, x->shape.rank))
    return oct_infer_fail(ctx, node, "axis %lld is out of range for rank %d", (long long)axis, x->shape.rank);
  if (oct_constant_of(sizes)) OCT_TRY(given_sizes(ctx, node, sizes, x->shape.dim[axis], list));
  for (int i = 0; i < node->n_outputs; i++) {
    oct_shape out = x->shape;
    out.dim[axis] = !sizes ? equal_piece(x->shape.dim[axis], node->n_outputs, i) : oct_constant_of(sizes) ? list[i] : OCT_DIM_UNKNOWN;
    oct_infer_set(node->outputs[i], x->dtype, &out);
  }
  return OCTET_OK;
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  int64_t axis = oct_node_int(node, "axis"), from[OCT_MAX_RANK], to[OCT_MAX_RANK], first = 0;
  const oct_value *sizes = node->n_inputs > 1 ? node->inputs[1] : NULL;
  if (oct_shape_count(&in[0]->shape) == 0) return OCTET_OK;
  oct_axis_normalize(&axis, in[0]->shape.rank);
  oct_shape_strides(&in[0]->shape, from);
  for (int i = 0; i < node->n_outputs; i++) {
    int64_t size = sizes ? oct_get_i64(in[1]->data, in[1]->dtype, i) : equal_piece(in[0]->shape.dim[axis], node->n_outputs, i);
    if (size < 0 || size > in[0]->shape.dim[axis] - first)
      return oct_fail(ctx, OCTET_SHAPE, "node '%s' (split): the sizes do not fit the input", node->name);
    if (node->outputs[i]) {
      if (out[i]->shape.dim[axis] != size)
        return oct_fail(ctx, OCTET_SHAPE, "node '%s' (split): the sizes differ from those that were planned with", node->name);
      oct_shape_strides(&out[i]->shape, to);
      oct_copy copy = oct_copy_make(&out[i]->shape, from, to);
      copy.in_offset = first * from[axis];
      oct_copy_run(&copy, oct_dtype_size(in[0]->dtype), in[0]->data, out[i]->data);
    }
    first += size;
  }
  return OCTET_OK;
}

static octet_status lower(oct_lowering *l, oct_node *node) {
  const oct_value *x = node->inputs[0], *sizes = node->n_inputs > 1 ? node->inputs[1] : NULL;
  int64_t axis = oct_node_int(node, "axis"), list[MAX_PIECES], first = 0;
  if (sizes && oct_constant_ints(sizes, list, MAX_PIECES) != node->n_outputs) return oct_lower_decline(l, "the sizes are not constant");
  if (oct_shape_count(&x->shape) == 0) return oct_lower_decline(l, "the tensor is empty");
  oct_axis_normalize(&axis, x->shape.rank);
  for (int i = 0; i < node->n_outputs; i++) {
    int64_t size = sizes ? list[i] : equal_piece(x->shape.dim[axis], node->n_outputs, i), from[OCT_MAX_RANK], to[OCT_MAX_RANK];
    if (node->outputs[i]) {
      oct_slot *in, *out;
      const uint8_t *table;
      OCT_TRY(oct_movement_slots(l, x, node->outputs[i], &in, &out, &table));
      oct_slot_strides(in, in->shape.rank, from);
      oct_slot_strides(out, out->shape.rank, to);
      oct_copy copy = oct_copy_make(&out->shape, from, to);
      copy.in_offset = first * from[axis];
      OCT_TRY(oct_movement_step(l, node, &copy, in, out, table));
    }
    first += size;
  }
  return OCTET_OK;
}

/* Attribute `split` (operator sets 1 to 12). */
static octet_status import_attribute_form(oct_importer *importer, const oct_foreign_node *foreign) {
  static const char *const ignore[] = {"split", NULL};
  oct_value *inputs[2] = {oct_foreign_input(foreign, 0), NULL};
  oct_node *node;
  if (foreign->n_outputs < 1 || foreign->n_outputs > MAX_PIECES)
    return oct_import_unsupported(importer, foreign, "%d outputs", foreign->n_outputs);
  OCT_TRY(oct_import_ints_input(importer, foreign, "split", &inputs[1]));
  OCT_TRY(oct_import_node(importer, foreign, "split", inputs, inputs[1] ? 2 : 1, foreign->n_outputs, &node));
  OCT_TRY(oct_import_attributes(importer, foreign, node, ignore));
  return oct_import_finish(importer, foreign, node);
}

/* Since operator set 18 either the sizes or the number of outputs must be given. */
static octet_status export_node(oct_exporter *exporter, const oct_node *node) {
  if (exporter->version < 18 || (node->n_inputs > 1 && node->inputs[1]) || oct_node_attribute(node, "num_outputs"))
    return oct_export_default(exporter, node, "Split");
  oct_attribute added[] = {{.name = "axis", .type = OCT_ATTRIBUTE_INT, .i = oct_node_int(node, "axis")},
                           {.name = "num_outputs", .type = OCT_ATTRIBUTE_INT, .i = node->n_outputs}};
  oct_node copy = *node;
  copy.attributes = added, copy.n_attributes = 2;
  return oct_export_default(exporter, &copy, "Split");
}

static const oct_attribute_spec attributes[] = {
    {"axis", OCT_ATTRIBUTE_INT, false, "0", -OCT_MAX_RANK, OCT_MAX_RANK - 1, "along which the input is split"},
    {"num_outputs", OCT_ATTRIBUTE_INT, false, "0", 0, MAX_PIECES, "number of outputs; 0: not said"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row imports[] = {
    {"onnx", "Split", 1, 12, import_attribute_form},
    {"onnx", "Split", 13, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};
static const oct_export_row exports[] = {{"onnx", "Split", export_node}, {NULL, NULL, NULL}};
static const char *const cases[] = {"in=f32[6,4]", "in=f32[1,7,3,3],i64[1]=7 attr:axis=1", NULL};

const oct_op oct_op_split = {
    .name = "split",
    .summary = "pieces of the input along an axis",
    .traits = OCT_TRAIT_MOVEMENT | OCT_TRAIT_LAYOUT_AGNOSTIC,
    .min_inputs = 1,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = -1,
    .attributes = attributes,
    .infer = infer,
    .reference = reference,
    .lower = lower,
    .per_sample = oct_per_sample_axis,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_NONE}, .output = OCT_OUTPUT_SAME},
    .imports = imports,
    .exports = exports,
    .cases = cases,
};
