/* octet eval: accuracy on labelled data.
 * SPDX-License-Identifier: MIT */
#include "cli.h"

static int run(cli *c, int argc, char **argv) {
  const char *data_path = NULL, *labels = NULL, *preprocess = NULL, *weights = NULL, *no_fuse = NULL;
  bool exact_float = false;
  cli_making making = {0};
  size_t limit = 0, batch = 0;
  const cli_option options[] = {
      {"--data", CLI_TEXT, (void *)&data_path, "DATA", "F.npy, F.npz, an IDX file (.gz too) or a folder of images"},
      {"--labels", CLI_TEXT, (void *)&labels, "LABELS", "IDX, .npy, a TSV of file name and classes; default: the folder's sub-folders"},
      {"--preprocess", CLI_TEXT, (void *)&preprocess, "SPEC",
       "\"scale=1/255 mean=.. std=.. color=rgb resize=256 crop=224\" (default: the model's)"},
      {"--limit", CLI_COUNT, &limit, "N", "only the first N samples"},
      {"--batch", CLI_COUNT, &batch, "N", "samples per run (chosen)"},
      {"--weights", CLI_TEXT, (void *)&weights, "FILE", "take the weights from this .pth, .npz or .npy"},
      {"--no-fuse", CLI_TEXT, (void *)&no_fuse, "NAMES",
       "leave these out: residual, activation, table, bias, transpose, attention, strips, all (fusions), or passes; comma-separated"},
      {"--exact-float", CLI_FLAG, &exact_float, NULL, "float convolutions by direct sums only: closer to exact, slower"},
      CLI_MAKING_OPTIONS(making),
      {0}};
  int status = cli_parse(c, argc, argv, options);
  if (status >= 0) return status;
  if (!data_path) return cli_usage(c, "--data is needed");
  octet_model *model = NULL;
  octet_dataset *data = NULL;
  octet_accuracy a = {0};
  octet_session_options o = octet_session_options_default();
  o.batch = (int64_t)batch;
  if (!cli_making_apply(c, &making, &o)) return CLI_USAGE;
  o.no_fuse = no_fuse;
  o.exact_float = exact_float;
  octet_status result = octet_model_read(c->ctx, c->positional[0], weights, &model);
  if (result == OCTET_OK) result = octet_dataset_open(c->ctx, data_path, preprocess, model, &data);
  if (result == OCTET_OK) result = octet_evaluate(model, data, labels, limit, &o, &a);
  if (result == OCTET_OK) {
    cli_warnings(c);
    if (c->json)
      cli_print_json(cli_json("IIfff", "correct", (json_int_t)a.correct, "total", (json_int_t)a.total, "top1", a.top1, "top5", a.top5,
                              "images_per_second", a.images_per_second));
    else
      printf("top-1 %zu of %zu (%.2f %%), top-5 %.2f %%, %.0f images per second\n", a.correct, a.total, 100 * a.top1, 100 * a.top5,
             a.images_per_second);
  }
  status = result == OCTET_OK ? CLI_DONE : cli_fail(c, result);
  octet_dataset_destroy(data);
  octet_model_destroy(model);
  return status;
}

const cli_command cli_eval = {
    "eval",
    "top-1 and top-5 on labelled data",
    "MODEL --data DATA [--labels LABELS] [--limit N]",
    "Runs the model over the data and counts how often the largest output (the lowest index on ties) is the label.",
    "  octet eval examples/mnist/mnist.oct --data examples/mnist/t10k-images-idx3-ubyte.gz --labels "
    "examples/mnist/t10k-labels-idx1-ubyte.gz\n"
    "  octet eval model.onnx --data photos/ --labels labels.tsv --preprocess \"scale=1 mean=127 std=128\"",
    1,
    1,
    run};
