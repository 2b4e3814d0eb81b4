/* ValueInfoProto and TypeProto: declared element types and shapes, as inputs and as hints.
 * SPDX-License-Identifier: MIT */
#include "formats/onnx_reader.h"

octet_status oct_onnx_value_info(octet_context *ctx, oct_bytes message, oct_bytes *name, oct_bytes *type) {
  oct_reader r = oct_wire_open(message);
  oct_wire_field f;
  *name = *type = (oct_bytes){NULL, 0};
  while (oct_wire_next(&r, &f)) {
    if (f.key == OCT_WIRE_BYTES(1)) *name = f.bytes;
    if (f.key == OCT_WIRE_BYTES(2)) *type = f.bytes;
  }
  return r.failed ? oct_onnx_malformed(ctx, "a value's declaration") : OCTET_OK;
}

/* TensorShapeProto.Dimension; an absent, symbolic or negative size is unknown. */
static bool read_dim(oct_bytes message, oct_onnx_tensor_type *out) {
  oct_reader r = oct_wire_open(message);
  oct_wire_field f;
  int i = out->shape.rank++;
  out->shape.dim[i] = OCT_DIM_UNKNOWN;
  while (oct_wire_next(&r, &f)) {
    if (f.key == OCT_WIRE_VARINT(1) && (int64_t)f.integer >= 0) out->shape.dim[i] = (int64_t)f.integer;
    if (f.key == OCT_WIRE_BYTES(2)) out->dim_names[i] = f.bytes;
  }
  return !r.failed;
}

static octet_status read_shape(octet_context *ctx, oct_bytes message, oct_onnx_tensor_type *out) {
  oct_reader r = oct_wire_open(message);
  oct_wire_field f;
  out->has_shape = true;
  out->shape.rank = 0;
  while (oct_wire_next(&r, &f)) {
    if (f.key != OCT_WIRE_BYTES(1)) continue;
    if (out->shape.rank == OCT_MAX_RANK)
      return oct_fail(ctx, OCTET_UNSUPPORTED, "it is declared with more than %d dimensions", OCT_MAX_RANK);
    if (!read_dim(f.bytes, out)) return oct_onnx_malformed(ctx, "a declared shape");
  }
  return r.failed ? oct_onnx_malformed(ctx, "a declared shape") : OCTET_OK;
}

static octet_status read_tensor_type(octet_context *ctx, oct_bytes message, oct_onnx_tensor_type *out) {
  oct_reader r = oct_wire_open(message);
  oct_wire_field f;
  out->other = NULL;
  while (oct_wire_next(&r, &f)) {
    if (f.key == OCT_WIRE_VARINT(1)) out->data_type = (int32_t)f.integer;
    if (f.key == OCT_WIRE_BYTES(2)) OCT_TRY(read_shape(ctx, f.bytes, out));
  }
  return r.failed ? oct_onnx_malformed(ctx, "a declared type") : OCTET_OK;
}

octet_status oct_onnx_type_read(octet_context *ctx, oct_bytes message, oct_onnx_tensor_type *out) {
  oct_reader r = oct_wire_open(message);
  oct_wire_field f;
  *out = (oct_onnx_tensor_type){.other = "of no declared type"};
  while (oct_wire_next(&r, &f)) switch (f.key) {
      case OCT_WIRE_BYTES(1): OCT_TRY(read_tensor_type(ctx, f.bytes, out)); break;
      case OCT_WIRE_BYTES(4): out->other = "a sequence"; break;
      case OCT_WIRE_BYTES(5): out->other = "a map"; break;
      case OCT_WIRE_BYTES(7): out->other = "of an opaque type"; break;
      case OCT_WIRE_BYTES(8): out->other = "a sparse tensor"; break;
      case OCT_WIRE_BYTES(9): out->other = "optional"; break;
      default: break;
    }
  return r.failed ? oct_onnx_malformed(ctx, "a declared type") : OCTET_OK;
}

octet_status oct_onnx_name_dims(oct_onnx_reader *reader, oct_value *value, const oct_onnx_tensor_type *type) {
  for (int i = 0; i < type->shape.rank && type->has_shape; i++) {
    oct_bytes name = type->dim_names[i];
    if (name.size == 0 || !oct_onnx_text_valid(name) || value->shape.dim[i] != OCT_DIM_UNKNOWN) continue;
    value->dim_names[i] = oct_region_strndup(reader->ctx, &reader->graph->region, (const char *)name.data, name.size);
    if (!value->dim_names[i]) return OCTET_OUT_OF_MEMORY;
  }
  return OCTET_OK;
}

static const oct_named_tensor *find_bound(const oct_onnx_reader *reader, oct_bytes name) {
  for (size_t i = 0; reader->options && i < reader->options->n_bound; i++)
    if (oct_onnx_equal(name, reader->options->bound[i].name)) return &reader->options->bound[i];
  return NULL;
}

