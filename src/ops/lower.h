/* Lowering: how an operator turns a node into steps of a plan. The planner (exec/) implements these calls; operators use them.
 *
 * A value exists in the plan as one or more slots. A slot is a physical form: element type, layout, border, place in memory. The planner
 * decides the stored form of each value (8-bit if it carries 8-bit quantization parameters, channels-last if its producer works so, with the
 * border its consumers want); an operator asks for its inputs in the form it needs and gets conversion steps where that differs.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_LOWER_H
#define OCT_OPS_LOWER_H

#include "ir/op.h"
#include "kernels/kernels.h"

typedef enum oct_layout {
  OCT_LAYOUT_PLAIN,        /* row-major, as the logical shape */
  OCT_LAYOUT_CHANNELS_LAST /* rank 4 only: logical [N,C,H,W] lies as [N][H][W][C], with a border */
} oct_layout;

typedef struct oct_border {
  int top, left, bottom, right;
} oct_border;

typedef struct oct_slot {
  const oct_value *value;
  oct_dtype dtype; /* of the stored elements: U8 for 8-bit quantized values (signed ones biased by 128) */
  oct_layout layout;
  oct_border border;
  bool quantized; /* scale and zero_point are valid (zero_point includes the bias of 128) */
  float scale;
  int32_t zero_point;
  oct_shape shape;  /* logical, known */
  const void *data; /* constants: the bytes, known while planning; else NULL */
  int buffer;       /* planner's */
  size_t offset;    /* bytes from the start of the buffer to logical element 0 */
} oct_slot;

/* A step: one call of run() with its parameters. Splittable: units [0, units) may run in any partition, at least `grain` at a time. */
typedef octet_status (*oct_step_fn)(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace);

/* How a step's work on some rows of the output is asked for, with image rows in other places: exec/strips.c runs neighbours a few rows at a time.
 * `shape` is the problem of those rows alone: batch 1, and views that begin at its first output row and at the input row that this one would
 * read without padding. Bytes of the result must not depend on how rows are cut. */
typedef struct oct_step_rows {
  const oct_conv_shape *shape;                                      /* of the whole step */
  const oct_view *in, *out, *residual;                              /* fields of the step's params; residual NULL: none */
  size_t in_size, out_size;                                         /* bytes of an element; a residual's are as the output's */
  bool (*accepts)(const void *params, const oct_conv_shape *shape); /* asked for every number of rows that will be run */
  size_t (*workspace_bytes)(const void *params, const oct_conv_shape *shape);
  void (*run)(const void *params, const oct_conv_shape *shape, const oct_view *in, const oct_view *out, const oct_view *residual,
              void *workspace);
} oct_step_rows;

typedef struct oct_step {
  const char *kernel; /* name, for profiles */
  const oct_node *node;
  oct_step_fn run;
  void *params;
  size_t units, grain;
  size_t workspace_bytes; /* per worker */
  bool form;              /* only changes a value's form (type, layout, border): not the node's own work */
  bool in_place;          /* elementwise: an output may lie over an input of the same size that nothing reads later */
  double macs;
  const char *reason;              /* why this kernel; NULL: nothing to say */
  const struct oct_choice *choice; /* planner's: what the kernel was chosen from; NULL: there was no choice */
  const oct_step_rows *rows;       /* NULL: runs as a whole only */
  struct oct_strips *strips;       /* planner's: the chain that the step runs in; its last step runs all of it */
} oct_step;

/* What the planner fused onto an accumulating node (convolution, gemm, matmul): first the bias, then the residual, then the activation. */
typedef struct oct_fusion {
  /* Product of two activations (matmul) only: transpositions of its inputs and of its result that reading and writing do, or NULL; and a factor, 0: none */
  const oct_node *before[2], *after;
  /* Attention: A is the softmax over the last dim of the result of `scores`, a product of two activations with its own fusion, or NULL */
  oct_node *scores;
  float scale;
  const oct_value *bias;     /* constant per output channel, added first, where the node has no bias of its own; or NULL */
  const oct_value *residual; /* added to the result, or NULL */
  bool has_clamp;
  float low, high;          /* clamp after the residual */
  const oct_node *table;    /* unary node applied to the rounded 8-bit result (its input value carries quantization parameters), or NULL */
  oct_value *output;        /* where the result goes: output of the last fused node */
  const oct_value *rounded; /* value whose quantization parameters round the result (before `table`), or NULL: float */
} oct_fusion;

typedef struct oct_lowering {
  octet_context *ctx;
  oct_graph *graph; /* every shape known, constants folded */
  uint32_t isa_mask;
  const oct_vector_kernels *vector;
  oct_profile profile;
  struct oct_conv_i8_args *before; /* of the 8-bit product lowered last, or NULL: may fetch weights for the next one */
  struct oct_plan *plan;
} oct_lowering;

