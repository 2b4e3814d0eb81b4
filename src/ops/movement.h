/* Moving elements: a strided block copy, used by the references, and the same as a step of a plan.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_MOVEMENT_H
#define OCT_OPS_MOVEMENT_H

#include "ops/op.h"

/* One block: for every index i below `shape`, out[out_offset + i . out_stride] = in[in_offset + i . in_stride], in elements. */
typedef struct oct_copy {
  oct_shape shape;
  int64_t in_offset, out_offset;
  int64_t in_stride[OCT_MAX_RANK], out_stride[OCT_MAX_RANK];
} oct_copy;

/* The copy of a whole tensor of this shape between two places with these strides. */
oct_copy oct_copy_make(const oct_shape *shape, const int64_t in_stride[OCT_MAX_RANK], const int64_t out_stride[OCT_MAX_RANK]);
/* Plain loops, for references; `size` is the bytes of an element. */
void oct_copy_run(const oct_copy *copy, size_t size, const void *in, void *out);

/* Elements of an i32/i64 tensor as int64; the count, or -1 when the tensor is of another type or holds more than `max`. */
int oct_tensor_ints(const oct_tensor *tensor, int64_t *out, int max);

/* The slots between which a movement operator copies value `in` to value `out`: the input as it is stored, the output as it is wanted, with equal
 * element types (both float where they differ). *table is not NULL when 8-bit values must be mapped to another scale. */
octet_status oct_movement_slots(oct_lowering *l, const oct_value *in, oct_value *out, oct_slot **in_slot, oct_slot **out_slot,
                                const uint8_t **table);
/* The same with both in plain layout. */
octet_status oct_movement_plain(oct_lowering *l, const oct_value *in, oct_value *out, oct_slot **in_slot, oct_slot **out_slot,
                                const uint8_t **table);
/* The map from one 8-bit quantization to another; NULL in *table when they are equal. */
octet_status oct_requantize_table(oct_lowering *l, const oct_slot *from, const oct_slot *to, const uint8_t **table);

/* Adds the step that does the copy; `table` (256 entries, or NULL) is applied to 8-bit elements. */
octet_status oct_movement_step(oct_lowering *l, const oct_node *node, const oct_copy *copy, oct_slot *in, oct_slot *out,
                               const uint8_t *table);
/* Adds the step that sets every element of the block to `bits` (the low bytes). Uses shape, out_offset and out_stride. */
octet_status oct_movement_fill(oct_lowering *l, const oct_node *node, const oct_copy *block, uint64_t bits, oct_slot *out);

/* Output 0 is input 0 in other words: aliased, or converted where the quantization differs. */
octet_status oct_lower_view(oct_lowering *l, oct_node *node);
/* Reference of a view: same bytes. */
octet_status oct_reference_view(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out);

/* The permutation of `rank` dims by a node that permutes; false when its attribute is none (transpose.c). */
bool oct_transpose_permutation(const oct_node *node, int rank, int perm[OCT_MAX_RANK]);

#endif
