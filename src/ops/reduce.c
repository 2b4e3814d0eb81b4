/* Reductions over axes: mean, sum, max, min, prod, l1, l2, sum of squares, log of sum, log of sum of exponentials.
 * `axes` is an input; none given means all, or none with noop_with_empty_axes. Floats accumulate in double, integers wrap at 64 bits.
 * SPDX-License-Identifier: MIT */
#include "ops/reduce.h"

bool oct_reduce_mask(const oct_node *node, const int64_t *axes, int n, int rank, unsigned *mask, int64_t *bad) {
  *mask = 0;
  if (n == 0 && !oct_node_int(node, "noop_with_empty_axes")) *mask = (1u << rank) - 1;
  for (int i = 0; i < n; i++) {
    int64_t axis = axes[i];
    *bad = axis;
    if (!oct_axis_normalize(&axis, rank)) return false;
    *mask |= 1u << axis;
  }
  return true;
}

static const oct_value *axes_of(const oct_node *node) { return node->n_inputs > 1 ? node->inputs[1] : NULL; }

bool oct_reduce_constant_mask(const oct_node *node, int rank, unsigned *mask) {
  int64_t axes[OCT_MAX_RANK], bad;
  int n = axes_of(node) ? oct_constant_ints(axes_of(node), axes, OCT_MAX_RANK) : 0;
  return n >= 0 && oct_reduce_mask(node, axes, n, rank, mask, &bad);
}

static oct_shape reduced_shape(const oct_shape *in, unsigned mask, bool keep) {
  oct_shape out = {.rank = 0};
  for (int d = 0; d < in->rank; d++) {
    if (!(mask >> d & 1)) out.dim[out.rank++] = in->dim[d];
    else if (keep) out.dim[out.rank++] = 1;
  }
  return out;
}

/* Axes computed at run time: the rank is known when the dims are kept, or when the number of axes is. */
static void infer_unknown_axes(oct_node *node) {
  const oct_value *x = node->inputs[0], *axes = axes_of(node);
  bool keep = oct_node_int(node, "keepdims") != 0, counted = axes->has_shape && axes->shape.rank == 1 && axes->shape.dim[0] > 0;
  if (!keep && (!counted || axes->shape.dim[0] > x->shape.rank)) {
    oct_infer_set(node->outputs[0], x->dtype, NULL);
    return;
  }
  oct_shape shape = {.rank = keep ? x->shape.rank : x->shape.rank - (int)axes->shape.dim[0]};
  for (int d = 0; d < shape.rank; d++) shape.dim[d] = keep && x->shape.dim[d] == 1 ? 1 : OCT_DIM_UNKNOWN;
  oct_infer_set(node->outputs[0], x->dtype, &shape);
}

static octet_status infer_any(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0], *axes_value = axes_of(node);
  if (axes_value && axes_value->dtype != OCT_I64 && axes_value->dtype != OCT_I32 && axes_value->dtype != OCT_DTYPE_NONE)
    return oct_infer_fail(ctx, node, "the axes are %s, but i64 is needed", oct_dtype_name(axes_value->dtype));
  if (!x->has_shape) {
    oct_infer_set(node->outputs[0], x->dtype, NULL);
    return OCTET_OK;
  }
  int64_t axes[OCT_MAX_RANK], bad;
  int n = axes_value ? oct_constant_ints(axes_value, axes, OCT_MAX_RANK) : 0;
  if (n < 0 && oct_constant_of(axes_value))
    return oct_infer_fail(ctx, node, "the axes \"%s\" are no list of at most %d integers", axes_value->name, OCT_MAX_RANK);
  if (n < 0) {
    infer_unknown_axes(node);
    return OCTET_OK;
  }
  unsigned mask;
  if (!oct_reduce_mask(node, axes, n, x->shape.rank, &mask, &bad))
    return oct_infer_fail(ctx, node, "axis %lld is out of range for an input of rank %d", (long long)bad, x->shape.rank);
  oct_shape shape = reduced_shape(&x->shape, mask, oct_node_int(node, "keepdims") != 0);
  oct_infer_set(node->outputs[0], x->dtype, &shape);
  return OCTET_OK;
}

