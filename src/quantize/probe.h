/* A probe: a graph that is run on batches of any size while some of its values are looked at. Used for calibration and comparison.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_QUANTIZE_PROBE_H
#define OCT_QUANTIZE_PROBE_H

#include "exec/session.h"

typedef struct oct_probe oct_probe;

/* Values that the graph lacks, or that are no floats when it runs, are left out silently. */
octet_status oct_probe_create(octet_context *ctx, const oct_graph *graph, const char *const *names, size_t count, oct_probe **out);
/* The same for values that are watched while they are made (exec/watch.h) instead of being looked at afterwards: number `index` is names[index], all of
 * which must be floats of the graph. `watch` needs the functions alone. Runs show nothing else. */
octet_status oct_probe_create_watching(octet_context *ctx, const oct_graph *graph, const char *const *names, size_t count,
                                       const oct_watch *watch, oct_probe **out);
void oct_probe_destroy(oct_probe *probe); /* NULL is fine */

typedef struct oct_probed_value {
  const char *name;
  const float *data; /* NULL: not there in this run */
  size_t elements;
  oct_shape shape;
} oct_probed_value;

/* What one run shows: the probed values, then the graph's own outputs (without data unless f32), in order. */
typedef struct oct_probe_run {
  const oct_probed_value *values;
  size_t count;   /* probed values, as given to create */
  size_t outputs; /* values[count .. count + outputs) are the graph's outputs */
  size_t samples;
  const oct_session *session;
} oct_probe_run;

/* How a batch is to be run: samples [0, total) in pieces of `piece` samples; the last piece may overlap the one before. */
typedef struct oct_probe_pieces {
  size_t total, piece;
} oct_probe_pieces;

/* Checks the tensors against the graph's inputs (`finite`: floats must be finite). The piece is the declared batch size where the graph
 * has one, else what keeps memory small. Tensors without a common first dim are one sample. */
octet_status oct_probe_batch(oct_probe *probe, const oct_named_tensor *inputs, size_t count, bool finite, oct_probe_pieces *out);
/* Runs samples [begin, begin + n) of a checked batch. `out` is valid until the next run. */
octet_status oct_probe_run_piece(oct_probe *probe, const oct_named_tensor *inputs, size_t count, const oct_probe_pieces *pieces,
                                 size_t begin, size_t n, oct_probe_run *out);
/* The first sample of the piece after `begin`, and how many samples it has; false when there is none. Start with *begin = 0, *n = 0. */
bool oct_probe_next(const oct_probe_pieces *pieces, size_t *begin, size_t *n);

/* Shapes of the last run's inputs for one sample, where the batch size is free: what to plan the graph with. NULL and 0 before any run. */
const oct_named_shape *oct_probe_sample_shapes(oct_probe *probe, size_t *count);

#endif
