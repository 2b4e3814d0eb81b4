/* TensorProto: raw and typed data, packed or not, of every element type that Octet has. External data is found by onnx_external.c.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "formats/onnx_parts.h"

/* TensorProto.DataType by number, with the field that holds typed data (onnx.proto). */
typedef struct data_type {
  const char *name;
  oct_dtype dtype;
  unsigned field;
} data_type;

static const data_type data_types[] = {
    {"UNDEFINED", OCT_DTYPE_NONE, 0},
    {"FLOAT", OCT_F32, 4},
    {"UINT8", OCT_U8, 5},
    {"INT8", OCT_I8, 5},
    {"UINT16", OCT_U16, 5},
    {"INT16", OCT_I16, 5},
    {"INT32", OCT_I32, 5},
    {"INT64", OCT_I64, 7},
    {"STRING", OCT_DTYPE_NONE, 6},
    {"BOOL", OCT_BOOL, 5},
    {"FLOAT16", OCT_F16, 5},
    {"DOUBLE", OCT_F64, 10},
    {"UINT32", OCT_U32, 11},
    {"UINT64", OCT_U64, 11},
    {"COMPLEX64", OCT_DTYPE_NONE, 4},
    {"COMPLEX128", OCT_DTYPE_NONE, 10},
    {"BFLOAT16", OCT_BF16, 5},
    {"FLOAT8E4M3FN", OCT_DTYPE_NONE, 5},
    {"FLOAT8E4M3FNUZ", OCT_DTYPE_NONE, 5},
    {"FLOAT8E5M2", OCT_DTYPE_NONE, 5},
    {"FLOAT8E5M2FNUZ", OCT_DTYPE_NONE, 5},
    {"UINT4", OCT_DTYPE_NONE, 5},
    {"INT4", OCT_DTYPE_NONE, 5},
    {"FLOAT4E2M1", OCT_DTYPE_NONE, 5},
    {"FLOAT8E8M0", OCT_DTYPE_NONE, 5},
    {"UINT2", OCT_DTYPE_NONE, 5},
    {"INT2", OCT_DTYPE_NONE, 5},
    {"FLOAT6E2M3", OCT_DTYPE_NONE, 5},
    {"FLOAT6E3M2", OCT_DTYPE_NONE, 5},
};
#define N_DATA_TYPES (int64_t)(sizeof data_types / sizeof data_types[0])

oct_dtype oct_onnx_dtype(int64_t number) { return number > 0 && number < N_DATA_TYPES ? data_types[number].dtype : OCT_DTYPE_NONE; }

const char *oct_onnx_data_type_name(int64_t number) { return number >= 0 && number < N_DATA_TYPES ? data_types[number].name : "unknown"; }

int oct_onnx_data_type(oct_dtype dtype) {
  for (int i = 1; i < N_DATA_TYPES; i++)
    if (data_types[i].dtype == dtype && dtype != OCT_DTYPE_NONE) return i;
  return 0;
}

/* The fields of a TensorProto that matter, still in place. */
typedef struct proto {
  oct_bytes name, raw, location;
  oct_shape shape;
  int64_t data_type;
  bool has_raw, external, has_segment, too_deep;
  int64_t offset, length; /* of external data; length -1: not given */
} proto;

bool oct_onnx_tensor_name(oct_bytes message, oct_bytes *name) {
  oct_reader r = oct_wire_open(message);
  oct_wire_field f;
  *name = (oct_bytes){NULL, 0};
  while (oct_wire_next(&r, &f))
    if (f.key == OCT_WIRE_BYTES(8)) *name = f.bytes;
  return !r.failed;
}

static void add_dim(proto *p, uint64_t dim) {
  if (p->shape.rank == OCT_MAX_RANK) p->too_deep = true;
  else p->shape.dim[p->shape.rank++] = (int64_t)dim;
}

/* Decimal text of an external-data entry; -2 when it is none. */
static int64_t decimal(oct_bytes text) {
  int64_t value = 0;
  if (text.size == 0) return -2;
  for (size_t i = 0; i < text.size; i++) {
    if (text.data[i] < '0' || text.data[i] > '9') return -2;
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text.data[i] - '0', &value)) return -2;
  }
  return value;
}

