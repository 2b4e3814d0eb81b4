/* The operator descriptor: everything Octet knows of an operator, in one struct, filled in by one file of src/ops/.
 * ir reads the declarative part (names, arity, attributes, infer); the rest is read by the layers named beside each field.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_IR_OP_H
#define OCT_IR_OP_H

#include "ir/graph.h"

struct oct_lowering;
struct oct_importer;
struct oct_exporter;
struct oct_foreign_node;

/* Passes and planning test traits, never names. */
typedef enum oct_trait {
  OCT_TRAIT_ELEMENTWISE = 1 << 0,     /* output element i depends on input elements at i only (with broadcasting) */
  OCT_TRAIT_UNARY = 1 << 1,           /* elementwise with one data input and `scalar1`: 8-bit forms run by table */
  OCT_TRAIT_BINARY = 1 << 2,          /* elementwise with two data inputs and `scalar2` */
  OCT_TRAIT_IN_PLACE = 1 << 3,        /* output 0 may share the memory of input 0 */
  OCT_TRAIT_MOVEMENT = 1 << 4,        /* only moves or repeats elements of input 0: quantization-transparent */
  OCT_TRAIT_VIEW = 1 << 5,            /* movement whose row-major bytes are those of input 0 (reshape, squeeze, ...) */
  OCT_TRAIT_IDENTITY = 1 << 6,        /* output 0 is input 0 */
  OCT_TRAIT_CHANNELS_LAST = 1 << 7,   /* lower() wants rank-4 activations channels-last and makes such */
  OCT_TRAIT_LAYOUT_AGNOSTIC = 1 << 8, /* lower() takes any layout and keeps that of its inputs */
  OCT_TRAIT_ACCUMULATES = 1 << 9,     /* multiplies by weights: convolution, gemm, matmul; root of a fused step */
  OCT_TRAIT_CLAMP = 1 << 10,          /* monotone clamp; `clamp` gives its bounds */
  OCT_TRAIT_COMMUTATIVE = 1 << 11,
  OCT_TRAIT_QUANTIZE = 1 << 12,   /* the quantize node */
  OCT_TRAIT_DEQUANTIZE = 1 << 13, /* the dequantize node */
  OCT_TRAIT_ADD = 1 << 14,        /* can be the residual add of a fused step */
  OCT_TRAIT_NO_FOLD = 1 << 15,    /* never constant-folded */
  OCT_TRAIT_SHAPE_ONLY = 1 << 16, /* output depends only on the shape of input 0 */
  OCT_TRAIT_WINDOW_MAX = 1 << 17, /* order-preserving selection (max pooling): 8-bit values pass unchanged */
  OCT_TRAIT_PERMUTES = 1 << 18,   /* movement that puts the dims in another order: oct_transpose_permutation() */
  OCT_TRAIT_SCALES = 1 << 19,     /* binary: input 0 times a function of input 1 (multiplication, division) */
  OCT_TRAIT_SOFTMAX = 1 << 20     /* e^x over its sum along the attribute `axis` */
} oct_trait;

typedef struct oct_attribute_spec {
  const char *name; /* ONNX's name where ONNX has the attribute; NULL ends the list */
  oct_attribute_type type;
  bool required;
  const char *fallback; /* default as text ("1", "0.01", "NOTSET", "" = empty list); NULL: none */
  double low, high;     /* allowed range of each number; low == high == 0: any */
  const char *summary;
} oct_attribute_spec;

typedef enum oct_role { OCT_ROLE_NONE, OCT_ROLE_ACTIVATION, OCT_ROLE_WEIGHT, OCT_ROLE_BIAS } oct_role;

typedef enum oct_output_rule {
  OCT_OUTPUT_FLOAT,    /* the operator runs in float only */
  OCT_OUTPUT_OBSERVED, /* own range, from calibration */
  OCT_OUTPUT_SAME,     /* scale and zero point of input 0 */
  OCT_OUTPUT_FIXED,    /* known range, below */
  OCT_OUTPUT_NONE      /* output is no activation (shapes, booleans, integers) */
} oct_output_rule;

typedef struct oct_quantization_rule {
  oct_role roles[4]; /* by input; the last one repeats for variadic inputs */
  oct_output_rule output;
  float fixed_low, fixed_high;              /* OCT_OUTPUT_FIXED */
  int (*weight_axis)(const oct_node *node); /* output-channel axis of the weight input, whose entries groups may share; NULL: axis 0 */
} oct_quantization_rule;

