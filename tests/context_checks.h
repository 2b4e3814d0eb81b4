/* What tests that need a context share: one for the whole program, its making and end as cmocka wants them, check(), and a folder for files.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_TESTS_CONTEXT_CHECKS_H
#define OCT_TESTS_CONTEXT_CHECKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"

static octet_context *ctx;

static inline int context_create(void **state) {
  (void)state;
  return oct_context_create(&ctx) == OCTET_OK ? 0 : -1;
}

static inline int context_destroy(void **state) {
  (void)state;
  oct_context_destroy(ctx);
  return 0;
}

/* A new folder for a test's files; `path` has room for 256 bytes. */
static inline bool folder_create(char *path) {
  const char *tmp = getenv("TMPDIR");
  snprintf(path, 256, "%s/octet-test-XXXXXX", tmp && strlen(tmp) < 200 ? tmp : "/tmp");
  return mkdtemp(path) != NULL;
}

/* The call must succeed; where it does not, its message is shown. */
#define check(call)                                             \
  do {                                                          \
    octet_status status_ = (call);                              \
    if (status_ != OCTET_OK) print_error("%s\n", ctx->message); \
    assert_int_equal(status_, OCTET_OK);                        \
  } while (0)

#endif
