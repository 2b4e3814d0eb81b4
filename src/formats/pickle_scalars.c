/* Pickle opcodes that push a number, a text or a constant, in binary and in lines of text.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "formats/pickle_machine.h"

static octet_status push_text(oct_pickle_machine *m, oct_pickle_kind kind, uint64_t length) {
  const uint8_t *text = length <= SIZE_MAX ? oct_read_bytes(m->in, (size_t)length) : NULL;
  if (!text || length > UINT32_MAX) return oct_pickle_malformed(m, "text runs past the end");
  oct_pickle *node;
  OCT_TRY(oct_pickle_new(m, kind, &node));
  node->text = (const char *)text;
  node->count = (uint32_t)length;
  return oct_pickle_push(m, node);
}

static octet_status push_integer(oct_pickle_machine *m, int64_t value) {
  oct_pickle *node;
  OCT_TRY(oct_pickle_new(m, OCT_PICKLE_INTEGER, &node));
  node->integer = value;
  return oct_pickle_push(m, node);
}

static octet_status push_long(oct_pickle_machine *m, size_t length) {
  const uint8_t *p = oct_read_bytes(m->in, length);
  if (!p) return oct_pickle_malformed(m, "number runs past the end");
  if (length <= 8) {
    uint64_t v = length && p[length - 1] & 0x80 ? UINT64_MAX : 0;
    for (size_t i = length; i-- > 0;) v = v << 8 | p[i];
    return push_integer(m, (int64_t)v);
  }
  m->in->position -= length;
  return push_text(m, OCT_PICKLE_LONG, length);
}

static octet_status push_float(oct_pickle_machine *m, double value) {
  oct_pickle *node;
  OCT_TRY(oct_pickle_new(m, OCT_PICKLE_FLOAT, &node));
  node->number = value;
  return oct_pickle_push(m, node);
}

static octet_status push_binary_float(oct_pickle_machine *m) {
  uint64_t bits = oct_read_u64be(m->in);
  double value;
  memcpy(&value, &bits, sizeof value);
  return push_float(m, value);
}

octet_status oct_pickle_line(oct_pickle_machine *m, const char **line, size_t *length) {
  const char *start = (const char *)m->in->data + m->in->position;
  const char *end = memchr(start, '\n', oct_reader_left(m->in));
  if (!end) return oct_pickle_malformed(m, "line without an end");
  *line = start;
  *length = (size_t)(end - start);
  m->in->position += *length + 1;
  return OCTET_OK;
}

octet_status oct_pickle_number_line(oct_pickle_machine *m, char text[OCT_PICKLE_NUMBER_TEXT]) {
  const char *line = "";
  size_t length = 0;
  OCT_TRY(oct_pickle_line(m, &line, &length));
  if (length == 0 || length >= OCT_PICKLE_NUMBER_TEXT) return oct_pickle_malformed(m, "number with too few or too many digits");
  memcpy(text, line, length);
  text[length] = 0;
  if (text[length - 1] == 'L') text[length - 1] = 0;
  return OCTET_OK;
}

static octet_status push_integer_line(oct_pickle_machine *m, bool may_be_boolean) {
  char text[OCT_PICKLE_NUMBER_TEXT], *end;
  OCT_TRY(oct_pickle_number_line(m, text));
  if (may_be_boolean && (!strcmp(text, "00") || !strcmp(text, "01"))) return oct_pickle_push(m, text[1] == '1' ? m->yes : m->no);
  long long value = strtoll(text, &end, 10);
  if (*end || end == text) return oct_pickle_malformed(m, "not a number");
  return push_integer(m, value);
}

static octet_status push_float_line(oct_pickle_machine *m) {
  char text[OCT_PICKLE_NUMBER_TEXT], *end;
  OCT_TRY(oct_pickle_number_line(m, text));
  double value = strtod(text, &end);
  if (*end || end == text) return oct_pickle_malformed(m, "not a number");
  return push_float(m, value);
}

octet_status oct_pickle_push_line(oct_pickle_machine *m, bool quoted) {
  const char *line = "";
  size_t length = 0;
  OCT_TRY(oct_pickle_line(m, &line, &length));
  if (quoted && length >= 2 && (*line == '\'' || *line == '"') && line[length - 1] == *line) line++, length -= 2;
  oct_pickle *node;
  if (length > UINT32_MAX) return oct_pickle_malformed(m, "text too long");
  OCT_TRY(oct_pickle_new(m, OCT_PICKLE_STRING, &node));
  node->text = line;
  node->count = (uint32_t)length;
  return oct_pickle_push(m, node);
}

octet_status oct_pickle_scalar(oct_pickle_machine *m, uint8_t op, bool *known) {
  switch (op) {
    case 'N': return oct_pickle_push(m, m->none);
    case 0x88: return oct_pickle_push(m, m->yes);
    case 0x89: return oct_pickle_push(m, m->no);
    case 'I': return push_integer_line(m, true);
    case 'L': return push_integer_line(m, false);
    case 'F': return push_float_line(m);
    case 'J': return push_integer(m, (int32_t)oct_read_u32le(m->in));
    case 'K': return push_integer(m, oct_read_u8(m->in));
    case 'M': return push_integer(m, oct_read_u16le(m->in));
    case 0x8a: return push_long(m, oct_read_u8(m->in));
    case 0x8b: return push_long(m, oct_read_u32le(m->in));
    case 'G': return push_binary_float(m);
    case 'S': return oct_pickle_push_line(m, true);
    case 'V': return oct_pickle_push_line(m, false);
    case 'U':
    case 0x8c: return push_text(m, OCT_PICKLE_STRING, oct_read_u8(m->in));
    case 'T':
    case 'X': return push_text(m, OCT_PICKLE_STRING, oct_read_u32le(m->in));
    case 0x8d: return push_text(m, OCT_PICKLE_STRING, oct_read_u64le(m->in));
    case 'C': return push_text(m, OCT_PICKLE_BYTES, oct_read_u8(m->in));
    case 'B': return push_text(m, OCT_PICKLE_BYTES, oct_read_u32le(m->in));
    case 0x8e:
    case 0x96: return push_text(m, OCT_PICKLE_BYTES, oct_read_u64le(m->in));
    default: *known = false; return OCTET_OK;
  }
}
