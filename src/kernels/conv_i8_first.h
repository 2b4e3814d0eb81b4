/* 8-bit convolution of images with few channels, as in a network's first layer:
 * what its variants share. A kernel row is a few bytes then, such as 9 or 21,
 * and direct convolution (conv_i8_direct.h) pads each to steps of 4. Here only
 * the whole steps are read where they lie; the last one to three bytes of all
 * kernel rows are gathered, pixel by pixel, into steps of their own: 7x7x3
 * takes 37 steps instead of 42, 3x3x3 7 instead of 9, 5x5x1 7 instead of 10.
 * Where that saves nothing, rows are padded as there.
 *
 * Packed: moves of gathered words (oct_first_move), then weights
 * [panel][step][panel width][4]; the whole steps of all kernel rows first, then
 * the gathered ones. A unit is one output row; a tile is some of its pixels
 * times the channels of a panel. SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_FIRST_H
#define OCT_KERNELS_CONV_I8_FIRST_H

#include "kernels/conv_i8_direct.h"

#define OCT_FIRST_CHANNELS 4 /* most input channels */
#define OCT_FIRST_STEPS 128  /* most whole steps */
#define OCT_FIRST_HEIGHT 16  /* most kernel rows */
#define OCT_FIRST_ROWS 12    /* most pixels of any tile */

typedef struct oct_first_plan {
  int segment, whole;  /* bytes of a kernel row; whole steps of one */
  int rest;            /* bytes of a kernel row that are gathered: 0 when rows are padded
             */
  int steps, gathered; /* whole steps of all rows, gathered steps (2 at most) */
  int parities, moves; /* see oct_first_move */
} oct_first_plan;

/* How vectors of 32 words gather 8 bytes of each of 8 pixels: those of one
 * kernel row, for all pixels or, where the distance of pixels is odd, for every
 * second one. Rows are taken with a distance that puts their bytes into the
 * right halves of words, so that even rows can be gathered in one vector, odd
 * rows in another, and joined by bytes. */
typedef struct oct_first_move {
  uint16_t source[32]; /* word of the loaded vector, where the mask has a bit */
  uint32_t mask;
  int32_t row;    /* kernel row */
  int32_t offset; /* of the vector from the row's first byte for the first pixel */
  int32_t unused[13];
} oct_first_move;

static inline oct_first_plan oct_first_plan_of(const oct_conv_shape *s) {
  oct_first_plan p = {.segment = s->kernel_w * (int)s->channels};
  int padded = (p.segment + 3) / 4, rest = p.segment % 4, gathered = (s->kernel_h * rest + 3) / 4, step = s->stride_w * (int)s->channels;
  bool gather = p.segment > 4 && rest && gathered <= 2 && step <= 8 && s->kernel_h * (p.segment / 4) + gathered < s->kernel_h * padded;
  p.whole = gather ? p.segment / 4 : padded;
  p.rest = gather ? rest : 0;
  p.steps = s->kernel_h * p.whole;
  p.gathered = gather ? gathered : 0;
  p.parities = 1 + step % 2;
  p.moves = gather ? s->kernel_h * p.parities : 0;
  return p;
}

static inline const char *oct_first_reject(const oct_conv_shape *s) {
  if (s->groups != 1 || s->channels > OCT_FIRST_CHANNELS) return "made for at most 4 input channels in one group";
  if (s->kernel_h == 1 && s->kernel_w == 1) return "made for kernels larger than 1x1";
  if (s->dilation_w != 1 && s->kernel_w != 1) return "made for kernel rows without gaps";
  if (s->kernel_h > OCT_FIRST_HEIGHT || s->kernel_w > OCT_FIRST_STEPS || oct_first_plan_of(s).steps > OCT_FIRST_STEPS)
    return "the kernel is too large";
  return NULL;
}

static inline int64_t oct_first_panels(const oct_conv_shape *s, int width) { return (s->out_channels + width - 1) / width; }

static inline size_t oct_first_moves_bytes(const oct_conv_shape *s) { return (size_t)oct_first_plan_of(s).moves * sizeof(oct_first_move); }

static inline int64_t oct_first_panel_bytes(const oct_conv_shape *s, int width) {
  oct_first_plan p = oct_first_plan_of(s);
  return (int64_t)(p.steps + p.gathered) * width * 4;
}

static inline size_t oct_first_packed_bytes(const oct_conv_shape *s, int width) {
  return oct_first_moves_bytes(s) + (size_t)(oct_first_panels(s, width) * oct_first_panel_bytes(s, width));
}

static inline size_t oct_first_units(const oct_conv_shape *s) { return (size_t)(s->batch * s->out_h); }

