/* Fusion analysis: see fuse.h.
 * SPDX-License-Identifier: MIT */
#include "exec/fuse.h"

#include <math.h>
#include <string.h>

#include "ops/movement.h"

unsigned oct_fuse_kind_parse(const char *name) {
  static const struct {
    const char *name;
    unsigned kind;
  } kinds[] = {{"residual", OCT_FUSE_RESIDUAL},   {"activation", OCT_FUSE_ACTIVATION}, {"table", OCT_FUSE_TABLE},   {"bias", OCT_FUSE_BIAS},
               {"transpose", OCT_FUSE_TRANSPOSE}, {"attention", OCT_FUSE_ATTENTION},   {"strips", OCT_FUSE_STRIPS}, {"all", OCT_FUSE_ALL}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i].name, name) == 0) return kinds[i].kind;
  return 0;
}

typedef struct fuser {
  const oct_uses *uses;
  oct_fusion_map *map;
  unsigned kinds;
} fuser;

static bool broadcasts_rows(const oct_shape *from, const oct_shape *to) {
  oct_shape both;
  return from->rank > 0 && from->dim[from->rank - 1] == to->dim[to->rank - 1] && oct_shape_broadcast(from, to, &both) &&
         oct_shape_equal(&both, to);
}

/* The other operand when `user` adds it to `value` and it has the same shape, or whole rows of it (`rows`: a mask of scores); NULL otherwise. */
static const oct_value *residual_of(const oct_node *user, const oct_value *value, bool rows) {
  if (!oct_node_has(user, OCT_TRAIT_ADD) || user->n_inputs != 2) return NULL;
  const oct_value *other = user->inputs[user->inputs[0] == value];
  if (other == value || other->kind == OCT_CONSTANT || !other->has_shape || !value->has_shape) return NULL;
  bool fits = rows ? broadcasts_rows(&other->shape, &value->shape) : oct_shape_equal(&other->shape, &value->shape);
  return fits && oct_shape_equal(&user->outputs[0]->shape, &value->shape) ? other : NULL;
}

/* A constant per output channel that `user` adds to what a node without bias and with constant weights makes of floats; else NULL. (After 8-bit
 * inputs a bias is rounded to the accumulator's units: there the sum stays a step of its own.) */
static const oct_value *bias_of(const oct_node *root, const oct_node *user, const oct_value *value) {
  if (!oct_node_has(user, OCT_TRAIT_ADD) || user->n_inputs != 2 || value != root->outputs[0] || !value->has_shape) return NULL;
  const oct_value *bias = user->inputs[user->inputs[0] == value];
  if (!oct_constant_of(bias) || bias->quant || bias->tensor->dtype != OCT_F32 || !oct_shape_equal(&user->outputs[0]->shape, &value->shape))
    return NULL;
  if (root->n_inputs < 2 || !oct_constant_of(root->inputs[1]) || (root->n_inputs > 2 && root->inputs[2]) || root->inputs[0]->quant)
    return NULL;
  int rank = value->shape.rank, axis = oct_node_has(root, OCT_TRAIT_CHANNELS_LAST) ? 1 : rank - 1, at = axis - rank + bias->shape.rank;
  int64_t count = oct_shape_count(&bias->shape);
  if (count == 1) return bias;
  return at >= 0 && bias->shape.dim[at] == count && value->shape.dim[axis] == count ? bias : NULL;
}

static bool is_clamp(const oct_node *user, float *low, float *high) {
  return oct_node_has(user, OCT_TRAIT_CLAMP) && user->op->clamp && user->op->clamp(user, low, high) && *low <= *high;
}

static void claim(fuser *f, oct_node *root, oct_fusion *fusion, oct_node *user) {
  f->map->root[user->id] = root;
  f->map->last[root->id] = user->id;
  fusion->output = user->outputs[0];
}

static void give_up(fuser *f, oct_node *root) {
  for (int id = 0; id <= f->map->last[root->id]; id++)
    if (f->map->root[id] == root) f->map->root[id] = NULL;
  f->map->last[root->id] = root->id;
}

/* ---- Products of two activations ---- */

static bool is_real(const oct_value *v) { return v && v->dtype == OCT_F32 && !v->quant && v->has_shape && oct_shape_count(&v->shape) > 0; }

