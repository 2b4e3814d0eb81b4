/* Fuzz target: tuning logs from memory. What a log says is asked for; a log that is one takes new entries, says them again, and is written.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/tune_log.h"

#define SECTION "a processor, avx2, 1" /* as the seeds have it */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(const oct_tune_log *log, const char *key) {
  const char *kernel = oct_tune_log_kernel(log, key);
  double ms = oct_tune_log_time(log, key, kernel ? kernel : "conv_i8_direct__scalar");
  int64_t chunk = oct_tune_log_chunk(log, key);
  if (!(ms >= 0 && ms < 1e9) || chunk < 0 || chunk > INT32_MAX) abort();
}

static void fault(const octet_context *ctx, const char *what) {
  fprintf(stderr, "%s: %s\n", what, ctx->message);
  abort();
}

/* New entries; false when the log is set aside: that takes none. */
static bool put(octet_context *ctx, oct_tune_log *log) {
  static const oct_timed kernels[] = {{"conv_i8_direct_3x32__avx2", 0.5}, {"conv_i8_direct__scalar", 2}}, chunks[] = {{"4", 1.5}};
  octet_status status = oct_tune_log_put_kernel(ctx, log, "new layer", kernels, 2, 0);
  if (status == OCTET_OK) status = oct_tune_log_put_chunk(ctx, log, "model", chunks, 1, 0);
  if (status != OCTET_OK) fault(ctx, "a log takes no entry");
  const char *kernel = oct_tune_log_kernel(log, "new layer");
  if (!kernel) return false;
  if (strcmp(kernel, kernels[0].name) != 0 || oct_tune_log_time(log, "new layer", kernel) != 0.5 || oct_tune_log_chunk(log, "model") != 4)
    fault(ctx, "a log says something else than was put into it");
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  octet_context *ctx;
  oct_tune_log *log;
  if (oct_context_create(&ctx) != OCTET_OK) return 0;
  if (oct_tune_log_read_bytes(ctx, (oct_bytes){data, size}, "/dev/null", SECTION, &log) == OCTET_OK) {
    ask(log, "layer");
    ask(log, "model");
    octet_status expected = put(ctx, log) ? OCTET_OK : OCTET_UNSUPPORTED;
    if (oct_tune_log_save(ctx, log) != expected) fault(ctx, "writing a log ends in another way than it should");
    oct_tune_log_close(log);
  }
  oct_context_destroy(ctx);
  return 0;
}
