/* 8-bit convolution with AMX tiles (conv_i8_tiles__amxint8.h), any kernel size and stride, one group.
 *
 * A tile's rows are pixels at one distance from each other. They are read where they lie: 16 of them one after the other through the
 * image with its border, over the ends of rows; sums that are no output pixel's are dropped. A kernel row is one run of bytes then,
 * padded to steps of 64. Where too much would be dropped or padded, and where taps lie apart, the bytes of each output pixel are gathered
 * in the workspace first, kernel row after kernel row without gaps, for a chunk of pixels that meets all weights before the next one.
 *
 * A block's sums are rounded while the next block's are made: the tile unit works beside the vector units.
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_tiles__amxint8.h"

#define ROWS (2 * OCT_AMX_TILE)
#define FEWEST 40            /* products per output: below, rounding takes most of the time */
#define BLOCK 128            /* output pixels of one unit, about */
#define CHUNK (768 << 10)    /* bytes of the image that meet all weights before the next ones */
#define GATHERED (384 << 10) /* the same of gathered bytes */
#define FEW (32 << 10)       /* the same at least, where the weights are few */
#define GATHER_COST 100      /* of a step of one pixel, in output channels that take as long */

typedef struct direct_plan {
  bool direct;                           /* not gathered */
  int64_t segment, row_bytes, row_steps; /* of a kernel row: its own bytes, those it takes among the inputs, steps (direct) */
  int64_t steps, pitch;                  /* of a pixel; bytes between gathered ones */
  int64_t panels, items, block, blocks;  /* items: output rows (direct) or pixels; block: items of one unit */
  int64_t chunk;                         /* blocks */
} direct_plan;

/* Of a chunk: not many more than of weights, which are read anew for each. */
static int64_t gathered_bytes(const oct_conv_shape *s, const direct_plan *p) {
  int64_t weights = s->out_channels * p->pitch;
  return oct_min_i64(GATHERED, weights < FEW ? FEW : weights);
}

static direct_plan plan_of(const oct_conv_shape *s) {
  direct_plan p = {.segment = s->kernel_w * s->channels, .panels = oct_amx_panels(s->out_channels)};
  int64_t row_steps = oct_amx_steps(p.segment), padded = s->kernel_h * row_steps, tight = oct_amx_steps(s->kernel_h * p.segment);
  int64_t wide = s->stride_w == 1 ? s->out_w + s->kernel_w - 1 : (s->out_w + OCT_AMX_TILE - 1) / OCT_AMX_TILE * OCT_AMX_TILE;
  p.direct = (s->dilation_w == 1 || s->kernel_w == 1) && s->out_h * s->out_w >= OCT_AMX_TILE &&
             padded * wide * s->out_channels <= tight * s->out_w * (s->out_channels + GATHER_COST);
  p.row_steps = p.direct ? row_steps : tight;
  p.row_bytes = p.direct ? row_steps * OCT_AMX_DEPTH : p.segment;
  p.steps = p.direct ? padded : tight;
  p.pitch = (p.steps | 1) * OCT_AMX_DEPTH; /* an odd number of lines: a tile's rows lie in different sets of the cache */
  p.items = s->batch * s->out_h * (p.direct ? 1 : s->out_w);
  p.block = p.direct ? (BLOCK + s->out_w - 1) / s->out_w : BLOCK;
  p.blocks = (p.items + p.block - 1) / p.block;
  p.chunk = p.direct ? CHUNK / (p.block * s->stride_h * s->in_w * s->channels + 1) : gathered_bytes(s, &p) / (BLOCK * p.pitch);
  if (p.chunk < 1) p.chunk = 1;
  if (p.chunk > p.blocks) p.chunk = p.blocks;
  return p;
}

static const char *reject(const oct_conv_shape *s) {
  if (s->groups != 1) return "only for one group";
  if (s->batch * s->out_h * s->out_w < OCT_AMX_TILE) return "few rows are bound by memory: a dot product is as fast";
  if (s->kernel_h == 1 && s->kernel_w == 1 && s->stride_w == 1 && s->batch * s->out_h == 1) return "a matrix product";
  if (s->kernel_h * s->kernel_w * s->channels < FEWEST) return "too few products per output for tiles";
  return NULL;
}

static size_t packed_bytes(const oct_conv_shape *s) { return oct_amx_packed_bytes(s->out_channels, plan_of(s).steps); }

static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  direct_plan p = plan_of(s);
  oct_amx_pack(s, p.steps, p.row_bytes, weights, packed);
}

