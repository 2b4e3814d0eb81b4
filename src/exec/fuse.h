/* Which nodes run as one step: an accumulating node with the bias, the residual add, the clamp and the 8-bit table that follow it.
 * An attention's scores, softmax and weighted sum are one step, too. A decision beside the graph; the graph stays as it is.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_EXEC_FUSE_H
#define OCT_EXEC_FUSE_H

#include "ops/lower.h"

typedef enum oct_fuse_kind {
  OCT_FUSE_RESIDUAL = 1,
  OCT_FUSE_ACTIVATION = 2,
  OCT_FUSE_TABLE = 4,
  OCT_FUSE_BIAS = 8,
  OCT_FUSE_TRANSPOSE = 16,
  OCT_FUSE_ATTENTION = 32,
  OCT_FUSE_STRIPS = 64, /* no fusion of nodes: their steps run together (strips.c) */
  OCT_FUSE_ALL = 127
} oct_fuse_kind;

typedef struct oct_fusion_map {
  oct_fusion *fusions; /* by node id, meaningful where the node accumulates */
  oct_node **root; /* by node id: the accumulating node that this node is fused into (transpositions and scores before it, too), or NULL */
  int *last;       /* by node id of a root: id of the last fused node (the root itself if none) */
} oct_fusion_map;

/* `kinds`: bits of what may be fused. Compacts the graph. */
octet_status oct_fuse(octet_context *ctx, oct_graph *graph, unsigned kinds, oct_fusion_map *out);
void oct_fusion_map_free(oct_fusion_map *map);
/* "residual", "activation", "table", "bias", "transpose", "attention", "strips" to the bit; 0 when unknown. */
unsigned oct_fuse_kind_parse(const char *name);

/* true for u8 and i8 parameters of one scale. */
static inline bool oct_quant_is_8bit(const oct_quant *q) { return q && q->axis < 0 && (q->dtype == OCT_U8 || q->dtype == OCT_I8); }

#endif
