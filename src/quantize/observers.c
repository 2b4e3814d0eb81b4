/* The observers' record: taking in values, the histogram that re-bins when its range grows, and the effect of a range.
 * SPDX-License-Identifier: MIT */
#include "quantize/observers.h"

#include <math.h>
#include <string.h>

static const struct {
  const char *name;
  oct_observer_rule rule;
} kinds[OCT_OBSERVER_KINDS] = {
    [OCT_OBSERVER_MINMAX] = {"minmax", oct_observer_minmax},
    [OCT_OBSERVER_MOVING_AVERAGE] = {"moving-average", oct_observer_moving_average},
    [OCT_OBSERVER_PERCENTILE] = {"percentile", oct_observer_percentile},
    [OCT_OBSERVER_KL] = {"kl", oct_observer_kl},
    [OCT_OBSERVER_MSE] = {"mse", oct_observer_mse},
};

bool oct_observer_kind_parse(const char *name, oct_observer_kind *kind) {
  for (int i = 0; i < OCT_OBSERVER_KINDS; i++) {
    if (strcmp(kinds[i].name, name) != 0) continue;
    *kind = (oct_observer_kind)i;
    return true;
  }
  return false;
}

const char *oct_observer_kind_name(oct_observer_kind kind) { return kinds[kind].name; }

oct_observer_settings oct_observer_settings_default(void) { return (oct_observer_settings){.percentile = 99.99, .momentum = 0.01}; }

/* ---- Taking in -------------------------------------------------------------------------------------------------- */

typedef struct extremes {
  float low, high;
  bool finite;
} extremes;

/* x * 0 is NaN for NaN and infinities, and 0 for all else. Eight lanes, so that it is vectorized. */
static extremes find_extremes(const float *x, size_t n) {
  float low[8], high[8], poison[8] = {0};
  for (int j = 0; j < 8; j++) low[j] = high[j] = x[0];
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int j = 0; j < 8; j++) {
      float v = x[i + (size_t)j];
      low[j] = v < low[j] ? v : low[j];
      high[j] = v > high[j] ? v : high[j];
      poison[j] += v * 0.0f;
    }
  for (; i < n; i++) {
    low[0] = x[i] < low[0] ? x[i] : low[0];
    high[0] = x[i] > high[0] ? x[i] : high[0];
    poison[0] += x[i] * 0.0f;
  }
  for (int j = 1; j < 8; j++) {
    low[0] = low[j] < low[0] ? low[j] : low[0];
    high[0] = high[j] > high[0] ? high[j] : high[0];
    poison[0] += poison[j];
  }
  return (extremes){low[0], high[0], poison[0] == 0.0f};
}

octet_status oct_observer_refuse(octet_context *ctx, const char *name, const float *data, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!isfinite(data[i]))
      return oct_fail(
          ctx, OCTET_DATA,
          "calibration: \"%s\" holds %s at element %zu; a range needs finite values (remove the sample, or keep the layer float)", name,
          isnan(data[i]) ? "NaN" : "an infinity", i);
  return OCTET_OK;
}

static void merge_pairs(oct_observer *o) {
  int64_t first = o->first >= 0 ? o->first / 2 : -((1 - o->first) / 2); /* floor */
  uint64_t merged[OCT_OBSERVER_BINS] = {0};
  for (int64_t b = 0; b < OCT_OBSERVER_BINS; b++) {
    if (!o->bins[b]) continue;
    int64_t index = o->first + b, half = index >= 0 ? index / 2 : -((1 - index) / 2);
    merged[half - first] += o->bins[b];
  }
  memcpy(o->bins, merged, sizeof merged);
  o->first = first;
  o->exponent++;
}

static void move_first(oct_observer *o, int64_t first) {
  int64_t shift = o->first - first; /* old bin b becomes b + shift */
  if (shift > 0) {
    memmove(o->bins + shift, o->bins, (size_t)(OCT_OBSERVER_BINS - shift) * sizeof *o->bins);
    memset(o->bins, 0, (size_t)shift * sizeof *o->bins);
  } else if (shift < 0) {
    memmove(o->bins, o->bins - shift, (size_t)(OCT_OBSERVER_BINS + shift) * sizeof *o->bins);
    memset(o->bins + OCT_OBSERVER_BINS + shift, 0, (size_t)-shift * sizeof *o->bins);
  }
  o->first = first;
}

/* Makes [low, high], which includes 0 and all earlier values, fit. */
static void make_room(oct_observer *o, float low, float high) {
  double reach = fmax(-(double)low, (double)high);
  if (reach == 0) return;
  if (o->count == o->zeros) { /* nothing binned yet: the finest width that holds the range */
    int exponent;
    frexp(reach, &exponent);
    o->exponent = exponent - 12;
    o->first = 0;
  }
  for (;;) {
    int64_t from = (int64_t)floor(ldexp((double)low, -o->exponent)), to = (int64_t)floor(ldexp((double)high, -o->exponent));
    if (to - from < OCT_OBSERVER_BINS) {
      if (from < o->first || to >= o->first + OCT_OBSERVER_BINS) move_first(o, from);
      return;
    }
    merge_pairs(o);
  }
}

#define ZERO_SLOTS 8
#define BLOCK 64 /* values whose places are computed together, by vectors */

/* Places of BLOCK values. Zeros, often half of all, are sent by arithmetic instead of a branch that nobody can predict, to several places, so that one
 * count does not wait for the other. A power of two as factor is exact in float, too, where it neither overflows nor makes values smaller. */
