/* where: condition ? a : b, broadcast over all three.
 * SPDX-License-Identifier: MIT */
#include "ops/elementwise.h"

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *condition = node->inputs[0], *a = node->inputs[1], *b = node->inputs[2];
  if (condition->dtype != OCT_BOOL && condition->dtype != OCT_DTYPE_NONE)
    return oct_infer_fail(ctx, node, "the condition is %s, but bool is needed", oct_dtype_name(condition->dtype));
  if (a->dtype != b->dtype)
    return oct_infer_fail(ctx, node, "inputs \"%s\" (%s) and \"%s\" (%s) differ in type", a->name, oct_dtype_name(a->dtype), b->name,
                          oct_dtype_name(b->dtype));
  if (!condition->has_shape || !a->has_shape || !b->has_shape) {
    oct_infer_set(node->outputs[0], a->dtype, NULL);
    return OCTET_OK;
  }
  oct_shape both, shape;
  if (!oct_shape_broadcast(&a->shape, &b->shape, &both) || !oct_shape_broadcast(&both, &condition->shape, &shape)) {
    char c[OCT_SHAPE_TEXT], x[OCT_SHAPE_TEXT], y[OCT_SHAPE_TEXT];
    return oct_infer_fail(ctx, node, "shapes %s, %s and %s do not broadcast", oct_shape_text(&condition->shape, c),
                          oct_shape_text(&a->shape, x), oct_shape_text(&b->shape, y));
  }
  oct_infer_set(node->outputs[0], a->dtype, &shape);
  return OCTET_OK;
}

/* Copies whole elements: the type does not matter, only its size. */
static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx, (void)node;
  const oct_shape *shape = &out[0]->shape;
  int64_t strides[3][OCT_MAX_RANK], index[OCT_MAX_RANK] = {0}, offset[3] = {0}, count = oct_shape_count(shape);
  size_t size = oct_dtype_size(out[0]->dtype);
  for (int k = 0; k < 3; k++) oct_broadcast_strides(&in[k]->shape, shape, strides[k]);
  for (int64_t i = 0; i < count; i++) {
    int from = ((const uint8_t *)in[0]->data)[offset[0]] ? 1 : 2;
    memcpy((char *)out[0]->data + (size_t)i * size, (const char *)in[from]->data + (size_t)offset[from] * size, size);
    for (int d = shape->rank - 1; d >= 0; d--) {
      for (int k = 0; k < 3; k++) offset[k] += strides[k][d];
      if (++index[d] < shape->dim[d]) break;
      for (int k = 0; k < 3; k++) offset[k] -= strides[k][d] * index[d];
      index[d] = 0;
    }
  }
  return OCTET_OK;
}

typedef struct where_params {
  const uint8_t *condition;
  const float *a, *b;
  float *y;
  oct_units units;
} where_params;

static octet_status run(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const where_params *p = params;
  ptrdiff_t sy = oct_units_stride(&p->units, 0), sc = oct_units_stride(&p->units, 1), sa = oct_units_stride(&p->units, 2),
            sb = oct_units_stride(&p->units, 3);
  for (size_t unit = begin; unit < end; unit++) {
    oct_run r = oct_units_run(&p->units, 4, unit);
    const uint8_t *condition = p->condition + r.offset[1];
    const float *a = p->a + r.offset[2], *b = p->b + r.offset[3];
    float *y = p->y + r.offset[0];
    for (ptrdiff_t i = 0; i < (ptrdiff_t)r.n; i++) y[i * sy] = condition[i * sc] ? a[i * sa] : b[i * sb];
  }
  return OCTET_OK;
}

static octet_status lower(oct_lowering *l, oct_node *node) {
  if (node->outputs[0]->dtype != OCT_F32) return oct_lower_decline(l, "no kernel for %s", oct_dtype_name(node->outputs[0]->dtype));
  oct_slot *condition, *a, *b, *out;
  OCT_TRY(oct_lower_input(l, node->inputs[0], OCT_DTYPE_NONE, OCT_LAYOUT_PLAIN, NULL, &condition));
  OCT_TRY(oct_lower_input(l, node->inputs[1], OCT_F32, OCT_LAYOUT_PLAIN, NULL, &a));
  OCT_TRY(oct_lower_input(l, node->inputs[2], OCT_F32, OCT_LAYOUT_PLAIN, NULL, &b));
  OCT_TRY(oct_lower_output(l, node->outputs[0], OCT_F32, OCT_LAYOUT_PLAIN, &out));
  where_params *p;
  oct_step *step;
  oct_loops loops;
  OCT_TRY(oct_lower_step(l, node, "where_f32", run, sizeof *p, &p, &step));
  oct_slots_loops(&loops, 4, (const oct_slot *[]){out, condition, a, b});
  oct_units_make(&p->units, &loops, step);
  OCT_TRY(oct_lower_read(l, step, &p->condition, condition));
  OCT_TRY(oct_lower_read(l, step, &p->a, a));
  OCT_TRY(oct_lower_read(l, step, &p->b, b));
  return oct_lower_write(l, step, &p->y, out);
}

static const char *const cases[] = {"in=bool[3,5],f32[3,5],f32[3,5]", "in=bool[1,5],f32[3,1],f32[]=0.5", "in=bool[2,3,1],i64[3,4],i64[4]",
                                    NULL};

const oct_op oct_op_where = {
    .name = "where",
    .summary = "condition ? a : b",
    .traits = OCT_TRAIT_ELEMENTWISE,
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer,
    .reference = reference,
    .lower = lower,
    .quantization = {.roles = {OCT_ROLE_NONE, OCT_ROLE_ACTIVATION, OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_FLOAT},
    .imports = OCT_ONNX_IMPORT("Where", 9),
    .exports = OCT_ONNX_EXPORT("Where"),
    .cases = cases,
};
