/* The header of a .npy array, shared by single files and archives.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_NPY_HEADER_H
#define OCT_FORMATS_NPY_HEADER_H

#include "tensor/tensor.h"

typedef struct oct_npy_header {
  oct_dtype dtype;
  oct_shape shape;
  bool big_endian, fortran_order;
  const uint8_t *data; /* where the elements start */
} oct_npy_header;

octet_status oct_npy_header_read(octet_context *ctx, oct_bytes bytes, oct_npy_header *out);
/* The bytes that stand before the elements (oct_free them). */
octet_status oct_npy_header_write(octet_context *ctx, const oct_tensor *tensor, char **out, size_t *size);

#endif
