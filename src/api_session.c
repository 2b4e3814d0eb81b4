/* Public functions: sessions - making, running, and what their layers and steps are.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "api.h"
#include "base/cpu.h"
#include "exec/tune.h"
#include "passes/pass.h"

octet_session_options octet_session_options_default(void) { return (octet_session_options){.struct_size = sizeof(octet_session_options)}; }

octet_tensor oct_public_tensor(const oct_value *value, void *data, size_t bytes) {
  octet_tensor t = {.name = value->name,
                    .dtype = oct_dtype_name(value->dtype),
                    .rank = value->has_shape ? value->shape.rank : -1,
                    .data = data,
                    .bytes = bytes};
  for (int d = 0; d < t.rank; d++) t.dims[d] = value->shape.dim[d];
  return t;
}

#define MAX_FORBIDDEN 16

/* What must not be fused: kinds of the planner, and passes by name. */
typedef struct forbidden {
  unsigned kinds;
  const char *passes[MAX_FORBIDDEN + 1];
  size_t n_passes;
} forbidden;

static octet_status forbid_fusion(octet_context *ctx, void *user, const char *word) {
  forbidden *f = user;
  unsigned kind = oct_fuse_kind_parse(word);
  const oct_pass *pass = oct_pass_find(word);
  f->kinds |= kind;
  if (pass && f->n_passes < MAX_FORBIDDEN) f->passes[f->n_passes++] = pass->name;
  if (kind || pass) return OCTET_OK;
  return oct_fail(ctx, OCTET_INVALID_ARGUMENT,
                  "there is no fusion or pass \"%s\": residual, activation, table, bias, transpose, attention, strips, all, or a pass "
                  "(fold_batch_normalization, ...)",
                  word);
}

static octet_status shape_of_tensor(octet_context *ctx, const octet_tensor *t, oct_shape *shape) {
  if (!t->name || t->rank < 0 || t->rank > OCT_MAX_RANK)
    return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "an input shape needs a name and a rank up to %d", OCT_MAX_RANK);
  *shape = (oct_shape){.rank = t->rank};
  for (int d = 0; d < t->rank; d++) shape->dim[d] = t->dims[d];
  return OCTET_OK;
}

typedef struct session_inputs {
  oct_named_shape *shapes;
  oct_named_tensor *bound;
  size_t n_shapes, n_bound;
} session_inputs;

static octet_status read_inputs(octet_context *ctx, const octet_session_options *o, session_inputs *in) {
  in->shapes = oct_alloc(ctx, o->n_shapes + 1, sizeof *in->shapes);
  in->bound = oct_alloc(ctx, o->n_shapes + 1, sizeof *in->bound);
  if (!in->shapes || !in->bound) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < o->n_shapes; i++) {
    const octet_tensor *t = &o->shapes[i];
    oct_shape shape;
    OCT_TRY(shape_of_tensor(ctx, t, &shape));
    if (!t->data) {
      in->shapes[in->n_shapes++] = (oct_named_shape){t->name, shape};
      continue;
    }
    oct_named_tensor *b = &in->bound[in->n_bound];
    oct_dtype dtype = oct_dtype_parse(t->dtype ? t->dtype : "");
    if (dtype == OCT_DTYPE_NONE)
      return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "input \"%s\": unknown type \"%s\"", t->name, t->dtype ? t->dtype : "");
    OCT_TRY(oct_tensor_create(ctx, dtype, &shape, &b->tensor));
    in->n_bound++;
    b->name = (char *)(uintptr_t)t->name;
    if (b->tensor->bytes != t->bytes)
      return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "input \"%s\": %zu bytes given, its shape needs %zu", t->name, t->bytes,
                      b->tensor->bytes);
    if (t->bytes) memcpy(b->tensor->data, t->data, t->bytes);
  }
  return OCTET_OK;
}

