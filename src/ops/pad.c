/* Pad (ONNX): constant, edge, reflect, wrap; negative pads cut. Pads are an input today; before operator set 11 an attribute.
 * SPDX-License-Identifier: MIT */
#include "ops/movement.h"

typedef enum pad_mode { PAD_CONSTANT, PAD_EDGE, PAD_REFLECT, PAD_WRAP, PAD_UNKNOWN } pad_mode;

typedef struct pad_plan {
  int64_t before[OCT_MAX_RANK], after[OCT_MAX_RANK];
} pad_plan;

static pad_mode mode_of(const oct_node *node) {
  static const char *const names[] = {"constant", "edge", "reflect", "wrap"};
  const char *mode = oct_node_string(node, "mode");
  for (int i = 0; i < 4; i++)
    if (strcmp(mode, names[i]) == 0) return (pad_mode)i;
  return PAD_UNKNOWN;
}

/* Elements of the input that stay after cutting. */
static int64_t kept(int64_t dim, const pad_plan *p, int axis) {
  return dim + (p->before[axis] < 0 ? p->before[axis] : 0) + (p->after[axis] < 0 ? p->after[axis] : 0);
}

static const char *check_axis(const pad_plan *p, int axis, int64_t dim, pad_mode mode) {
  const int64_t limit = (int64_t)1 << 40;
  if (p->before[axis] > limit || p->after[axis] > limit || dim > limit) return "a pad is absurdly large";
  if (p->before[axis] < -limit || p->after[axis] < -limit || kept(dim, p, axis) < 0) return "more is cut than there is";
  if (mode != PAD_CONSTANT && kept(dim, p, axis) == 0 && (p->before[axis] > 0 || p->after[axis] > 0))
    return "an empty axis cannot be continued";
  return NULL;
}

/* pads and axes (axes NULL: all) as amounts per axis. Returns the broken rule in words, or NULL. */
static const char *resolve(const oct_shape *in, pad_mode mode, const int64_t *pads, int n, const int64_t *axes, int n_axes, pad_plan *p) {
  memset(p, 0, sizeof *p);
  int count = axes ? n_axes : in->rank;
  bool seen[OCT_MAX_RANK] = {false};
  if (n != 2 * count) return "pads must be two numbers per padded axis";
  for (int i = 0; i < count; i++) {
    int64_t axis = axes ? axes[i] : i;
    if (!oct_axis_normalize(&axis, in->rank)) return "an axis is out of range";
    if (seen[axis]) return "an axis is given twice";
    seen[axis] = true;
    p->before[axis] = pads[i], p->after[axis] = pads[count + i];
    const char *why = in->dim[axis] == OCT_DIM_UNKNOWN ? NULL : check_axis(p, (int)axis, in->dim[axis], mode);
    if (why) return why;
  }
  return NULL;
}

typedef struct pad_lists {
  int64_t pads[2 * OCT_MAX_RANK], axes[OCT_MAX_RANK];
  int n, n_axes;
  bool has_axes;
} pad_lists;

static bool constant_lists(const oct_node *node, pad_lists *lists) {
  const oct_value *axes = node->n_inputs > 3 ? node->inputs[3] : NULL;
  lists->has_axes = axes != NULL;
  lists->n = oct_constant_ints(node->inputs[1], lists->pads, 2 * OCT_MAX_RANK);
  lists->n_axes = axes ? oct_constant_ints(axes, lists->axes, OCT_MAX_RANK) : 0;
  return lists->n >= 0 && lists->n_axes >= 0;
}

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0], *value = node->n_inputs > 2 ? node->inputs[2] : NULL;
  pad_lists lists;
  pad_plan plan;
  char text[OCT_SHAPE_TEXT];
  pad_mode mode = mode_of(node);
  if (mode == PAD_UNKNOWN)
    return oct_infer_fail(ctx, node, "mode is '%s'; it must be constant, edge, reflect or wrap", oct_node_string(node, "mode"));
  if (value && value->dtype != x->dtype && value->dtype != OCT_DTYPE_NONE && x->dtype != OCT_DTYPE_NONE)
    return oct_infer_fail(ctx, node, "the value is %s, but the input is %s", oct_dtype_name(value->dtype), oct_dtype_name(x->dtype));
  if (value && value->has_shape && oct_shape_known(&value->shape) && oct_shape_count(&value->shape) != 1)
    return oct_infer_fail(ctx, node, "the value is %s; it must be one number", oct_shape_text(&value->shape, text));
  if (!x->has_shape) {
    oct_infer_set(node->outputs[0], x->dtype, NULL);
    return OCTET_OK;
  }
  oct_shape out = x->shape;
  bool constant = constant_lists(node, &lists);
  if (constant) {
    const char *why = resolve(&x->shape, mode, lists.pads, lists.n, lists.has_axes ? lists.axes : NULL, lists.n_axes, &plan);
    if (why) return oct_infer_fail(ctx, node, "%s; the input is %s", why, oct_shape_text(&x->shape, text));
  }
  for (int i = 0; i < out.rank; i++)
    if (!constant || out.dim[i] == OCT_DIM_UNKNOWN) out.dim[i] = OCT_DIM_UNKNOWN;
    else out.dim[i] += plan.before[i] + plan.after[i];
  oct_infer_set(node->outputs[0], x->dtype, &out);
  return OCTET_OK;
}

