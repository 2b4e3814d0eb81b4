/* Parsing the text form: statements. Nodes are in text_node.c, types, numbers and attributes in text_values.c.
 * Every value is defined before it is used; a name that is not defined is looked up in the weights file.
 * SPDX-License-Identifier: MIT */
#include "ir/text_parser.h"
#include "ir/verify.h"

octet_status oct_parse_advance(oct_parser *p) {
  p->token = p->next;
  return oct_lexer_next(&p->lexer, &p->next);
}

octet_status oct_parse_expected(oct_parser *p, const char *what) {
  char text[96];
  return oct_text_fail(p->ctx, &p->token, "expected %s, found %s", what, oct_token_describe(&p->token, text));
}

octet_status oct_parse_punctuation(oct_parser *p, char c) {
  char what[4] = {'\'', c, '\'', 0};
  if (!oct_token_is(&p->token, c)) return oct_parse_expected(p, what);
  return oct_parse_advance(p);
}

octet_status oct_parse_name(oct_parser *p, const char *what, const char **out) {
  *out = p->token.text;
  if (!oct_token_is_name(&p->token)) return oct_parse_expected(p, what);
  return oct_parse_advance(p);
}

octet_status oct_parse_at_line(oct_parser *p, const oct_token *at, octet_status status) {
  return status == OCTET_OK ? OCTET_OK : oct_fail_prefix(p->ctx, "line %d, column %d", at->line, at->column);
}

/* ---- Values -------------------------------------------------------------------------------------------------- */

static const char *value_candidate(const void *user, size_t index) {
  const oct_parser *p = user;
  if (index < p->graph->n_values) return p->graph->values[index]->name;
  index -= p->graph->n_values;
  return index < p->weights.count ? p->weights.items[index].name : NULL;
}

static octet_status undefined(oct_parser *p, const oct_token *at) {
  oct_strbuf hint = oct_strbuf_make(p->ctx);
  oct_text_hint(&hint, at->text, value_candidate, p);
  octet_status status =
      oct_text_fail(p->ctx, at, "\"%.200s\" is not defined above%s%s%s", at->text, p->weights_file ? ", nor does it stand in " : "",
                    p->weights_file ? p->weights_file : "", hint.text ? hint.text : "");
  oct_strbuf_free(&hint);
  return status;
}

static octet_status constant_from_weights(oct_parser *p, const oct_named_tensor *item, oct_value **out) {
  OCT_TRY(oct_graph_constant(p->ctx, p->graph, item->name, oct_tensor_retain(item->tensor), out));
  return item->quant ? oct_value_set_quant(p->ctx, p->graph, *out, item->quant) : OCTET_OK;
}

octet_status oct_parse_value(oct_parser *p, oct_value **out) {
  oct_token at = p->token;
  const char *name;
  OCT_TRY(oct_parse_name(p, "the name of a value", &name));
  if ((*out = oct_graph_find(p->graph, name))) return OCTET_OK;
  const oct_named_tensor *item = oct_bundle_find(&p->weights, name);
  if (!item) return undefined(p, &at);
  return constant_from_weights(p, item, out);
}

static octet_status check_new(oct_parser *p, const oct_token *at) {
  if (!*at->text) return oct_text_fail(p->ctx, at, "a value needs a name");
  if (oct_graph_find(p->graph, at->text)) return oct_text_fail(p->ctx, at, "\"%.200s\" is defined twice", at->text);
  return OCTET_OK;
}

octet_status oct_parse_new_name(oct_parser *p, const char **out) {
  oct_token at = p->token;
  OCT_TRY(oct_parse_name(p, "a name", out));
  return check_new(p, &at);
}

/* Adds what the type says to what is known of the value; contradictions are errors. */
static octet_status merge_type(oct_parser *p, const oct_token *at, oct_value *value, const oct_text_type *type) {
  char a[OCT_SHAPE_TEXT], b[OCT_SHAPE_TEXT];
  if (value->dtype == OCT_DTYPE_NONE) value->dtype = type->dtype;
  if (value->dtype != type->dtype)
    return oct_text_fail(p->ctx, at, "\"%s\" is %s, not %s", value->name, oct_dtype_name(value->dtype), oct_dtype_name(type->dtype));
  if (!type->has_shape) return OCTET_OK;
  bool fits = !value->has_shape || value->shape.rank == type->shape.rank;
  for (int d = 0; fits && value->has_shape && d < type->shape.rank; d++)
    fits = value->shape.dim[d] < 0 || type->shape.dim[d] < 0 || value->shape.dim[d] == type->shape.dim[d];
  if (!fits)
    return oct_text_fail(p->ctx, at, "\"%s\" has shape %s, not %s", value->name, oct_shape_text(&value->shape, a),
                         oct_shape_text(&type->shape, b));
  if (!value->has_shape) value->shape = type->shape;
  value->has_shape = true;
  for (int d = 0; d < type->shape.rank; d++) {
    if (value->shape.dim[d] < 0) value->shape.dim[d] = type->shape.dim[d];
    if (type->dim_names[d] && !(value->dim_names[d] = oct_region_strdup(p->ctx, &p->graph->region, type->dim_names[d])))
      return OCTET_OUT_OF_MEMORY;
  }
  return OCTET_OK;
}

