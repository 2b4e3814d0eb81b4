/* What the tests of kernels share: random numbers that a seed repeats, and memory whose end is guarded by an unreadable page.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_TESTS_KERNEL_CHECKS_H
#define OCT_TESTS_KERNEL_CHECKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/kernels.h"

static uint64_t random_state;

static inline uint32_t random_u32(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (uint32_t)(random_state >> 32);
}
static inline int64_t between(int64_t low, int64_t high) { return low + (int64_t)(random_u32() % (uint32_t)(high - low + 1)); }
static inline bool chance(int percent) { return between(1, 100) <= percent; }
static inline void random_seed(uint64_t seed) {
  random_state = (seed + 1) * 0x9E3779B97F4A7C15u;
  for (int i = 0; i < 8; i++) random_u32();
}
#define PICK(...) (((const int[]){__VA_ARGS__})[random_u32() % (sizeof((const int[]){__VA_ARGS__}) / sizeof(int))])

/* Elements between pixels: none, some, or so many that pixels fill vectors, where kernels have ways of their own. */
static inline int random_gap(int64_t channels, int percent) {
  if (!chance(percent)) return 0;
  int64_t unit = PICK(1, 1, 16, 32, 64);
  return unit == 1 ? PICK(1, 3, 4, 13, 16, 64) : (int)((unit - channels % unit) % unit);
}

/* `quick`, or `lengthy` with OCTET_LONG=1. */
static inline int repeats(int quick, int lengthy) {
  const char *is_long = getenv("OCTET_LONG");
  return is_long && *is_long == '1' ? lengthy : quick;
}

/* How often each row is compared with its reference on random and extreme problems: a sample, or all that a release wants. */
static inline long comparisons_wanted(void) { return repeats(200, 20000); }

/* The random cases to run: all, or the one that OCTET_CASE names. */
static inline void case_range(int count, uint64_t *first, uint64_t *last) {
  const char *one = getenv("OCTET_CASE");
  *first = one ? strtoull(one, NULL, 10) : 0;
  *last = one ? *first + 1 : (uint64_t)count;
}

typedef struct guarded {
  uint8_t *map, *data; /* the mapping's begin; the wanted bytes in it */
  size_t mapped;
} guarded;

/* `bytes` that end exactly `slack` bytes before an unreadable page. All is filled with 0xff: as floats, NaN. */
static inline guarded guarded_create(size_t bytes, size_t slack) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (bytes + slack + page - 1) / page * page;
  guarded g = {.mapped = body + page};
  g.map = (uint8_t *)mmap(NULL, g.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(g.map != (uint8_t *)MAP_FAILED);
  memset(g.map, 0xff, body);
  assert_int_equal(mprotect(g.map + body, page, PROT_NONE), 0);
  g.data = g.map + body - slack - bytes;
  return g;
}
static inline float *guarded_floats(const guarded *g) { return (float *)(void *)g->data; }
static inline void guarded_destroy(guarded *g) { munmap(g->map, g->mapped); }

static inline void *aligned(size_t bytes) {
  void *p = NULL;
  assert_int_equal(posix_memalign(&p, 64, bytes ? bytes : 1), 0);
  return p;
}

/* ---- Rows of kernels ---- */

static inline bool isa_here(oct_isa isa) {
  static uint32_t here; /* asked for once: the question is slow in a virtual machine */
  if (!here) here = oct_isa_detect() | 1u << OCT_ISA_SCALAR;
  return oct_isa_allowed(here, isa);
}

/* A row that runs on this machine, and, with OCTET_ROW=TEXT, whose name contains that. */
static inline bool row_here(const char *name, oct_isa isa) {
  const char *only = getenv("OCTET_ROW");
  return isa_here(isa) && (!only || strstr(name, only));
}

/* The vector rows that this machine can run, the scalar one first. */
enum { MAX_ROWS = 16 };
static inline size_t vector_rows_here(const oct_vector_kernels *rows[MAX_ROWS]) {
  size_t count = 1;
  for (const oct_vector_kernels *const *k = oct_vector_kernel_rows; *k; k++) {
    if ((*k)->isa == OCT_ISA_SCALAR) rows[0] = *k;
    else if (isa_here((*k)->isa) && count < MAX_ROWS) rows[count++] = *k;
  }
  return count;
}

/* ---- Comparisons, counted ---- */

typedef struct tally {
  const char *row, *what; /* what: the function in it */
  long comparisons;
} tally;

enum { MAX_TALLIES = 128 };
static tally tallies[MAX_TALLIES];

static inline tally *tally_of(const char *row, const char *what) {
  tally *t = tallies;
  while (t->row && (strcmp(t->row, row) != 0 || strcmp(t->what, what) != 0)) t++;
  assert_true(t < tallies + MAX_TALLIES - 1); /* the last one stays empty */
  t->row = row, t->what = what;
  return t;
}

static inline void count_comparison(const char *row, const char *what) { tally_of(row, what)->comparisons++; }

/* Every function of the list was compared often enough in each of the rows: a test that compared nothing would pass. */
static inline void check_comparisons(const oct_vector_kernels *const *rows, size_t n_rows, const char *const *what, size_t n) {
  if (getenv("OCTET_CASE")) skip();
  for (size_t k = 0; k < n_rows; k++)
    for (size_t i = 0; i < n; i++) {
      long comparisons = tally_of(rows[k]->name, what[i])->comparisons;
      if (comparisons >= comparisons_wanted()) continue;
      fail_msg("%s: %s was compared %ld times, not %ld", rows[k]->name, what[i], comparisons, comparisons_wanted());
    }
}

#endif