/* Place of channel o in a panel: panels of 64 have the order in which four
 * vectors are packed to bytes without a permutation. */
static inline int oct_first_lane(int width, int o) { return width == 64 ? o / 4 % 4 * 16 + o / 16 * 4 + o % 4 : o; }

/* Byte k of kernel row i for lane 0, counted from the panel's first. */
static inline int64_t oct_first_weight(const oct_first_plan *p, int i, int k, int width) {
  if (k < p->whole * 4) return (int64_t)(i * p->whole + k / 4) * width * 4 + k % 4;
  int byte = i * p->rest + k - p->whole * 4;
  return (int64_t)(p->steps + byte / 4) * width * 4 + byte % 4;
}

static inline void oct_first_pack_moves(const oct_conv_shape *s, const oct_first_plan *p, oct_first_move *moves) {
  int step = s->stride_w * (int)s->channels;
  memset(moves, 0, (size_t)p->moves * sizeof *moves);
  for (int i = 0; i < p->moves; i++) {
    oct_first_move *m = &moves[i];
    int first = i / s->kernel_h, back = first * (step + 1) / 2; /* words; with them no vector begins past the last pixel */
    m->row = i % s->kernel_h;
    int odd = m->row * p->rest % 2;
    m->offset = 4 * p->whole + first * step - odd - 2 * back;
    for (int pixel = first; pixel < 8; pixel += p->parities)
      for (int k = 0; k < (odd + p->rest + 1) / 2; k++) {
        int to = pixel * 4 + m->row * p->rest / 2 + k;
        m->source[to] = (uint16_t)((pixel - first) * step / 2 + back + k);
        m->mask |= UINT32_C(1) << to;
      }
  }
}

static inline void oct_first_pack(const oct_conv_shape *s, int width, const int8_t *weights, void *packed) {
  oct_first_plan p = oct_first_plan_of(s);
  memset(packed, 0, oct_first_packed_bytes(s, width));
  oct_first_pack_moves(s, &p, (oct_first_move *)packed);
  int8_t *out = (int8_t *)packed + oct_first_moves_bytes(s);
  for (int64_t o = 0; o < s->out_channels; o++) {
    int8_t *panel = out + o / width * oct_first_panel_bytes(s, width) + 4 * oct_first_lane(width, (int)(o % width));
    for (int64_t c = 0; c < s->channels; c++)
      for (int i = 0; i < s->kernel_h; i++)
        for (int j = 0; j < s->kernel_w; j++)
          panel[oct_first_weight(&p, i, j * (int)s->channels + (int)c, width)] =
              weights[((o * s->channels + c) * s->kernel_h + i) * s->kernel_w + j];
  }
}

/* Some steps of a tile: step i of pixel r is at in + r * step + offsets[i]. */
typedef struct oct_first_part {
  const uint8_t *in;
  ptrdiff_t step;
  const ptrdiff_t *offsets;
  int count;
} oct_first_part;

/* acc[pixel][width], lanes in their own order; first the whole steps, then the
 * gathered ones. */
typedef void (*oct_first_tile_fn)(const oct_first_part parts[2], const int8_t *weights, const int32_t *bias, int32_t *acc);

/* to[pixel][kernel row][segment, padded]: for input pixels that do not lie side
 * by side. */
static inline void oct_first_copy(const oct_conv_i8_args *a, const uint8_t *in, ptrdiff_t step, int pixels, ptrdiff_t padded, uint8_t *to) {
  const oct_conv_shape *s = &a->shape;
  for (int r = 0; r < pixels; r++, in += step)
    for (int i = 0; i < s->kernel_h; i++, to += padded)
      for (int j = 0; j < s->kernel_w; j++)
        memcpy(to + j * s->channels, in + i * s->dilation_h * a->in.row + j * a->in.pixel, (size_t)s->channels);
}

/* The gathered bytes of pixels in a copy: left[pixel]. */
static inline void oct_first_gather_copy(const oct_first_plan *p, int height, const uint8_t *copy, int pixels, ptrdiff_t padded,
                                         uint64_t *left) {
  for (int r = 0; r < pixels; r++) {
    left[r] = 0;
    for (int i = 0; i < height; i++, copy += padded)
      for (int k = 0; k < p->rest; k++) left[r] |= (uint64_t)copy[4 * p->whole + k] << (8 * (i * p->rest + k));
  }
}

/* Bytes between kernel rows in a copy, and of the copy of a tile at most. */
static inline ptrdiff_t oct_first_copy_row(const oct_first_plan *p) { return (p->segment + 3) / 4 * 4; }
#define OCT_FIRST_COPY ((OCT_FIRST_STEPS + OCT_FIRST_HEIGHT) * 4 * OCT_FIRST_ROWS)

#endif
