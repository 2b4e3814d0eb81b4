/* minmax: the extremes of all values.
 * SPDX-License-Identifier: MIT */
#include "quantize/observers.h"

oct_range oct_observer_minmax(const oct_observer *o, const oct_observer_settings *settings, bool symmetric) {
  (void)settings, (void)symmetric;
  return (oct_range){(double)o->low, (double)o->high};
}
