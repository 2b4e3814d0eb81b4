/* A growing text buffer. After a failed append the buffer is `failed`; check once at the end with oct_strbuf_take().
 * SPDX-License-Identifier: MIT */
#ifndef OCT_BASE_STRBUF_H
#define OCT_BASE_STRBUF_H

#include "base/memory.h"

typedef struct oct_strbuf {
  octet_context *ctx;
  char *text; /* zero-terminated once something was appended */
  size_t length, capacity;
  bool failed;
} oct_strbuf;

static inline oct_strbuf oct_strbuf_make(octet_context *ctx) { return (oct_strbuf){.ctx = ctx}; }
void oct_strbuf_append(oct_strbuf *buffer, const char *bytes, size_t count);
void oct_strbuf_puts(oct_strbuf *buffer, const char *text);
void oct_strbuf_printf(oct_strbuf *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The shortest decimal that reads back as the same value. */
void oct_strbuf_float(oct_strbuf *buffer, float value);
void oct_strbuf_double(oct_strbuf *buffer, double value);
/* JSON string with quotes and escapes. */
void oct_strbuf_json(oct_strbuf *buffer, const char *text);
/* Hands over the text (oct_free it); an empty buffer gives "". */
octet_status oct_strbuf_take(oct_strbuf *buffer, char **out);
void oct_strbuf_free(oct_strbuf *buffer);

#endif
