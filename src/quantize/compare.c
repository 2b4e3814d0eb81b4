/* Float against quantized: both graphs are run on the same samples, and every layer of the quantized graph once more alone, fed with the
 * float graph's values.
 * SPDX-License-Identifier: MIT */
#include "quantize/compare.h"

#include "passes/pass.h"

void oct_error_add(oct_error_sums *sums, const float *reference, const float *value, size_t count) {
  for (size_t i = 0; i < count; i++) {
    double r = (double)reference[i], d = (double)value[i] - r;
    if (!isfinite(d)) { /* one of them is not finite; two NaNs, or two equal infinities, agree */
      sums->not_finite += !(isnan(reference[i]) ? isnan(value[i]) : reference[i] == value[i]);
      continue;
    }
    sums->signal += r * r;
    sums->noise += d * d;
    if (fabs(d) > sums->max_error) sums->max_error = fabs(d);
  }
  sums->count += count;
}

double oct_error_sqnr(const oct_error_sums *sums) {
  if (sums->count == 0) return NAN;
  if (sums->not_finite) return -INFINITY;
  return sums->noise > 0 ? 10 * log10(sums->signal / sums->noise) : sums->noise == 0 ? INFINITY : NAN;
}

/* ---- Before ------------------------------------------------------------------------------------------------------------ */

static bool is_compared(const oct_comparison *k, const oct_node *node) {
  if (k->fusion.root[node->id] || node->n_outputs < 1 || !node->outputs[0] || node->outputs[0]->dtype != OCT_F32) return false;
  if (oct_node_has(node, OCT_TRAIT_QUANTIZE) || oct_node_has(node, OCT_TRAIT_DEQUANTIZE)) return false;
  return node->op->quantization.output != OCT_OUTPUT_NONE;
}

static octet_status find_layers(oct_comparison *k) {
  oct_graph *q = k->quantized;
  OCT_TRY(oct_fuse(k->ctx, q, OCT_FUSE_ALL & ~(unsigned)OCT_FUSE_ATTENTION, &k->fusion));
  k->layers = oct_alloc(k->ctx, q->n_nodes + 1, sizeof *k->layers);
  if (!k->layers) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < q->n_nodes; i++) {
    const oct_node *node = q->nodes[i];
    if (!is_compared(k, node)) continue;
    const oct_fusion *f = &k->fusion.fusions[i];
    bool layer = oct_node_has(node, OCT_TRAIT_ACCUMULATES);
    const oct_value *result = layer ? f->output : node->outputs[0];
    k->layers[k->n_layers++] = (oct_compared_layer){.node = node, .result = result};
  }
  return OCTET_OK;
}

static octet_status make_probes(oct_comparison *k) {
  octet_context *ctx = k->ctx;
  const char **names = oct_alloc(ctx, k->n_layers + 1, sizeof *names);
  if (!names) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < k->n_layers; i++) names[i] = k->layers[i].result->name;
  octet_status status = oct_probe_create(ctx, k->reference, names, k->n_layers, &k->reference_probe);
  if (status == OCTET_OK) status = oct_probe_create(ctx, k->quantized, names, k->n_layers, &k->quantized_probe);
  if (status == OCTET_OK) status = oct_compare_cut(k);
  if (status == OCTET_OK && k->cut->n_outputs) status = oct_probe_create(ctx, k->cut, names, k->n_layers, &k->cut_probe);
  oct_free(names);
  return status;
}

static octet_status check_interfaces(oct_comparison *k) {
  oct_graph *r = k->reference, *q = k->quantized;
  if (r->n_outputs != q->n_outputs)
    return oct_fail(k->ctx, OCTET_INVALID_ARGUMENT, "compare: the float graph has %zu outputs, the quantized one has %zu", r->n_outputs,
                    q->n_outputs);
  for (size_t i = 0; i < q->n_inputs; i++)
    if (!oct_graph_find(r, q->inputs[i]->name))
      return oct_fail(k->ctx, OCTET_INVALID_ARGUMENT, "compare: the float graph has no input \"%s\"", q->inputs[i]->name);
  k->n_outputs = r->n_outputs;
  k->outputs = oct_alloc(k->ctx, k->n_outputs + 1, sizeof *k->outputs);
  k->outside = oct_alloc(k->ctx, 2 * q->n_inputs + 2, sizeof *k->outside);
  if (!k->outputs || !k->outside) return OCTET_OUT_OF_MEMORY;
  k->inside = k->outside + q->n_inputs + 1;
  return OCTET_OK;
}

