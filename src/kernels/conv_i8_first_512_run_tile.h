/* The loop over tiles of first-layer convolution for AVX-512 VNNI, and the parts of its rows. Of WIDTH, by_rows and bytes_by_kind, which are
 * defined before this is included.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_FIRST_512_RUN_TILE_H
#define OCT_KERNELS_CONV_I8_FIRST_512_RUN_TILE_H

typedef struct panel {
  int64_t channel;
  int channels;
  const int8_t *weights;
  int32_t bias[WIDTH] __attribute__((aligned(64))); /* as lanes are ordered; where sums start */
  finish finish;
} panel;

/* Of a panel whose weights and bias are set. Rounded floats are quick if positive. */
static void finish_of(const oct_conv_i8_args *a, panel *p) {
  const oct_epilogue_i8 *e = &a->epilogue;
  finish *f = &p->finish;
  const bool positive = oct_positive_possible(a, p->channel, p->channels);
  const float *floats = oct_positive_floats(e, p->channel);
  f->quick = positive || (e->out == OCT_EPILOGUE_U8 && e->profile == OCT_PROFILE_ONNX && !a->residual.data && !e->table);
  if (!f->quick) return;
  float multiplier[WIDTH] __attribute__((aligned(64))) = {0}, offset[WIDTH] __attribute__((aligned(64))) = {0};
  __m512i bias[VECTORS];
  for (int i = 0; i < p->channels; i++) multiplier[oct_first_lane(WIDTH, i)] = e->multiplier[p->channel + i];
  for (int i = 0; i < p->channels && floats; i++) offset[oct_first_lane(WIDTH, i)] = floats[i];
  memcpy(f->multiplier, multiplier, sizeof multiplier);
  memcpy(f->offset, offset, sizeof offset);
  memcpy(bias, p->bias, sizeof bias);
  f->quantize = oct_quantize512_of(e);
  f->kind = (finish_kind)oct_finish512_of(e, oct_largest512(e->multiplier + p->channel, p->channels), false);
  const int64_t dots = oct_first_panel_bytes(&a->shape, WIDTH) / (4 * WIDTH);
  if (positive && oct_positive_set_all(VECTORS, p->weights, dots, bias, f->multiplier, f->offset)) f->kind = POSITIVE;
  f->quick = f->kind == POSITIVE || e->out == OCT_EPILOGUE_U8;
  if (!f->quick) return;
  memcpy(p->bias, bias, sizeof bias);
  f->mask = p->channels == 64 ? ~(__mmask64)0 : ((__mmask64)1 << p->channels) - 1;
  f->dense = p->channels == WIDTH && (VECTORS == 4 || a->out.pixel == WIDTH);
  f->bytes = bytes_by_kind[f->kind];
}

static inline __attribute__((always_inline)) __m512i finish_acc(const int32_t *acc, const finish *f, finish_kind kind) {
  return finish_64(_mm512_load_si512(acc), _mm512_load_si512(acc + 16), _mm512_load_si512(acc + 32), _mm512_load_si512(acc + 48), f, kind);
}

/* acc holds whole vectors of pixels past the last one, whose values do not
 * matter. */
static inline __attribute__((always_inline)) void finish_as(const int32_t *acc, int count, char *out, ptrdiff_t step, const finish *f,
                                                            finish_kind kind) {
  for (int r = 0; r < count; r += 4 / VECTORS) finish_store(out + r * step, step, finish_acc(acc + r * WIDTH, f, kind), count - r, f);
}

static void finish_tile(const int32_t *acc, int count, char *out, ptrdiff_t step, const finish *f) {
  switch (f->kind) {
    case POSITIVE: finish_as(acc, count, out, step, f, POSITIVE); return;
    case PLAIN: finish_as(acc, count, out, step, f, PLAIN); return;
    case SATURATE: finish_as(acc, count, out, step, f, SATURATE); return;
    case CLAMP: finish_as(acc, count, out, step, f, CLAMP); return;
  }
}

