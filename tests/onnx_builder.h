/* Builds small ONNX files in memory, field by field from the wire format up: independent of the writer that is under test.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_TESTS_ONNX_BUILDER_H
#define OCT_TESTS_ONNX_BUILDER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct pb {
  uint8_t *data;
  size_t size, capacity;
} pb;

static inline void pb_raw(pb *out, const void *data, size_t size) {
  if (out->size + size > out->capacity) {
    out->capacity = (out->size + size) * 2;
    out->data = realloc(out->data, out->capacity);
    if (!out->data) exit(1);
  }
  if (size) memcpy(out->data + out->size, data, size);
  out->size += size;
}
static inline void pb_varint(pb *out, uint64_t v) {
  uint8_t byte;
  for (; v >= 128; v >>= 7) byte = (uint8_t)(v | 128), pb_raw(out, &byte, 1);
  byte = (uint8_t)v;
  pb_raw(out, &byte, 1);
}
static inline void pb_int(pb *out, unsigned number, int64_t v) {
  pb_varint(out, number << 3);
  pb_varint(out, (uint64_t)v);
}
static inline void pb_bytes(pb *out, unsigned number, const void *data, size_t size) {
  pb_varint(out, number << 3 | 2);
  pb_varint(out, size);
  pb_raw(out, data, size);
}
static inline void pb_text(pb *out, unsigned number, const char *text) { pb_bytes(out, number, text, strlen(text)); }
static inline void pb_float(pb *out, unsigned number, float v) {
  pb_varint(out, number << 3 | 5);
  pb_raw(out, &v, 4);
}
static inline void pb_message(pb *out, unsigned number, pb inner) { /* takes over `inner` */
  pb_bytes(out, number, inner.data, inner.size);
  free(inner.data);
}

/* Shapes as text "1,3,N": letters are symbolic. */
static inline pb pb_value_info(const char *name, int type, const char *shape) {
  pb info = {0}, tensor = {0}, dims = {0}, outer = {0};
  pb_text(&info, 1, name);
  pb_int(&tensor, 1, type);
  for (const char *p = shape; p && *p;) {
    pb dim = {0};
    char text[32];
    size_t n = strcspn(p, ",");
    snprintf(text, sizeof text, "%.*s", (int)n, p);
    if ((*text >= '0' && *text <= '9') || *text == '-') pb_int(&dim, 1, strtoll(text, NULL, 10));
    else if (*text != '?') pb_text(&dim, 2, text);
    pb_message(&dims, 1, dim);
    p += n + (p[n] == ',');
  }
  if (shape) pb_message(&tensor, 2, dims);
  pb_message(&outer, 1, tensor);
  pb_message(&info, 2, outer);
  return info;
}

/* A NodeProto; inputs and outputs as text "a,b,,c". Attributes are added by the caller with pb_attribute_... */
static inline pb pb_node(const char *op, const char *inputs, const char *outputs, const char *name) {
  pb node = {0};
  const char *lists[2] = {inputs, outputs};
  for (unsigned k = 0; k < 2; k++)
    for (const char *p = lists[k]; *p;) {
      size_t n = strcspn(p, ",");
      pb_bytes(&node, k + 1, p, n);
      p += n + (p[n] == ',');
    }
  if (name) pb_text(&node, 3, name);
  pb_text(&node, 4, op);
  return node;
}
static inline void pb_attribute_int(pb *node, const char *name, int64_t v) {
  pb a = {0};
  pb_text(&a, 1, name);
  pb_int(&a, 3, v);
  pb_int(&a, 20, 2);
  pb_message(node, 5, a);
}
static inline void pb_attribute_ints(pb *node, const char *name, const int64_t *v, size_t n) {
  pb a = {0};
  pb_text(&a, 1, name);
  for (size_t i = 0; i < n; i++) pb_int(&a, 8, v[i]);
  pb_int(&a, 20, 7);
  pb_message(node, 5, a);
}

/* A TensorProto with raw data. */
static inline pb pb_tensor(const char *name, int type, const int64_t *dims, int rank, const void *data, size_t size) {
  pb t = {0};
  for (int i = 0; i < rank; i++) pb_int(&t, 1, dims[i]);
  pb_int(&t, 2, type);
  pb_text(&t, 8, name);
  pb_bytes(&t, 9, data, size);
  return t;
}

/* A ModelProto around a GraphProto; takes over `graph`. */
static inline pb pb_model(pb graph, int opset, int ir) {
  pb model = {0}, set = {0};
  pb_int(&model, 1, ir);
  pb_message(&model, 7, graph);
  pb_int(&set, 2, opset);
  pb_message(&model, 8, set);
  return model;
}

static inline void pb_save(const pb *p, const char *path) {
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(p->data, 1, p->size, f) != p->size || fclose(f) != 0) exit(1);
}

#endif
