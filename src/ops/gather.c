/* Gather (ONNX): slices of the data picked by index along an axis. An index out of range is an error.
 * SPDX-License-Identifier: MIT */
#include "ops/movement.h"

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0], *at = node->inputs[1];
  int64_t axis = oct_node_int(node, "axis");
  if (at->dtype != OCT_DTYPE_NONE && at->dtype != OCT_I64 && at->dtype != OCT_I32)
    return oct_infer_fail(ctx, node, "the indices are %s; they must be i64 or i32", oct_dtype_name(at->dtype));
  if (x->has_shape && !oct_axis_normalize(&axis, x->shape.rank))
    return oct_infer_fail(ctx, node, "axis %lld is out of range for rank %d", (long long)axis, x->shape.rank);
  if (!x->has_shape || !at->has_shape) {
    oct_infer_set(node->outputs[0], x->dtype, NULL);
    return OCTET_OK;
  }
  oct_shape out = {.rank = x->shape.rank - 1 + at->shape.rank};
  if (out.rank > OCT_MAX_RANK) return oct_infer_fail(ctx, node, "the result has rank %d; at most %d is possible", out.rank, OCT_MAX_RANK);
  int to = 0;
  for (int i = 0; i < axis; i++) out.dim[to++] = x->shape.dim[i];
  for (int i = 0; i < at->shape.rank; i++) out.dim[to++] = at->shape.dim[i];
  for (int i = (int)axis + 1; i < x->shape.rank; i++) out.dim[to++] = x->shape.dim[i];
  oct_infer_set(node->outputs[0], x->dtype, &out);
  return OCTET_OK;
}

typedef struct gather_step {
  const char *in;
  char *out;
  const void *indices;
  oct_dtype index_dtype;
  int64_t outer, dim, count, inner; /* data [outer][dim][inner], output [outer][count][inner] */
  size_t size;
  const uint8_t *table;
  const oct_vector_kernels *vector;
  const char *name;
} gather_step;

static void set_sizes(gather_step *s, const oct_shape *data, const oct_shape *indices, int64_t axis) {
  oct_axis_normalize(&axis, data->rank);
  s->outer = s->inner = 1;
  for (int i = 0; i < axis; i++) s->outer *= data->dim[i];
  for (int i = (int)axis + 1; i < data->rank; i++) s->inner *= data->dim[i];
  s->dim = data->dim[axis];
  s->count = oct_shape_count(indices);
}

/* Units: slices of the output. */
static octet_status run(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  const gather_step *s = params;
  size_t bytes = (size_t)s->inner * s->size;
  for (size_t i = begin; i < end; i++) {
    int64_t at = (int64_t)(i % (size_t)s->count), outer = (int64_t)(i / (size_t)s->count);
    int64_t index = s->index_dtype == OCT_I64 ? ((const int64_t *)s->indices)[at] : ((const int32_t *)s->indices)[at];
    if (index < -s->dim || index >= s->dim)
      return oct_fail(ctx, OCTET_DATA, "node '%s' (gather): index %lld is out of range for a dim of %lld", s->name, (long long)index,
                      (long long)s->dim);
    if (index < 0) index += s->dim;
    const char *from = s->in + (size_t)(outer * s->dim + index) * bytes;
    if (s->table) s->vector->table_u8(bytes, (const uint8_t *)from, (uint8_t *)s->out + i * bytes, s->table);
    else if (bytes) memcpy(s->out + i * bytes, from, bytes);
  }
  return OCTET_OK;
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  gather_step s = {.in = in[0]->data,
                   .out = out[0]->data,
                   .indices = in[1]->data,
                   .index_dtype = in[1]->dtype,
                   .size = oct_dtype_size(in[0]->dtype),
                   .name = node->name};
  if (oct_shape_count(&out[0]->shape) == 0) return OCTET_OK;
  set_sizes(&s, &in[0]->shape, &in[1]->shape, oct_node_int(node, "axis"));
  return run(ctx, &s, 0, (size_t)(s.outer * s.count), NULL);
}

static octet_status lower(oct_lowering *l, oct_node *node) {
  const oct_value *x = node->inputs[0], *at = node->inputs[1];
  oct_slot *in, *out, *indices;
  const uint8_t *table;
  gather_step *s;
  oct_step *step;
  if (oct_shape_count(&node->outputs[0]->shape) == 0) return oct_lower_decline(l, "the result is empty");
  OCT_TRY(oct_movement_plain(l, x, node->outputs[0], &in, &out, &table));
  OCT_TRY(oct_lower_input(l, at, at->dtype, OCT_LAYOUT_PLAIN, NULL, &indices));
  OCT_TRY(oct_lower_step(l, node, "gather", run, sizeof *s, &s, &step));
  s->index_dtype = at->dtype, s->size = oct_dtype_size(in->dtype), s->table = table, s->vector = l->vector, s->name = node->name;
  set_sizes(s, &x->shape, &at->shape, oct_node_int(node, "axis"));
  step->units = (size_t)(s->outer * s->count);
  step->grain = 1 + 16384 / ((size_t)s->inner * s->size + 1);
  OCT_TRY(oct_lower_read(l, step, &s->in, in));
  OCT_TRY(oct_lower_read(l, step, &s->indices, indices));
  return oct_lower_write(l, step, &s->out, out);
}

static const oct_attribute_spec attributes[] = {
    {"axis", OCT_ATTRIBUTE_INT, false, "0", -OCT_MAX_RANK, OCT_MAX_RANK - 1, "of the data, along which slices are picked"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row imports[] = {{"onnx", "Gather", 1, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row exports[] = {{"onnx", "Gather", NULL}, {NULL, NULL, NULL}};
static const char *const cases[] = {
    "in=f32[5,4],i64[3]=0,-1,2",
    "in=f32[3,4,2],i64[2,2]=0,3,1,-4 attr:axis=1",
    "in=i64[4],i64[]=2",
    "in=u8[2,7],i32[3]=6,0,-2 attr:axis=-1",
    NULL,
};

const oct_op oct_op_gather = {
    .name = "gather",
    .summary = "slices picked by index",
    .traits = OCT_TRAIT_MOVEMENT,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer,
    .reference = reference,
    .lower = lower,
    .per_sample = oct_per_sample_gather,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_NONE}, .output = OCT_OUTPUT_SAME},
    .imports = imports,
    .exports = exports,
    .cases = cases,
};
