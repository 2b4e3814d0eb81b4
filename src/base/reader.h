/* Bounds-checked reading of untrusted bytes. A read past the end returns false/zero and sets `failed`; nothing is
 * read twice and nothing outside [data, data + size) is touched.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_BASE_READER_H
#define OCT_BASE_READER_H

#include <string.h>

#include "base/memory.h"

typedef struct oct_bytes {
  const uint8_t *data;
  size_t size;
} oct_bytes;

typedef struct oct_reader {
  const uint8_t *data;
  size_t size, position;
  bool failed;
} oct_reader;

static inline oct_reader oct_reader_make(const void *data, size_t size) {
  return (oct_reader){.data = (const uint8_t *)data, .size = size};
}
static inline size_t oct_reader_left(const oct_reader *r) { return r->size - r->position; }

/* Pointer to the next `count` bytes, or NULL. */
static inline const uint8_t *oct_read_bytes(oct_reader *r, size_t count) {
  if (r->failed || count > oct_reader_left(r)) {
    r->failed = true;
    return NULL;
  }
  const uint8_t *p = r->data + r->position;
  r->position += count;
  return p;
}
static inline uint8_t oct_read_u8(oct_reader *r) {
  const uint8_t *p = oct_read_bytes(r, 1);
  return p ? *p : 0;
}
#define OCT_READ_INTEGER(name, type, bytes, order)                                                 \
  static inline type name(oct_reader *r) {                                                         \
    const uint8_t *p = oct_read_bytes(r, bytes);                                                   \
    uint64_t v = 0;                                                                                \
    for (int i = 0; p && i < bytes; i++) v |= (uint64_t)p[i] << (8 * (order ? bytes - 1 - i : i)); \
    return (type)v;                                                                                \
  }
OCT_READ_INTEGER(oct_read_u16le, uint16_t, 2, 0)
OCT_READ_INTEGER(oct_read_u32le, uint32_t, 4, 0)
OCT_READ_INTEGER(oct_read_u64le, uint64_t, 8, 0)
OCT_READ_INTEGER(oct_read_u32be, uint32_t, 4, 1)
OCT_READ_INTEGER(oct_read_u64be, uint64_t, 8, 1)
#undef OCT_READ_INTEGER

#endif
