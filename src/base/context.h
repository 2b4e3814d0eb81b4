/* The context: error message, warnings, allocation hook, threads, instruction-set cap, progress.
 * Passed first through every fallible call; there is no other state that outlives a call.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_BASE_CONTEXT_H
#define OCT_BASE_CONTEXT_H

#include <stdarg.h>

#include "octet/octet.h"

struct oct_pool;

/* Called with what is being done, how much is done and of how much (total 0: unknown); false cancels the work. */
typedef bool (*oct_progress_fn)(void *user, const char *what, size_t done, size_t total);

struct octet_context {
  octet_status status;
  char message[2048];
  char **warnings;
  size_t n_warnings;
  int threads;           /* at least 1 */
  struct oct_pool *pool; /* made on first use when threads > 1 */
  uint32_t isa_mask;     /* bit per oct_isa that may be used */
  oct_progress_fn progress;
  void *progress_user;
  int64_t allocations_left; /* test hook: this many allocations succeed, then all fail; negative: no limit */
  int64_t allocations_made;
  size_t largest_allocation; /* test hook: bytes; more at once fails; 0: no limit */
};

/* Records a failure and returns `status`. The message says which file, node or tensor, which rule, what to do. */
octet_status oct_fail(octet_context *ctx, octet_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Puts "prefix: " before the recorded message and returns the recorded status; for callers that know the file or node. */
octet_status oct_fail_prefix(octet_context *ctx, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends a warning (kept in the context until cleared). The same text is kept once. */
void oct_warn(octet_context *ctx, const char *format, ...) __attribute__((format(printf, 2, 3)));
void oct_warnings_clear(octet_context *ctx);
/* Reports progress; OCTET_CANCELLED when the caller asked to stop. */
octet_status oct_progress(octet_context *ctx, const char *what, size_t done, size_t total);
const char *oct_status_text(octet_status status);

/* One thread; all instruction sets of the machine, up to the one that the environment variable OCTET_ISA names. When that names
 * none, the call fails and *out is a context nonetheless: it carries the message, and is to be destroyed. */
octet_status oct_context_create(octet_context **out);
void oct_context_destroy(octet_context *ctx);

#define OCT_TRY(expression)                  \
  do {                                       \
    octet_status status_ = (expression);     \
    if (status_ != OCTET_OK) return status_; \
  } while (0)

/* For functions with one exit label: sets `status` and jumps. */
#define OCT_TRY_GOTO(expression, label) \
  do {                                  \
    status = (expression);              \
    if (status != OCTET_OK) goto label; \
  } while (0)

#endif
