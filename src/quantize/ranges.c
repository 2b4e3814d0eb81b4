/* From ranges to 8-bit parameters: where each needed value's range comes from, what makes a range unusable, and the concatenations whose
 * parts are too different for one scale.
 * SPDX-License-Identifier: MIT */
#include "base/threads.h"
#include "quantize/calibration.h"

#define UNUSABLE_RANGE 1e30   /* beyond, products with weights may leave float32 */
#define TINY_RANGE 1e-12      /* below, a range is suspect and reported */
#define DIFFERENT_RANGES 16.0 /* parts of a concatenation that differ more do not share a scale at a result of the graph */

oct_parameters oct_parameters_of(oct_range range, bool symmetric) {
  oct_parameters p = {.set = true, .scale = 1, .zero_point = symmetric ? 128 : 0};
  if (symmetric) {
    double reach = fmax(-range.low, range.high);
    if (reach > 0) p.scale = (float)(reach / 127);
  } else if (range.high > range.low) {
    p.scale = (float)((range.high - range.low) / 255);
  }
  if (!(p.scale >= OCT_SMALLEST_SCALE)) p.scale = OCT_SMALLEST_SCALE;
  if (!symmetric) p.zero_point = (int32_t)rint(fmin(fmax(-range.low / (double)p.scale, 0), 255));
  return p;
}

/* The value whose parameters `v` takes over: through integer nodes that keep their input's scale. */
static const oct_value *source_of(const oct_calibration *c, const oct_value *v) {
  while (v->producer && c->nodes[v->producer->id].integer && v->producer->op->quantization.output == OCT_OUTPUT_SAME &&
         v->producer->inputs[0] && v->producer->inputs[0]->dtype == OCT_F32)
    v = v->producer->inputs[0];
  return v;
}

static octet_status never_observed(const oct_calibration *c, const oct_value *v) {
  if (c->samples == 0)
    return oct_fail(c->ctx, OCTET_DATA, "calibration: no samples were observed; static int8 needs some (\"%s\" and others have no range)",
                    v->name);
  return oct_fail(c->ctx, OCTET_DATA,
                  "calibration: \"%s\" is needed in 8 bits, but no value of it was observed; give samples that reach it, or keep it float",
                  v->name);
}

/* ---- Suspect ranges ----------------------------------------------------------------------------------------------- */

static octet_status judge_range(oct_conversion *k, const oct_value *v, const oct_observer *o, oct_range range) {
  octet_context *ctx = k->calibration->ctx;
  if (o->low == 0 && o->high == 0)
    return oct_report_warn(ctx, k->report, "\"%s\": only zeros were observed; scale 1 is used, other values will be wrong", v->name);
  if (o->low == o->high)
    return oct_report_warn(ctx, k->report,
                           "\"%s\": only the value %g was observed; the range [%g, %g] is used, other values will be clipped", v->name,
                           (double)o->low, range.low, range.high);
  if (range.high - range.low < TINY_RANGE)
    return oct_report_warn(ctx, k->report, "\"%s\": the observed range [%g, %g] is tiny; check the calibration samples", v->name, range.low,
                           range.high);
  return OCTET_OK;
}

static octet_status report_value(oct_conversion *k, const oct_value *v, oct_range range, oct_parameters p, const char *source) {
  oct_calibration *c = k->calibration;
  oct_quantize_report *r = k->report;
  const oct_observer *o = c->values[v->id].observer;
  OCT_TRY(oct_grow(c->ctx, &r->values, &r->values_capacity, r->n_values + 1, sizeof *r->values));
  oct_value_report *entry = &r->values[r->n_values];
  *entry = (oct_value_report){
      .name = oct_region_strdup(c->ctx, &r->region, v->name), .scale = p.scale, .zero_point = p.zero_point, .observer = source};
  if (!entry->name) return OCTET_OUT_OF_MEMORY;
  r->n_values++;
  entry->chosen.range = range;
  entry->chosen.effect = (oct_range_effect){.clipped = NAN, .sqnr_db = NAN};
  for (int i = 0; i < OCT_OBSERVER_KINDS; i++) entry->by_observer[i].effect = entry->chosen.effect;
  if (!o || o->count == 0) return OCTET_OK;
  entry->low = o->low, entry->high = o->high;
  return OCTET_OK;
}

typedef struct effects {
  const oct_calibration *calibration;
  oct_quantize_report *report;
} effects;

