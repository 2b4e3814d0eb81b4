/* octet inspect: what is in a model.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "cli.h"

static json_t *port_json(octet_tensor t) { return cli_json("sso", "name", t.name, "dtype", t.dtype, "shape", cli_json_dims(&t)); }

static json_t *layer_json(const octet_layer *l) {
  octet_tensor out = {.rank = l->rank};
  memcpy(out.dims, l->dims, sizeof out.dims);
  json_t *o = cli_json("sssofIIs", "name", l->name, "op", l->op, "dtype", l->dtype, "shape", cli_json_dims(&out), "macs", l->macs,
                       "parameters", (json_int_t)l->parameters, "bytes", (json_int_t)l->bytes, "type", l->type);
  if (l->kernel) json_object_set_new(o, "kernel", cli_json_text(l->kernel));
  if (l->fused_into) json_object_set_new(o, "fused_into", cli_json_text(l->fused_into));
  if (l->choice) json_object_set_new(o, "choice", cli_json_text(l->choice));
  if (l->reason) json_object_set_new(o, "reason", cli_json_text(l->reason));
  return o;
}

static void print_json(const octet_model *model, const octet_session *session) {
  json_t *inputs = json_array(), *outputs = json_array(), *operators = json_array();
  double macs = 0;
  for (size_t i = 0; i < octet_model_input_count(model); i++) json_array_append_new(inputs, port_json(octet_model_input(model, i)));
  for (size_t i = 0; i < octet_model_output_count(model); i++) json_array_append_new(outputs, port_json(octet_model_output(model, i)));
  for (size_t i = 0; i < octet_session_layer_count(session); i++) {
    octet_layer l = octet_session_layer(session, i);
    macs += l.macs;
    json_array_append_new(operators, layer_json(&l));
  }
  cli_print_json(cli_json("oooIfIIi", "inputs", inputs, "outputs", outputs, "operators", operators, "parameters",
                          (json_int_t)octet_model_parameter_count(model), "macs", macs, "bytes",
                          (json_int_t)octet_model_weight_bytes(model), "arena_bytes", (json_int_t)octet_session_arena_bytes(session),
                          "boundaries", octet_session_boundary_count(session)));
}

static void print_text(const cli *c, const octet_model *model, const octet_session *session) {
  char dims[128], bytes[32];
  for (size_t i = 0; i < octet_model_input_count(model); i++) {
    octet_tensor t = octet_model_input(model, i);
    printf("input   %s  %s %s\n", t.name, t.dtype, cli_dims(t.dims, t.rank, dims));
  }
  for (size_t i = 0; i < octet_model_output_count(model); i++) {
    octet_tensor t = octet_model_output(model, i);
    printf("output  %s  %s %s\n", t.name, t.dtype, cli_dims(t.dims, t.rank, dims));
  }
  cli_table table = cli_table_make("llllrrrl");
  cli_table_row(&table, (const char *[]){"layer", "operator", "type", "output", "MACs", "parameters", "bytes",
                                         c->verbose ? "kernel, reasons" : "kernel"});
  double macs = 0;
  for (size_t i = 0; i < octet_session_layer_count(session); i++) {
    octet_layer l = octet_session_layer(session, i);
    char shape[192], count[32] = "", parameters[32] = "", size[32] = "", kernel[2800];
    snprintf(shape, sizeof shape, "%s %s", l.dtype, cli_dims(l.dims, l.rank, dims));
    if (l.macs > 0) snprintf(count, sizeof count, "%.0f", l.macs);
    if (l.parameters) snprintf(parameters, sizeof parameters, "%zu", l.parameters);
    if (l.bytes) snprintf(size, sizeof size, "%zu", l.bytes);
    const char *reason = c->verbose && l.reason ? l.reason : "", *choice = c->verbose && l.choice && !l.fused_into ? l.choice : "";
    snprintf(kernel, sizeof kernel, "%s%s%s%s%s%s", l.fused_into ? "in " : "",
             l.fused_into ? l.fused_into
             : l.kernel   ? l.kernel
                          : "-",
             *reason ? ": " : "", reason, *choice ? ": " : "", choice);
    macs += l.macs;
    cli_table_row(&table, (const char *[]){l.name, l.op, l.type, shape, count, parameters, size, kernel});
  }
  cli_table_print(&table, stdout);
  printf("%zu parameters, %s of weights, %.0f MACs, %d integer/float boundaries inside\n", octet_model_parameter_count(model),
         cli_bytes((double)octet_model_weight_bytes(model), bytes), macs, octet_session_boundary_count(session));
}

static int run(cli *c, int argc, char **argv) {
  size_t batch = 0;
  const char *weights = NULL;
  cli_making making = {0};
  const cli_option options[] = {{"--batch", CLI_COUNT, &batch, "N", "batch size for the shapes shown (as declared, else 1)"},
                                {"--weights", CLI_TEXT, (void *)&weights, "FILE", "take the weights from this .pth, .npz or .npy"},
                                CLI_MAKING_OPTIONS(making),
                                {0}};
  int status = cli_parse(c, argc, argv, options);
  if (status >= 0) return status;
  octet_model *model = NULL;
  octet_session *session = NULL;
  octet_session_options o = octet_session_options_default();
  o.batch = (int64_t)batch;
  if (!cli_making_apply(c, &making, &o)) return CLI_USAGE;
  octet_status result = octet_model_read(c->ctx, c->positional[0], weights, &model);
  if (result == OCTET_OK) result = octet_session_create(model, &o, &session);
  if (result == OCTET_OK) {
    cli_warnings(c);
    if (c->json) print_json(model, session);
    else print_text(c, model, session);
  }
  status = result == OCTET_OK ? CLI_DONE : cli_fail(c, result);
  octet_session_destroy(session);
  octet_model_destroy(model);
  return status;
}

const cli_command cli_inspect = {
    "inspect",
    "inputs, outputs, operators, shapes, parameters, multiply-accumulates, bytes",
    "MODEL [--batch N] [--json]",
    "Shows the model as Octet runs it: one row per operator with its type (int8, float, ...), output, cost, and the kernel\n"
    "that runs it, or the layer into whose step it is fused. -v adds the reasons:\n"
    "what else could run it, how long each took when it was timed or is estimated to take, and what refuses its weights.",
    "  octet inspect model.onnx\n  octet inspect examples/mnist/mnist.oct --json",
    1,
    1,
    run};
