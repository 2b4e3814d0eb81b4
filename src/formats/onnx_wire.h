/* The protobuf wire format: a bounded walk over the fields of one message. Fields are never collected; a caller looks at each as it comes
 * and steps into nested messages itself, so depth is the caller's. Source: protobuf.dev, "Encoding".
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_ONNX_WIRE_H
#define OCT_FORMATS_ONNX_WIRE_H

#include "base/reader.h"

/* A field's key on the wire: number and wire type. */
#define OCT_WIRE_VARINT(number) (((number) << 3) | 0u)
#define OCT_WIRE_FIXED64(number) (((number) << 3) | 1u)
#define OCT_WIRE_BYTES(number) (((number) << 3) | 2u)
#define OCT_WIRE_FIXED32(number) (((number) << 3) | 5u)

typedef struct oct_wire_field {
  uint32_t key;
  uint64_t integer; /* varint and fixed */
  oct_bytes bytes;  /* length-delimited: strings, messages, packed lists */
} oct_wire_field;

/* At most ten bytes; bits beyond 64 make the reader fail. */
static inline uint64_t oct_read_varint(oct_reader *r) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    uint8_t byte = oct_read_u8(r);
    if (r->failed || (shift == 63 && byte > 1)) break;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return value;
  }
  r->failed = true;
  return 0;
}

/* The next field; false at the end of the message or when it is malformed (r->failed). Groups (wire types 3 and 4) fail: ONNX has none. */
static inline bool oct_wire_next(oct_reader *r, oct_wire_field *field) {
  if (r->failed || oct_reader_left(r) == 0) return false;
  uint64_t key = oct_read_varint(r);
  if (key > UINT32_MAX || key >> 3 == 0) r->failed = true;
  *field = (oct_wire_field){.key = (uint32_t)key};
  switch (key & 7) {
    case 0: field->integer = oct_read_varint(r); break;
    case 1: field->integer = oct_read_u64le(r); break;
    case 2: {
      uint64_t size = oct_read_varint(r);
      if (size > oct_reader_left(r)) r->failed = true;
      field->bytes = (oct_bytes){oct_read_bytes(r, (size_t)size), (size_t)size};
      break;
    }
    case 5: field->integer = oct_read_u32le(r); break;
    default: r->failed = true;
  }
  return !r->failed;
}

static inline oct_reader oct_wire_open(oct_bytes message) { return oct_reader_make(message.data, message.size); }

#endif
