/* Fuzz target: .npz archives, and single .npy arrays (told apart by their first bytes), from memory.
 * SPDX-License-Identifier: MIT */
#include "formats/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  octet_context *ctx;
  oct_bundle bundle;
  oct_tensor *tensor;
  if (oct_context_create(&ctx) != OCTET_OK) return 0;
  if (size && data[0] == 0x93) {
    (void)oct_npy_read_bytes(ctx, (oct_bytes){data, size}, NULL, "input", &tensor);
    oct_tensor_release(tensor);
  } else {
    (void)oct_npz_read_bytes(ctx, (oct_bytes){data, size}, "input", &bundle);
    oct_bundle_free(&bundle);
  }
  oct_context_destroy(ctx);
  return 0;
}
