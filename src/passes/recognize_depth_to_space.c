/* reshape - transpose - reshape that moves parts of the channels into blocks of pixels becomes depth_to_space: one step, which reads images
 * as they are stored, in place of two that reorder everything.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "passes/rewrite.h"

/* The block's two dims in the first reshape's six, and the transpose that puts each behind its side of the image. */
typedef struct form {
  const char *mode;
  int block, depth; /* dims that hold the block's height (its width follows), and the remaining channels */
  int64_t perm[6];
} form;

static const form forms[] = {{"CRD", 2, 1, {0, 1, 4, 2, 5, 3}}, {"DCR", 1, 3, {0, 3, 4, 1, 5, 2}}};

static bool is_op(const oct_node *node, const char *name) { return node && strcmp(node->op->name, name) == 0 && node->n_inputs > 0; }

/* Same elements, same parameters: nothing is rounded on the way. */
static bool moves_only(const oct_value *a, const oct_value *b) { return a->dtype == b->dtype && oct_quant_equal(a->quant, b->quant); }

static bool same_dims(const int64_t *a, const int64_t *b, int n) {
  for (int i = 0; i < n; i++)
    if (a[i] != b[i] || a[i] < 1) return false;
  return true;
}

/* The block's side when the shapes x -> six -> y are those of the form; else 0. Batches are equal when all else is. */
static int64_t block_of(const form *f, const oct_shape *x, const oct_shape *six, const oct_shape *y) {
  if (x->rank != 4 || six->rank != 6 || y->rank != 4) return 0;
  int64_t side = six->dim[f->block], depth = six->dim[f->depth], channels, height, width;
  if (side < 1 || depth < 1 || six->dim[f->block + 1] != side || !same_dims(x->dim + 2, six->dim + 4, 2)) return 0;
  if (__builtin_mul_overflow(side * side, depth, &channels) || side > 65536 || channels != x->dim[1]) return 0;
  if (__builtin_mul_overflow(x->dim[2], side, &height) || __builtin_mul_overflow(x->dim[3], side, &width)) return 0;
  return same_dims((const int64_t[]){depth, height, width}, y->dim + 1, 3) ? side : 0;
}

/* x where `last` ends the pattern; else NULL. */
static oct_value *find(const oct_rewrite *rw, const oct_node *last, const form **form_found, int64_t *side) {
  if (!is_op(last, "reshape")) return NULL;
  const oct_value *moved = last->inputs[0];
  const oct_node *transpose = moved->producer;
  if (!is_op(transpose, "transpose") || oct_rewrite_only_user(rw, moved) != last) return NULL;
  const oct_value *six = transpose->inputs[0];
  const oct_node *first = six->producer;
  if (!is_op(first, "reshape") || oct_rewrite_only_user(rw, six) != transpose) return NULL;
  oct_value *x = first->inputs[0];
  const oct_value *y = last->outputs[0];
  if (!x->has_shape || !six->has_shape || !y->has_shape || !moves_only(x, six) || !moves_only(six, moved) || !moves_only(moved, y))
    return NULL;
  size_t count;
  const int64_t *perm = oct_node_ints(transpose, "perm", &count);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    if (count != 6 || memcmp(perm, forms[i].perm, sizeof forms[i].perm) != 0) continue;
    *form_found = &forms[i];
    *side = block_of(&forms[i], &x->shape, &six->shape, &y->shape);
    return *side ? x : NULL;
  }
  return NULL;
}

static octet_status run(octet_context *ctx, oct_graph *graph, bool *changed) {
  oct_rewrite rw;
  const oct_op *depth_to_space = oct_op_find("depth_to_space");
  OCT_TRY(oct_rewrite_begin(ctx, graph, &rw));
  octet_status status = OCTET_OK;
  for (size_t i = 0; depth_to_space && i < graph->n_nodes && status == OCTET_OK; i++) {
    oct_node *node = graph->nodes[i];
    const form *f;
    int64_t side;
    oct_value *x = find(&rw, node, &f, &side);
    if (!x) continue;
    node->op = depth_to_space;
    node->n_attributes = 0;
    status = oct_node_set_inputs(ctx, graph, node, &x, 1);
    if (status == OCTET_OK) status = oct_node_set_int(ctx, graph, node, "blocksize", side);
    if (status == OCTET_OK) status = oct_node_set_string(ctx, graph, node, "mode", f->mode);
    rw.changed = true;
  }
  return oct_rewrite_end(&rw, status, changed);
}

const oct_pass oct_pass_recognize_depth_to_space = {
    .name = "recognize_depth_to_space",
    .summary = "the reshapes and transpose that write out depth_to_space become it",
    .run = run,
};
