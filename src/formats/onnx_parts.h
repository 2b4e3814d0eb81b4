/* Parts of the ONNX reader that its files share: where bytes come from, tensors, names. Not for use outside src/formats/onnx_*.c.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_ONNX_PARTS_H
#define OCT_FORMATS_ONNX_PARTS_H

#include "formats/onnx.h"
#include "formats/onnx_wire.h"

/* ---- Where bytes come from ---------------------------------------------------------------------------------- */

typedef struct oct_onnx_external {
  char *location;
  oct_file *file;
} oct_onnx_external;

typedef struct oct_onnx_source {
  octet_context *ctx;
  const char *path; /* the model's file, or NULL */
  oct_file *file;   /* NULL: the bytes are the caller's, tensors are copied */
  oct_onnx_external *externals;
  size_t n_externals, externals_capacity;
} oct_onnx_source;

void oct_onnx_source_free(oct_onnx_source *source);

/* OCTET_FORMAT: "<what> is malformed". */
octet_status oct_onnx_malformed(octet_context *ctx, const char *what);
/* Text of at most 100 bytes with unprintable ones replaced, for messages. */
#define OCT_ONNX_TEXT 128
const char *oct_onnx_text(oct_bytes bytes, char text[OCT_ONNX_TEXT]);
bool oct_onnx_text_valid(oct_bytes bytes); /* no zero byte: fit for a C string */
static inline bool oct_onnx_equal(oct_bytes a, const char *text) {
  return a.size == strlen(text) && (a.size == 0 || !memcmp(a.data, text, a.size));
}

/* Key in the metadata of a DynamicQuantizeLinear node: it stands for ranges per image or row (docs/decisions). Its value is a number. */
#define OCT_ONNX_PER_SAMPLE "octet.per_sample"

/* ---- Tensors ------------------------------------------------------------------------------------------------ */

/* TensorProto.DataType of a dtype and back; OCT_DTYPE_NONE for what Octet does not have. */
oct_dtype oct_onnx_dtype(int64_t data_type);
int oct_onnx_data_type(oct_dtype dtype);
const char *oct_onnx_data_type_name(int64_t data_type);

/* Name of a TensorProto (an empty span when it has none); false when the message is malformed. */
bool oct_onnx_tensor_name(oct_bytes message, oct_bytes *name);
/* Decodes a TensorProto; a failure names the tensor. */
octet_status oct_onnx_tensor(oct_onnx_source *source, oct_bytes message, oct_tensor **out);
/* The file of external data at `location`, inside the model's folder; open once per reading. */
octet_status oct_onnx_external_open(oct_onnx_source *source, oct_bytes location, oct_file **out);

/* ---- Names -------------------------------------------------------------------------------------------------- */

/* What is known of a value name. Spans are offsets into the model's bytes, to keep entries small. */
typedef struct oct_onnx_span {
  uint32_t offset, size;
} oct_onnx_span;

typedef struct oct_onnx_name {
  oct_value *value; /* once made */
  oct_onnx_span text;
  oct_onnx_span type;   /* TypeProto that declares it; size 0: none */
  oct_onnx_span tensor; /* initializer */
  uint32_t producer;    /* node index + 1; 0: none */
  bool input, initializer, used;
} oct_onnx_name;

typedef struct oct_onnx_names {
  const uint8_t *base;
  oct_onnx_name *items;
  size_t count, capacity;
  uint32_t *slots; /* item index + 1; 0: free */
  size_t n_slots;
} oct_onnx_names;

/* Finds or adds. The entry moves when another is added. */
octet_status oct_onnx_names_add(octet_context *ctx, oct_onnx_names *names, oct_bytes text, oct_onnx_name **out);
oct_onnx_name *oct_onnx_names_find(const oct_onnx_names *names, oct_bytes text);
void oct_onnx_names_free(oct_onnx_names *names);
static inline oct_onnx_span oct_onnx_span_of(const oct_onnx_names *names, oct_bytes bytes) {
  return (oct_onnx_span){bytes.size ? (uint32_t)(bytes.data - names->base) : 0, (uint32_t)bytes.size};
}
static inline oct_bytes oct_onnx_span_bytes(const oct_onnx_names *names, oct_onnx_span span) {
  return (oct_bytes){names->base + span.offset, span.size};
}

#endif
