/* For tests of the library as octet.h shows it: a context, models and data, calls that must work and calls that must not.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_TESTS_API_CHECKS_H
#define OCT_TESTS_API_CHECKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "octet/octet.h"

#define MNIST OCTET_SOURCE_DIR "/examples/mnist/"
#define IMAGES MNIST "t10k-images-idx3-ubyte.gz"
#define LABELS MNIST "t10k-labels-idx1-ubyte.gz"

static octet_context *ctx;

static inline int setup(void **state) {
  (void)state;
  return octet_context_create(&ctx) == OCTET_OK ? 0 : -1;
}

static inline int teardown(void **state) {
  (void)state;
  octet_context_destroy(ctx);
  return 0;
}

#define check(call)                                                           \
  do {                                                                        \
    octet_status status_ = (call);                                            \
    if (status_ != OCTET_OK) print_error("%s\n", octet_context_message(ctx)); \
    assert_int_equal(status_, OCTET_OK);                                      \
  } while (0)

/* The call fails as it should, and the message has the word. */
#define refuses(status, word, call)                                                                                        \
  do {                                                                                                                     \
    assert_int_equal(call, status);                                                                                        \
    if (!strstr(octet_context_message(ctx), word)) print_error("\"%s\" lacks \"%s\"\n", octet_context_message(ctx), word); \
    assert_non_null(strstr(octet_context_message(ctx), word));                                                             \
  } while (0)

static inline octet_model *read_model(const char *path) {
  octet_model *model = NULL;
  check(octet_model_read(ctx, path, NULL, &model));
  return model;
}

static inline octet_dataset *open_digits(const octet_model *model, size_t count, uint64_t seed) {
  octet_dataset *data = NULL;
  check(octet_dataset_open(ctx, IMAGES, NULL, model, &data));
  check(octet_dataset_draw(data, count, seed));
  return data;
}

static inline void write_text(const char *path, const char *text) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

#endif
