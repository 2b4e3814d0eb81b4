/* IDX files (the format of MNIST's images and labels), plain or gzipped; all its element types.
 * Source: Yann LeCun's description of the IDX format on the MNIST page.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_IDX_H
#define OCT_FORMATS_IDX_H

#include "tensor/tensor.h"

octet_status oct_idx_read(octet_context *ctx, const char *path, oct_tensor **out);
/* From memory. With `file` (the mapping that `bytes` lies in) the tensor may point into it; without, it is a copy. */
octet_status oct_idx_read_bytes(octet_context *ctx, oct_bytes bytes, oct_file *file, const char *name, oct_tensor **out);
/* true when the bytes start like an IDX file or a gzip file. */
bool oct_idx_is(oct_bytes bytes);

#endif
