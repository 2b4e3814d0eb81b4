/* What an integer kernel may multiply by: numbers of float32 that never make a NaN, for which instruction sets would give different bytes.
 * SPDX-License-Identifier: MIT */
#include <float.h>

#include "ops/accumulate_parts.h"

#define ACCUMULATOR 2147483648.0 /* largest magnitude of an int32 */
#define LARGEST_PRODUCT 0x1p96f  /* of a scale and a multiplier: times any int32 it is finite */
#define LOST_DIGITS 0x1p-21      /* relative error that two roundings of normal numbers stay below */

/* Infinite products would make NaN of 0 and of sums; a left shift of the profile tflite must stay below 32. A denormal product has lost
 * digits, which does not matter in floats (2^-119 at most), nor where the largest accumulator stays below a quarter of an 8-bit step. */
static const char *reject(oct_profile profile, float input_scale, float weight_scale, float output_scale) {
  bool real = output_scale == 0;
  if (real) output_scale = 1;
  double m = (double)oct_multiplier(input_scale, weight_scale, output_scale);
  double exact = (double)input_scale * (double)weight_scale / (double)output_scale, error = fabs(m - exact);
  if (!(fabs(m) * ACCUMULATOR <= (double)FLT_MAX)) return "beyond float32";
  if (profile == OCT_PROFILE_TFLITE && fabs(m) >= ACCUMULATOR / 2) return "beyond the shifts of the profile";
  if (!real && error > exact * LOST_DIGITS && exact * ACCUMULATOR > 0.25) return "too small for float32";
  return NULL;
}

octet_status oct_lower_multiplier(oct_lowering *l, float input_scale, float weight_scale, float output_scale) {
  const char *why = reject(l->profile, input_scale, weight_scale, output_scale);
  if (!why) return OCTET_OK;
  return oct_lower_decline(l, "the multiplier %g * %g / %g from its scales is %s", (double)input_scale, (double)weight_scale,
                           output_scale == 0 ? 1.0 : (double)output_scale, why);
}

/* ---- All channels of a layer ---------------------------------------------------------------------------------------- */

octet_status oct_accumulate_multipliers(oct_accumulate *a, float in_scale, float out_scale) {
  for (int64_t c = 0; c < a->p->shape.out_channels; c++)
    OCT_TRY(oct_lower_multiplier(a->l, in_scale, oct_accumulate_weight_scale(a->p, c), out_scale));
  return OCTET_OK;
}

typedef struct limit_step {
  const float *in;
  float *out;
  float most;
} limit_step;

static octet_status run_limit(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const limit_step *s = params;
  for (size_t i = begin; i < end; i++) s->out[i] = s->in[i] < s->most ? s->in[i] : s->most;
  return OCTET_OK;
}

octet_status oct_accumulate_limit_scales(oct_accumulate *a, int64_t count, oct_slot **scales) {
  float largest = 0;
  for (int64_t c = 0; c < a->p->shape.out_channels; c++)
    largest = fmaxf(largest, oct_multiplier(1, oct_accumulate_weight_scale(a->p, c), a->rounded_scale));
  limit_step *s;
  oct_step *step;
  oct_slot *limited;
  oct_shape shape = oct_shape_of(1, count);
  OCT_TRY(oct_lower_scratch(a->l, OCT_F32, &shape, OCT_LAYOUT_PLAIN, NULL, &limited));
  OCT_TRY(oct_lower_step(a->l, a->p->node, "limit_scales", run_limit, sizeof *s, &s, &step));
  s->most = LARGEST_PRODUCT / largest;
  step->units = (size_t)count;
  step->grain = 4096;
  OCT_TRY(oct_lower_read(a->l, step, &s->in, *scales));
  OCT_TRY(oct_lower_write(a->l, step, &s->out, limited));
  *scales = limited;
  return OCTET_OK;
}
