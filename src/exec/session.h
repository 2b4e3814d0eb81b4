/* A session: one graph, specialized to input shapes, planned and ready to run. Everything is allocated here; running allocates nothing.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_EXEC_SESSION_H
#define OCT_EXEC_SESSION_H

#include "exec/plan.h"

typedef struct oct_named_shape {
  const char *name; /* of a graph input */
  oct_shape shape;
} oct_named_shape;

typedef struct oct_session_options {
  const oct_named_shape *shapes; /* inputs not named: declared shape; unknown dims become `batch` (axis 0) or 1 */
  size_t n_shapes;
  int64_t batch; /* 0: 1 */
  int64_t chunk; /* samples that run through the graph at once, where samples are apart; 0: chosen so that they stay in the cache */
  const oct_named_tensor *bound; /* inputs whose value is fixed now (they become constants) */
  size_t n_bound;
  uint32_t isa_mask;   /* 0: the context's */
  unsigned fuse_kinds; /* what may be fused (OCT_FUSE_ALL usually) */
  bool exact_float;    /* no float kernel that is flagged approximate */
  bool
      memory_small; /* least memory first: weights in no form larger than they are, samples one by one, pages of the model's file given back */
  const oct_tune_log *tune_log; /* what was timed, needed while the session is made; NULL: nothing was */
  size_t candidate;             /* while tuning: see oct_chooser */
  int strip_rows;               /* tests: rows of a strip, and values of any size lie in strips; 0: chosen */
  bool split_short;             /* tests: steps are split over threads however short they are */
  oct_packed_cache *cache;      /* NULL: a private one */
  const oct_watch *watch;       /* copied; NULL: nothing is watched. Needs a chunk as large as the batch */
} oct_session_options;

oct_session_options oct_session_options_default(void);

/* Memory of a graph input or output, for the whole batch. */
typedef struct oct_session_io {
  uint8_t *data;
  size_t chunk_bytes; /* of one chunk */
  int buffer;         /* of the plan */
} oct_session_io;

typedef struct oct_session {
  octet_context *ctx;
  oct_graph *graph;               /* the specialized copy for one chunk: every shape known, constants folded */
  oct_graph *whole;               /* the same for the whole batch, where that is more than one chunk; else NULL */
  oct_plan plan;                  /* of `graph` */
  int64_t batch, chunk, n_chunks; /* samples; batch 0: the graph has no batch that can be cut */
  uint8_t *arena, *workspace;     /* workspace: plan.workspace_bytes (rounded up) per worker */
  size_t workspace_stride;
  int workers; /* workspaces there are */
  oct_session_io *io;
  size_t n_io;
  oct_relocation **moving; /* pointers into io: set anew for each chunk */
  int *moving_io;
  size_t n_moving;
  oct_step **steps; /* what run() does: the plan's steps without borders that were filled once and without empty ones */
  size_t n_steps;
} oct_session;

/* Does not keep `graph`. Errors: shapes that do not fit, values whose shape stays unknown (named), operators that cannot be run. */
octet_status oct_session_create(octet_context *ctx, const oct_graph *graph, const oct_session_options *options, oct_session **out);
void oct_session_destroy(oct_session *session); /* NULL is fine */

/* Inputs and outputs in the order of session->graph (bound inputs are gone), for the whole batch: plain, of the logical type. `data` points into the session:
 * write inputs there before run(), read outputs after. Outputs stay until the next run. */
typedef struct oct_session_port {
  const oct_value *value; /* name, dtype, shape */
  void *data;
  size_t bytes;
} oct_session_port;

size_t oct_session_inputs(const oct_session *session);
size_t oct_session_outputs(const oct_session *session);
oct_session_port oct_session_input(const oct_session *session, size_t i);
oct_session_port oct_session_output(const oct_session *session, size_t i);

/* Runs once. Sets round-to-nearest without flush-to-zero and restores the caller's modes. */
octet_status oct_session_run(oct_session *session);
/* Same, adding each step's seconds to seconds[i], i < session->n_steps. */
octet_status oct_session_run_profiled(oct_session *session, double *seconds);

/* Bytes of weights as they lie in memory: packed weights (shared ones counted once) and folded constants. */
size_t oct_session_weight_bytes(const oct_session *session);

/* The specialized copy alone (specialize.c). */
octet_status oct_graph_specialize(octet_context *ctx, const oct_graph *graph, const oct_session_options *options, oct_graph **out);
/* The rounding family a graph asks for (metadata "profile"). */
oct_profile oct_graph_profile(const oct_graph *graph);

#endif
