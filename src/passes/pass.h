/* Passes: rewrites of a graph that keep its results (up to float rounding where the pass says so), one per file, and their order.
 * A pass tests operator traits; names of operators stand only in passes that are about these operators.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_PASSES_PASS_H
#define OCT_PASSES_PASS_H

#include "ir/op.h"

typedef struct oct_pass {
  const char *name, *summary;
  /* Rewrites in place. *changed is set to true when anything changed (it is not cleared). The graph is compacted before and after. */
  octet_status (*run)(octet_context *ctx, oct_graph *graph, bool *changed);
} oct_pass;

/* All passes, sorted by name, NULL-ended (collected by the build from src/passes/). */
extern const oct_pass *const oct_pass_registry[];
const oct_pass *oct_pass_find(const char *name); /* NULL when unknown */

/* Runs all passes in the order of pass_manager.c, again and again until none changes anything (at most OCT_PASS_ROUNDS times).
 * `disabled`: names of passes to leave out, NULL-ended, or NULL; an unknown name is OCTET_INVALID_ARGUMENT. Debug builds verify the graph
 * after every pass that changed it. */
#define OCT_PASS_ROUNDS 16
octet_status oct_passes_run(octet_context *ctx, oct_graph *graph, const char *const *disabled);
/* One pass by name (and the compaction around it). */
octet_status oct_pass_run(octet_context *ctx, oct_graph *graph, const char *name);

#endif
