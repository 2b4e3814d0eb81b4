/* octet quantize: a smaller, faster form of a float model, and what that did.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

typedef struct quantize_arguments {
  const char *output, *mode, *observer, *io, *config, *calibration, *preprocess, *weights;
  bool per_tensor, symmetric, strict, keep_slower;
  double seconds;
  cli_list keep_float;
  size_t samples, seed, batch;
  double percentile;
} quantize_arguments;

static json_t *number_or_null(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *layer_json(const octet_quantized_layer *l) {
  json_t *o = cli_json("sssbbIoo", "name", l->name, "op", l->op, "type", l->type, "fused", l->fused, "island", l->island, "bytes",
                       (json_int_t)l->bytes, "weight_sqnr_db", number_or_null(l->weight_sqnr_db), "clipped", number_or_null(l->clipped));
  if (l->weights) json_object_set_new(o, "weights", cli_json_text(l->weights));
  if (l->reason) json_object_set_new(o, "reason", cli_json_text(l->reason));
  return o;
}

static json_t *value_json(const octet_model *model, size_t index) {
  static const char *const observers[] = {"minmax", "moving-average", "percentile", "kl", "mse"};
  octet_quantized_value v = octet_model_quantized_value(model, index);
  json_t *o = cli_json("sfffisoo", "name", v.name, "low", (double)v.low, "high", (double)v.high, "scale", (double)v.scale, "zero_point",
                       v.zero_point, "observer", v.observer, "clipped", number_or_null(v.clipped), "sqnr_db", number_or_null(v.sqnr_db));
  json_t *others = json_object();
  for (size_t k = 0; k < sizeof observers / sizeof *observers; k++) {
    double low, high, clipped, sqnr;
    if (!octet_model_quantized_alternative(model, index, observers[k], &low, &high, &clipped, &sqnr)) continue;
    json_object_set_new(others, observers[k],
                        cli_json("ffoo", "low", low, "high", high, "clipped", number_or_null(clipped), "sqnr_db", number_or_null(sqnr)));
  }
  json_object_set_new(o, "observers", others);
  return o;
}

/* ---- Layers that are slower in 8 bits ---- */

typedef struct slower_layer {
  char name[256];
  double float_ms, quantized_ms;
} slower_layer;

typedef struct slower_layers {
  slower_layer *layers;
  size_t count;
  double before_ms, after_ms; /* the whole model, all quantized and with these layers in float */
  bool kept;
} slower_layers;

static octet_status find_slower(const octet_model *model, const octet_model *quantized, double seconds, slower_layers *out) {
  octet_speed *speed = NULL;
  octet_status status = octet_compare_speed(model, quantized, NULL, seconds, &speed);
  if (status != OCTET_OK) return status;
  out->before_ms = octet_speed_quantized_ms(speed);
  out->layers = calloc(octet_speed_layer_count(speed) + 1, sizeof *out->layers);
  for (size_t i = 0; out->layers && i < octet_speed_layer_count(speed); i++) {
    octet_layer_speed l = octet_speed_layer(speed, i);
    if (!l.slower || strcmp(l.type, "float") == 0 || strlen(l.name) >= sizeof out->layers->name) continue;
    slower_layer *s = &out->layers[out->count++];
    snprintf(s->name, sizeof s->name, "%s", l.name);
    s->float_ms = l.reference_ms, s->quantized_ms = l.quantized_ms;
  }
  octet_speed_destroy(speed);
  return out->layers ? OCTET_OK : OCTET_OUT_OF_MEMORY;
}

/* Quantizes again with the slower layers in float; that form replaces the first where it is faster as a whole, conversions included. */
static octet_status keep_slower_float(const octet_model *model, octet_dataset *data, octet_quantize_options o, const quantize_arguments *a,
                                      slower_layers *slower, octet_model **quantized) {
  octet_status status = find_slower(model, *quantized, a->seconds, slower);
  if (status != OCTET_OK || slower->count == 0) return status;
  const char **names = calloc(slower->count + a->keep_float.count, sizeof *names);
  if (!names) return OCTET_OUT_OF_MEMORY;
  size_t n = 0;
  for (; n < a->keep_float.count; n++) names[n] = a->keep_float.items[n];
  for (size_t i = 0; i < slower->count; i++) names[n++] = slower->layers[i].name;
  o.keep_float = names;
  o.n_keep_float = n;
  octet_model *mixed = NULL;
  octet_speed *speed = NULL;
  status = octet_quantize(model, data, &o, &mixed);
  if (status == OCTET_OK) status = octet_compare_speed(*quantized, mixed, NULL, a->seconds, &speed);
  if (status == OCTET_OK) {
    slower->before_ms = octet_speed_reference_ms(speed);
    slower->after_ms = octet_speed_quantized_ms(speed);
    slower->kept = slower->after_ms < slower->before_ms;
  }
  if (slower->kept) {
    octet_model_destroy(*quantized);
    *quantized = mixed;
    mixed = NULL;
  }
  octet_speed_destroy(speed);
  octet_model_destroy(mixed);
  free(names);
  return status;
}

