/* Public functions: context and version.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "api.h"
#include "base/cpu.h"

octet_status octet_context_create(octet_context **out) { return oct_context_create(out); }
void octet_context_destroy(octet_context *ctx) { oct_context_destroy(ctx); }
const char *octet_status_name(octet_status status) { return oct_status_text(status); }
const char *octet_context_message(const octet_context *ctx) { return ctx ? ctx->message : "out of memory"; }
size_t octet_context_warning_count(const octet_context *ctx) { return ctx->n_warnings; }
const char *octet_context_warning(const octet_context *ctx, size_t index) { return index < ctx->n_warnings ? ctx->warnings[index] : ""; }
void octet_context_clear_warnings(octet_context *ctx) { oct_warnings_clear(ctx); }

octet_status octet_context_set_threads(octet_context *ctx, int threads) {
  if (threads < 1 || threads > 256) return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "threads: %d is not in 1 to 256", threads);
  ctx->threads = threads;
  return OCTET_OK;
}

octet_status octet_context_set_isa(octet_context *ctx, const char *isa) {
  uint32_t mask;
  if (!isa || !oct_isa_cap(isa, &mask))
    return oct_fail(ctx, OCTET_INVALID_ARGUMENT,
                    "unknown instruction set \"%s\": scalar, avx2, avxvnni, avx512, avx512vbmi, avx512vnni or amx", isa ? isa : "");
  ctx->isa_mask = mask & oct_isa_detect();
  return OCTET_OK;
}

const char *octet_context_isa(const octet_context *ctx) {
  int widest = OCT_ISA_SCALAR;
  for (int i = 0; i < OCT_ISA_COUNT; i++)
    if (oct_isa_allowed(ctx->isa_mask, (oct_isa)i)) widest = i;
  return oct_isa_name((oct_isa)widest);
}

void octet_context_set_progress(octet_context *ctx, octet_progress_fn progress, void *user) {
  ctx->progress = progress;
  ctx->progress_user = user;
}

const char *octet_version(void) { return OCTET_VERSION; }

octet_status oct_options_take(octet_context *ctx, const void *given, void *own, size_t own_size) {
  size_t size;
  if (!given) return OCTET_OK;
  memcpy(&size, given, sizeof size);
  if (size < sizeof size || size > own_size)
    return oct_fail(ctx, OCTET_INVALID_ARGUMENT,
                    "options with a struct_size of %zu (this version knows %zu): begin with the ..._default() function", size, own_size);
  memcpy(own, given, size);
  return OCTET_OK;
}

octet_status oct_each_word(octet_context *ctx, const char *list, octet_status (*each)(octet_context *ctx, void *user, const char *word),
                           void *user) {
  while (list && *list) {
    size_t length = strcspn(list, ",");
    char word[128];
    if (length >= sizeof word) return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "\"%.40s...\" is too long for a name", list);
    memcpy(word, list, length);
    word[length] = 0;
    if (length) OCT_TRY(each(ctx, user, word));
    list += length + (list[length] == ',');
  }
  return OCTET_OK;
}