/* Any epilogue: `count` pixels from x on of an output row. */
static void finish_any(const oct_conv_i8_args *a, int32_t *acc, int count, int64_t row, int64_t x, int64_t channel, int channels) {
  size_t element = oct_epilogue_element(&a->epilogue);
  int64_t n = oct_quotient(row, a->shape.out_h), y = row - n * a->shape.out_h;
  oct_direct_rows rows = {.pixel = row * a->shape.out_w + x, .count = count};
  for (int r = 0; r < count; r++) {
    rows.out[r] = (char *)oct_view_at(&a->out, element, n, y, x + r) + (size_t)channel * element;
    if (a->residual.data) rows.residual[r] = (const char *)oct_view_at(&a->residual, element, n, y, x + r) + (size_t)channel * element;
  }
  for (int r = 0; VECTORS == 4 && r < count; r++) {
    int32_t *p = acc + r * WIDTH;
    oct_quarters_store_acc(
        p, (oct_quarters){_mm512_load_si512(p), _mm512_load_si512(p + 16), _mm512_load_si512(p + 32), _mm512_load_si512(p + 48)});
  }
  oct_epilogue_i8_avx512(a, &rows, channel, channels, acc, WIDTH);
}

/* What runs share: where steps begin in a pixel and which moves gather the
 * rest. */
typedef struct walk {
  oct_first_plan plan;
  ptrdiff_t row, offsets[OCT_FIRST_STEPS]; /* between kernel rows */
  const oct_first_move *moves;             /* NULL: input pixels do not lie side by side and are copied */
  __mmask64 odd;                           /* gathered bytes of odd kernel rows */
} walk;

static void walk_of(const oct_conv_i8_args *a, walk *w) {
  const oct_conv_shape *s = &a->shape;
  const bool dense = s->kernel_w == 1 || a->in.pixel == s->channels;
  w->plan = oct_first_plan_of(s);
  w->moves = dense ? (const oct_first_move *)a->packed : NULL;
  w->row = dense ? s->dilation_h * a->in.row : oct_first_copy_row(&w->plan);
  w->odd = 0;
  for (int i = 0; i < s->kernel_h; i++) {
    for (int k = 0; k < w->plan.whole; k++) w->offsets[i * w->plan.whole + k] = i * w->row + 4 * k;
    for (int k = 0; i % 2 && k < w->plan.rest; k++) w->odd |= UINT64_C(0x0101010101010101) << (i * w->plan.rest + k);
  }
}

#define STRIP 96 /* most pixels whose bytes are gathered at once */

/* An output row. */
typedef struct row {
  int64_t index; /* over all images */
  int height;    /* pixels of a tile */
  const uint8_t *in;
  char *out; /* the panel's first channel, where outputs are bytes */
} row;

/* left[pixel] for 8 pixels at a time, perhaps some more than `count`. */
static void gather(const walk *w, const uint8_t *in, ptrdiff_t step, int count, uint64_t *left) {
  for (int r = 0; r < count; r += 8, in += 8 * step) {
    __m512i even = _mm512_setzero_si512(), odd = even;
    for (const oct_first_move *m = w->moves, *end = m + w->plan.moves; m < end; m++) {
      __m512i x = _mm512_loadu_si512(in + m->row * w->row + m->offset), source = _mm512_loadu_si512(m->source);
      if (m->row % 2) odd = _mm512_mask_permutexvar_epi16(odd, m->mask, source, x);
      else even = _mm512_mask_permutexvar_epi16(even, m->mask, source, x);
    }
    _mm512_store_si512(left + r, _mm512_mask_blend_epi8(w->odd, even, odd));
  }
}

/* The same for pixels one byte apart: there a byte of 8 pixels is a run of 8 bytes. */
static void gather_runs(const walk *w, const uint8_t *in, int count, uint64_t *left) {
  const ptrdiff_t first = 4 * w->plan.whole, rows = w->plan.moves / 2;
  for (int r = 0; r < count; r += 8, in += 8) {
    __m512i words = _mm512_setzero_si512(), shift = words;
    for (ptrdiff_t i = 0; i < rows; i++)
      for (ptrdiff_t k = first; k < w->plan.segment; k++, shift = _mm512_add_epi64(shift, _mm512_set1_epi64(8))) {
        __m512i x = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(const void *)(in + i * w->row + k)));
        words = _mm512_or_si512(words, _mm512_sllv_epi64(x, shift));
      }
    _mm512_store_si512(left + r, words);
  }
}

