/* What a file of src/ops/ includes: the descriptor, the helpers for its functions, and the kernels it lowers to.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_OP_H
#define OCT_OPS_OP_H

#include "ir/op.h"
#include "ops/foreign.h"
#include "ops/lower.h"
#include "ops/math.h"
#include "ops/per_sample.h"

#endif
