/* Test cases in ONNX's layout: a folder with model.onnx and test_data_set_N/input_I.pb, output_I.pb. How a graph is run is the caller's.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_CHECK_H
#define OCT_FORMATS_CHECK_H

#include "ir/graph.h"

/* The tolerances of ONNX's own backend test runner for floats; integers and booleans must be equal. */
#define OCT_CHECK_RTOL 1e-3
#define OCT_CHECK_ATOL 1e-7

/* Runs `graph` on inputs in the order of graph->inputs; makes one tensor per graph output (the caller releases them, also those made
 * before a failure). Shapes of the inputs may be more exact than the graph's. */
typedef octet_status (*oct_check_run)(octet_context *ctx, void *user, oct_graph *graph, const oct_tensor *const *inputs,
                                      oct_tensor **outputs);

typedef enum oct_check_verdict { OCT_CHECK_PASSED, OCT_CHECK_FAILED, OCT_CHECK_SKIPPED } oct_check_verdict;

typedef struct oct_check_result {
  oct_check_verdict verdict;
  size_t data_sets;   /* that were run */
  double max_error;   /* largest |got - want| over all float outputs */
  char message[1024]; /* why it failed or was skipped */
} oct_check_result;

/* Runs one case. Graph inputs that shapes depend on are bound as constants (a second try, with all small inputs bound, when shapes stay
 * open or the run says OCTET_UNSUPPORTED or OCTET_SHAPE). What Octet does not have makes a case skipped. A status other than OK: out of
 * memory or cancelled. */
octet_status oct_check_case(octet_context *ctx, const char *folder, oct_check_run run, void *user, oct_check_result *result);

/* Folders of cases at or below `folder` (those that hold a model.onnx), sorted; free each and the array with oct_free. */
octet_status oct_check_find(octet_context *ctx, const char *folder, char ***out, size_t *count);

/* OCTET_DATA with the first difference when `got` is not `want` within the tolerances; *max_error is raised to the largest difference. */
octet_status oct_check_compare(octet_context *ctx, const char *name, const oct_tensor *got, const oct_tensor *want, double rtol,
                               double atol, double *max_error);

#endif
