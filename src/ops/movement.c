/* Moving elements: strided block copies for the references, and the copy and fill steps of plans.
 * SPDX-License-Identifier: MIT */
#include "ops/movement.h"

oct_copy oct_copy_make(const oct_shape *shape, const int64_t in_stride[OCT_MAX_RANK], const int64_t out_stride[OCT_MAX_RANK]) {
  oct_copy copy = {.shape = *shape};
  for (int i = 0; i < shape->rank; i++) copy.in_stride[i] = in_stride[i], copy.out_stride[i] = out_stride[i];
  return copy;
}

static void copy_element(size_t size, const char *in, char *out) {
  switch (size) {
    case 1: *out = *in; break;
    case 2: memcpy(out, in, 2); break;
    case 4: memcpy(out, in, 4); break;
    default: memcpy(out, in, 8); break;
  }
}

void oct_copy_run(const oct_copy *copy, size_t size, const void *in, void *out) {
  int64_t index[OCT_MAX_RANK] = {0}, count = oct_shape_count(&copy->shape), from = copy->in_offset, to = copy->out_offset;
  for (int64_t i = 0; i < count; i++) {
    copy_element(size, (const char *)in + from * (int64_t)size, (char *)out + to * (int64_t)size);
    for (int d = copy->shape.rank - 1; d >= 0; d--) {
      from += copy->in_stride[d], to += copy->out_stride[d];
      if (++index[d] < copy->shape.dim[d]) break;
      from -= copy->in_stride[d] * copy->shape.dim[d], to -= copy->out_stride[d] * copy->shape.dim[d];
      index[d] = 0;
    }
  }
}

int oct_tensor_ints(const oct_tensor *tensor, int64_t *out, int max) {
  if (!tensor || (tensor->dtype != OCT_I64 && tensor->dtype != OCT_I32)) return -1;
  int64_t count = oct_shape_count(&tensor->shape);
  if (count < 0 || count > max) return -1;
  for (int64_t i = 0; i < count; i++) out[i] = oct_get_i64(tensor->data, tensor->dtype, i);
  return (int)count;
}

/* ---- Slots -------------------------------------------------------------------------------------------------- */

octet_status oct_requantize_table(oct_lowering *l, const oct_slot *from, const oct_slot *to, const uint8_t **table) {
  *table = NULL;
  if (from->dtype != OCT_U8 || to->dtype != OCT_U8 || !from->quantized || !to->quantized) return OCTET_OK;
  if (from->scale == to->scale && from->zero_point == to->zero_point) return OCTET_OK;
  uint8_t *map = oct_lower_memory(l, 256, 1);
  if (!map) return OCTET_OUT_OF_MEMORY;
  for (int q = 0; q < 256; q++)
    map[q] = (uint8_t)oct_quantize(oct_dequantize(q, from->scale, from->zero_point), to->scale, to->zero_point, 0, 255);
  *table = map;
  return OCTET_OK;
}

octet_status oct_movement_slots(oct_lowering *l, const oct_value *in, oct_value *out, oct_slot **in_slot, oct_slot **out_slot,
                                const uint8_t **table) {
  OCT_TRY(oct_lower_stored(l, in, in_slot));
  oct_dtype stored = (*in_slot)->dtype, wanted = oct_lower_dtype(l, out);
  oct_layout layout = oct_lower_layout(l, out);
  bool same = stored == wanted && (stored != OCT_U8 || (*in_slot)->quantized == (out->dtype == OCT_F32));
  if (!same) {
    OCT_TRY(oct_lower_input(l, in, in->dtype, (*in_slot)->layout, NULL, in_slot));
    wanted = out->dtype;
  }
  OCT_TRY(oct_lower_output(l, out, wanted, layout, out_slot));
  return oct_requantize_table(l, *in_slot, *out_slot, table);
}

octet_status oct_movement_plain(oct_lowering *l, const oct_value *in, oct_value *out, oct_slot **in_slot, oct_slot **out_slot,
                                const uint8_t **table) {
  OCT_TRY(oct_lower_stored(l, in, in_slot));
  oct_dtype stored = (*in_slot)->dtype, wanted = oct_lower_dtype(l, out);
  bool same = stored == wanted && (stored != OCT_U8 || (*in_slot)->quantized == (out->dtype == OCT_F32));
  if (!same) stored = in->dtype, wanted = out->dtype;
  OCT_TRY(oct_lower_input(l, in, stored, OCT_LAYOUT_PLAIN, NULL, in_slot));
  OCT_TRY(oct_lower_output(l, out, wanted, OCT_LAYOUT_PLAIN, out_slot));
  return oct_requantize_table(l, *in_slot, *out_slot, table);
}

/* ---- The copy step ------------------------------------------------------------------------------------------- */

