/* The one allocator. Allocation goes through the context so that tests can make any of them fail; a failure is
 * recorded in the context. Everything is freed with oct_free() (NULL is fine). Regions free many objects at once.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_BASE_MEMORY_H
#define OCT_BASE_MEMORY_H

#include "base/context.h"

#define OCT_ALIGNMENT 64 /* bytes; every oct_alloc() result */

/* Under the address sanitizer what is otherwise cut from larger blocks is a block of its own, so that overruns are seen. */
#if defined(__SANITIZE_ADDRESS__)
#define OCT_SEPARATE_BLOCKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OCT_SEPARATE_BLOCKS 1
#endif
#endif
#ifndef OCT_SEPARATE_BLOCKS
#define OCT_SEPARATE_BLOCKS 0
#endif

/* NULL (and a recorded failure) when memory is out or count * size overflows. Zero-filled; never NULL for size 0. */
void *oct_alloc(octet_context *ctx, size_t count, size_t size);
/* Same without the zero fill. */
void *oct_alloc_raw(octet_context *ctx, size_t bytes);
/* Grows *array (of elements of `size` bytes) so that it holds `needed`; *capacity is in elements. New elements are zero. */
octet_status oct_grow(octet_context *ctx, void *array_pointer, size_t *capacity, size_t needed, size_t size);
char *oct_strdup(octet_context *ctx, const char *text);
char *oct_strndup(octet_context *ctx, const char *text, size_t length);
void oct_free(void *memory);

/* false when a * b overflows. */
static inline bool oct_mul_size(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool oct_add_size(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }

/* A region: allocations of one lifetime, freed together. Results are zero-filled and aligned to 16 bytes. */
typedef struct oct_region {
  struct oct_region_block *blocks;
} oct_region;

void *oct_region_alloc(octet_context *ctx, oct_region *region, size_t count, size_t size);
char *oct_region_strdup(octet_context *ctx, oct_region *region, const char *text);
char *oct_region_strndup(octet_context *ctx, oct_region *region, const char *text, size_t length);
char *oct_region_printf(octet_context *ctx, oct_region *region, const char *format, ...) __attribute__((format(printf, 3, 4)));
void oct_region_free(oct_region *region);

#endif
