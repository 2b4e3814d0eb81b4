/* mse: the clip range with the smallest mean squared error of the 8-bit form, by the histogram: first both ends drawn in together, then
 * each end alone.
 * SPDX-License-Identifier: MIT */
#include "quantize/observers.h"

#define TOGETHER 64 /* candidates of the joint search: full range down to 1/64 */
#define ALONE 24    /* candidates per end: +-25 % around the joint optimum */

typedef struct search {
  const oct_observer *observer;
  oct_range best;
  double error;
  bool symmetric;
} search;

static void consider(search *s, oct_range range) {
  if (s->symmetric) {
    double reach = -range.low > range.high ? -range.low : range.high;
    range = (oct_range){-reach, reach};
  }
  double error = oct_observer_error(s->observer, range);
  if (range.high > range.low && error < s->error) s->error = error, s->best = range;
}

oct_range oct_observer_mse(const oct_observer *o, const oct_observer_settings *settings, bool symmetric) {
  (void)settings;
  oct_range whole = {o->low < 0 ? (double)o->low : 0, o->high > 0 ? (double)o->high : 0};
  search s = {o, whole, oct_observer_error(o, whole), symmetric};
  for (int i = TOGETHER - 1; i > 0; i--) {
    double reach = (whole.high > -whole.low ? whole.high : -whole.low) * i / TOGETHER;
    consider(&s, (oct_range){whole.low < -reach ? -reach : whole.low, whole.high > reach ? reach : whole.high});
  }
  if (symmetric) return s.best;
  for (int end = 0; end < 2; end++) {
    oct_range center = s.best;
    for (int i = -ALONE / 2; i <= ALONE / 2; i++) {
      oct_range range = center;
      double factor = 1 + 0.5 * i / ALONE;
      if (end == 0) range.low = center.low * factor < whole.low ? whole.low : center.low * factor;
      else range.high = center.high * factor > whole.high ? whole.high : center.high * factor;
      consider(&s, range);
    }
  }
  return s.best;
}
