/* The state of one ONNX writing, shared by onnx_write.c (model and file), onnx_emit.c (nodes, attributes, initializers),
 * onnx_quantized.c (QuantizeLinear and DequantizeLinear) and onnx_dynamic.c (integer operators with ranges found at run time).
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_ONNX_WRITER_H
#define OCT_FORMATS_ONNX_WRITER_H

#include "base/strbuf.h"
#include "formats/onnx_parts.h"
#include "ops/foreign.h"

/* Large data that is written from where it lies, after `position` bytes of the initializer buffer. */
typedef struct oct_onnx_chunk {
  size_t position;
  const oct_tensor *tensor; /* one reference */
} oct_onnx_chunk;

/* A small generated constant, shared by all that need equal ones. */
typedef struct oct_onnx_shared {
  oct_tensor *tensor; /* one reference */
  const char *name;
} oct_onnx_shared;

typedef struct oct_onnx_writer {
  oct_exporter exporter; /* user = this */
  octet_context *ctx;
  oct_graph *graph;       /* a copy of the caller's; generated names are reserved in it */
  size_t n_values;        /* before any name was reserved */
  const char **names;     /* by value id: the name under which it is a float; before it is written, that of its raw form if another */
  bool *written;          /* by value id: its conversion to float is written */
  bool *is_output;        /* by value id */
  bool *widen;            /* by value id: half-precision constant that must become f32 */
  const oct_value *plain; /* that the present node reads without its conversion */
  oct_strbuf nodes, initializers;
  oct_onnx_chunk *chunks;
  size_t n_chunks, chunks_capacity;
  size_t chunk_bytes;
  oct_onnx_shared *shared;
  size_t n_shared, shared_capacity;
} oct_onnx_writer;

/* ---- Wire -------------------------------------------------------------------------------------------------- */
void oct_put_varint(oct_strbuf *out, uint64_t value);
void oct_put_integer(oct_strbuf *out, unsigned number, uint64_t value);
void oct_put_bytes(oct_strbuf *out, unsigned number, const void *data, size_t size);
void oct_put_text(oct_strbuf *out, unsigned number, const char *text);
void oct_put_float(oct_strbuf *out, unsigned number, float value);
/* Appends `inner` as a nested message and empties it. */
void oct_put_message(oct_strbuf *out, unsigned number, oct_strbuf *inner);

/* ---- onnx_emit.c -------------------------------------------------------------------------------------------- */
/* The exporter's hook: outputs that are values of the graph go by their raw names (onnx_quantized.c). */
octet_status oct_onnx_emit(oct_exporter *exporter, const oct_foreign_node *node, const char *const *inputs);
/* A node by the very names given: one output, up to four inputs (NULL ends them), no or some attributes. */
octet_status oct_onnx_emit_simple(oct_onnx_writer *writer, const char *type, const char *const *inputs, const char *output,
                                  const oct_attribute *attributes, int n_attributes);
octet_status oct_onnx_initializer(oct_onnx_writer *writer, const char *name, const oct_tensor *tensor);
/* Takes over the reference to `tensor`, also on failure; equal small tensors share one initializer. NULL on failure. */
const char *oct_onnx_shared_constant(oct_onnx_writer *writer, const char *hint, oct_tensor *tensor);
const char *oct_onnx_constant(oct_exporter *exporter, const char *hint, const oct_tensor *tensor);
/* A name that nothing else has. NULL on failure. */
const char *oct_onnx_fresh_name(oct_onnx_writer *writer, const char *base, const char *suffix);

/* ---- onnx_quantized.c --------------------------------------------------------------------------------------- */
/* The name that a value has where its producer (or the caller, or an initializer) leaves it. */
const char *oct_onnx_raw_name(oct_onnx_writer *writer, const oct_value *value);
const char *oct_onnx_name_of(oct_exporter *exporter, const oct_value *value);
/* A quantize node that does what the parameters of its input ask for: it reads the raw value. */
bool oct_onnx_rounds_alike(const oct_node *node);
static inline const oct_quant *oct_onnx_quant_of(const oct_value *value) { return value->observed_only ? NULL : value->quant; }

/* ---- onnx_dynamic.c ----------------------------------------------------------------------------------------- */
/* true when the node is to be written as integer operator with a range found at run time. */
bool oct_onnx_is_dynamic(const oct_node *node, const char *foreign_name);
octet_status oct_onnx_write_dynamic(oct_onnx_writer *writer, const oct_node *node, const char *foreign_name);

#endif
