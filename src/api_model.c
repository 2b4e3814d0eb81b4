/* Public functions: models - reading, writing, what is in them.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "api.h"
#include "formats/model.h"
#include "passes/pass.h"
#include "quantize/quantize.h"

octet_status oct_model_wrap(octet_context *ctx, oct_graph *graph, octet_model **out) {
  *out = oct_alloc(ctx, 1, sizeof **out);
  if (*out && oct_packed_create(ctx, &(*out)->cache) == OCTET_OK) {
    (*out)->ctx = ctx;
    (*out)->graph = graph;
    return OCTET_OK;
  }
  oct_free(*out);
  *out = NULL;
  oct_graph_destroy(graph);
  return OCTET_OUT_OF_MEMORY;
}

octet_status octet_model_read(octet_context *ctx, const char *path, const char *weights, octet_model **out) {
  oct_graph *graph;
  *out = NULL;
  OCT_TRY(oct_model_read(ctx, path, weights, &graph));
  return oct_model_wrap(ctx, graph, out);
}

octet_status octet_model_write(const octet_model *model, const char *path) { return oct_model_write(model->ctx, model->graph, path); }

void octet_model_destroy(octet_model *model) {
  if (!model) return;
  oct_graph_destroy(model->graph);
  oct_graph_destroy(model->ready);
  oct_packed_release(model->cache);
  if (model->report) oct_quantize_report_free(model->report);
  oct_free(model->report);
  oct_free(model);
}

size_t octet_model_input_count(const octet_model *model) { return model->graph->n_inputs; }
size_t octet_model_output_count(const octet_model *model) { return model->graph->n_outputs; }
octet_tensor octet_model_input(const octet_model *model, size_t index) {
  return index < model->graph->n_inputs ? oct_public_tensor(model->graph->inputs[index], NULL, 0) : (octet_tensor){0};
}
octet_tensor octet_model_output(const octet_model *model, size_t index) {
  return index < model->graph->n_outputs ? oct_public_tensor(model->graph->outputs[index], NULL, 0) : (octet_tensor){0};
}

/* Scales and zero points as they have to be stored: those of biases follow from input and weights, zero points of constants are 0 mostly. */
static size_t quantization_bytes(const oct_value *v) {
  const oct_quant *q = v->quant;
  if (!q || q->dtype == OCT_I32) return 0;
  bool zero_points = v->kind != OCT_CONSTANT;
  for (int64_t i = 0; i < q->count && !zero_points; i++) zero_points = q->zero_point[i] != 0;
  return (size_t)q->count * (sizeof(float) + (zero_points ? oct_dtype_size(q->dtype) : 0));
}

size_t octet_model_weight_bytes(const octet_model *model) {
  const oct_graph *graph;
  if (oct_model_ready(model, &graph) != OCTET_OK) graph = model->graph;
  size_t bytes = 0;
  for (size_t i = 0; i < graph->n_values; i++) {
    const oct_value *v = graph->values[i];
    if (v->tensor && (v->quant || oct_dtype_is_float(v->tensor->dtype))) bytes += v->tensor->bytes;
    bytes += quantization_bytes(v);
  }
  return bytes;
}

size_t octet_model_parameter_count(const octet_model *model) {
  const oct_graph *graph;
  if (oct_model_ready(model, &graph) != OCTET_OK) graph = model->graph;
  size_t count = 0;
  for (size_t i = 0; i < graph->n_values; i++) {
    const oct_value *v = graph->values[i];
    if (v->tensor && oct_dtype_is_float(v->dtype)) count += (size_t)oct_shape_count(&v->tensor->shape);
  }
  return count;
}

const char *octet_model_metadata(const octet_model *model, const char *key) { return oct_graph_metadata(model->graph, key); }
octet_status octet_model_set_metadata(octet_model *model, const char *key, const char *text) {
  return oct_graph_set_metadata(model->ctx, model->graph, key, text);
}

octet_status oct_model_ready(const octet_model *model, const oct_graph **out) {
  octet_model *m = (octet_model *)(uintptr_t)model; /* a cache inside */
  if (!m->ready) {
    oct_graph *copy;
    OCT_TRY(oct_graph_copy(m->ctx, m->graph, &copy));
    octet_status status = oct_passes_run(m->ctx, copy, NULL);
    if (status != OCTET_OK) {
      oct_graph_destroy(copy);
      return status;
    }
    m->ready = copy;
  }
  *out = m->ready;
  return OCTET_OK;
}

#define MAX_DISABLED 32

typedef struct word_list {
  char *words[MAX_DISABLED + 1];
  size_t count;
} word_list;

static octet_status add_word(octet_context *ctx, void *user, const char *word) {
  word_list *list = user;
  if (list->count == MAX_DISABLED) return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "more than %d names", MAX_DISABLED);
  list->words[list->count] = oct_strdup(ctx, word);
  return list->words[list->count++] ? OCTET_OK : OCTET_OUT_OF_MEMORY;
}

octet_status octet_model_optimize(octet_model *model, const char *disabled) {
  word_list list = {{0}, 0};
  octet_status status = oct_each_word(model->ctx, disabled, add_word, &list);
  if (status == OCTET_OK) status = oct_passes_run(model->ctx, model->graph, (const char *const *)list.words);
  for (size_t i = 0; i < list.count; i++) oct_free(list.words[i]);
  oct_graph_destroy(model->ready);
  model->ready = NULL;
  return status;
}
