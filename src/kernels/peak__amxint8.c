/* Peak of the tile products of 8-bit integers.
 * SPDX-License-Identifier: MIT */
#include "kernels/peak.h"

#include <immintrin.h>
#include <string.h>

#define TILE_BYTES 1024

/* The layout that the instruction reads: eight tiles of 16 rows of 64 bytes. */
static void configure(void) {
  uint8_t config[64] __attribute__((aligned(64))) = {1};
  for (int i = 0; i < 8; i++) config[16 + 2 * i] = 64, config[48 + i] = 16;
  _tile_loadconfig(config);
}

static uint32_t dot_i8(size_t rounds, const void *operands) {
  uint8_t x[TILE_BYTES] __attribute__((aligned(64)));
  uint32_t sums[4][TILE_BYTES / 4], sum = 0;
  for (int i = 0; i < TILE_BYTES; i += OCT_PEAK_OPERAND_BYTES) memcpy(x + i, operands, OCT_PEAK_OPERAND_BYTES);
  configure();
  _tile_zero(0);
  _tile_loadd(1, x, 64);
  _tile_loadd(2, x, 0);
  _tile_loadd(3, x + 64, 0);
  _tile_loadd(4, x, 64);
  _tile_loadd(5, x, 64);
  for (size_t r = 0; r < rounds; r++) {
    _tile_dpbusd(0, 4, 5);
    _tile_dpbusd(1, 4, 5);
    _tile_dpbusd(2, 4, 5);
    _tile_dpbusd(3, 4, 5);
  }
  _tile_stored(0, sums[0], 64);
  _tile_stored(1, sums[1], 64);
  _tile_stored(2, sums[2], 64);
  _tile_stored(3, sums[3], 64);
  _tile_release();
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < TILE_BYTES / 4; k++) sum ^= sums[i][k];
  return sum;
}

const oct_peak_kernel oct_peak__amxint8 = {
    .name = "peak__amxint8",
    .isa = OCT_ISA_AMX,
    .dot_i8 = dot_i8,
    .dot_macs = 4 * 16 * 16 * 64,
};
