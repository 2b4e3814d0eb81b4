/* Nodes of the text form: results = operator(inputs) attributes.
 * SPDX-License-Identifier: MIT */
#include "ir/text_parser.h"
#include "ir/verify.h"

#define MAX_LIST 65536 /* inputs or outputs of a node */
#define MAX_UNKNOWN 32 /* unknown operators that are listed */

static const char *operator_candidate(const void *user, size_t index) {
  (void)user;
  return oct_op_registry[index] ? oct_op_registry[index]->name : NULL;
}

typedef struct unknown_list {
  const char *name[MAX_UNKNOWN];
  int times[MAX_UNKNOWN], count;
} unknown_list;

static void count_unknown(unknown_list *list, const char *name) {
  int i = 0;
  if (oct_op_find(name)) return;
  while (i < list->count && strcmp(list->name[i], name) != 0) i++;
  if (i == MAX_UNKNOWN) return;
  if (i == list->count) {
    list->name[list->count++] = name;
    list->times[i] = 0;
  }
  list->times[i]++;
}

/* Names all unknown operators of the text at once, from the present node on. */
static octet_status unknown_operator(oct_parser *p) {
  oct_token at = p->token, last = at, token = p->next;
  unknown_list list = {.count = 0};
  octet_status status = OCTET_OK;
  for (; status == OCTET_OK && token.kind != OCT_TOKEN_END; status = oct_lexer_next(&p->lexer, &token)) {
    if (last.kind == OCT_TOKEN_NAME && oct_token_is(&token, '(')) count_unknown(&list, last.text);
    last = token;
  }
  oct_strbuf text = oct_strbuf_make(p->ctx);
  oct_text_hint(&text, at.text, operator_candidate, NULL);
  for (int i = 0; i < list.count && (list.count > 1 || list.times[0] > 1); i++)
    oct_strbuf_printf(&text, "%s\"%.80s\" (%d time%s)", i ? ", " : "; unknown in all: ", list.name[i], list.times[i],
                      list.times[i] > 1 ? "s" : "");
  status = oct_text_fail(p->ctx, &at, "unknown operator \"%.80s\"%s", at.text, text.text ? text.text : "");
  oct_strbuf_free(&text);
  return status;
}

typedef struct value_list {
  oct_value **values;
  size_t count, capacity;
} value_list;

static octet_status push_value(oct_parser *p, value_list *list, oct_value *value) {
  if (list->count == MAX_LIST) return oct_text_fail(p->ctx, &p->token, "a node has at most %d inputs and outputs", MAX_LIST);
  OCT_TRY(oct_grow(p->ctx, &list->values, &list->capacity, list->count + 1, sizeof *list->values));
  list->values[list->count++] = value;
  return OCTET_OK;
}

static octet_status parse_results(oct_parser *p, value_list *list) {
  for (;;) {
    oct_value *value = NULL;
    if (oct_token_is_absent(&p->token)) {
      OCT_TRY(oct_parse_advance(p));
    } else {
      const char *name;
      OCT_TRY(oct_parse_new_name(p, &name));
      OCT_TRY(oct_graph_value(p->ctx, p->graph, name, OCT_INTERMEDIATE, OCT_DTYPE_NONE, NULL, &value));
    }
    OCT_TRY(push_value(p, list, value));
    if (!oct_token_is(&p->token, ',')) return oct_parse_punctuation(p, '=');
    OCT_TRY(oct_parse_advance(p));
  }
}

static octet_status parse_operands(oct_parser *p, value_list *list) {
  OCT_TRY(oct_parse_punctuation(p, '('));
  while (!oct_token_is(&p->token, ')')) {
    oct_value *value = NULL;
    oct_token at = p->token;
    if (oct_token_is_absent(&p->token)) OCT_TRY(oct_parse_advance(p));
    else OCT_TRY(oct_parse_value(p, &value));
    if (value && value->kind == OCT_INTERMEDIATE && !value->producer)
      return oct_text_fail(p->ctx, &at, "\"%s\" depends on itself", value->name);
    OCT_TRY(push_value(p, list, value));
    if (!oct_token_is(&p->token, ',')) break;
    OCT_TRY(oct_parse_advance(p));
  }
  return oct_parse_punctuation(p, ')');
}

static octet_status parse_node_name(oct_parser *p, oct_node *node) {
  const char *name;
  OCT_TRY(oct_parse_advance(p));
  OCT_TRY(oct_parse_name(p, "the node's name", &name));
  return oct_node_rename(p->ctx, p->graph, node, name);
}

static octet_status parse_attributes(oct_parser *p, oct_node *node) {
  while (p->token.kind == OCT_TOKEN_NAME) {
    if (oct_token_is(&p->next, '=')) OCT_TRY(oct_parse_attribute(p, node));
    else if (strcmp(p->token.text, "as") == 0) OCT_TRY(parse_node_name(p, node));
    else return oct_parse_expected(p, "attribute=value, \"as\" and a node name, or the end of the line");
  }
  return OCTET_OK;
}

static const char *default_name(const value_list *results) {
  for (size_t i = 0; i < results->count; i++)
    if (results->values[i]) return results->values[i]->name;
  return NULL;
}

static octet_status parse_node_parts(oct_parser *p, value_list *results, value_list *operands) {
  oct_node *node;
  OCT_TRY(parse_results(p, results));
  oct_token at = p->token;
  if (p->token.kind != OCT_TOKEN_NAME) return oct_parse_expected(p, "the name of an operator");
  const oct_op *op = oct_op_find(p->token.text);
  if (!op) return unknown_operator(p);
  OCT_TRY(oct_parse_advance(p));
  OCT_TRY(parse_operands(p, operands));
  OCT_TRY(oct_graph_node_into(p->ctx, p->graph, op, default_name(results), operands->values, (int)operands->count, results->values,
                              (int)results->count, &node));
  OCT_TRY(parse_attributes(p, node));
  OCT_TRY(oct_parse_at_line(p, &at, oct_node_verify(p->ctx, node)));
  return oct_parse_at_line(p, &at, oct_node_infer(p->ctx, node));
}

octet_status oct_parse_node(oct_parser *p) {
  value_list results = {0}, operands = {0};
  octet_status status = parse_node_parts(p, &results, &operands);
  oct_free(results.values);
  oct_free(operands.values);
  return status;
}
