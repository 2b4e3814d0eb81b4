/* Reference-counted cache of packed weights, keyed (constant, packing): sessions of one model for several shapes share them.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_EXEC_PACKED_H
#define OCT_EXEC_PACKED_H

#include "tensor/tensor.h"

typedef struct oct_packed_cache oct_packed_cache;

octet_status oct_packed_create(octet_context *ctx, oct_packed_cache **out);
oct_packed_cache *oct_packed_retain(oct_packed_cache *cache);
void oct_packed_release(oct_packed_cache *cache); /* NULL is fine */
/* The memory for this key; *fresh when the caller must fill it. */
octet_status oct_packed_find(octet_context *ctx, oct_packed_cache *cache, const oct_tensor *key, const char *packing, size_t bytes,
                             void **packed, bool *fresh);
size_t oct_packed_bytes(const oct_packed_cache *cache);

#endif