/* A declared size of -1 takes any. */
static bool shape_accepts(const oct_onnx_tensor_type *type, const oct_shape *given) {
  if (!type->has_shape) return true;
  if (type->shape.rank != given->rank) return false;
  for (int i = 0; i < given->rank; i++)
    if (type->shape.dim[i] != OCT_DIM_UNKNOWN && type->shape.dim[i] != given->dim[i]) return false;
  return true;
}

static octet_status bind_input(oct_onnx_reader *reader, const char *name, const oct_named_tensor *bound, const oct_onnx_tensor_type *type,
                               oct_value **out) {
  char want[OCT_SHAPE_TEXT], have[OCT_SHAPE_TEXT];
  const oct_tensor *tensor = bound->tensor;
  if (tensor->dtype != oct_onnx_dtype(type->data_type))
    return oct_fail(reader->ctx, OCTET_DATA, "input \"%s\" is bound to %s; the model wants %s", name, oct_dtype_name(tensor->dtype),
                    oct_dtype_name(oct_onnx_dtype(type->data_type)));
  if (!shape_accepts(type, &tensor->shape))
    return oct_fail(reader->ctx, OCTET_SHAPE, "input \"%s\" is bound to a tensor of shape %s; the model wants %s", name,
                    oct_shape_text(&tensor->shape, have), oct_shape_text(&type->shape, want));
  return oct_graph_constant(reader->ctx, reader->graph, name, oct_tensor_retain(bound->tensor), out);
}

static octet_status make_named_input(oct_onnx_reader *reader, const char *name, const oct_named_tensor *bound, oct_bytes message,
                                     oct_value **out) {
  octet_context *ctx = reader->ctx;
  oct_onnx_tensor_type type;
  octet_status status = oct_onnx_type_read(ctx, message, &type);
  if (status != OCTET_OK) return oct_fail_prefix(ctx, "input \"%s\"", name);
  if (type.other) return oct_fail(ctx, OCTET_UNSUPPORTED, "input \"%s\" is %s; only tensors are supported", name, type.other);
  oct_dtype dtype = oct_onnx_dtype(type.data_type);
  if (dtype == OCT_DTYPE_NONE)
    return oct_fail(ctx, OCTET_UNSUPPORTED, "input \"%s\": element type %s (%lld) is not supported", name,
                    oct_onnx_data_type_name(type.data_type), (long long)type.data_type);
  if (bound) return bind_input(reader, name, bound, &type, out);
  OCT_TRY(oct_graph_input(ctx, reader->graph, name, dtype, type.has_shape ? &type.shape : NULL, out));
  return oct_onnx_name_dims(reader, *out, &type);
}

octet_status oct_onnx_make_input(oct_onnx_reader *reader, oct_bytes name, oct_bytes type, oct_value **out) {
  *out = NULL;
  char *copy = oct_strndup(reader->ctx, (const char *)name.data, name.size);
  if (!copy) return OCTET_OUT_OF_MEMORY;
  octet_status status = make_named_input(reader, copy, find_bound(reader, name), type, out);
  oct_free(copy);
  return status;
}

octet_status oct_onnx_apply_hint(oct_onnx_reader *reader, oct_value *value, oct_bytes message) {
  octet_context *ctx = reader->ctx;
  oct_onnx_tensor_type type;
  char declared[OCT_SHAPE_TEXT], inferred[OCT_SHAPE_TEXT];
  octet_status status = oct_onnx_type_read(ctx, message, &type);
  if (status != OCTET_OK) return oct_fail_prefix(ctx, "value \"%s\"", value->name);
  oct_dtype dtype = oct_onnx_dtype(type.data_type);
  if (value->dtype == OCT_DTYPE_NONE) value->dtype = dtype;
  else if (dtype != OCT_DTYPE_NONE && dtype != value->dtype)
    oct_warn(ctx, "\"%s\" is declared as %s but is %s", value->name, oct_dtype_name(dtype), oct_dtype_name(value->dtype));
  if (type.other || !type.has_shape) return OCTET_OK;
  if (!value->has_shape) {
    value->shape = type.shape;
    value->has_shape = true;
    return OCTET_OK;
  }
  bool differs = value->shape.rank != type.shape.rank;
  for (int i = 0; i < type.shape.rank && !differs; i++) {
    if (value->shape.dim[i] == OCT_DIM_UNKNOWN && value->kind == OCT_INTERMEDIATE) value->shape.dim[i] = type.shape.dim[i];
    else differs = type.shape.dim[i] != OCT_DIM_UNKNOWN && type.shape.dim[i] != value->shape.dim[i];
  }
  if (differs)
    oct_warn(ctx, "\"%s\" is declared with shape %s but has %s", value->name, oct_shape_text(&type.shape, declared),
             oct_shape_text(&value->shape, inferred));
  return OCTET_OK;
}
