/* A bounded interpreter for Python pickles, protocols 0 to 5, as far as weight files use them. It builds a tree of plain
 * values and executes nothing: a call (REDUCE) only makes a node that records the callable and its arguments, and only
 * when the caller's policy knows that callable. What the nodes mean for tensors is torch.c's business.
 * Source of the opcodes: CPython's Lib/pickletools.py (documentation of each opcode).
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_PICKLE_H
#define OCT_FORMATS_PICKLE_H

#include "base/reader.h"

typedef enum oct_pickle_kind {
  OCT_PICKLE_NONE,
  OCT_PICKLE_BOOL,
  OCT_PICKLE_INTEGER,
  OCT_PICKLE_LONG, /* an integer that does not fit int64: text = its little-endian two's complement bytes, or digits */
  OCT_PICKLE_FLOAT,
  OCT_PICKLE_STRING,
  OCT_PICKLE_BYTES,
  OCT_PICKLE_TUPLE,
  OCT_PICKLE_LIST,
  OCT_PICKLE_DICT, /* items: key, value, key, value, ... */
  OCT_PICKLE_SET,
  OCT_PICKLE_GLOBAL,     /* text: "module.name", zero-terminated */
  OCT_PICKLE_PERSISTENT, /* items[0]: the persistent id */
  OCT_PICKLE_CALL        /* items[0]: the callable (GLOBAL), items[1]: the arguments (TUPLE) */
} oct_pickle_kind;

typedef struct oct_pickle oct_pickle;
struct oct_pickle {
  uint8_t kind;
  uint8_t call;             /* GLOBAL: an oct_pickle_call */
  uint32_t count, capacity; /* of items */
  union {
    bool boolean;
    int64_t integer;
    double number;
    const char *text; /* not zero-terminated except where said; `count` bytes */
    oct_pickle **items;
  };
};

/* What calling a global makes. */
typedef enum oct_pickle_call {
  OCT_PICKLE_REFUSED, /* nothing: an error that names it */
  OCT_PICKLE_INERT,   /* a CALL node; attributes set on it are dropped */
  OCT_PICKLE_MAKE_DICT,
  OCT_PICKLE_MAKE_SET
} oct_pickle_call;

/* `name` is "module.name". A NULL policy refuses everything. */
typedef oct_pickle_call (*oct_pickle_policy)(const char *name);

typedef struct oct_pickle_result {
  oct_pickle *root;
  oct_pickle **persistent; /* every PERSISTENT node in the order of its making; in the region */
  size_t n_persistent;
} oct_pickle_result;

/* Reads one pickle (up to and with its STOP) from `reader`. Nodes live in `region`, strings in the reader's bytes.
 * Trees may share nodes and may even contain themselves: a walk must bound its depth and its steps. */
octet_status oct_pickle_read(octet_context *ctx, oct_region *region, oct_reader *reader, oct_pickle_policy policy, oct_pickle_result *out);

/* The value under a string key, or NULL. */
oct_pickle *oct_pickle_get(const oct_pickle *dict, const char *key);
/* true when `value` is a STRING equal to `text`. */
bool oct_pickle_is(const oct_pickle *value, const char *text);

#endif
