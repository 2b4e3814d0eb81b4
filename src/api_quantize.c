/* Public functions: quantization, in one call and in steps, and comparison.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "api_data.h"
#include "quantize/quantize.h"

octet_quantize_options octet_quantize_options_default(void) {
  return (octet_quantize_options){.struct_size = sizeof(octet_quantize_options), .mode = "int8", .io = "float"};
}

/* Samples of a dataset as batches for calibration and comparison. */
typedef struct batches {
  octet_dataset *data;
  const oct_graph *graph; /* whose inputs are fed */
  size_t batch, limit;
  const char *what;
  oct_named_tensor *inputs; /* one tensor per graph input, remade when the size changes */
} batches;

static void free_tensors(batches *b) {
  for (size_t i = 0; b->inputs && i < b->graph->n_inputs; i++) {
    oct_tensor_release(b->inputs[i].tensor);
    b->inputs[i].tensor = NULL;
  }
}

static octet_status make_tensor(octet_context *ctx, const oct_value *input, size_t count, oct_tensor **out) {
  oct_shape shape = input->shape;
  if (!input->has_shape || shape.rank < 1)
    return oct_fail(ctx, OCTET_SHAPE, "input \"%s\" has no batch dimension for samples", input->name);
  shape.dim[0] = (int64_t)count;
  for (int d = 1; d < shape.rank; d++)
    if (shape.dim[d] == OCT_DIM_UNKNOWN)
      return oct_fail(ctx, OCTET_SHAPE, "input \"%s\": dim %d is not fixed; write the model with a fixed size", input->name, d);
  return oct_tensor_create(ctx, input->dtype, &shape, out);
}

static octet_status next_batch(octet_context *ctx, void *user, size_t index, const oct_named_tensor **inputs, size_t *count) {
  batches *b = user;
  size_t first = index * b->batch, total = b->limit && b->limit < b->data->count ? b->limit : b->data->count;
  *count = 0;
  OCT_TRY(oct_progress(ctx, b->what, first < total ? first : total, total));
  if (first >= total) return OCTET_OK;
  size_t n = total - first < b->batch ? total - first : b->batch;
  free_tensors(b);
  for (size_t i = 0; i < b->graph->n_inputs; i++) {
    const oct_value *v = b->graph->inputs[i];
    b->inputs[i].name = v->name;
    OCT_TRY(make_tensor(ctx, v, n, &b->inputs[i].tensor));
    OCT_TRY(oct_data_fill(b->data, b->graph, v, first, n, b->inputs[i].tensor->data));
  }
  *inputs = b->inputs;
  *count = b->graph->n_inputs;
  return OCTET_OK;
}

static octet_status batches_make(octet_context *ctx, octet_dataset *data, const oct_graph *graph, size_t batch, const char *what,
                                 batches *out) {
  *out = (batches){.data = data, .graph = graph, .batch = batch ? batch : (size_t)oct_data_batch(graph), .what = what};
  out->inputs = oct_alloc(ctx, graph->n_inputs + 1, sizeof *out->inputs);
  return out->inputs ? OCTET_OK : OCTET_OUT_OF_MEMORY;
}

static void batches_free(batches *b) {
  free_tensors(b);
  oct_free(b->inputs);
}

static octet_status parse_io(octet_context *ctx, const char *io, oct_quantize_io *out) {
  static const char *const names[] = {"float", "int8", "uint8"};
  for (int i = 0; i < 3; i++)
    if (!io || strcmp(io, names[i]) == 0) {
      *out = io ? (oct_quantize_io)i : OCT_IO_FLOAT;
      return OCTET_OK;
    }
  return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "unknown io \"%s\": float, int8 or uint8", io);
}

static octet_status parse_options(octet_context *ctx, const octet_quantize_options *o, oct_quantize_config *config,
                                  oct_quantize_options *out) {
  *out = oct_quantize_options_default();
  if (o->mode && !oct_quantize_mode_parse(o->mode, &out->mode))
    return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "unknown mode \"%s\": int8, dynamic, weight-only or fp16", o->mode);
  if (o->observer && !oct_observer_kind_parse(o->observer, &out->observer))
    return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "unknown observer \"%s\": minmax, moving-average, percentile, kl or mse", o->observer);
  if (o->percentile != 0) {
    if (!(o->percentile > 50 && o->percentile <= 100))
      return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "percentile %g is not in (50, 100]", o->percentile);
    out->observers.percentile = o->percentile;
  }
  OCT_TRY(parse_io(ctx, o->io, &out->io));
  out->per_tensor = o->per_tensor;
  out->symmetric = o->symmetric;
  out->strict = o->strict;
  out->keep_float = o->keep_float;
  out->n_keep_float = o->n_keep_float;
  if (!o->config) return OCTET_OK;
  OCT_TRY(oct_quantize_config_load(ctx, o->config, config));
  out->config = config;
  return OCTET_OK;
}

