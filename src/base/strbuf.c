/* The growing text buffer: numbers that read back exactly, and JSON strings.
 * SPDX-License-Identifier: MIT */
#include "base/strbuf.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for `count` more bytes and the closing zero. */
static bool reserve(oct_strbuf *b, size_t count) {
  size_t needed;
  if (b->failed) return false;
  if (!oct_add_size(b->length, count, &needed) || !oct_add_size(needed, 1, &needed) ||
      oct_grow(b->ctx, &b->text, &b->capacity, needed < 64 ? 64 : needed, 1) != OCTET_OK)
    b->failed = true;
  return !b->failed;
}

void oct_strbuf_append(oct_strbuf *b, const char *bytes, size_t count) {
  if (!reserve(b, count)) return;
  if (count) memcpy(b->text + b->length, bytes, count);
  b->length += count;
  b->text[b->length] = 0;
}

void oct_strbuf_puts(oct_strbuf *b, const char *text) { oct_strbuf_append(b, text, strlen(text)); }

void oct_strbuf_printf(oct_strbuf *b, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, args);
  if (length < 0) b->failed = true;
  if (length >= 0 && reserve(b, (size_t)length)) {
    vsnprintf(b->text + b->length, (size_t)length + 1, format, again);
    b->length += (size_t)length;
  }
  va_end(again);
  va_end(args);
}

/* Appends a printed number; a host program's locale may have put something else than '.' before the fraction. */
static void append_number(oct_strbuf *b, const char *text) {
  char plain[64];
  size_t n = 0;
  for (const char *p = text; *p && n + 1 < sizeof plain; p++) {
    if (strchr("0123456789+-e", *p)) plain[n++] = *p;
    else if (n == 0 || plain[n - 1] != '.') plain[n++] = '.';
  }
  oct_strbuf_append(b, plain, n);
}

static bool append_special(oct_strbuf *b, double value) {
  if (isnan(value)) oct_strbuf_puts(b, "nan");
  else if (isinf(value)) oct_strbuf_puts(b, value < 0 ? "-inf" : "inf");
  else return false;
  return true;
}

void oct_strbuf_float(oct_strbuf *b, float value) {
  char text[64];
  if (append_special(b, (double)value)) return;
  for (int digits = 1; digits <= 9; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, (double)value);
    if (strtof(text, NULL) == value) break;
  }
  append_number(b, text);
}

void oct_strbuf_double(oct_strbuf *b, double value) {
  char text[64];
  if (append_special(b, value)) return;
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  append_number(b, text);
}

/* Length of the valid UTF-8 sequence at `p` (RFC 3629: shortest form, no surrogates, up to U+10FFFF), or 0. */
static size_t utf8_length(const unsigned char *p) {
  if (p[0] < 0x80) return 1;
  if (p[0] < 0xc2 || p[0] > 0xf4) return 0;
  size_t n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
  for (size_t i = 1; i < n; i++)
    if ((p[i] & 0xc0) != 0x80) return 0; /* the closing zero stops here too */
  if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f)) return 0;
  if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) return 0;
  return n;
}

static const char *json_escape(unsigned char c) {
  switch (c) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    case '\b': return "\\b";
    case '\f': return "\\f";
    default: return NULL;
  }
}

void oct_strbuf_json(oct_strbuf *b, const char *text) {
  oct_strbuf_append(b, "\"", 1);
  for (const unsigned char *p = (const unsigned char *)text; *p;) {
    const char *escape = json_escape(*p);
    size_t n = utf8_length(p);
    if (escape) oct_strbuf_puts(b, escape);
    else if (*p < 0x20 || *p == 0x7f) oct_strbuf_printf(b, "\\u%04x", *p);
    else if (n) oct_strbuf_append(b, (const char *)p, n);
    else oct_strbuf_puts(b, "\\ufffd");
    p += n ? n : 1;
  }
  oct_strbuf_append(b, "\"", 1);
}

octet_status oct_strbuf_take(oct_strbuf *b, char **out) {
  if (!b->failed && !b->text) oct_strbuf_append(b, "", 0);
  *out = b->failed ? NULL : b->text;
  if (b->failed) oct_free(b->text);
  octet_status status = b->failed ? OCTET_OUT_OF_MEMORY : OCTET_OK;
  *b = (oct_strbuf){.ctx = b->ctx};
  return status;
}

void oct_strbuf_free(oct_strbuf *b) {
  oct_free(b->text);
  *b = (oct_strbuf){.ctx = b->ctx};
}