static octet_status infer(octet_context *ctx, oct_node *node) {
  if (node->inputs[0]->dtype == OCT_BOOL) return oct_infer_fail(ctx, node, "the input is bool, but numbers are needed");
  return infer_any(ctx, node);
}

/* ---- Reference -------------------------------------------------------------------------------------------------- */

/* Dims walked like an odometer; the last is the inner run. */
typedef struct dims {
  int rank;
  int64_t count[OCT_MAX_RANK], stride[OCT_MAX_RANK], index[OCT_MAX_RANK], total;
} dims;

static dims dims_make(const oct_shape *shape, unsigned mask) {
  int64_t strides[OCT_MAX_RANK];
  oct_shape_strides(shape, strides);
  dims d = {.total = 1};
  for (int i = 0; i < shape->rank; i++) {
    if (!(mask >> i & 1)) continue;
    d.count[d.rank] = shape->dim[i];
    d.stride[d.rank++] = strides[i];
    d.total *= shape->dim[i];
  }
  if (d.rank == 0) d.count[d.rank++] = 1;
  return d;
}

/* Moves `offset` to the next position of the dims [0, rank). */
static int64_t dims_next(dims *d, int rank, int64_t offset) {
  for (int i = rank - 1; i >= 0; i--) {
    offset += d->stride[i];
    if (++d->index[i] < d->count[i]) return offset;
    offset -= d->stride[i] * d->count[i];
    d->index[i] = 0;
  }
  return offset;
}

/* acc = expression of acc and the element v, over a strided run. */
#define RUN_FLOATS(expression)                                      \
  if (x->dtype == OCT_F32) {                                        \
    for (int64_t i = 0; i < n; i++) {                               \
      double v = (double)((const float *)x->data)[at + i * stride]; \
      acc = (expression);                                           \
    }                                                               \
  } else {                                                          \
    for (int64_t i = 0; i < n; i++) {                               \
      double v = oct_get_f64(x->data, x->dtype, at + i * stride);   \
      acc = (expression);                                           \
    }                                                               \
  }                                                                 \
  return acc

static double run_floats(oct_reduction kind, const oct_tensor *x, int64_t at, int64_t n, int64_t stride, double acc, double shift) {
  switch (kind) {
    case OCT_REDUCE_MAX: RUN_FLOATS(acc != acc || acc > v ? acc : v);
    case OCT_REDUCE_MIN: RUN_FLOATS(acc != acc || acc < v ? acc : v);
    case OCT_REDUCE_PROD: RUN_FLOATS(acc * v);
    case OCT_REDUCE_L1: RUN_FLOATS(acc + fabs(v));
    case OCT_REDUCE_L2:
    case OCT_REDUCE_SUM_SQUARE: RUN_FLOATS(acc + v * v);
    case OCT_REDUCE_LOG_SUM_EXP: RUN_FLOATS(acc + oct_exp(v - shift));
    default: RUN_FLOATS(acc + v);
  }
}

#define RUN_INTEGERS(expression)                                            \
  for (int64_t i = 0; i < n; i++) {                                         \
    uint64_t v = (uint64_t)oct_get_i64(x->data, x->dtype, at + i * stride); \
    acc = (expression);                                                     \
  }                                                                         \
  return acc

static uint64_t run_integers(oct_reduction kind, const oct_tensor *x, int64_t at, int64_t n, int64_t stride, uint64_t acc) {
  /* u64 is ordered after flipping the sign bit; other types are small enough for int64 */
  uint64_t flip = x->dtype == OCT_U64 ? UINT64_C(1) << 63 : 0;
  switch (kind) {
    case OCT_REDUCE_MAX: RUN_INTEGERS((int64_t)(acc ^ flip) > (int64_t)(v ^ flip) ? acc : v);
    case OCT_REDUCE_MIN: RUN_INTEGERS((int64_t)(acc ^ flip) < (int64_t)(v ^ flip) ? acc : v);
    case OCT_REDUCE_PROD: RUN_INTEGERS(acc * v);
    case OCT_REDUCE_L1: RUN_INTEGERS(acc + (oct_dtype_is_signed(x->dtype) && (int64_t)v < 0 ? 0 - v : v));
    case OCT_REDUCE_L2:
    case OCT_REDUCE_SUM_SQUARE: RUN_INTEGERS(acc + v * v);
    default: RUN_INTEGERS(acc + v);
  }
}

