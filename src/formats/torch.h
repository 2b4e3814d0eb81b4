/* PyTorch checkpoints (.pth, .pt, .th, .bin): the zip form (PyTorch 1.6 and later) and the legacy form before it.
 * Not for TorchScript archives or whole pickled modules: those are refused with advice, and nothing in a file is executed.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_TORCH_H
#define OCT_FORMATS_TORCH_H

#include "tensor/tensor.h"

/* Reads every tensor of the file into `out` (which need not be initialized; free it with oct_bundle_free(), also after a
 * failure). Names of nested dicts, lists and tuples are joined by '.'. A dict under "state_dict", "model_state_dict" or
 * "model" is taken instead of the whole; a "module." before all names (DataParallel) is dropped; packed parameters of
 * quantized modules become ".weight" and ".bias". Entries that are no tensors are left out.
 * Quantized tensors come as their stored integers (i8, u8, i32) with `quant` set. Strided views are made row-major. */
octet_status oct_torch_read(octet_context *ctx, const char *path, oct_bundle *out);
/* The same from memory, which is needed only during the call. `name` stands in messages. */
octet_status oct_torch_read_bytes(octet_context *ctx, oct_bytes bytes, const char *name, oct_bundle *out);
/* true when the bytes start like a checkpoint that this reader knows (zip or legacy). */
bool oct_torch_is(oct_bytes bytes);

#endif
