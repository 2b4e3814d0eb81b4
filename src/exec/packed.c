/* Cache of packed weights: see packed.h.
 * SPDX-License-Identifier: MIT */
#include "exec/packed.h"

#include <string.h>

#define FIRST_BLOCK ((size_t)64 << 10)
#define LAST_BLOCK ((size_t)4 << 20)
#define SLACK ((size_t)64) /* kernels may read so far past packed weights */

/* Weights lie close together in few blocks, which are large enough for huge pages (base/memory.c) where there are many weights. */
typedef struct packed_block {
  char *memory;
  size_t used, capacity;
} packed_block;

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
  packed_block *blocks;
  size_t n_blocks, blocks_capacity;
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
  }
  for (size_t i = 0; i < cache->n_blocks; i++) oct_free(cache->blocks[i].memory);
  oct_free(cache->blocks);
  oct_free(cache->entries);
  oct_free(cache);
}

static octet_status add_block(octet_context *ctx, oct_packed_cache *cache, size_t bytes) {
  size_t capacity = OCT_SEPARATE_BLOCKS ? 0 : cache->n_blocks ? 2 * cache->blocks[cache->n_blocks - 1].capacity : FIRST_BLOCK;
  if (capacity > LAST_BLOCK) capacity = LAST_BLOCK;
  if (capacity < bytes) capacity = bytes;
  OCT_TRY(oct_grow(ctx, &cache->blocks, &cache->blocks_capacity, cache->n_blocks + 1, sizeof *cache->blocks));
  packed_block b = {.memory = oct_alloc_raw(ctx, capacity), .capacity = capacity};
  if (!b.memory) return OCTET_OUT_OF_MEMORY;
  cache->blocks[cache->n_blocks++] = b;
  return OCTET_OK;
}

/* Memory that lives as long as the cache, with anything in it: packing writes all of it. */
static void *take(octet_context *ctx, oct_packed_cache *cache, size_t bytes) {
  if (bytes > SIZE_MAX / 2) return oct_alloc_raw(ctx, bytes); /* fails, and says so */
  size_t wanted = (bytes + SLACK + 63) / 64 * 64;
  packed_block *last = cache->n_blocks ? &cache->blocks[cache->n_blocks - 1] : NULL;
  if (!last || last->capacity - last->used < wanted) {
    if (add_block(ctx, cache, wanted) != OCTET_OK) return NULL;
    last = &cache->blocks[cache->n_blocks - 1];
  }
  void *memory = last->memory + last->used;
  last->used += wanted;
  return memory;
}

octet_status oct_packed_find(octet_context *ctx, oct_packed_cache *cache, const oct_tensor *key, const char *packing, size_t bytes,
                             void **packed, bool *fresh) {
  *packed = NULL;
  *fresh = false;
  for (size_t i = 0; i < cache->count; i++) {
    packed_entry *e = &cache->entries[i];
    if (e->key != key || e->bytes != bytes || strcmp(e->packing, packing) != 0) continue;
    *packed = e->memory;
    return OCTET_OK;
  }
  OCT_TRY(oct_grow(ctx, &cache->entries, &cache->capacity, cache->count + 1, sizeof *cache->entries));
  packed_entry e = {.packing = oct_strdup(ctx, packing), .memory = take(ctx, cache, bytes), .bytes = bytes};
  if (!e.packing || !e.memory) {
    oct_free(e.packing);
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
