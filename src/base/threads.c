/* Parallel loops on the pool: one task per contiguous piece, so that the piece's number is the worker's.
 * SPDX-License-Identifier: MIT */
#include "base/threads.h"

#include "base/pool.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
typedef unsigned float_mode;
static float_mode get_float_mode(void) { return _mm_getcsr() & ~0x3fu; /* without the sticky exception bits */ }
static void set_float_mode(float_mode mode) { _mm_setcsr(mode); }
#else
#include <fenv.h>
typedef int float_mode;
static float_mode get_float_mode(void) { return fegetround(); }
static void set_float_mode(float_mode mode) { fesetround(mode); }
#endif

/* Workers keep the rounding and flush modes of whoever made the pool; each piece takes the caller's instead. */
typedef struct parallel_loop {
  oct_parallel_fn body;
  void *user;
  size_t count, pieces;
  float_mode mode;
} parallel_loop;

static void run_piece(void *user, size_t piece) {
  const parallel_loop *loop = user;
  size_t share = loop->count / loop->pieces, rest = loop->count % loop->pieces;
  size_t begin = piece * share + (piece < rest ? piece : rest), end = begin + share + (piece < rest);
  if (get_float_mode() != loop->mode) set_float_mode(loop->mode);
  loop->body(loop->user, begin, end, piece);
}

/* The pool for the present number of threads, or NULL. */
static oct_pool *pool_of(octet_context *ctx) {
  if (ctx->pool && oct_pool_threads(ctx->pool) != (size_t)ctx->threads) {
    oct_pool_destroy(ctx->pool);
    ctx->pool = NULL;
  }
  if (!ctx->pool) ctx->pool = oct_pool_create((size_t)ctx->threads);
  return ctx->pool;
}

void oct_parallel(octet_context *ctx, size_t count, size_t grain, oct_parallel_fn body, void *user) {
  if (count == 0) return;
  if (grain == 0) grain = 1;
  size_t pieces = count / grain, threads = ctx->threads > 1 ? (size_t)ctx->threads : 1;
  if (threads > OCT_POOL_PIECES) threads = OCT_POOL_PIECES;
  if (pieces > threads) pieces = threads;
  oct_pool *pool = pieces > 1 ? pool_of(ctx) : NULL;
  if (!pool) {
    body(user, 0, count, 0);
    return;
  }
  parallel_loop loop = {body, user, count, pieces, get_float_mode()};
  oct_pool_run(pool, pieces, run_piece, &loop);
}
