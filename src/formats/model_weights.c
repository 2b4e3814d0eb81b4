/* A checkpoint's tensors onto the constants of a graph, by name, with a list of what did not match.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/strbuf.h"
#include "formats/model_parts.h"

#define LISTED 12     /* names in one warning */
#define SHORT_LIST 16 /* constants up to this many elements are seldom weights: their absence is not reported */

/* Names for one warning. */
typedef struct listing {
  oct_strbuf text;
  size_t count;
} listing;

static void list_name(listing *list, const char *format, const char *name, const char *note) {
  if (list->count++ >= LISTED) return;
  oct_strbuf_puts(&list->text, list->count > 1 ? ", " : "");
  oct_strbuf_printf(&list->text, format, name, note);
}

static void warn_list(octet_context *ctx, listing *list, const char *what) {
  if (list->count > LISTED) oct_strbuf_printf(&list->text, " and %zu more", list->count - LISTED);
  if (list->count) oct_warn(ctx, "%zu %s: %s", list->count, what, list->text.text ? list->text.text : "");
  oct_strbuf_free(&list->text);
}

/* Why the tensor cannot take the constant's place, into `why` (at least 2 * OCT_SHAPE_TEXT); NULL when it can. */
static const char *misfit(const oct_value *v, const oct_named_tensor *item, char *why, size_t size) {
  const oct_tensor *have = v->tensor, *given = item->tensor;
  char a[OCT_SHAPE_TEXT], b[OCT_SHAPE_TEXT];
  if (!oct_shape_equal(&have->shape, &given->shape)) {
    snprintf(why, size, "%s in the graph, %s in the checkpoint", oct_shape_text(&have->shape, a), oct_shape_text(&given->shape, b));
    return why;
  }
  bool given_float = oct_dtype_is_float(given->dtype), want_float = oct_dtype_is_float(v->dtype);
  if (v->quant && !item->quant) return "quantized in the graph, not in the checkpoint";
  if (item->quant && v->dtype != OCT_F32) return "quantized in the checkpoint, but no f32 in the graph";
  if (!item->quant && (given_float != want_float || (!want_float && given->dtype != v->dtype))) {
    snprintf(why, size, "%s in the graph, %s in the checkpoint", oct_dtype_name(v->dtype), oct_dtype_name(given->dtype));
    return why;
  }
  return NULL;
}

static octet_status put_tensor(octet_context *ctx, oct_graph *graph, oct_value *v, const oct_named_tensor *item) {
  if (item->quant) {
    OCT_TRY(oct_value_set_quant(ctx, graph, v, item->quant));
    oct_value_set_tensor(v, oct_tensor_retain(item->tensor));
    return OCTET_OK;
  }
  if (item->tensor->dtype == v->dtype) {
    oct_value_set_tensor(v, oct_tensor_retain(item->tensor));
    return OCTET_OK;
  }
  oct_tensor *converted;
  OCT_TRY(oct_tensor_cast(ctx, item->tensor, v->dtype, &converted));
  oct_value_set_tensor(v, converted);
  return OCTET_OK;
}

typedef struct lists {
  listing graph_only, checkpoint_only, misfits;
} lists;

static octet_status match_constants(octet_context *ctx, oct_graph *graph, const oct_bundle *bundle, bool *taken, oct_weights_report *report,
                                    lists *l) {
  for (size_t i = 0; i < graph->n_values; i++) {
    oct_value *v = graph->values[i];
    if (v->kind != OCT_CONSTANT) continue;
    const oct_named_tensor *item = oct_bundle_find(bundle, v->name);
    char why[2 * OCT_SHAPE_TEXT + 64];
    const char *reason = item ? misfit(v, item, why, sizeof why) : NULL;
    if (item) taken[item - bundle->items] = true;
    if (item && !reason) {
      OCT_TRY(put_tensor(ctx, graph, v, item));
      report->matched++;
    } else if (item) {
      list_name(&l->misfits, "%s (%s)", v->name, reason);
      report->misfits++;
    } else if (oct_shape_count(&v->tensor->shape) > SHORT_LIST && oct_dtype_is_float(v->dtype)) {
      list_name(&l->graph_only, "%s%s", v->name, "");
      report->graph_only++;
    }
  }
  return OCTET_OK;
}

static void list_untaken(const oct_bundle *bundle, const bool *taken, oct_weights_report *report, lists *l) {
  for (size_t i = 0; i < bundle->count; i++) {
    if (taken[i] || oct_is_torch_state(bundle->items[i].name)) continue;
    list_name(&l->checkpoint_only, "%s%s", bundle->items[i].name, "");
    report->checkpoint_only++;
  }
}

octet_status oct_model_apply_weights(octet_context *ctx, oct_graph *graph, const oct_bundle *bundle, oct_weights_report *report) {
  oct_weights_report own;
  if (!report) report = &own;
  *report = (oct_weights_report){0};
  bool *taken = oct_alloc(ctx, bundle->count + 1, sizeof *taken);
  if (!taken) return OCTET_OUT_OF_MEMORY;
  lists l = {{oct_strbuf_make(ctx), 0}, {oct_strbuf_make(ctx), 0}, {oct_strbuf_make(ctx), 0}};
  octet_status status = match_constants(ctx, graph, bundle, taken, report, &l);
  list_untaken(bundle, taken, report, &l);
  oct_free(taken);
  warn_list(ctx, &l.misfits, "tensor(s) of the checkpoint do not fit the constant of the same name, which was left as it is");
  warn_list(ctx, &l.graph_only, "constant(s) of the graph are not in the checkpoint, and were left as they are");
  warn_list(ctx, &l.checkpoint_only, "tensor(s) of the checkpoint have no constant of that name in the graph");
  if (status != OCTET_OK) return status;
  if (report->matched == 0)
    return oct_fail(ctx, OCTET_DATA, "none of the checkpoint's %zu tensors has the name and shape of a constant in the graph",
                    bundle->count);
  return oct_model_apply_quantized_state(ctx, graph, bundle);
}

octet_status oct_model_apply_quantized_state(octet_context *ctx, oct_graph *graph, const oct_bundle *bundle) {
  for (size_t i = 0; i < bundle->count; i++)
    if (bundle->items[i].quant) return oct_apply_torch_activations(ctx, graph, bundle);
  return OCTET_OK;
}
