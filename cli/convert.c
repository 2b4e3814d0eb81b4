/* octet convert: between formats.
 * SPDX-License-Identifier: MIT */
#include "cli.h"

static int run(cli *c, int argc, char **argv) {
  const char *weights = NULL, *no_pass = NULL;
  bool as_it_is = false;
  const cli_option options[] = {
      {"--weights", CLI_TEXT, (void *)&weights, "FILE", "put the tensors of this .pth, .npz or .npy onto the graph, by name"},
      {"--as-it-is", CLI_FLAG, &as_it_is, NULL, "no folding, no clean-up"},
      {"--no-pass", CLI_TEXT, (void *)&no_pass, "NAMES", "passes to leave out, comma-separated"},
      {0}};
  int status = cli_parse(c, argc, argv, options);
  if (status >= 0) return status;
  octet_model *model = NULL;
  octet_status result = octet_model_read(c->ctx, c->positional[0], weights, &model);
  if (result == OCTET_OK && !as_it_is) result = octet_model_optimize(model, no_pass);
  if (result == OCTET_OK) result = octet_model_write(model, c->positional[1]);
  status = result == OCTET_OK ? CLI_DONE : cli_fail(c, result);
  if (status == CLI_DONE) cli_warnings(c);
  octet_model_destroy(model);
  return status;
}

const cli_command cli_convert = {
    "convert",
    "between .onnx and .oct",
    "IN OUT [--weights W.pth]",
    "Reads IN, folds constants and batch normalizations, removes what is dead, and writes OUT in the format of its suffix.\n"
    ".oct is a text; its larger arrays go to a .npz beside it.",
    "  octet convert model.onnx model.oct\n  octet convert resnet20.onnx trained.onnx --weights resnet20-12fca82f.th",
    2,
    2,
    run};
