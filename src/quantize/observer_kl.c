/* kl: the threshold whose clipped and coarsened distribution of magnitudes is closest to the observed one in Kullback-Leibler divergence,
 * as in S. Migacz, "8-bit Inference with TensorRT", GTC 2017: 2048 bins of magnitudes, 128 levels (256 where all values have one sign,
 * since then all 256 steps lie on that side).
 * SPDX-License-Identifier: MIT */
#include <math.h>

#include "quantize/observers.h"

#define MAGNITUDE_BINS 2048
#define CANDIDATE_STEP 16

/* Counts of magnitudes, in bins of equal width up to the largest; a bin of the record that lies over several is shared out. Zeros are
 * left out: they are exact. */
static double spread_magnitudes(const oct_observer *o, double bins[MAGNITUDE_BINS]) {
  double reach = fmax(-(double)o->low, (double)o->high), total = 0, width = ldexp(1.0, o->exponent) / reach * MAGNITUDE_BINS;
  for (int i = 0; i < MAGNITUDE_BINS; i++) bins[i] = 0;
  for (int64_t b = 0; b < OCT_OBSERVER_BINS; b++) {
    if (!o->bins[b]) continue;
    int64_t index = o->first + b;
    double from = (double)(index >= 0 ? index : -index - 1) * width, to = from + width; /* in bins */
    for (int i = (int)from; i < MAGNITUDE_BINS && (double)i < to; i++) {
      double part = fmin(to, i + 1.0) - fmax(from, (double)i);
      bins[i] += (double)o->bins[b] * part / width;
    }
    if (to > MAGNITUDE_BINS) bins[MAGNITUDE_BINS - 1] += (double)o->bins[b] * (to - fmax(from, MAGNITUDE_BINS)) / width;
    total += (double)o->bins[b];
  }
  return total;
}

/* Divergence when the first n bins are kept, the rest is added to the last of them, and the n bins are merged into `levels`. */
static double divergence(const double bins[MAGNITUDE_BINS], int n, int levels, double kept, double total) {
  double sum = 0;
  for (int level = 0; level < levels; level++) {
    int from = (int)((int64_t)level * n / levels), to = (int)((int64_t)(level + 1) * n / levels), filled = 0;
    double mass = 0;
    for (int i = from; i < to; i++) mass += bins[i], filled += bins[i] > 0;
    if (!filled) continue;
    double q = mass / filled / kept;
    for (int i = from; i < to; i++) {
      if (!(bins[i] > 0)) continue;
      double p = (i == n - 1 ? bins[i] + (total - kept) : bins[i]) / total;
      sum += p * log(p / q);
    }
  }
  if (!(bins[n - 1] > 0) && total > kept)
    sum += (total - kept) / total * log((total - kept) / total / 1e-9); /* clipped mass where Q has none */
  return sum;
}

oct_range oct_observer_kl(const oct_observer *o, const oct_observer_settings *settings, bool symmetric) {
  (void)settings;
  double bins[MAGNITUDE_BINS], total = spread_magnitudes(o, bins);
  oct_range range = {(double)o->low, (double)o->high};
  if (!(total > 0)) return range;
  int levels = symmetric || (o->low < 0 && o->high > 0) ? 128 : 256, best = MAGNITUDE_BINS;
  double best_divergence = INFINITY, kept = 0;
  for (int i = 0; i < levels; i++) kept += bins[i];
  for (int n = levels; n <= MAGNITUDE_BINS; n += CANDIDATE_STEP) {
    if (n > levels)
      for (int i = n - CANDIDATE_STEP; i < n; i++) kept += bins[i];
    if (!(kept > 0)) continue;
    double d = divergence(bins, n, levels, kept, total);
    if (d < best_divergence) best_divergence = d, best = n;
  }
  double threshold = fmax(-range.low, range.high) * best / MAGNITUDE_BINS;
  if (range.low < -threshold) range.low = -threshold;
  if (range.high > threshold) range.high = threshold;
  return range;
}
