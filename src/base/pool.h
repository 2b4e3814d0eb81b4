/* A pool of threads for loops of a few pieces. A worker that the system does not let run in time costs nothing: its piece is done by others, and nobody
 * waits for a thread that has no piece in hand.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_BASE_POOL_H
#define OCT_BASE_POOL_H

#include <stddef.h>

typedef struct oct_pool oct_pool;

/* For `threads` threads, of which the caller is one. Where the system has no more threads to give, there are fewer. NULL: no memory. */
oct_pool *oct_pool_create(size_t threads);
void oct_pool_destroy(oct_pool *pool);         /* NULL is fine */
size_t oct_pool_threads(const oct_pool *pool); /* as asked for */

#define OCT_POOL_PIECES 64

/* piece(user, i) for i in [0, pieces), pieces at least 1, in any order, at most OCT_POOL_PIECES of them; returns when all are done. One caller at a time. */
void oct_pool_run(oct_pool *pool, size_t pieces, void (*piece)(void *user, size_t i), void *user);

#endif
