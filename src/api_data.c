/* Public functions: datasets, filling a session's inputs from them, accuracy.
 * SPDX-License-Identifier: MIT */
#include "api_data.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "formats/labels.h"

octet_status octet_dataset_open(octet_context *ctx, const char *path, const char *preprocess, const octet_model *model,
                                octet_dataset **out) {
  *out = NULL;
  if (!preprocess && model) preprocess = oct_graph_metadata(model->graph, "preprocess");
  oct_preprocess rule;
  OCT_TRY(oct_preprocess_parse(ctx, preprocess, &rule));
  octet_dataset *data = oct_alloc(ctx, 1, sizeof *data);
  if (!data) return OCTET_OUT_OF_MEMORY;
  data->ctx = ctx;
  octet_status status = oct_dataset_open(ctx, path, &rule, &data->inner);
  if (status != OCTET_OK) {
    octet_dataset_destroy(data);
    return status;
  }
  data->count = (size_t)oct_dataset_count(data->inner);
  *out = data;
  return OCTET_OK;
}

void octet_dataset_destroy(octet_dataset *data) {
  if (!data) return;
  oct_dataset_close(data->inner);
  oct_free(data->order);
  oct_free(data);
}

size_t octet_dataset_count(const octet_dataset *data) { return data->count; }

octet_status octet_dataset_draw(octet_dataset *data, size_t count, uint64_t seed) {
  size_t total = (size_t)oct_dataset_count(data->inner);
  oct_free(data->order);
  data->order = NULL;
  data->count = total;
  if (count == 0 || count >= total) return OCTET_OK;
  data->order = oct_alloc(data->ctx, count, sizeof *data->order);
  if (!data->order) return OCTET_OUT_OF_MEMORY;
  data->count = count;
  return oct_dataset_draw(data->ctx, seed, (int64_t)total, (int64_t)count, data->order);
}

/* Scale and zero point of an 8-bit graph input, from the dequantize node it feeds; false when there is none. */
static bool input_quantization(const oct_graph *graph, const oct_value *input, double *scale, double *zero_point) {
  if (input->dtype != OCT_U8 && input->dtype != OCT_I8) return false;
  for (size_t i = 0; i < graph->n_nodes; i++) {
    const oct_node *node = graph->nodes[i];
    if (!oct_node_has(node, OCT_TRAIT_DEQUANTIZE) || node->inputs[0] != input || node->n_inputs < 2) continue;
    *zero_point = 0;
    if (node->n_inputs > 2 && node->inputs[2]) oct_constant_scalar(node->inputs[2], zero_point);
    return oct_constant_scalar(node->inputs[1], scale);
  }
  return false;
}

static void quantize_sample(const float *from, void *to, oct_dtype dtype, int64_t count, double scale, double zero_point) {
  int32_t low = dtype == OCT_U8 ? 0 : -128, high = dtype == OCT_U8 ? 255 : 127;
  for (int64_t i = 0; i < count; i++) oct_set_i64(to, dtype, i, oct_quantize(from[i], (float)scale, (int32_t)zero_point, low, high));
}

/* Image data for a 4-D input whose last dim looks like channels and whose second does not. */
static bool wants_channels_last(const oct_shape *s) {
  return s->rank == 4 && s->dim[1] > 4 && (s->dim[3] == 1 || s->dim[3] == 3 || s->dim[3] == 4);
}