/* ---- Statements ---------------------------------------------------------------------------------------------- */

static octet_status parse_graph(oct_parser *p) {
  const char *name;
  OCT_TRY(oct_parse_name(p, "the graph's name", &name));
  p->graph->name = oct_region_strdup(p->ctx, &p->graph->region, name);
  return p->graph->name ? OCTET_OK : OCTET_OUT_OF_MEMORY;
}

static octet_status parse_weights(oct_parser *p) {
  oct_token at = p->token;
  const char *file;
  OCT_TRY(oct_parse_name(p, "the name of a weights file", &file));
  if (p->weights_file) return oct_text_fail(p->ctx, &at, "a second weights statement");
  if (!p->loader) return oct_text_fail(p->ctx, &at, "the text names the weights file \"%s\", but none can be read here", file);
  p->weights_file = file;
  return oct_parse_at_line(p, &at, p->loader(p->ctx, p->user, file, &p->weights));
}

static octet_status parse_metadata(oct_parser *p) {
  const char *key, *text;
  oct_token at = p->token;
  OCT_TRY(oct_parse_name(p, "a key", &key));
  OCT_TRY(oct_parse_name(p, "a text in quotes", &text));
  if (oct_graph_metadata(p->graph, key)) return oct_text_fail(p->ctx, &at, "metadata \"%s\" is given twice", key);
  return oct_graph_set_metadata(p->ctx, p->graph, key, text);
}

static octet_status parse_input(oct_parser *p) {
  const char *name;
  oct_token at = p->token;
  oct_text_type type;
  oct_value *value;
  OCT_TRY(oct_parse_new_name(p, &name));
  OCT_TRY(oct_parse_type(p, &type));
  OCT_TRY(oct_graph_input(p->ctx, p->graph, name, type.dtype, NULL, &value));
  return merge_type(p, &at, value, &type);
}

static octet_status parse_output(oct_parser *p) {
  oct_value *value;
  oct_token at = p->token;
  oct_text_type type;
  OCT_TRY(oct_parse_value(p, &value));
  if (p->token.kind == OCT_TOKEN_NAME) {
    OCT_TRY(oct_parse_type(p, &type));
    OCT_TRY(merge_type(p, &at, value, &type));
  }
  return oct_graph_output(p->ctx, p->graph, value);
}

/* The tensor behind a const or variable statement: `= numbers`, `= @array`, or the array of the same name. */
static octet_status parse_content(oct_parser *p, const oct_token *at, const oct_text_type *type, oct_tensor **out) {
  if (!type->has_shape) return oct_parse_expected(p, "'[' and a shape (\"[]\" for a single number)");
  bool given = oct_token_is(&p->token, '=');
  const oct_named_tensor *item = given ? NULL : oct_bundle_find(&p->weights, at->text);
  if (!given && !item) return undefined(p, at);
  if (given) OCT_TRY(oct_parse_advance(p));
  if (given && !oct_token_is(&p->token, '@')) return oct_parse_numbers(p, type->dtype, &type->shape, out);
  if (given) OCT_TRY(oct_parse_array(p, out));
  else *out = oct_tensor_retain(item->tensor);
  if ((*out)->dtype == type->dtype && oct_shape_equal(&(*out)->shape, &type->shape)) return OCTET_OK;
  char a[OCT_SHAPE_TEXT], b[OCT_SHAPE_TEXT];
  octet_status status = oct_text_fail(p->ctx, at, "\"%s\" is %s%s in the weights file, not %s%s", at->text, oct_dtype_name((*out)->dtype),
                                      oct_shape_text(&(*out)->shape, a), oct_dtype_name(type->dtype), oct_shape_text(&type->shape, b));
  oct_tensor_release(*out);
  *out = NULL;
  return status;
}

static octet_status parse_const(oct_parser *p) {
  const char *name;
  oct_token at = p->token;
  oct_text_type type;
  oct_tensor *tensor = NULL;
  oct_value *value;
  OCT_TRY(oct_parse_new_name(p, &name));
  OCT_TRY(oct_parse_type(p, &type));
  bool by_name = !oct_token_is(&p->token, '=');
  OCT_TRY(parse_content(p, &at, &type, &tensor));
  OCT_TRY(oct_graph_constant(p->ctx, p->graph, name, tensor, &value));
  const oct_named_tensor *item = by_name ? oct_bundle_find(&p->weights, name) : NULL;
  return item && item->quant ? oct_value_set_quant(p->ctx, p->graph, value, item->quant) : OCTET_OK;
}

