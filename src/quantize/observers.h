/* Observers: what is remembered of a value during calibration, and how a range for its 8-bit form is chosen from that.
 * All kinds share one record (extremes, moving average, histogram), so that a report can tell what each kind would have chosen. The record
 * has a fixed size: it does not grow with the number of samples. Each kind's rule is in its own file, observer_<kind>.c.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_QUANTIZE_OBSERVERS_H
#define OCT_QUANTIZE_OBSERVERS_H

#include <math.h>

#include "base/memory.h"
#include "kernels/kernels.h"

typedef enum oct_observer_kind {
  OCT_OBSERVER_MINMAX,
  OCT_OBSERVER_MOVING_AVERAGE,
  OCT_OBSERVER_PERCENTILE,
  OCT_OBSERVER_KL,
  OCT_OBSERVER_MSE,
  OCT_OBSERVER_KINDS
} oct_observer_kind;

#define OCT_OBSERVER_BINS OCT_HISTOGRAM_BINS

/* Bin b holds the non-zero values in [(first + b) * 2^exponent, (first + b + 1) * 2^exponent). Bin widths are powers of two aligned at 0,
 * so that doubling the width merges whole bins: nothing is lost or smeared when the range grows. Zeros, exact in every 8-bit form, are
 * apart. */
typedef struct oct_observer {
  uint64_t count, zeros;
  float low, high;                  /* of all values; valid when count > 0 */
  double average_low, average_high; /* moving average over samples */
  bool averaged;
  int exponent;
  int64_t first;
  uint64_t bins[OCT_OBSERVER_BINS];
} oct_observer;

typedef struct oct_observer_settings {
  double percentile; /* share of the values, in percent, that the range must hold */
  double momentum;   /* weight of a new sample in the moving average */
} oct_observer_settings;

/* 99.99 and 0.01. */
oct_observer_settings oct_observer_settings_default(void);

/* Takes in `samples` samples of `count` / `samples` values each. OCTET_DATA, naming `name`, when a value is NaN or infinite; nothing is
 * taken in then. */
octet_status oct_observer_update(octet_context *ctx, oct_observer *observer, const oct_observer_settings *settings, const char *name,
                                 const float *data, size_t count, size_t samples);

/* Its parts, for values that come in pieces: extremes of each sample first, then counts, which threads make apart and add in any order. */
typedef struct oct_extremes {
  float low, high;
} oct_extremes;

#define OCT_NO_EXTREMES ((oct_extremes){INFINITY, -INFINITY})
#define OCT_OBSERVER_MOST ((size_t)1 << 31) /* values that counts may hold */

typedef struct oct_observer_counts {
  uint32_t bins[OCT_HISTOGRAM_BINS + OCT_HISTOGRAM_SLOTS], zeros;
} oct_observer_counts;

/* Of one sample; in order. */
void oct_observer_average(oct_observer *observer, const oct_observer_settings *settings, oct_extremes sample);
/* Makes room in the histogram for `count` values, all finite, with these extremes. */
void oct_observer_reach(oct_observer *observer, oct_extremes all, size_t count);
/* Counts values that were made room for into `counts`, which begin as zeros. Does not change the observer. */
void oct_observer_count(const oct_observer *observer, const oct_vector_kernels *vector, const float *data, size_t count,
                        oct_observer_counts *counts);
void oct_observer_add(oct_observer *observer, const oct_observer_counts *counts);
octet_status oct_observer_refuse(octet_context *ctx, const char *name, bool is_nan, size_t index);

typedef struct oct_range {
  double low, high; /* low <= 0 <= high */
} oct_range;

/* The range that a kind chooses. `symmetric`: for a zero point in the middle. An observer without values gives [0, 0]. */
oct_range oct_observer_range(const oct_observer *observer, oct_observer_kind kind, const oct_observer_settings *settings, bool symmetric);

/* What an 8-bit form over `range` does to the observed values, by the histogram. */
typedef struct oct_range_effect {
  double clipped; /* share of the values outside the range */
  double sqnr_db; /* INFINITY when nothing is lost */
} oct_range_effect;
oct_range_effect oct_observer_effect(const oct_observer *observer, oct_range range);

/* "minmax", "moving-average", "percentile", "kl", "mse"; false when unknown. */
bool oct_observer_kind_parse(const char *name, oct_observer_kind *kind);
const char *oct_observer_kind_name(oct_observer_kind kind);

/* The kinds' rules. */
typedef oct_range (*oct_observer_rule)(const oct_observer *observer, const oct_observer_settings *settings, bool symmetric);
oct_range oct_observer_minmax(const oct_observer *observer, const oct_observer_settings *settings, bool symmetric);
oct_range oct_observer_moving_average(const oct_observer *observer, const oct_observer_settings *settings, bool symmetric);
oct_range oct_observer_percentile(const oct_observer *observer, const oct_observer_settings *settings, bool symmetric);
oct_range oct_observer_kl(const oct_observer *observer, const oct_observer_settings *settings, bool symmetric);
oct_range oct_observer_mse(const oct_observer *observer, const oct_observer_settings *settings, bool symmetric);

/* For the rules: edges of a bin, and the mean squared error of an 8-bit form (sum over values, zeros included, divided by the count). */
static inline double oct_observer_edge(const oct_observer *o, int64_t bin) {
  return __builtin_ldexp((double)(o->first + bin), o->exponent);
}
double oct_observer_error(const oct_observer *observer, oct_range range);

#endif
