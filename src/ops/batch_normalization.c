/* BatchNormalization (ONNX), inference form: (x - mean) / sqrt(variance + epsilon) * scale + bias per channel (axis 1).
 * Usually a pass has folded it into the convolution before it.
 * SPDX-License-Identifier: MIT */
#include "ops/op.h"

static octet_status infer(octet_context *ctx, oct_node *node) {
  static const char *const names[] = {"X", "scale", "B", "mean", "variance"};
  const oct_value *x = node->inputs[0];
  char text[OCT_SHAPE_TEXT];
  if (oct_node_int(node, "training_mode")) return oct_infer_fail(ctx, node, "training_mode is 1; only the inference form is there");
  if (x->dtype != OCT_DTYPE_NONE && !oct_dtype_is_float(x->dtype))
    return oct_infer_fail(ctx, node, "the input is %s; it must be a float", oct_dtype_name(x->dtype));
  int64_t channels = !x->has_shape ? OCT_DIM_UNKNOWN : x->shape.rank > 1 ? x->shape.dim[1] : 1;
  if (x->has_shape && x->shape.rank < 1) return oct_infer_fail(ctx, node, "the input is a scalar; it must be [N,C,...]");
  for (int i = 1; i < 5; i++) {
    const oct_value *v = node->inputs[i];
    if (v->dtype != OCT_DTYPE_NONE && !oct_dtype_is_float(v->dtype))
      return oct_infer_fail(ctx, node, "%s is %s; it must be a float", names[i], oct_dtype_name(v->dtype));
    if (!v->has_shape) continue;
    if (v->shape.rank != 1 || (channels >= 0 && v->shape.dim[0] >= 0 && v->shape.dim[0] != channels))
      return oct_infer_fail(ctx, node, "%s is %s; the input has %lld channels", names[i], oct_shape_text(&v->shape, text),
                            (long long)channels);
  }
  return oct_infer_same(ctx, node);
}

/* y = x * factor + shift of channel c. */
static void coefficients(const oct_node *node, const oct_tensor *const v[5], int64_t c, double *factor, double *shift) {
  double p[5];
  for (int i = 1; i < 5; i++) p[i] = oct_get_f64(v[i]->data, v[i]->dtype, c);
  *factor = p[1] / sqrt(p[4] + (double)oct_node_float(node, "epsilon"));
  *shift = p[2] - p[3] * *factor;
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  const oct_shape *s = &in[0]->shape;
  if (oct_shape_count(s) == 0) return OCTET_OK;
  int64_t count = oct_shape_count(s), channels = s->rank > 1 ? s->dim[1] : 1, inner = 1;
  for (int i = 2; i < s->rank; i++) inner *= s->dim[i];
  for (int64_t first = 0; first < count; first += inner) {
    double factor, shift;
    coefficients(node, in, first / inner % channels, &factor, &shift);
    for (int64_t i = first; i < first + inner; i++)
      oct_set_f64(out[0]->data, out[0]->dtype, i, oct_get_f64(in[0]->data, in[0]->dtype, i) * factor + shift);
  }
  return OCTET_OK;
}

/* ---- Lowering: rows of pixels (channels-last) or planes of one channel (plain) --------------------------------------- */

typedef struct normalize_step {
  const float *in;
  float *out;
  const float *factor, *shift;
  int64_t channels, run; /* plain: elements of a plane */
  int64_t height, width; /* channels-last: pixels */
  oct_view in_view, out_view;
  const oct_vector_kernels *vector;
} normalize_step;

static octet_status run_planes(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const normalize_step *s = params;
  for (size_t i = begin; i < end; i++) {
    size_t c = i % (size_t)s->channels;
    s->vector->scale_f32((size_t)s->run, s->in + (int64_t)i * s->run, s->out + (int64_t)i * s->run, s->factor[c], s->shift[c]);
  }
  return OCTET_OK;
}

static octet_status run_pixels(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const normalize_step *s = params;
  for (size_t i = begin; i < end; i++) {
    int64_t n = (int64_t)i / s->height, y = (int64_t)i % s->height;
    for (int64_t x = 0; x < s->width; x++) {
      const float *from = s->in + n * s->in_view.image + y * s->in_view.row + x * s->in_view.pixel;
      float *to = s->out + n * s->out_view.image + y * s->out_view.row + x * s->out_view.pixel;
      s->vector->mul_f32((size_t)s->channels, from, s->factor, to);
      s->vector->add_f32((size_t)s->channels, to, s->shift, to);
    }
  }
  return OCTET_OK;
}

static octet_status fill_coefficients(oct_lowering *l, const oct_node *node, normalize_step *s) {
  const oct_tensor *v[5] = {0};
  for (int i = 1; i < 5; i++) v[i] = oct_constant_of(node->inputs[i]);
  float *factor = oct_lower_memory(l, (size_t)s->channels, sizeof *factor),
        *shift = oct_lower_memory(l, (size_t)s->channels, sizeof *shift);
  if (!factor || !shift) return OCTET_OUT_OF_MEMORY;
  for (int64_t c = 0; c < s->channels; c++) {
    double f, b;
    coefficients(node, v, c, &f, &b);
    factor[c] = (float)f, shift[c] = (float)b;
  }
  s->factor = factor, s->shift = shift;
  return OCTET_OK;
}

