/* What a row of 8-bit convolution is estimated to take: multiplications at the rate of its form and instruction set, with the waste of its
 * tiles; transforms; and weights from memory, where they are too many to stay in the second-level cache. The figures are those of one core
 * with two 512-bit units at 2.5 GHz; what matters is how rows compare with each other. Timing (exec/tune.c) is the better judge.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "kernels/conv_i8_winograd.h"

#define CYCLES_PER_MS 2.5e6
#define CACHED_BYTES 1.2e6  /* of weights that stay near from run to run */
#define BYTES_PER_CYCLE 7.0 /* weights that do not */
#define NEAR_PER_CYCLE 32.0 /* transformed weights, which each block of tiles reads anew */
#define CALL_CYCLES 500.0

typedef enum cost_form { FORM_DIRECT, FORM_GROUPS, FORM_DEPTHWISE, FORM_WINOGRAD, FORM_COMPACT, FORM_TILES } cost_form;

/* Rates in products per cycle, transforms in cycles per number. */
typedef struct cost_figures {
  double direct, depthwise, winograd; /* 8-bit products; taps of depthwise; 16-bit products */
  double input, output, expand;       /* of one transformed number */
  double result;                      /* of one rounded output */
  int quantum;                        /* output channels are computed in multiples of this */
} cost_figures;

static const cost_figures figures[OCT_ISA_COUNT] = {
    [OCT_ISA_SCALAR] = {.direct = 0.8, .depthwise = 0.4, .winograd = 0.4, .input = 2, .output = 3, .expand = 3, .result = 6, .quantum = 1},
    [OCT_ISA_AVX2] =
        {.direct = 18, .depthwise = 9, .winograd = 21, .input = 0.3, .output = 0.8, .expand = 0.4, .result = 0.8, .quantum = 8},
    [OCT_ISA_AVXVNNI] =
        {.direct = 60, .depthwise = 9, .winograd = 28, .input = 0.3, .output = 0.8, .expand = 0.4, .result = 0.8, .quantum = 8},
    [OCT_ISA_AVX512VNNI] =
        {.direct = 130, .depthwise = 40, .winograd = 62, .input = 0.2, .output = 0.5, .expand = 0.15, .result = 0.45, .quantum = 16},
    [OCT_ISA_AMX] = {.direct = 620, .input = 10, .result = 0.25, .quantum = 16},
};

static cost_form form_of(const oct_conv_i8_kernel *k) {
  if (k->isa == OCT_ISA_AMX) return FORM_TILES;
  if (strstr(k->name, "_winograd_compact")) return FORM_COMPACT;
  if (k->reject_weights) return FORM_WINOGRAD;
  if (strstr(k->name, "_groups")) return FORM_GROUPS;
  return strstr(k->name, "_depthwise") ? FORM_DEPTHWISE : FORM_DIRECT;
}

/* The 256-bit rows that are built for AVX-512 VNNI are as fast as those for AVX-VNNI. */
static const cost_figures *figures_of(const oct_conv_i8_kernel *k) {
  return &figures[strstr(k->name, "__avx512vl") ? OCT_ISA_AVXVNNI : k->isa];
}

static double up_to(int64_t n, int64_t quantum) { return (double)((n + quantum - 1) / quantum * quantum); }

static double direct_cycles(const cost_figures *f, const oct_conv_shape *s) {
  double pixels = (double)(s->batch * s->out_h * s->out_w);
  int64_t depth = s->channels / s->groups, run = s->groups == 1 && s->dilation_w == 1 ? depth * s->kernel_w : depth;
  double steps = up_to(run, 4) * (double)(depth * s->kernel_w / run) * s->kernel_h;
  double channels = up_to(s->out_channels / s->groups, f->quantum) * s->groups;
  return pixels * channels * (steps / f->direct + f->result);
}

/* Steps of 64 inputs: kernel rows where they lie, each padded, or gathered without gaps, which takes `input`
 * cycles a step, or a tap where taps lie apart. */
