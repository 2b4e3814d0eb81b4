/* Named tensors, found through a hash table of positions.
 * SPDX-License-Identifier: MIT */
#include "tensor/tensor.h"

/* FNV-1a, 64 bits. */
static uint64_t hash_of(const char *name) {
  uint64_t hash = 14695981039346656037u;
  for (const unsigned char *p = (const unsigned char *)name; *p; p++) hash = (hash ^ *p) * 1099511628211u;
  return hash ^ hash >> 32;
}

/* The slot that holds `name`, or the free one where it belongs. Slots hold position + 1; there is always a free one. */
static size_t find_slot(const oct_bundle *bundle, const char *name) {
  size_t slot = (size_t)hash_of(name) & (bundle->n_slots - 1);
  while (bundle->slots[slot] && strcmp(bundle->items[bundle->slots[slot] - 1].name, name) != 0) slot = (slot + 1) & (bundle->n_slots - 1);
  return slot;
}

/* Keeps the table at most half full. */
static octet_status grow_slots(octet_context *ctx, oct_bundle *bundle) {
  if (bundle->count + 1 <= bundle->n_slots / 2) return OCTET_OK;
  size_t n = bundle->n_slots ? bundle->n_slots * 2 : 16;
  size_t *slots = oct_alloc(ctx, n, sizeof *slots);
  if (!slots) return OCTET_OUT_OF_MEMORY;
  oct_free(bundle->slots);
  bundle->slots = slots;
  bundle->n_slots = n;
  for (size_t i = 0; i < bundle->count; i++) slots[find_slot(bundle, bundle->items[i].name)] = i + 1;
  return OCTET_OK;
}

static octet_status add(octet_context *ctx, oct_bundle *bundle, const char *name, oct_tensor *tensor, oct_quant *quant) {
  if (!tensor) return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "tensor \"%s\" is missing", name);
  if (oct_bundle_find(bundle, name)) return oct_fail(ctx, OCTET_FORMAT, "two tensors are named \"%s\"", name);
  OCT_TRY(grow_slots(ctx, bundle));
  OCT_TRY(oct_grow(ctx, &bundle->items, &bundle->capacity, bundle->count + 1, sizeof *bundle->items));
  char *copy = oct_region_strdup(ctx, &bundle->region, name);
  if (!copy) return OCTET_OUT_OF_MEMORY;
  size_t slot = find_slot(bundle, name);
  bundle->items[bundle->count++] = (oct_named_tensor){copy, tensor, quant};
  bundle->slots[slot] = bundle->count;
  return OCTET_OK;
}

octet_status oct_bundle_add(octet_context *ctx, oct_bundle *bundle, const char *name, oct_tensor *tensor, oct_quant *quant) {
  octet_status status = add(ctx, bundle, name, tensor, quant);
  if (status != OCTET_OK) oct_tensor_release(tensor);
  return status;
}

const oct_named_tensor *oct_bundle_find(const oct_bundle *bundle, const char *name) {
  if (!bundle->n_slots) return NULL;
  size_t position = bundle->slots[find_slot(bundle, name)];
  return position ? &bundle->items[position - 1] : NULL;
}

void oct_bundle_free(oct_bundle *bundle) {
  for (size_t i = 0; i < bundle->count; i++) oct_tensor_release(bundle->items[i].tensor);
  oct_free(bundle->items);
  oct_free(bundle->slots);
  oct_region_free(&bundle->region);
  *bundle = (oct_bundle){0};
}
