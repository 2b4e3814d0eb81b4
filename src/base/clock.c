/* The clock: see clock.h.
 * SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "base/clock.h"

#include <time.h>

int64_t oct_nanoseconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double oct_seconds_now(void) { return 1e-9 * (double)oct_nanoseconds_now(); }
