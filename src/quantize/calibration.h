/* Internals of a calibration, shared by the files of this folder: the float graph, what is decided for each node and value, the observers.
 * Node and value ids are those of calibration->graph, which does not change after prepare; a copy of it has the same ids.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_QUANTIZE_CALIBRATION_H
#define OCT_QUANTIZE_CALIBRATION_H

#include <string.h>

#include "exec/session.h"
#include "quantize/quantize.h"

typedef struct oct_node_choice {
  oct_quantize_mode mode; /* wanted, after all settings */
  bool per_tensor;
  bool by_request;    /* float because the user said so */
  const char *forced; /* found later (ranges, planner): why it must be float; NULL: nothing */
  /* decided by oct_scheme_decide() */
  bool integer;       /* reads and (unless its result stays float) writes 8 bits */
  bool tail;          /* could be integer, but no integer layer follows */
  bool island;        /* float, and an integer layer follows */
  const char *reason; /* why it is not integer; NULL where that is no question */
} oct_node_choice;

typedef struct oct_value_choice {
  const char *blocked;            /* why it must not be rounded; NULL: it may */
  bool inside;                    /* interior of a fused step: never stored */
  bool needed;                    /* an integer step wants it in 8 bits: it will carry parameters (decided by oct_scheme_decide()) */
  bool watched;                   /* its range is of interest for a decision */
  bool has_scale, has_zero_point; /* given by hand */
  float scale;
  int32_t zero_point;
  oct_observer_kind kind;
  oct_observer *observer; /* NULL: not observed */
} oct_value_choice;

struct oct_calibration {
  octet_context *ctx;
  oct_graph *graph;
  oct_region region;
  oct_quantize_options options; /* the pointers in it are not valid after prepare */
  oct_fusion_map fusion;
  oct_uses uses;
  oct_node_choice *nodes;   /* by node id */
  oct_value_choice *values; /* by value id */
  bool wants_data;
  uint64_t samples;
  struct oct_probe *probe; /* the running float graph (calibration.c) */
  struct oct_watching *watching;
};

/* Role of input i of a node. */
oct_role oct_node_role(const oct_node *node, int i);
/* true when the node puts several values side by side in one result (concatenation). */
bool oct_node_joins(const oct_node *node);
/* The weight input's output-channel axis; -1 when the node has no constant f32 weights. */
int oct_weight_axis(const oct_node *node);
/* Output that holds the result of a node with what is fused to it. */
oct_value *oct_calibration_result(const oct_calibration *c, const oct_node *node);
/* true when the node runs inside another one's step. */
static inline bool oct_is_fused_member(const oct_calibration *c, const oct_node *node) { return c->fusion.root[node->id] != NULL; }

/* watching.c: observers of `count` values that look at them while they are made. */
typedef struct oct_watching oct_watching;
octet_status oct_watching_create(octet_context *ctx, const oct_observer_settings *settings, oct_observer *const *observers,
                                 const char *const *names, size_t count, oct_watching **out);
void oct_watching_destroy(oct_watching *watching); /* NULL is fine */
oct_watch oct_watching_functions(oct_watching *watching);
/* Before a run on so many samples; and after it: the failure of the first value that held NaN or an infinity. */
octet_status oct_watching_begin(oct_watching *watching, size_t samples);
octet_status oct_watching_end(oct_watching *watching);

/* options.c: fills in nodes[].mode, per_tensor, by_request and values[].blocked, kind, scale, zero_point from the options. */
octet_status oct_settings_apply(oct_calibration *c, const oct_quantize_options *options);

/* scheme.c: decides integer/float for every node and which values are needed in 8 bits. */
octet_status oct_scheme_decide(oct_calibration *c);
/* OCTET_NOT_INTEGER, listing every node that cannot be integer; OCTET_OK when there is none. */
octet_status oct_scheme_check_strict(const oct_calibration *c);

/* ranges.c: 8-bit parameters (u8) of every needed value. */
typedef struct oct_parameters {
  bool set;
  float scale;
  int32_t zero_point;
} oct_parameters;

/* Scale and zero point of a range; always usable: [0, 0] gives scale 1. */
oct_parameters oct_parameters_of(oct_range range, bool symmetric);
/* Largest activation and weight scales' product must not be a denormal, so no scale is below this. */
#define OCT_SMALLEST_SCALE 0x1p-63f

typedef struct oct_conversion {
  oct_calibration *calibration;
  oct_graph *graph;           /* the quantized one in the making */
  oct_parameters *parameters; /* by value id of calibration->graph */
  oct_quantize_report *report;
  oct_layer_report *layers; /* by node id; name NULL: no layer of its own */
} oct_conversion;

/* *changed: a range turned out to be unusable, something was blocked or forced, and the scheme has to be decided anew. */
octet_status oct_ranges_choose(oct_conversion *conversion, bool *changed);

/* realize.c and its parts. */
octet_status oct_realize(oct_conversion *conversion);
octet_status oct_realize_weights(oct_conversion *conversion);
octet_status oct_realize_operands(oct_conversion *conversion);
octet_status oct_realize_io(oct_conversion *conversion);
octet_status oct_set_parameters(octet_context *ctx, oct_graph *graph, oct_value *v, oct_parameters p, bool is_signed);
octet_status oct_realize_weight_modes(oct_conversion *conversion);

/* verdict.c: plans the quantized graph and compares with what was intended. *changed: some node was forced float. */
octet_status oct_verdict(oct_conversion *conversion, bool *changed);

/* report.c */
octet_status oct_report_warn(octet_context *ctx, oct_quantize_report *report, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
octet_status oct_report_begin(oct_conversion *conversion);
octet_status oct_report_finish(oct_conversion *conversion);

/* weights.c: the 8-bit form of a weight constant. */
typedef struct oct_weight_form {
  oct_tensor *tensor; /* i8 */
  int axis;           /* -1: per tensor */
  int64_t count;
  float *scale; /* count, in a region */
  double sqnr_db;
} oct_weight_form;

/* `smallest`: per channel (of `channels`), the least scale that a bias allows, or NULL. */
octet_status oct_weight_quantize(octet_context *ctx, oct_region *region, const oct_value *weight, int axis, bool per_tensor,
                                 const float *smallest, oct_weight_form *out);
/* Sum of |q| of a channel. */
int64_t oct_weight_magnitude(const oct_weight_form *form, int axis, int64_t channel);
/* OCTET_DATA, naming the value, when a float constant holds NaN or infinity. */
octet_status oct_check_finite(octet_context *ctx, const oct_value *constant);
/* Puts the form into the graph: on `weight` itself when all its uses are among `nodes` (input `input` of each), else on a new constant
 * which these uses get instead. */
octet_status oct_weight_install(octet_context *ctx, oct_graph *graph, oct_value *weight, const oct_weight_form *form,
                                oct_node *const *nodes, size_t n_nodes, bool in_place, oct_value **out);

#endif
