/* A step that turns elements into another type row by row: float to 8 bits, or 8 bits through a table.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_CONVERT_ROWS_H
#define OCT_OPS_CONVERT_ROWS_H

#include "ops/op.h"

typedef enum oct_convert_kind {
  OCT_CONVERT_QUANTIZE, /* f32 -> 8 bits by scale and zero_point, then through `table` if there is one */
  OCT_CONVERT_TABLE,    /* 8 bits -> 8 bits */
  OCT_CONVERT_TABLE_F32 /* 8 bits -> f32 by `floats` */
} oct_convert_kind;

typedef struct oct_convert_rows {
  oct_convert_kind kind;
  float scale;
  int32_t zero_point;
  const uint8_t *table;
  const float *floats;
  const float *run_scale; /* when not NULL after relocation: scale and zero point known only at run time */
  const uint8_t *run_zero_point;
} oct_convert_rows;

/* Both slots hold the same logical shape; layouts may differ. */
octet_status oct_convert_rows_step(oct_lowering *l, const oct_node *node, const oct_convert_rows *convert, oct_slot *in, oct_slot *out);
/* Quantizes with parameters that an earlier step writes into two one-element slots. */
octet_status oct_convert_rows_dynamic(oct_lowering *l, const oct_node *node, oct_slot *in, oct_slot *scale, oct_slot *zero_point,
                                      oct_slot *out);

#endif
