/* Tokens of the text form. Bytes outside the text are never touched; every token is bounded.
 * SPDX-License-Identifier: MIT */
#include "ir/text_lex.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool starts_name(char c) { return is_letter(c) || c == '_' || c == '/'; }
static bool continues_name(char c) { return starts_name(c) || is_digit(c) || c == '.' || c == ':' || c == '-'; }

bool oct_text_is_bare(const char *name) {
  if (!starts_name(name[0]) || strcmp(name, "_") == 0) return false;
  for (const char *p = name; *p; p++)
    if (!continues_name(*p)) return false;
  return true;
}

void oct_text_put_name(oct_strbuf *out, const char *name, bool always) {
  if (!always && oct_text_is_bare(name)) {
    oct_strbuf_puts(out, name);
    return;
  }
  oct_strbuf_puts(out, "\"");
  for (const char *p = name; *p; p++) {
    if (*p == '"' || *p == '\\') oct_strbuf_printf(out, "\\%c", *p);
    else if (*p == '\n') oct_strbuf_puts(out, "\\n");
    else if (*p == '\t') oct_strbuf_puts(out, "\\t");
    else if ((unsigned char)*p < 0x20 || *p == 0x7f) oct_strbuf_printf(out, "\\x%02x", (unsigned char)*p);
    else oct_strbuf_append(out, p, 1);
  }
  oct_strbuf_puts(out, "\"");
}

octet_status oct_text_fail(octet_context *ctx, const oct_token *at, const char *format, ...) {
  char text[1536];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return oct_fail(ctx, OCTET_FORMAT, "line %d, column %d: %s", at->line, at->column, text);
}

const char *oct_token_describe(const oct_token *token, char text[96]) {
  switch (token->kind) {
    case OCT_TOKEN_END: return "the end of the text";
    case OCT_TOKEN_NEWLINE: return "the end of the line";
    case OCT_TOKEN_PUNCTUATION: snprintf(text, 96, "'%c'", token->punctuation); break;
    default: snprintf(text, 96, "\"%.80s\"", token->text);
  }
  return text;
}

void oct_lexer_start(oct_lexer *lexer, octet_context *ctx, oct_region *region, const char *text, size_t length) {
  bool mark = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0; /* byte order mark */
  *lexer = (oct_lexer){.ctx = ctx, .region = region, .at = text + (mark ? 3 : 0), .end = text + length, .line = 1};
  lexer->line_start = lexer->at;
}

static oct_token token_here(const oct_lexer *lexer, oct_token_kind kind) {
  ptrdiff_t column = lexer->at - lexer->line_start + 1;
  return (oct_token){.kind = kind, .line = lexer->line, .column = column > INT32_MAX ? INT32_MAX : (int)column};
}

static void next_line(oct_lexer *lexer) {
  lexer->at++;
  if (lexer->line < INT32_MAX) lexer->line++;
  lexer->line_start = lexer->at;
}

/* Spaces, comments, and newlines where they do not end a statement. */
static void skip_space(oct_lexer *lexer) {
  while (lexer->at < lexer->end) {
    char c = *lexer->at;
    if (c == ' ' || c == '\t' || c == '\r') lexer->at++;
    else if (c == '\n' && (lexer->depth > 0 || lexer->after_comma)) next_line(lexer);
    else if (c == '#')
      while (lexer->at < lexer->end && *lexer->at != '\n') lexer->at++;
    else return;
  }
}

