/* The pool of threads: see pool.h. A word has a bit for each piece that nobody has taken; taking one is a single exchange. Worker k takes piece k, which
 * from loop to loop means much the same part of the data, still in that core's cache; others' pieces only where these have not come after a while.
 * SPDX-License-Identifier: MIT */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/memory.h"

#define SPIN_NS 100000 /* how long a thread looks for work before it sleeps: waking takes 5 to 50 microseconds */
#define TURNS 32       /* of looking, about a microsecond, between two looks at the clock and at others' pieces */

typedef struct worker {
  oct_pool *pool;
  size_t index; /* from 1; the caller is 0 */
  pthread_t thread;
} worker;

struct oct_pool {
  size_t threads, started;
  worker *workers;
  void (*piece)(void *user, size_t i); /* these two belong to whoever took a piece, until it is done */
  void *user;
  pthread_mutex_t lock;
  pthread_cond_t work;
  atomic_size_t asleep;
  atomic_bool ends;
  _Alignas(64) atomic_uint_least64_t left;
  _Alignas(64) atomic_size_t done;
};

static void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/* Does one of the `wanted` pieces, if there is one. */
static bool do_piece(oct_pool *pool, uint64_t wanted) {
  uint64_t left = atomic_load_explicit(&pool->left, memory_order_relaxed);
  int i;
  do {
    if ((left & wanted) == 0) return false;
    i = __builtin_ctzll(left & wanted);
  } while (
      !atomic_compare_exchange_weak_explicit(&pool->left, &left, left & ~((uint64_t)1 << i), memory_order_acquire, memory_order_relaxed));
  pool->piece(pool->user, (size_t)i);
  atomic_fetch_add_explicit(&pool->done, 1, memory_order_release);
  return true;
}

static void sleep_until_work(oct_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  atomic_fetch_add(&pool->asleep, 1); /* before the last look: whoever publishes work after it sees a sleeper */
  while (atomic_load(&pool->left) == 0 && !atomic_load(&pool->ends)) pthread_cond_wait(&pool->work, &pool->lock);
  atomic_fetch_sub(&pool->asleep, 1);
  pthread_mutex_unlock(&pool->lock);
}

/* Looks for work for a while. */
static bool find_work(oct_pool *pool, uint64_t own) {
  for (int64_t end = oct_nanoseconds_now() + SPIN_NS; oct_nanoseconds_now() < end;) {
    for (int i = 0; i < TURNS; i++) {
      if (do_piece(pool, own)) return true;
      pause_briefly();
    }
    if (do_piece(pool, ~own)) return true;
  }
  return false;
}

static void *work(void *argument) {
  const worker *w = argument;
  while (!atomic_load(&w->pool->ends))
    if (!find_work(w->pool, (uint64_t)1 << w->index)) sleep_until_work(w->pool);
  return NULL;
}

static void wake_all(oct_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->lock);
}

void oct_pool_run(oct_pool *pool, size_t pieces, void (*piece)(void *user, size_t i), void *user) {
  pool->piece = piece;
  pool->user = user;
  atomic_store_explicit(&pool->done, 1, memory_order_relaxed); /* the caller's own, which nobody else takes */
  atomic_store(&pool->left, (pieces < OCT_POOL_PIECES ? ((uint64_t)1 << pieces) : 0) - 2);
  if (atomic_load(&pool->asleep) > 0) wake_all(pool);
  piece(user, 0);
  while (do_piece(pool, ~(uint64_t)0)) continue;
  for (int turns = 0; atomic_load_explicit(&pool->done, memory_order_acquire) < pieces; turns++) {
    if (turns < 1000) pause_briefly();
    else sched_yield(); /* the piece's thread may wait for this very core */
  }
}

oct_pool *oct_pool_create(size_t threads) {
  oct_pool *pool = oct_alloc(NULL, 1, sizeof *pool);
  if (!pool) return NULL;
  pool->threads = threads;
  pool->workers = oct_alloc(NULL, threads, sizeof *pool->workers);
  bool lock = pool->workers && pthread_mutex_init(&pool->lock, NULL) == 0;
  if (!lock || pthread_cond_init(&pool->work, NULL) != 0) {
    if (lock) pthread_mutex_destroy(&pool->lock);
    oct_free(pool->workers);
    oct_free(pool);
    return NULL;
  }
  for (worker *w = pool->workers; pool->started + 1 < threads && pool->started + 1 < OCT_POOL_PIECES; w++) {
    *w = (worker){.pool = pool, .index = ++pool->started};
    if (pthread_create(&w->thread, NULL, work, w) == 0) continue;
    pool->started--;
    break;
  }
  return pool;
}

void oct_pool_destroy(oct_pool *pool) {
  if (!pool) return;
  atomic_store(&pool->ends, true);
  wake_all(pool);
  for (size_t i = 0; i < pool->started; i++) pthread_join(pool->workers[i].thread, NULL);
  pthread_cond_destroy(&pool->work);
  pthread_mutex_destroy(&pool->lock);
  oct_free(pool->workers);
  oct_free(pool);
}

size_t oct_pool_threads(const oct_pool *pool) { return pool->threads; }
