/* Fuzz target: PNG and JPEG pictures, from memory.
 * SPDX-License-Identifier: MIT */
#include "formats/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  octet_context *ctx;
  oct_image image;
  if (oct_context_create(&ctx) != OCTET_OK) return 0;
  (void)oct_image_read_bytes(ctx, (oct_bytes){data, size}, "input", &image);
  oct_image_free(&image);
  oct_context_destroy(ctx);
  return 0;
}
