/* The fallback: a node run by its operator's reference on plain data of the logical types.
 * SPDX-License-Identifier: MIT */
#include "exec/plan.h"

typedef struct reference_params {
  const oct_node *node;
  const oct_tensor **in;
  oct_tensor **out;
} reference_params;

static octet_status run_reference(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)begin, (void)end, (void)workspace;
  const reference_params *p = params;
  if (p->node->op->reference(ctx, p->node, p->in, p->out) == OCTET_OK) return OCTET_OK;
  return oct_fail_prefix(ctx, "node \"%s\" (%s)", p->node->name, p->node->op->name);
}

octet_status oct_plan_reference(oct_plan *plan, oct_node *node) {
  oct_lowering *l = &plan->lowering;
  octet_context *ctx = l->ctx;
  if (!node->op->reference)
    return oct_fail(ctx, OCTET_UNSUPPORTED, "node \"%s\" (%s): the operator cannot be run: %s", node->name, node->op->name, plan->decline);
  size_t n = (size_t)(node->n_inputs + node->n_outputs + 1);
  oct_tensor *headers = oct_region_alloc(ctx, &plan->region, n, sizeof *headers);
  oct_tensor **pointers = oct_region_alloc(ctx, &plan->region, n, sizeof *pointers);
  oct_slot **slots = oct_region_alloc(ctx, &plan->region, n, sizeof(oct_slot *));
  if (!headers || !pointers || !slots) return OCTET_OUT_OF_MEMORY;
  for (int i = 0; i < node->n_inputs; i++) /* conversions come before the step */
    if (node->inputs[i]) OCT_TRY(oct_lower_input(l, node->inputs[i], node->inputs[i]->dtype, OCT_LAYOUT_PLAIN, NULL, &slots[i]));
  for (int i = 0; i < node->n_outputs; i++)
    if (node->outputs[i])
      OCT_TRY(oct_lower_output(l, node->outputs[i], node->outputs[i]->dtype, OCT_LAYOUT_PLAIN, &slots[node->n_inputs + i]));
  reference_params *p;
  oct_step *step;
  OCT_TRY(oct_lower_step(l, node, "reference", run_reference, sizeof *p, &p, &step));
  p->node = node;
  p->in = (const oct_tensor **)pointers;
  p->out = pointers + node->n_inputs;
  step->reason = oct_region_strdup(ctx, &plan->region, plan->decline);
  for (size_t i = 0; i + 1 < n; i++) {
    if (!slots[i]) continue;
    bool write = i >= (size_t)node->n_inputs;
    const oct_value *v = write ? node->outputs[i - (size_t)node->n_inputs] : node->inputs[i];
    headers[i] = (oct_tensor){.dtype = v->dtype, .shape = v->shape, .references = 1};
    headers[i].bytes = (size_t)oct_shape_count(&v->shape) * oct_dtype_size(v->dtype);
    pointers[i] = &headers[i];
    OCT_TRY(write ? oct_lower_write(l, step, &headers[i].data, slots[i]) : oct_lower_read(l, step, &headers[i].data, slots[i]));
  }
  return OCTET_OK;
}
