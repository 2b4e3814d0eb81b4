/* Printing the text form. What parsing would find by itself is left out: constants that stand in the weights file, node names equal to
 * their first output's, and types that shape inference gives.
 * SPDX-License-Identifier: MIT */
#include "ir/text.h"
#include "ir/text_lex.h"

typedef struct printer {
  octet_context *ctx;
  oct_graph *graph;          /* a copy: sorted, with ids */
  const oct_graph *inferred; /* the same with what inference alone gives, or NULL */
  oct_strbuf *out;
  oct_bundle *arrays;
  unsigned counter;
} printer;

static void put(printer *p, const char *text) { oct_strbuf_puts(p->out, text); }
static void put_name(printer *p, const char *name) { oct_text_put_name(p->out, name, false); }

static void put_type(printer *p, oct_dtype dtype, bool has_shape, const oct_shape *shape, const char *const *dim_names) {
  put(p, oct_dtype_name(dtype));
  if (!has_shape) return;
  put(p, "[");
  for (int d = 0; d < shape->rank; d++) {
    if (d) put(p, ",");
    if (shape->dim[d] >= 0) oct_strbuf_printf(p->out, "%lld", (long long)shape->dim[d]);
    else if (dim_names && dim_names[d] && *dim_names[d]) put_name(p, dim_names[d]);
    else put(p, "?");
  }
  put(p, "]");
}

static void put_value_type(printer *p, const oct_value *v) { put_type(p, v->dtype, v->has_shape, &v->shape, v->dim_names); }

/* ---- Numbers and arrays -------------------------------------------------------------------------------------- */

static void put_number(printer *p, const oct_tensor *t, int64_t i) {
  if (t->dtype == OCT_F64) oct_strbuf_double(p->out, ((const double *)t->data)[i]);
  else if (oct_dtype_is_float(t->dtype)) oct_strbuf_float(p->out, (float)oct_get_f64(t->data, t->dtype, i));
  else if (t->dtype == OCT_U64) oct_strbuf_printf(p->out, "%llu", (unsigned long long)((const uint64_t *)t->data)[i]);
  else oct_strbuf_printf(p->out, "%lld", (long long)oct_get_i64(t->data, t->dtype, i));
}

static void put_numbers(printer *p, const oct_tensor *t) {
  int64_t count = oct_shape_count(&t->shape);
  for (int64_t i = 0; i < count; i++) {
    if (i) put(p, ",");
    put_number(p, t, i);
  }
}

static bool is_short(const oct_tensor *t) { return oct_shape_count(&t->shape) <= OCT_TEXT_INLINE_MAX; }

/* Puts the tensor among the arrays under `base` + `suffix`, or a name like it that is free, and prints `@name`. */
static octet_status put_array(printer *p, const char *base, const char *suffix, const oct_tensor *t) {
  oct_strbuf name = oct_strbuf_make(p->ctx);
  oct_strbuf_printf(&name, "%s%s", base, suffix);
  while (!name.failed && (oct_graph_find(p->graph, name.text) || oct_bundle_find(p->arrays, name.text))) {
    oct_strbuf_free(&name);
    oct_strbuf_printf(&name, "%s%s_%u", base, suffix, ++p->counter);
  }
  octet_status status = name.failed ? OCTET_OUT_OF_MEMORY : OCTET_OK;
  if (status == OCTET_OK) {
    put(p, "@");
    put_name(p, name.text);
    status = oct_bundle_add(p->ctx, p->arrays, name.text, oct_tensor_retain((oct_tensor *)(uintptr_t)t), NULL);
  }
  oct_strbuf_free(&name);
  return status;
}

/* A list of scales or zero points over the inline limit, as an array. */
static octet_status put_list_array(printer *p, const oct_value *v, const char *suffix, oct_dtype dtype, const void *items) {
  oct_shape shape = {.rank = 1, .dim = {v->quant->count}};
  oct_tensor *tensor;
  OCT_TRY(oct_tensor_create(p->ctx, dtype, &shape, &tensor));
  memcpy(tensor->data, items, tensor->bytes);
  octet_status status = put_array(p, v->name, suffix, tensor);
  oct_tensor_release(tensor);
  return status;
}

