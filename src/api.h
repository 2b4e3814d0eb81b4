/* The public handles, for the api_*.c files only. Thin: each public function hands on to the part that does the work.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_API_H
#define OCT_API_H

#include "exec/session.h"
#include "octet/octet.h"

struct octet_model {
  octet_context *ctx;
  oct_graph *graph;                   /* as it was read, or made by quantization */
  oct_graph *ready;                   /* a copy with the passes run: what sessions are made of; made on first use */
  oct_packed_cache *cache;            /* shared by the sessions of `ready` */
  struct oct_quantize_report *report; /* of the quantization that made it, or NULL */
};

struct octet_session {
  octet_context *ctx;
  oct_session *inner;
  double *seconds; /* by step, summed over profiled runs */
};

/* Takes over the graph (destroyed on failure). */
octet_status oct_model_wrap(octet_context *ctx, oct_graph *graph, octet_model **out);
/* The graph after the passes. */
octet_status oct_model_ready(const octet_model *model, const oct_graph **out);
octet_tensor oct_public_tensor(const oct_value *value, void *data, size_t bytes);
/* Copies the caller's options (NULL: none) over the defaults in *own: `struct_size`, their first field, says how many bytes the caller knows of. */
octet_status oct_options_take(octet_context *ctx, const void *given, void *own, size_t own_size);
/* Splits "a,b" and calls `each`; stops at the first failure. */
octet_status oct_each_word(octet_context *ctx, const char *list, octet_status (*each)(octet_context *ctx, void *user, const char *word),
                           void *user);

#endif