/* Over the reduced dims from element `at`. */
static double reduce_floats(oct_reduction kind, const oct_tensor *x, dims *over, int64_t at, double acc, double shift) {
  int inner = over->rank - 1;
  for (int64_t left = over->total; left > 0; left -= over->count[inner]) {
    acc = run_floats(kind, x, at, over->count[inner], over->stride[inner], acc, shift);
    at = dims_next(over, inner, at);
  }
  return acc;
}

static uint64_t reduce_integers(oct_reduction kind, const oct_tensor *x, dims *over, int64_t at, uint64_t acc) {
  int inner = over->rank - 1;
  for (int64_t left = over->total; left > 0; left -= over->count[inner]) {
    acc = run_integers(kind, x, at, over->count[inner], over->stride[inner], acc);
    at = dims_next(over, inner, at);
  }
  return acc;
}

static double float_result(oct_reduction kind, const oct_tensor *x, dims *over, int64_t at) {
  double shift = 0;
  if (kind == OCT_REDUCE_LOG_SUM_EXP) {
    shift = reduce_floats(OCT_REDUCE_MAX, x, over, at, -INFINITY, 0);
    if (isinf(shift)) shift = 0;
  }
  double start = kind == OCT_REDUCE_MAX ? -INFINITY : kind == OCT_REDUCE_MIN ? INFINITY : kind == OCT_REDUCE_PROD ? 1 : 0;
  double acc = reduce_floats(kind, x, over, at, start, shift);
  switch (kind) {
    case OCT_REDUCE_MEAN: return acc / (double)over->total;
    case OCT_REDUCE_L2: return sqrt(acc);
    case OCT_REDUCE_LOG_SUM: return oct_log(acc);
    case OCT_REDUCE_LOG_SUM_EXP: return shift + oct_log(acc);
    default: return acc;
  }
}

/* Least and greatest value of an integer type, as the bits of an int64. */
static uint64_t lowest(oct_dtype dtype) { return oct_dtype_is_signed(dtype) ? 0 - (UINT64_C(1) << (oct_dtype_size(dtype) * 8 - 1)) : 0; }
static uint64_t highest(oct_dtype dtype) {
  return dtype == OCT_BOOL ? 1 : UINT64_MAX >> (64 - oct_dtype_size(dtype) * 8 + oct_dtype_is_signed(dtype));
}

static void integer_result(oct_reduction kind, const oct_tensor *x, dims *over, int64_t at, oct_tensor *y, int64_t to) {
  uint64_t start = kind == OCT_REDUCE_MAX ? lowest(x->dtype) : kind == OCT_REDUCE_MIN ? highest(x->dtype) : kind == OCT_REDUCE_PROD;
  uint64_t acc = reduce_integers(kind, x, over, at, start);
  bool is_signed = oct_dtype_is_signed(x->dtype);
  double value = is_signed ? (double)(int64_t)acc : (double)acc;
  if (kind == OCT_REDUCE_L2) oct_set_f64(y->data, y->dtype, to, sqrt(value));
  else if (kind == OCT_REDUCE_LOG_SUM) oct_set_f64(y->data, y->dtype, to, oct_log(value));
  else if (kind == OCT_REDUCE_MEAN && over->total > 0) {
    uint64_t n = (uint64_t)over->total;
    oct_set_i64(y->data, y->dtype, to, is_signed ? (int64_t)acc / (int64_t)n : (int64_t)(acc / n));
  } else oct_set_i64(y->data, y->dtype, to, (int64_t)acc);
}

