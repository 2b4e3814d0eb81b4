/* Pooling: window, reference sums and maxima, and the step that runs a pooling kernel on channels-last images.
 * SPDX-License-Identifier: MIT */
#include "ops/pool.h"

#include "ops/movement.h"

octet_status oct_pool_window(octet_context *ctx, const oct_node *node, const oct_shape *in, oct_window *window) {
  int64_t kernel[OCT_WINDOW_MAX];
  int count = oct_window_kernel_attribute(node, kernel);
  if (count != in->rank - 2) {
    char text[OCT_SHAPE_TEXT];
    return oct_infer_fail(ctx, node, "kernel_shape has %d numbers; the input %s has %d spatial axes", count, oct_shape_text(in, text),
                          in->rank - 2);
  }
  OCT_TRY(oct_window_infer(ctx, node, in, kernel, oct_node_int(node, "ceil_mode"), window));
  for (int i = 0; i < window->rank; i++) {
    int64_t extent = (window->kernel[i] - 1) * window->dilation[i] + 1;
    if (window->before[i] >= extent || window->after[i] >= extent)
      return oct_infer_fail(ctx, node, "spatial axis %d: pads %lld and %lld must be smaller than the kernel, which covers %lld", i,
                            (long long)window->before[i], (long long)window->after[i], (long long)extent);
  }
  return OCTET_OK;
}

octet_status oct_pool_infer(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0];
  if (x->dtype == OCT_BOOL) return oct_infer_fail(ctx, node, "the input is bool; it must be a number");
  if (!x->has_shape) {
    oct_infer_set(node->outputs[0], x->dtype, NULL);
    return OCTET_OK;
  }
  oct_window window;
  OCT_TRY(oct_pool_window(ctx, node, &x->shape, &window));
  oct_shape out = x->shape;
  for (int i = 0; i < window.rank; i++) out.dim[i + 2] = window.out[i];
  oct_infer_set(node->outputs[0], x->dtype, &out);
  return OCTET_OK;
}

void oct_pool_whole(const oct_shape *in, oct_window *window) {
  memset(window, 0, sizeof *window);
  window->rank = in->rank - 2;
  for (int i = 0; i < window->rank; i++) {
    window->in[i] = window->kernel[i] = in->dim[i + 2];
    window->out[i] = window->stride[i] = window->dilation[i] = 1;
  }
}

static int64_t image_size(const oct_window *w) {
  int64_t size = 1;
  for (int i = 0; i < w->rank; i++) size *= w->in[i];
  return size;
}

double oct_pool_max_at(const oct_window *w, const oct_tensor *in, int64_t index, int64_t *best) {
  int64_t positions = oct_window_positions(w), taps = oct_window_taps(w), base = index / positions * image_size(w);
  double largest = -INFINITY;
  bool any = false;
  if (best) *best = base;
  for (int64_t tap = 0; tap < taps; tap++) {
    int64_t offset = oct_window_offset(w, index % positions, tap, NULL);
    if (offset < 0) continue;
    double x = oct_get_f64(in->data, in->dtype, base + offset);
    if (any && !(x > largest) && x == x) continue;
    any = true;
    largest = x;
    if (best) *best = base + offset;
    if (x != x) break;
  }
  return largest;
}

double oct_pool_average_at(const oct_window *w, const oct_tensor *in, int64_t index, bool include_pad) {
  int64_t positions = oct_window_positions(w), taps = oct_window_taps(w), base = index / positions * image_size(w), count = 0;
  double sum = 0;
  for (int64_t tap = 0; tap < taps; tap++) {
    bool padded;
    int64_t offset = oct_window_offset(w, index % positions, tap, &padded);
    if (include_pad && padded) count++;
    if (offset < 0) continue;
    if (!include_pad) count++;
    sum += oct_get_f64(in->data, in->dtype, base + offset);
  }
  return count ? sum / (double)count : 0;
}

/* ---- Lowering ----------------------------------------------------------------------------------------------------- */

typedef void (*pool_fn)(const oct_pool_args *args, size_t begin, size_t end);

typedef struct pool_step {
  oct_pool_args args;
  pool_fn run;
} pool_step;

static octet_status run_pool(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const pool_step *s = params;
  s->run(&s->args, begin, end);
  return OCTET_OK;
}

static octet_status add_step(oct_lowering *l, oct_node *node, const char *name, pool_fn run, const oct_pool_args *args, oct_slot *in,
                             oct_slot *out) {
  pool_step *s;
  oct_step *step;
  OCT_TRY(oct_lower_step(l, node, name, run_pool, sizeof *s, &s, &step));
  s->args = *args, s->run = run;
  s->args.in = oct_slot_view(in), s->args.out = oct_slot_view(out);
  step->units = (size_t)(args->shape.batch * args->shape.out_h);
  step->grain = 1 + 4096 / ((size_t)(args->shape.out_w * args->shape.channels) + 1);
  OCT_TRY(oct_lower_read(l, step, &s->args.in.data, in));
  return oct_lower_write(l, step, &s->args.out.data, out);
}