static json_t *slower_json(const slower_layers *slower) {
  json_t *list = json_array();
  for (size_t i = 0; i < slower->count; i++)
    json_array_append_new(list, cli_json("sffb", "name", slower->layers[i].name, "float_ms", slower->layers[i].float_ms, "quantized_ms",
                                         slower->layers[i].quantized_ms, "kept_float", slower->kept));
  return list;
}

static void print_slower(const slower_layers *slower) {
  for (size_t i = 0; i < slower->count; i++)
    printf("%s: slower in 8 bits, %.2f against %.2f us%s\n", slower->layers[i].name, 1e3 * slower->layers[i].quantized_ms,
           1e3 * slower->layers[i].float_ms, slower->kept ? ": kept in float" : "");
  if (slower->count == 0) printf("no layer is slower in 8 bits than in float\n");
  else if (slower->kept)
    printf("with these layers in float the model takes %.4f ms instead of %.4f ms\n", slower->after_ms, slower->before_ms);
  else
    printf("with these layers in float the whole model, with the conversions, would take %.4f ms instead of %.4f ms: they stay in 8 bits\n",
           slower->after_ms, slower->before_ms);
}

/* ---- Output ---- */

static void print_json(cli *c, const octet_model *original, const octet_model *model, const quantize_arguments *a,
                       const slower_layers *slower) {
  json_t *layers = json_array(), *values = json_array(), *warnings = json_array(), *islands = json_array();
  for (size_t i = 0; i < octet_model_quantized_layer_count(model); i++) {
    octet_quantized_layer l = octet_model_quantized_layer(model, i);
    json_array_append_new(layers, layer_json(&l));
    if (l.island) json_array_append_new(islands, cli_json_text(l.name));
  }
  for (size_t i = 0; i < octet_model_quantized_value_count(model); i++) json_array_append_new(values, value_json(model, i));
  for (size_t i = 0; i < octet_context_warning_count(c->ctx); i++)
    json_array_append_new(warnings, cli_json_text(octet_context_warning(c->ctx, i)));
  cli_print_json(cli_json("ssIIiooooo", "mode", a->mode, "output", a->output, "bytes_before",
                          (json_int_t)octet_model_weight_bytes(original), "bytes_after", (json_int_t)octet_model_weight_bytes(model),
                          "boundaries", octet_model_quantized_boundaries(model), "float_islands", islands, "layers", layers, "values",
                          values, "warnings", warnings, "slower", a->keep_slower ? slower_json(slower) : json_null()));
}

static void print_text(cli *c, const octet_model *original, const octet_model *model, const quantize_arguments *a) {
  char before[32], after[32];
  size_t total = octet_model_quantized_layer_count(model), quantized = 0;
  cli_table table = cli_table_make("lllrl");
  cli_table_row(&table, (const char *[]){"layer", "operator", "type", "bytes", "why"});
  for (size_t i = 0; i < total; i++) {
    octet_quantized_layer l = octet_model_quantized_layer(model, i);
    char bytes[32] = "";
    if (l.bytes) snprintf(bytes, sizeof bytes, "%zu", l.bytes);
    if (strcmp(l.type, "float") != 0) quantized++;
    if (!c->verbose && !l.reason && !l.bytes) continue;
    cli_table_row(&table, (const char *[]){l.name, l.op, l.type, bytes, l.reason ? l.reason : ""});
  }
  cli_table_print(&table, stdout);
  double from = (double)octet_model_weight_bytes(original), to = (double)octet_model_weight_bytes(model);
  printf("%zu of %zu layers %s; weights %s -> %s", quantized, total, a->mode, cli_bytes(from, before), cli_bytes(to, after));
  if (from > 0 && to > 0) printf(" (%.2f times smaller)", from / to);
  int boundaries = octet_model_quantized_boundaries(model);
  if (boundaries >= 0) printf("; %d integer/float boundar%s inside", boundaries, boundaries == 1 ? "y" : "ies");
  printf("\nwritten: %s\n", a->output);
}

