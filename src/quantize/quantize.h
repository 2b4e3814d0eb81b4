/* Quantization of a float graph: prepare, observe, convert, compare - and oct_quantize_graph(), which does the first three.
 *
 * What comes out is a graph in which values carry parameters (ir/graph.h); nothing is fused or dropped, so activations survive whatever is
 * kept float. Decisions and their reasons are data (oct_quantize_report), not printouts.
 *   options.c, config.c   settings per layer            scheme.c     which nodes are integer, which values are rounded
 *   calibration.c         running the float graph       ranges.c     from observed ranges to scale and zero point
 *   realize*.c            writing it into the graph     verdict.c    what the planner really makes of it
 *   weight_modes.c        dynamic, weight-only, fp16    compare*.c   float against quantized
 * SPDX-License-Identifier: MIT */
#ifndef OCT_QUANTIZE_QUANTIZE_H
#define OCT_QUANTIZE_QUANTIZE_H

#include "ir/op.h"
#include "quantize/observers.h"

/* ---- Options ----------------------------------------------------------------------------------------------------- */

typedef enum oct_quantize_mode {
  OCT_MODE_INT8,        /* static: activations and weights */
  OCT_MODE_DYNAMIC,     /* int8 weights, activations quantized at run time */
  OCT_MODE_WEIGHT_ONLY, /* int8 weights, float arithmetic */
  OCT_MODE_FP16,        /* half-precision weights, float arithmetic */
  OCT_MODE_FLOAT        /* for single layers: not quantized */
} oct_quantize_mode;

/* "int8", "dynamic", "weight-only", "fp16", "float"; false when unknown. */
bool oct_quantize_mode_parse(const char *name, oct_quantize_mode *mode);
const char *oct_quantize_mode_name(oct_quantize_mode mode);

typedef enum oct_quantize_io { OCT_IO_FLOAT, OCT_IO_INT8, OCT_IO_UINT8 } oct_quantize_io;

/* Settings of the layers whose node name, operator name or output value name matches `pattern` ('*' stands for any run of characters).
 * Later settings override earlier ones, field by field. */
typedef struct oct_layer_setting {
  const char *pattern;
  bool has_mode, has_observer, has_scale, has_zero_point, has_per_tensor;
  oct_quantize_mode mode;
  oct_observer_kind observer;
  float scale;        /* of the layer's output */
  int32_t zero_point; /* as u8 */
  bool per_tensor;
} oct_layer_setting;

typedef struct oct_quantize_config {
  oct_layer_setting *layers;
  size_t n_layers, capacity;
  oct_region region;
} oct_quantize_config;

/* JSON: {"PATTERN": {"mode", "bits", "observer", "scale", "zero_point", "per_tensor", "keep_float"}, ...}. Unknown keys, wrong types and
 * bits other than 8 are errors that name the entry. Free with oct_quantize_config_free(), also after a failure. */
octet_status oct_quantize_config_parse(octet_context *ctx, const char *text, size_t length, oct_quantize_config *out);
octet_status oct_quantize_config_load(octet_context *ctx, const char *path, oct_quantize_config *out);
void oct_quantize_config_free(oct_quantize_config *config);

typedef struct oct_quantize_options {
  oct_quantize_mode mode;
  oct_observer_kind observer;
  oct_observer_settings observers;
  bool per_tensor; /* weights */
  bool symmetric;  /* activations: zero point 128 of u8 */
  bool strict;     /* a node that cannot be integer is an error */
  oct_quantize_io io;
  const char *const *keep_float; /* names of nodes (else of values), n_keep_float of them */
  size_t n_keep_float;
  const oct_quantize_config *config;  /* or NULL; read by prepare only */
  const char *const *disabled_passes; /* as in oct_passes_run() */
} oct_quantize_options;

/* int8, minmax, per channel, float inputs and outputs. */
oct_quantize_options oct_quantize_options_default(void);

/* ---- Report ------------------------------------------------------------------------------------------------------ */

typedef struct oct_layer_report {
  const char *name, *op, *output; /* node, operator, value that holds the layer's result */
  const char *type;               /* "int8", "dynamic", "weight-only", "float16", "float" */
  const char *weights;            /* "int8 per channel", "int8 per tensor", "float16"; NULL: none, or float */
  const char *reason;             /* why it is float (or what the planner remarked); NULL: nothing to say */
  bool island;                    /* float, and an integer layer comes after it */
  bool fused;                     /* runs inside another layer's step */
  size_t bytes;                   /* weights + bias + parameters; what layers share counts at the first */
  double weight_sqnr_db;          /* of the weights' 8-bit form; NAN without */
  double clipped;                 /* share of the observed values outside the output's range; NAN when not observed */
} oct_layer_report;