/* The tiles of `count` pixels from x on of an output row: left[pixel] has their gathered bytes. */
static void run_tiles(const oct_conv_i8_args *a, const walk *w, const panel *p, const row *row, int64_t x, int count,
                      const uint64_t *left) {
  static const ptrdiff_t gathers[] = {0, 4};
  const ptrdiff_t in_step = a->shape.stride_w * a->in.pixel;
  int32_t acc[(ROWS + 3) * WIDTH] __attribute__((aligned(64))) = {0};
  uint8_t copy[OCT_FIRST_COPY];
  oct_first_part parts[2] = {{.step = w->moves ? in_step : w->row * a->shape.kernel_h, .offsets = w->offsets, .count = w->plan.steps},
                             {.step = 8, .offsets = gathers, .count = w->plan.gathered}};
  for (int at = 0, take; at < count; at += take) {
    uint64_t words[ROWS];
    take = (int)oct_min_i64(row->height, count - at);
    parts[0].in = row->in + (x + at) * in_step;
    parts[1].in = (const uint8_t *)(left + at);
    if (!w->moves) {
      oct_first_copy(a, parts[0].in, in_step, take, w->row, copy);
      oct_first_gather_copy(&w->plan, a->shape.kernel_h, copy, take, w->row, words);
      parts[0].in = copy, parts[1].in = (const uint8_t *)words;
    }
    char *out = row->out + (x + at) * a->out.pixel;
    if (p->finish.bytes && take == ROWS) {
      const int tiles = w->moves ? (int)oct_quotient(count - at, ROWS) : 1;
      p->finish.bytes(parts, tiles, p->weights, p->bias, &p->finish, out, a->out.pixel);
      take = tiles * ROWS;
      continue;
    }
    by_rows[take](parts, p->weights, p->bias, acc);
    if (p->finish.quick) finish_tile(acc, take, out, a->out.pixel, &p->finish);
    else finish_any(a, acc, take, row->index, x + at, p->channel, p->channels);
  }
}

/* One panel of the output row `index` (over all images). Tiles have equal heights, as far as possible, and fill whole vectors of bytes; the
 * bytes of some tiles are gathered at once, so that no tile waits for its own. */
static void run_row(const oct_conv_i8_args *a, const walk *w, const panel *p, int64_t index) {
  const oct_conv_shape *s = &a->shape;
  const int64_t n = oct_quotient(index, s->out_h), y = index - n * s->out_h, tiles = oct_quotient(s->out_w + ROWS - 1, ROWS);
  const int even = (int)oct_quotient(s->out_w + tiles - 1, tiles) + 4 / VECTORS - 1;
  const row row = {.index = index,
                   .height = even - even % (4 / VECTORS),
                   .in = (const uint8_t *)oct_view_at(&a->in, 1, n, y * s->stride_h - s->pad_top, -s->pad_left),
                   .out = (char *)oct_view_at(&a->out, 1, n, y, 0) + p->channel};
  const ptrdiff_t step = s->stride_w * a->in.pixel;
  const int strip = STRIP / row.height * row.height;
  uint64_t left[(STRIP + 7) / 8 * 8] __attribute__((aligned(64)));
  for (int64_t x = 0; x < s->out_w; x += strip) {
    int count = (int)oct_min_i64(strip, s->out_w - x);
    if (w->moves && w->plan.gathered) {
      if (step == 1) gather_runs(w, row.in + x, count, left);
      else gather(w, row.in + x * step, step, count, left);
    }
    run_tiles(a, w, p, &row, x, count, left);
  }
}

static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  const oct_conv_shape *s = &a->shape;
  walk w;
  walk_of(a, &w);
  for (int64_t channel = 0; channel < s->out_channels; channel += WIDTH) {
    panel p = {.channel = channel, .channels = (int)oct_min_i64(WIDTH, s->out_channels - channel)};
    p.weights = (const int8_t *)a->packed + oct_first_moves_bytes(s) + channel / WIDTH * oct_first_panel_bytes(s, WIDTH);
    for (int i = 0; i < p.channels && a->epilogue.bias; i++) p.bias[oct_first_lane(WIDTH, i)] = a->epilogue.bias[channel + i];
    finish_of(a, &p);
    for (size_t unit = begin; unit < end; unit++) run_row(a, &w, &p, (int64_t)unit);
  }
}

static size_t packed_bytes(const oct_conv_shape *s) { return oct_first_packed_bytes(s, WIDTH); }
static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) { oct_first_pack(s, WIDTH, weights, packed); }

#endif
