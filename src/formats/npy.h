/* NumPy arrays: .npy (format versions 1 to 3) and .npz (a zip of .npy entries, stored or deflated), read and written.
 * Big-endian and Fortran-ordered arrays are turned around on reading. Not for object, string, date, complex or structured
 * arrays: an object array is a pickle, and is refused. Source: numpy/lib/format.py (its module documentation).
 * bfloat16, which numpy itself does not have, is stored as '<V2', as numpy does for ml_dtypes.bfloat16.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_NPY_H
#define OCT_FORMATS_NPY_H

#include "tensor/tensor.h"

octet_status oct_npy_read(octet_context *ctx, const char *path, oct_tensor **out);
/* From memory. With `file` (the mapping that `bytes` lies in) the tensor may point into it; without, it is a copy.
 * `name` stands in messages. */
octet_status oct_npy_read_bytes(octet_context *ctx, oct_bytes bytes, oct_file *file, const char *name, oct_tensor **out);
octet_status oct_npy_write(octet_context *ctx, const char *path, const oct_tensor *tensor);

/* `out` need not be initialized; free it with oct_bundle_free(), also after a failure. Entries whose name does not end in
 * ".npy" are left out; the others lose that ending. */
octet_status oct_npz_read(octet_context *ctx, const char *path, oct_bundle *out);
octet_status oct_npz_read_bytes(octet_context *ctx, oct_bytes bytes, const char *name, oct_bundle *out);
/* Entries in the bundle's order, not compressed, with fixed times: equal bundles give equal bytes. Quantization parameters
 * are not part of the file. */
octet_status oct_npz_write(octet_context *ctx, const char *path, const oct_bundle *bundle);

#endif
