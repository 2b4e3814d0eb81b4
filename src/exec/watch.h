/* Watching values: steps that show a value to a caller's functions right after it was made, in the form in which it is stored.
 * For calibration: nothing is copied or turned into another layout for it, and the value is still in the cache.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_EXEC_WATCH_H
#define OCT_EXEC_WATCH_H

#include "tensor/tensor.h"

/* A float value as dense pieces, `pieces` for each of `lines` lines of each sample: a border lies between lines, channels may come last. */
typedef struct oct_watch_view {
  const float *data;
  size_t samples, lines, pieces;
  size_t line, piece;                   /* elements: of a line, and of each of its pieces but the last */
  ptrdiff_t sample_stride, line_stride; /* elements */
  size_t channels;                      /* innermost; 1: row-major */
} oct_watch_view;

typedef struct oct_watch_piece {
  const float *data;
  size_t count, sample;
  size_t first; /* elements of the sample before it, in the order of memory */
} oct_watch_piece;

static inline size_t oct_watch_units(const oct_watch_view *v) { return v->samples * v->lines * v->pieces; }

static inline oct_watch_piece oct_watch_piece_at(const oct_watch_view *v, size_t unit) {
  size_t start = unit % v->pieces * v->piece, line = unit / v->pieces % v->lines, sample = unit / v->pieces / v->lines;
  return (oct_watch_piece){.data = v->data + (ptrdiff_t)sample * v->sample_stride + (ptrdiff_t)line * v->line_stride + (ptrdiff_t)start,
                           .count = v->line - start < v->piece ? v->line - start : v->piece,
                           .sample = sample,
                           .first = line * v->line + start};
}

/* Place of an element in the row-major value: `at` elements of its sample lie before it in memory. */
static inline size_t oct_watch_index(const oct_watch_view *v, size_t sample, size_t at) {
  size_t each = v->lines * v->line, pixels = each / v->channels;
  return sample * each + at % v->channels * pixels + at / v->channels;
}

/* `first` and `second` see all units, in any partition and from several threads; `between` is called by one, when `first` is done. */
typedef struct oct_watch {
  void *user;
  size_t
      first_output; /* graph outputs from here on are watched, not written: number `index` counts from here. Left out: values that are no floats */
  size_t samples; /* of the batch */
  void (*first)(void *user, size_t index, const oct_watch_view *view, size_t begin, size_t end);
  void (*between)(void *user, size_t index, const oct_watch_view *view);
  void (*second)(void *user, size_t index, const oct_watch_view *view, size_t begin, size_t end);
} oct_watch;

#endif
