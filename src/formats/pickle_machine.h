/* Inside of the pickle interpreter: its state, and what its parts use of each other. pickle_machine.c has the stack and
 * the nodes, pickle_scalars.c the opcodes for numbers and texts, pickle.c all others.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_PICKLE_MACHINE_H
#define OCT_FORMATS_PICKLE_MACHINE_H

#include "formats/pickle.h"

#define OCT_PICKLE_NUMBER_TEXT 64

typedef struct oct_pickle_machine {
  octet_context *ctx;
  oct_region *region;
  oct_reader *in;
  oct_pickle_policy policy;
  oct_pickle **stack, **memo;
  size_t depth, stack_capacity, memo_count, memo_capacity;
  size_t *marks;
  size_t n_marks, marks_capacity;
  oct_pickle *slab;
  size_t slab_left, nodes;
  oct_pickle *none, *yes, *no;
  oct_pickle *refused; /* the first global outside the policy */
  oct_pickle *persistent;
  size_t end;    /* bytes that the pickle may reach: the bound of the memo and of `copied` */
  size_t copied; /* items copied from one container into a new one */
} oct_pickle_machine;

octet_status oct_pickle_malformed(oct_pickle_machine *m, const char *what);
octet_status oct_pickle_new(oct_pickle_machine *m, oct_pickle_kind kind, oct_pickle **out);
octet_status oct_pickle_push(oct_pickle_machine *m, oct_pickle *value);
octet_status oct_pickle_pop(oct_pickle_machine *m, oct_pickle **out);
/* A failure unless `count` values lie above the last mark. */
octet_status oct_pickle_need(oct_pickle_machine *m, size_t count);
/* The first stack index that the innermost unfinished container owns. */
size_t oct_pickle_floor(const oct_pickle_machine *m);
octet_status oct_pickle_append(oct_pickle_machine *m, oct_pickle *to, oct_pickle *const *values, size_t count);

/* The rest of the line, without its newline; as a number; pushed as a text. */
octet_status oct_pickle_line(oct_pickle_machine *m, const char **line, size_t *length);
octet_status oct_pickle_number_line(oct_pickle_machine *m, char text[OCT_PICKLE_NUMBER_TEXT]);
octet_status oct_pickle_push_line(oct_pickle_machine *m, bool quoted);
/* Opcodes that push a number, a text or a constant; *known becomes false for others. */
octet_status oct_pickle_scalar(oct_pickle_machine *m, uint8_t op, bool *known);

#endif
