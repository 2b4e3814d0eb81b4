/* The plan: slots, buffers, steps and relocations. Plain data: another back end (C emitter) reads the same.
 * plan.c walks the graph, slots.c answers ops/lower.h, convert.c and reference_step.c make the steps that no operator owns,
 * strips.c makes chains of steps that run by rows, memory_plan.c places the buffers, session.c runs.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_EXEC_PLAN_H
#define OCT_EXEC_PLAN_H

#include "exec/choose.h"
#include "exec/fuse.h"
#include "exec/packed.h"
#include "exec/watch.h"

#define OCT_FOREVER 0x7fffffff

typedef struct oct_buffer {
  size_t bytes;
  int first, last; /* steps between which it is alive, inclusive; first > last: unused */
  size_t offset;   /* in the arena */
  int shared_with; /* index of the buffer whose memory it takes over (in place), or -1 */
  bool external;   /* holds a graph input or output: lies outside of the arena, for the whole batch */
} oct_buffer;

typedef struct oct_relocation {
  void *where;      /* pointer field inside a step's params */
  int buffer;       /* -1: constant */
  size_t offset;    /* bytes */
  const void *data; /* constants */
  int step;
  bool write;
} oct_relocation;

typedef struct oct_plan_slot {
  oct_slot slot;
  struct oct_plan_slot *next;
  bool filled; /* something writes it */
} oct_plan_slot;

/* What oct_lower_share() keeps. */
typedef struct oct_shared_slots {
  struct oct_shared_slots *next;
  const char *key;
  oct_slot **slots;
} oct_shared_slots;

typedef struct oct_value_plan {
  oct_dtype dtype; /* stored */
  oct_layout layout;
  oct_border border;
  oct_plan_slot *slots;  /* all forms */
  oct_plan_slot *stored; /* the planned one, once made */
  oct_shared_slots *shared;
  bool inside; /* interior of a fused step: has no slot */
} oct_value_plan;

/* Why a node runs as it does; for profiles, inspect and explain. */
typedef struct oct_node_report {
  const oct_node *node;
  const char *kernel;  /* of its main step; NULL: no step of its own */
  const char *decline; /* why its own lowering was not used, or NULL */
  bool integer;        /* its activations are integers in and (unless it is the last) out */
  bool fused;          /* runs inside another node's step */
  size_t packed_bytes; /* of its packed weights */
  const char *why;     /* the choice of the kernel in words, or NULL */
} oct_node_report;

typedef struct oct_plan {
  oct_lowering lowering;
  oct_graph *graph;
  oct_region region;
  oct_fusion_map fusion;
  unsigned fuse_kinds;
  int strip_rows;
  const oct_chooser *chooser; /* NULL: the fixed rule */
  const oct_choice *choice;   /* the last one: belongs to the step that is added next with its kernel */
  oct_value_plan *values;     /* by value id */
  oct_step **steps;
  size_t n_steps, steps_capacity;
  bool *is_border; /* by step: fills a border; runs once when the buffer is not shared */
  size_t is_border_capacity;
  oct_buffer *buffers;
  size_t n_buffers, buffers_capacity;
  oct_relocation *relocations;
  size_t n_relocations, relocations_capacity;
  oct_slot **inputs, **outputs; /* by graph input / output: logical dtype, plain */
  oct_node_report *reports;     /* by node id */
  oct_packed_cache *cache;
  size_t arena_bytes, workspace_bytes, constant_bytes;
  int boundaries; /* conversions between integers and floats inside the graph (not at its inputs and outputs) */
  const oct_node *current;
  oct_watch watch;
  bool *watched; /* by index of the watched: its steps are there; NULL: nothing is watched */
  char decline[512];
} oct_plan;

typedef struct oct_plan_options {
  uint32_t isa_mask;
  oct_profile profile;
  unsigned fuse_kinds;
  int strip_rows;             /* tests: rows of a strip, and values of any size lie in strips; 0: chosen */
  const oct_chooser *chooser; /* needed until the plan is made; NULL: the fixed rule */
  oct_packed_cache *cache;
  const oct_watch *watch; /* NULL: nothing is watched */
} oct_plan_options;

octet_status oct_plan_make(octet_context *ctx, oct_graph *graph, const oct_plan_options *options, oct_plan *plan);
void oct_plan_free(oct_plan *plan);

/* slots.c */
octet_status oct_plan_slot_new(oct_plan *plan, const oct_value *value, oct_dtype dtype, oct_layout layout, const oct_border *border,
                               oct_plan_slot **out);
octet_status oct_plan_stored(oct_plan *plan, const oct_value *value, oct_plan_slot **out);
octet_status oct_plan_finish_value(oct_plan *plan, const oct_value *value);
octet_status oct_plan_constant(oct_plan *plan, const oct_value *value, oct_dtype dtype, oct_layout layout, oct_plan_slot **out);
bool oct_layouts_agree(const oct_shape *shape, oct_layout a, oct_layout b);

/* convert.c */
octet_status oct_plan_convert(oct_plan *plan, oct_slot *from, oct_slot *to);
octet_status oct_plan_fill_border(oct_plan *plan, oct_slot *slot);
bool oct_plan_border(const oct_step *step, oct_border *border, int *value); /* false: the step fills no border */
bool oct_plan_same_border(const oct_step *a, const oct_step *b);            /* both fill borders, of one geometry and with one value */
octet_status oct_plan_round(oct_plan *plan, oct_slot *slot, const oct_quant *quant); /* f32 slot to the grid of any parameters */

/* reference_step.c */
octet_status oct_plan_reference(oct_plan *plan, oct_node *node);

/* share.c: raises the grains of steps too short to be split. */
octet_status oct_plan_share(oct_plan *plan);

/* strips.c: lets convolutions that do little with every byte run together by strips of rows. */
octet_status oct_plan_strips(oct_plan *plan);
bool oct_strips_run_in(const oct_step *step);                  /* the step runs the chain that it ends */
const oct_step *oct_strips_stage(const oct_step *last, int k); /* NULL past the last one */
/* Around a run, with the first worker's workspace; after it, the part of the time that `step` of the chain took. */
void oct_strips_measure(const oct_step *last, void *workspace, bool on);
double oct_strips_part(const oct_step *step, const oct_step *last, const void *workspace);

/* watch.c: the steps of one watched value that is there now, or (NULL) of all that have none yet. */
octet_status oct_plan_watch_begin(oct_plan *plan, const oct_watch *watch);
octet_status oct_plan_watch(oct_plan *plan, const oct_value *value);
size_t oct_plan_outputs(const oct_plan *plan); /* that are written */

/* memory_plan.c */
octet_status oct_plan_place(oct_plan *plan);

#endif
