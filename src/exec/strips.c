/* Convolutions that do little with every byte run together, a strip of rows at a time: what one makes for the next lies in the workspace and stays
 * in the second-level cache, instead of going to memory and back; such values have no buffer in the arena.
 * Each stage keeps the last rows that the next one still needs, so that nothing is computed twice but where threads share an image.
 * Which steps can: ops/lower.h, oct_step_rows. Results are the same bytes as without.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/clock.h"
#include "exec/plan.h"

#define MAX_STAGES 3                    /* longer chains hold more rows, in strips that are too low for the kernels */
#define LEAST_BYTES ((size_t)768 << 10) /* of a value between two stages: smaller ones stay in the cache by themselves */
#define STRIP_BYTES ((size_t)1 << 20)   /* of all values between the stages, held at once */
#define PIECES 4                        /* of an image, at most: each begins with rows that the piece before it also computes */

typedef struct stage {
  const oct_step_rows *rows;
  const void *params;
  oct_step *step;
  /* What it makes for the next stage. Sizes in bytes. */
  size_t offset;                /* in the workspace */
  int64_t row, pixel, capacity; /* capacity: rows */
  oct_border border;
  int value; /* of the border */
} stage;

typedef struct oct_strips {
  int n;
  stage stages[MAX_STAGES];
  int64_t height, rows, per_image; /* of the last stage's output: rows in all, of a strip; strips of an image */
  size_t kernel_workspace;         /* offset in the workspace */
  size_t kernel_bytes;
  bool refused; /* by a kernel, which does not take so few rows */
  bool measured;
} oct_strips;

/* Rows of each stage's output that exist now: [low, made) of an image. Negative ones and those past the last are border. */
typedef struct held_rows {
  int64_t low[MAX_STAGES], made[MAX_STAGES];
} held_rows;

static int64_t first_input(const oct_conv_shape *s, int64_t y) { return y * s->stride_h - s->pad_top; }
static int64_t input_end(const oct_conv_shape *s, int64_t end) {
  return first_input(s, end - 1) + (int64_t)(s->kernel_h - 1) * s->dilation_h + 1;
}
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Before anything is held: the first rows that the last stage's row `y` goes back to. */
static void hold_nothing(const oct_strips *c, int64_t y, held_rows *h) {
  for (int k = c->n - 1; k >= 0; k--) {
    h->low[k] = h->made[k] = y;
    y = first_input(c->stages[k].rows->shape, most(y, 0));
  }
}

/* Ends of the rows that each stage must have made before the last one can end with row `end`. */
static void rows_wanted(const oct_strips *c, int64_t end, int64_t wanted[MAX_STAGES]) {
  for (int k = c->n - 1; k >= 0; k--) {
    const oct_conv_shape *s = c->stages[k].rows->shape;
    wanted[k] = end;
    end = input_end(s, least(end, s->out_h));
  }
}

static char *row_at(const oct_strips *c, const held_rows *h, int k, char *workspace, int64_t y) {
  const stage *s = &c->stages[k];
  return workspace + s->offset + (y - h->low[k]) * s->row;
}

/* Lets go of the rows that the next stage is done with. */
static void drop_rows(const oct_strips *c, held_rows *h, int k, char *workspace) {
  const stage *s = &c->stages[k];
  int64_t keep = first_input(c->stages[k + 1].rows->shape, most(h->made[k + 1], 0));
  if (keep <= h->low[k]) return;
  if (workspace && keep < h->made[k])
    memmove(workspace + s->offset, row_at(c, h, k, workspace, keep), (size_t)((h->made[k] - keep) * s->row));
  h->low[k] = keep;
  h->made[k] = most(h->made[k], keep);
}

static void fill_rows(const oct_strips *c, held_rows *h, int k, char *workspace, int64_t end) {
  const stage *s = &c->stages[k];
  if (end <= h->made[k]) return;
  if (workspace) memset(row_at(c, h, k, workspace, h->made[k]), s->value, (size_t)((end - h->made[k]) * s->row));
  h->made[k] = end;
}

static oct_view moved_view(const oct_view *v, size_t size, int64_t image, int64_t y) {
  oct_view at = *v;
  at.data = oct_view_at(v, size, image, y, 0);
  return at;
}

