/* octet compare: how far a quantized model is from its float form, output by output and layer by layer.
 * SPDX-License-Identifier: MIT */
#include <math.h>

#include "cli.h"

static json_t *decibels(double x) { return isnan(x) ? json_null() : isinf(x) ? json_string(x > 0 ? "inf" : "-inf") : json_real(x); }

static void print_json(const octet_comparison *r) {
  json_t *outputs = json_array(), *layers = json_array(), *islands = json_array(), *warnings = json_array();
  for (size_t i = 0; i < octet_comparison_output_count(r); i++) {
    octet_output_difference o = octet_comparison_output(r, i);
    json_array_append_new(outputs, cli_json("sof", "name", o.name, "sqnr_db", decibels(o.sqnr_db), "max_error", o.max_error));
  }
  for (size_t i = 0; i < octet_comparison_layer_count(r); i++) {
    octet_layer_difference l = octet_comparison_layer(r, i);
    json_t *o = cli_json("sssooo", "name", l.name, "op", l.op, "type", l.type, "sqnr_db", decibels(l.sqnr_db), "sqnr_alone_db",
                         decibels(l.sqnr_alone_db), "clipped", decibels(l.clipped));
    if (l.reason) json_object_set_new(o, "reason", cli_json_text(l.reason));
    json_array_append_new(layers, o);
    if (l.island) json_array_append_new(islands, cli_json_text(l.name));
  }
  for (size_t i = 0; i < octet_comparison_warning_count(r); i++)
    json_array_append_new(warnings, cli_json_text(octet_comparison_warning(r, i)));
  cli_print_json(cli_json("oooo", "outputs", outputs, "layers", layers, "float_islands", islands, "warnings", warnings));
}

static const char *decibel_text(double x, char text[32]) {
  if (isnan(x)) text[0] = 0;
  else if (isinf(x)) snprintf(text, 32, "%s", x > 0 ? "equal" : "-inf");
  else snprintf(text, 32, "%.1f", x);
  return text;
}

static void print_text(const octet_comparison *r) {
  char a[32], b[32], clipped[32];
  for (size_t i = 0; i < octet_comparison_output_count(r); i++) {
    octet_output_difference o = octet_comparison_output(r, i);
    printf("output %s: %s dB, largest difference %.6g\n", o.name, decibel_text(o.sqnr_db, a), o.max_error);
  }
  cli_table table = cli_table_make("lllrrrl");
  cli_table_row(&table, (const char *[]){"layer", "operator", "type", "SQNR dB", "alone dB", "clipped", "why float"});
  for (size_t i = 0; i < octet_comparison_layer_count(r); i++) {
    octet_layer_difference l = octet_comparison_layer(r, i);
    if (isnan(l.clipped)) clipped[0] = 0;
    else snprintf(clipped, sizeof clipped, "%.3f %%", 100 * l.clipped);
    cli_table_row(&table, (const char *[]){l.name, l.op, l.type, decibel_text(l.sqnr_db, a), decibel_text(l.sqnr_alone_db, b), clipped,
                                           l.reason ? l.reason : ""});
  }
  cli_table_print(&table, stdout);
  for (size_t i = 0; i < octet_comparison_warning_count(r); i++) printf("warning: %s\n", octet_comparison_warning(r, i));
}

/* Neither data nor accuracy: time, layer by layer. */
static octet_status compare_speed(cli *c, const octet_model *reference, const octet_model *quantized, double seconds) {
  octet_speed *speed = NULL;
  octet_status status = octet_compare_speed(reference, quantized, NULL, seconds, &speed);
  if (status != OCTET_OK) return status;
  cli_warnings(c);
  if (c->json) cli_print_json(cli_speed_json(speed));
  else cli_speed_print(speed);
  octet_speed_destroy(speed);
  return OCTET_OK;
}

/* Signal to noise on the samples of a data set. */
typedef struct accuracy_options {
  const char *data, *preprocess;
  size_t samples, seed;
} accuracy_options;

static octet_status compare_accuracy(cli *c, const octet_model *reference, const octet_model *quantized, const accuracy_options *o) {
  octet_dataset *data = NULL;
  octet_comparison *comparison = NULL;
  const char *preprocess = o->preprocess;
  if (!preprocess && !octet_model_metadata(reference, "preprocess")) preprocess = octet_model_metadata(quantized, "preprocess");
  octet_status status = octet_dataset_open(c->ctx, o->data, preprocess, reference, &data);
  if (status == OCTET_OK) status = octet_dataset_draw(data, o->samples, o->seed);
  if (status == OCTET_OK) status = octet_compare(reference, quantized, data, 0, &comparison);
  if (status == OCTET_OK) {
    cli_warnings(c);
    if (c->json) print_json(comparison);
    else print_text(comparison);
  }
  octet_comparison_destroy(comparison);
  octet_dataset_destroy(data);
  return status;
}

static int run(cli *c, int argc, char **argv) {
  bool speed = false;
  double seconds = 2;
  const char *weights = NULL;
  accuracy_options o = {.samples = 100};
  const cli_option options[] = {
      {"--data", CLI_TEXT, (void *)&o.data, "DATA", "F.npy, F.npz, an IDX file (.gz too) or a folder of images"},
      {"--samples", CLI_COUNT, &o.samples, "N", "how many of them, drawn at random (100; 0: all)"},
      {"--seed", CLI_COUNT, &o.seed, "N", "seed of the draw (0)"},
      {"--preprocess", CLI_TEXT, (void *)&o.preprocess, "SPEC", "how bytes become inputs (default: the float model's)"},
      {"--weights", CLI_TEXT, (void *)&weights, "FILE", "checkpoint for the float model"},
      {"--speed", CLI_FLAG, &speed, NULL, "time instead of accuracy: each layer in float and quantized (no data needed)"},
      {"--seconds", CLI_NUMBER, &seconds, "S", "how long to measure with --speed (2)"},
      {0}};
  int status = cli_parse(c, argc, argv, options);
  if (status >= 0) return status;
  if (!o.data && !speed) return cli_usage(c, "--data is needed, or --speed");
  octet_model *reference = NULL, *quantized = NULL;
  octet_status result = octet_model_read(c->ctx, c->positional[0], weights, &reference);
  if (result == OCTET_OK) result = octet_model_read(c->ctx, c->positional[1], NULL, &quantized);
  if (result == OCTET_OK) result = speed ? compare_speed(c, reference, quantized, seconds) : compare_accuracy(c, reference, quantized, &o);
  status = result == OCTET_OK ? CLI_DONE : cli_fail(c, result);
  octet_model_destroy(quantized);
  octet_model_destroy(reference);
  return status;
}

const cli_command cli_compare = {
    "compare",
    "signal-to-quantization-noise ratio, per output and per layer",
    "FLOAT QUANTIZED --data DATA [--samples N]",
    "Runs both models on the same samples. Per layer: the ratio of signal to quantization noise in decibels with everything before it "
    "quantized\n"
    "too, and with this layer alone quantized; the share of values that its range cuts off; and why it stayed in float, if it did.\n"
    "With --speed: how long each layer takes in float and quantized, and which ones quantization made slower.",
    "  octet compare model.onnx m8.onnx --data t10k-images-idx3-ubyte.gz --samples 200\n  octet compare model.onnx m8.onnx --data photos/ "
    "--json\n"
    "  octet compare model.onnx m8.onnx --speed",
    2,
    2,
    run};
