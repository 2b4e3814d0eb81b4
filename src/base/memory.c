/* The one allocator: aligned blocks counted by the context's hook, and regions made of growing blocks.
 * SPDX-License-Identifier: MIT */
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#define REGION_ALIGNMENT 16
#define REGION_FIRST_BLOCK ((size_t)4096)
#define REGION_LAST_BLOCK ((size_t)1 << 20)

typedef struct oct_region_block {
  struct oct_region_block *next;
  size_t used, capacity; /* bytes after this header */
} oct_region_block;

#define REGION_HEADER ((sizeof(oct_region_block) + REGION_ALIGNMENT - 1) / REGION_ALIGNMENT * REGION_ALIGNMENT)

static void *out_of_memory(octet_context *ctx, size_t bytes) {
  oct_fail(ctx, OCTET_OUT_OF_MEMORY, "out of memory: %zu bytes were wanted", bytes);
  return NULL;
}

/* Counts one allocation; false when a test hook makes it fail. */
static bool count_allocation(octet_context *ctx, size_t bytes) {
  if (!ctx) return true;
  if (ctx->allocations_left == 0 || (ctx->largest_allocation && bytes > ctx->largest_allocation)) return false;
  if (ctx->allocations_left > 0) ctx->allocations_left--;
  ctx->allocations_made++;
  return true;
}

#define HUGE_PAGE ((size_t)2 << 20)

/* Large blocks ask for huge pages: packed weights and activations of many megabytes would need more small pages than a processor keeps
 * translations for. A wish: small pages work too. */
static void *allocate(size_t bytes) {
  size_t rounded, alignment = bytes >= HUGE_PAGE / 2 ? HUGE_PAGE : OCT_ALIGNMENT;
  if (!oct_add_size(bytes ? bytes : 1, alignment - 1, &rounded) || rounded > PTRDIFF_MAX) return NULL;
  rounded = rounded / alignment * alignment;
  void *memory = aligned_alloc(alignment, rounded);
#if defined(__linux__)
  if (memory && alignment == HUGE_PAGE) (void)madvise(memory, rounded, MADV_HUGEPAGE);
#endif
  return memory;
}

void *oct_alloc_raw(octet_context *ctx, size_t bytes) {
  void *memory = count_allocation(ctx, bytes) ? allocate(bytes) : NULL;
  return memory ? memory : out_of_memory(ctx, bytes);
}

void *oct_alloc(octet_context *ctx, size_t count, size_t size) {
  size_t bytes;
  if (!oct_mul_size(count, size, &bytes)) {
    oct_fail(ctx, OCTET_OUT_OF_MEMORY, "out of memory: %zu elements of %zu bytes were wanted", count, size);
    return NULL;
  }
  void *memory = oct_alloc_raw(ctx, bytes);
  if (memory) memset(memory, 0, bytes ? bytes : 1);
  return memory;
}

octet_status oct_grow(octet_context *ctx, void *array_pointer, size_t *capacity, size_t needed, size_t size) {
  if (needed <= *capacity) return OCTET_OK;
  size_t larger = *capacity < 8 ? 8 : *capacity <= SIZE_MAX / 2 ? *capacity * 2 : needed;
  if (larger < needed) larger = needed;
  void *grown = oct_alloc(ctx, larger, size), *old;
  if (!grown) return OCTET_OUT_OF_MEMORY;
  memcpy(&old, array_pointer, sizeof old);
  if (old) memcpy(grown, old, *capacity * size);
  oct_free(old);
  memcpy(array_pointer, &grown, sizeof grown);
  *capacity = larger;
  return OCTET_OK;
}

char *oct_strndup(octet_context *ctx, const char *text, size_t length) {
  size_t bytes;
  if (!oct_add_size(length, 1, &bytes)) return out_of_memory(ctx, length);
  char *copy = oct_alloc_raw(ctx, bytes);
  if (!copy) return NULL;
  if (length) memcpy(copy, text, length);
  copy[length] = 0;
  return copy;
}

char *oct_strdup(octet_context *ctx, const char *text) { return oct_strndup(ctx, text, strlen(text)); }

void oct_free(void *memory) { free(memory); }

/* A new block for at least `bytes`; a request too large to share a block gets one of its own, behind the current one. */
static oct_region_block *add_block(oct_region *region, size_t bytes) {
  oct_region_block *head = region->blocks;
  size_t shared = head ? head->capacity * 2 : REGION_FIRST_BLOCK, total;
  if (shared < REGION_FIRST_BLOCK) shared = REGION_FIRST_BLOCK;
  if (shared > REGION_LAST_BLOCK) shared = REGION_LAST_BLOCK;
  bool own = OCT_SEPARATE_BLOCKS || bytes > shared / 4;
  size_t capacity = own ? bytes : shared;
  if (!oct_add_size(capacity, REGION_HEADER, &total)) return NULL;
  oct_region_block *block = allocate(total);
  if (!block) return NULL;
  *block = (oct_region_block){.capacity = capacity};
  if (own && head) {
    block->next = head->next;
    head->next = block;
  } else {
    block->next = head;
    region->blocks = block;
  }
  return block;
}

static void *region_take(oct_region *region, size_t bytes) {
  size_t rounded;
  if (!oct_add_size(bytes ? bytes : 1, REGION_ALIGNMENT - 1, &rounded)) return NULL;
  rounded = rounded / REGION_ALIGNMENT * REGION_ALIGNMENT;
  oct_region_block *block = region->blocks;
  if (!block || rounded > block->capacity - block->used) block = add_block(region, OCT_SEPARATE_BLOCKS ? bytes : rounded);
  if (!block) return NULL;
  unsigned char *memory = (unsigned char *)block + REGION_HEADER + block->used;
  block->used = OCT_SEPARATE_BLOCKS ? block->capacity : block->used + rounded;
  memset(memory, 0, bytes);
  return memory;
}

void *oct_region_alloc(octet_context *ctx, oct_region *region, size_t count, size_t size) {
  size_t bytes;
  if (!oct_mul_size(count, size, &bytes)) {
    oct_fail(ctx, OCTET_OUT_OF_MEMORY, "out of memory: %zu elements of %zu bytes were wanted", count, size);
    return NULL;
  }
  void *memory = count_allocation(ctx, bytes) ? region_take(region, bytes) : NULL;
  return memory ? memory : out_of_memory(ctx, bytes);
}

char *oct_region_strndup(octet_context *ctx, oct_region *region, const char *text, size_t length) {
  size_t bytes;
  if (!oct_add_size(length, 1, &bytes)) return out_of_memory(ctx, length);
  char *copy = oct_region_alloc(ctx, region, bytes, 1);
  if (copy && length) memcpy(copy, text, length);
  return copy;
}

char *oct_region_strdup(octet_context *ctx, oct_region *region, const char *text) {
  return oct_region_strndup(ctx, region, text, strlen(text));
}

char *oct_region_printf(octet_context *ctx, oct_region *region, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, args);
  char *text = length < 0 ? NULL : oct_region_alloc(ctx, region, (size_t)length + 1, 1);
  if (length < 0) oct_fail(ctx, OCTET_INVALID_ARGUMENT, "text cannot be formatted with \"%s\"", format);
  if (text) vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  va_end(args);
  return text;
}

void oct_region_free(oct_region *region) {
  for (oct_region_block *block = region->blocks, *next; block; block = next) {
    next = block->next;
    free(block);
  }
  region->blocks = NULL;
}
