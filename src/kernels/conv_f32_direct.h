/* What the variants of the direct float convolution share: how weights are packed, how the work is cut into units, and how a
 * tile of output pixels finds its input. No vector code: the micro kernel is conv_f32_direct_tile.h.
 *
 * Every output is one dot product over k = (kernel row, kernel column, channel), in this order. Columns (output channels of a
 * group) are packed in panels: [group][panel][k][columns], full panels of `panel` columns, the last one cut to a multiple of
 * `lanes` and filled with zeros. Nothing is padded along k: a zero weight would not silence a NaN in the bytes after a run.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_F32_DIRECT_H
#define OCT_KERNELS_CONV_F32_DIRECT_H

#include <stddef.h>

#include "kernels/kernels.h"

#define OCT_CONV_F32_BLOCK 48            /* output pixels of a unit: a multiple of every tile height; the last one has 24 to 71 */
#define OCT_CONV_F32_CACHED (512 * 1024) /* bytes of weights that stay in the second-level cache while pixels stream by */

typedef struct oct_conv_f32_plan {
  int64_t group_in, group_out, k;  /* per group: channels read, channels written, products per output */
  int64_t columns, panels, blocks; /* per group: packed columns, panels; blocks of OCT_CONV_F32_BLOCK pixels */
  int64_t pixels;                  /* of all images */
  bool panel_major;                /* a panel meets all its pixels before the next panel starts */
} oct_conv_f32_plan;

static inline oct_conv_f32_plan oct_conv_f32_plan_make(const oct_conv_shape *s, int lanes, int panel) {
  oct_conv_f32_plan p;
  p.group_in = s->groups == 1 ? s->channels : s->channels / s->groups;
  p.group_out = s->groups == 1 ? s->out_channels : s->out_channels / s->groups;
  p.k = p.group_in * s->kernel_h * s->kernel_w;
  p.columns = (p.group_out + lanes - 1) / lanes * lanes;
  p.panels = (p.group_out + panel - 1) / panel;
  p.pixels = s->batch * s->out_h * s->out_w;
  p.blocks = p.pixels <= OCT_CONV_F32_BLOCK ? 1 : (p.pixels + OCT_CONV_F32_BLOCK / 2) / OCT_CONV_F32_BLOCK;
  p.panel_major = s->groups > 1 || p.k * p.columns * (int64_t)sizeof(float) > OCT_CONV_F32_CACHED;
  return p;
}

static inline size_t oct_conv_f32_packed_bytes(const oct_conv_shape *s, int lanes, int panel) {
  oct_conv_f32_plan p = oct_conv_f32_plan_make(s, lanes, panel);
  return (size_t)s->groups * (size_t)p.columns * (size_t)p.k * sizeof(float);
}

static inline size_t oct_conv_f32_units(const oct_conv_shape *s, int lanes, int panel) {
  oct_conv_f32_plan p = oct_conv_f32_plan_make(s, lanes, panel);
  return (size_t)(s->groups * p.panels * p.blocks);
}

/* weights [out][channels/groups][kernel_h][kernel_w] */
static inline void oct_conv_f32_pack(const oct_conv_shape *s, int lanes, int panel, const float *weights, float *packed) {
  oct_conv_f32_plan p = oct_conv_f32_plan_make(s, lanes, panel);
  int64_t taps = (int64_t)s->kernel_h * s->kernel_w;
  for (int64_t group = 0; group < s->groups; group++) {
    for (int64_t first = 0; first < p.group_out; first += panel) {
      int64_t left = p.group_out - first, width = p.columns - first < panel ? p.columns - first : panel;
      const float *w = weights + (group * p.group_out + first) * p.k;
      for (int64_t tap = 0; tap < taps; tap++)
        for (int64_t c = 0; c < p.group_in; c++)
          for (int64_t n = 0; n < width; n++) *packed++ = n < left ? w[n * p.k + c * taps + tap] : 0;
    }
  }
}

/* A 1x1 problem of one group whose weights lie anywhere. */
static inline void oct_conv_f32_pack_matrix(const oct_conv_shape *s, int lanes, int panel, const float *w, ptrdiff_t k_stride,
                                            ptrdiff_t n_stride, float scale, float *packed) {
  oct_conv_f32_plan p = oct_conv_f32_plan_make(s, lanes, panel);
  for (int64_t first = 0; first < p.group_out; first += panel) {
    int64_t left = p.group_out - first, width = p.columns - first < panel ? p.columns - first : panel, count = left < width ? left : width;
    for (int64_t k = 0; k < p.k; k++, packed += width) {
      const float *from = w + k * k_stride + first * n_stride;
      if (n_stride == 1) {
        for (int64_t n = 0; n < count; n++) packed[n] = from[n] * scale;
      } else {
        for (int64_t n = 0; n < count; n++) packed[n] = from[n * n_stride] * scale;
      }
      for (int64_t n = count; n < width; n++) packed[n] = 0;
    }
  }
}

