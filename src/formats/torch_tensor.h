/* One tensor of a PyTorch checkpoint: from the call that would rebuild it to an oct_tensor.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_TORCH_TENSOR_H
#define OCT_FORMATS_TORCH_TENSOR_H

#include "formats/torch_storage.h"

/* Bytes that copies of this file's tensors may still take: views may share one storage, or repeat it with stride 0,
 * and must not turn a small file into a large allocation. */
typedef struct oct_torch_budget {
  uint64_t bytes_left;
} oct_torch_budget;

oct_torch_budget oct_torch_budget_for(oct_bytes file);
/* What calling `global` means; the policy for oct_torch_open(). */
oct_pickle_call oct_torch_policy(const char *global);
/* true when the node is a call of one of torch's functions that rebuild a tensor or parameter. */
bool oct_torch_is_tensor(const oct_pickle *node);
/* Makes the tensor; `quant` (in `region`) is NULL for plain tensors. */
octet_status oct_torch_tensor(oct_torch_file *file, oct_torch_budget *budget, oct_region *region, const oct_pickle *node, oct_tensor **out,
                              oct_quant **quant);

#endif