/* 8-bit maxima keep their scale; another one at the output is a table afterwards. */
static octet_status lower_max_u8(oct_lowering *l, oct_node *node, const oct_pool_args *args) {
  oct_slot *in, *out, *between;
  const uint8_t *table;
  OCT_TRY(oct_lower_input(l, node->inputs[0], OCT_U8, OCT_LAYOUT_CHANNELS_LAST, NULL, &in));
  OCT_TRY(oct_lower_output(l, node->outputs[0], OCT_U8, OCT_LAYOUT_CHANNELS_LAST, &out));
  OCT_TRY(oct_requantize_table(l, in, out, &table));
  if (!table) return add_step(l, node, "max_pool_u8", l->vector->max_pool_u8, args, in, out);
  OCT_TRY(oct_lower_scratch(l, OCT_U8, &out->shape, OCT_LAYOUT_CHANNELS_LAST, NULL, &between));
  OCT_TRY(add_step(l, node, "max_pool_u8", l->vector->max_pool_u8, args, in, between));
  int64_t from[OCT_MAX_RANK], to[OCT_MAX_RANK];
  oct_slot_strides(between, out->shape.rank, from);
  oct_slot_strides(out, out->shape.rank, to);
  oct_copy copy = oct_copy_make(&out->shape, from, to);
  return oct_movement_step(l, node, &copy, between, out, table);
}

static octet_status lower_average_u8(oct_lowering *l, oct_node *node, oct_pool_args *args) {
  oct_slot *in, *out;
  OCT_TRY(oct_lower_multiplier(l, node->inputs[0]->quant->scale[0], 1, node->outputs[0]->quant->scale[0]));
  OCT_TRY(oct_lower_input(l, node->inputs[0], OCT_U8, OCT_LAYOUT_CHANNELS_LAST, NULL, &in));
  OCT_TRY(oct_lower_output(l, node->outputs[0], OCT_U8, OCT_LAYOUT_CHANNELS_LAST, &out));
  args->multiplier = in->scale / out->scale;
  args->in_zero_point = in->zero_point, args->out_zero_point = out->zero_point;
  args->low = 0, args->high = 255;
  return add_step(l, node, "average_pool_u8", l->vector->average_pool_u8, args, in, out);
}

octet_status oct_pool_lower(oct_lowering *l, oct_node *node, const oct_window *w, oct_pool_kind kind, bool include_pad) {
  const oct_value *x = node->inputs[0];
  oct_pool_args args = {.include_pad = include_pad};
  if (x->shape.rank < 3 || x->shape.rank > 4) return oct_lower_decline(l, "pooling over %d spatial axes has no kernel", x->shape.rank - 2);
  if (x->dtype != OCT_F32) return oct_lower_decline(l, "pooling of %s has no kernel", oct_dtype_name(x->dtype));
  if (oct_shape_count(&node->outputs[0]->shape) == 0 || oct_shape_count(&x->shape) == 0) return oct_lower_decline(l, "a dimension is zero");
  if (oct_window_has_empty(w)) return oct_lower_decline(l, "a window meets no input element");
  if (!oct_window_conv_shape(w, &x->shape, x->shape.dim[1], x->shape.dim[1], &args.shape))
    return oct_lower_decline(l, "a size is beyond the kernels' range");
  args.pad_bottom = w->rank == 2 ? (int)w->after[0] : 0, args.pad_right = (int)w->after[w->rank - 1];
  bool u8 = oct_lower_dtype(l, x) == OCT_U8 && oct_lower_dtype(l, node->outputs[0]) == OCT_U8;
  if (u8 && kind == OCT_POOL_MAX) return lower_max_u8(l, node, &args);
  if (u8) return lower_average_u8(l, node, &args);
  oct_slot *in, *out;
  OCT_TRY(oct_lower_input(l, x, OCT_F32, OCT_LAYOUT_CHANNELS_LAST, NULL, &in));
  OCT_TRY(oct_lower_output(l, node->outputs[0], OCT_F32, OCT_LAYOUT_CHANNELS_LAST, &out));
  if (kind == OCT_POOL_MAX) return add_step(l, node, "max_pool_f32", l->vector->max_pool_f32, &args, in, out);
  return add_step(l, node, "average_pool_f32", l->vector->average_pool_f32, &args, in, out);
}

oct_cost oct_pool_cost(const oct_node *node, double taps) {
  const oct_value *y = node->outputs[0];
  int64_t outputs = y && y->has_shape ? oct_shape_count(&y->shape) : -1;
  return (oct_cost){.flops = outputs > 0 ? (double)outputs * taps : 0};
}

double oct_pool_kernel_taps(const oct_node *node) {
  size_t count;
  const int64_t *kernel = oct_node_ints(node, "kernel_shape", &count);
  double taps = 1;
  for (size_t i = 0; i < count; i++) taps *= (double)kernel[i];
  return taps;
}
