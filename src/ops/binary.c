/* Elementwise operators with two (or any number of) data inputs: references and float lowering. 8-bit forms: binary_u8.c.
 * SPDX-License-Identifier: MIT */
#include "ops/elementwise.h"

void oct_broadcast_strides(const oct_shape *in, const oct_shape *out, int64_t strides[OCT_MAX_RANK]) {
  int64_t own[OCT_MAX_RANK];
  oct_shape_strides(in, own);
  int skip = out->rank - in->rank;
  for (int d = 0; d < out->rank; d++) strides[d] = d < skip || in->dim[d - skip] == 1 ? 0 : own[d - skip];
}

/* ---- References ----------------------------------------------------------------------------------------------- */

/* Where a reference stands: offsets of the innermost row of `out` in both inputs. */
typedef struct walk {
  const oct_shape *shape;
  int64_t index[OCT_MAX_RANK], stride[2][OCT_MAX_RANK], offset[2], inner, rows;
} walk;

static void walk_start(walk *w, const oct_shape *a, const oct_shape *b, const oct_shape *out) {
  *w = (walk){.shape = out, .inner = out->rank ? out->dim[out->rank - 1] : 1};
  oct_broadcast_strides(a, out, w->stride[0]);
  oct_broadcast_strides(b, out, w->stride[1]);
  w->rows = w->inner > 0 ? oct_shape_count(out) / w->inner : 0;
}

static int64_t walk_inner_stride(const walk *w, int input) { return w->shape->rank ? w->stride[input][w->shape->rank - 1] : 0; }

static void walk_next(walk *w) {
  for (int d = w->shape->rank - 2; d >= 0; d--) {
    w->offset[0] += w->stride[0][d];
    w->offset[1] += w->stride[1][d];
    if (++w->index[d] < w->shape->dim[d]) return;
    w->offset[0] -= w->stride[0][d] * w->index[d];
    w->offset[1] -= w->stride[1][d] * w->index[d];
    w->index[d] = 0;
  }
}

static void row_f32(const oct_node *node, int64_t n, const float *a, int64_t a_stride, const float *b, int64_t b_stride, float *y) {
  double (*f)(const oct_node *, double, double) = node->op->scalar2;
  for (int64_t i = 0; i < n; i++) y[i] = (float)f(node, (double)a[i * a_stride], (double)b[i * b_stride]);
}

octet_status oct_binary_reference_with(const oct_node *node, const oct_tensor *a, const oct_tensor *b, oct_tensor *out,
                                       oct_integer2 integer) {
  walk w;
  walk_start(&w, &a->shape, &b->shape, &out->shape);
  int64_t a_stride = walk_inner_stride(&w, 0), b_stride = walk_inner_stride(&w, 1), at = 0;
  bool floats = !integer || oct_dtype_is_float(a->dtype) || oct_dtype_is_float(b->dtype), is_unsigned = a->dtype == OCT_U64;
  bool f32 = floats && a->dtype == OCT_F32 && b->dtype == OCT_F32 && out->dtype == OCT_F32;
  for (int64_t row = 0; row < w.rows; row++, at += w.inner, walk_next(&w)) {
    int64_t ia = w.offset[0], ib = w.offset[1];
    if (f32) {
      row_f32(node, w.inner, (const float *)a->data + ia, a_stride, (const float *)b->data + ib, b_stride, (float *)out->data + at);
      continue;
    }
    for (int64_t i = 0; i < w.inner; i++, ia += a_stride, ib += b_stride) {
      if (floats)
        oct_set_f64(out->data, out->dtype, at + i,
                    node->op->scalar2(node, oct_get_f64(a->data, a->dtype, ia), oct_get_f64(b->data, b->dtype, ib)));
      else
        oct_set_i64(out->data, out->dtype, at + i,
                    integer(node, oct_get_i64(a->data, a->dtype, ia), oct_get_i64(b->data, b->dtype, ib), is_unsigned));
    }
  }
  return OCTET_OK;
}

octet_status oct_variadic_reference(const oct_node *node, const oct_tensor *const *in, oct_tensor *out, oct_integer2 integer) {
  double (*f)(const oct_node *, double, double) = node->op->scalar2;
  bool floats = oct_dtype_is_float(out->dtype), is_unsigned = out->dtype == OCT_U64;
  for (int k = 0; k < node->n_inputs; k++) {
    const oct_tensor *x = in[k];
    walk w;
    walk_start(&w, &x->shape, &out->shape, &out->shape);
    int64_t stride = walk_inner_stride(&w, 0), at = 0;
    for (int64_t row = 0; row < w.rows; row++, walk_next(&w))
      for (int64_t i = 0, ix = w.offset[0]; i < w.inner; i++, ix += stride, at++) {
        if (floats) {
          double v = oct_get_f64(x->data, x->dtype, ix);
          oct_set_f64(out->data, out->dtype, at, k ? f(node, oct_get_f64(out->data, out->dtype, at), v) : v);
        } else {
          int64_t v = oct_get_i64(x->data, x->dtype, ix);
          oct_set_i64(out->data, out->dtype, at, k ? integer(node, oct_get_i64(out->data, out->dtype, at), v, is_unsigned) : v);
        }
      }
  }
  return OCTET_OK;
}