/* Gathered pixels (a chunk of them, or one block where the view allows no direct reading), and what copying writes past the last. */
static size_t workspace_bytes(const oct_conv_shape *s) {
  direct_plan p = plan_of(s);
  return (size_t)((p.direct ? ROWS : p.chunk * BLOCK) * p.pitch + 2 * OCT_AMX_DEPTH);
}

static size_t units(const oct_conv_shape *s) {
  direct_plan p = plan_of(s);
  return (size_t)(p.panels * p.blocks);
}

/* A block's sums that wait to be finished. */
typedef struct waiting {
  int32_t acc[ROWS * OCT_AMX_PANEL] __attribute__((aligned(64)));
  oct_direct_rows rows;
  int64_t channel;
  int count;
} waiting;

typedef struct worker {
  const oct_conv_i8_args *a;
  direct_plan p;
  uint8_t *gathered;
  int64_t first, last;  /* pixels that are gathered */
  int64_t pitch_pixels; /* of direct reading: pixels from one output row to the next */
  oct_amx_fetch fetch;
  oct_amx_block block;
  int at;       /* the next block's place */
  bool pending; /* the other one is to be finished */
  waiting of[2];
  int32_t bias[OCT_AMX_PANEL] __attribute__((aligned(64)));
  char dropped[OCT_AMX_PANEL * 4 + OCT_OVERREAD]; /* where results that are no output pixel's go, and their residuals come from */
} worker;

/* With a scale per image, results that are dropped would put the others' index out of step: run by run then. */
static void finish_runs(worker *w, const waiting *f) {
  oct_direct_rows run = {.pixel = f->rows.pixel};
  for (int r = 0, n; r < f->rows.count; r += n) {
    for (n = 0; r + n < f->rows.count && f->rows.out[r + n] != w->dropped; n++) {
      run.out[n] = f->rows.out[r + n];
      run.residual[n] = f->rows.residual[r + n];
    }
    run.count = n;
    if (n) oct_epilogue_i8_avx512(w->a, &run, f->channel, f->count, f->acc + r * OCT_AMX_PANEL, OCT_AMX_PANEL);
    else n = 1;
    run.pixel += run.count;
  }
}

static void finish(worker *w) {
  const waiting *f = &w->of[1 - w->at];
  if (!w->pending) return;
  w->pending = false;
  if (w->a->epilogue.row_scale) finish_runs(w, f);
  else oct_epilogue_i8_avx512(w->a, &f->rows, f->channel, f->count, f->acc, OCT_AMX_PANEL);
}

/* Runs the block whose rows are set. */
static void submit(worker *w) {
  oct_amx_multiply(&w->block, &w->fetch);
  finish(w);
  oct_amx_store(&w->block, w->of[w->at].acc);
  w->at = 1 - w->at;
  w->pending = true;
}

/* ---- Gathered pixels ---- */

/* Runs of bytes: `outer` times `inner` of them at fixed distances, to be laid side by side. */
typedef struct gathering {
  int64_t outer, inner, bytes;
  ptrdiff_t outer_step, inner_step, row_bytes; /* row_bytes: of an outer step when laid */
} gathering;

static inline __attribute__((always_inline)) void gather_pixel(const gathering *g, const uint8_t *from, uint8_t *to) {
  for (int64_t i = 0; i < g->outer; i++)
    for (int64_t j = 0; j < g->inner; j++)
      for (int64_t k = 0; k < g->bytes; k += 64)
        _mm512_storeu_si512(to + i * g->row_bytes + j * g->bytes + k, _mm512_loadu_si512(from + i * g->outer_step + j * g->inner_step + k));
}

/* The same for at most 32 bytes at a time. */
static inline __attribute__((always_inline)) void gather_short(const gathering *g, const uint8_t *from, uint8_t *to) {
  for (int64_t i = 0; i < g->outer; i++, from += g->outer_step, to += g->row_bytes)
    for (int64_t j = 0; j < g->inner; j++) {
      __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(from + j * g->inner_step));
      _mm256_storeu_si256((__m256i *)(void *)(to + j * g->bytes), x);
    }
}