/* Declines: the planner uses the reference instead and keeps the reason. Returns OCTET_UNSUPPORTED. */
octet_status oct_lower_decline(oct_lowering *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Declines unless integer kernels may multiply by oct_multiplier() of these scales: asked before anything is added. weight_scale 1: there are no
 * weights; output_scale 0: results are floats. */
octet_status oct_lower_multiplier(oct_lowering *l, float input_scale, float weight_scale, float output_scale);

/* The fusion of an accumulating node; without any, output = rounded-or-not output 0. */
oct_fusion oct_lower_fusion(oct_lowering *l, const oct_node *node);

/* The slot in which the value is stored. */
octet_status oct_lower_stored(oct_lowering *l, const oct_value *value, oct_slot **out);
/* The value in the wanted form (dtype OCT_DTYPE_NONE: as stored), converted if needed. `border` NULL: none wanted (a wider one may be there). */
octet_status oct_lower_input(oct_lowering *l, const oct_value *value, oct_dtype dtype, oct_layout layout, const oct_border *border,
                             oct_slot **out);
/* Where to write the value: dtype OCT_DTYPE_NONE: as it is to be stored. In another dtype or layout than stored, the planner adds the
 * conversion after the node. */
octet_status oct_lower_output(oct_lowering *l, oct_value *value, oct_dtype dtype, oct_layout layout, oct_slot **out);
/* Layout and dtype in which the planner wants the value stored. */
oct_layout oct_lower_layout(oct_lowering *l, const oct_value *value);
oct_dtype oct_lower_dtype(oct_lowering *l, const oct_value *value);
/* Output 0 is the very memory of `slot` (same bytes and plain layout): no step. Keeps quantization of the slot. */
octet_status oct_lower_alias(oct_lowering *l, oct_value *output, oct_slot *slot);

/* Adds a step; *params is zero-filled memory of the plan with `size` bytes. */
octet_status oct_lower_step(oct_lowering *l, const oct_node *node, const char *kernel, oct_step_fn run, size_t size, void *params,
                            oct_step **out);
/* `where` (a field in some step's params) will hold the address of the slot's logical element 0 when the session is made. */
octet_status oct_lower_read(oct_lowering *l, oct_step *step, void *where, oct_slot *slot);
octet_status oct_lower_write(oct_lowering *l, oct_step *step, void *where, oct_slot *slot);
/* Scratch shared by consecutive steps of one node: a slot without value. */
octet_status oct_lower_scratch(oct_lowering *l, oct_dtype dtype, const oct_shape *shape, oct_layout layout, const oct_border *border,
                               oct_slot **out);
/* Scratch that several nodes read: `key` says what the slots hold of `value`. oct_lower_shared() returns NULL when nobody has made it yet. */
oct_slot *const *oct_lower_shared(oct_lowering *l, const oct_value *value, const char *key);
octet_status oct_lower_share(oct_lowering *l, const oct_value *value, const char *key, oct_slot *const *slots, int count);
/* Memory that lives as long as the plan (tables, folded biases); zero-filled. */
void *oct_lower_memory(oct_lowering *l, size_t count, size_t size);
/* Packed weights from the cache keyed (tensor, packing): *fresh tells that the caller must fill *packed. `packing` names kernel and form. */
octet_status oct_lower_packed(oct_lowering *l, const oct_tensor *weights, const char *packing, size_t bytes, void **packed, bool *fresh);

/* The 8-bit kernel for a problem, and in `refused` why faster ones could not be taken. `weights` NULL: not known. Says so in the node's report. */
octet_status oct_lower_choose_i8(oct_lowering *l, const oct_conv_shape *shape, const int8_t *weights, const int32_t *bias,
                                 const oct_conv_i8_kernel **kernel, char *refused, size_t size);

/* View of a channels-last slot (data is set by oct_lower_read/write on &view.data). A plain rank-2 [M,K] slot is seen as 1 x 1 x M x K;
 * other plain slots as 1 x 1 x rows x last dim. */
oct_view oct_slot_view(const oct_slot *slot);
/* Element strides by logical dim, aligned to the right of `rank` dims, 0 where the slot broadcasts. */
void oct_slot_strides(const oct_slot *slot, int rank, int64_t strides[OCT_MAX_RANK]);
/* Nests of loops over up to OCT_MAX_RANK dims in memory order of `out` with adjacent dims merged: for movement and broadcasting steps. */
typedef struct oct_loops {
  int rank; /* after merging; at least 1; the last one is the inner run */
  int64_t count[OCT_MAX_RANK];
  int64_t stride[4][OCT_MAX_RANK]; /* elements, per operand; operand 0 is the output */
} oct_loops;
void oct_loops_make(oct_loops *loops, int operands, const oct_shape *shape, int64_t strides[][OCT_MAX_RANK]);
/* Rows = product of all counts but the last. Offsets (elements) of row r for each operand. */
size_t oct_loops_rows(const oct_loops *loops);
void oct_loops_row(const oct_loops *loops, size_t row, int operands, int64_t offsets[]);
/* The same for consecutive rows, without divisions: start at a row, then step to the next. */
typedef struct oct_loops_cursor {
  int64_t index[OCT_MAX_RANK];
  int64_t offset[4]; /* elements, per operand */
} oct_loops_cursor;
void oct_loops_start(const oct_loops *loops, size_t row, int operands, oct_loops_cursor *cursor);
static inline void oct_loops_next(const oct_loops *loops, int operands, oct_loops_cursor *cursor) {
  for (int d = loops->rank - 2; d >= 0; d--) {
    bool wraps = ++cursor->index[d] == loops->count[d];
    for (int k = 0; k < operands; k++) cursor->offset[k] += loops->stride[k][d] - (wraps ? loops->count[d] * loops->stride[k][d] : 0);
    if (!wraps) return;
    cursor->index[d] = 0;
  }
}

/* Quantization parameters of a weight constant as int8 weights without zero point; false when the value is no such constant. */
bool oct_weight_is_int8(const oct_value *value, int axis);
/* Weights as f32 (dequantized if needed), cached with the plan. */
octet_status oct_lower_constant_f32(oct_lowering *l, const oct_value *value, const float **out);

#endif
