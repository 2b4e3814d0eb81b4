/* Turning elements of the other byte order around, for containers that may be big-endian.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_BYTEORDER_H
#define OCT_FORMATS_BYTEORDER_H

#include <stddef.h>
#include <stdint.h>

/* Reverses the bytes of each whole element of `size` bytes, in place. */
static inline void oct_swap_elements(void *data, size_t bytes, size_t size) {
  uint8_t *p = (uint8_t *)data;
  for (size_t i = 0; size > 1 && size <= bytes && i <= bytes - size; i += size) {
    for (size_t b = 0; b < size / 2; b++) {
      uint8_t byte = p[i + b];
      p[i + b] = p[i + size - 1 - b];
      p[i + size - 1 - b] = byte;
    }
  }
}

#endif
