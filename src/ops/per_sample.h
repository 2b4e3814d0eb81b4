/* Does an operator treat the samples of a batch (dim 0) apart? Common answers for the descriptors' `per_sample`, and the question for a whole graph.
 * Shapes are known and constants folded when these are asked.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_PER_SAMPLE_H
#define OCT_OPS_PER_SAMPLE_H

#include "ir/op.h"

bool oct_per_sample_always(const oct_node *node);
bool oct_per_sample_axis(const oct_node *node);        /* attribute "axis" is not 0 */
bool oct_per_sample_axes(const oct_node *node);        /* constant axes in input 1 leave out 0 */
bool oct_per_sample_permutation(const oct_node *node); /* attribute "perm" keeps dim 0 in place */
bool oct_per_sample_gemm(const oct_node *node);
bool oct_per_sample_matmul(const oct_node *node);
bool oct_per_sample_gather(const oct_node *node);
bool oct_per_sample_slice(const oct_node *node);  /* constant axes in input 3 leave out 0 */
bool oct_per_sample_expand(const oct_node *node); /* the rank stays */
bool oct_per_sample_pad(const oct_node *node);    /* constant pads in input 1 are 0 for dim 0 */

/* true when all slices of the tensor along dim 0 are the same bytes. */
bool oct_tensor_repeats(const oct_tensor *tensor);

/* true when every graph input and output has the same first dim (*batch) and every node treats samples apart
 * (or reads constants only): then a batch may be run in pieces. */
bool oct_graph_per_sample(const oct_graph *graph, int64_t *batch);

#endif