/* One row per foreign operator. A NULL function copies inputs and the attributes of equal name, and is enough for most. */
typedef struct oct_import_row {
  const char *format; /* "onnx", "tflite"; NULL ends the list */
  const char *name;   /* foreign operator */
  int since, until;   /* operator-set versions it is right for, inclusive; until 0: no end */
  octet_status (*import)(struct oct_importer *importer, const struct oct_foreign_node *node);
} oct_import_row;

typedef struct oct_export_row {
  const char *format;
  const char *name;
  octet_status (*export_node)(struct oct_exporter *exporter, const oct_node *node);
} oct_export_row;

typedef struct oct_cost {
  double macs;  /* multiply-accumulates; 0 for movement */
  double flops; /* other arithmetic */
} oct_cost;

/* A case of an operator: "in=f32[1,3,8,8],f32[4,3,3,3],- attr:strides=2,2 pads=1,1,1,1" ; "-" is an absent input; "=v" after a
 * bracket gives constant content, e.g. i64[2]=0,-1. Inputs are filled from a seeded generator. */
struct oct_op {
  const char *name, *summary;
  uint32_t traits;
  int min_inputs, max_inputs; /* max -1: variadic */
  int min_outputs, max_outputs;
  const oct_attribute_spec *attributes; /* NULL: none */

  /* Sets dtype and, as far as known, shape of each output (dims may be OCT_DIM_UNKNOWN; has_shape false when not even the rank is known),
   * or fails naming the broken rule. Reads constant inputs where shapes depend on them. */
  octet_status (*infer)(octet_context *ctx, oct_node *node);

  /* Plain loops: the oracle. `in[i]` is NULL for absent inputs; outputs have the inferred dtype and shape, are not zeroed. Allocates nothing. */
  octet_status (*reference)(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out);
  double (*scalar1)(const oct_node *node, double x); /* OCT_TRAIT_UNARY: the function itself, in double (8-bit tables, reference) */
  double (*scalar2)(const oct_node *node, double a, double b);  /* OCT_TRAIT_BINARY */
  bool (*clamp)(const oct_node *node, float *low, float *high); /* OCT_TRAIT_CLAMP; false when the bounds are not constant */

  /* Optional: adds the steps that compute the node (ops/lower.h); OCTET_UNSUPPORTED through oct_lower_decline() falls back to the reference. */
  octet_status (*lower)(struct oct_lowering *lowering, oct_node *node);
  /* Pixels around the image that lower() wants readable at input 0: top, left, bottom, right. NULL: none. */
  void (*border)(const oct_node *node, int border[4]);

  /* Row i of every output along dim 0 depends on row i of the data inputs alone, for all i (dim 0 being a batch). NULL: what the traits say
   * (elementwise, view, channels-last operators are so), else no. See ops/per_sample.h. */
  bool (*per_sample)(const oct_node *node);

  oct_quantization_rule quantization;
  const oct_import_row *imports;
  const oct_export_row *exports;
  oct_cost (*cost)(const oct_node *node); /* NULL: elements of output 0 as flops */
  const char *const *cases;               /* NULL-ended; NULL: none */
};

/* All operators, sorted by name, NULL-ended (collected by the build from src/ops/). */
extern const oct_op *const oct_op_registry[];
const oct_op *oct_op_find(const char *name); /* NULL when unknown */
static inline bool oct_op_has(const oct_op *op, uint32_t traits) { return (op->traits & traits) == traits; }
static inline bool oct_node_has(const oct_node *node, uint32_t traits) { return node && (node->op->traits & traits) == traits; }

/* Runs the operator's infer, with the node named in a failure. */
octet_status oct_node_infer(octet_context *ctx, oct_node *node);
/* Infers every node in order. */
octet_status oct_graph_infer(octet_context *ctx, oct_graph *graph);

/* Helpers for infer(). */
octet_status oct_infer_fail(octet_context *ctx, const oct_node *node, const char *format, ...) __attribute__((format(printf, 3, 4)));
void oct_infer_set(oct_value *value, oct_dtype dtype,
                   const oct_shape *shape);                           /* shape NULL: unknown rank; value NULL: ignored. A dim already known
                                                                                  in the value's shape is kept where the new one is unknown. */
octet_status oct_infer_same(octet_context *ctx, oct_node *node);      /* output 0 = dtype and shape of input 0 */
octet_status oct_infer_broadcast(octet_context *ctx, oct_node *node); /* all inputs of one dtype, numpy broadcasting */
bool oct_axis_normalize(int64_t *axis, int rank);                     /* false when out of [-rank, rank) */

#endif
