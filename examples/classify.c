/* Classifies test digits with the MNIST network, in float and in 8 bits: the three calls that most programs need, then quantization.
 *   cc classify.c $(pkg-config --cflags --libs octet) -o classify && ./classify examples/mnist/mnist.oct
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <octet/octet.h>

#define DIGITS 5

/* The file beside the model. */
static void beside(const char *model, const char *name, char *path, size_t size) {
  const char *slash = strrchr(model, '/');
  snprintf(path, size, "%.*s%s", slash ? (int)(slash - model + 1) : 0, model, name);
}

static void print_scores(octet_tensor scores) {
  const float *row = scores.data;
  for (int64_t n = 0; n < scores.dims[0]; n++, row += scores.dims[1]) {
    int64_t best = 0;
    for (int64_t k = 1; k < scores.dims[1]; k++)
      if (row[k] > row[best]) best = k;
    printf("  digit %lld is a %lld:", (long long)n, (long long)best);
    for (int64_t k = 0; k < scores.dims[1]; k++) printf(" %6.1f", (double)row[k]);
    printf("\n");
  }
}

/* Runs the model on the first digits of the test set. */
static octet_status classify(const octet_model *model, octet_dataset *digits, const char *title) {
  octet_session *session = NULL;
  octet_session_options options = octet_session_options_default();
  options.batch = DIGITS;
  octet_status status = octet_session_create(model, &options, &session);
  if (status == OCTET_OK) status = octet_dataset_fill(digits, 0, DIGITS, session); /* or write to octet_session_input(session, 0).data */
  if (status == OCTET_OK) status = octet_session_run(session);
  if (status == OCTET_OK) {
    printf("%s, %zu bytes of weights:\n", title, octet_session_weight_bytes(session));
    print_scores(octet_session_output(session, 0));
  }
  octet_session_destroy(session);
  return status;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: classify MODEL   (examples/mnist/mnist.oct, the digits beside it)\n");
    return 2;
  }
  octet_context *ctx = NULL;
  octet_model *model = NULL, *quantized = NULL;
  octet_dataset *digits = NULL, *training = NULL;
  char images[4096], training_images[4096];
  beside(argv[1], "t10k-images-idx3-ubyte.gz", images, sizeof images);
  beside(argv[1], "train10k-images-idx3-ubyte.gz", training_images, sizeof training_images);

  octet_status status = octet_context_create(&ctx);
  if (status == OCTET_OK) status = octet_model_read(ctx, argv[1], NULL, &model);
  if (status == OCTET_OK) status = octet_dataset_open(ctx, images, NULL, model, &digits);
  if (status == OCTET_OK) status = classify(model, digits, "float");

  if (status == OCTET_OK) status = octet_dataset_open(ctx, training_images, NULL, model, &training);
  if (status == OCTET_OK) status = octet_dataset_draw(training, 500, 0); /* calibration samples */
  if (status == OCTET_OK) status = octet_quantize(model, training, NULL, &quantized);
  if (status == OCTET_OK) status = classify(quantized, digits, "int8");

  if (status != OCTET_OK) fprintf(stderr, "classify: %s\n", octet_context_message(ctx));
  octet_dataset_destroy(training);
  octet_dataset_destroy(digits);
  octet_model_destroy(quantized);
  octet_model_destroy(model);
  octet_context_destroy(ctx); /* last */
  return status == OCTET_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