/* Input index for output index i of an axis that keeps n elements from `first` on; -1: the constant. */
static int64_t source(pad_mode mode, int64_t i, int64_t before, int64_t n) {
  int64_t first = before < 0 ? -before : 0, j = before > 0 ? i - before : i;
  if (j >= 0 && j < n) return first + j;
  if (mode == PAD_CONSTANT) return -1;
  if (mode == PAD_EDGE || n == 1) return first + (j < 0 ? 0 : n - 1);
  int64_t period = mode == PAD_WRAP ? n : 2 * (n - 1);
  j %= period;
  if (j < 0) j += period;
  return first + (j < n ? j : period - j);
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  pad_lists lists;
  pad_plan plan;
  const oct_tensor *axes = node->n_inputs > 3 ? in[3] : NULL, *value = node->n_inputs > 2 ? in[2] : NULL;
  pad_mode mode = mode_of(node);
  lists.n = oct_tensor_ints(in[1], lists.pads, 2 * OCT_MAX_RANK);
  lists.n_axes = axes ? oct_tensor_ints(axes, lists.axes, OCT_MAX_RANK) : 0;
  const oct_shape *is = &in[0]->shape, *os = &out[0]->shape;
  const char *why = resolve(is, mode, lists.pads, lists.n, axes ? lists.axes : NULL, lists.n_axes, &plan);
  for (int d = 0; !why && d < os->rank; d++)
    if (is->dim[d] + plan.before[d] + plan.after[d] != os->dim[d]) why = "the pads differ from those that were planned with";
  if (why) return oct_fail(ctx, OCTET_SHAPE, "node '%s' (pad): %s", node->name, why);
  size_t size = oct_dtype_size(in[0]->dtype);
  int64_t strides[OCT_MAX_RANK], count = oct_shape_count(os);
  if (count == 0) return OCTET_OK;
  oct_shape_strides(is, strides);
  for (int64_t i = 0; i < count; i++) {
    int64_t rest = i, from = 0;
    for (int d = os->rank - 1; d >= 0 && from >= 0; d--) {
      int64_t j = source(mode, rest % os->dim[d], plan.before[d], kept(is->dim[d], &plan, d));
      rest /= os->dim[d];
      from = j < 0 ? -1 : from + j * strides[d];
    }
    char *to = (char *)out[0]->data + (size_t)i * size;
    if (from >= 0) memcpy(to, (const char *)in[0]->data + (size_t)from * size, size);
    else if (value) memcpy(to, value->data, size);
    else memset(to, 0, size);
  }
  return OCTET_OK;
}

/* ---- Lowering: constant mode is a fill and a copy ------------------------------------------------------------------ */

/* The value as it lies in the output slot. */
static bool value_bits(const oct_node *node, const oct_slot *out, uint64_t *bits) {
  const oct_value *v = node->n_inputs > 2 ? node->inputs[2] : NULL;
  double real = 0;
  *bits = 0;
  if (v && !oct_constant_scalar(v, &real)) return false;
  if (out->quantized) *bits = (uint64_t)oct_quantize((float)real, out->scale, out->zero_point, 0, 255);
  else if (v && v->tensor->dtype == out->dtype && !v->quant) memcpy(bits, v->tensor->data, oct_dtype_size(out->dtype));
  else if (v) oct_set_f64(bits, out->dtype, 0, real);
  return true;
}

