/* Cache of packed weights: see packed.h.
 * SPDX-License-Identifier: MIT */
#include "exec/packed.h"

#include <string.h>

typedef struct packed_entry {
  oct_tensor *key;
  char *packing;
  void *memory;
  size_t bytes;
} packed_entry;

struct oct_packed_cache {
  int references;
  packed_entry *entries;
  size_t count, capacity, bytes;
};

octet_status oct_packed_create(octet_context *ctx, oct_packed_cache **out) {
  *out = oct_alloc(ctx, 1, sizeof **out);
  if (!*out) return OCTET_OUT_OF_MEMORY;
  (*out)->references = 1;
  return OCTET_OK;
}

oct_packed_cache *oct_packed_retain(oct_packed_cache *cache) {
  cache->references++;
  return cache;
}

void oct_packed_release(oct_packed_cache *cache) {
  if (!cache || --cache->references > 0) return;
  for (size_t i = 0; i < cache->count; i++) {
    oct_tensor_release(cache->entries[i].key);
    oct_free(cache->entries[i].packing);
    oct_free(cache->entries[i].memory);
  }
  oct_free(cache->entries);
  oct_free(cache);
}

octet_status oct_packed_find(octet_context *ctx, oct_packed_cache *cache, const oct_tensor *key, const char *packing, size_t bytes, void **packed,
                             bool *fresh) {
  *packed = NULL;
  *fresh = false;
  for (size_t i = 0; i < cache->count; i++) {
    packed_entry *e = &cache->entries[i];
    if (e->key != key || e->bytes != bytes || strcmp(e->packing, packing) != 0) continue;
    *packed = e->memory;
    return OCTET_OK;
  }
  OCT_TRY(oct_grow(ctx, &cache->entries, &cache->capacity, cache->count + 1, sizeof *cache->entries));
  packed_entry e = {.packing = oct_strdup(ctx, packing), .memory = oct_alloc(ctx, bytes + 64, 1), .bytes = bytes};
  if (!e.packing || !e.memory) {
    oct_free(e.packing);
    oct_free(e.memory);
    return OCTET_OUT_OF_MEMORY;
  }
  e.key = oct_tensor_retain((oct_tensor *)(uintptr_t)key);
  cache->entries[cache->count++] = e;
  cache->bytes += bytes;
  *packed = e.memory;
  *fresh = true;
  return OCTET_OK;
}

size_t oct_packed_bytes(const oct_packed_cache *cache) { return cache->bytes; }