static void find_places(const float *x, float factor, int first, int32_t places[BLOCK]) {
  for (int i = 0; i < BLOCK; i++) {
    const float position = x[i] * factor;
    const int32_t whole = (int32_t)position; /* at most OCT_OBSERVER_BINS in magnitude */
    const int32_t below = position < (float)whole ? whole - 1 : whole;
    places[i] = x[i] == 0 ? OCT_OBSERVER_BINS + i % ZERO_SLOTS : below - first;
  }
}

static int place_of(float x, double factor, int first) {
  const double position = (double)x * factor;
  const int whole = (int)position;
  return x == 0 ? OCT_OBSERVER_BINS : whole - (position < whole) - first;
}

/* Counts in narrow numbers of its own, which stay in the first-level cache. */
static void fill_bins(oct_observer *o, const float *x, size_t n) {
  const double factor = ldexp(1.0, -o->exponent);
  const int first = (int)o->first;
  const bool in_float = o->exponent <= 0 && o->exponent > -100;
  while (n > 0) {
    size_t part = n < UINT32_MAX ? n : UINT32_MAX, i = 0;
    uint32_t bins[OCT_OBSERVER_BINS + ZERO_SLOTS] = {0};
    for (; in_float && i + BLOCK <= part; i += BLOCK) {
      int32_t places[BLOCK];
      find_places(x + i, (float)factor, first, places);
      for (int k = 0; k < BLOCK; k++) bins[places[k]]++;
    }
    for (; i < part; i++) bins[place_of(x[i], factor, first)]++;
    for (int b = 0; b < OCT_OBSERVER_BINS; b++) o->bins[b] += bins[b];
    for (int b = OCT_OBSERVER_BINS; b < OCT_OBSERVER_BINS + ZERO_SLOTS; b++) o->zeros += bins[b];
    x += part, n -= part;
  }
}

static extremes join(extremes a, extremes b) {
  return (extremes){b.low < a.low ? b.low : a.low, b.high > a.high ? b.high : a.high, a.finite && b.finite};
}

bool oct_observer_take(oct_observer *o, const oct_observer_settings *settings, const float *data, size_t count, size_t samples) {
  if (count == 0) return true;
  if (samples == 0 || count % samples != 0) samples = 1;
  size_t each = count / samples;
  extremes all = find_extremes(data, each);
  double average_low = o->average_low, average_high = o->average_high;
  for (size_t s = 0; s < samples; s++) {
    extremes e = s == 0 ? all : find_extremes(data + s * each, each);
    double weight = o->averaged || s > 0 ? settings->momentum : 1;
    average_low += weight * ((double)e.low - average_low);
    average_high += weight * ((double)e.high - average_high);
    all = join(all, e);
  }
  if (!all.finite) return false;
  o->average_low = average_low, o->average_high = average_high;
  o->averaged = true;
  float low = o->count && o->low < all.low ? o->low : all.low, high = o->count && o->high > all.high ? o->high : all.high;
  make_room(o, low < 0 ? low : 0, high > 0 ? high : 0);
  fill_bins(o, data, count);
  o->low = low, o->high = high;
  o->count += count;
  return true;
}

octet_status oct_observer_update(octet_context *ctx, oct_observer *observer, const oct_observer_settings *settings, const char *name,
                                 const float *data, size_t count, size_t samples) {
  return oct_observer_take(observer, settings, data, count, samples) ? OCTET_OK : oct_observer_refuse(ctx, name, data, count);
}

/* ---- Asking ----------------------------------------------------------------------------------------------------- */

oct_range oct_observer_range(const oct_observer *observer, oct_observer_kind kind, const oct_observer_settings *settings, bool symmetric) {
  if (observer->count == 0) return (oct_range){0, 0};
  oct_range range = kinds[kind].rule(observer, settings, symmetric);
  if (!(range.low < 0)) range.low = 0;
  if (!(range.high > 0)) range.high = 0;
  if (symmetric) {
    double reach = fmax(-range.low, range.high);
    range = (oct_range){-reach, reach};
  }
  return range;
}

/* The grid of 256 steps over a range, as the real parameters will be (params.c), in double. */
typedef struct grid {
  double step, low, high;
} grid;

static grid grid_of(oct_range range) {
  double step = (range.high - range.low) / 255, zero = rint(-range.low / step);
  return (grid){step, -zero * step, (255 - zero) * step};
}

double oct_observer_error(const oct_observer *o, oct_range range) {
  if (o->count == 0 || range.high <= range.low) return 0;
  grid g = grid_of(range);
  double sum = 0, width = ldexp(1.0, o->exponent);
  for (int64_t b = 0; b < OCT_OBSERVER_BINS; b++) {
    if (!o->bins[b]) continue;
    double x = oct_observer_edge(o, b) + width / 2;
    double clipped = x < g.low ? g.low : x > g.high ? g.high : rint(x / g.step) * g.step;
    sum += (double)o->bins[b] * (x - clipped) * (x - clipped);
  }
  return sum / (double)o->count;
}

oct_range_effect oct_observer_effect(const oct_observer *o, oct_range range) {
  oct_range_effect effect = {.sqnr_db = INFINITY};
  if (o->count == 0 || range.high <= range.low) return effect;
  grid g = grid_of(range);
  double power = 0, width = ldexp(1.0, o->exponent);
  uint64_t clipped = 0;
  for (int64_t b = 0; b < OCT_OBSERVER_BINS; b++) {
    if (!o->bins[b]) continue;
    double x = oct_observer_edge(o, b) + width / 2;
    power += (double)o->bins[b] * x * x;
    if (x > g.high + g.step / 2 || x < g.low - g.step / 2) clipped += o->bins[b]; /* within half a step it is rounding */
  }
  double error = oct_observer_error(o, range) * (double)o->count;
  effect.clipped = (double)clipped / (double)o->count;
  if (error > 0) effect.sqnr_db = 10 * log10(power / error);
  return effect;
}