/* ---- Quantization parameters, types, flags of a value ------------------------------------------------------------ */

static octet_status put_quant(printer *p, const oct_value *v) {
  const oct_quant *q = v->quant;
  bool equal_zeros = true, is_long = q->count > OCT_TEXT_INLINE_MAX;
  for (int64_t i = 1; i < q->count; i++) equal_zeros &= q->zero_point[i] == q->zero_point[0];
  put(p, "quant ");
  put_name(p, v->name);
  oct_strbuf_printf(p->out, " %s", oct_dtype_name(q->dtype));
  if (q->axis >= 0) oct_strbuf_printf(p->out, " axis=%d", q->axis);
  put(p, " scale=");
  if (is_long) OCT_TRY(put_list_array(p, v, ":scale", OCT_F32, q->scale));
  for (int64_t i = 0; !is_long && i < q->count; i++) {
    if (i) put(p, ",");
    oct_strbuf_float(p->out, q->scale[i]);
  }
  if (!equal_zeros || q->zero_point[0] != 0) put(p, " zero_point=");
  if (equal_zeros) {
    if (q->zero_point[0] != 0) oct_strbuf_printf(p->out, "%d", q->zero_point[0]);
  } else if (is_long) {
    OCT_TRY(put_list_array(p, v, ":zero_point", OCT_I32, q->zero_point));
  } else {
    for (int64_t i = 0; i < q->count; i++) oct_strbuf_printf(p->out, i ? ",%d" : "%d", q->zero_point[i]);
  }
  put(p, "\n");
  return OCTET_OK;
}

static octet_status put_notes(printer *p, const oct_value *v) {
  if (v->quant) OCT_TRY(put_quant(p, v));
  if (v->observed_only) {
    put(p, "observed ");
    put_name(p, v->name);
    put(p, "\n");
  }
  return OCTET_OK;
}

static bool same_type(const oct_value *a, const oct_value *b) {
  return a->dtype == b->dtype && a->has_shape == b->has_shape && (!a->has_shape || oct_shape_equal(&a->shape, &b->shape));
}

/* The type of a node's output, where inference does not give it. */
static void put_result_type(printer *p, const oct_value *v) {
  const oct_value *alone = p->inferred ? oct_graph_find(p->inferred, v->name) : NULL;
  if (v->dtype == OCT_DTYPE_NONE || (alone && same_type(v, alone))) return;
  put(p, "type ");
  put_name(p, v->name);
  put(p, " ");
  put_type(p, v->dtype, v->has_shape, &v->shape, NULL);
  put(p, "\n");
}

/* ---- Values that are no results ---------------------------------------------------------------------------------- */

static octet_status put_input(printer *p, const oct_value *v) {
  put(p, "input ");
  put_name(p, v->name);
  put(p, " ");
  put_value_type(p, v);
  put(p, "\n");
  return put_notes(p, v);
}

static octet_status put_constant(printer *p, const oct_value *v) {
  bool in_text = is_short(v->tensor);
  if (!in_text) OCT_TRY(oct_bundle_add(p->ctx, p->arrays, v->name, oct_tensor_retain(v->tensor), NULL));
  if (in_text) {
    put(p, "const ");
    put_name(p, v->name);
    put(p, " ");
    put_type(p, v->tensor->dtype, true, &v->tensor->shape, NULL);
    put(p, " =");
    if (oct_shape_count(&v->tensor->shape)) put(p, " ");
    put_numbers(p, v->tensor);
    put(p, "\n");
  }
  return put_notes(p, v);
}

