/* ONNX's QOperator forms, imported as dequantize - operator - quantize.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_QLINEAR_H
#define OCT_OPS_QLINEAR_H

#include "ops/op.h"

octet_status oct_import_qlinear_conv(oct_importer *importer, const oct_foreign_node *node);
octet_status oct_import_qlinear_matmul(oct_importer *importer, const oct_foreign_node *node);

#endif
