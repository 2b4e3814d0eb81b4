/* The pool of threads: each piece of each loop runs once, whoever comes first, and a thread that is not there is not waited for.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/pool.h"

typedef struct sums {
  unsigned of[OCT_POOL_PIECES];
  unsigned add;
} sums;

static void add_to_piece(void *user, size_t i) {
  sums *s = user;
  s->of[i] += s->add;
}

static void test_every_piece_once(void **state) {
  (void)state;
  for (size_t threads = 1; threads <= OCT_POOL_PIECES + 3; threads = threads < 4 ? threads + 1 : threads * 2 - 1) {
    oct_pool *pool = oct_pool_create(threads);
    assert_non_null(pool);
    assert_int_equal(oct_pool_threads(pool), threads);
    for (unsigned loop = 0; loop < 500; loop++) {
      sums s = {.add = 1 + loop % 7};
      size_t pieces = 1 + loop % OCT_POOL_PIECES;
      oct_pool_run(pool, pieces, add_to_piece, &s);
      for (size_t i = 0; i < OCT_POOL_PIECES; i++) assert_int_equal(s.of[i], i < pieces ? s.add : 0);
    }
    oct_pool_destroy(pool);
  }
}

/* Threads that went to sleep are woken. */
static void test_after_a_pause(void **state) {
  (void)state;
  oct_pool *pool = oct_pool_create(3);
  assert_non_null(pool);
  for (int loop = 0; loop < 20; loop++) {
    sums s = {.add = 1};
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    oct_pool_run(pool, 3, add_to_piece, &s);
    for (size_t i = 0; i < 3; i++) assert_int_equal(s.of[i], 1);
  }
  oct_pool_destroy(pool);
}

typedef struct meeting {
  atomic_int there;
} meeting;

/* Returns only when both pieces run at the same time. */
static void meet(void *user, size_t i) {
  meeting *m = user;
  (void)i;
  atomic_fetch_add(&m->there, 1);
  while (atomic_load(&m->there) < 2) nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
}

static void test_pieces_run_together(void **state) {
  (void)state;
  oct_pool *pool = oct_pool_create(2);
  assert_non_null(pool);
  for (int loop = 0; loop < 50; loop++) {
    meeting m = {0};
    oct_pool_run(pool, 2, meet, &m);
    assert_int_equal(atomic_load(&m.there), 2);
  }
  oct_pool_destroy(pool);
}

static void test_nothing_to_destroy(void **state) {
  (void)state;
  oct_pool_destroy(NULL);
  oct_pool_destroy(oct_pool_create(4));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_piece_once), cmocka_unit_test(test_after_a_pause),
                                     cmocka_unit_test(test_pieces_run_together), cmocka_unit_test(test_nothing_to_destroy)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