static octet_status parse_variable(oct_parser *p) {
  const char *name;
  oct_token at = p->token;
  oct_text_type type;
  oct_tensor *tensor = NULL;
  oct_value *value;
  OCT_TRY(oct_parse_new_name(p, &name));
  OCT_TRY(oct_parse_type(p, &type));
  if (oct_token_is(&p->token, '=') && p->next.kind == OCT_TOKEN_NAME && strcmp(p->next.text, "none") == 0) {
    OCT_TRY(oct_parse_advance(p));
    OCT_TRY(oct_parse_advance(p));
  } else {
    OCT_TRY(parse_content(p, &at, &type, &tensor));
  }
  octet_status status = oct_graph_value(p->ctx, p->graph, name, OCT_VARIABLE, type.dtype, type.has_shape ? &type.shape : NULL, &value);
  if (status == OCTET_OK) value->tensor = tensor;
  else oct_tensor_release(tensor);
  return status;
}

static octet_status parse_type_statement(oct_parser *p) {
  oct_value *value;
  oct_token at = p->token;
  oct_text_type type;
  OCT_TRY(oct_parse_value(p, &value));
  OCT_TRY(oct_parse_type(p, &type));
  return merge_type(p, &at, value, &type);
}

static octet_status parse_quant_statement(oct_parser *p) {
  oct_value *value;
  OCT_TRY(oct_parse_value(p, &value));
  return oct_parse_quant(p, value);
}

static octet_status parse_observed(oct_parser *p) {
  oct_value *value;
  OCT_TRY(oct_parse_value(p, &value));
  value->observed_only = true;
  return OCTET_OK;
}

static octet_status parse_reserved(oct_parser *p) {
  return oct_text_fail(p->ctx, &p->token, "nested graphs are reserved for a later version");
}

static const struct {
  const char *word;
  octet_status (*parse)(oct_parser *p);
} statements[] = {{"graph", parse_graph},       {"weights", parse_weights},     {"metadata", parse_metadata},
                  {"input", parse_input},       {"output", parse_output},       {"const", parse_const},
                  {"variable", parse_variable}, {"type", parse_type_statement}, {"quant", parse_quant_statement},
                  {"observed", parse_observed}, {"subgraph", parse_reserved},   {NULL, NULL}};

/* ---- The whole ----------------------------------------------------------------------------------------------- */

static const char *statement_candidate(const void *user, size_t index) {
  (void)user;
  return statements[index].word;
}

static octet_status unknown_statement(oct_parser *p) {
  oct_strbuf hint = oct_strbuf_make(p->ctx);
  oct_text_hint(&hint, p->token.text, statement_candidate, NULL);
  octet_status status = oct_text_fail(p->ctx, &p->token, "\"%.80s\" begins no statement; a node reads name = operator(inputs)%s",
                                      p->token.text, hint.text ? hint.text : "");
  oct_strbuf_free(&hint);
  return status;
}

static octet_status parse_statement(oct_parser *p) {
  bool node = oct_token_is(&p->next, '=') || oct_token_is(&p->next, ',') || oct_token_is_absent(&p->token);
  if (node) return oct_parse_node(p);
  if (p->token.kind != OCT_TOKEN_NAME) return oct_parse_expected(p, "a statement");
  for (size_t i = 0; statements[i].word; i++) {
    if (strcmp(statements[i].word, p->token.text) != 0) continue;
    OCT_TRY(oct_parse_advance(p));
    return statements[i].parse(p);
  }
  return unknown_statement(p);
}

static octet_status parse_header(oct_parser *p) {
  OCT_TRY(oct_parse_advance(p));
  OCT_TRY(oct_parse_advance(p));
  while (p->token.kind == OCT_TOKEN_NEWLINE) OCT_TRY(oct_parse_advance(p));
  if (p->token.kind != OCT_TOKEN_NAME || strcmp(p->token.text, "octet") != 0) return oct_parse_expected(p, "\"octet 1\" at the beginning");
  OCT_TRY(oct_parse_advance(p));
  int64_t version;
  if (!oct_token_int(&p->token, &version)) return oct_parse_expected(p, "the version of the text form (1)");
  if (version != 1)
    return oct_text_fail(p->ctx, &p->token, "version %lld of the text form is not known; this program reads version 1", (long long)version);
  return oct_parse_advance(p);
}

static octet_status parse_all(oct_parser *p) {
  OCT_TRY(parse_header(p));
  while (p->token.kind != OCT_TOKEN_END) {
    if (p->token.kind != OCT_TOKEN_NEWLINE) return oct_parse_expected(p, "the end of the line");
    OCT_TRY(oct_parse_advance(p));
    if (p->token.kind != OCT_TOKEN_NEWLINE && p->token.kind != OCT_TOKEN_END) OCT_TRY(parse_statement(p));
  }
  return oct_graph_verify(p->ctx, p->graph);
}

octet_status oct_text_parse(octet_context *ctx, const char *text, size_t length, oct_weights_loader loader, void *user, oct_graph **out) {
  oct_parser p = {.ctx = ctx, .loader = loader, .user = user};
  *out = NULL;
  OCT_TRY(oct_graph_create(ctx, "", &p.graph));
  oct_lexer_start(&p.lexer, ctx, &p.region, text, length);
  octet_status status = parse_all(&p);
  oct_bundle_free(&p.weights);
  oct_region_free(&p.region);
  if (status == OCTET_OK) *out = p.graph;
  else oct_graph_destroy(p.graph);
  return status;
}