static void fill_effects(void *user, size_t begin, size_t end, size_t worker) {
  const effects *e = user;
  const oct_calibration *c = e->calibration;
  (void)worker;
  for (size_t i = begin; i < end; i++) {
    oct_value_report *entry = &e->report->values[i];
    const oct_value *v = oct_graph_find(c->graph, entry->name);
    const oct_observer *o = v ? c->values[v->id].observer : NULL;
    if (!o || o->count == 0) continue;
    entry->chosen.effect = oct_observer_effect(o, entry->chosen.range);
    for (int k = 0; k < OCT_OBSERVER_KINDS; k++) {
      oct_range_choice *choice = &entry->by_observer[k];
      choice->range = oct_observer_range(o, (oct_observer_kind)k, &c->options.observers, c->options.symmetric);
      choice->effect = oct_observer_effect(o, choice->range);
    }
  }
}

/* ---- One value ----------------------------------------------------------------------------------------------------- */

static oct_range content_range(const oct_tensor *t) {
  oct_range range = {0, 0};
  int64_t count = oct_shape_count(&t->shape);
  for (int64_t i = 0; i < count; i++) {
    double x = oct_get_f64(t->data, t->dtype, i);
    if (x < range.low) range.low = x;
    if (x > range.high) range.high = x;
  }
  return range;
}

/* The extremes of a sample fall short of what the layer will meet, and differ from draw to draw. Each end is moved out to the next of
 * eight steps per octave, so that unseen data have some room and draws of one population mostly give the same scale. */
static double next_step(double x) {
  int exponent;
  double mantissa = frexp(fabs(x), &exponent);
  return copysign(ldexp(ceil(mantissa * 16 - 1e-9) / 16, exponent), x);
}

static oct_range with_headroom(oct_range range) {
  if (range.low < 0) range.low = next_step(range.low);
  if (range.high > 0) range.high = next_step(range.high);
  return range;
}

static oct_range given_range(const oct_value_choice *choice, const oct_parameters *p) {
  return (oct_range){-(double)p->zero_point * (double)choice->scale, (255 - (double)p->zero_point) * (double)choice->scale};
}

static oct_parameters given_parameters(const oct_calibration *c, const oct_value_choice *choice) {
  bool negative = choice->observer && choice->observer->count && choice->observer->low < 0;
  oct_parameters p = {.set = true, .scale = choice->scale, .zero_point = negative || c->options.symmetric ? 128 : 0};
  if (choice->has_zero_point) p.zero_point = choice->zero_point;
  return p;
}

/* Parameters of a value that takes them from nobody. *blocked: its range cannot be used. */
static octet_status choose_own(oct_conversion *k, const oct_value *v, bool *blocked) {
  oct_calibration *c = k->calibration;
  oct_value_choice *choice = &c->values[v->id];
  oct_parameters *p = &k->parameters[v->id];
  const oct_quantization_rule *rule = v->producer ? &v->producer->op->quantization : NULL;
  oct_range range;
  const char *source;
  if (choice->has_scale) {
    *p = given_parameters(c, choice);
    return report_value(k, v, given_range(choice, p), *p, "given");
  }
  if (v->kind == OCT_CONSTANT) {
    OCT_TRY(oct_check_finite(c->ctx, v));
    range = content_range(v->tensor);
    source = "content";
  } else if (rule && rule->output == OCT_OUTPUT_FIXED) {
    range = (oct_range){fmin((double)rule->fixed_low, 0), fmax((double)rule->fixed_high, 0)};
    source = "fixed";
  } else {
    if (!choice->observer || choice->observer->count == 0) return never_observed(c, v);
    range = oct_observer_range(choice->observer, choice->kind, &c->options.observers, c->options.symmetric);
    if (choice->kind == OCT_OBSERVER_MINMAX && v->kind != OCT_INPUT) range = with_headroom(range);
    source = oct_observer_kind_name(choice->kind);
    if (range.high - range.low > UNUSABLE_RANGE) {
      *blocked = true;
      choice->blocked = "its range is too wide for 8 bits";
      return oct_report_warn(c->ctx, k->report, "\"%s\" is kept float: its observed range [%g, %g] is too wide for 8 bits", v->name,
                             range.low, range.high);
    }
    OCT_TRY(judge_range(k, v, choice->observer, range));
  }
  *p = oct_parameters_of(range, c->options.symmetric);
  return report_value(k, v, range, *p, source);
}