typedef struct copy_step {
  oct_loops loops; /* operand 0 output, 1 input */
  const char *in;
  char *out;
  int64_t in_offset, out_offset; /* bytes */
  size_t size;
  const uint8_t *table;
  const oct_vector_kernels *vector;
  int across; /* loop along which the input is contiguous while the inner run is not; -1: none */
} copy_step;

#define STRIDED_RUN(type)                                                        \
  do {                                                                           \
    type *y_ = (type *)(void *)out;                                              \
    const type *x_ = (const type *)(const void *)in;                             \
    for (int64_t i_ = 0; i_ < n; i_++) y_[i_ * out_stride] = x_[i_ * in_stride]; \
  } while (0)

static void copy_run(const copy_step *s, int64_t n, const char *in, int64_t in_stride, char *out, int64_t out_stride) {
  if (in_stride == 1 && out_stride == 1) {
    if (s->table) s->vector->table_u8((size_t)n, (const uint8_t *)in, (uint8_t *)out, s->table);
    else memcpy(out, in, (size_t)n * s->size);
    return;
  }
  if (s->table) {
    for (int64_t i = 0; i < n; i++) ((uint8_t *)out)[i * out_stride] = s->table[((const uint8_t *)in)[i * in_stride]];
    return;
  }
  switch (s->size) {
    case 1: STRIDED_RUN(uint8_t); break;
    case 2: STRIDED_RUN(uint16_t); break;
    case 4: STRIDED_RUN(uint32_t); break;
    default: STRIDED_RUN(uint64_t); break;
  }
}

/* `rows` runs of `bytes` each; the steps from one to the next are in bytes. Short runs of known length are single moves; where an odd
 * length is filled up to the next power of two, the next run overwrites what was too much. */
static void copy_rows(size_t bytes, size_t rows, const char *in, ptrdiff_t in_step, char *out, ptrdiff_t out_step) {
#define ROWS_OF(length, moved)                                                        \
  case length:                                                                        \
    if (out_step == length && in_step >= moved)                                       \
      for (; rows > 1; rows--, in += in_step, out += length) memcpy(out, in, moved);  \
    for (; rows > 0; rows--, in += in_step, out += out_step) memcpy(out, in, length); \
    return;
  switch (bytes) {
    ROWS_OF(1, 1)
    ROWS_OF(2, 2)
    ROWS_OF(3, 4)
    ROWS_OF(4, 4)
    ROWS_OF(6, 8)
    ROWS_OF(8, 8)
    ROWS_OF(12, 16)
    ROWS_OF(16, 16)
    ROWS_OF(24, 24)
    ROWS_OF(32, 32)
    ROWS_OF(36, 36)
    ROWS_OF(48, 48)
    ROWS_OF(64, 64)
    default: break;
  }
#undef ROWS_OF
  for (; rows > 0; rows--, in += in_step, out += out_step) memcpy(out, in, bytes);
}

#define TABLE_BLOCK 2048

/* Short runs that follow one another in the input go through the table together. */
static void table_rows(const copy_step *s, size_t n, size_t rows, const char *in, char *out, ptrdiff_t out_step) {
  uint8_t block[TABLE_BLOCK];
  size_t most = TABLE_BLOCK / n;
  for (size_t r = 0; r < rows; r += most) {
    size_t some = rows - r < most ? rows - r : most;
    s->vector->table_u8(some * n, (const uint8_t *)in + r * n, block, s->table);
    copy_rows(n, some, (const char *)block, (ptrdiff_t)n, out + (ptrdiff_t)r * out_step, out_step);
  }
}

/* Rows from `row` on that lie along the loop around the inner one, before `end`. */
static size_t rows_along(const oct_loops *loops, size_t row, size_t end) {
  if (loops->rank < 2) return 1;
  size_t count = (size_t)loops->count[loops->rank - 2], left = count - row % count;
  return left < end - row ? left : end - row;
}

static octet_status run_copy(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const copy_step *s = params;
  int inner = s->loops.rank - 1, around = inner > 0 ? inner - 1 : 0;
  int64_t size = (int64_t)s->size, n = s->loops.count[inner], in_stride = s->loops.stride[1][inner], out_stride = s->loops.stride[0][inner];
  int64_t in_step = s->loops.stride[1][around] * size, out_step = s->loops.stride[0][around] * size;
  bool dense = in_stride == 1 && out_stride == 1 && !s->table;
  bool together = s->table && in_stride == 1 && out_stride == 1 && inner > 0 && in_step == n && n <= TABLE_BLOCK / 8;
  for (size_t row = begin, rows; row < end; row += rows) {
    int64_t offset[4];
    rows = rows_along(&s->loops, row, end);
    oct_loops_row(&s->loops, row, 2, offset);
    const char *in = s->in + s->in_offset + offset[1] * size;
    char *out = s->out + s->out_offset + offset[0] * size;
    if (dense) copy_rows((size_t)(n * size), rows, in, in_step, out, out_step);
    else if (together) table_rows(s, (size_t)n, rows, in, out, out_step);
    for (size_t r = 0; !dense && !together && r < rows; r++, in += in_step, out += out_step) copy_run(s, n, in, in_stride, out, out_stride);
  }
  return OCTET_OK;
}

