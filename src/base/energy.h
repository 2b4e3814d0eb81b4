/* Energy counters of the processor packages, where Linux offers them (powercap, RAPL): what is read is joules of the whole package, whoever uses it.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_BASE_ENERGY_H
#define OCT_BASE_ENERGY_H

#include <stdint.h>

#define OCT_ENERGY_FOLDER "/sys/class/powercap"
#define OCT_ENERGY_ZONES 16

typedef struct oct_energy_reading {
  int zones;
  struct {
    uint64_t microjoules, range; /* the counter starts again at 0 after `range` */
  } zone[OCT_ENERGY_ZONES];
} oct_energy_reading;

/* Reads FOLDER/intel-rapl:N of every package. NULL, or why it cannot. */
const char *oct_energy_read(const char *folder, oct_energy_reading *out);
/* Joules from `before` to `after`, which must not be so far apart that a counter went round twice (minutes). */
double oct_energy_between(const oct_energy_reading *before, const oct_energy_reading *after);

#endif
