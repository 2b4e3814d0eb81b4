/* The order of the passes, and running them until nothing changes.
 *
 * absorb_qdq and absorb_dynamic come first: folding would turn dequantized weights into float constants. Then what is constant is made
 * constant and what does nothing is dropped, so that the patterns of the later passes lie side by side. A pass that is not in the order
 * below (a new file) runs last.
 * SPDX-License-Identifier: MIT */
#include "passes/pass.h"
#include "ir/verify.h"

static const char *const order[] = {
    "dead_code",
    "absorb_qdq",
    "absorb_dynamic",
    "identity_removal",
    "constant_folding",
    "fold_batch_normalization",
    "fold_scale",
    "add_bias",
    "cancel_transposes",
    "common_subexpressions",
    NULL,
};

const oct_pass *oct_pass_find(const char *name) {
  for (const oct_pass *const *pass = oct_pass_registry; *pass; pass++)
    if (strcmp((*pass)->name, name) == 0) return *pass;
  return NULL;
}

static bool is_listed(const char *const *list, const char *name) {
  for (size_t i = 0; list && list[i]; i++)
    if (strcmp(list[i], name) == 0) return true;
  return false;
}

static octet_status check_disabled(octet_context *ctx, const char *const *disabled) {
  for (size_t i = 0; disabled && disabled[i]; i++)
    if (!oct_pass_find(disabled[i])) return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "there is no pass \"%s\" to turn off", disabled[i]);
  return OCTET_OK;
}

static octet_status run_pass(octet_context *ctx, oct_graph *graph, const oct_pass *pass, bool *changed) {
  bool own = false;
  octet_status status = oct_graph_compact(ctx, graph);
  if (status == OCTET_OK) status = pass->run(ctx, graph, &own);
  if (status == OCTET_OK) status = oct_graph_compact(ctx, graph);
  if (status == OCTET_OK && own) status = oct_graph_infer(ctx, graph);
#ifdef OCTET_DEBUG
  if (status == OCTET_OK && own) status = oct_graph_verify(ctx, graph);
#endif
  *changed |= own;
  return status == OCTET_OK ? OCTET_OK : oct_fail_prefix(ctx, "pass %s", pass->name);
}

static octet_status run_round(octet_context *ctx, oct_graph *graph, const char *const *disabled, bool *changed) {
  for (size_t i = 0; order[i]; i++) {
    const oct_pass *pass = oct_pass_find(order[i]);
    if (pass && !is_listed(disabled, order[i])) OCT_TRY(run_pass(ctx, graph, pass, changed));
  }
  for (const oct_pass *const *pass = oct_pass_registry; *pass; pass++)
    if (!is_listed(order, (*pass)->name) && !is_listed(disabled, (*pass)->name)) OCT_TRY(run_pass(ctx, graph, *pass, changed));
  return OCTET_OK;
}

octet_status oct_passes_run(octet_context *ctx, oct_graph *graph, const char *const *disabled) {
  OCT_TRY(check_disabled(ctx, disabled));
  bool changed = true;
  for (int round = 0; changed && round < OCT_PASS_ROUNDS; round++) {
    changed = false;
    OCT_TRY(run_round(ctx, graph, disabled, &changed));
  }
  return OCTET_OK;
}

octet_status oct_pass_run(octet_context *ctx, oct_graph *graph, const char *name) {
  const oct_pass *pass = oct_pass_find(name);
  bool changed = false;
  if (!pass) return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "there is no pass \"%s\"", name);
  return run_pass(ctx, graph, pass, &changed);
}
