/* Element types and shapes.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "tensor/tensor.h"

typedef struct dtype_row {
  const char *name;
  size_t bytes;
  bool is_float, is_signed;
} dtype_row;

static const dtype_row dtypes[OCT_DTYPE_COUNT] = {[OCT_DTYPE_NONE] = {"none", 0, false, false},
#define X(name, text, bytes, is_float, is_signed) [OCT_##name] = {text, bytes, is_float, is_signed},
                                                  OCT_DTYPE_LIST(X)
#undef X
};

static const dtype_row *row_of(oct_dtype dtype) { return &dtypes[(unsigned)dtype < OCT_DTYPE_COUNT ? dtype : OCT_DTYPE_NONE]; }

size_t oct_dtype_size(oct_dtype dtype) { return row_of(dtype)->bytes; }
const char *oct_dtype_name(oct_dtype dtype) { return row_of(dtype)->name; }
bool oct_dtype_is_float(oct_dtype dtype) { return row_of(dtype)->is_float; }
bool oct_dtype_is_signed(oct_dtype dtype) { return row_of(dtype)->is_signed; }

oct_dtype oct_dtype_parse(const char *name) {
  for (int i = OCT_DTYPE_NONE + 1; i < OCT_DTYPE_COUNT; i++)
    if (strcmp(dtypes[i].name, name) == 0) return (oct_dtype)i;
  return OCT_DTYPE_NONE;
}

int64_t oct_shape_count(const oct_shape *shape) {
  int64_t count = 1;
  bool overflow = false, empty = false;
  for (int i = 0; i < shape->rank; i++) {
    if (shape->dim[i] < 0) return -1;
    empty |= shape->dim[i] == 0;
    overflow |= __builtin_mul_overflow(count, shape->dim[i], &count);
  }
  return empty ? 0 : overflow ? -1 : count;
}

bool oct_shape_known(const oct_shape *shape) {
  for (int i = 0; i < shape->rank; i++)
    if (shape->dim[i] < 0) return false;
  return true;
}

bool oct_shape_equal(const oct_shape *a, const oct_shape *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

const char *oct_shape_text(const oct_shape *shape, char *text) {
  size_t n = 0;
  text[n++] = '[';
  for (int i = 0; i < shape->rank && i < OCT_MAX_RANK; i++) {
    if (i) text[n++] = ',';
    if (shape->dim[i] < 0) text[n++] = '?';
    else n += (size_t)snprintf(text + n, OCT_SHAPE_TEXT - n, "%lld", (long long)shape->dim[i]);
  }
  text[n++] = ']';
  text[n] = 0;
  return text;
}

/* One dimension of a broadcast; false when the two do not fit. */
static bool broadcast_dim(int64_t a, int64_t b, int64_t *out) {
  if (a == b || b == 1) *out = a;
  else if (a == 1 || a < 0) *out = b;
  else if (b < 0) *out = a;
  else return false;
  return true;
}

bool oct_shape_broadcast(const oct_shape *a, const oct_shape *b, oct_shape *out) {
  oct_shape result = {.rank = a->rank > b->rank ? a->rank : b->rank};
  for (int i = 1; i <= result.rank; i++) {
    int64_t da = i <= a->rank ? a->dim[a->rank - i] : 1, db = i <= b->rank ? b->dim[b->rank - i] : 1;
    if (!broadcast_dim(da, db, &result.dim[result.rank - i])) return false;
  }
  *out = result;
  return true;
}

void oct_shape_strides(const oct_shape *shape, int64_t strides[OCT_MAX_RANK]) {
  uint64_t stride = 1; /* unsigned: an overflow (only possible beside a zero dim) wraps */
  for (int i = shape->rank - 1; i >= 0; i--) {
    strides[i] = (int64_t)stride;
    stride *= (uint64_t)shape->dim[i];
  }
}

oct_shape oct_shape_from(const int64_t *rank_and_dims, size_t count) {
  oct_shape shape = {0};
  int64_t rank = rank_and_dims[0];
  for (int i = 0; i < rank && i < OCT_MAX_RANK && (size_t)i + 1 < count; i++) shape.dim[shape.rank++] = rank_and_dims[i + 1];
  return shape;
}
