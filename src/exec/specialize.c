/* A copy of the graph for given input shapes and bound inputs, with every shape known and constants folded.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "exec/session.h"
#include "ops/fold.h"

#define MOST_ELEMENTS ((int64_t)1 << 46)

oct_profile oct_graph_profile(const oct_graph *graph) {
  const char *name = oct_graph_metadata(graph, "profile");
  return name && strcmp(name, "tflite") == 0 ? OCT_PROFILE_TFLITE : OCT_PROFILE_ONNX;
}

static octet_status shape_does_not_fit(octet_context *ctx, const oct_value *input, const oct_shape *given) {
  char want[OCT_SHAPE_TEXT], got[OCT_SHAPE_TEXT];
  return oct_fail(ctx, OCTET_SHAPE, "input \"%s\" takes shape %s, got %s", input->name, oct_shape_text(&input->shape, want),
                  oct_shape_text(given, got));
}

/* Known dims must agree, but for the first one (the batch) which may be changed. */
static octet_status set_shape(octet_context *ctx, oct_value *input, const oct_shape *given) {
  if (!oct_shape_known(given)) return oct_fail(ctx, OCTET_SHAPE, "input \"%s\": the given shape has unknown dims", input->name);
  if (input->has_shape && input->shape.rank != given->rank) return shape_does_not_fit(ctx, input, given);
  for (int d = 1; input->has_shape && d < given->rank; d++)
    if (input->shape.dim[d] != OCT_DIM_UNKNOWN && input->shape.dim[d] != given->dim[d]) return shape_does_not_fit(ctx, input, given);
  input->shape = *given;
  input->has_shape = true;
  return OCTET_OK;
}

/* The size another input already gave to a symbolic dim, or OCT_DIM_UNKNOWN. */
static int64_t size_of_symbol(const oct_graph *declared, const oct_graph *graph, const char *symbol) {
  for (size_t i = 0; i < graph->n_inputs; i++) {
    const oct_value *d = oct_graph_find(declared, graph->inputs[i]->name), *v = graph->inputs[i];
    for (int k = 0; d && v->has_shape && k < v->shape.rank; k++)
      if (d->dim_names[k] && strcmp(d->dim_names[k], symbol) == 0 && v->shape.dim[k] != OCT_DIM_UNKNOWN) return v->shape.dim[k];
  }
  return OCT_DIM_UNKNOWN;
}

static octet_status fill_unknown_dims(octet_context *ctx, const oct_graph *declared, oct_graph *graph, int64_t batch) {
  for (size_t i = 0; i < graph->n_inputs; i++) {
    oct_value *v = graph->inputs[i];
    if (!v->has_shape) return oct_fail(ctx, OCTET_SHAPE, "input \"%s\" declares no rank: give its shape", v->name);
    for (int k = 0; k < v->shape.rank; k++) {
      if (v->shape.dim[k] != OCT_DIM_UNKNOWN) continue;
      int64_t size = v->dim_names[k] ? size_of_symbol(declared, graph, v->dim_names[k]) : OCT_DIM_UNKNOWN;
      v->shape.dim[k] = size != OCT_DIM_UNKNOWN ? size : k == 0 && batch > 0 ? batch : 1;
    }
  }
  return OCTET_OK;
}

static octet_status bind_inputs(octet_context *ctx, oct_graph *graph, const oct_session_options *o) {
  for (size_t b = 0; b < o->n_bound; b++) {
    oct_value *v = oct_graph_find(graph, o->bound[b].name);
    if (!v || v->kind != OCT_INPUT) return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "there is no input \"%s\" to bind", o->bound[b].name);
    oct_tensor *tensor = o->bound[b].tensor;
    if (tensor->dtype != v->dtype)
      return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "input \"%s\" is %s, the bound tensor is %s", v->name, oct_dtype_name(v->dtype),
                      oct_dtype_name(tensor->dtype));
    OCT_TRY(set_shape(ctx, v, &tensor->shape));
    v->kind = OCT_CONSTANT;
    oct_value_set_tensor(v, oct_tensor_retain(tensor));
    size_t kept = 0;
    for (size_t i = 0; i < graph->n_inputs; i++)
      if (graph->inputs[i] != v) graph->inputs[kept++] = graph->inputs[i];
    graph->n_inputs = kept;
  }
  return OCTET_OK;
}

/* What would not fit in any memory is refused before anything counts with it: also where a 0 among huge dims leaves no elements. */
static octet_status check_size(octet_context *ctx, const oct_value *v) {
  int64_t elements = 1;
  char text[OCT_SHAPE_TEXT];
  for (int d = 0; d < v->shape.rank; d++)
    if (v->shape.dim[d] > 0 && (__builtin_mul_overflow(elements, v->shape.dim[d], &elements) || elements > MOST_ELEMENTS))
      return oct_fail(ctx, OCTET_SHAPE, "value \"%s\" is too large for any memory: %s; a smaller batch or shape is needed", v->name,
                      oct_shape_text(&v->shape, text));
  return OCTET_OK;
}

static octet_status check_shapes_known(octet_context *ctx, const oct_graph *graph) {
  for (size_t i = 0; i < graph->n_inputs; i++) OCT_TRY(check_size(ctx, graph->inputs[i]));
  for (size_t i = 0; i < graph->n_nodes; i++) {
    const oct_node *node = graph->nodes[i];
    for (int k = 0; k < node->n_outputs; k++) {
      const oct_value *v = node->outputs[k];
      if (v && (!v->has_shape || !oct_shape_known(&v->shape)))
        return oct_fail(ctx, OCTET_UNSUPPORTED,
                        "node \"%s\" (%s): the shape of \"%s\" depends on data; bind the input it comes from when the session is made",
                        node->name, node->op->name, v->name);
      if (v) OCT_TRY(check_size(ctx, v));
    }
  }
  return OCTET_OK;
}

static octet_status specialize(octet_context *ctx, const oct_graph *declared, oct_graph *graph, const oct_session_options *o) {
  OCT_TRY(oct_graph_prune(ctx, graph));
  OCT_TRY(bind_inputs(ctx, graph, o));
  for (size_t i = 0; i < o->n_shapes; i++) {
    oct_value *v = oct_graph_find(graph, o->shapes[i].name);
    if (!v || v->kind != OCT_INPUT) return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "there is no input \"%s\"", o->shapes[i].name);
    OCT_TRY(set_shape(ctx, v, &o->shapes[i].shape));
  }
  if (o->batch > 0 && o->n_shapes == 0) /* an explicit batch also replaces a declared one */
    for (size_t i = 0; i < graph->n_inputs; i++)
      if (graph->inputs[i]->has_shape && graph->inputs[i]->shape.rank > 0) graph->inputs[i]->shape.dim[0] = o->batch;
  OCT_TRY(fill_unknown_dims(ctx, declared, graph, o->batch));
  for (size_t i = 0; i < graph->n_values; i++)
    if (graph->values[i]->kind == OCT_INTERMEDIATE) graph->values[i]->has_shape = false;
  OCT_TRY(oct_fold_constants(ctx, graph));
  return check_shapes_known(ctx, graph);
}

octet_status oct_graph_specialize(octet_context *ctx, const oct_graph *graph, const oct_session_options *options, oct_graph **out) {
  OCT_TRY(oct_graph_copy(ctx, graph, out));
  octet_status status = specialize(ctx, graph, *out, options);
  if (status == OCTET_OK) return OCTET_OK;
  oct_graph_destroy(*out);
  *out = NULL;
  return status;
}
