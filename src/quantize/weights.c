/* Weights in 8 bits: symmetric, in [-127, 127], one scale per output channel or one for all.
 * SPDX-License-Identifier: MIT */
#include "base/threads.h"
#include "quantize/calibration.h"

/* x * 0 is NaN for NaN and infinities, and 0 for all else. */
static bool all_finite(const float *x, int64_t n) {
  float poison[8] = {0};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int j = 0; j < 8; j++) poison[j] += x[i + j] * 0.0f;
  for (; i < n; i++) poison[0] += x[i] * 0.0f;
  for (int j = 1; j < 8; j++) poison[0] += poison[j];
  return poison[0] == 0;
}

octet_status oct_check_finite(octet_context *ctx, const oct_value *constant) {
  const oct_tensor *t = oct_constant_of(constant);
  int64_t count = t ? oct_shape_count(&t->shape) : 0;
  if (t && !oct_dtype_is_float(t->dtype)) return OCTET_OK;
  if (t && t->dtype == OCT_F32 && all_finite(t->data, count)) return OCTET_OK;
  for (int64_t i = 0; i < count; i++) {
    double x = oct_get_f64(t->data, t->dtype, i);
    if (!isfinite(x))
      return oct_fail(ctx, OCTET_DATA, "constant \"%s\" holds %s at element %lld; it cannot be quantized", constant->name,
                      isnan(x) ? "NaN" : "an infinity", (long long)i);
  }
  return OCTET_OK;
}

/* Walking a tensor by channels: elements of channel c are at (outer * channels + c) * inner + i. */
typedef struct channels {
  int64_t outer, count, inner;
} channels;

static channels channels_of(const oct_shape *shape, int axis) {
  channels w = {1, shape->dim[axis], 1};
  for (int d = 0; d < axis; d++) w.outer *= shape->dim[d];
  for (int d = axis + 1; d < shape->rank; d++) w.inner *= shape->dim[d];
  return w;
}

static float largest_of_channel(const float *x, const channels *w, int64_t c) {
  float largest = 0;
  for (int64_t o = 0; o < w->outer; o++)
    for (int64_t i = 0; i < w->inner; i++) {
      float a = fabsf(x[(o * w->count + c) * w->inner + i]);
      if (a > largest) largest = a;
    }
  return largest;
}

/* An all-zero channel's scale only sets how finely its bias counts; it is raised where the bias needs that. Denormals and the like are below
 * what any scale can show, and become 0. */
#define ZERO_CHANNEL_SCALE 0x1p-20f

static float scale_of(float largest) {
  if (largest == 0) return ZERO_CHANNEL_SCALE;
  float scale = largest / 127;
  return scale >= OCT_SMALLEST_SCALE ? scale : OCT_SMALLEST_SCALE;
}

static void choose_scales(const float *largest_of, const channels *w, const float *smallest, oct_weight_form *out) {
  float widest = 0, floor = 0;
  for (int64_t c = 0; c < w->count; c++) {
    float largest = largest_of[c], least = smallest ? smallest[c] : 0;
    if (out->axis >= 0) {
      float scale = scale_of(largest);
      out->scale[c] = scale > least ? scale : least;
    }
    if (largest > widest) widest = largest;
    if (least > floor) floor = least;
  }
  if (out->axis >= 0) return;
  float scale = scale_of(widest);
  out->scale[0] = scale > floor ? scale : floor;
}

/* Channels that threads share. Sums of a channel are added up in order afterwards. */
typedef struct filling {
  const float *x;
  channels w;
  oct_weight_form *out;
  float *largest;
  double *power, *error;
} filling;

static void find_largest(void *user, size_t begin, size_t end, size_t worker) {
  const filling *f = user;
  (void)worker;
  for (size_t c = begin; c < end; c++) f->largest[c] = largest_of_channel(f->x, &f->w, (int64_t)c);
}