static octet_status reduce(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *y, oct_reduction kind) {
  const oct_tensor *x = in[0], *axes_tensor = node->n_inputs > 1 ? in[1] : NULL;
  int64_t axes[OCT_MAX_RANK], bad = 0, n = axes_tensor ? oct_shape_count(&axes_tensor->shape) : 0;
  if (n > OCT_MAX_RANK) return oct_fail(ctx, OCTET_DATA, "%lld axes; at most %d are possible", (long long)n, OCT_MAX_RANK);
  for (int64_t i = 0; i < n; i++) axes[i] = oct_get_i64(axes_tensor->data, axes_tensor->dtype, i);
  unsigned mask;
  if (!oct_reduce_mask(node, axes, (int)n, x->shape.rank, &mask, &bad))
    return oct_fail(ctx, OCTET_DATA, "axis %lld is out of range for rank %d", (long long)bad, x->shape.rank);
  dims over = dims_make(&x->shape, mask), kept = dims_make(&x->shape, ~mask);
  int64_t at = 0;
  if (kept.total != oct_shape_count(&y->shape)) return oct_fail(ctx, OCTET_DATA, "the output's shape does not fit the axes");
  for (int64_t i = 0; i < kept.total; i++) {
    if (oct_dtype_is_float(x->dtype) || kind == OCT_REDUCE_LOG_SUM_EXP) oct_set_f64(y->data, y->dtype, i, float_result(kind, x, &over, at));
    else integer_result(kind, x, &over, at, y, i);
    at = dims_next(&kept, kept.rank, at);
  }
  return OCTET_OK;
}

/* ---- Import: axes as an attribute (until opset 12 for ReduceSum, 17 for the others) -------------------------------- */

static octet_status import_attribute(oct_importer *importer, const oct_foreign_node *foreign) {
  static const char *const known[] = {"axes", NULL};
  const oct_op *op;
  oct_value *inputs[2] = {oct_foreign_input(foreign, 0)};
  if (!oct_import_find("onnx", foreign->type, foreign->version, &op)) return oct_import_unsupported(importer, foreign, "no such reduction");
  if (!inputs[0] || foreign->n_inputs > 1)
    return oct_import_unsupported(importer, foreign, "%d inputs, before axes became an input", foreign->n_inputs);
  OCT_TRY(oct_import_ints_input(importer, foreign, "axes", &inputs[1]));
  oct_node *node;
  OCT_TRY(oct_import_node(importer, foreign, op->name, inputs, inputs[1] ? 2 : 1, 1, &node));
  OCT_TRY(oct_import_attributes(importer, foreign, node, known));
  return oct_import_finish(importer, foreign, node);
}

/* ---- Descriptors ---------------------------------------------------------------------------------------------------- */

#define REFERENCE(name, kind)                                                                                                           \
  static octet_status reference_##name(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) { \
    return reduce(ctx, node, in, out[0], kind);                                                                                         \
  }
REFERENCE(sum, OCT_REDUCE_SUM)
REFERENCE(mean, OCT_REDUCE_MEAN)
REFERENCE(max, OCT_REDUCE_MAX)
REFERENCE(min, OCT_REDUCE_MIN)
REFERENCE(prod, OCT_REDUCE_PROD)
REFERENCE(l1, OCT_REDUCE_L1)
REFERENCE(l2, OCT_REDUCE_L2)
REFERENCE(sum_square, OCT_REDUCE_SUM_SQUARE)
REFERENCE(log_sum, OCT_REDUCE_LOG_SUM)
REFERENCE(log_sum_exp, OCT_REDUCE_LOG_SUM_EXP)

static octet_status lower_sum(oct_lowering *l, oct_node *node) { return oct_reduce_lower(l, node, OCT_REDUCE_SUM); }
static octet_status lower_mean(oct_lowering *l, oct_node *node) { return oct_reduce_lower(l, node, OCT_REDUCE_MEAN); }
static octet_status lower_max(oct_lowering *l, oct_node *node) { return oct_reduce_lower(l, node, OCT_REDUCE_MAX); }
static octet_status lower_min(oct_lowering *l, oct_node *node) { return oct_reduce_lower(l, node, OCT_REDUCE_MIN); }

static oct_cost cost(const oct_node *node) {
  int64_t count = oct_shape_count(&node->inputs[0]->shape);
  return (oct_cost){.flops = node->inputs[0]->has_shape && count > 0 ? (double)count : 0};
}

static const oct_attribute_spec attributes[] = {
    {"keepdims", OCT_ATTRIBUTE_INT, false, "1", 0, 1, "reduced dims stay, with size 1"},
    {"noop_with_empty_axes", OCT_ATTRIBUTE_INT, false, "0", 0, 1, "no axes: reduce none instead of all"},
    {0},
};

