/* Choosing the kernel of an 8-bit layer: by the fixed rule of kernels/select.c, by the tuning log, or for few bytes; and the words for it.
 * Float layers are chosen by the rule alone (oct_conv_f32_select()), so that their results repeat.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_EXEC_CHOOSE_H
#define OCT_EXEC_CHOOSE_H

#include "exec/tune_log.h"
#include "ops/lower.h"

typedef struct oct_chooser {
  const oct_tune_log *log; /* NULL: none */
  size_t candidate;        /* while tuning: take this candidate of every layer that has so many; 0: choose */
  bool small;              /* prefer few bytes of packed weights */
  int threads;             /* part of the log's key */
} oct_chooser;

/* The choice for one layer. */
typedef struct oct_choice {
  const char *key; /* in the log */
  oct_candidate candidates[OCT_MAX_CANDIDATES];
  size_t n_candidates, chosen;
} oct_choice;

#endif
