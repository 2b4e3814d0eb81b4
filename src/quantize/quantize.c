/* Convert, and the three steps in one call.
 * SPDX-License-Identifier: MIT */
#include "quantize/quantize.h"

#include "quantize/calibration.h"

#define MAX_ROUNDS 64 /* every round but the last forces at least one more node or value to stay float */

static void clear_round(oct_conversion *k) {
  oct_graph_destroy(k->graph);
  k->graph = NULL;
  oct_free(k->layers);
  k->layers = NULL;
  k->report->n_values = 0;
}

/* One attempt: scheme, ranges, realization, verdict. *changed: something was found that must stay float; try again. */
static octet_status attempt(oct_conversion *k, bool *changed) {
  oct_calibration *c = k->calibration;
  *changed = false;
  clear_round(k);
  memset(k->parameters, 0, (c->graph->n_values + 1) * sizeof *k->parameters);
  OCT_TRY(oct_scheme_decide(c));
  OCT_TRY(oct_ranges_choose(k, changed));
  if (*changed) return OCTET_OK;
  OCT_TRY(oct_report_begin(k));
  OCT_TRY(oct_graph_copy(c->ctx, c->graph, &k->graph));
  OCT_TRY(oct_realize(k));
  return oct_verdict(k, changed);
}

static octet_status convert(oct_conversion *k) {
  oct_calibration *c = k->calibration;
  bool changed = true;
  k->parameters = oct_alloc(c->ctx, c->graph->n_values + 1, sizeof *k->parameters);
  if (!k->parameters) return OCTET_OUT_OF_MEMORY;
  for (int round = 0; changed && round < MAX_ROUNDS; round++) OCT_TRY(attempt(k, &changed));
  if (c->options.strict && c->options.mode == OCT_MODE_INT8) OCT_TRY(oct_scheme_check_strict(c));
  OCT_TRY(oct_report_finish(k));
  return oct_graph_set_metadata(c->ctx, k->graph, "quantization", oct_quantize_mode_name(c->options.mode));
}

octet_status oct_calibration_convert(oct_calibration *c, oct_graph **out, oct_quantize_report *report) {
  oct_quantize_report own = {0};
  *out = NULL;
  if (report) oct_quantize_report_free(report);
  oct_conversion k = {.calibration = c, .report = report ? report : &own};
  octet_status status = convert(&k);
  oct_free(k.parameters);
  oct_free(k.layers);
  oct_quantize_report_free(&own);
  if (status == OCTET_OK) *out = k.graph;
  else oct_graph_destroy(k.graph);
  return status;
}

static octet_status observe_all(octet_context *ctx, oct_calibration *c, oct_batch_fn batches, void *user) {
  for (size_t index = 0;; index++) {
    const oct_named_tensor *inputs = NULL;
    size_t count = 0;
    OCT_TRY(batches(ctx, user, index, &inputs, &count));
    if (count == 0) return OCTET_OK;
    OCT_TRY(oct_calibration_observe(c, inputs, count));
    OCT_TRY(oct_progress(ctx, "calibrating", index + 1, 0));
  }
}

octet_status oct_quantize_graph(octet_context *ctx, const oct_graph *graph, const oct_quantize_options *options, oct_batch_fn batches,
                                void *user, oct_graph **out, oct_quantize_report *report) {
  oct_calibration *c;
  *out = NULL;
  OCT_TRY(oct_quantize_prepare(ctx, graph, options, &c));
  octet_status status = OCTET_OK;
  if (oct_calibration_wants_data(c) && batches) status = observe_all(ctx, c, batches, user);
  if (status == OCTET_OK) status = oct_calibration_convert(c, out, report);
  oct_calibration_destroy(c);
  return status;
}
