/* Between the files of the comparison: the graphs that are run side by side, and what is summed up.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_QUANTIZE_COMPARE_H
#define OCT_QUANTIZE_COMPARE_H

#include "quantize/calibration.h"
#include "quantize/probe.h"

typedef struct oct_error_sums {
  double signal, noise, max_error;
  size_t count;
  size_t not_finite; /* elements that are NaN or infinite in one and not the same in the other; not in the sums */
} oct_error_sums;

void oct_error_add(oct_error_sums *sums, const float *reference, const float *value, size_t count);
double oct_error_sqnr(const oct_error_sums *sums); /* dB; NAN when nothing was added, -INFINITY with elements that are not finite */

typedef struct oct_compared_layer {
  const oct_node *node; /* of the quantized graph */
  const oct_value *result;
  oct_error_sums along, alone;
  size_t clipped, seen;
} oct_compared_layer;

typedef struct oct_comparison {
  octet_context *ctx;
  oct_compare_report *report;
  oct_graph *reference, *quantized, *cut;
  oct_fusion_map fusion; /* of `quantized` */
  oct_compared_layer *layers;
  size_t n_layers;
  oct_probe *reference_probe, *quantized_probe, *cut_probe;
  oct_error_sums *outputs;
  size_t n_outputs;
  size_t *outside, *inside; /* by input of `quantized` */
} oct_comparison;

/* compare_graph.c */
/* Integer inputs and outputs become float ones that carry the parameters, so that both graphs take and give the same. */
octet_status oct_compare_strip_io(octet_context *ctx, oct_graph *graph);
/* comparison->cut: every layer of `quantized` reads its inputs from graph inputs named as the values (with CUT_SUFFIX) and gives its
 * result as an output: what each does alone, when fed with the float graph's values. */
octet_status oct_compare_cut(oct_comparison *comparison);
#define OCT_CUT_SUFFIX "@float"

/* compare_report.c */
octet_status oct_compare_finish(oct_comparison *comparison);

#endif