/* The pixels up to `last`, after those that are there. What is written past a pixel's bytes is overwritten by the next pixel's. */
static void gather(worker *w, int64_t last) {
  const oct_conv_i8_args *a = w->a;
  const oct_conv_shape *s = &a->shape;
  bool whole = s->kernel_w == 1 || (s->dilation_w == 1 && a->in.pixel == s->channels);
  gathering g = {.outer = s->kernel_h,
                 .inner = whole ? 1 : s->kernel_w,
                 .bytes = whole ? w->p.segment : s->channels,
                 .outer_step = s->dilation_h * a->in.row,
                 .inner_step = s->dilation_w * a->in.pixel,
                 .row_bytes = w->p.row_bytes};
  oct_direct_cursor cursor = oct_direct_cursor_at(a, w->last, 0, 0);
  oct_direct_rows rows;
  uint8_t *to = w->gathered + (w->last - w->first) * w->p.pitch;
  for (; w->last < last; w->last += rows.count) {
    oct_direct_cursor_take(&cursor, (int)oct_min_i64(ROWS, last - w->last), &rows);
    if (g.bytes <= 32)
      for (int r = 0; r < rows.count; r++, to += w->p.pitch) gather_short(&g, rows.in[r], to);
    else
      for (int r = 0; r < rows.count; r++, to += w->p.pitch) gather_pixel(&g, rows.in[r], to);
  }
}

/* One panel over the output pixels [first, last). */
static void run_gathered(worker *w, int64_t first, int64_t last) {
  oct_direct_cursor cursor = oct_direct_cursor_at(w->a, first, 0, w->of[0].channel);
  bool each = w->p.direct;
  if (first < w->first || first > w->last || last - w->first > w->p.chunk * BLOCK) w->first = w->last = first;
  w->block.pitch = w->p.pitch;
  w->block.runs = 1;
  w->block.steps = w->p.steps;
  for (int64_t pixel = first; pixel < last; pixel += ROWS) {
    int take = (int)oct_min_i64(ROWS, last - pixel);
    if (each) w->first = w->last = pixel;
    if (pixel + take > w->last) gather(w, each ? pixel + take : last);
    w->block.in[0] = w->gathered + (pixel - w->first) * w->p.pitch;
    w->block.in[1] = w->block.in[0] + OCT_AMX_TILE * w->p.pitch;
    w->block.high = take > OCT_AMX_TILE;
    oct_direct_cursor_take(&cursor, take, &w->of[w->at].rows);
    submit(w);
  }
}

/* ---- Pixels where they lie ---- */

/* Pixels from one output row to the next; 0: the view does not have rows of whole pixels, or taps lie apart. */
static int64_t pitch_of(const oct_conv_i8_args *a) {
  const oct_conv_shape *s = &a->shape;
  int64_t row = a->in.row * s->stride_h, step = a->in.pixel * s->stride_w, pixels = step > 0 ? row / step : 0;
  bool close = s->kernel_w == 1 || a->in.pixel == s->channels;
  return close && pixels >= s->out_w && pixels * step == row ? pixels : 0;
}

/* The next output pixel: row y of image n is the `row`-th of all. */
typedef struct place {
  int64_t row, n, y, x;
} place;

static void next_row(const oct_conv_shape *s, place *at) {
  at->x = 0;
  at->row++;
  if (++at->y == s->out_h) at->y = 0, at->n++;
}

/* The block's rows [r, until) are no output pixel's. Returns `until`. */
static int drop(worker *w, int r, int until) {
  oct_direct_rows *rows = &w->of[w->at].rows;
  for (; r < until; r++) rows->residual[r] = rows->out[r] = w->dropped;
  return r;
}

/* The block's rows from r on, before row `until`, are pixels of one output row. Returns the next row. */
static int take_pixels(worker *w, const place *at, int r, int until) {
  const oct_conv_i8_args *a = w->a;
  oct_direct_rows *rows = &w->of[w->at].rows;
  size_t element = oct_epilogue_element(&a->epilogue), channel = (size_t)w->of[w->at].channel * element;
  char *out = (char *)oct_view_at(&a->out, element, at->n, at->y, at->x) + channel, *residual = NULL;
  ptrdiff_t out_step = a->out.pixel * (ptrdiff_t)element, residual_step = a->residual.data ? a->residual.pixel * (ptrdiff_t)element : 0;
  if (residual_step) residual = (char *)oct_view_at(&a->residual, element, at->n, at->y, at->x) + channel;
  for (until = (int)oct_min_i64(until, r + a->shape.out_w - at->x); r < until; r++, out += out_step) {
    rows->out[r] = out;
    rows->residual[r] = residual;
    if (residual_step) residual += residual_step;
  }
  return r;
}

/* Fills a tile with the output pixels from `at` on that lie before output row `last`, in one image. At an image's end it begins earlier,
 * with pixels that are done. */
