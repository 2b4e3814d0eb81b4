/* Fuzz target: IDX files, plain and gzipped, from memory.
 * SPDX-License-Identifier: MIT */
#include "formats/idx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  octet_context *ctx;
  oct_tensor *tensor;
  if (oct_context_create(&ctx) != OCTET_OK) return 0;
  (void)oct_idx_read_bytes(ctx, (oct_bytes){data, size}, NULL, "input", &tensor);
  oct_tensor_release(tensor);
  oct_context_destroy(ctx);
  return 0;
}
