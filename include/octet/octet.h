/* Octet: quantize a trained network, show what that did, and run it.
 * This is the only public header; it compiles alone as C17 and as C++.
 * SPDX-License-Identifier: MIT */
#ifndef OCTET_OCTET_H
#define OCTET_OCTET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(OCTET_STATIC) || !defined(__GNUC__)
#define OCTET_API
#else
#define OCTET_API __attribute__((visibility("default")))
#endif

/* ---- Status ------------------------------------------------------------------------------------------------ */

/* Every fallible call returns one of these; the message of the last failure is octet_context_message(). */
#define OCTET_STATUS_LIST(X)                                                                                      \
  X(OK, 0, "ok")                                                                                                  \
  X(OUT_OF_MEMORY, 1, "out of memory")                                                                            \
  X(INVALID_ARGUMENT, 2, "invalid argument")                                                                      \
  X(IO, 3, "input/output error")                                                                                  \
  X(FORMAT, 4, "malformed file")                                                                                  \
  X(UNSUPPORTED, 5, "not supported")                                                                              \
  X(SHAPE, 6, "shape mismatch")                                                                                   \
  X(GRAPH, 7, "invalid graph")                                                                                    \
  X(DATA, 8, "unusable data")                                                                                     \
  X(NOT_INTEGER, 9, "cannot be integer")                                                                          \
  X(CANCELLED, 10, "cancelled")

typedef enum octet_status {
#define X(name, number, text) OCTET_##name = number,
  OCTET_STATUS_LIST(X)
#undef X
} octet_status;

/* A context carries what would otherwise be global: diagnostics, threads, the instruction-set cap, progress.
 * One context serves one thread at a time; any number may exist. */
typedef struct octet_context octet_context;

#ifdef __cplusplus
}
#endif
#endif
