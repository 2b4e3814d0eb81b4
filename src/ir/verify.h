/* The verifier: the rules every graph keeps between passes.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_IR_VERIFY_H
#define OCT_IR_VERIFY_H

#include "ir/op.h"

/* OCTET_GRAPH or OCTET_SHAPE with the node or value and the broken rule: arity, unknown or ill-typed or out-of-range attributes, required
 * attributes, order of definition, one producer per value, unique names, dangling values, quantization parameters that fit the shape,
 * constants whose tensor fits dtype and shape, inferred against recorded shapes. */
octet_status oct_graph_verify(octet_context *ctx, oct_graph *graph);

/* The rules of one value (kind, tensor, quantization parameters) and of one node by itself (arity, attributes), for the parser. */
octet_status oct_value_verify(octet_context *ctx, const oct_value *value);
octet_status oct_node_verify(octet_context *ctx, const oct_node *node);

#endif