static oct_conv_shape shape_of_rows(const oct_conv_shape *whole, int64_t rows) {
  oct_conv_shape shape = *whole;
  shape.batch = 1;
  shape.out_h = rows;
  shape.in_h = most(input_end(&shape, rows), 1);
  return shape;
}

static void compute_rows(const oct_strips *c, const held_rows *h, int k, char *workspace, int64_t image, int64_t end) {
  const stage *s = &c->stages[k];
  const oct_step_rows *r = s->rows;
  const int64_t y = h->made[k];
  const oct_conv_shape shape = shape_of_rows(r->shape, end - y);
  oct_view in = *r->in, out = *r->out, residual;
  if (k > 0) in.data = row_at(c, h, k - 1, workspace, y * shape.stride_h) + c->stages[k - 1].border.left * c->stages[k - 1].pixel;
  else in = moved_view(r->in, r->in_size, image, y * shape.stride_h);
  if (k < c->n - 1) out.data = row_at(c, h, k, workspace, y) + s->border.left * s->pixel;
  else out = moved_view(r->out, r->out_size, image, y);
  if (r->residual) residual = moved_view(r->residual, r->out_size, image, y);
  r->run(s->params, &shape, &in, &out, r->residual ? &residual : NULL, workspace + c->kernel_workspace);
}

/* workspace NULL: only counts rows. Returns how many the stage makes. */
static int64_t advance(const oct_strips *c, held_rows *h, int k, char *workspace, int64_t image, int64_t wanted) {
  const int64_t height = c->stages[k].rows->shape->out_h, end = least(wanted, height);
  int64_t rows = 0;
  if (k < c->n - 1) drop_rows(c, h, k, workspace);
  if (k < c->n - 1) fill_rows(c, h, k, workspace, least(wanted, 0));
  if (end > h->made[k]) {
    rows = end - h->made[k];
    if (workspace) compute_rows(c, h, k, workspace, image, end);
    h->made[k] = end;
  }
  if (k < c->n - 1) fill_rows(c, h, k, workspace, wanted);
  return rows;
}

/* The columns of the border stay as they are while rows come and go. */
static void fill_columns(const oct_strips *c, char *workspace) {
  for (int k = 0; k < c->n - 1; k++) {
    const stage *s = &c->stages[k];
    int64_t left = s->border.left * s->pixel, right = s->border.right * s->pixel, width = c->stages[k].rows->shape->out_w * s->pixel;
    for (int64_t y = 0; left + right > 0 && y < s->capacity; y++) {
      char *row = workspace + s->offset + y * s->row;
      memset(row, s->value, (size_t)left);
      memset(row + left + width, s->value, (size_t)right);
    }
  }
}

/* Units: strips of all images. The workspace begins with the seconds of each stage. */
static octet_status run_strips(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx;
  const oct_strips *c = params;
  double *seconds = workspace, start = 0;
  held_rows held = {{0}, {0}};
  int64_t wanted[MAX_STAGES];
  fill_columns(c, workspace);
  for (size_t unit = begin; unit < end; unit++) {
    int64_t image = (int64_t)unit / c->per_image, y = (int64_t)unit % c->per_image * c->rows;
    if (unit == begin || y == 0) hold_nothing(c, y, &held);
    rows_wanted(c, least(y + c->rows, c->height), wanted);
    for (int k = 0; k < c->n; k++) {
      if (c->measured) start = oct_seconds_now();
      advance(c, &held, k, workspace, image, wanted[k]);
      if (c->measured) seconds[k] += oct_seconds_now() - start;
    }
  }
  return OCTET_OK;
}

static octet_status run_elsewhere(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)params, (void)begin, (void)end, (void)workspace;
  return OCTET_OK;
}

/* ---- Making ---- */

/* What the plan's relocations say of a step's output. */
typedef struct link {
  int reader; /* step, or -1 */
  int buffer;
  oct_border border;
  int value;
} link;

static bool is_port(const oct_plan *plan, int buffer) {
  for (size_t i = 0; i < plan->graph->n_inputs; i++)
    if (plan->inputs[i]->buffer == buffer) return true;
  for (size_t i = 0; i < oct_plan_outputs(plan); i++)
    if (plan->outputs[i]->buffer == buffer) return true;
  return false;
}