static octet_status choose_value(oct_conversion *k, const oct_value *v, bool *blocked) {
  oct_calibration *c = k->calibration;
  const oct_value *source = source_of(c, v);
  if (source != v && c->values[v->id].has_scale) source = v; /* by hand: the node maps to the given scale */
  if (!k->parameters[source->id].set) OCT_TRY(choose_own(k, source, blocked));
  if (!*blocked) k->parameters[v->id] = k->parameters[source->id];
  return OCTET_OK;
}

/* ---- Concatenations -------------------------------------------------------------------------------------------------- */

static double reach_of(const oct_calibration *c, const oct_value *v) {
  if (v->kind == OCT_CONSTANT) {
    oct_range range = content_range(v->tensor);
    return fmax(-range.low, range.high);
  }
  for (; v; v = v->producer && v->producer->op->quantization.output == OCT_OUTPUT_SAME ? v->producer->inputs[0] : NULL) {
    const oct_observer *o = c->values[v->id].observer;
    if (o && o->count) return fmax(-(double)o->low, (double)o->high);
    if (v->producer && v->producer->op->quantization.output == OCT_OUTPUT_FIXED)
      return fmax((double)-v->producer->op->quantization.fixed_low, (double)v->producer->op->quantization.fixed_high);
  }
  return 0;
}

/* How many times the widest part's reach is that of the narrowest (parts that are zero throughout do not count). */
static double spread_of(const oct_calibration *c, const oct_node *node) {
  double low = INFINITY, high = 0;
  for (int i = 0; i < node->n_inputs; i++) {
    double reach = node->inputs[i] && node->inputs[i]->dtype == OCT_F32 ? reach_of(c, node->inputs[i]) : 0;
    if (!(reach > 0)) continue;
    low = fmin(low, reach), high = fmax(high, reach);
  }
  return high > 0 ? high / low : 1;
}

static bool joins_results(const oct_calibration *c, const oct_node *node) {
  if (!oct_node_joins(node)) return false;
  const oct_value *v = node->outputs[0];
  for (int depth = 0; v && depth < 16; depth++) { /* through one chain of movements to a result of the graph */
    if (oct_use_count(&c->uses, v) != 1) return false;
    const oct_node *user = c->uses.uses[c->uses.first[v->id]].node;
    if (!user) return true;
    if (!oct_node_has(user, OCT_TRAIT_MOVEMENT)) return false;
    v = user->outputs[0];
  }
  return false;
}

static octet_status judge_join(oct_conversion *k, const oct_node *node, bool *changed) {
  oct_calibration *c = k->calibration;
  oct_node_choice *choice = &c->nodes[node->id];
  double spread = spread_of(c, node);
  if (spread < DIFFERENT_RANGES || choice->by_request || choice->forced) return OCTET_OK;
  choice->forced = oct_region_printf(c->ctx, &c->region,
                                     "the ranges of its inputs differ %.3g times: in one 8-bit scale the smaller would be lost", spread);
  if (!choice->forced) return OCTET_OUT_OF_MEMORY;
  for (oct_value *v = node->outputs[0]; v; v = oct_use_count(&c->uses, v) == 1 && c->uses.uses[c->uses.first[v->id]].node
                                                   ? c->uses.uses[c->uses.first[v->id]].node->outputs[0]
                                                   : NULL)
    c->values[v->id].blocked = "it joins results of very different ranges";
  *changed = true;
  return oct_report_warn(c->ctx, k->report, "\"%s\" (%s) is kept float: %s", node->name, node->op->name, choice->forced);
}

octet_status oct_ranges_choose(oct_conversion *k, bool *changed) {
  oct_calibration *c = k->calibration;
  *changed = false;
  for (size_t i = 0; i < c->graph->n_nodes; i++)
    if (joins_results(c, c->graph->nodes[i])) OCT_TRY(judge_join(k, c->graph->nodes[i], changed));
  if (*changed) return OCTET_OK;
  for (size_t i = 0; i < c->graph->n_values; i++) {
    const oct_value *v = c->graph->values[i];
    bool blocked = false;
    if (c->values[i].needed) OCT_TRY(choose_value(k, v, &blocked));
    *changed = *changed || blocked;
  }
  if (!*changed) oct_parallel(c->ctx, k->report->n_values, 1, fill_effects, &(effects){c, k->report});
  return OCTET_OK;
}
