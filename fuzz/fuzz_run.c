/* Fuzz target: an ONNX model from memory, all the way: passes, session, one run; then quantized in a mode that the input's size chooses, and run
 * again. Memory and arithmetic are bounded; that is the only thing left out.
 * SPDX-License-Identifier: MIT */
#include "exec/session.h"
#include "formats/onnx.h"
#include "passes/pass.h"
#include "quantize/quantize.h"

#define LARGEST_ALLOCATION ((size_t)1 << 18) /* bytes */
#define LARGEST_MACS 2e7                     /* of a graph that is run */
#define LARGEST_SUM ((size_t)1 << 24)        /* bytes of all values together */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct samples {
  oct_named_tensor *inputs;
  oct_tensor *headers;
  size_t count;
} samples;

static octet_status one_batch(octet_context *ctx, void *user, size_t index, const oct_named_tensor **inputs, size_t *count) {
  const samples *s = user;
  (void)ctx;
  *inputs = s->inputs;
  *count = index == 0 ? s->count : 0;
  return OCTET_OK;
}

static bool is_small(const oct_session *s) {
  double macs = 0;
  size_t bytes = 0;
  for (size_t i = 0; i < s->graph->n_nodes; i++) {
    const oct_node *node = s->graph->nodes[i];
    macs += node->op->cost ? node->op->cost(node).macs + node->op->cost(node).flops : 0;
  }
  for (size_t i = 0; i < s->graph->n_values; i++) {
    int64_t count = oct_shape_count(&s->graph->values[i]->shape);
    bytes += count > 0 ? (size_t)count * 8 : 0;
  }
  return macs <= LARGEST_MACS && bytes <= LARGEST_SUM;
}

static void fill(const oct_session *s) {
  uint32_t state = 1;
  for (size_t i = 0; i < oct_session_inputs(s); i++) {
    oct_session_port port = oct_session_input(s, i);
    int64_t count = oct_shape_count(&port.value->shape);
    for (int64_t k = 0; k < count; k++) {
      state = state * 1664525u + 1013904223u;
      if (oct_dtype_is_float(port.value->dtype)) oct_set_f64(port.data, port.value->dtype, k, (double)(state >> 8) / 8388608.0 - 1);
      else if (port.value->dtype == OCT_BOOL) ((uint8_t *)port.data)[k] = state >> 31;
      else oct_set_i64(port.data, port.value->dtype, k, state >> 30);
    }
  }
}

static void run(octet_context *ctx, const oct_graph *graph) {
  oct_session_options options = oct_session_options_default();
  oct_session *s;
  if (oct_session_create(ctx, graph, &options, &s) != OCTET_OK) return;
  if (is_small(s)) {
    fill(s);
    (void)oct_session_run(s);
  }
  oct_session_destroy(s);
}

/* The inputs of a session as one batch of samples. */
static octet_status take_samples(octet_context *ctx, const oct_session *s, samples *out) {
  out->inputs = oct_alloc(ctx, oct_session_inputs(s) + 1, sizeof *out->inputs);
  out->headers = oct_alloc(ctx, oct_session_inputs(s) + 1, sizeof *out->headers);
  if (!out->inputs || !out->headers) return OCTET_OUT_OF_MEMORY;
  fill(s);
  for (; out->count < oct_session_inputs(s); out->count++) {
    oct_session_port port = oct_session_input(s, out->count);
    out->headers[out->count] =
        (oct_tensor){.dtype = port.value->dtype, .shape = port.value->shape, .data = port.data, .bytes = port.bytes, .references = 1};
    out->inputs[out->count] = (oct_named_tensor){.name = port.value->name, .tensor = &out->headers[out->count]};
  }
  return OCTET_OK;
}

static void quantize(octet_context *ctx, const oct_graph *graph, size_t choice) {
  static const oct_quantize_mode modes[] = {OCT_MODE_INT8, OCT_MODE_DYNAMIC, OCT_MODE_WEIGHT_ONLY, OCT_MODE_FP16};
  oct_session_options session = oct_session_options_default();
  oct_quantize_options options = oct_quantize_options_default();
  oct_session *s;
  samples list = {0};
  oct_graph *quantized = NULL;
  oct_quantize_report report = {0};
  if (oct_session_create(ctx, graph, &session, &s) != OCTET_OK) return;
  options.mode = modes[choice % 4];
  options.observer = (oct_observer_kind)(choice / 4 % OCT_OBSERVER_KINDS);
  if (is_small(s) && take_samples(ctx, s, &list) == OCTET_OK &&
      oct_quantize_graph(ctx, graph, &options, one_batch, &list, &quantized, &report) == OCTET_OK) {
    run(ctx, quantized);
    (void)oct_onnx_write(ctx, quantized, "/dev/null");
  }
  oct_quantize_report_free(&report);
  oct_graph_destroy(quantized);
  oct_free(list.inputs);
  oct_free(list.headers);
  oct_session_destroy(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  octet_context *ctx;
  oct_graph *graph;
  if (oct_context_create(&ctx) != OCTET_OK) return 0;
  ctx->largest_allocation = LARGEST_ALLOCATION;
  if (oct_onnx_read_bytes(ctx, (oct_bytes){data, size}, NULL, NULL, &graph) == OCTET_OK) {
    run(ctx, graph);
    quantize(ctx, graph, size);
    if (oct_passes_run(ctx, graph, NULL) == OCTET_OK) run(ctx, graph);
    oct_graph_destroy(graph);
  }
  oct_context_destroy(ctx);
  return 0;
}