octet_status oct_data_fill(octet_dataset *data, const oct_graph *graph, const oct_value *input, size_t first, size_t count, void *to) {
  octet_context *ctx = data->ctx;
  double scale, zero_point;
  bool quantize = input_quantization(graph, input, &scale, &zero_point);
  oct_sample_form form = {.dtype = quantize ? OCT_F32 : input->dtype, .channels_last = wants_channels_last(&input->shape)};
  form.shape.rank = input->shape.rank - 1;
  if (form.shape.rank < 0)
    return oct_fail(ctx, OCTET_SHAPE, "input \"%s\" is a scalar: it has no batch dimension for samples", input->name);
  if (graph->n_inputs > 1 && oct_dataset_n_names(data->inner) == 0)
    return oct_fail(ctx, OCTET_DATA,
                    "%s: is data for one input, but the model has %zu (\"%s\" is one): give an .npz with an array for each, by name",
                    oct_dataset_path(data->inner), graph->n_inputs, input->name);
  for (int d = 0; d < form.shape.rank; d++) form.shape.dim[d] = input->shape.dim[d + 1];
  int64_t elements = oct_shape_count(&form.shape);
  float *sample = quantize ? oct_alloc(ctx, (size_t)elements, sizeof *sample) : NULL;
  if (quantize && !sample) return OCTET_OUT_OF_MEMORY;
  octet_status status = OCTET_OK;
  for (size_t i = 0; i < count && status == OCTET_OK; i++) {
    int64_t index = data->order ? data->order[first + i] : (int64_t)(first + i);
    char *place = (char *)to + i * (size_t)elements * oct_dtype_size(input->dtype);
    status = oct_dataset_read(ctx, data->inner, graph->n_inputs > 1 ? input->name : NULL, index, &form, quantize ? (void *)sample : place);
    if (status == OCTET_OK && quantize) quantize_sample(sample, place, input->dtype, elements, scale, zero_point);
  }
  oct_free(sample);
  return status;
}

octet_status octet_dataset_fill(octet_dataset *data, size_t first, size_t count, octet_session *session) {
  octet_context *ctx = data->ctx;
  if (first > data->count || count > data->count - first)
    return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "samples %zu to %zu of %zu", first, first + count, data->count);
  const oct_graph *graph = session->inner->whole ? session->inner->whole : session->inner->graph;
  for (size_t i = 0; i < oct_session_inputs(session->inner); i++) {
    oct_session_port port = oct_session_input(session->inner, i);
    if (port.value->shape.rank < 1 || (size_t)port.value->shape.dim[0] < count)
      return oct_fail(ctx, OCTET_SHAPE, "input \"%s\" takes fewer than %zu samples", port.value->name, count);
    OCT_TRY(oct_data_fill(data, graph, port.value, first, count, port.data));
  }
  return OCTET_OK;
}

#define BATCH_BYTES ((int64_t)2 << 20) /* of inputs in one run: fits the second-level cache */

/* What one run of an evaluation takes: the declared batch; where that is free as many samples as stay in the cache. A node that looks at the
 * whole tensor (DynamicQuantizeLinear, also in a layer: `dynamic` = 2) would make results depend on the batch mates, so such graphs run sample by sample. */
int64_t oct_data_batch(const oct_graph *graph) {
  int64_t batch = 256;
  for (size_t i = 0; i < graph->n_nodes; i++)
    if (oct_node_int(graph->nodes[i], "dynamic") == 2 || strcmp(graph->nodes[i]->op->name, "dynamic_quantize") == 0) batch = 1;
  for (size_t i = 0; i < graph->n_inputs; i++) {
    const oct_value *v = graph->inputs[i];
    if (!v->has_shape || v->shape.rank < 1) return 1;
    if (v->shape.dim[0] != OCT_DIM_UNKNOWN) return v->shape.dim[0] > 0 ? v->shape.dim[0] : 1;
    int64_t bytes = (int64_t)oct_dtype_size(v->dtype);
    for (int d = 1; d < v->shape.rank; d++) bytes *= v->shape.dim[d] > 0 ? v->shape.dim[d] : 1;
    while (batch > 1 && batch * bytes > BATCH_BYTES) batch /= 2;
  }
  return batch;
}

/* Classes of one sample's scores that come before `index`: larger, or equal at a lower index. A score that is NaN comes after all others. */
static size_t rank_of(const void *scores, oct_dtype dtype, int64_t base, int64_t classes, int64_t index) {
  double own = oct_get_f64(scores, dtype, base + index);
  size_t before = 0;
  if (isnan(own)) return (size_t)classes;
  for (int64_t c = 0; c < classes; c++) {
    double x = oct_get_f64(scores, dtype, base + c);
    if (x > own || (x == own && c < index)) before++;
  }
  return before;
}

