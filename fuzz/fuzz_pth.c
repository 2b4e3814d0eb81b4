/* Fuzz target: PyTorch checkpoints of both forms, from memory.
 * SPDX-License-Identifier: MIT */
#include "formats/torch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  octet_context *ctx;
  oct_bundle bundle;
  if (oct_context_create(&ctx) != OCTET_OK) return 0;
  (void)oct_torch_read_bytes(ctx, (oct_bytes){data, size}, "input", &bundle);
  oct_bundle_free(&bundle);
  oct_context_destroy(ctx);
  return 0;
}
