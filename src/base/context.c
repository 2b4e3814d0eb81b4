/* The context: the message of the last failure, warnings, progress, and what the environment sets.
 * SPDX-License-Identifier: MIT */
#include "base/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/pool.h"

#define MAX_WARNINGS 1000 /* an input that warns at every node must not fill memory */

/* Formats into `text`; an over-long text ends in "...", and control characters (from names in files) become '?'. */
static void format_text(char *text, size_t size, const char *format, va_list args) {
  int length = vsnprintf(text, size, format, args);
  if (length < 0) snprintf(text, size, "%s", format);
  if (length >= (int)size) memcpy(text + size - 4, "...", 4);
  for (unsigned char *p = (unsigned char *)text; *p; p++)
    if ((*p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f) *p = '?';
}

octet_status oct_fail(octet_context *ctx, octet_status status, const char *format, ...) {
  if (!ctx) return status;
  char text[sizeof ctx->message]; /* the arguments may point into the old message */
  va_list args;
  va_start(args, format);
  format_text(text, sizeof text, format, args);
  va_end(args);
  memcpy(ctx->message, text, sizeof text);
  ctx->status = status;
  return status;
}

octet_status oct_fail_prefix(octet_context *ctx, const char *format, ...) {
  char prefix[1024];
  va_list args;
  va_start(args, format);
  format_text(prefix, sizeof prefix, format, args);
  va_end(args);
  return oct_fail(ctx, ctx->status, "%s: %s", prefix, ctx->message);
}

/* Room for one more warning: the array doubles at each power of two. */
static bool grow_warnings(octet_context *ctx) {
  size_t n = ctx->n_warnings;
  if (n & (n - 1)) return true;
  char **grown = oct_alloc(ctx, n ? 2 * n : 1, sizeof *grown);
  if (!grown) return false;
  if (n) memcpy(grown, ctx->warnings, n * sizeof *grown);
  oct_free(ctx->warnings);
  ctx->warnings = grown;
  return true;
}

void oct_warn(octet_context *ctx, const char *format, ...) {
  char text[sizeof ctx->message];
  va_list args;
  va_start(args, format);
  format_text(text, sizeof text, format, args);
  va_end(args);
  if (ctx->n_warnings > MAX_WARNINGS) return;
  if (ctx->n_warnings == MAX_WARNINGS) snprintf(text, sizeof text, "further warnings are not kept");
  for (size_t i = 0; i < ctx->n_warnings; i++)
    if (strcmp(ctx->warnings[i], text) == 0) return;
  char *copy = grow_warnings(ctx) ? oct_strdup(ctx, text) : NULL;
  if (copy) ctx->warnings[ctx->n_warnings++] = copy;
}

void oct_warnings_clear(octet_context *ctx) {
  for (size_t i = 0; i < ctx->n_warnings; i++) oct_free(ctx->warnings[i]);
  oct_free(ctx->warnings);
  ctx->warnings = NULL;
  ctx->n_warnings = 0;
}

octet_status oct_progress(octet_context *ctx, const char *what, size_t done, size_t total) {
  if (!ctx->progress || ctx->progress(ctx->progress_user, what, done, total)) return OCTET_OK;
  if (total) return oct_fail(ctx, OCTET_CANCELLED, "%s: cancelled at %zu of %zu", what, done, total);
  return oct_fail(ctx, OCTET_CANCELLED, "%s: cancelled", what);
}

const char *oct_status_text(octet_status status) {
  switch (status) {
#define X(name, number, text) \
  case OCTET_##name: return text;
    OCTET_STATUS_LIST(X)
#undef X
  }
  return "unknown status";
}

static octet_status apply_isa_cap(octet_context *ctx) {
  const char *name = getenv("OCTET_ISA");
  uint32_t cap;
  if (!name || !*name) return OCTET_OK;
  if (!oct_isa_cap(name, &cap)) {
#define X(isa, text) " " text
    return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "OCTET_ISA=%s: unknown instruction set; known are:" OCT_ISA_LIST(X), name);
#undef X
  }
  ctx->isa_mask &= cap;
  return OCTET_OK;
}

octet_status oct_context_create(octet_context **out) {
  *out = NULL;
  octet_context *ctx = oct_alloc(NULL, 1, sizeof *ctx);
  if (!ctx) return OCTET_OUT_OF_MEMORY;
  ctx->threads = 1;
  ctx->allocations_left = -1;
  ctx->isa_mask = oct_isa_detect();
  *out = ctx;
  return apply_isa_cap(ctx);
}

void oct_context_destroy(octet_context *ctx) {
  if (!ctx) return;
  oct_pool_destroy(ctx->pool);
  oct_warnings_clear(ctx);
  oct_free(ctx);
}
