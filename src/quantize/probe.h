/* A probe: a graph that is run on batches of any size while some of its values are looked at. Used for calibration and comparison.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_QUANTIZE_PROBE_H
#define OCT_QUANTIZE_PROBE_H

#include "exec/session.h"

typedef struct oct_probe oct_probe;

/* Values that the graph lacks, or that are no floats when it runs, are left out silently. */
octet_status oct_probe_create(octet_context *ctx, const oct_graph *graph, const char *const *names, size_t count, oct_probe **out);
void oct_probe_destroy(oct_probe *probe); /* NULL is fine */

typedef struct oct_probed_value {
  const char *name;
  const float *data; /* NULL: not there in this run */
  size_t elements;
} oct_probed_value;

/* What one run shows: the probed values, then the graph's own outputs (other than f32 without data), in order. */
typedef struct oct_probe_run {
  const oct_probed_value *values;
  size_t count;   /* probed values, as given to create */
  size_t outputs; /* values[count .. count + outputs) are the graph's outputs */
  size_t samples;
  const oct_session *session;
} oct_probe_run;

typedef octet_status (*oct_probe_fn)(void *user, const oct_probe_run *run);

/* Checks the tensors against the graph's inputs (`finite`: floats must be finite) and runs them in pieces: of the declared batch size where the graph
 * has one, else of a size that keeps memory small. `seen` is called after each piece. */
octet_status oct_probe_feed(oct_probe *probe, const oct_named_tensor *inputs, size_t count, bool finite, oct_probe_fn seen, void *user);

#endif