/* With the tuning log, which is filled first when that is asked for. */
static octet_status create_tuned(octet_context *ctx, const oct_graph *graph, const octet_session_options *o, oct_session_options *options,
                                 oct_session **out) {
  oct_tune_log *log = NULL;
  octet_status status = OCTET_OK;
  if (!o->memory_small) status = oct_tune_log_open(ctx, o->tune_log, options->isa_mask ? options->isa_mask : ctx->isa_mask, &log);
  if (status == OCTET_OK && o->tune_seconds > 0) {
    if (o->memory_small) status = oct_fail(ctx, OCTET_INVALID_ARGUMENT, "least memory and tuning for time exclude each other");
    else if (!log)
      status = oct_fail(ctx, OCTET_INVALID_ARGUMENT, "there is no place for what tuning finds: name a file for the tuning log");
    if (status == OCTET_OK) status = oct_tune(ctx, graph, options, o->tune_seconds, log);
    if (status == OCTET_OK) status = oct_tune_log_save(ctx, log);
  }
  options->tune_log = log;
  if (status == OCTET_OK) status = oct_session_create(ctx, graph, options, out);
  options->tune_log = NULL;
  oct_tune_log_close(log);
  return status;
}

static octet_status create_inner(const octet_model *model, const octet_session_options *o, session_inputs *in, octet_session *session) {
  octet_context *ctx = model->ctx;
  oct_session_options options = oct_session_options_default();
  if (o->batch < 0) return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "a batch of %lld samples is not possible", (long long)o->batch);
  options.batch = o->batch;
  options.cache = model->cache;
  if (o->isa) {
    uint32_t mask;
    if (!oct_isa_cap(o->isa, &mask)) return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "unknown instruction set \"%s\"", o->isa);
    options.isa_mask = mask & oct_isa_detect();
  }
  options.exact_float = o->exact_float;
  options.memory_small = o->memory_small;
  forbidden f = {0};
  OCT_TRY(oct_each_word(ctx, o->no_fuse, forbid_fusion, &f));
  options.fuse_kinds &= ~f.kinds;
  OCT_TRY(read_inputs(ctx, o, in));
  options.shapes = in->shapes;
  options.n_shapes = in->n_shapes;
  options.bound = in->bound;
  options.n_bound = in->n_bound;
  const oct_graph *ready;
  oct_graph *own = NULL;
  octet_status status;
  if (f.n_passes) { /* not the model's shared form */
    OCT_TRY(oct_graph_copy(ctx, model->graph, &own));
    status = oct_passes_run(ctx, own, f.passes);
    ready = own;
  } else {
    status = oct_model_ready(model, &ready);
  }
  if (status == OCTET_OK) status = create_tuned(ctx, ready, o, &options, &session->inner);
  oct_graph_destroy(own);
  if (status != OCTET_OK) return status;
  session->seconds = oct_alloc(ctx, session->inner->n_steps + 1, sizeof *session->seconds);
  return session->seconds ? OCTET_OK : OCTET_OUT_OF_MEMORY;
}

octet_status octet_session_create(const octet_model *model, const octet_session_options *options, octet_session **out) {
  octet_session_options own = octet_session_options_default();
  session_inputs in = {0};
  *out = NULL;
  OCT_TRY(oct_options_take(model->ctx, options, &own, sizeof own));
  octet_session *session = oct_alloc(model->ctx, 1, sizeof *session);
  if (!session) return OCTET_OUT_OF_MEMORY;
  session->ctx = model->ctx;
  octet_status status = create_inner(model, &own, &in, session);
  for (size_t i = 0; i < in.n_bound; i++) oct_tensor_release(in.bound[i].tensor);
  oct_free(in.bound);
  oct_free(in.shapes);
  if (status != OCTET_OK) {
    octet_session_destroy(session);
    return status;
  }
  *out = session;
  return OCTET_OK;
}

void octet_session_destroy(octet_session *session) {
  if (!session) return;
  oct_session_destroy(session->inner);
  oct_free(session->seconds);
  oct_free(session);
}

size_t octet_session_input_count(const octet_session *session) { return oct_session_inputs(session->inner); }
size_t octet_session_output_count(const octet_session *session) { return oct_session_outputs(session->inner); }

