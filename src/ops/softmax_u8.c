/* softmax and log_softmax on 8-bit values: the rounded result of the reference on the dequantized input, bit for bit. Blocks of rows go
 * through the float kernel first; only rows whose result lies too near to a tie are done as the reference does them.
 * SPDX-License-Identifier: MIT */
#include "ops/math.h"
#include "ops/softmax.h"

typedef struct softmax_params {
  const uint8_t *x;
  uint8_t *y;
  oct_softmax_view view;
  bool logarithm;
  const oct_vector_kernels *vector;
  float in_scale, scale;
  int32_t in_zero_point, zero_point;
  float dequantized[256];
  size_t block; /* rows that are done together */
} softmax_params;

/* One row as the reference has it; elements are x_step and y_step apart, `e` has room for n. */
static void exact_row(const softmax_params *p, const uint8_t *x, int64_t x_step, uint8_t *y, int64_t y_step, double *e) {
  int64_t n = p->view.n;
  uint8_t top = 0;
  double sum = 0;
  for (int64_t i = 0; i < n; i++) top = x[i * x_step] > top ? x[i * x_step] : top;
  for (int64_t i = 0; i < n; i++) sum += e[i] = oct_exp((double)p->dequantized[x[i * x_step]] - (double)p->dequantized[top]);
  double log_sum = p->logarithm ? oct_log(sum) : 0;
  for (int64_t i = 0; i < n; i++) {
    double result = p->logarithm ? ((double)p->dequantized[x[i * x_step]] - (double)p->dequantized[top]) - log_sum : e[i] / sum;
    y[i * y_step] = (uint8_t)oct_quantize((float)result, p->scale, p->zero_point, 0, 255);
  }
}

static int64_t place_of(const oct_softmax_view *v, size_t row) {
  return (int64_t)row / v->inner * v->n * v->inner + (int64_t)row % v->inner;
}

static octet_status run_exact(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx;
  const softmax_params *p = params;
  for (size_t row = begin; row < end; row++) {
    int64_t at = place_of(&p->view, row);
    exact_row(p, p->x + at, p->view.inner, p->y + at, p->view.inner, workspace);
  }
  return OCTET_OK;
}

/* ---- Blocks ---------------------------------------------------------------------------------------------------------- */

/* The float kernel's result lies between the factors 1 - margin and 1 + margin of the exact one: where both, quantized, give the same byte
 * it is the exact result's. Margin: 3e-7 for exp, twice; 6e-8 times the difference to the maximum for that difference's rounding, which is
 * below 15 for a result that is not rounded to 0 (scales of LEAST_SCALE and more); 9e-8 for each term of the sum; four more roundings. */
#define LEAST_SCALE 1e-6f
#define BLOCK 1024 /* elements */

static float margin_of(int64_t n) { return 4e-6f + 1.2e-7f * (float)n; }

/* What a worker needs: an exact row, a block of floats twice, and its two quantizations. */
typedef struct room {
  double *row;
  float *real, *moved;
  uint8_t *low, *high;
} room;

static room room_in(const softmax_params *p, void *workspace) {
  size_t n = (size_t)p->view.n, count = p->block * n;
  float *real = (float *)(void *)((double *)workspace + n);
  uint8_t *low = (uint8_t *)(real + 2 * count);
  return (room){.row = workspace, .real = real, .moved = real + count, .low = low, .high = low + count};
}

static size_t room_bytes(size_t block, size_t n) { return n * sizeof(double) + block * n * (2 * sizeof(float) + 2); }

static void quantize_moved(const softmax_params *p, const room *r, size_t count, float factor, uint8_t *to) {
  p->vector->scale_f32(count, r->real, r->moved, factor, 0);
  p->vector->quantize_f32_u8(count, r->moved, to, p->scale, p->zero_point);
}

/* Rows that lie side by side: as [rows][n] where the axis is the last one, else as [n][rows]. */
static void run_block(const softmax_params *p, const room *r, const uint8_t *x, uint8_t *y, size_t rows) {
  size_t n = (size_t)p->view.n, inner = (size_t)p->view.inner, count = rows * n;
  bool last = inner == 1;
  size_t pieces = last ? 1 : n, piece = count / pieces, step = last ? 1 : rows;
  for (size_t k = 0; k < pieces; k++)
    p->vector->dequantize_u8_f32(piece, x + k * inner, r->real + k * piece, p->in_scale, p->in_zero_point);
  if (last) p->vector->math->softmax_rows_f32(rows, n, r->real, r->real);
  else p->vector->math->softmax_columns_f32(rows, n, r->real, r->real, rows);
  float margin = margin_of(p->view.n);
  quantize_moved(p, r, count, 1 - margin, r->low);
  quantize_moved(p, r, count, 1 + margin, r->high);
  for (size_t row = 0; row < rows && memcmp(r->low, r->high, count) != 0; row++) {
    size_t first = last ? row * n : row;
    bool same = true;
    for (size_t i = 0; i < n; i++) same = same && r->low[first + i * step] == r->high[first + i * step];
    if (!same) exact_row(p, x + first, (int64_t)inner, r->high + first, (int64_t)step, r->row);
    for (size_t i = 0; i < n && !same; i++) r->low[first + i * step] = r->high[first + i * step];
  }
  for (size_t k = 0; k < pieces; k++) memcpy(y + k * inner, r->high + k * piece, piece);
}

static octet_status run_blocks(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx;
  const softmax_params *p = params;
  const room r = room_in(p, workspace);
  for (size_t row = begin, rows; row < end; row += rows) {
    size_t inner = (size_t)p->view.inner, left = inner == 1 ? end - row : inner - row % inner;
    rows = left < end - row ? left : end - row;
    rows = rows < p->block ? rows : p->block;
    int64_t at = place_of(&p->view, row);
    run_block(p, &r, p->x + at, p->y + at, rows);
  }
  return OCTET_OK;
}

octet_status oct_softmax_u8_lower(oct_lowering *l, oct_node *node, oct_softmax_view view, bool logarithm) {
  oct_slot *in, *out;
  softmax_params *p;
  oct_step *step;
  OCT_TRY(oct_lower_input(l, node->inputs[0], OCT_U8, OCT_LAYOUT_PLAIN, NULL, &in));
  OCT_TRY(oct_lower_output(l, node->outputs[0], OCT_U8, OCT_LAYOUT_PLAIN, &out));
  bool blocks = !logarithm && out->scale >= LEAST_SCALE;
  OCT_TRY(oct_lower_step(l, node, "softmax_u8", blocks ? run_blocks : run_exact, sizeof *p, &p, &step));
  step->in_place = true;
  oct_softmax_units(step, &view);
  *p = (softmax_params){.view = view, .logarithm = logarithm, .vector = l->vector, .in_scale = in->scale, .scale = out->scale};
  p->in_zero_point = in->zero_point, p->zero_point = out->zero_point;
  for (int32_t q = 0; q < 256; q++) p->dequantized[q] = oct_dequantize(q, in->scale, in->zero_point);
  p->block = view.n > 0 && view.n < BLOCK ? (size_t)(BLOCK / view.n) : 1;
  step->workspace_bytes = blocks ? room_bytes(p->block, (size_t)view.n) : (size_t)view.n * sizeof(double);
  OCT_TRY(oct_lower_read(l, step, &p->x, in));
  return oct_lower_write(l, step, &p->y, out);
}