/* StringStringEntryProto of external_data: location, offset, length; others (checksum) are not needed. */
static bool read_external(oct_bytes message, proto *p) {
  oct_reader r = oct_wire_open(message);
  oct_wire_field f;
  oct_bytes key = {NULL, 0}, value = {NULL, 0};
  while (oct_wire_next(&r, &f)) {
    if (f.key == OCT_WIRE_BYTES(1)) key = f.bytes;
    if (f.key == OCT_WIRE_BYTES(2)) value = f.bytes;
  }
  if (oct_onnx_equal(key, "location")) p->location = value;
  if (oct_onnx_equal(key, "offset")) p->offset = decimal(value);
  if (oct_onnx_equal(key, "length")) p->length = decimal(value);
  return !r.failed;
}

static bool read_proto(oct_bytes message, proto *p) {
  oct_reader r = oct_wire_open(message), dims;
  oct_wire_field f;
  *p = (proto){.length = -1};
  while (oct_wire_next(&r, &f)) switch (f.key) {
      case OCT_WIRE_VARINT(1): add_dim(p, f.integer); break;
      case OCT_WIRE_BYTES(1):
        for (dims = oct_wire_open(f.bytes); oct_reader_left(&dims) && !dims.failed && !p->too_deep;) add_dim(p, oct_read_varint(&dims));
        if (dims.failed) return false;
        break;
      case OCT_WIRE_VARINT(2): p->data_type = (int32_t)f.integer; break;
      case OCT_WIRE_BYTES(3): p->has_segment = true; break;
      case OCT_WIRE_BYTES(8): p->name = f.bytes; break;
      case OCT_WIRE_BYTES(9):
        p->raw = f.bytes;
        p->has_raw = true;
        break;
      case OCT_WIRE_BYTES(13):
        if (!read_external(f.bytes, p)) return false;
        break;
      case OCT_WIRE_VARINT(14): p->external = f.integer == 1; break;
      default: break;
    }
  return !r.failed;
}

/* One element of typed data. int32_data holds the bits of the small types, uint64_data those of u32. */
static void store(oct_tensor *tensor, size_t index, uint64_t bits) {
  size_t size = oct_dtype_size(tensor->dtype);
  if (tensor->dtype == OCT_BOOL) bits = bits != 0;
  memcpy((uint8_t *)tensor->data + index * size, &bits, size); /* little-endian, as tensor.c demands */
}

/* Walks the typed data: counts the elements when `out` is NULL, else fills it (counted before, so never past its end). */
static bool walk_typed(oct_bytes message, unsigned field, oct_tensor *out, size_t *count) {
  unsigned wire = field == 4 ? 5 : field == 10 ? 1 : 0, size = wire == 5 ? 4 : 8;
  oct_reader r = oct_wire_open(message);
  oct_wire_field f;
  *count = 0;
  while (oct_wire_next(&r, &f)) {
    if (f.key == (field << 3 | wire)) {
      if (out) store(out, *count, f.integer);
      ++*count;
    } else if (f.key == OCT_WIRE_BYTES(field) && wire != 0) {
      if (f.bytes.size % size) return false;
      if (out && f.bytes.size) memcpy((uint8_t *)out->data + *count * size, f.bytes.data, f.bytes.size);
      *count += f.bytes.size / size;
    } else if (f.key == OCT_WIRE_BYTES(field)) {
      oct_reader packed = oct_wire_open(f.bytes);
      for (; oct_reader_left(&packed) && !packed.failed; ++*count) {
        uint64_t bits = oct_read_varint(&packed);
        if (out && !packed.failed) store(out, *count, bits);
      }
      if (packed.failed) return false;
    }
  }
  return !r.failed;
}

static octet_status read_typed(octet_context *ctx, oct_bytes message, const proto *p, oct_tensor **out) {
  char text[OCT_SHAPE_TEXT];
  oct_dtype dtype = oct_onnx_dtype(p->data_type);
  unsigned field = data_types[p->data_type].field;
  size_t count, again;
  if (!walk_typed(message, field, NULL, &count)) return oct_onnx_malformed(ctx, "its data");
  if (oct_shape_count(&p->shape) < 0 || (uint64_t)oct_shape_count(&p->shape) != count)
    return oct_fail(ctx, OCTET_FORMAT, "%zu elements of data for shape %s", count, oct_shape_text(&p->shape, text));
  OCT_TRY(oct_tensor_create(ctx, dtype, &p->shape, out));
  walk_typed(message, field, *out, &again);
  return OCTET_OK;
}