static double tiles_cycles(const cost_figures *f, const oct_conv_shape *s) {
  double pixels = (double)(s->batch * s->out_h * s->out_w), channels = up_to(s->out_channels, f->quantum);
  double apart = up_to(s->kernel_w * s->channels, 64) * s->kernel_h, gathered = up_to(s->kernel_h * s->kernel_w * s->channels, 64);
  bool close = s->dilation_w == 1 || s->kernel_w == 1;
  double copies = close ? gathered / 64 : s->kernel_h * s->kernel_w * up_to(s->channels, 64) / 64;
  double direct = channels * apart / f->direct, copied = channels * gathered / f->direct + copies * f->input;
  return pixels * ((close && direct < copied ? direct : copied) + channels * f->result);
}

/* Lanes are filled across groups; gathering a lane's bytes takes as long as multiplying them. */
static double groups_cycles(const cost_figures *f, const oct_conv_shape *s) {
  double steps = up_to(s->channels / s->groups, 4) * s->kernel_h * s->kernel_w;
  return (double)(s->batch * s->out_h * s->out_w) * up_to(s->out_channels, 16) * (steps / (0.5 * f->direct) + f->result);
}

static double depthwise_cycles(const cost_figures *f, const oct_conv_shape *s, double speed) {
  double taps = s->kernel_h * s->kernel_w / (speed * f->depthwise);
  return (double)(s->batch * s->out_h * s->out_w) * up_to(s->out_channels, f->quantum) * (taps + f->result);
}

/* A pixel's channels in one vector of 16 fill a quarter of the lanes of 8-bit products; taps that are interleaved once serve two rows. */
static double depthwise_speed(const oct_conv_i8_kernel *k) {
  if (strstr(k->name, "_1x16")) return 0.5;
  return strstr(k->name, "_3x3") || strstr(k->name, "_5x5") ? 1.6 : 1;
}

/* Transformed numbers per channel of a row or column of that length: six for four outputs, five for three. */
static double transformed(int64_t length) {
  int64_t fours, all;
  return oct_winograd_split(length, &fours, &all) ? 6.0 * (double)fours + 5.0 * (double)(all - fours) : 0;
}

static double winograd_cycles(const cost_figures *f, const oct_conv_shape *s, bool compact, double weights) {
  double positions = (double)s->batch * transformed(s->out_h) * transformed(s->out_w);
  double in = up_to(s->channels, 2), lanes = up_to(s->channels, 2 * f->quantum), out = up_to(s->out_channels, f->quantum);
  double blocks = up_to((int64_t)(positions / 36) + 1, 32) / 32;
  double products = positions * in * out / f->winograd;
  products += compact ? blocks * 36 * in * out * f->expand : blocks * weights / NEAR_PER_CYCLE;
  return products + positions * (lanes * f->input + out * f->output);
}

/* What fetching adds to the work that it overlaps with: little where the work is long, nearly all of it where the work is short. */
static double waiting(double fetch, double work) { return fetch * fetch / (fetch + work); }

double oct_conv_i8_estimate(const oct_conv_i8_kernel *k, const oct_conv_shape *s) {
  const cost_figures *f = figures_of(k);
  double weights = (double)k->packed_bytes(s), cycles;
  if (!f->quantum || s->groups < 1) return 0;
  switch (form_of(k)) {
    case FORM_TILES: cycles = tiles_cycles(f, s); break;
    case FORM_GROUPS: cycles = groups_cycles(f, s); break;
    case FORM_DEPTHWISE: cycles = depthwise_cycles(f, s, depthwise_speed(k)); break;
    case FORM_WINOGRAD: cycles = winograd_cycles(f, s, false, weights); break;
    case FORM_COMPACT: cycles = winograd_cycles(f, s, true, weights); break;
    default: cycles = direct_cycles(f, s); break;
  }
  if (weights > CACHED_BYTES) cycles += waiting(weights / BYTES_PER_CYCLE, cycles);
  return (cycles + CALL_CYCLES) / CYCLES_PER_MS;
}
