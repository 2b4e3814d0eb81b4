/* Between accumulate.c, accumulate_i8.c and accumulate_dynamic.c: one problem while it is being lowered.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_ACCUMULATE_PARTS_H
#define OCT_OPS_ACCUMULATE_PARTS_H

#include "ops/accumulate.h"

typedef struct oct_accumulate {
  oct_lowering *l;
  const oct_accumulate_problem *p;
  oct_fusion fusion;
  int64_t padded;      /* oct_accumulate_padded() */
  float rounded_scale; /* of fusion.rounded as stored: unsigned 8-bit */
  int32_t rounded_zero_point;
  bool table_after; /* the fused table cannot run in the kernel and follows as a step */
  const char *reason;
} oct_accumulate;

octet_status oct_accumulate_input(oct_accumulate *a, const oct_value *value, oct_dtype dtype, bool with_border, oct_slot **out);
octet_status oct_accumulate_output(oct_accumulate *a, oct_dtype dtype, oct_slot **out);
/* Views of the slots and their addresses, once the step's arguments are known: an output or residual, and the input. */
octet_status oct_accumulate_place_out(oct_accumulate *a, oct_step *step, oct_view *view, oct_slot *slot, bool write);
octet_status oct_accumulate_place_in(oct_accumulate *a, oct_step *step, oct_view *view, oct_slot *slot);
/* What must follow the kernel's step: the table, where the kernel could not apply it. */
octet_status oct_accumulate_finish(oct_accumulate *a, oct_slot *out);
/* The fused unary node as a map from the rounded value to `out`; *table NULL without one. */
octet_status oct_accumulate_table(oct_accumulate *a, const oct_slot *out, const uint8_t **table);
/* Lets the step run by rows, where its problem is one of those that are worth it. */
octet_status oct_accumulate_rows(oct_accumulate *a, oct_step *step, const oct_step_rows *rows);
const char *oct_accumulate_reason(oct_accumulate *a, const char *rejected);
double oct_accumulate_macs(const oct_conv_shape *shape);
/* Output channels rounded up to 64: so long are arrays of what kernels read per channel. */
static inline int64_t oct_accumulate_padded(const oct_conv_shape *shape) { return (shape->out_channels + 63) / 64 * 64; }

/* Products per output element. */
int64_t oct_accumulate_depth(const oct_accumulate_problem *p);
/* The real bias of a channel; false when it is not a constant per channel. */
bool oct_accumulate_bias(const oct_accumulate_problem *p, int64_t channel, double *real);
octet_status oct_accumulate_float_bias(oct_accumulate *a, const float **bias);
/* Key under which packed weights are kept: kernel, form, and everything of the problem that packing may depend on. */
uint64_t oct_accumulate_packing(const oct_accumulate_problem *p, const char *kernel, char *name, size_t size);

/* ---- The integer kernel's step (accumulate_i8.c) ---- */

typedef struct oct_i8_step {
  oct_conv_i8_args args;
  const oct_conv_i8_kernel *kernel;
  const oct_vector_kernels *vector;
} oct_i8_step;

float oct_accumulate_weight_scale(const oct_accumulate_problem *p, int64_t channel);
/* Sum of a channel's int8 weights, and of their magnitudes. */
void oct_accumulate_sums(const oct_accumulate_problem *p, int64_t channel, int64_t *sum, int64_t *magnitude);
octet_status oct_accumulate_pack_i8(oct_accumulate *a, const oct_conv_i8_kernel *kernel, void **packed);
/* Multipliers and clamp of a float result. */
void oct_accumulate_epilogue_f32(oct_accumulate *a, float in_scale, oct_epilogue_i8 *e, float *multiplier);
/* Adds the kernel's step with views, sizes and addresses; packed weights and epilogue are the caller's. */
octet_status oct_accumulate_step_i8(oct_accumulate *a, const oct_conv_i8_kernel *kernel, const char *rejected, oct_slot *in, oct_slot *out,
                                    oct_slot *residual, oct_i8_step **params, oct_step **step);
/* The weights of a product that waits for them are fetched by the 8-bit step before it. */
void oct_accumulate_fetch_before(oct_accumulate *a, oct_conv_i8_args *args, const oct_conv_i8_kernel *kernel);

/* oct_lower_multiplier() of every channel (multiplier.c). */
octet_status oct_accumulate_multipliers(oct_accumulate *a, float in_scale, float out_scale);
/* For results that are rounded: input scales known at run time, so large that their product with a multiplier would be infinite (and 0 times
 * that NaN), are lowered: results saturate as well. */
octet_status oct_accumulate_limit_scales(oct_accumulate *a, int64_t count, oct_slot **scales);

/* *done false: the accumulator could overflow (a->reason says so), nothing was added. */
octet_status oct_accumulate_lower_i8(oct_accumulate *a, bool *done);
octet_status oct_accumulate_lower_dynamic(oct_accumulate *a, bool *done);

#endif
