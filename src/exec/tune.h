/* Timing the candidates of a graph's 8-bit layers, and numbers of samples at once, in place: inside whole runs.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_EXEC_TUNE_H
#define OCT_EXEC_TUNE_H

#include "exec/session.h"

/* Takes about `seconds` (at least a few runs), and puts what it found into the log, which is not saved. */
octet_status oct_tune(octet_context *ctx, const oct_graph *graph, const oct_session_options *options, double seconds, oct_tune_log *log);

/* The log's key for the batch of a session's graph. */
#define OCT_TUNE_KEY 64
void oct_tune_batch_key(const oct_graph *whole, int64_t batch, int threads, char key[OCT_TUNE_KEY]);

#endif