/* Where unit `unit` lies: group, first column of its panel, pixels [pixel, pixel_end). */
typedef struct oct_conv_f32_unit {
  int64_t group, column, pixel, pixel_end;
} oct_conv_f32_unit;

static inline oct_conv_f32_unit oct_conv_f32_unit_at(const oct_conv_f32_plan *p, int groups, int panel, size_t unit) {
  int64_t panels = p->panels * groups, index = (int64_t)unit;
  int64_t which = p->panel_major ? index / p->blocks : index % panels;
  int64_t block = p->panel_major ? index % p->blocks : index / panels;
  oct_conv_f32_unit u = {.group = groups == 1 ? 0 : which / p->panels, .pixel = block * OCT_CONV_F32_BLOCK};
  u.column = (which - u.group * p->panels) * panel;
  u.pixel_end = block + 1 < p->blocks ? u.pixel + OCT_CONV_F32_BLOCK : p->pixels;
  return u;
}

/* Unit `index` and those of [index, end) that follow it in its panel as one; returns the first one that does not. */
static inline size_t oct_conv_f32_unit_join(const oct_conv_f32_plan *p, int groups, int panel, size_t index, size_t end,
                                            oct_conv_f32_unit *unit) {
  size_t blocks = (size_t)p->blocks, last = p->panel_major || p->panels * groups == 1 ? (index / blocks + 1) * blocks : index + 1;
  if (last > end) last = end;
  *unit = oct_conv_f32_unit_at(p, groups, panel, index);
  if (last - index > 1) unit->pixel_end = oct_conv_f32_unit_at(p, groups, panel, last - 1).pixel_end;
  return last;
}

/* Walks output pixels in row-major order and keeps the pointers of the current one. */
typedef struct oct_conv_f32_walk {
  const oct_conv_f32_args *args;
  int64_t n, y, x;
  const float *in, *residual;
  float *out;
} oct_conv_f32_walk;

static inline void oct_conv_f32_walk_row(oct_conv_f32_walk *w) {
  const oct_conv_shape *s = &w->args->shape;
  const oct_view *residual = &w->args->residual;
  w->in = (const float *)oct_view_at(&w->args->in, sizeof(float), w->n, w->y * s->stride_h - s->pad_top, w->x * s->stride_w - s->pad_left);
  w->out = (float *)oct_view_at(&w->args->out, sizeof(float), w->n, w->y, w->x);
  w->residual = residual->data ? (const float *)oct_view_at(residual, sizeof(float), w->n, w->y, w->x) : NULL;
}

static inline oct_conv_f32_walk oct_conv_f32_walk_start(const oct_conv_f32_args *args, int64_t pixel) {
  const oct_conv_shape *s = &args->shape;
  oct_conv_f32_walk w = {.args = args, .x = pixel};
  if (pixel >= s->out_w) w.y = pixel / s->out_w, w.x = pixel % s->out_w;
  if (w.y >= s->out_h) w.n = w.y / s->out_h, w.y %= s->out_h;
  oct_conv_f32_walk_row(&w);
  return w;
}

static inline void oct_conv_f32_walk_next(oct_conv_f32_walk *w) {
  const oct_conv_shape *s = &w->args->shape;
  if (++w->x < s->out_w) {
    w->in += s->stride_w * w->args->in.pixel;
    w->out += w->args->out.pixel;
    if (w->residual) w->residual += w->args->residual.pixel;
    return;
  }
  w->x = 0;
  if (++w->y == s->out_h) w->y = 0, w->n++;
  if (w->n < s->batch) oct_conv_f32_walk_row(w);
}

/* The k loop as runs of contiguous floats: `rows` x `runs` runs of `length`; neighbours of a run in k order are `row_step` and `run_step` away. */
typedef struct oct_conv_f32_runs {
  int64_t rows, runs, length;
  ptrdiff_t row_step, run_step;
} oct_conv_f32_runs;

static inline oct_conv_f32_runs oct_conv_f32_runs_make(const oct_conv_f32_args *args, int64_t group_in) {
  const oct_conv_shape *s = &args->shape;
  oct_conv_f32_runs r = {.rows = s->kernel_h, .runs = s->kernel_w, .length = group_in};
  r.row_step = s->dilation_h * args->in.row;
  r.run_step = s->dilation_w * args->in.pixel;
  if (r.run_step == r.length) r.length *= r.runs, r.runs = 1;
  if (r.runs == 1 && r.row_step == r.length) r.length *= r.rows, r.rows = 1;
  return r;
}

#endif