/* Classes per sample of output 0; every label must be one of them. `path` NULL: the labels are the data's own. */
static octet_status check_labels(octet_context *ctx, const oct_session_port *out, const oct_labels *labels, int64_t count, const char *path,
                                 int64_t *classes) {
  const oct_shape *shape = &out->value->shape;
  *classes = shape->rank && shape->dim[0] ? oct_shape_count(shape) / shape->dim[0] : 0;
  if (*classes < 2)
    return oct_fail(ctx, OCTET_SHAPE, "output \"%s\" holds no class scores per sample: accuracy needs [batch, classes]", out->value->name);
  for (int64_t i = 0; i < count; i++)
    for (int64_t k = labels->start[i]; k < labels->start[i + 1]; k++)
      if (labels->classes[k] < 0 || labels->classes[k] >= *classes)
        return oct_fail(ctx, OCTET_DATA, "%s%ssample %lld has label %d, but output \"%s\" has %lld classes", path ? path : "",
                        path ? ": " : "", (long long)i, labels->classes[k], out->value->name, (long long)*classes);
  return OCTET_OK;
}

static void score(const oct_session_port *out, int64_t classes, const octet_dataset *data, const oct_labels *labels, size_t first,
                  size_t count, octet_accuracy *a) {
  for (size_t i = 0; i < count; i++) {
    int64_t sample = data->order ? data->order[first + i] : (int64_t)(first + i);
    if (labels->start[sample] == labels->start[sample + 1]) continue;
    size_t best = (size_t)classes;
    for (int64_t k = labels->start[sample]; k < labels->start[sample + 1]; k++) {
      size_t rank = rank_of(out->data, out->value->dtype, (int64_t)i * classes, classes, labels->classes[k]);
      if (rank < best) best = rank;
    }
    a->total++;
    a->correct += best == 0;
    a->correct5 += best < 5;
  }
}

static octet_status evaluate(octet_session *session, octet_dataset *data, const oct_labels *labels, const char *path, size_t limit,
                             octet_accuracy *out) {
  octet_context *ctx = data->ctx;
  if (oct_session_inputs(session->inner) == 0 || oct_session_outputs(session->inner) == 0)
    return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "accuracy needs a model with an input and an output");
  const oct_value *in = oct_session_input(session->inner, 0).value; /* of the whole batch */
  oct_session_port port = oct_session_output(session->inner, 0);
  size_t batch = in->shape.rank ? (size_t)in->shape.dim[0] : 1, total = limit && limit < data->count ? limit : data->count;
  double seconds = 0;
  int64_t classes;
  if (batch == 0) return oct_fail(ctx, OCTET_SHAPE, "input \"%s\" takes batches of no samples", in->name);
  OCT_TRY(check_labels(ctx, &port, labels, oct_dataset_count(data->inner), path, &classes));
  if (port.value->shape.dim[0] != (int64_t)batch)
    return oct_fail(ctx, OCTET_SHAPE, "output \"%s\" does not hold one row per sample: accuracy needs [batch, classes]", port.value->name);
  for (size_t first = 0; first < total; first += batch) {
    size_t count = total - first < batch ? total - first : batch;
    OCT_TRY(octet_dataset_fill(data, first, count, session));
    double start = oct_seconds_now();
    OCT_TRY(octet_session_run(session));
    seconds += oct_seconds_now() - start;
    score(&port, classes, data, labels, first, count, out);
    OCT_TRY(oct_progress(ctx, "evaluating", first + count, total));
  }
  if (out->total == 0) return oct_fail(ctx, OCTET_DATA, "none of the samples has a label");
  out->top1 = (double)out->correct / (double)out->total;
  out->top5 = (double)out->correct5 / (double)out->total;
  out->images_per_second = seconds > 0 ? (double)total / seconds : 0;
  return OCTET_OK;
}

octet_status octet_evaluate(const octet_model *model, octet_dataset *data, const char *labels, size_t limit,
                            const octet_session_options *options, octet_accuracy *out) {
  octet_session_options o = octet_session_options_default();
  oct_labels list = {0};
  octet_session *session = NULL;
  *out = (octet_accuracy){0};
  OCT_TRY(oct_options_take(model->ctx, options, &o, sizeof o));
  if (o.batch == 0 && o.n_shapes == 0) {
    const oct_graph *ready; /* what is run: after the passes */
    OCT_TRY(oct_model_ready(model, &ready));
    o.batch = oct_data_batch(ready);
  }
  octet_status status =
      labels ? oct_labels_read(model->ctx, labels, data->inner, &list) : oct_labels_from_folders(model->ctx, data->inner, &list);
  if (status == OCTET_OK) status = octet_session_create(model, &o, &session);
  if (status == OCTET_OK) status = evaluate(session, data, &list, labels, limit, out);
  octet_session_destroy(session);
  oct_labels_free(&list);
  return status;
}
