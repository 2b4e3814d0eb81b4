/* Bodies shared by the elementwise operators: shape inference, references, lowering. The operators' own files hold only what differs.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_ELEMENTWISE_H
#define OCT_OPS_ELEMENTWISE_H

#include "ops/op.h"

/* Rows of an operator whose ONNX form has been the same since `since`. */
#define OCT_ONNX_IMPORT(name, since)      \
  (const oct_import_row[]) {              \
    {"onnx", name, since, 0, NULL}, { 0 } \
  }
#define OCT_ONNX_EXPORT(name)   \
  (const oct_export_row[]) {    \
    {"onnx", name, NULL}, { 0 } \
  }

/* ---- Shape inference: what is asked of the element type ------------------------------------------------------ */

octet_status oct_infer_floats(octet_context *ctx, oct_node *node);            /* one shape, input 0 a float type */
octet_status oct_infer_numbers(octet_context *ctx, oct_node *node);           /* one shape, anything but bool */
octet_status oct_infer_broadcast_numbers(octet_context *ctx, oct_node *node); /* broadcasting, anything but bool */
octet_status oct_infer_broadcast_floats(octet_context *ctx, oct_node *node);
octet_status oct_infer_broadcast_bools(octet_context *ctx, oct_node *node);
octet_status oct_infer_compare(octet_context *ctx, oct_node *node); /* broadcasting, output bool */

/* ---- One input ------------------------------------------------------------------------------------------------ */

/* For integer element types (u64 as its bits); NULL: the float function rounds towards zero. */
typedef int64_t (*oct_integer1)(const oct_node *node, int64_t x);
octet_status oct_unary_reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out);
octet_status oct_unary_reference_with(const oct_node *node, const oct_tensor *in, oct_tensor *out, oct_integer1 integer);

#define OCT_UNARY_PARAMETERS 4
/* y[i] = f(x[i]) for n dense floats; x and y may be the same. */
typedef void (*oct_unary_f32)(const oct_vector_kernels *vector, const float p[OCT_UNARY_PARAMETERS], size_t n, const float *x, float *y);
/* 8-bit input: a table made with scalar1; f32: `apply`. `kernel` names the step. `p` (NULL: none) has OCT_UNARY_PARAMETERS entries. */
octet_status oct_unary_lower(oct_lowering *l, oct_node *node, const char *kernel, oct_unary_f32 apply, const float *p);
/* The table part alone: input `input` of the node goes through `f`. */
typedef double (*oct_table_fn)(const oct_node *node, const void *user, double x);
octet_status oct_table_lower(oct_lowering *l, oct_node *node, int input, oct_table_fn f, const void *user);
/* Fills table[q] = f(dequantized q), quantized as `out` says. */
void oct_table_fill(uint8_t table[256], const oct_slot *in, const oct_slot *out, const oct_node *node, oct_table_fn f, const void *user);

/* Defines a static oct_unary_f32 over an expression in `v` and `p`. Blocks of 16 are what compilers vectorize at -O2. */
#define OCT_APPLY_F32(name, expression)                                                                    \
  static void name(const oct_vector_kernels *vector, const float *p, size_t n, const float *x, float *y) { \
    (void)vector, (void)p;                                                                                 \
    float block[16];                                                                                       \
    for (; n >= 16; n -= 16, x += 16, y += 16) {                                                           \
      memcpy(block, x, sizeof block);                                                                      \
      for (int j = 0; j < 16; j++) {                                                                       \
        float v = block[j];                                                                                \
        block[j] = (expression);                                                                           \
      }                                                                                                    \
      memcpy(y, block, sizeof block);                                                                      \
    }                                                                                                      \
    for (size_t j = 0; j < n; j++) {                                                                       \
      float v = x[j];                                                                                      \
      y[j] = (expression);                                                                                 \
    }                                                                                                      \
  }

/* Defines a static oct_unary_f32 that is a vector kernel of oct_vector_math. */
#define OCT_APPLY_MATH(name, kernel)                                                                       \
  static void name(const oct_vector_kernels *vector, const float *p, size_t n, const float *x, float *y) { \
    (void)p;                                                                                               \
    vector->math->kernel(n, x, y);                                                                         \
  }

/* ---- Two and more inputs -------------------------------------------------------------------------------------- */

/* For integer element types; both operands as int64 (u64 as its bits, is_unsigned set), results wrap. */
typedef int64_t (*oct_integer2)(const oct_node *node, int64_t a, int64_t b, bool is_unsigned);
octet_status oct_binary_reference_with(const oct_node *node, const oct_tensor *a, const oct_tensor *b, oct_tensor *out,
                                       oct_integer2 integer);
/* Folds scalar2 / `integer` over any number of inputs: out = f(f(in0, in1), in2) ... in the output's type. */
octet_status oct_variadic_reference(const oct_node *node, const oct_tensor *const *in, oct_tensor *out, oct_integer2 integer);
/* Element strides of `in` along the dims of `out`, 0 where it is broadcast. */
void oct_broadcast_strides(const oct_shape *in, const oct_shape *out, int64_t strides[OCT_MAX_RANK]);