/* A matmul whose factors are both computed, in float. */
static bool multiplies_activations(const oct_node *root) {
  if (oct_node_has(root, OCT_TRAIT_CHANNELS_LAST) || root->op->max_inputs != 2 || root->n_inputs != 2) return false;
  for (int i = 0; i < 2; i++)
    if (!is_real(root->inputs[i]) || oct_constant_of(root->inputs[i]) || root->inputs[i]->shape.rank < 2) return false;
  return is_real(root->outputs[0]);
}

/* A transposition; `keeps_last`: the last dim stays the last. */
static bool is_transposition(const oct_node *node, bool keeps_last) {
  int perm[OCT_MAX_RANK];
  if (!oct_node_has(node, OCT_TRAIT_PERMUTES) || !is_real(node->inputs[0]) || oct_constant_of(node->inputs[0]) ||
      !is_real(node->outputs[0]))
    return false;
  int rank = node->inputs[0]->shape.rank;
  return rank > 1 && oct_transpose_permutation(node, rank, perm) && (!keeps_last || perm[rank - 1] == rank - 1);
}

/* A is read by rows, B in any order. */
static void fuse_before(fuser *f, oct_node *root, oct_fusion *fusion) {
  for (int i = 0; i < 2; i++) {
    oct_node *node = root->inputs[i]->producer;
    if (!is_transposition(node, i == 0) || f->map->root[node->id] || oct_only_user(f->uses, root->inputs[i]) != root) continue;
    fusion->before[i] = node;
    f->map->root[node->id] = root;
  }
}

/* The constant by which `user` multiplies, or 0. */
static float factor_of(const oct_node *user, const oct_value *value) {
  double number;
  if (!oct_node_has(user, OCT_TRAIT_SCALES) || user->n_inputs != 2 || !is_real(user->outputs[0])) return 0;
  bool second = user->inputs[1] == value;
  if ((second && !oct_node_has(user, OCT_TRAIT_COMMUTATIVE)) || !oct_constant_scalar(user->inputs[!second], &number)) return 0;
  if (!oct_shape_equal(&user->outputs[0]->shape, &value->shape)) return 0;
  float factor = (float)(second ? user->op->scalar2(user, number, 1.0) : user->op->scalar2(user, 1.0, number));
  return isfinite(factor) ? factor : 0;
}

static void fuse_from(fuser *f, oct_node *root, unsigned kinds) {
  oct_fusion *fusion = &f->map->fusions[root->id];
  *fusion = (oct_fusion){.output = root->outputs[0], .low = -INFINITY, .high = INFINITY};
  f->map->last[root->id] = root->id;
  bool product = multiplies_activations(root);
  if (product && (kinds & OCT_FUSE_TRANSPOSE)) fuse_before(f, root, fusion);
  for (;;) {
    oct_value *value = fusion->output;
    if (value->quant) {
      fusion->rounded = value;
      break;
    }
    oct_node *user = oct_only_user(f->uses, value);
    float low, high;
    if (!user || f->map->root[user->id]) break;
    const oct_value *residual = residual_of(user, value, product && (kinds & OCT_FUSE_ATTENTION)), *bias = bias_of(root, user, value);
    bool fresh = product && value == root->outputs[0];
    float factor = fresh && (kinds & OCT_FUSE_TRANSPOSE) ? factor_of(user, value) : 0;
    if (product && (kinds & OCT_FUSE_TRANSPOSE) && !fusion->residual && !fusion->has_clamp && is_transposition(user, true)) {
      fusion->after = user;
      claim(f, root, fusion, user);
      break;
    }
    if (bias && (kinds & OCT_FUSE_BIAS)) {
      fusion->bias = bias;
    } else if (factor != 0) {
      fusion->scale = factor;
    } else if (residual && !fusion->residual && !fusion->has_clamp && (kinds & OCT_FUSE_RESIDUAL)) {
      fusion->residual = residual;
    } else if ((kinds & OCT_FUSE_ACTIVATION) && is_clamp(user, &low, &high)) {
      fusion->low = oct_clamp_f32(fusion->low, low, high);
      fusion->high = oct_clamp_f32(fusion->high, low, high);
      fusion->has_clamp = true;
    } else {
      break;
    }
    claim(f, root, fusion, user);
  }
  /* An 8-bit result takes 8-bit residuals only; without the residual the rest of the chain is not ours. */
  if (fusion->residual && fusion->rounded && !oct_quant_is_8bit(fusion->residual->quant)) {
    give_up(f, root);
    fuse_from(f, root, kinds & ~(unsigned)OCT_FUSE_RESIDUAL);
    return;
  }
  if (!fusion->rounded || !oct_quant_is_8bit(fusion->rounded->quant) || !(kinds & OCT_FUSE_TABLE)) return;
  oct_node *user = oct_only_user(f->uses, fusion->rounded);
  if (!user || f->map->root[user->id] || !user->op->scalar1 || !oct_node_has(user, OCT_TRAIT_UNARY) || user->inputs[0] != fusion->rounded)
    return;
  float low, high;
  if (user->op->clamp && !user->op->clamp(user, &low, &high)) return; /* bounds computed at run time: no table */
  if (!oct_quant_is_8bit(user->outputs[0]->quant)) return;
  fusion->table = user;
  claim(f, root, fusion, user);
}