static void take_tile(worker *w, place *at, int64_t last, int tile) {
  const oct_conv_i8_args *a = w->a;
  const oct_conv_shape *s = &a->shape;
  int64_t position = at->y * w->pitch_pixels + at->x, end = (s->out_h - 1) * w->pitch_pixels + s->out_w, n = at->n;
  int64_t start = oct_min_i64(position, end - OCT_AMX_TILE);
  int first = tile * OCT_AMX_TILE, until = first + OCT_AMX_TILE, r = drop(w, first, first + (int)(position - start));
  w->block.in[tile] = (const uint8_t *)oct_view_at(&a->in, 1, n, -s->pad_top, -s->pad_left) + start * w->block.pitch;
  while (r < until && at->row < last && at->n == n) {
    int next = take_pixels(w, at, r, until);
    at->x += next - r;
    r = next;
    if (at->x < s->out_w) break;
    next_row(s, at);
    r = drop(w, r, (int)oct_min_i64(until, r + w->pitch_pixels - s->out_w));
  }
  drop(w, r, until);
}

/* One panel over the output rows [first, last). */
static void run_direct(worker *w, int64_t first, int64_t last) {
  const oct_conv_i8_args *a = w->a;
  const oct_conv_shape *s = &a->shape;
  place at = {.row = first, .n = oct_quotient(first, s->out_h)};
  at.y = first - at.n * s->out_h;
  w->block.pitch = a->in.pixel * s->stride_w;
  w->block.runs = s->kernel_h;
  w->block.steps = w->p.row_steps;
  w->block.run = s->dilation_h * a->in.row;
  while (at.row < last) {
    oct_direct_rows *rows = &w->of[w->at].rows;
    rows->pixel = at.row * s->out_w + at.x;
    take_tile(w, &at, last, 0);
    w->block.high = at.row < last;
    if (w->block.high) take_tile(w, &at, last, 1);
    rows->count = w->block.high ? ROWS : OCT_AMX_TILE;
    submit(w);
  }
}

/* One panel over the items [first, last). */
static void run_panel(worker *w, int64_t panel, int64_t first, int64_t last) {
  const oct_conv_shape *s = &w->a->shape;
  int64_t channel = panel * OCT_AMX_PANEL;
  int count = (int)oct_min_i64(OCT_AMX_PANEL, s->out_channels - channel);
  finish(w);
  for (int i = 0; i < 2; i++) w->of[i].channel = channel, w->of[i].count = count;
  for (int i = 0; i < OCT_AMX_PANEL; i++) w->bias[i] = w->a->epilogue.bias && i < count ? w->a->epilogue.bias[channel + i] : 0;
  w->block.weights = (const int8_t *)w->a->packed + panel * 2 * w->p.steps * OCT_AMX_TILE_BYTES;
  w->block.bias = w->bias;
  w->block.wide = count > OCT_AMX_TILE;
  int64_t pixels = (last - first) * (w->p.direct ? s->out_w : 1);
  w->fetch = oct_amx_fetch_of(s->out_channels, w->p.steps, w->block.weights, panel, (pixels + ROWS - 1) / ROWS);
  if (w->pitch_pixels) run_direct(w, first, last);
  else run_gathered(w, w->p.direct ? first * s->out_w : first, w->p.direct ? last * s->out_w : last);
}

/* Units are ordered by chunk, panel, block, as in conv_i8_direct.h. */
static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  worker w;
  w.a = a;
  w.p = plan_of(&a->shape);
  w.gathered = workspace;
  w.first = w.last = 0;
  w.pitch_pixels = w.p.direct ? pitch_of(a) : 0;
  w.at = 0;
  w.pending = false;
  oct_amx_configure(ROWS, w.p.row_steps == 1 && w.pitch_pixels ? w.p.segment : OCT_AMX_DEPTH);
  const direct_plan *p = &w.p;
  int64_t unit = (int64_t)begin, stop = (int64_t)end;
  while (unit < stop) {
    int64_t chunk = oct_quotient(unit, p->chunk * p->panels), first = chunk * p->chunk, blocks = oct_min_i64(p->chunk, p->blocks - first);
    int64_t inside = unit - first * p->panels, panel = oct_quotient(inside, blocks), at = inside - panel * blocks;
    int64_t take = oct_min_i64(blocks - at, stop - unit), from = (first + at) * p->block;
    run_panel(&w, panel, from, oct_min_i64(from + take * p->block, p->items));
    unit += take;
  }
  finish(&w);
  _tile_release();
}

const oct_conv_i8_kernel oct_conv_i8_direct_32x32__amxint8 = {
    .name = "conv_i8_direct_32x32__amxint8",
    .isa = OCT_ISA_AMX,
    .preference = 650,
    .reject = reject,
    .packs_by_size = true,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .workspace_bytes = workspace_bytes,
    .units = units,
    .run = run,
};
