/* AttributeProto: numbers, strings, lists and tensors; sub-graphs and types are refused. References inside functions are resolved.
 * SPDX-License-Identifier: MIT */
#include "formats/onnx_reader.h"

/* AttributeProto.AttributeType (onnx.proto); 0 where old writers left it out. */
enum {
  TYPE_UNDEFINED,
  TYPE_FLOAT,
  TYPE_INT,
  TYPE_STRING,
  TYPE_TENSOR,
  TYPE_GRAPH,
  TYPE_FLOATS,
  TYPE_INTS,
  TYPE_STRINGS,
  TYPE_TENSORS,
  TYPE_GRAPHS
};

/* First walk: which fields are there, and how many elements. */
typedef struct contents {
  oct_bytes name, reference, string, tensor;
  float f;
  int64_t i, type;
  size_t floats, ints, strings;
  int guess; /* type by the field met */
} contents;

static bool count_packed(oct_bytes bytes, size_t *count) {
  oct_reader r = oct_wire_open(bytes);
  for (; oct_reader_left(&r) && !r.failed; ++*count) oct_read_varint(&r);
  return !r.failed;
}

static float float_of(uint64_t integer) {
  uint32_t bits = (uint32_t)integer;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

static bool scan(oct_bytes message, contents *c) {
  oct_reader r = oct_wire_open(message);
  oct_wire_field f;
  *c = (contents){.guess = TYPE_UNDEFINED};
  while (oct_wire_next(&r, &f)) switch (f.key) {
      case OCT_WIRE_BYTES(1): c->name = f.bytes; break;
      case OCT_WIRE_FIXED32(2): c->f = float_of(f.integer), c->guess = TYPE_FLOAT; break;
      case OCT_WIRE_VARINT(3): c->i = (int64_t)f.integer, c->guess = TYPE_INT; break;
      case OCT_WIRE_BYTES(4): c->string = f.bytes, c->guess = TYPE_STRING; break;
      case OCT_WIRE_BYTES(5): c->tensor = f.bytes, c->guess = TYPE_TENSOR; break;
      case OCT_WIRE_BYTES(6): c->guess = TYPE_GRAPH; break;
      case OCT_WIRE_FIXED32(7): c->floats++, c->guess = TYPE_FLOATS; break;
      case OCT_WIRE_BYTES(7):
        if (f.bytes.size % 4) return false;
        c->floats += f.bytes.size / 4, c->guess = TYPE_FLOATS;
        break;
      case OCT_WIRE_VARINT(8): c->ints++, c->guess = TYPE_INTS; break;
      case OCT_WIRE_BYTES(8):
        if (!count_packed(f.bytes, &c->ints)) return false;
        c->guess = TYPE_INTS;
        break;
      case OCT_WIRE_BYTES(9): c->strings++, c->guess = TYPE_STRINGS; break;
      case OCT_WIRE_BYTES(10): c->guess = TYPE_TENSORS; break;
      case OCT_WIRE_BYTES(11): c->guess = TYPE_GRAPHS; break;
      case OCT_WIRE_VARINT(20): c->type = (int32_t)f.integer; break;
      case OCT_WIRE_BYTES(21): c->reference = f.bytes; break;
      default: break;
    }
  if (c->type == TYPE_UNDEFINED) c->type = c->guess;
  return !r.failed;
}

static octet_status copy_text(octet_context *ctx, oct_region *region, oct_bytes bytes, const char **out) {
  *out = "";
  if (!oct_onnx_text_valid(bytes)) return oct_fail(ctx, OCTET_UNSUPPORTED, "its text contains a zero byte");
  if (bytes.size == 0) return OCTET_OK;
  *out = oct_region_strndup(ctx, region, (const char *)bytes.data, bytes.size);
  return *out ? OCTET_OK : OCTET_OUT_OF_MEMORY;
}

/* Second walk: fills the list that the first one counted. */
static octet_status fill(octet_context *ctx, oct_bytes message, oct_region *region, oct_attribute *out) {
  oct_reader r = oct_wire_open(message), packed;
  oct_wire_field f;
  size_t n = 0;
  while (oct_wire_next(&r, &f)) {
    if (out->type == OCT_ATTRIBUTE_FLOATS && f.key == OCT_WIRE_FIXED32(7)) out->floats[n++] = float_of(f.integer);
    if (out->type == OCT_ATTRIBUTE_FLOATS && f.key == OCT_WIRE_BYTES(7) && f.bytes.size) {
      memcpy(out->floats + n, f.bytes.data, f.bytes.size);
      n += f.bytes.size / 4;
    }
    if (out->type == OCT_ATTRIBUTE_INTS && f.key == OCT_WIRE_VARINT(8)) out->ints[n++] = (int64_t)f.integer;
    if (out->type == OCT_ATTRIBUTE_INTS && f.key == OCT_WIRE_BYTES(8))
      for (packed = oct_wire_open(f.bytes); oct_reader_left(&packed);) out->ints[n++] = (int64_t)oct_read_varint(&packed);
    if (out->type == OCT_ATTRIBUTE_STRINGS && f.key == OCT_WIRE_BYTES(9)) OCT_TRY(copy_text(ctx, region, f.bytes, &out->strings[n++]));
  }
  return OCTET_OK;
}

static octet_status read_list(octet_context *ctx, oct_bytes message, oct_region *region, size_t count, size_t size, oct_attribute *out) {
  out->count = count;
  out->ints = oct_region_alloc(ctx, region, count ? count : 1, size);
  if (!out->ints) return OCTET_OUT_OF_MEMORY;
  return fill(ctx, message, region, out);
}

static octet_status decode(oct_onnx_reader *reader, const contents *c, oct_bytes message, oct_region *region, oct_attribute *out) {
  octet_context *ctx = reader->ctx;
  switch (c->type) {
    case TYPE_FLOAT: out->type = OCT_ATTRIBUTE_FLOAT, out->f = c->f; return OCTET_OK;
    case TYPE_INT: out->type = OCT_ATTRIBUTE_INT, out->i = c->i; return OCTET_OK;
    case TYPE_STRING: out->type = OCT_ATTRIBUTE_STRING; return copy_text(ctx, region, c->string, &out->s);
    case TYPE_TENSOR: out->type = OCT_ATTRIBUTE_TENSOR; return oct_onnx_tensor(&reader->source, c->tensor, &out->tensor);
    case TYPE_FLOATS: out->type = OCT_ATTRIBUTE_FLOATS; return read_list(ctx, message, region, c->floats, sizeof(float), out);
    case TYPE_INTS: out->type = OCT_ATTRIBUTE_INTS; return read_list(ctx, message, region, c->ints, sizeof(int64_t), out);
    case TYPE_STRINGS: out->type = OCT_ATTRIBUTE_STRINGS; return read_list(ctx, message, region, c->strings, sizeof(char *), out);
    case TYPE_GRAPH:
    case TYPE_GRAPHS: return oct_fail(ctx, OCTET_UNSUPPORTED, "it is a sub-graph; sub-graphs are not supported");
    default: return oct_fail(ctx, OCTET_UNSUPPORTED, "its type (%lld) is not supported", (long long)c->type);
  }
}

/* The default that a function declares for attribute `name`, or an empty span. */
static oct_bytes find_default(oct_bytes body, oct_bytes name) {
  oct_reader r = oct_wire_open(body);
  oct_wire_field f;
  contents c;
  while (oct_wire_next(&r, &f))
    if (f.key == OCT_WIRE_BYTES(11) && scan(f.bytes, &c) && c.name.size == name.size && !memcmp(c.name.data, name.data, name.size))
      return f.bytes;
  return (oct_bytes){NULL, 0};
}

/* The value of a reference: from the call, else the function's default, else none (out->name stays NULL). */
static octet_status follow(oct_onnx_reader *reader, oct_onnx_scope *scope, const contents *c, const char *name, oct_region *region,
                           oct_attribute *out) {
  if (!scope->call) return oct_fail(reader->ctx, OCTET_GRAPH, "it refers to an attribute of a function, outside any function");
  for (int i = 0; i < scope->call->n_attributes; i++) {
    if (!oct_onnx_equal(c->reference, scope->call->attributes[i].name)) continue;
    *out = scope->call->attributes[i];
    if (out->type == OCT_ATTRIBUTE_TENSOR) oct_tensor_retain(out->tensor);
    out->name = name;
    return OCTET_OK;
  }
  contents inner;
  oct_bytes fallback = find_default(scope->defaults, c->reference);
  if (fallback.size == 0 || !scan(fallback, &inner)) return OCTET_OK;
  OCT_TRY(decode(reader, &inner, fallback, region, out));
  out->name = name;
  return OCTET_OK;
}

octet_status oct_onnx_attribute(oct_onnx_reader *reader, oct_onnx_scope *scope, oct_bytes message, oct_region *region, oct_attribute *out) {
  octet_context *ctx = reader->ctx;
  char text[OCT_ONNX_TEXT];
  contents c;
  const char *name;
  *out = (oct_attribute){.name = NULL};
  if (!scan(message, &c)) return oct_onnx_malformed(ctx, "an attribute");
  if (c.name.size == 0) return oct_fail(ctx, OCTET_FORMAT, "an attribute has no name");
  OCT_TRY(copy_text(ctx, region, c.name, &name));
  octet_status status = OCTET_OK;
  if (c.reference.size) {
    status = follow(reader, scope, &c, name, region, out);
  } else {
    status = decode(reader, &c, message, region, out);
    out->name = name;
  }
  return status == OCTET_OK ? status : oct_fail_prefix(ctx, "attribute \"%s\"", oct_onnx_text(c.name, text));
}
