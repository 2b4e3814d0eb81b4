/* Tokens of the text form, and what parser and printer must agree on: which names stand without quotes. Grammar in docs/text-form.md.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_IR_TEXT_LEX_H
#define OCT_IR_TEXT_LEX_H

#include "base/strbuf.h"
#include "ir/op.h"

#define OCT_TEXT_INLINE_MAX 16  /* longer lists live in the weights file */
#define OCT_TEXT_NAME_MAX 65536 /* bytes of a name or string */
#define OCT_TEXT_NUMBER_MAX 120 /* characters of a number */

typedef enum oct_token_kind {
  OCT_TOKEN_END,
  OCT_TOKEN_NEWLINE,
  OCT_TOKEN_NAME,   /* bare: letters, digits, _ . / : - */
  OCT_TOKEN_STRING, /* quoted; `text` is without quotes and escapes */
  OCT_TOKEN_NUMBER,
  OCT_TOKEN_PUNCTUATION
} oct_token_kind;

typedef struct oct_token {
  oct_token_kind kind;
  const char *text; /* of names, strings and numbers; zero-terminated */
  char punctuation;
  int line, column; /* from 1; columns count bytes */
} oct_token;

typedef struct oct_lexer {
  octet_context *ctx;
  oct_region *region; /* where token texts live */
  const char *at, *end, *line_start;
  int line, depth; /* open brackets: newlines inside are white space */
  bool after_comma;
} oct_lexer;

void oct_lexer_start(oct_lexer *lexer, octet_context *ctx, oct_region *region, const char *text, size_t length);
octet_status oct_lexer_next(oct_lexer *lexer, oct_token *out);

/* OCTET_FORMAT "line L, column C: ...". */
octet_status oct_text_fail(octet_context *ctx, const oct_token *at, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The token as it is quoted in a message, into `text` (at least 96 bytes). */
const char *oct_token_describe(const oct_token *token, char text[96]);

static inline bool oct_token_is(const oct_token *token, char punctuation) {
  return token->kind == OCT_TOKEN_PUNCTUATION && token->punctuation == punctuation;
}
static inline bool oct_token_is_name(const oct_token *token) { return token->kind == OCT_TOKEN_NAME || token->kind == OCT_TOKEN_STRING; }

/* Numbers, whatever the host program's locale; false when the token is none or out of the type's range. Names `inf`, `nan`, `true`,
 * `false` count. */
bool oct_token_float(const oct_token *token, float *out);
bool oct_token_double(const oct_token *token, double *out);
bool oct_token_int(const oct_token *token, int64_t *out);
bool oct_token_u64(const oct_token *token, uint64_t *out);

bool oct_text_is_bare(const char *name);
/* Appends a name, quoted if need be; with `always` quoted in any case. */
void oct_text_put_name(oct_strbuf *out, const char *name, bool always);

/* Near misses of an unknown name for messages: appends "; did you mean a or b?" for what is close enough. `next` walks the candidates,
 * NULL ends. */
typedef const char *(*oct_candidate_fn)(const void *user, size_t index);
void oct_text_hint(oct_strbuf *out, const char *name, oct_candidate_fn next, const void *user);

#endif
