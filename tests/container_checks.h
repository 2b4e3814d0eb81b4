/* Shared by the tests of file formats: where test data lies, and reading damaged copies or with failing allocations.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_TESTS_CONTAINER_CHECKS_H
#define OCT_TESTS_CONTAINER_CHECKS_H

#include "context_checks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

/* A file of the project's own test data. The text lives until the next call but three. */
static inline const char *data_path(const char *name) {
  static char text[4][1024];
  static int turn;
  turn = (turn + 1) % 4;
  snprintf(text[turn], sizeof text[turn], "%s/tests/data/%s", OCTET_SOURCE_DIR, name);
  return text[turn];
}

/* A file beside the project, or NULL (and a line of output) when it is not there. */
static inline const char *shared_path(const char *name) {
  static char text[4][1024];
  static int turn;
  turn = (turn + 1) % 4;
  snprintf(text[turn], sizeof text[turn], "%s/../shared/data/%s", OCTET_SOURCE_DIR, name);
  if (access(text[turn], R_OK) == 0) return text[turn];
  printf("skipped: ../shared/data/%s is not there\n", name);
  return NULL;
}

/* Reads a file's bytes from memory and frees the result; the status is not judged. */
typedef octet_status (*read_bytes_fn)(octet_context *ctx, oct_bytes bytes);

/* Every truncation, and every byte changed in two ways: no crash, no leak (sanitizers watch), a message with each failure.
 * The copy has exactly the size that the reader is told. */
static inline void check_damaged(octet_context *ctx, const char *path, read_bytes_fn read) {
  oct_file *file;
  assert_int_equal(oct_file_open(ctx, path, &file), OCTET_OK);
  oct_bytes whole = oct_file_bytes(file);
  assert_true(whole.size > 0 && whole.size < 100000);
  for (size_t size = 0; size < whole.size; size++) {
    uint8_t *copy = malloc(size ? size : 1);
    if (size) memcpy(copy, whole.data, size);
    octet_status status = read(ctx, (oct_bytes){copy, size});
    if (status != OCTET_OK) assert_true(*ctx->message);
    free(copy);
  }
  uint8_t *copy = malloc(whole.size);
  memcpy(copy, whole.data, whole.size);
  for (size_t at = 0; at < whole.size; at++) {
    copy[at] ^= (uint8_t)(1u << at % 8);
    (void)read(ctx, (oct_bytes){copy, whole.size});
    copy[at] = whole.data[at] ? 0x00 : 0xff;
    (void)read(ctx, (oct_bytes){copy, whole.size});
    copy[at] = whole.data[at];
  }
  assert_int_equal(read(ctx, (oct_bytes){copy, whole.size}), OCTET_OK);
  free(copy);
  oct_file_close(file);
}

/* Lets the n-th allocation fail, for every n, until reading succeeds. */
static inline void check_allocations(octet_context *ctx, const char *path, read_bytes_fn read) {
  oct_file *file;
  assert_int_equal(oct_file_open(ctx, path, &file), OCTET_OK);
  octet_status status = OCTET_OUT_OF_MEMORY;
  for (int64_t n = 0; status != OCTET_OK; n++) {
    assert_true(n < 100000);
    ctx->allocations_left = n;
    status = read(ctx, oct_file_bytes(file));
    ctx->allocations_left = -1;
    assert_true(status == OCTET_OK || status == OCTET_OUT_OF_MEMORY);
  }
  oct_file_close(file);
}

#endif