octet_tensor octet_session_input(const octet_session *session, size_t index) {
  if (index >= oct_session_inputs(session->inner)) return (octet_tensor){0};
  oct_session_port port = oct_session_input(session->inner, index);
  return oct_public_tensor(port.value, port.data, port.bytes);
}

octet_tensor octet_session_output(const octet_session *session, size_t index) {
  if (index >= oct_session_outputs(session->inner)) return (octet_tensor){0};
  oct_session_port port = oct_session_output(session->inner, index);
  return oct_public_tensor(port.value, port.data, port.bytes);
}

octet_status octet_session_run(octet_session *session) { return oct_session_run(session->inner); }
octet_status octet_session_run_profiled(octet_session *session) { return oct_session_run_profiled(session->inner, session->seconds); }

size_t octet_session_layer_count(const octet_session *session) { return session->inner->graph->n_nodes; }

static const char *layer_type(const oct_node_report *report) {
  const oct_node *node = report->node;
  const oct_value *weight = node->n_inputs > 1 ? node->inputs[1] : NULL;
  if (report->integer && oct_node_int(node, "dynamic")) return "dynamic";
  if (report->integer) return "int8";
  if (oct_node_has(node, OCT_TRAIT_ACCUMULATES) && weight && weight->kind == OCT_CONSTANT && weight->quant) return "weight-only";
  return node->n_outputs && node->outputs[0] && oct_dtype_is_float(node->outputs[0]->dtype) ? "float" : "other";
}

octet_layer octet_session_layer(const octet_session *session, size_t index) {
  const oct_plan *plan = &session->inner->plan;
  if (index >= session->inner->graph->n_nodes) return (octet_layer){0};
  const oct_node_report *report = &plan->reports[index];
  const oct_node *node = report->node, *root = plan->fusion.root[index];
  octet_layer layer = {.name = node->name,
                       .op = node->op->name,
                       .type = layer_type(report),
                       .kernel = report->kernel,
                       .reason = report->decline,
                       .choice = report->why};
  layer.fused_into = root ? root->name : NULL;
  const oct_graph *whole = session->inner->whole; /* where the batch runs in pieces, shapes and costs are those of all of it */
  const oct_node *shown = whole && whole->n_nodes == session->inner->graph->n_nodes ? whole->nodes[index] : node;
  const oct_value *out = node->n_outputs ? node->outputs[0] : NULL;
  layer.dtype = out ? oct_dtype_name(plan->values[out->id].dtype) : "";
  out = shown->n_outputs ? shown->outputs[0] : NULL;
  layer.rank = out ? out->shape.rank : 0;
  for (int d = 0; d < layer.rank; d++) layer.dims[d] = out->shape.dim[d];
  if (shown->op->cost) layer.macs = shown->op->cost(shown).macs;
  for (int i = 0; i < node->n_inputs; i++) {
    const oct_tensor *t = oct_constant_of(node->inputs[i]);
    if (!t || !oct_dtype_is_float(node->inputs[i]->dtype)) continue;
    layer.parameters += (size_t)oct_shape_count(&t->shape);
    layer.bytes += t->bytes;
  }
  for (size_t s = 0; s < session->inner->n_steps; s++)
    if (session->inner->steps[s]->node == node) layer.seconds += session->seconds[s];
  return layer;
}

size_t octet_session_step_count(const octet_session *session) { return session->inner->n_steps; }

octet_step_info octet_session_step(const octet_session *session, size_t index) {
  if (index >= session->inner->n_steps) return (octet_step_info){0};
  const oct_step *step = session->inner->steps[index];
  return (octet_step_info){step->kernel, step->node ? step->node->name : "", step->macs * (double)session->inner->n_chunks,
                           session->seconds[index]};
}

size_t octet_session_arena_bytes(const octet_session *session) {
  return session->inner->plan.arena_bytes + session->inner->plan.workspace_bytes * (size_t)session->inner->workers;
}
size_t octet_session_weight_bytes(const octet_session *session) { return oct_session_weight_bytes(session->inner); }
int octet_session_boundary_count(const octet_session *session) { return session->inner->plan.boundaries; }