struct octet_calibration {
  octet_context *ctx;
  oct_calibration *inner;
};

octet_status octet_calibration_create(const octet_model *model, const octet_quantize_options *options, octet_calibration **out) {
  octet_context *ctx = model->ctx;
  octet_quantize_options own = octet_quantize_options_default();
  oct_quantize_config config = {0};
  oct_quantize_options o;
  *out = NULL;
  OCT_TRY(oct_options_take(ctx, options, &own, sizeof own));
  octet_status status = parse_options(ctx, &own, &config, &o);
  octet_calibration *calibration = status == OCTET_OK ? oct_alloc(ctx, 1, sizeof *calibration) : NULL;
  if (status == OCTET_OK && !calibration) status = OCTET_OUT_OF_MEMORY;
  if (status == OCTET_OK) {
    calibration->ctx = ctx;
    status = oct_quantize_prepare(ctx, model->graph, &o, &calibration->inner);
  }
  oct_quantize_config_free(&config);
  if (status == OCTET_OK) *out = calibration;
  else oct_free(calibration);
  return status;
}

void octet_calibration_destroy(octet_calibration *calibration) {
  if (!calibration) return;
  oct_calibration_destroy(calibration->inner);
  oct_free(calibration);
}

/* A tensor over the caller's data. */
static octet_status borrow(octet_context *ctx, const octet_tensor *t, oct_tensor *out) {
  oct_dtype dtype = oct_dtype_parse(t->dtype ? t->dtype : "");
  if (dtype == OCT_DTYPE_NONE || t->rank < 0 || t->rank > OCT_MAX_RANK || !t->data)
    return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "calibration input \"%s\" needs a type, a rank up to %d and data", t->name ? t->name : "",
                    OCT_MAX_RANK);
  *out = (oct_tensor){.dtype = dtype, .shape.rank = t->rank, .data = t->data, .bytes = t->bytes, .references = 1};
  for (int d = 0; d < t->rank; d++) out->shape.dim[d] = t->dims[d];
  int64_t count = oct_shape_count(&out->shape);
  if (count < 0 || (size_t)count * oct_dtype_size(dtype) != t->bytes)
    return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "calibration input \"%s\": %zu bytes do not fit its shape", t->name ? t->name : "",
                    t->bytes);
  return OCTET_OK;
}

octet_status octet_calibration_observe(octet_calibration *calibration, const octet_tensor *inputs, size_t n_inputs) {
  octet_context *ctx = calibration->ctx;
  oct_named_tensor *named = oct_alloc(ctx, n_inputs + 1, sizeof *named);
  oct_tensor *tensors = oct_alloc(ctx, n_inputs + 1, sizeof *tensors);
  octet_status status = named && tensors ? OCTET_OK : OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < n_inputs && status == OCTET_OK; i++) {
    named[i] = (oct_named_tensor){.name = (char *)(uintptr_t)inputs[i].name, .tensor = &tensors[i]};
    status = borrow(ctx, &inputs[i], &tensors[i]);
  }
  if (status == OCTET_OK) status = oct_calibration_observe(calibration->inner, named, n_inputs);
  oct_free(named);
  oct_free(tensors);
  return status;
}

octet_status octet_calibration_convert(octet_calibration *calibration, octet_model **out) {
  octet_context *ctx = calibration->ctx;
  oct_graph *graph = NULL;
  *out = NULL;
  oct_quantize_report *report = oct_alloc(ctx, 1, sizeof *report);
  octet_status status = report ? oct_calibration_convert(calibration->inner, &graph, report) : OCTET_OUT_OF_MEMORY;
  if (status == OCTET_OK) {
    for (size_t i = 0; i < report->n_warnings; i++) oct_warn(ctx, "%s", report->warnings[i]);
    status = oct_model_wrap(ctx, graph, out);
  }
  if (status == OCTET_OK) {
    (*out)->report = report;
    return OCTET_OK;
  }
  if (report) oct_quantize_report_free(report);
  oct_free(report);
  return status;
}

static octet_status observe_all(octet_calibration *calibration, octet_dataset *data, const octet_model *model, size_t batch) {
  octet_context *ctx = calibration->ctx;
  if (!data)
    return oct_fail(ctx, OCTET_INVALID_ARGUMENT,
                    "static int8 needs calibration data: give a few hundred samples of what the model will see");
  batches b;
  octet_status status = batches_make(ctx, data, model->graph, batch, "calibrating", &b);
  for (size_t i = 0; status == OCTET_OK; i++) {
    const oct_named_tensor *inputs = NULL;
    size_t count = 0;
    status = next_batch(ctx, &b, i, &inputs, &count);
    if (status != OCTET_OK || count == 0) break;
    status = oct_calibration_observe(calibration->inner, inputs, count);
  }
  batches_free(&b);
  return status;
}