/* ---- Transposing in blocks: a unit is one pair (outer index, block of the loop `across`) ----------------------- */

#define BLOCK 32

static size_t block_units(const copy_step *s) {
  size_t units = (size_t)((s->loops.count[s->across] + BLOCK - 1) / BLOCK);
  for (int d = 0; d < s->loops.rank - 1; d++)
    if (d != s->across) units *= (size_t)s->loops.count[d];
  return units;
}

#define BLOCK_LOOPS(type)                                                               \
  for (int64_t j_ = 0; j_ < n; j_ += BLOCK) {                                           \
    int64_t last_ = j_ + BLOCK < n ? j_ + BLOCK : n;                                    \
    for (int64_t i_ = 0; i_ < rows; i_++) {                                             \
      type *y_ = (type *)(void *)out + i_ * out_row;                                    \
      const type *x_ = (const type *)(const void *)in + i_;                             \
      for (int64_t k_ = j_; k_ < last_; k_++) y_[k_ * out_stride] = x_[k_ * in_stride]; \
    }                                                                                   \
  }

static void transpose_block(const copy_step *s, int64_t rows, const char *in, char *out) {
  int inner = s->loops.rank - 1;
  int64_t n = s->loops.count[inner], in_stride = s->loops.stride[1][inner], out_stride = s->loops.stride[0][inner],
          out_row = s->loops.stride[0][s->across];
  if (out_stride == 1 && !s->table && s->size == 4) {
    s->vector->transpose_u32((size_t)n, (size_t)rows, (const uint32_t *)(const void *)in, in_stride, (uint32_t *)(void *)out, out_row);
    return;
  }
  if (out_stride == 1 && !s->table && s->size == 1) {
    s->vector->transpose_u8((size_t)n, (size_t)rows, (const uint8_t *)in, in_stride, (uint8_t *)out, out_row);
    return;
  }
  switch (s->size) {
    case 1:
      if (s->table) {
        for (int64_t i = 0; i < rows; i++)
          for (int64_t k = 0; k < n; k++)
            ((uint8_t *)out)[i * out_row + k * out_stride] = s->table[((const uint8_t *)in)[i + k * in_stride]];
      } else {
        BLOCK_LOOPS(uint8_t)
      }
      break;
    case 2: BLOCK_LOOPS(uint16_t) break;
    case 4: BLOCK_LOOPS(uint32_t) break;
    default: BLOCK_LOOPS(uint64_t) break;
  }
}

static octet_status run_transpose(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const copy_step *s = params;
  int64_t along = s->loops.count[s->across];
  size_t blocks = (size_t)((along + BLOCK - 1) / BLOCK);
  for (size_t unit = begin; unit < end; unit++) {
    int64_t first = (int64_t)(unit % blocks) * BLOCK, rows = along - first < BLOCK ? along - first : BLOCK;
    int64_t from = first * s->loops.stride[1][s->across], to = first * s->loops.stride[0][s->across];
    size_t rest = unit / blocks;
    for (int d = s->loops.rank - 2; d >= 0; d--) {
      if (d == s->across) continue;
      int64_t index = (int64_t)(rest % (size_t)s->loops.count[d]);
      rest /= (size_t)s->loops.count[d];
      from += index * s->loops.stride[1][d], to += index * s->loops.stride[0][d];
    }
    transpose_block(s, rows, s->in + s->in_offset + from * (int64_t)s->size, s->out + s->out_offset + to * (int64_t)s->size);
  }
  return OCTET_OK;
}

static int contiguous_across(const oct_loops *loops) {
  int inner = loops->rank - 1;
  if (loops->stride[1][inner] == 1 || loops->stride[1][inner] == 0 || loops->count[inner] < 2) return -1;
  for (int d = 0; d < inner; d++)
    if (loops->stride[1][d] == 1 && loops->count[d] >= 4) return d;
  return -1;
}

