/* Results as JSON. Names come from model files, where any bytes may stand, and numbers may be no numbers: JSON knows neither, and jansson gives
 * up the whole object that would hold one. Here such bytes become U+FFFD and such numbers null.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Length of the UTF-8 sequence at `text`, or 0: jansson judges. */
static size_t sequence_length(const char *text, size_t left) {
  for (size_t n = 1; n <= 4 && n <= left; n++) {
    json_t *one = json_stringn(text, n);
    json_decref(one);
    if (one) return n;
  }
  return 0;
}

json_t *cli_json_text(const char *text) {
  static const char replacement[] = "\xef\xbf\xbd";
  json_t *string = text ? json_string(text) : NULL;
  if (string || !text) return string;
  size_t length = strlen(text), used = 0;
  char *clean = malloc(3 * length);
  if (!clean) return NULL;
  for (size_t i = 0, n; i < length; i += n ? n : 1) {
    n = sequence_length(text + i, length - i);
    memcpy(clean + used, n ? text + i : replacement, n ? n : 3);
    used += n ? n : 3;
  }
  string = json_stringn(clean, used);
  free(clean);
  return string;
}

static json_t *number_or_null(double number) { return isfinite(number) ? json_real(number) : json_null(); }

static json_t *next_value(char kind, va_list *arguments) {
  switch (kind) {
    case 's': return cli_json_text(va_arg(*arguments, const char *));
    case 'f': return number_or_null(va_arg(*arguments, double));
    case 'I': return json_integer(va_arg(*arguments, json_int_t));
    case 'i': return json_integer(va_arg(*arguments, int));
    case 'b': return json_boolean(va_arg(*arguments, int));
    default: return va_arg(*arguments, json_t *);
  }
}

json_t *cli_json(const char *kinds, ...) {
  json_t *object = json_object();
  va_list arguments;
  va_start(arguments, kinds);
  for (const char *kind = kinds; *kind; kind++) {
    const char *key = va_arg(arguments, const char *);
    json_t *value = next_value(*kind, &arguments);
    if (value) json_object_set_new(object, key, value);
  }
  va_end(arguments);
  return object;
}

json_t *cli_json_dims(const octet_tensor *tensor) {
  json_t *dims = json_array();
  for (int d = 0; d < tensor->rank; d++) json_array_append_new(dims, tensor->dims[d] < 0 ? json_null() : json_integer(tensor->dims[d]));
  return dims;
}

void cli_print_json(json_t *value) {
  json_dumpf(value, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
  putchar('\n');
  json_decref(value);
}
