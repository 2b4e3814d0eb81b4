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

void oct_observer_average(oct_observer *o, const oct_observer_settings *settings, oct_extremes sample) {
  double weight = o->averaged ? settings->momentum : 1;
  o->average_low += weight * ((double)sample.low - o->average_low);
  o->average_high += weight * ((double)sample.high - o->average_high);
  o->averaged = true;
}

void oct_observer_reach(oct_observer *o, oct_extremes all, size_t count) {
  float low = o->count && o->low < all.low ? o->low : all.low, high = o->count && o->high > all.high ? o->high : all.high;
  make_room(o, low < 0 ? low : 0, high > 0 ? high : 0);
  o->low = low, o->high = high;
  o->count += count;
}

static void count_in_double(const oct_observer *o, const float *x, size_t n, oct_observer_counts *counts) {
  const double factor = ldexp(1.0, -o->exponent);
  for (size_t i = 0; i < n; i++) {
    const double position = (double)x[i] * factor;
    const int whole = (int)position;
    if (x[i] == 0) counts->zeros++;
    else counts->bins[whole - (position < whole) - (int)o->first]++;
  }
}

/* A power of two as factor is exact in float, too, where it neither overflows nor makes values smaller. */
void oct_observer_count(const oct_observer *o, const oct_vector_kernels *vector, const float *x, size_t n, oct_observer_counts *counts) {
  if (o->exponent <= 0 && o->exponent > -100)
    vector->histogram_f32(n, x, (float)ldexp(1.0, -o->exponent), (int32_t)o->first, counts->bins, &counts->zeros);
  else count_in_double(o, x, n, counts);
}

void oct_observer_add(oct_observer *o, const oct_observer_counts *counts) {
  for (int b = 0; b < OCT_OBSERVER_BINS; b++) o->bins[b] += counts->bins[b];
  o->zeros += counts->zeros;
}

octet_status oct_observer_refuse(octet_context *ctx, const char *name, bool is_nan, size_t index) {
  return oct_fail(ctx, OCTET_DATA,
                  "calibration: \"%s\" holds %s at element %zu; a range needs finite values (remove the sample, or keep the layer float)",
                  name, is_nan ? "NaN" : "an infinity", index);
}

octet_status oct_observer_update(octet_context *ctx, oct_observer *o, const oct_observer_settings *settings, const char *name,
                                 const float *data, size_t count, size_t samples) {
  if (count == 0) return OCTET_OK;
  if (samples == 0 || count % samples != 0) samples = 1;
  const oct_vector_kernels *vector = oct_vector_select(ctx->isa_mask);
  oct_extremes all = OCT_NO_EXTREMES;
  if (!vector->extremes_f32(count, data, &all.low, &all.high))
    for (size_t i = 0; i < count; i++)
      if (!isfinite(data[i])) return oct_observer_refuse(ctx, name, isnan(data[i]), i);
  for (size_t s = 0, each = count / samples; s < samples; s++) {
    oct_extremes e = OCT_NO_EXTREMES;
    vector->extremes_f32(each, data + s * each, &e.low, &e.high);
    oct_observer_average(o, settings, e);
  }
  oct_observer_reach(o, all, count);
  for (size_t i = 0, n; i < count; i += n) {
    oct_observer_counts counts = {.zeros = 0};
    n = count - i < OCT_OBSERVER_MOST ? count - i : OCT_OBSERVER_MOST;
    oct_observer_count(o, vector, data + i, n, &counts);
    oct_observer_add(o, &counts);
  }
  return OCTET_OK;
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
    double x = (double)(o->first + b) * width + width / 2;
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
    double x = (double)(o->first + b) * width + width / 2;
    power += (double)o->bins[b] * x * x;
    if (x > g.high + g.step / 2 || x < g.low - g.step / 2) clipped += o->bins[b]; /* within half a step it is rounding */
  }
  double error = oct_observer_error(o, range) * (double)o->count;
  effect.clipped = (double)clipped / (double)o->count;
  if (error > 0) effect.sqnr_db = 10 * log10(power / error);
  return effect;
}
