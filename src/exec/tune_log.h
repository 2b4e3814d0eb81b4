/* The tuning log: which kernel was the fastest for a layer when it was timed, and how many samples of a batch ran best at once. One JSON file
 * holds any number of processors; a log opened here sees only the part of this processor, instruction sets and kernels. A log never decides
 * what is computed, only how fast: integer results are the same bytes for every choice.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_EXEC_TUNE_LOG_H
#define OCT_EXEC_TUNE_LOG_H

#include "base/reader.h"
#include "kernels/kernels.h"

typedef struct oct_tune_log oct_tune_log;

/* `path` NULL: what OCTET_TUNE_LOG names, else octet/tune.json in XDG_CACHE_HOME or in HOME/.cache. "none" (or no such place): *out is NULL.
 * A file that is absent is an empty log; one that is damaged or something else is left alone, with a warning. */
octet_status oct_tune_log_open(octet_context *ctx, const char *path, uint32_t isa_mask, oct_tune_log **out);
/* The same from bytes; `path` is what messages name and where it is saved, `section` the processor's part (as in tune_log.c). */
octet_status oct_tune_log_read_bytes(octet_context *ctx, oct_bytes bytes, const char *path, const char *section, oct_tune_log **out);
void oct_tune_log_close(oct_tune_log *log); /* NULL is fine */
/* Writes the whole file, with the folders it lies in where those are missing; OCTET_UNSUPPORTED when a file of another kind is in its place. */
octet_status oct_tune_log_save(octet_context *ctx, const oct_tune_log *log);
const char *oct_tune_log_path(const oct_tune_log *log);

/* Name of the kernel that was chosen, and milliseconds that a kernel took; NULL and 0 when it was not timed. */
const char *oct_tune_log_kernel(const oct_tune_log *log, const char *key);
double oct_tune_log_time(const oct_tune_log *log, const char *key, const char *kernel);
/* Samples at once; 0 when that was not timed. */
int64_t oct_tune_log_chunk(const oct_tune_log *log, const char *key);

/* One timed way of running something; name: the kernel, or the number of samples. */
typedef struct oct_timed {
  char name[64];
  double ms;
} oct_timed;
octet_status oct_tune_log_put_kernel(octet_context *ctx, oct_tune_log *log, const char *key, const oct_timed *timed, size_t n,
                                     size_t chosen);
octet_status oct_tune_log_put_chunk(octet_context *ctx, oct_tune_log *log, const char *key, const oct_timed *timed, size_t n,
                                    size_t chosen);

#endif
