/* The parser of the text form, shared by its files: statements (text_parse.c), nodes (text_node.c), types, numbers and attributes
 * (text_values.c).
 * SPDX-License-Identifier: MIT */
#ifndef OCT_IR_TEXT_PARSER_H
#define OCT_IR_TEXT_PARSER_H

#include "ir/text.h"
#include "ir/text_lex.h"

typedef struct oct_parser {
  octet_context *ctx;
  oct_lexer lexer;
  oct_region region; /* token texts and work lists */
  oct_token token, next;
  oct_graph *graph;
  oct_weights_loader loader;
  void *user;
  const char *weights_file; /* NULL until the weights statement */
  oct_bundle weights;
} oct_parser;

/* A type as written: `f32[N,1,28,28]`, `f32[]`, or `f32` (shape not known). */
typedef struct oct_text_type {
  oct_dtype dtype;
  bool has_shape;
  oct_shape shape;
  const char *dim_names[OCT_MAX_RANK]; /* in the parser's region, or NULL */
} oct_text_type;

octet_status oct_parse_advance(oct_parser *p);
/* "line L, column C: expected WHAT, found TOKEN". */
octet_status oct_parse_expected(oct_parser *p, const char *what);
octet_status oct_parse_punctuation(oct_parser *p, char c);
octet_status oct_parse_name(oct_parser *p, const char *what, const char **out);

/* Puts the place before a recorded failure. */
octet_status oct_parse_at_line(oct_parser *p, const oct_token *at, octet_status status);
/* The value that the present token names, taken from the weights file if it is not defined above; moves past it. */
octet_status oct_parse_value(oct_parser *p, oct_value **out);
/* A name that no value has yet. */
octet_status oct_parse_new_name(oct_parser *p, const char **out);
/* `_` or `-`: no value here. */
static inline bool oct_token_is_absent(const oct_token *token) {
  return oct_token_is(token, '-') || (token->kind == OCT_TOKEN_NAME && strcmp(token->text, "_") == 0);
}
octet_status oct_parse_node(oct_parser *p);

octet_status oct_parse_type(oct_parser *p, oct_text_type *out);
/* Numbers, separated by commas, that fill a new tensor; a single one fills all of it. */
octet_status oct_parse_numbers(oct_parser *p, oct_dtype dtype, const oct_shape *shape, oct_tensor **out);
/* `@name`: the array of that name in the weights file (a new reference). */
octet_status oct_parse_array(oct_parser *p, oct_tensor **out);
/* `name=value` of a node, by the operator's attribute rows. */
octet_status oct_parse_attribute(oct_parser *p, oct_node *node);
/* dtype axis=K scale=... zero_point=... of a quant statement. */
octet_status oct_parse_quant(oct_parser *p, oct_value *value);

#endif