#define REDUCTION(op, text, whole, onnx, input_since)                                                                                  \
  .name = op, .summary = text, .min_inputs = 1, .max_inputs = 2, .min_outputs = 1, .max_outputs = 1, .attributes = attributes,         \
  .reference = whole, .cost = cost, .per_sample = oct_per_sample_axes, .exports = (const oct_export_row[]){{"onnx", onnx, NULL}, {0}}, \
  .imports = (const oct_import_row[]) {                                                                                                \
    {"onnx", onnx, 7, input_since - 1, import_attribute}, {"onnx", onnx, input_since, 0, NULL}, { 0 }                                  \
  }
#define RULE(rule) \
  { .roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_NONE}, .output = rule }

static const char *const cases[] = {"in=f32[2,3,5,7],i64[2]=2,3",
                                    "in=f32[2,3,5,7],i64[2]=-1,-2 attr:keepdims=0",
                                    "in=f32[3,17]",
                                    "in=f32[3,17],i64[1]=0",
                                    "in=f32[2,3,4],i64[2]=0,2 attr:keepdims=0",
                                    "in=f32[2,3],- attr:noop_with_empty_axes=1",
                                    "in=i32[4,5],i64[1]=1",
                                    NULL};

const oct_op oct_op_reduce_sum = {
    REDUCTION("reduce_sum", "sum over axes", reference_sum, "ReduceSum", 13),
    .infer = infer,
    .lower = lower_sum,
    .quantization = RULE(OCT_OUTPUT_FLOAT),
    .cases = cases,
};
const oct_op oct_op_reduce_mean = {
    REDUCTION("reduce_mean", "mean over axes", reference_mean, "ReduceMean", 18),
    .infer = infer,
    .lower = lower_mean,
    .quantization = RULE(OCT_OUTPUT_OBSERVED),
    .cases = cases,
};
const oct_op oct_op_reduce_max = {
    REDUCTION("reduce_max", "greatest over axes", reference_max, "ReduceMax", 18),
    .infer = infer_any,
    .lower = lower_max,
    .quantization = RULE(OCT_OUTPUT_FLOAT),
    .cases = cases,
};
const oct_op oct_op_reduce_min = {
    REDUCTION("reduce_min", "least over axes", reference_min, "ReduceMin", 18),
    .infer = infer_any,
    .lower = lower_min,
    .quantization = RULE(OCT_OUTPUT_FLOAT),
    .cases = cases,
};
const oct_op oct_op_reduce_prod = {
    REDUCTION("reduce_prod", "product over axes", reference_prod, "ReduceProd", 18),
    .infer = infer,
    .quantization = RULE(OCT_OUTPUT_FLOAT),
    .cases = cases,
};
const oct_op oct_op_reduce_l1 = {
    REDUCTION("reduce_l1", "sum of magnitudes over axes", reference_l1, "ReduceL1", 18),
    .infer = infer,
    .quantization = RULE(OCT_OUTPUT_FLOAT),
    .cases = cases,
};
const oct_op oct_op_reduce_l2 = {
    REDUCTION("reduce_l2", "root of the sum of squares over axes", reference_l2, "ReduceL2", 18),
    .infer = infer,
    .quantization = RULE(OCT_OUTPUT_FLOAT),
    .cases = cases,
};
const oct_op oct_op_reduce_sum_square = {
    REDUCTION("reduce_sum_square", "sum of squares over axes", reference_sum_square, "ReduceSumSquare", 18),
    .infer = infer,
    .quantization = RULE(OCT_OUTPUT_FLOAT),
    .cases = cases,
};
const oct_op oct_op_reduce_log_sum = {
    REDUCTION("reduce_log_sum", "logarithm of the sum over axes", reference_log_sum, "ReduceLogSum", 18),
    .infer = infer,
    .quantization = RULE(OCT_OUTPUT_FLOAT),
    .cases = cases,
};
const oct_op oct_op_reduce_log_sum_exp = {
    REDUCTION("reduce_log_sum_exp", "logarithm of the sum of exponentials over axes", reference_log_sum_exp, "ReduceLogSumExp", 18),
    .infer = infer,
    .quantization = RULE(OCT_OUTPUT_FLOAT),
    .cases = cases,
};
