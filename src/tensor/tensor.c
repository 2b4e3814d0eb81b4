/* Tensors: creation over own memory or a mapped file, and reference counts. Conversion is in cast.c.
 * SPDX-License-Identifier: MIT */
#include "tensor/tensor.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weight files are little-endian and are used as they lie in memory");

/* Bytes of a tensor, or a recorded failure. */
static octet_status tensor_bytes(octet_context *ctx, oct_dtype dtype, const oct_shape *shape, size_t *bytes) {
  char text[OCT_SHAPE_TEXT];
  if (oct_dtype_size(dtype) == 0) return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "a tensor needs an element type");
  if (shape->rank < 0 || shape->rank > OCT_MAX_RANK)
    return oct_fail(ctx, OCTET_UNSUPPORTED, "a tensor has %d dimensions; at most %d are supported", shape->rank, OCT_MAX_RANK);
  int64_t count = oct_shape_count(shape);
  if (!oct_shape_known(shape)) return oct_fail(ctx, OCTET_SHAPE, "shape %s is not fully known", oct_shape_text(shape, text));
  if (count < 0 || !oct_mul_size((size_t)count, oct_dtype_size(dtype), bytes) || *bytes > PTRDIFF_MAX)
    return oct_fail(ctx, OCTET_SHAPE, "shape %s is too large: its size overflows", oct_shape_text(shape, text));
  return OCTET_OK;
}

static oct_tensor *new_tensor(octet_context *ctx, oct_dtype dtype, const oct_shape *shape, size_t bytes) {
  oct_tensor *tensor = oct_alloc(ctx, 1, sizeof *tensor);
  if (tensor) *tensor = (oct_tensor){.dtype = dtype, .shape = *shape, .bytes = bytes, .references = 1};
  return tensor;
}

octet_status oct_tensor_create(octet_context *ctx, oct_dtype dtype, const oct_shape *shape, oct_tensor **out) {
  *out = NULL;
  size_t bytes;
  OCT_TRY(tensor_bytes(ctx, dtype, shape, &bytes));
  oct_tensor *tensor = new_tensor(ctx, dtype, shape, bytes);
  if (!tensor) return OCTET_OUT_OF_MEMORY;
  tensor->data = oct_alloc(ctx, bytes, 1);
  if (!tensor->data) {
    oct_free(tensor);
    return OCTET_OUT_OF_MEMORY;
  }
  *out = tensor;
  return OCTET_OK;
}

#define FORGOTTEN_BYTES ((size_t)256 << 10) /* copied from a mapped file: from here on its pages are given back */

octet_status oct_tensor_from_bytes(octet_context *ctx, oct_dtype dtype, const oct_shape *shape, oct_file *file, const uint8_t *bytes,
                                   size_t size, oct_tensor **out) {
  *out = NULL;
  char text[OCT_SHAPE_TEXT];
  size_t needed;
  OCT_TRY(tensor_bytes(ctx, dtype, shape, &needed));
  if (size != needed)
    return oct_fail(ctx, OCTET_FORMAT, "%zu bytes of data for %s %s, which needs %zu", size, oct_dtype_name(dtype),
                    oct_shape_text(shape, text), needed);
  if (!file || size == 0 || (uintptr_t)bytes % oct_dtype_size(dtype) != 0) {
    OCT_TRY(oct_tensor_create(ctx, dtype, shape, out));
    if (size) memcpy((*out)->data, bytes, size);
    if (size >= FORGOTTEN_BYTES) oct_file_forget(file, bytes, size);
    return OCTET_OK;
  }
  oct_tensor *tensor = new_tensor(ctx, dtype, shape, size);
  if (!tensor) return OCTET_OUT_OF_MEMORY;
  tensor->data = (void *)(uintptr_t)bytes; /* read-only, as the header says */
  tensor->file = oct_file_retain(file);
  *out = tensor;
  return OCTET_OK;
}

oct_tensor *oct_tensor_retain(oct_tensor *tensor) {
  if (tensor) __atomic_add_fetch(&tensor->references, 1, __ATOMIC_RELAXED);
  return tensor;
}

void oct_tensor_release(oct_tensor *tensor) {
  if (!tensor || __atomic_sub_fetch(&tensor->references, 1, __ATOMIC_ACQ_REL) > 0) return;
  if (tensor->file) oct_file_close(tensor->file);
  else oct_free(tensor->data);
  oct_free(tensor);
}