typedef struct oct_range_choice {
  oct_range range;
  oct_range_effect effect;
} oct_range_choice;

/* One observed value: what was seen, what was chosen, and what each observer would have chosen. */
typedef struct oct_value_report {
  const char *name;
  float low, high; /* seen */
  float scale;
  int32_t zero_point;
  const char *observer; /* whose range it is; "given" (by hand), "fixed" (by the operator), "content" (a constant) */
  oct_range_choice chosen, by_observer[OCT_OBSERVER_KINDS];
} oct_value_report;

typedef struct oct_quantize_report {
  oct_region region;
  oct_layer_report *layers;
  size_t n_layers;
  oct_value_report *values;
  size_t n_values, values_capacity;
  const char **warnings;
  size_t n_warnings, warnings_capacity;
  int boundaries; /* places inside the graph where integers become floats for a float island, or an island's floats become integers */
  size_t n_integer, n_float;
  size_t bytes; /* of all constants and parameters as stored */
} oct_quantize_report;

void oct_quantize_report_free(oct_quantize_report *report);

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

typedef struct oct_calibration oct_calibration;

/* Takes a copy of `graph`, runs the passes on it and decides what has to be observed. `options` is not kept. */
octet_status oct_quantize_prepare(octet_context *ctx, const oct_graph *graph, const oct_quantize_options *options, oct_calibration **out);
void oct_calibration_destroy(oct_calibration *calibration); /* NULL is fine */
/* The float graph after the passes: what a comparison is against. */
const oct_graph *oct_calibration_graph(const oct_calibration *calibration);
/* Whether converting needs observations at all (static int8 does). */
bool oct_calibration_wants_data(const oct_calibration *calibration);

/* Runs the float graph on one batch and takes in what it shows. One tensor per graph input, by name (a NULL name where the graph has but
 * one input), of the input's dtype. Where the graph's batch size is free the tensors' first dim may be anything; else they are taken in
 * pieces of the declared size. Errors name the input or value: missing, wrong dtype or shape, empty, NaN or infinity. */
octet_status oct_calibration_observe(oct_calibration *calibration, const oct_named_tensor *inputs, size_t count);

/* A new quantized graph; may be called again after more observations. `report` NULL: none wanted; else it must be zeroed or used, and is
 * to be freed. Errors: no samples, a live value that was never observed, NaN in weights, --strict. */
octet_status oct_calibration_convert(oct_calibration *calibration, oct_graph **out, oct_quantize_report *report);

/* Data as batches: fills in the tensors of batch `index` (valid until the next call); *count 0: there are no more. */
typedef octet_status (*oct_batch_fn)(octet_context *ctx, void *user, size_t index, const oct_named_tensor **inputs, size_t *count);

/* prepare, observe all batches, convert. `batches` may be NULL for modes that need no data. */
octet_status oct_quantize_graph(octet_context *ctx, const oct_graph *graph, const oct_quantize_options *options, oct_batch_fn batches,
                                void *user, oct_graph **out, oct_quantize_report *report);

/* ---- Comparison --------------------------------------------------------------------------------------------------- */

typedef struct oct_compare_output {
  const char *name;
  double sqnr_db, max_error; /* INFINITY and 0 when equal */
} oct_compare_output;

typedef struct oct_compare_layer {
  const char *name, *op, *output, *type;
  const char *reason;
  double sqnr_db;       /* quantized graph against float at this value; NAN when the float graph has no such value */
  double sqnr_alone_db; /* only this layer quantized; NAN when it is float or not comparable */
  double clipped;       /* share of the float values outside the output's 8-bit range; NAN when it has none */
  bool island;
} oct_compare_layer;

typedef struct oct_compare_input {
  const char *name;
  double outside; /* share of the input's values outside its calibrated range */
} oct_compare_input;

typedef struct oct_compare_report {
  oct_region region;
  oct_compare_output *outputs;
  size_t n_outputs;
  oct_compare_layer *layers;
  size_t n_layers;
  oct_compare_input *inputs;
  size_t n_inputs;
  const char **warnings;
  size_t n_warnings, warnings_capacity;
  int boundaries;
  size_t samples; /* batches that were compared */
} oct_compare_report;

/* `reference` is the float graph as it was read (the passes are run on a copy). `report` must be zeroed; free it, also after a failure. */
octet_status oct_compare(octet_context *ctx, const oct_graph *reference, const oct_graph *quantized, oct_batch_fn batches, void *user,
                         oct_compare_report *report);
void oct_compare_report_free(oct_compare_report *report);

#endif