octet_status oct_movement_step(oct_lowering *l, const oct_node *node, const oct_copy *copy, oct_slot *in, oct_slot *out,
                               const uint8_t *table) {
  if (oct_shape_count(&copy->shape) == 0) return OCTET_OK;
  copy_step *s;
  oct_step *step;
  OCT_TRY(oct_lower_step(l, node, "copy", run_copy, sizeof *s, &s, &step));
  int64_t strides[4][OCT_MAX_RANK] = {{0}};
  memcpy(strides[0], copy->out_stride, sizeof copy->out_stride);
  memcpy(strides[1], copy->in_stride, sizeof copy->in_stride);
  oct_loops_make(&s->loops, 2, &copy->shape, strides);
  s->size = oct_dtype_size(out->dtype);
  s->in_offset = copy->in_offset * (int64_t)s->size, s->out_offset = copy->out_offset * (int64_t)s->size;
  s->table = table;
  s->vector = l->vector;
  s->across = contiguous_across(&s->loops);
  size_t run_bytes = (size_t)s->loops.count[s->loops.rank - 1] * s->size;
  step->units = oct_loops_rows(&s->loops);
  if (s->across >= 0) {
    step->kernel = "transpose";
    step->run = run_transpose;
    step->units = block_units(s);
    run_bytes *= BLOCK;
  }
  step->grain = 1 + 16384 / (run_bytes + 1);
  OCT_TRY(oct_lower_read(l, step, &s->in, in));
  return oct_lower_write(l, step, &s->out, out);
}

/* ---- The fill step -------------------------------------------------------------------------------------------- */

typedef struct fill_step {
  oct_loops loops;
  char *out;
  int64_t offset; /* bytes */
  size_t size;
  uint64_t bits;
} fill_step;

#define FILL_RUN(type)                                                  \
  do {                                                                  \
    type *y_ = (type *)(void *)out;                                     \
    for (int64_t i_ = 0; i_ < n; i_++) y_[i_ * stride] = (type)s->bits; \
  } while (0)

static octet_status run_fill(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const fill_step *s = params;
  int inner = s->loops.rank - 1;
  int64_t n = s->loops.count[inner], stride = s->loops.stride[0][inner];
  bool bytes = stride == 1 && (s->size == 1 || s->bits == 0);
  oct_loops_cursor at;
  oct_loops_start(&s->loops, begin, 1, &at);
  for (size_t row = begin; row < end; row++, oct_loops_next(&s->loops, 1, &at)) {
    char *out = s->out + s->offset + at.offset[0] * (int64_t)s->size;
    if (bytes) {
      memset(out, (int)(s->bits & 255), (size_t)n * s->size);
      continue;
    }
    switch (s->size) {
      case 1: FILL_RUN(uint8_t); break;
      case 2: FILL_RUN(uint16_t); break;
      case 4: FILL_RUN(uint32_t); break;
      default: FILL_RUN(uint64_t); break;
    }
  }
  return OCTET_OK;
}

octet_status oct_movement_fill(oct_lowering *l, const oct_node *node, const oct_copy *block, uint64_t bits, oct_slot *out) {
  if (oct_shape_count(&block->shape) == 0) return OCTET_OK;
  fill_step *s;
  oct_step *step;
  OCT_TRY(oct_lower_step(l, node, "fill", run_fill, sizeof *s, &s, &step));
  int64_t strides[4][OCT_MAX_RANK] = {{0}};
  memcpy(strides[0], block->out_stride, sizeof block->out_stride);
  oct_loops_make(&s->loops, 1, &block->shape, strides);
  s->size = oct_dtype_size(out->dtype);
  s->offset = block->out_offset * (int64_t)s->size;
  s->bits = bits;
  step->units = oct_loops_rows(&s->loops);
  step->grain = 1 + 16384 / ((size_t)s->loops.count[s->loops.rank - 1] * s->size + 1);
  return oct_lower_write(l, step, &s->out, out);
}

/* ---- Views ----------------------------------------------------------------------------------------------------- */

octet_status oct_lower_view(oct_lowering *l, oct_node *node) {
  const oct_value *x = node->inputs[0];
  oct_value *y = node->outputs[0];
  if (oct_quant_equal(x->quant, y->quant)) {
    oct_slot *slot;
    OCT_TRY(oct_lower_input(l, x, OCT_DTYPE_NONE, OCT_LAYOUT_PLAIN, NULL, &slot));
    return oct_lower_alias(l, y, slot);
  }
  oct_slot *in, *out;
  const uint8_t *table;
  OCT_TRY(oct_movement_plain(l, x, y, &in, &out, &table));
  oct_shape flat = oct_shape_of(1, oct_shape_count(&y->shape));
  oct_copy copy = {.shape = flat, .in_stride = {1}, .out_stride = {1}};
  return oct_movement_step(l, node, &copy, in, out, table);
}

octet_status oct_reference_view(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  if (in[0]->bytes != out[0]->bytes)
    return oct_fail(ctx, OCTET_SHAPE, "node '%s': %zu bytes do not fill an output of %zu bytes", node->name, in[0]->bytes, out[0]->bytes);
  if (out[0]->bytes) memcpy(out[0]->data, in[0]->data, out[0]->bytes);
  return OCTET_OK;
}
