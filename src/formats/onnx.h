/* ONNX files, in and out. Reading walks the protobuf wire format in place (docs/decisions/0001-onnx-wire-walk.md): nothing is stored that
 * was not checked first, tensor bytes stay in the mapped file where their alignment allows.
 * Source: the ONNX IR specification and onnx.proto; what each operator means is in src/ops/, found through the rows for "onnx".
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_ONNX_H
#define OCT_FORMATS_ONNX_H

#include "ir/graph.h"

#define OCT_ONNX_OPSET_FIRST 7
#define OCT_ONNX_OPSET_LAST 28

typedef struct oct_onnx_options {
  const oct_named_tensor *bound; /* graph inputs that become constants, by name: values that shapes depend on */
  size_t n_bound;
} oct_onnx_options;

/* Reads a model into a graph. `options` may be NULL. QuantizeLinear and DequantizeLinear become quantize and dequantize nodes; a pass
 * absorbs them. Errors: OCTET_FORMAT (malformed), OCTET_GRAPH (cycles, dangling or doubly defined values, attributes of wrong type),
 * OCTET_UNSUPPORTED (all unknown operators in one message, element types, sub-graphs), OCTET_SHAPE. Declared shapes that contradict the
 * inferred ones are warnings; where inference leaves a size open, the declared one is taken. */
octet_status oct_onnx_read(octet_context *ctx, const char *path, const oct_onnx_options *options, oct_graph **out);
/* Same from memory. `base_path`: the file beside which external data lies, or NULL (external data is then refused). Tensors are copied. */
octet_status oct_onnx_read_bytes(octet_context *ctx, oct_bytes bytes, const char *base_path, const oct_onnx_options *options,
                                 oct_graph **out);

/* Reads a file with one TensorProto (test data). `name` (may be NULL) receives the tensor's name; oct_free it. */
octet_status oct_onnx_read_tensor(octet_context *ctx, const char *path, oct_tensor **out, char **name);
octet_status oct_onnx_read_tensor_bytes(octet_context *ctx, oct_bytes bytes, oct_tensor **out, char **name);

/* Writes a graph (operator set 18; 21 when 16-bit quantization needs it). Values with quantization parameters get a QuantizeLinear and
 * DequantizeLinear pair, constants with such an integer initializer and DequantizeLinear, float16 constants of float values a Cast,
 * nodes with `dynamic` = 1 DynamicQuantizeLinear and the integer operator. Equal graphs give equal bytes. 2 GiB and more are refused. */
octet_status oct_onnx_write(octet_context *ctx, const oct_graph *graph, const char *path);

#endif
