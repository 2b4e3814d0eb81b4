/* Reading energy counters: see energy.h. Zones below a package (cores, graphics) are part of it, "psys" would count packages twice: neither is read.
 * SPDX-License-Identifier: MIT */
#include "base/energy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096

/* The first line of FOLDER/intel-rapl:ZONE/NAME; an errno, or 0. */
static int read_line(const char *folder, int zone, const char *name, char line[64]) {
  char path[PATH_BYTES];
  if (snprintf(path, sizeof path, "%s/intel-rapl:%d/%s", folder, zone, name) >= (int)sizeof path) return ENAMETOOLONG;
  FILE *file = fopen(path, "r");
  if (!file) return errno ? errno : EIO;
  char *got = fgets(line, 64, file);
  fclose(file);
  if (!got) return EIO;
  line[strcspn(line, "\n")] = 0;
  return 0;
}

static int read_number(const char *folder, int zone, const char *name, uint64_t *out) {
  char line[64], *end;
  int error = read_line(folder, zone, name, line);
  if (error) return error;
  *out = strtoull(line, &end, 10);
  return end == line || *end ? EIO : 0;
}

const char *oct_energy_read(const char *folder, oct_energy_reading *out) {
  char name[64];
  int refused = 0;
  *out = (oct_energy_reading){0};
  for (int zone = 0; zone < OCT_ENERGY_ZONES; zone++) {
    if (read_line(folder, zone, "name", name) || strncmp(name, "package", 7) != 0) continue;
    uint64_t microjoules, range = 0;
    int error = read_number(folder, zone, "energy_uj", &microjoules);
    if (error == EACCES || error == EPERM) refused = 1;
    if (error) continue;
    (void)read_number(folder, zone, "max_energy_range_uj", &range);
    out->zone[out->zones].range = range;
    out->zone[out->zones++].microjoules = microjoules;
  }
  if (out->zones > 0) return NULL;
  if (refused) return "the kernel lets only root read the energy counters (intel-rapl:*/energy_uj)";
  return "the kernel offers no energy counters (no intel-rapl package under /sys/class/powercap), as in most virtual machines";
}

double oct_energy_between(const oct_energy_reading *before, const oct_energy_reading *after) {
  double joules = 0;
  for (int i = 0; i < before->zones && i < after->zones; i++) {
    uint64_t a = before->zone[i].microjoules, b = after->zone[i].microjoules, range = after->zone[i].range;
    joules += 1e-6 * (double)(b >= a ? b - a : range > a ? range - a + b : 0);
  }
  return joules;
}