static octet_status start(oct_comparison *k, const oct_graph *reference, const oct_graph *quantized) {
  octet_context *ctx = k->ctx;
  OCT_TRY(oct_graph_copy(ctx, reference, &k->reference));
  OCT_TRY(oct_passes_run(ctx, k->reference, NULL));
  OCT_TRY(oct_graph_prune(ctx, k->reference));
  OCT_TRY(oct_graph_infer(ctx, k->reference));
  OCT_TRY(oct_graph_copy(ctx, quantized, &k->quantized));
  OCT_TRY(oct_graph_prune(ctx, k->quantized));
  OCT_TRY(oct_graph_infer(ctx, k->quantized));
  OCT_TRY(oct_compare_strip_io(ctx, k->quantized));
  OCT_TRY(check_interfaces(k));
  OCT_TRY(find_layers(k));
  return make_probes(k);
}

/* ---- One piece --------------------------------------------------------------------------------------------------------- */

static size_t count_outside(const oct_quant *q, const float *x, size_t count) {
  int low = q->dtype == OCT_I8 ? -128 : 0;
  float scale = q->scale[0], from = ((float)(low - q->zero_point[0]) - 0.5f) * scale,
        to = ((float)(low + 255 - q->zero_point[0]) + 0.5f) * scale;
  size_t outside = 0;
  for (size_t i = 0; i < count; i++) outside += !(x[i] >= from && x[i] <= to);
  return outside;
}

/* The float graph's values as the cut graph's inputs. `headers` holds the tensors. */
static size_t feed_cut(const oct_comparison *k, const oct_probe_run *run, oct_tensor *headers, oct_named_tensor *inputs) {
  size_t n = 0;
  for (size_t i = 0; i < k->cut->n_inputs; i++) {
    const char *name = k->cut->inputs[i]->name;
    size_t length = strlen(name), suffix = strlen(OCT_CUT_SUFFIX);
    oct_tensor *t = &headers[n];
    *t = (oct_tensor){.references = 1};
    if (length > suffix && strcmp(name + length - suffix, OCT_CUT_SUFFIX) == 0) {
      for (size_t v = 0; v < run->count; v++) {
        const oct_probed_value *p = &run->values[v];
        if (!p->data || strlen(p->name) != length - suffix || strncmp(p->name, name, length - suffix) != 0) continue;
        *t = (oct_tensor){
            .dtype = OCT_F32, .shape = p->shape, .data = (void *)(uintptr_t)p->data, .bytes = p->elements * sizeof(float), .references = 1};
      }
    } else {
      for (size_t v = 0; v < oct_session_inputs(run->session); v++) {
        oct_session_port port = oct_session_input(run->session, v);
        if (strcmp(port.value->name, name) == 0)
          *t =
              (oct_tensor){.dtype = port.value->dtype, .shape = port.value->shape, .data = port.data, .bytes = port.bytes, .references = 1};
      }
    }
    if (!t->data) continue;
    inputs[n] = (oct_named_tensor){.name = (char *)(uintptr_t)name, .tensor = t};
    n++;
  }
  return n;
}

static octet_status run_cut(oct_comparison *k, const oct_probe_run *reference) {
  if (!k->cut_probe) return OCTET_OK;
  oct_tensor *headers = oct_alloc(k->ctx, k->cut->n_inputs + 1, sizeof *headers);
  oct_named_tensor *inputs = oct_alloc(k->ctx, k->cut->n_inputs + 1, sizeof *inputs);
  octet_status status = headers && inputs ? OCTET_OK : OCTET_OUT_OF_MEMORY;
  oct_probe_run run;
  oct_probe_pieces whole = {1, 1};
  if (status == OCTET_OK) {
    size_t n = feed_cut(k, reference, headers, inputs);
    if (n < k->cut->n_inputs) status = oct_fail(k->ctx, OCTET_GRAPH, "compare: the float graph lacks a value that a layer reads");
    if (status == OCTET_OK) status = oct_probe_run_piece(k->cut_probe, inputs, n, &whole, 0, 1, &run);
  }
  for (size_t i = 0; i < k->n_layers && status == OCTET_OK; i++) {
    const oct_probed_value *r = &reference->values[i], *v = &run.values[i];
    if (r->data && v->data && r->elements == v->elements) oct_error_add(&k->layers[i].alone, r->data, v->data, v->elements);
  }
  oct_free(headers);
  oct_free(inputs);
  return status;
}