octet_status octet_quantize(const octet_model *model, octet_dataset *data, const octet_quantize_options *options, octet_model **out) {
  octet_calibration *calibration;
  octet_quantize_options own = octet_quantize_options_default();
  *out = NULL;
  OCT_TRY(oct_options_take(model->ctx, options, &own, sizeof own));
  OCT_TRY(octet_calibration_create(model, options, &calibration));
  octet_status status = OCTET_OK;
  if (oct_calibration_wants_data(calibration->inner)) status = observe_all(calibration, data, model, own.batch);
  if (status == OCTET_OK) status = octet_calibration_convert(calibration, out);
  octet_calibration_destroy(calibration);
  return status;
}

size_t octet_model_quantized_layer_count(const octet_model *model) { return model->report ? model->report->n_layers : 0; }

octet_quantized_layer octet_model_quantized_layer(const octet_model *model, size_t index) {
  if (index >= octet_model_quantized_layer_count(model)) return (octet_quantized_layer){0};
  const oct_layer_report *l = &model->report->layers[index];
  return (octet_quantized_layer){l->name,   l->op,    l->type,  l->weights,        l->reason,
                                 l->island, l->fused, l->bytes, l->weight_sqnr_db, l->clipped};
}

int octet_model_quantized_boundaries(const octet_model *model) { return model->report ? model->report->boundaries : -1; }
size_t octet_model_quantized_value_count(const octet_model *model) { return model->report ? model->report->n_values : 0; }

octet_quantized_value octet_model_quantized_value(const octet_model *model, size_t index) {
  if (index >= octet_model_quantized_value_count(model)) return (octet_quantized_value){0};
  const oct_value_report *v = &model->report->values[index];
  return (octet_quantized_value){
      v->name, v->low, v->high, v->scale, v->zero_point, v->observer, v->chosen.effect.clipped, v->chosen.effect.sqnr_db};
}

bool octet_model_quantized_alternative(const octet_model *model, size_t index, const char *observer, double *low, double *high,
                                       double *clipped, double *sqnr_db) {
  oct_observer_kind kind;
  if (index >= octet_model_quantized_value_count(model) || !oct_observer_kind_parse(observer, &kind)) return false;
  const oct_value_report *v = &model->report->values[index];
  oct_observer_kind own;
  if (!oct_observer_kind_parse(v->observer, &own)) return false;
  const oct_range_choice *c = &v->by_observer[kind];
  *low = c->range.low;
  *high = c->range.high;
  *clipped = c->effect.clipped;
  *sqnr_db = c->effect.sqnr_db;
  return true;
}

/* ---- Comparison ---- */

struct octet_comparison {
  oct_compare_report report;
};

octet_status octet_compare(const octet_model *reference, const octet_model *quantized, octet_dataset *data, size_t limit,
                           octet_comparison **out) {
  octet_context *ctx = reference->ctx;
  *out = NULL;
  octet_comparison *comparison = oct_alloc(ctx, 1, sizeof *comparison);
  if (!comparison) return OCTET_OUT_OF_MEMORY;
  const oct_graph *ready; /* a QDQ file's pairs are parameters there */
  batches b;
  octet_status status = batches_make(ctx, data, reference->graph, 0, "comparing", &b);
  if (status == OCTET_OK) status = oct_model_ready(quantized, &ready);
  b.limit = limit;
  if (status == OCTET_OK) status = oct_compare(ctx, reference->graph, ready, next_batch, &b, &comparison->report);
  batches_free(&b);
  if (status != OCTET_OK) {
    octet_comparison_destroy(comparison);
    return status;
  }
  *out = comparison;
  return OCTET_OK;
}

void octet_comparison_destroy(octet_comparison *comparison) {
  if (!comparison) return;
  oct_compare_report_free(&comparison->report);
  oct_free(comparison);
}

size_t octet_comparison_output_count(const octet_comparison *c) { return c->report.n_outputs; }
octet_output_difference octet_comparison_output(const octet_comparison *c, size_t index) {
  if (index >= c->report.n_outputs) return (octet_output_difference){0};
  const oct_compare_output *o = &c->report.outputs[index];
  return (octet_output_difference){o->name, o->sqnr_db, o->max_error};
}
size_t octet_comparison_layer_count(const octet_comparison *c) { return c->report.n_layers; }
octet_layer_difference octet_comparison_layer(const octet_comparison *c, size_t index) {
  if (index >= c->report.n_layers) return (octet_layer_difference){0};
  const oct_compare_layer *l = &c->report.layers[index];
  return (octet_layer_difference){l->name, l->op, l->type, l->sqnr_db, l->sqnr_alone_db, l->clipped, l->reason, l->island};
}
size_t octet_comparison_warning_count(const octet_comparison *c) { return c->report.n_warnings; }
const char *octet_comparison_warning(const octet_comparison *c, size_t index) {
  return index < c->report.n_warnings ? c->report.warnings[index] : "";
}