static const oct_relocation *relocation_of(const oct_plan *plan, const void *where) {
  for (size_t i = 0; i < plan->n_relocations; i++)
    if (plan->relocations[i].where == where) return &plan->relocations[i];
  return NULL;
}

/* Nobody but one step of its kind reads what the step writes, and nobody else writes it but for its border. */
static link link_from(const oct_plan *plan, int writer) {
  const oct_step_rows *rows = plan->steps[writer]->rows, *next;
  const oct_relocation *out = relocation_of(plan, &rows->out->data), *in = NULL;
  link l = {.reader = -1};
  if (!out || out->buffer < 0 || is_port(plan, out->buffer)) return l;
  if (plan->buffers[out->buffer].bytes < LEAST_BYTES && !plan->strip_rows) return l;
  for (size_t i = 0; i < plan->n_relocations; i++) {
    const oct_relocation *r = &plan->relocations[i];
    if (r == out || r->buffer != out->buffer) continue;
    if (r->write && oct_plan_border(plan->steps[r->step], &l.border, &l.value)) continue;
    if (r->write || in) return l;
    in = r;
  }
  if (!in || in->step <= writer || in->offset != out->offset || !plan->steps[in->step]->rows) return l;
  next = plan->steps[in->step]->rows;
  bool same = in->where == &next->in->data && next->in->row == rows->out->row && next->in->pixel == rows->out->pixel &&
              next->in_size == rows->out_size && next->shape->in_h == rows->shape->out_h && next->shape->batch == rows->shape->batch;
  if (same) l.reader = in->step, l.buffer = out->buffer;
  return l;
}

static void ask_kernel(oct_strips *c, const stage *s, int64_t rows) {
  if (!rows) return;
  oct_conv_shape shape = shape_of_rows(s->rows->shape, rows);
  if (!s->rows->accepts(s->params, &shape)) c->refused = true;
  size_t bytes = s->rows->workspace_bytes(s->params, &shape);
  if (bytes > c->kernel_bytes) c->kernel_bytes = bytes;
}

/* Most rows held at once; false when strips of `rows` need more than may be held, or more than the values have. */
static bool fits(oct_strips *c, int64_t rows) {
  held_rows held = {{0}, {0}};
  int64_t wanted[MAX_STAGES], bytes = 0;
  for (int k = 0; k < c->n; k++) c->stages[k].capacity = 0;
  c->refused = false, c->kernel_bytes = 0;
  for (int64_t begin = 0; begin < c->height; begin += rows) { /* as the start of a piece, and as what follows the strip before */
    for (int fresh = 0; fresh < 2; fresh++) {
      held_rows own = held;
      if (begin == 0 || fresh) hold_nothing(c, begin, &own);
      rows_wanted(c, least(begin + rows, c->height), wanted);
      for (int k = 0; k < c->n; k++) {
        ask_kernel(c, &c->stages[k], advance(c, &own, k, NULL, 0, wanted[k]));
        c->stages[k].capacity = most(c->stages[k].capacity, own.made[k] - own.low[k]);
      }
      if (!fresh) held = own;
    }
  }
  for (int k = 0; k < c->n - 1; k++) bytes += c->stages[k].capacity * c->stages[k].row;
  return bytes <= (int64_t)STRIP_BYTES;
}

static void choose_rows(oct_strips *c, int given) {
  int64_t rows = given ? least(given, c->height) : c->height;
  while (!given && rows > 1 && !fits(c, rows)) rows = rows > 8 ? rows * 3 / 4 : rows - 1;
  c->per_image = (c->height + rows - 1) / rows;
  c->rows = (c->height + c->per_image - 1) / c->per_image;
  c->per_image = (c->height + c->rows - 1) / c->rows;
  fits(c, c->rows);
}

static size_t aligned(size_t bytes) { return (bytes + OCT_ALIGNMENT - 1) / OCT_ALIGNMENT * OCT_ALIGNMENT; }