static octet_status lower(oct_lowering *l, oct_node *node) {
  const oct_value *x = node->inputs[0];
  pad_lists lists;
  pad_plan plan;
  oct_slot *in, *out;
  const uint8_t *table;
  uint64_t bits;
  double real;
  if (mode_of(node) != PAD_CONSTANT) return oct_lower_decline(l, "only constant padding has a kernel");
  if (node->n_inputs > 2 && node->inputs[2] && !oct_constant_scalar(node->inputs[2], &real))
    return oct_lower_decline(l, "the value is not constant");
  if (!constant_lists(node, &lists) ||
      resolve(&x->shape, PAD_CONSTANT, lists.pads, lists.n, lists.has_axes ? lists.axes : NULL, lists.n_axes, &plan))
    return oct_lower_decline(l, "the pads are not constant");
  if (oct_shape_count(&node->outputs[0]->shape) == 0) return oct_lower_decline(l, "the result is empty");
  OCT_TRY(oct_movement_slots(l, x, node->outputs[0], &in, &out, &table));
  if (!value_bits(node, out, &bits)) return oct_lower_decline(l, "the value is not constant");
  int64_t from[OCT_MAX_RANK], to[OCT_MAX_RANK];
  oct_slot_strides(in, in->shape.rank, from);
  oct_slot_strides(out, out->shape.rank, to);
  oct_copy whole = oct_copy_make(&out->shape, from, to), copy = oct_copy_make(&x->shape, from, to);
  bool grows = false;
  for (int d = 0; d < x->shape.rank; d++) {
    grows = grows || plan.before[d] > 0 || plan.after[d] > 0;
    copy.shape.dim[d] = kept(x->shape.dim[d], &plan, d);
    copy.in_offset += plan.before[d] < 0 ? -plan.before[d] * from[d] : 0;
    copy.out_offset += plan.before[d] > 0 ? plan.before[d] * to[d] : 0;
  }
  if (grows) OCT_TRY(oct_movement_fill(l, node, &whole, bits, out));
  return oct_movement_step(l, node, &copy, in, out, table);
}

/* Attributes pads and value (operator sets 2 to 10). */
static octet_status import_attribute_form(oct_importer *importer, const oct_foreign_node *foreign) {
  static const char *const ignore[] = {"pads", "value", "paddings", NULL};
  oct_value *inputs[3] = {oct_foreign_input(foreign, 0), NULL, NULL};
  oct_node *node;
  float value = oct_foreign_float(foreign, "value", 0);
  OCT_TRY(oct_import_ints_input(importer, foreign, oct_foreign_attribute(foreign, "pads") ? "pads" : "paddings", &inputs[1]));
  if (!inputs[1]) return oct_import_unsupported(importer, foreign, "the attribute pads is required");
  if (value != 0) OCT_TRY(oct_graph_constant_f32(importer->ctx, importer->graph, "pad_value", value, &inputs[2]));
  OCT_TRY(oct_import_node(importer, foreign, "pad", inputs, inputs[2] ? 3 : 2, 1, &node));
  OCT_TRY(oct_import_attributes(importer, foreign, node, ignore));
  return oct_import_finish(importer, foreign, node);
}

static octet_status export_node(oct_exporter *exporter, const oct_node *node) {
  if (mode_of(node) == PAD_WRAP && exporter->version < 19)
    return oct_fail(exporter->ctx, OCTET_UNSUPPORTED, "node '%s': pad with mode wrap needs ONNX operator set 19, version %d is written",
                    node->name, exporter->version);
  return oct_export_default(exporter, node, "Pad");
}

static const oct_attribute_spec attributes[] = {
    {"mode", OCT_ATTRIBUTE_STRING, false, "constant", 0, 0, "constant, edge, reflect or wrap"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row imports[] = {
    {"onnx", "Pad", 1, 10, import_attribute_form},
    {"onnx", "Pad", 11, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};
static const oct_export_row exports[] = {{"onnx", "Pad", export_node}, {NULL, NULL, NULL}};
static const char *const cases[] = {
    "in=f32[2,3],i64[4]=0,2,1,0",
    "in=f32[1,5,4,4],i64[8]=0,0,1,2,0,0,3,0,f32[]=1.5",
    "in=f32[3,4],i64[4]=-1,1,2,-2",
    "in=f32[4,5],i64[2]=1,2,-,i64[1]=-1 attr:mode=reflect",
    "in=f32[3,4],i64[4]=1,2,3,4 attr:mode=edge",
    "in=f32[3,4],i64[4]=1,2,3,4 attr:mode=wrap",
    NULL,
};

const oct_op oct_op_pad = {
    .name = "pad",
    .summary = "elements put around, or cut off",
    .traits = OCT_TRAIT_LAYOUT_AGNOSTIC,
    .min_inputs = 2,
    .max_inputs = 4,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer,
    .reference = reference,
    .lower = lower,
    .per_sample = oct_per_sample_pad,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_NONE}, .output = OCT_OUTPUT_OBSERVED},
    .imports = imports,
    .exports = exports,
    .cases = cases,
};