/* y[i] = f(a[i * a_stride], b[i * b_stride]) for n floats; strides may be any. */
typedef void (*oct_binary_f32)(const oct_vector_kernels *vector, size_t n, const float *a, ptrdiff_t a_stride, const float *b,
                               ptrdiff_t b_stride, float *y, ptrdiff_t y_stride);
/* 8-bit input and a small constant: tables; two 8-bit inputs: one table of 64 KB; else floats through `apply`. */
octet_status oct_binary_lower(oct_lowering *l, oct_node *node, const char *kernel, oct_binary_f32 apply);

/* Slots and loops of a two-input step: operand 0 is the output. */
typedef struct oct_binary_slots {
  oct_slot *a, *b, *out;
  oct_loops loops;
} oct_binary_slots;
/* Asks for inputs and output in `dtype` (F32 or U8), in one layout. */
octet_status oct_binary_take(oct_lowering *l, oct_node *node, oct_dtype dtype, oct_binary_slots *slots);
/* true when both inputs and the output are stored as 8-bit quantized values. */
bool oct_binary_is_u8(oct_lowering *l, const oct_node *node);
/* Done by tables, one per element of the constant, when one input is 8-bit and the other a constant of at most `limit` elements; else
 * *done is false. */
octet_status oct_binary_lower_tables(oct_lowering *l, oct_node *node, int64_t limit, bool *done);
#define OCT_TABLES_LIMIT 1024 /* 256 KB */

/* A step on 8-bit operands and output, called with dense runs of at most OCT_BINARY_RUN elements (copied together where
 * strides ask for it). */
#define OCT_BINARY_RUN 512
typedef struct oct_binary_u8 {
  const oct_vector_kernels *vector;
  float a_scale, b_scale;
  int32_t a_zero_point, b_zero_point, zero_point;
  const uint8_t *table; /* the operator's own */
} oct_binary_u8;
typedef void (*oct_binary_u8_fn)(const oct_binary_u8 *p, size_t n, const uint8_t *a, const uint8_t *b, bool b_broadcast, uint8_t *y);
/* `p` is copied, its vector and zero points are filled in. b_broadcast: b is one element (only when `broadcasts`). */
octet_status oct_binary_u8_lower(oct_lowering *l, oct_node *node, const char *kernel, oct_binary_u8_fn apply, bool broadcasts,
                                 const oct_binary_u8 *p, const oct_binary_slots *slots);

#define OCT_APPLY_BLOCK 128
/* Defines a static oct_binary_f32: `dense` is the vector kernel for unit strides (a function of n, a, b, y), `expression`
 * one of u and w. */
#define OCT_APPLY2_F32(name, dense, expression)                                                                                        \
  static void name(const oct_vector_kernels *vector, size_t n, const float *a, ptrdiff_t a_stride, const float *b, ptrdiff_t b_stride, \
                   float *y, ptrdiff_t y_stride) {                                                                                     \
    if (a_stride == 1 && b_stride == 1 && y_stride == 1) {                                                                             \
      dense(vector, n, a, b, y);                                                                                                       \
      return;                                                                                                                          \
    }                                                                                                                                  \
    size_t i = 0;                                                                                                                      \
    if (y_stride == 1 && (a_stride | b_stride) == 1) { /* one of them is 0 */                                                          \
      float one[OCT_APPLY_BLOCK];                                                                                                      \
      for (size_t j = 0; j < OCT_APPLY_BLOCK && j < n; j++) one[j] = a_stride ? *b : *a;                                               \
      for (size_t some; i < n; i += some) {                                                                                            \
        some = n - i < OCT_APPLY_BLOCK ? n - i : OCT_APPLY_BLOCK;                                                                      \
        dense(vector, some, a_stride ? a + i : one, a_stride ? one : b + i, y + i);                                                    \
      }                                                                                                                                \
    }                                                                                                                                  \
    for (; i < n; i++) {                                                                                                               \
      float u = a[(ptrdiff_t)i * a_stride], w = b[(ptrdiff_t)i * b_stride];                                                            \
      y[(ptrdiff_t)i * y_stride] = (expression);                                                                                       \
    }                                                                                                                                  \
  }

/* ---- Splitting loops over slots into units of work ------------------------------------------------------------ */

/* Loops over slots, the first being the output; the others are broadcast to it. */
void oct_slots_loops(oct_loops *loops, int operands, const oct_slot *const slots[]);
/* true when all operands lie as the output does, so that it may take the memory of one. */
bool oct_loops_aligned(const oct_loops *loops, int operands);
/* Every row of the loops is cut into `pieces` of at most `piece` elements; unit = row * pieces + piece number. */
typedef struct oct_units {
  oct_loops loops;
  int64_t piece;
  size_t pieces;
} oct_units;
typedef struct oct_run {
  int64_t offset[4]; /* elements, per operand */
  size_t n;          /* elements of the run */
} oct_run;
/* Sets step->units and grain for the loops. */
void oct_units_make(oct_units *units, const oct_loops *loops, oct_step *step);
oct_run oct_units_run(const oct_units *units, int operands, size_t unit);
static inline int64_t oct_units_stride(const oct_units *units, int operand) { return units->loops.stride[operand][units->loops.rank - 1]; }

#endif
