/* Parallel loops over the context's one pool. With one thread the body runs in the caller, with no synchronization.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_BASE_THREADS_H
#define OCT_BASE_THREADS_H

#include "base/context.h"

/* Body of a loop over [begin, end) of the range; `worker` is in [0, ctx->threads). */
typedef void (*oct_parallel_fn)(void *user, size_t begin, size_t end, size_t worker);

/* Splits [0, count) into at most ctx->threads contiguous pieces of at least `grain` items. Never fails: falls back to one thread.
 * The body runs with the caller's rounding and flush modes; it must not call oct_parallel() itself. */
void oct_parallel(octet_context *ctx, size_t count, size_t grain, oct_parallel_fn body, void *user);

#endif