static octet_status quantize(cli *c, const quantize_arguments *a) {
  slower_layers slower = {0};
  octet_model *model = NULL, *quantized = NULL;
  octet_dataset *data = NULL;
  octet_quantize_options o = octet_quantize_options_default();
  o.mode = a->mode;
  o.observer = a->observer;
  o.io = a->io;
  o.config = a->config;
  o.per_tensor = a->per_tensor;
  o.symmetric = a->symmetric;
  o.strict = a->strict;
  o.keep_float = a->keep_float.items;
  o.n_keep_float = a->keep_float.count;
  o.percentile = a->percentile;
  o.batch = a->batch;
  octet_status status = octet_model_read(c->ctx, c->positional[0], a->weights, &model);
  if (status == OCTET_OK && a->preprocess) status = octet_model_set_metadata(model, "preprocess", a->preprocess);
  if (status == OCTET_OK && a->calibration) status = octet_dataset_open(c->ctx, a->calibration, NULL, model, &data);
  if (status == OCTET_OK && data) status = octet_dataset_draw(data, a->samples, a->seed);
  if (status == OCTET_OK) status = octet_quantize(model, data, &o, &quantized);
  if (status == OCTET_OK && a->keep_slower) status = keep_slower_float(model, data, o, a, &slower, &quantized);
  if (status == OCTET_OK) status = octet_model_write(quantized, a->output);
  if (status == OCTET_OK) {
    if (c->json) print_json(c, model, quantized, a, &slower);
    cli_warnings(c);
    if (!c->json) print_text(c, model, quantized, a);
    if (!c->json && a->keep_slower) print_slower(&slower);
  }
  free(slower.layers);
  octet_dataset_destroy(data);
  octet_model_destroy(quantized);
  octet_model_destroy(model);
  return status;
}

static int run(cli *c, int argc, char **argv) {
  quantize_arguments a = {.mode = "int8", .io = "float", .samples = 1000, .seconds = 2};
  const cli_option options[] = {
      {"--output", CLI_TEXT, (void *)&a.output, "OUT", "the file to write, .onnx or .oct (-o)"},
      {"--mode", CLI_TEXT, (void *)&a.mode, "MODE", "int8 (static), dynamic, weight-only, fp16 (int8)"},
      {"--calibration", CLI_TEXT, (void *)&a.calibration, "DATA", "what the model will see: F.npy, F.npz, IDX, folder of images"},
      {"--samples", CLI_COUNT, &a.samples, "N", "how many of them, drawn at random (1000; 0: all)"},
      {"--seed", CLI_COUNT, &a.seed, "N", "seed of the draw (0)"},
      {"--preprocess", CLI_TEXT, (void *)&a.preprocess, "SPEC", "how bytes become inputs; kept in the written model"},
      {"--observer", CLI_TEXT, (void *)&a.observer, "NAME", "minmax, moving-average, percentile, kl, mse (minmax)"},
      {"--percentile", CLI_NUMBER, &a.percentile, "P", "of the percentile observer (99.99)"},
      {"--per-tensor", CLI_FLAG, &a.per_tensor, NULL, "one weight scale per layer, not per output channel"},
      {"--symmetric", CLI_FLAG, &a.symmetric, NULL, "activations with the zero point in the middle"},
      {"--io", CLI_TEXT, (void *)&a.io, "TYPE", "inputs and outputs: float, int8, uint8 (float)"},
      {"--strict", CLI_FLAG, &a.strict, NULL, "fail, with the list, if an operator would stay float"},
      {"--keep-float", CLI_LIST, &a.keep_float, "NAME", "keep this layer (or value) in float; repeat for more"},
      {"--keep-slower-float", CLI_FLAG, &a.keep_slower, NULL, "time each layer, and keep those in float that 8 bits make slower"},
      {"--seconds", CLI_NUMBER, &a.seconds, "S", "how long to measure for that (2)"},
      {"--config", CLI_TEXT, (void *)&a.config, "FILE",
       "per-layer settings in JSON: {\"PATTERN\": {\"mode\", \"observer\", \"scale\", ...}}"},
      {"--weights", CLI_TEXT, (void *)&a.weights, "W.pth", "put the tensors of this checkpoint onto the graph first"},
      {"--batch", CLI_COUNT, &a.batch, "N", "samples per calibration run (chosen)"},
      {0}};
  int status = cli_parse(c, argc, argv, options);
  if (status >= 0) return status;
  if (!a.output) return cli_usage(c, "-o OUT is needed");
  octet_status result = quantize(c, &a);
  return result == OCTET_OK ? CLI_DONE : cli_fail(c, result);
}

const cli_command cli_quantize = {
    "quantize",
    "make an int8, dynamic, weight-only or fp16 form",
    "IN -o OUT [--mode MODE] [--calibration DATA]",
    "Folds and cleans up, runs the float model over calibration samples, chooses scales, and writes the quantized model. Every layer that\n"
    "stays in float is listed with the reason, and so are the conversions between integers and floats that this leaves inside the graph.",
    "  octet quantize model.onnx -o m8.onnx --calibration train-images-idx3-ubyte.gz --samples 1000\n"
    "  octet quantize model.onnx -o m8.onnx --calibration photos/ --preprocess \"scale=1 mean=127 std=128\" --observer mse\n"
    "  octet quantize model.onnx -o m8.onnx --calibration photos/ --keep-slower-float\n"
    "  octet quantize model.onnx -o small.onnx --mode weight-only",
    1,
    1,
    run};
