/* moving-average: exponential moving average of each sample's extremes, in the order of the samples.
 * SPDX-License-Identifier: MIT */
#include "quantize/observers.h"

oct_range oct_observer_moving_average(const oct_observer *o, const oct_observer_settings *settings, bool symmetric) {
  (void)settings, (void)symmetric;
  return (oct_range){o->average_low, o->average_high};
}
