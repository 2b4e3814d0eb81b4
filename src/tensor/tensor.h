/* Element types, shapes, quantization parameters and reference-counted tensors (row-major, always contiguous).
 * SPDX-License-Identifier: MIT */
#ifndef OCT_TENSOR_TENSOR_H
#define OCT_TENSOR_TENSOR_H

#include "base/file.h"

/* name, text form, bytes, is float, is signed */
#define OCT_DTYPE_LIST(X)        \
  X(F32, "f32", 4, true, true)   \
  X(F64, "f64", 8, true, true)   \
  X(F16, "f16", 2, true, true)   \
  X(BF16, "bf16", 2, true, true) \
  X(I8, "i8", 1, false, true)    \
  X(U8, "u8", 1, false, false)   \
  X(I16, "i16", 2, false, true)  \
  X(U16, "u16", 2, false, false) \
  X(I32, "i32", 4, false, true)  \
  X(U32, "u32", 4, false, false) \
  X(I64, "i64", 8, false, true)  \
  X(U64, "u64", 8, false, false) \
  X(BOOL, "bool", 1, false, false)

typedef enum oct_dtype {
  OCT_DTYPE_NONE,
#define X(name, text, bytes, is_float, is_signed) OCT_##name,
  OCT_DTYPE_LIST(X)
#undef X
      OCT_DTYPE_COUNT
} oct_dtype;

size_t oct_dtype_size(oct_dtype dtype);
const char *oct_dtype_name(oct_dtype dtype);
oct_dtype oct_dtype_parse(const char *name); /* OCT_DTYPE_NONE when unknown */
bool oct_dtype_is_float(oct_dtype dtype);
bool oct_dtype_is_signed(oct_dtype dtype);

#define OCT_MAX_RANK 8
#define OCT_DIM_UNKNOWN (-1)

typedef struct oct_shape {
  int rank;
  int64_t dim[OCT_MAX_RANK]; /* OCT_DIM_UNKNOWN where not known yet */
} oct_shape;

/* Product of the dims; -1 when a dim is unknown or the product overflows. Rank 0 has one element. */
int64_t oct_shape_count(const oct_shape *shape);
bool oct_shape_known(const oct_shape *shape);
bool oct_shape_equal(const oct_shape *a, const oct_shape *b);
/* "[1,3,?,224]" into `text` (at least OCT_SHAPE_TEXT bytes); returns text. */
#define OCT_SHAPE_TEXT 192
const char *oct_shape_text(const oct_shape *shape, char *text);
/* Numpy broadcasting; false when the shapes do not fit. An unknown dim against 1 or unknown stays unknown, against n > 1 becomes n. */
bool oct_shape_broadcast(const oct_shape *a, const oct_shape *b, oct_shape *out);
/* Row-major strides in elements. */
void oct_shape_strides(const oct_shape *shape, int64_t strides[OCT_MAX_RANK]);
/* oct_shape_of(rank, dim...): dims of any integer type. */
#define oct_shape_of(...) oct_shape_from((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
oct_shape oct_shape_from(const int64_t *rank_and_dims, size_t count);

/* Quantization parameters: real = scale * (q - zero_point). count 1 and axis -1: per tensor; else count = dim[axis]. */
typedef struct oct_quant {
  oct_dtype dtype; /* what the values are stored as */
  int axis;
  int64_t count;
  float *scale;
  int32_t *zero_point;
} oct_quant;

/* Deep copy / creation in `region`. `scales` NULL leaves zeros to be filled in. */
oct_quant *oct_quant_create(octet_context *ctx, oct_region *region, oct_dtype dtype, int axis, int64_t count, const float *scales,
                            const int32_t *zero_points);
bool oct_quant_equal(const oct_quant *a, const oct_quant *b); /* two NULLs are equal */

typedef struct oct_tensor {
  oct_dtype dtype;
  oct_shape shape;
  void *data; /* aligned to OCT_ALIGNMENT unless it points into `file` */
  size_t bytes;
  int references;
  oct_file *file; /* not NULL: data is a read-only view into it */
} oct_tensor;

/* Zero-filled tensor with one reference. */
octet_status oct_tensor_create(octet_context *ctx, oct_dtype dtype, const oct_shape *shape, oct_tensor **out);
/* Tensor over bytes of a mapped file (copied when misaligned for the dtype); `size` must be what dtype and shape need. */
octet_status oct_tensor_from_bytes(octet_context *ctx, oct_dtype dtype, const oct_shape *shape, oct_file *file, const uint8_t *bytes,
                                   size_t size, oct_tensor **out);
oct_tensor *oct_tensor_retain(oct_tensor *tensor);
void oct_tensor_release(oct_tensor *tensor); /* NULL is fine */
/* New tensor of another dtype: integers wrap, floats round to nearest even, float to integer truncates (saturating),
 * anything to bool is != 0. */
octet_status oct_tensor_cast(octet_context *ctx, const oct_tensor *in, oct_dtype dtype, oct_tensor **out);

/* Element access by flat index, for references and tests; not for hot loops. */
double oct_get_f64(const void *data, oct_dtype dtype, int64_t index);
int64_t oct_get_i64(const void *data, oct_dtype dtype, int64_t index);
void oct_set_f64(void *data, oct_dtype dtype, int64_t index, double value);  /* to integers: truncates, saturates; NaN becomes 0 */
void oct_set_i64(void *data, oct_dtype dtype, int64_t index, int64_t value); /* wraps */

/* Half precision, round to nearest even. */
float oct_f16_to_f32(uint16_t bits);
uint16_t oct_f32_to_f16(float value);
static inline float oct_bf16_to_f32(uint16_t bits) {
  uint32_t u = (uint32_t)bits << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}
uint16_t oct_f32_to_bf16(float value);

/* A named list of tensors: what a weights file or a test-data folder holds. */
typedef struct oct_named_tensor {
  char *name;
  oct_tensor *tensor;
  oct_quant *quant; /* or NULL; lives in the bundle's region */
} oct_named_tensor;

typedef struct oct_bundle {
  oct_named_tensor *items;
  size_t count, capacity;
  size_t *slots; /* hash table of position + 1; n_slots is a power of two */
  size_t n_slots;
  oct_region region;
} oct_bundle;

/* Adds (takes over the reference to `tensor`, also on failure). A name met twice is an error. */
octet_status oct_bundle_add(octet_context *ctx, oct_bundle *bundle, const char *name, oct_tensor *tensor, oct_quant *quant);
const oct_named_tensor *oct_bundle_find(const oct_bundle *bundle, const char *name);
void oct_bundle_free(oct_bundle *bundle);

#endif