/* ---- Lowering -------------------------------------------------------------------------------------------------- */

/* An operand as large as the output in the output's layout; smaller ones as they are stored. */
static octet_status take_input(oct_lowering *l, const oct_value *value, oct_dtype dtype, oct_layout layout, const oct_shape *shape,
                               oct_slot **slot) {
  OCT_TRY(oct_lower_stored(l, value, slot));
  oct_layout wanted = oct_shape_equal(&(*slot)->shape, shape) ? layout : (*slot)->layout;
  return oct_lower_input(l, value, dtype, wanted, NULL, slot);
}

octet_status oct_binary_take(oct_lowering *l, oct_node *node, oct_dtype dtype, oct_binary_slots *slots) {
  oct_value *out = node->outputs[0];
  oct_layout layout = oct_lower_layout(l, out);
  OCT_TRY(take_input(l, node->inputs[0], dtype, layout, &out->shape, &slots->a));
  OCT_TRY(take_input(l, node->inputs[1], dtype, layout, &out->shape, &slots->b));
  OCT_TRY(oct_lower_output(l, out, dtype, layout, &slots->out));
  oct_slots_loops(&slots->loops, 3, (const oct_slot *[]){slots->out, slots->a, slots->b});
  return OCTET_OK;
}

typedef struct binary_params {
  const float *a, *b;
  float *y;
  oct_units units;
  const oct_vector_kernels *vector;
  oct_binary_f32 apply;
} binary_params;

static octet_status run_f32(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const binary_params *p = params;
  ptrdiff_t sy = oct_units_stride(&p->units, 0), sa = oct_units_stride(&p->units, 1), sb = oct_units_stride(&p->units, 2);
  for (size_t unit = begin; unit < end; unit++) {
    oct_run run = oct_units_run(&p->units, 3, unit);
    p->apply(p->vector, run.n, p->a + run.offset[1], sa, p->b + run.offset[2], sb, p->y + run.offset[0], sy);
  }
  return OCTET_OK;
}

static void square_table(const oct_binary_u8 *p, size_t n, const uint8_t *a, const uint8_t *b, bool b_broadcast, uint8_t *y) {
  (void)b_broadcast;
  for (size_t i = 0; i < n; i++) y[i] = p->table[a[i] * 256 + b[i]];
}

/* Any function of two 8-bit values: all 65536 results. */
static octet_status lower_square_table(oct_lowering *l, oct_node *node) {
  oct_binary_slots slots;
  OCT_TRY(oct_binary_take(l, node, OCT_U8, &slots));
  uint8_t *table = oct_lower_memory(l, 65536, 1);
  if (!table) return OCTET_OUT_OF_MEMORY;
  for (int i = 0; i < 65536; i++) {
    double a = (double)oct_dequantize(i >> 8, slots.a->scale, slots.a->zero_point),
           b = (double)oct_dequantize(i & 255, slots.b->scale, slots.b->zero_point);
    table[i] = (uint8_t)oct_quantize((float)node->op->scalar2(node, a, b), slots.out->scale, slots.out->zero_point, 0, 255);
  }
  return oct_binary_u8_lower(l, node, "table_u8_u8", square_table, false, &(oct_binary_u8){.table = table}, &slots);
}

octet_status oct_binary_lower(oct_lowering *l, oct_node *node, const char *kernel, oct_binary_f32 apply) {
  bool done;
  OCT_TRY(oct_binary_lower_tables(l, node, OCT_TABLES_LIMIT, &done));
  if (done) return OCTET_OK;
  if (oct_binary_is_u8(l, node)) return lower_square_table(l, node);
  for (int i = 0; i < 2; i++)
    if (node->inputs[i]->dtype != OCT_F32) return oct_lower_decline(l, "no kernel for %s", oct_dtype_name(node->inputs[i]->dtype));
  oct_binary_slots slots;
  OCT_TRY(oct_binary_take(l, node, OCT_F32, &slots));
  binary_params *p;
  oct_step *step;
  OCT_TRY(oct_lower_step(l, node, kernel, run_f32, sizeof *p, &p, &step));
  p->vector = l->vector;
  p->apply = apply;
  oct_units_make(&p->units, &slots.loops, step);
  step->in_place = oct_loops_aligned(&slots.loops, 3);
  OCT_TRY(oct_lower_read(l, step, &p->a, slots.a));
  OCT_TRY(oct_lower_read(l, step, &p->b, slots.b));
  return oct_lower_write(l, step, &p->y, slots.out);
}