static octet_status put_variable(printer *p, const oct_value *v) {
  put(p, "variable ");
  put_name(p, v->name);
  put(p, " ");
  if (v->tensor) put_type(p, v->tensor->dtype, true, &v->tensor->shape, NULL);
  else put_value_type(p, v);
  if (!v->tensor) put(p, " = none");
  else if (is_short(v->tensor)) {
    put(p, " = ");
    put_numbers(p, v->tensor);
  } else {
    OCT_TRY(oct_bundle_add(p->ctx, p->arrays, v->name, oct_tensor_retain(v->tensor), NULL));
  }
  put(p, "\n");
  return put_notes(p, v);
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------- */

static void put_values(printer *p, oct_value *const *values, int count) {
  for (int i = 0; i < count; i++) {
    if (i) put(p, ", ");
    if (values[i]) put_name(p, values[i]->name);
    else put(p, "_");
  }
}

static octet_status put_tensor(printer *p, const oct_node *node, const oct_attribute *a) {
  if (!is_short(a->tensor)) {
    oct_strbuf base = oct_strbuf_make(p->ctx);
    oct_strbuf_printf(&base, "%s:%s", node->name, a->name);
    octet_status status = base.failed ? OCTET_OUT_OF_MEMORY : put_array(p, base.text, "", a->tensor);
    oct_strbuf_free(&base);
    return status;
  }
  put_type(p, a->tensor->dtype, true, &a->tensor->shape, NULL);
  put(p, "{");
  put_numbers(p, a->tensor);
  put(p, "}");
  return OCTET_OK;
}

static void put_element(printer *p, const oct_attribute *a, size_t i) {
  if (a->type == OCT_ATTRIBUTE_INTS) oct_strbuf_printf(p->out, "%lld", (long long)a->ints[i]);
  else if (a->type == OCT_ATTRIBUTE_FLOATS) oct_strbuf_float(p->out, a->floats[i]);
  else put_name(p, a->strings[i]);
}

static octet_status put_attribute(printer *p, const oct_node *node, const oct_attribute *a) {
  oct_strbuf_printf(p->out, " %s=", a->name);
  switch (a->type) {
    case OCT_ATTRIBUTE_INT: oct_strbuf_printf(p->out, "%lld", (long long)a->i); break;
    case OCT_ATTRIBUTE_FLOAT: oct_strbuf_float(p->out, a->f); break;
    case OCT_ATTRIBUTE_STRING: put_name(p, a->s); break;
    case OCT_ATTRIBUTE_TENSOR: return put_tensor(p, node, a);
    default:
      if (a->count == 0) put(p, "[]");
      for (size_t i = 0; i < a->count; i++) {
        if (i) put(p, ",");
        put_element(p, a, i);
      }
  }
  return OCTET_OK;
}

static const char *default_name(const oct_node *node) {
  for (int i = 0; i < node->n_outputs; i++)
    if (node->outputs[i]) return node->outputs[i]->name;
  return node->op->name;
}

static octet_status put_node(printer *p, const oct_node *node) {
  put_values(p, node->outputs, node->n_outputs);
  oct_strbuf_printf(p->out, " = %s(", node->op->name);
  put_values(p, node->inputs, node->n_inputs);
  put(p, ")");
  for (int i = 0; i < node->n_attributes; i++) OCT_TRY(put_attribute(p, node, &node->attributes[i]));
  if (strcmp(node->name, default_name(node)) != 0) {
    put(p, " as ");
    put_name(p, node->name);
  }
  put(p, "\n");
  for (int i = 0; i < node->n_outputs; i++) {
    if (!node->outputs[i]) continue;
    put_result_type(p, node->outputs[i]);
    OCT_TRY(put_notes(p, node->outputs[i]));
  }
  return OCTET_OK;
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

static void put_output(printer *p, const oct_value *v) {
  bool named = false;
  for (int d = 0; v->kind != OCT_INPUT && v->has_shape && d < v->shape.rank; d++) named |= v->shape.dim[d] < 0 && v->dim_names[d];
  put(p, "output ");
  put_name(p, v->name);
  if (named && v->dtype != OCT_DTYPE_NONE) {
    put(p, " ");
    put_value_type(p, v);
  }
  put(p, "\n");
}

static octet_status put_body(printer *p) {
  const oct_graph *g = p->graph;
  for (size_t i = 0; i < g->n_inputs; i++) OCT_TRY(put_input(p, g->inputs[i]));
  for (size_t i = 0; i < g->n_values; i++)
    if (g->values[i]->kind == OCT_CONSTANT) OCT_TRY(put_constant(p, g->values[i]));
  for (size_t i = 0; i < g->n_values; i++)
    if (g->values[i]->kind == OCT_VARIABLE) OCT_TRY(put_variable(p, g->values[i]));
  if (g->n_nodes) put(p, "\n");
  for (size_t i = 0; i < g->n_nodes; i++) OCT_TRY(put_node(p, g->nodes[i]));
  if (g->n_outputs) put(p, "\n");
  for (size_t i = 0; i < g->n_outputs; i++) put_output(p, g->outputs[i]);
  return OCTET_OK;
}

static void put_header(oct_strbuf *out, const oct_graph *graph, const char *weights_file, bool has_arrays) {
  oct_strbuf_puts(out, "octet 1\n");
  if (*graph->name) {
    oct_strbuf_puts(out, "graph ");
    oct_text_put_name(out, graph->name, false);
    oct_strbuf_puts(out, "\n");
  }
  for (size_t i = 0; i < graph->n_metadata; i++) {
    oct_strbuf_puts(out, "metadata ");
    oct_text_put_name(out, graph->metadata[i].key, false);
    oct_strbuf_puts(out, " ");
    oct_text_put_name(out, graph->metadata[i].text, true);
    oct_strbuf_puts(out, "\n");
  }
  if (has_arrays) {
    oct_strbuf_puts(out, "weights ");
    oct_text_put_name(out, weights_file, true);
    oct_strbuf_puts(out, "\n");
  }
}

/* A copy in which only inference says what the nodes' outputs are; NULL in *out when inference fails. */
static octet_status infer_alone(octet_context *ctx, const oct_graph *graph, oct_graph **out) {
  OCT_TRY(oct_graph_copy(ctx, graph, out));
  for (size_t i = 0; i < (*out)->n_values; i++) {
    oct_value *v = (*out)->values[i];
    if (v->kind != OCT_INTERMEDIATE) continue;
    v->dtype = OCT_DTYPE_NONE;
    v->has_shape = false;
    v->shape = (oct_shape){0};
  }
  octet_status status = oct_graph_infer(ctx, *out);
  if (status == OCTET_OK) return OCTET_OK;
  oct_graph_destroy(*out);
  *out = NULL;
  return status == OCTET_OUT_OF_MEMORY ? status : OCTET_OK;
}

octet_status oct_text_print(octet_context *ctx, const oct_graph *graph, const char *weights_file, oct_strbuf *out, oct_bundle *arrays) {
  oct_graph *copy = NULL, *inferred = NULL;
  oct_strbuf body = oct_strbuf_make(ctx);
  OCT_TRY(oct_graph_copy(ctx, graph, &copy));
  octet_status status = oct_graph_compact(ctx, copy);
  if (status == OCTET_OK) status = infer_alone(ctx, copy, &inferred);
  printer p = {.ctx = ctx, .graph = copy, .inferred = inferred, .out = &body, .arrays = arrays};
  if (status == OCTET_OK) status = put_body(&p);
  if (status == OCTET_OK && arrays->count && !weights_file)
    status = oct_fail(ctx, OCTET_INVALID_ARGUMENT, "lists over %d elements need a weights file beside the text", OCT_TEXT_INLINE_MAX);
  if (status == OCTET_OK) {
    put_header(out, copy, weights_file, arrays->count > 0);
    oct_strbuf_append(out, body.text ? body.text : "", body.length);
    if (out->failed || body.failed) status = OCTET_OUT_OF_MEMORY;
  }
  oct_strbuf_free(&body);
  oct_graph_destroy(inferred);
  oct_graph_destroy(copy);
  return status;
}
