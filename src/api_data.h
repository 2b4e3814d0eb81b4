/* Datasets as the public functions hold them, and how samples become a graph's inputs.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_API_DATA_H
#define OCT_API_DATA_H

#include "api.h"
#include "formats/dataset.h"

struct octet_dataset {
  octet_context *ctx;
  oct_dataset *inner;
  int64_t *order; /* the draw; NULL: all samples in order */
  size_t count;   /* samples of the draw */
};

/* Writes samples [first, first + count) to `to` as `input` (of `graph`) wants them. 8-bit inputs that feed a dequantize node get their samples
 * quantized by that node's parameters. */
octet_status oct_data_fill(octet_dataset *data, const oct_graph *graph, const oct_value *input, size_t first, size_t count, void *to);
/* Samples for one run. */
int64_t oct_data_batch(const oct_graph *graph);

#endif