static int hex_digit(char c) {
  return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The character behind a backslash; 0 when there is no such escape. Moves past it. */
static char unescape(oct_lexer *lexer) {
  char c = lexer->at < lexer->end ? *lexer->at++ : 0;
  switch (c) {
    case '"':
    case '\\': return c;
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case 'x':
      if (lexer->end - lexer->at < 2 || hex_digit(lexer->at[0]) < 0 || hex_digit(lexer->at[1]) < 0) return 0;
      lexer->at += 2;
      return (char)(hex_digit(lexer->at[-2]) * 16 + hex_digit(lexer->at[-1]));
    default: return 0;
  }
}

static octet_status lex_string(oct_lexer *lexer, oct_token *out) {
  const char *close = ++lexer->at;
  while (close < lexer->end && *close != '"' && *close != '\n') close += *close == '\\' && close + 1 < lexer->end ? 2 : 1;
  if (close >= lexer->end || *close != '"') return oct_text_fail(lexer->ctx, out, "the quoted name is not closed on this line");
  if (close - lexer->at > OCT_TEXT_NAME_MAX)
    return oct_text_fail(lexer->ctx, out, "the quoted name is longer than %d bytes", OCT_TEXT_NAME_MAX);
  char *text = oct_region_alloc(lexer->ctx, lexer->region, (size_t)(close - lexer->at) + 1, 1);
  if (!text) return OCTET_OUT_OF_MEMORY;
  out->text = text;
  while (lexer->at < close) {
    char c = *lexer->at++;
    if (c == '\\' && !(c = unescape(lexer)))
      return oct_text_fail(lexer->ctx, out, "unknown escape in a quoted name; known are \\\" \\\\ \\n \\r \\t \\xHH");
    if (!c) return oct_text_fail(lexer->ctx, out, "a zero byte in a quoted name");
    *text++ = c;
  }
  lexer->at = close + 1;
  return OCTET_OK;
}

static octet_status take_while(oct_lexer *lexer, oct_token *out, bool (*belongs)(char), size_t most) {
  const char *start = lexer->at;
  while (lexer->at < lexer->end && belongs(*lexer->at)) lexer->at++;
  size_t length = (size_t)(lexer->at - start);
  if (length > most) return oct_text_fail(lexer->ctx, out, "a word of %zu bytes; at most %zu are allowed here", length, most);
  out->text = oct_region_strndup(lexer->ctx, lexer->region, start, length);
  return out->text ? OCTET_OK : OCTET_OUT_OF_MEMORY;
}

static bool continues_number(char c) { return is_digit(c) || is_letter(c) || c == '.' || c == '+' || c == '-'; }

/* Starts a number: a digit, or a sign or point that something numeric follows. */
static bool starts_number(const oct_lexer *lexer) {
  char c = *lexer->at, next = lexer->at + 1 < lexer->end ? lexer->at[1] : 0;
  return is_digit(c) || ((c == '-' || c == '+') && (is_digit(next) || next == '.' || next == 'i' || next == 'n')) ||
         (c == '.' && is_digit(next));
}

static octet_status lex_punctuation(oct_lexer *lexer, oct_token *out) {
  char c = *lexer->at;
  if (!c || !strchr("=,()[]{}@?-", c)) {
    if (c > 0x20 && c < 0x7f) return oct_text_fail(lexer->ctx, out, "unexpected character '%c'", c);
    return oct_text_fail(lexer->ctx, out, "unexpected byte 0x%02x; names with other characters stand in quotes", (unsigned char)c);
  }
  out->punctuation = c;
  if (strchr("([{", c)) lexer->depth++;
  if (strchr(")]}", c) && lexer->depth > 0) lexer->depth--;
  lexer->after_comma = c == ',';
  lexer->at++;
  return OCTET_OK;
}

octet_status oct_lexer_next(oct_lexer *lexer, oct_token *out) {
  skip_space(lexer);
  lexer->after_comma = false;
  *out = token_here(lexer, OCT_TOKEN_END);
  if (lexer->at >= lexer->end) return OCTET_OK;
  char c = *lexer->at;
  if (c == '\n') {
    out->kind = OCT_TOKEN_NEWLINE;
    next_line(lexer);
    return OCTET_OK;
  }
  if (c == '"') {
    out->kind = OCT_TOKEN_STRING;
    return lex_string(lexer, out);
  }
  if (starts_name(c)) {
    out->kind = OCT_TOKEN_NAME;
    return take_while(lexer, out, continues_name, OCT_TEXT_NAME_MAX);
  }
  if (starts_number(lexer)) {
    out->kind = OCT_TOKEN_NUMBER;
    return take_while(lexer, out, continues_number, OCT_TEXT_NUMBER_MAX);
  }
  out->kind = OCT_TOKEN_PUNCTUATION;
  return lex_punctuation(lexer, out);
}

/* ---- Numbers ------------------------------------------------------------------------------------------------- */

static bool is_special(const char *text) {
  text += *text == '-' || *text == '+';
  return strcmp(text, "inf") == 0 || strcmp(text, "nan") == 0;
}

/* Decimal numbers only: no hexadecimal, no "infinity". */
static bool looks_decimal(const char *text) {
  for (const char *p = text; *p; p++)
    if (is_letter(*p) && *p != 'e' && *p != 'E') return false;
  return true;
}

/* The text with the locale's decimal point; false when it is no number. */
static bool localize(const oct_token *token, char out[2 * OCT_TEXT_NUMBER_MAX]) {
  if (token->kind == OCT_TOKEN_NAME ? !is_special(token->text) : token->kind != OCT_TOKEN_NUMBER) return false;
  if (!is_special(token->text) && !looks_decimal(token->text)) return false;
  const char *point = localeconv()->decimal_point;
  size_t n = 0, width = strlen(point);
  bool seen = false;
  for (const char *p = token->text; *p; p++) {
    if (*p != '.') {
      out[n++] = *p;
      continue;
    }
    if (seen || width > OCT_TEXT_NUMBER_MAX / 2) return false;
    seen = true;
    memcpy(out + n, point, width);
    n += width;
  }
  out[n] = 0;
  return true;
}

bool oct_token_float(const oct_token *token, float *out) {
  char text[2 * OCT_TEXT_NUMBER_MAX], *end;
  if (!localize(token, text)) return false;
  *out = strtof(text, &end);
  return !*end && (!isinf(*out) || is_special(token->text));
}

bool oct_token_double(const oct_token *token, double *out) {
  char text[2 * OCT_TEXT_NUMBER_MAX], *end;
  if (!localize(token, text)) return false;
  *out = strtod(text, &end);
  return !*end && (!isinf(*out) || is_special(token->text));
}

static bool truth(const oct_token *token, int64_t *out) {
  if (token->kind != OCT_TOKEN_NAME) return false;
  *out = strcmp(token->text, "true") == 0;
  return *out || strcmp(token->text, "false") == 0;
}

bool oct_token_int(const oct_token *token, int64_t *out) {
  if (truth(token, out)) return true;
  if (token->kind != OCT_TOKEN_NUMBER) return false;
  char *end;
  errno = 0;
  *out = strtoll(token->text, &end, 10);
  return !*end && errno == 0;
}

bool oct_token_u64(const oct_token *token, uint64_t *out) {
  if (token->kind != OCT_TOKEN_NUMBER || *token->text == '-') return false;
  char *end;
  errno = 0;
  *out = strtoull(token->text, &end, 10);
  return !*end && errno == 0;
}
