/* percentile: the range that leaves out at most (100 - p) / 2 percent of the values at each end.
 * SPDX-License-Identifier: MIT */
#include "quantize/observers.h"

oct_range oct_observer_percentile(const oct_observer *o, const oct_observer_settings *settings, bool symmetric) {
  (void)symmetric;
  double allowed = (100 - settings->percentile) / 200 * (double)o->count;
  oct_range range = {(double)o->low, (double)o->high};
  uint64_t seen = 0;
  for (int64_t b = 0; b < OCT_OBSERVER_BINS && oct_observer_edge(o, b) < 0; b++) {
    seen += o->bins[b];
    if ((double)seen <= allowed) continue;
    if (seen > o->bins[b]) range.low = oct_observer_edge(o, b); /* the end itself stays exact when nothing is left out */
    break;
  }
  if (o->low < 0 && (double)seen <= allowed) range.low = 0;
  seen = 0;
  for (int64_t b = OCT_OBSERVER_BINS - 1; b >= 0 && oct_observer_edge(o, b) >= 0; b--) {
    seen += o->bins[b];
    if ((double)seen <= allowed) continue;
    if (seen > o->bins[b]) range.high = oct_observer_edge(o, b + 1);
    break;
  }
  if (o->high > 0 && (double)seen <= allowed) range.high = 0;
  return range;
}