static size_t place_rows(oct_strips *c) {
  size_t bytes = aligned(MAX_STAGES * sizeof(double));
  for (int k = 0; k < c->n; k++) {
    stage *s = &c->stages[k];
    s->offset = bytes;
    if (k < c->n - 1) bytes += aligned((size_t)(s->capacity * s->row) + OCT_OVERREAD);
  }
  c->kernel_workspace = bytes;
  return bytes + c->kernel_bytes;
}

/* The chain is in the place of its last step; the others stay in the plan for what is told of them, and do nothing. */
static void take_steps(oct_plan *plan, oct_strips *c, const int *numbers, const link *links) {
  int last = numbers[c->n - 1];
  for (size_t i = 0; i < plan->n_relocations; i++) {
    oct_relocation *r = &plan->relocations[i];
    for (int k = 0; k < c->n - 1; k++) {
      if (r->buffer == links[k].buffer) {
        if (plan->is_border[r->step]) plan->steps[r->step]->units = 0;
        r->buffer = -1, r->data = NULL;
      }
      if (r->step == numbers[k]) r->step = last;
    }
  }
  for (int k = 0; k < c->n; k++) {
    oct_step *step = c->stages[k].step;
    step->strips = c;
    step->run = run_elsewhere;
    step->units = step->grain = 1;
    step->workspace_bytes = 0;
  }
  oct_step *step = plan->steps[last];
  step->run = run_strips;
  step->params = c;
  step->units = (size_t)(c->stages[0].rows->shape->batch * c->per_image);
  step->grain = (size_t)((c->per_image + PIECES - 1) / PIECES);
  step->workspace_bytes = place_rows(c);
  if (step->workspace_bytes > plan->workspace_bytes) plan->workspace_bytes = step->workspace_bytes;
}

static octet_status chain_from(oct_plan *plan, int first) {
  int numbers[MAX_STAGES] = {first}, n = 1;
  link links[MAX_STAGES];
  while (n < MAX_STAGES) {
    link l = link_from(plan, numbers[n - 1]);
    if (l.reader < 0) break;
    links[n - 1] = l;
    numbers[n++] = l.reader;
  }
  if (n < 2) return OCTET_OK;
  oct_strips *c = oct_region_alloc(plan->lowering.ctx, &plan->region, 1, sizeof *c);
  if (!c) return OCTET_OUT_OF_MEMORY;
  c->n = n;
  for (int k = 0; k < n; k++) {
    oct_step *step = plan->steps[numbers[k]];
    stage *s = &c->stages[k];
    *s = (stage){.rows = step->rows, .params = step->params, .step = step};
    s->row = step->rows->out->row * (int64_t)step->rows->out_size;
    s->pixel = step->rows->out->pixel * (int64_t)step->rows->out_size;
    if (k < n - 1) s->border = links[k].border, s->value = links[k].value;
  }
  c->height = c->stages[n - 1].rows->shape->out_h;
  choose_rows(c, plan->strip_rows);
  if (c->refused) return OCTET_OK;
  take_steps(plan, c, numbers, links);
  return OCTET_OK;
}

octet_status oct_plan_strips(oct_plan *plan) {
  for (size_t i = 0; i < plan->n_steps; i++)
    if (plan->steps[i]->rows && !plan->steps[i]->strips) OCT_TRY(chain_from(plan, (int)i));
  return OCTET_OK;
}

/* ---- Measuring ---- */

bool oct_strips_run_in(const oct_step *step) { return step->strips && step->params == step->strips; }

void oct_strips_measure(const oct_step *step, void *workspace, bool on) {
  step->strips->measured = on;
  if (on) memset(workspace, 0, MAX_STAGES * sizeof(double));
}

double oct_strips_part(const oct_step *step, const oct_step *last, const void *workspace) {
  const oct_strips *c = last->strips;
  const double *seconds = workspace;
  double sum = 0, own = 0;
  for (int k = 0; k < c->n; k++) {
    sum += seconds[k];
    if (c->stages[k].step == step) own = seconds[k];
  }
  return sum > 0 ? own / sum : step == last;
}

const oct_step *oct_strips_stage(const oct_step *last, int k) { return k < last->strips->n ? last->strips->stages[k].step : NULL; }
