/* The table of value names of one ONNX graph or function body, and text helpers of the ONNX reader.
 * SPDX-License-Identifier: MIT */
#include "formats/onnx_parts.h"

octet_status oct_onnx_malformed(octet_context *ctx, const char *what) {
  return oct_fail(ctx, OCTET_FORMAT, "%s is malformed: a field is cut short or has a wrong wire type", what);
}

const char *oct_onnx_text(oct_bytes bytes, char text[OCT_ONNX_TEXT]) {
  size_t length = bytes.size < 100 ? bytes.size : 100;
  for (size_t i = 0; i < length; i++) text[i] = bytes.data[i] >= 32 && bytes.data[i] != 127 ? (char)bytes.data[i] : '?';
  memcpy(text + length, "...", 4);
  if (bytes.size <= 100) text[length] = 0;
  return text;
}

bool oct_onnx_text_valid(oct_bytes bytes) { return bytes.size == 0 || !memchr(bytes.data, 0, bytes.size); }

/* FNV-1a with a final mix. */
static uint64_t hash(oct_bytes text) {
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < text.size; i++) h = (h ^ text.data[i]) * 0x100000001b3u;
  h ^= h >> 32;
  return h * 0x9e3779b97f4a7c15u;
}

static bool same(const oct_onnx_names *names, const oct_onnx_name *item, oct_bytes text) {
  return item->text.size == text.size && memcmp(names->base + item->text.offset, text.data, text.size) == 0;
}

/* The slot that holds `text`, or the free one where it belongs. */
static size_t find_slot(const oct_onnx_names *names, oct_bytes text) {
  size_t mask = names->n_slots - 1, i = (size_t)(hash(text) >> 16) & mask;
  while (names->slots[i] && !same(names, &names->items[names->slots[i] - 1], text)) i = (i + 1) & mask;
  return i;
}

static octet_status widen(octet_context *ctx, oct_onnx_names *names) {
  size_t wider = names->n_slots ? names->n_slots * 2 : 64;
  uint32_t *slots = oct_alloc(ctx, wider, sizeof *slots);
  if (!slots) return OCTET_OUT_OF_MEMORY;
  oct_free(names->slots);
  names->slots = slots;
  names->n_slots = wider;
  for (size_t i = 0; i < names->count; i++) slots[find_slot(names, oct_onnx_span_bytes(names, names->items[i].text))] = (uint32_t)i + 1;
  return OCTET_OK;
}

octet_status oct_onnx_names_add(octet_context *ctx, oct_onnx_names *names, oct_bytes text, oct_onnx_name **out) {
  char shown[OCT_ONNX_TEXT];
  *out = NULL;
  if (!oct_onnx_text_valid(text)) return oct_fail(ctx, OCTET_FORMAT, "value name \"%s\" contains a zero byte", oct_onnx_text(text, shown));
  if (names->count + 1 > names->n_slots / 4 * 3) OCT_TRY(widen(ctx, names));
  size_t slot = find_slot(names, text);
  if (!names->slots[slot]) {
    OCT_TRY(oct_grow(ctx, &names->items, &names->capacity, names->count + 1, sizeof *names->items));
    names->items[names->count] = (oct_onnx_name){.text = oct_onnx_span_of(names, text)};
    names->slots[slot] = (uint32_t)++names->count;
  }
  *out = &names->items[names->slots[slot] - 1];
  return OCTET_OK;
}

oct_onnx_name *oct_onnx_names_find(const oct_onnx_names *names, oct_bytes text) {
  if (names->count == 0) return NULL;
  uint32_t item = names->slots[find_slot(names, text)];
  return item ? &names->items[item - 1] : NULL;
}

void oct_onnx_names_free(oct_onnx_names *names) {
  oct_free(names->items);
  oct_free(names->slots);
  *names = (oct_onnx_names){.base = names->base};
}