static octet_status compare_piece(oct_comparison *k, const oct_named_tensor *inputs, size_t count, const oct_probe_pieces *pieces,
                                  size_t begin, size_t n) {
  oct_probe_run r, q;
  OCT_TRY(oct_probe_run_piece(k->reference_probe, inputs, count, pieces, begin, n, &r));
  OCT_TRY(oct_probe_run_piece(k->quantized_probe, inputs, count, pieces, begin, n, &q));
  for (size_t i = 0; i < k->n_layers; i++) {
    oct_compared_layer *layer = &k->layers[i];
    const oct_probed_value *a = &r.values[i], *b = &q.values[i];
    if (!a->data || !b->data || a->elements != b->elements) continue;
    oct_error_add(&layer->along, a->data, b->data, a->elements);
    if (oct_quant_is_8bit(layer->result->quant))
      layer->clipped += count_outside(layer->result->quant, a->data, a->elements), layer->seen += a->elements;
  }
  for (size_t i = 0; i < k->n_outputs; i++) {
    const oct_probed_value *a = &r.values[r.count + i], *b = &q.values[q.count + i];
    if (a->data && b->data && a->elements == b->elements) oct_error_add(&k->outputs[i], a->data, b->data, a->elements);
  }
  for (size_t i = 0; i < k->quantized->n_inputs; i++) {
    const oct_value *v = k->quantized->inputs[i];
    for (size_t s = 0; s < oct_session_inputs(r.session) && oct_quant_is_8bit(v->quant); s++) {
      oct_session_port port = oct_session_input(r.session, s);
      if (strcmp(port.value->name, v->name) != 0 || port.value->dtype != OCT_F32) continue;
      k->outside[i] += count_outside(v->quant, port.data, port.bytes / sizeof(float));
      k->inside[i] += port.bytes / sizeof(float);
    }
  }
  k->report->samples += r.samples;
  return run_cut(k, &r);
}

static octet_status run_all(oct_comparison *k, oct_batch_fn batches, void *user) {
  for (size_t index = 0;; index++) {
    const oct_named_tensor *inputs = NULL;
    size_t count = 0;
    oct_probe_pieces pieces;
    OCT_TRY(batches(k->ctx, user, index, &inputs, &count));
    if (count == 0 && index == 0) return oct_fail(k->ctx, OCTET_DATA, "compare: there are no samples");
    if (count == 0) return OCTET_OK;
    OCT_TRY(oct_probe_batch(k->reference_probe, inputs, count, true, &pieces));
    for (size_t begin = 0, n = 0; oct_probe_next(&pieces, &begin, &n);) OCT_TRY(compare_piece(k, inputs, count, &pieces, begin, n));
    OCT_TRY(oct_progress(k->ctx, "comparing", index + 1, 0));
  }
}

static void release(oct_comparison *k) {
  oct_probe_destroy(k->reference_probe);
  oct_probe_destroy(k->quantized_probe);
  oct_probe_destroy(k->cut_probe);
  oct_fusion_map_free(&k->fusion);
  oct_free(k->layers);
  oct_free(k->outputs);
  oct_free(k->outside);
  oct_graph_destroy(k->reference);
  oct_graph_destroy(k->quantized);
  oct_graph_destroy(k->cut);
}

octet_status oct_compare(octet_context *ctx, const oct_graph *reference, const oct_graph *quantized, oct_batch_fn batches, void *user,
                         oct_compare_report *report) {
  oct_comparison k = {.ctx = ctx, .report = report};
  octet_status status = start(&k, reference, quantized);
  if (status == OCTET_OK) status = run_all(&k, batches, user);
  if (status == OCTET_OK) status = oct_compare_finish(&k);
  release(&k);
  return status;
}

void oct_compare_report_free(oct_compare_report *report) {
  oct_free(report->warnings);
  oct_region_free(&report->region);
  *report = (oct_compare_report){0};
}