static octet_status read_outside(oct_onnx_source *source, const proto *p, oct_tensor **out) {
  octet_context *ctx = source->ctx;
  char text[OCT_ONNX_TEXT];
  oct_file *file;
  if (p->offset < 0 || p->length < -1) return oct_fail(ctx, OCTET_FORMAT, "offset or length of its external data is not a number");
  int64_t count = oct_shape_count(&p->shape);
  size_t bytes;
  if (count < 0 || !oct_mul_size((size_t)count, oct_dtype_size(oct_onnx_dtype(p->data_type)), &bytes))
    return oct_fail(ctx, OCTET_FORMAT, "its size overflows");
  if (p->length >= 0 && (uint64_t)p->length != bytes)
    return oct_fail(ctx, OCTET_FORMAT, "%lld bytes of external data; its shape needs %zu", (long long)p->length, bytes);
  OCT_TRY(oct_onnx_external_open(source, p->location, &file));
  oct_bytes all = oct_file_bytes(file);
  if ((uint64_t)p->offset > all.size || bytes > all.size - (uint64_t)p->offset)
    return oct_fail(ctx, OCTET_FORMAT, "external data \"%s\" has %zu bytes; %zu are wanted from byte %lld on",
                    oct_onnx_text(p->location, text), all.size, bytes, (long long)p->offset);
  const uint8_t *data = all.data ? all.data + p->offset : NULL;
  return oct_tensor_from_bytes(ctx, oct_onnx_dtype(p->data_type), &p->shape, file, data, bytes, out);
}

static octet_status decode(oct_onnx_source *source, oct_bytes message, const proto *p, oct_tensor **out) {
  octet_context *ctx = source->ctx;
  char text[OCT_SHAPE_TEXT];
  if (oct_onnx_dtype(p->data_type) == OCT_DTYPE_NONE)
    return oct_fail(ctx, OCTET_UNSUPPORTED, "element type %s (%lld) is not supported", oct_onnx_data_type_name(p->data_type),
                    (long long)p->data_type);
  if (p->too_deep) return oct_fail(ctx, OCTET_UNSUPPORTED, "it has more than %d dimensions", OCT_MAX_RANK);
  for (int i = 0; i < p->shape.rank; i++)
    if (p->shape.dim[i] < 0) return oct_fail(ctx, OCTET_FORMAT, "a dimension is negative: %lld", (long long)p->shape.dim[i]);
  if (oct_shape_count(&p->shape) < 0)
    return oct_fail(ctx, OCTET_FORMAT, "shape %s is too large: its size overflows", oct_shape_text(&p->shape, text));
  if (p->has_segment) return oct_fail(ctx, OCTET_UNSUPPORTED, "it is stored in segments, which are not supported");
  if (p->external) return read_outside(source, p, out);
  if (p->has_raw) return oct_tensor_from_bytes(ctx, oct_onnx_dtype(p->data_type), &p->shape, source->file, p->raw.data, p->raw.size, out);
  return read_typed(ctx, message, p, out);
}

octet_status oct_onnx_tensor(oct_onnx_source *source, oct_bytes message, oct_tensor **out) {
  char text[OCT_ONNX_TEXT];
  proto p;
  *out = NULL;
  if (!read_proto(message, &p)) return oct_onnx_malformed(source->ctx, "a tensor");
  octet_status status = decode(source, message, &p, out);
  return status == OCTET_OK ? status : oct_fail_prefix(source->ctx, "tensor \"%s\"", oct_onnx_text(p.name, text));
}

octet_status oct_onnx_read_tensor_bytes(octet_context *ctx, oct_bytes bytes, oct_tensor **out, char **name) {
  oct_onnx_source source = {.ctx = ctx};
  oct_bytes text;
  if (name) *name = NULL;
  octet_status status = oct_onnx_tensor(&source, bytes, out);
  oct_onnx_source_free(&source);
  OCT_TRY(status);
  if (!name) return OCTET_OK;
  oct_onnx_tensor_name(bytes, &text);
  *name = oct_strndup(ctx, (const char *)text.data, text.size);
  if (*name) return OCTET_OK;
  oct_tensor_release(*out);
  *out = NULL;
  return OCTET_OUT_OF_MEMORY;
}

octet_status oct_onnx_read_tensor(octet_context *ctx, const char *path, oct_tensor **out, char **name) {
  oct_file *file;
  *out = NULL;
  OCT_TRY(oct_file_open(ctx, path, &file));
  octet_status status = oct_onnx_read_tensor_bytes(ctx, oct_file_bytes(file), out, name);
  oct_file_close(file);
  return status == OCTET_OK ? status : oct_fail_prefix(ctx, "%s", path);
}
