/* The one clock of measurements: it never goes back.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_BASE_CLOCK_H
#define OCT_BASE_CLOCK_H

#include <stdint.h>

/* Since some fixed moment. */
int64_t oct_nanoseconds_now(void);
double oct_seconds_now(void);

#endif
