/* Fuzz target: ONNX models from memory, and what was read written again; tensors as test data hold them.
 * SPDX-License-Identifier: MIT */
#include "formats/onnx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  octet_context *ctx;
  oct_graph *graph;
  oct_tensor *tensor;
  char *name;
  if (oct_context_create(&ctx) != OCTET_OK) return 0;
  oct_bytes bytes = {data, size};
  if (oct_onnx_read_bytes(ctx, bytes, NULL, NULL, &graph) == OCTET_OK) {
    oct_onnx_write(ctx, graph, "/dev/null");
    oct_graph_destroy(graph);
  }
  if (oct_onnx_read_tensor_bytes(ctx, bytes, &tensor, &name) == OCTET_OK) {
    oct_tensor_release(tensor);
    oct_free(name);
  }
  oct_context_destroy(ctx);
  return 0;
}