/* The product that makes a softmax's input, with all that is fused to it, when nobody else reads either. */
static oct_node *scores_of(const fuser *f, const oct_node *softmax) {
  const oct_value *v = softmax->inputs[0];
  oct_node *root = v->producer ? f->map->root[v->producer->id] : NULL;
  if (!root) root = v->producer;
  if (!root || !oct_node_has(root, OCT_TRAIT_ACCUMULATES) || f->map->root[root->id] || !multiplies_activations(root)) return NULL;
  const oct_fusion *fusion = &f->map->fusions[root->id];
  bool plain = fusion->output == v && !fusion->rounded && !fusion->after && !fusion->table && !fusion->scores;
  return plain && oct_only_user(f->uses, v) == softmax ? root : NULL;
}

static bool is_row_softmax(const oct_node *node) {
  if (!oct_node_has(node, OCT_TRAIT_SOFTMAX) || !is_real(node->inputs[0]) || !is_real(node->outputs[0])) return false;
  int64_t axis = oct_node_int(node, "axis");
  return oct_axis_normalize(&axis, node->inputs[0]->shape.rank) && axis == node->inputs[0]->shape.rank - 1;
}

/* softmax(Q K^T) V: the scores of some rows stay in the cache between the two products. */
static void fuse_attention(fuser *f, oct_node *root) {
  oct_fusion *fusion = &f->map->fusions[root->id];
  if (f->map->root[root->id] || !multiplies_activations(root) || fusion->rounded) return;
  oct_node *softmax = root->inputs[0]->producer;
  if (!is_row_softmax(softmax) || f->map->root[softmax->id] || oct_only_user(f->uses, softmax->outputs[0]) != root) return;
  oct_node *scores = scores_of(f, softmax);
  const oct_shape *in = &root->inputs[0]->shape, *out = &root->outputs[0]->shape;
  if (!scores || in->rank != out->rank) return;
  for (int d = 0; d < in->rank - 1; d++)
    if (in->dim[d] != out->dim[d]) return;
  fusion->scores = scores;
  f->map->root[scores->id] = f->map->root[softmax->id] = root;
}

octet_status oct_fuse(octet_context *ctx, oct_graph *graph, unsigned kinds, oct_fusion_map *out) {
  *out = (oct_fusion_map){0};
  oct_uses uses;
  OCT_TRY(oct_graph_uses(ctx, graph, &uses));
  out->fusions = oct_alloc(ctx, graph->n_nodes + 1, sizeof *out->fusions);
  out->root = oct_alloc(ctx, graph->n_nodes + 1, sizeof(oct_node *));
  out->last = oct_alloc(ctx, graph->n_nodes + 1, sizeof *out->last);
  if (!out->fusions || !out->root || !out->last) {
    oct_uses_free(&uses);
    oct_fusion_map_free(out);
    return OCTET_OUT_OF_MEMORY;
  }
  fuser f = {&uses, out, kinds};
  /* Backwards: of two convolutions that meet in an add, the later one takes it and finds the other's result ready. */
  for (size_t i = graph->n_nodes; i-- > 0;)
    if (oct_node_has(graph->nodes[i], OCT_TRAIT_ACCUMULATES) && !out->root[i]) fuse_from(&f, graph->nodes[i], kinds);
  for (size_t i = 0; (kinds & OCT_FUSE_ATTENTION) && i < graph->n_nodes; i++)
    if (oct_node_has(graph->nodes[i], OCT_TRAIT_ACCUMULATES)) fuse_attention(&f, graph->nodes[i]);
  oct_uses_free(&uses);
  return OCTET_OK;
}

void oct_fusion_map_free(oct_fusion_map *map) {
  oct_free(map->fusions);
  oct_free(map->root);
  oct_free(map->last);
  *map = (oct_fusion_map){0};
}