static octet_status lower(oct_lowering *l, oct_node *node) {
  const oct_value *x = node->inputs[0];
  for (int i = 1; i < 5; i++)
    if (!oct_constant_of(node->inputs[i]) || node->inputs[i]->quant)
      return oct_lower_decline(l, "'%s' is not a plain constant", node->inputs[i]->name);
  if (x->dtype != OCT_F32 || x->shape.rank < 2) return oct_lower_decline(l, "only f32 of rank 2 or more has a kernel");
  if (oct_shape_count(&x->shape) == 0) return oct_lower_decline(l, "a dimension is zero");
  int rank = x->shape.rank;
  oct_layout layout = rank <= 4 ? oct_lower_layout(l, node->outputs[0]) : OCT_LAYOUT_PLAIN;
  bool pixels = layout == OCT_LAYOUT_CHANNELS_LAST || rank == 2;
  normalize_step *s;
  oct_step *step;
  oct_slot *in, *out;
  OCT_TRY(oct_lower_input(l, x, OCT_F32, layout, NULL, &in));
  OCT_TRY(oct_lower_output(l, node->outputs[0], OCT_F32, layout, &out));
  OCT_TRY(oct_lower_step(l, node, "normalize_f32", pixels ? run_pixels : run_planes, sizeof *s, &s, &step));
  s->channels = x->shape.dim[1], s->vector = l->vector;
  OCT_TRY(fill_coefficients(l, node, s));
  if (pixels) {
    s->in_view = oct_slot_view(in), s->out_view = oct_slot_view(out);
    s->height = rank == 4 ? x->shape.dim[2] : 1;
    s->width = rank == 2 ? x->shape.dim[0] : x->shape.dim[rank - 1];
    step->units = (size_t)((rank == 2 ? 1 : x->shape.dim[0]) * s->height);
    step->grain = 1 + 4096 / ((size_t)(s->width * s->channels) + 1);
  } else {
    s->run = 1;
    for (int i = 2; i < x->shape.rank; i++) s->run *= x->shape.dim[i];
    step->units = (size_t)(x->shape.dim[0] * s->channels);
    step->grain = 1 + 4096 / ((size_t)s->run + 1);
  }
  step->in_place = memcmp(&in->border, &out->border, sizeof in->border) == 0;
  OCT_TRY(oct_lower_read(l, step, &s->in, in));
  return oct_lower_write(l, step, &s->out, out);
}

/* Operator sets 7 and 8 have `spatial`; up to 13 training is told by further outputs. */
static octet_status import(oct_importer *importer, const oct_foreign_node *foreign) {
  static const char *const ignore[] = {"spatial", "momentum", "training_mode", "is_test", NULL};
  oct_node *node;
  if (oct_foreign_int(foreign, "spatial", 1) != 1) return oct_import_unsupported(importer, foreign, "spatial=0: normalization per element");
  if (oct_foreign_int(foreign, "training_mode", 0) != 0) return oct_import_unsupported(importer, foreign, "training_mode=1: training");
  for (int i = 1; i < foreign->n_outputs; i++)
    if (foreign->outputs[i] && *foreign->outputs[i])
      return oct_import_unsupported(importer, foreign, "output %d: running statistics of training", i);
  OCT_TRY(oct_import_node(importer, foreign, "batch_normalization", foreign->inputs, foreign->n_inputs, 1, &node));
  OCT_TRY(oct_import_attributes(importer, foreign, node, ignore));
  return oct_import_finish(importer, foreign, node);
}

static const oct_attribute_spec attributes[] = {
    {"epsilon", OCT_ATTRIBUTE_FLOAT, false, "1e-05", 0, 0, "added to the variance"},
    {"momentum", OCT_ATTRIBUTE_FLOAT, false, "0.9", 0, 0, "of training; without effect"},
    {"training_mode", OCT_ATTRIBUTE_INT, false, "0", 0, 1, "1 is refused"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row imports[] = {{"onnx", "BatchNormalization", 7, 0, import}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row exports[] = {{"onnx", "BatchNormalization", NULL}, {NULL, NULL, NULL}};
static const char *const cases[] = {
    "in=f32[2,3,4,5],f32[3],f32[3],f32[3],f32[3]=0.5,1,2",
    "in=f32[1,2,3,3],f32[2],f32[2],f32[2],f32[2]=0.01,4 attr:epsilon=0.1",
    "in=f32[5,4],f32[4],f32[4],f32[4],f32[4]=1,2,3,4",
    "in=f32[2,3,7],f32[3],f32[3],f32[3],f32[3]=1,1,1",
    NULL,
};

const oct_op oct_op_batch_normalization = {
    .name = "batch_normalization",
    .summary = "normalization by given statistics, per channel",
    .traits = OCT_TRAIT_LAYOUT_AGNOSTIC | OCT_TRAIT_IN_PLACE,
    .min_inputs = 5,
    .max_inputs = 5,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer,
    .reference = reference,
    .lower = lower,
    .per_sample = oct_per_sample_always,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_NONE}, .output = OCT_OUTPUT_FLOAT},
    .imports = imports,
    .exports = exports,
    .cases = cases,
};