static void fill(void *user, size_t begin, size_t end, size_t worker) {
  const filling *f = user;
  const channels *w = &f->w;
  int8_t *q = f->out->tensor->data;
  (void)worker;
  for (int64_t c = (int64_t)begin; c < (int64_t)end; c++) {
    float scale = f->out->scale[f->out->axis >= 0 ? c : 0];
    double power = 0, error = 0;
    for (int64_t o = 0; o < w->outer; o++)
      for (int64_t i = 0; i < w->inner; i++) {
        int64_t k = (o * w->count + c) * w->inner + i;
        q[k] = (int8_t)oct_quantize(f->x[k], scale, 0, -127, 127);
        double d = (double)f->x[k] - (double)q[k] * (double)scale;
        power += (double)f->x[k] * (double)f->x[k], error += d * d;
      }
    f->power[c] = power, f->error[c] = error;
  }
}

#define LEAST_SHARE 16384 /* weights that a thread is woken for */

static octet_status quantize_channels(octet_context *ctx, const oct_tensor *t, const channels *w, const float *smallest,
                                      oct_weight_form *out) {
  size_t count = (size_t)w->count, grain = LEAST_SHARE / (size_t)(w->outer * w->inner) + 1;
  filling f = {.x = t->data, .w = *w, .out = out};
  f.largest = oct_alloc(ctx, count, sizeof *f.largest);
  f.power = oct_alloc(ctx, 2 * count, sizeof *f.power);
  if (f.largest && f.power) {
    f.error = f.power + count;
    oct_parallel(ctx, count, grain, find_largest, &f);
    choose_scales(f.largest, w, smallest, out);
    oct_parallel(ctx, count, grain, fill, &f);
    double power = 0, error = 0;
    for (size_t c = 0; c < count; c++) power += f.power[c], error += f.error[c];
    out->sqnr_db = error > 0 ? 10 * log10(power / error) : INFINITY;
  }
  octet_status status = f.largest && f.power ? OCTET_OK : OCTET_OUT_OF_MEMORY;
  oct_free(f.largest);
  oct_free(f.power);
  return status;
}

octet_status oct_weight_quantize(octet_context *ctx, oct_region *region, const oct_value *weight, int axis, bool per_tensor,
                                 const float *smallest, oct_weight_form *out) {
  const oct_tensor *t = weight->tensor;
  channels w = channels_of(&t->shape, axis);
  *out = (oct_weight_form){.axis = per_tensor ? -1 : axis, .count = per_tensor ? 1 : w.count};
  if (oct_shape_count(&t->shape) < 1)
    return oct_fail(ctx, OCTET_DATA, "constant \"%s\" has no elements; it cannot be quantized", weight->name);
  OCT_TRY(oct_check_finite(ctx, weight));
  out->scale = oct_region_alloc(ctx, region, (size_t)out->count, sizeof *out->scale);
  if (!out->scale) return OCTET_OUT_OF_MEMORY;
  OCT_TRY(oct_tensor_create(ctx, OCT_I8, &t->shape, &out->tensor));
  octet_status status = quantize_channels(ctx, t, &w, smallest, out);
  if (status == OCTET_OK) return OCTET_OK;
  oct_tensor_release(out->tensor);
  out->tensor = NULL;
  return status;
}

int64_t oct_weight_magnitude(const oct_weight_form *form, int axis, int64_t channel) {
  channels w = channels_of(&form->tensor->shape, axis);
  const int8_t *q = form->tensor->data;
  int64_t sum = 0;
  for (int64_t o = 0; o < w.outer; o++)
    for (int64_t i = 0; i < w.inner; i++) {
      int v = q[(o * w.count + channel) * w.inner + i];
      sum += v < 0 ? -v : v;
    }
  return sum;
}

octet_status oct_weight_install(octet_context *ctx, oct_graph *graph, oct_value *weight, const oct_weight_form *form,
                                oct_node *const *nodes, size_t n_nodes, bool in_place, oct_value **out) {
  oct_quant *quant = oct_quant_create(ctx, &graph->region, OCT_I8, form->axis, form->count, form->scale, NULL);
  oct_value *value = weight;
  if (!quant) return OCTET_OUT_OF_MEMORY;
  if (in_place) {
    value->quant = quant;
    oct_value_set_tensor(value, oct_tensor_retain(form->tensor));
  } else {
    OCT_TRY(oct_graph_constant(ctx, graph, weight->name, oct_tensor_retain(form->tensor), &value));
    value->quant = quant;
  }
  value->dtype = OCT_F32;
  for (size_t i = 0; i < n_nodes; i++) nodes[i]->inputs[1] = value;
  *out = value;
  return OCTET_OK;
}
