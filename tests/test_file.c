/* Files: mapping, pipes, errors that name the path, and writing that leaves the old file whole.
 * SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include "context_checks.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

static char folder[256], path[512], path2[512];

static int setup(void **state) {
  if (!folder_create(folder)) return -1;
  snprintf(path, sizeof path, "%s/a.bin", folder);
  snprintf(path2, sizeof path2, "%s/b.bin", folder);
  return context_create(state);
}

/* Number of entries in the folder; removes them when asked. */
static int entries(bool remove_them) {
  DIR *dir = opendir(folder);
  int n = 0;
  for (struct dirent *e; dir && (e = readdir(dir));) {
    if (e->d_name[0] == '.') continue;
    n++;
    char name[1024];
    snprintf(name, sizeof name, "%s/%s", folder, e->d_name);
    if (remove_them && unlink(name) != 0) rmdir(name);
  }
  if (dir) closedir(dir);
  return n;
}

static int teardown(void **state) {
  (void)state;
  entries(true);
  rmdir(folder);
  oct_context_destroy(ctx);
  return 0;
}

static void expect_content(const char *name, const void *bytes, size_t size) {
  oct_file *file;
  assert_int_equal(oct_file_open(ctx, name, &file), OCTET_OK);
  assert_int_equal(oct_file_bytes(file).size, size);
  if (size) assert_memory_equal(oct_file_bytes(file).data, bytes, size);
  oct_file_close(file);
}

static void write_then_read(void **state) {
  (void)state;
  for (size_t size = 0; size < 300000; size = size * 7 + 1) {
    char *bytes = oct_alloc(ctx, size, 1);
    for (size_t i = 0; i < size; i++) bytes[i] = (char)(i * 31 >> 3);
    assert_int_equal(oct_file_write(ctx, path, bytes, size), OCTET_OK);
    expect_content(path, bytes, size);
    oct_free(bytes);
  }
  assert_int_equal(entries(false), 1); /* no temporary files are left */
}

static void many_small_puts(void **state) {
  (void)state;
  oct_writer *w;
  char *expected = oct_alloc(ctx, 250000, 1);
  assert_int_equal(oct_writer_open(ctx, path, &w), OCTET_OK);
  size_t at = 0;
  for (size_t n = 0; at + n <= 250000; n = (n + 1) % 700) {
    memset(expected + at, (int)(n & 127), n);
    assert_int_equal(oct_writer_put(w, expected + at, n), OCTET_OK);
    at += n;
    assert_int_equal(oct_writer_position(w), at);
  }
  assert_int_equal(oct_writer_commit(w), OCTET_OK);
  expect_content(path, expected, at);
  oct_free(expected);
}

static void retained_file_stays(void **state) {
  (void)state;
  oct_file *file;
  assert_int_equal(oct_file_write(ctx, path, "octet", 5), OCTET_OK);
  assert_int_equal(oct_file_open(ctx, path, &file), OCTET_OK);
  oct_file *second = oct_file_retain(file);
  oct_file_close(file);
  assert_int_equal(oct_file_write(ctx, path, "other", 5), OCTET_OK); /* replacing does not touch the mapping */
  assert_memory_equal(oct_file_bytes(second).data, "octet", 5);
  oct_file_close(second);
  oct_file_close(NULL);
}

static void open_errors_name_the_path(void **state) {
  (void)state;
  oct_file *file;
  char text[1024];
  assert_int_equal(oct_file_open(ctx, path, &file), OCTET_IO);
  assert_null(file);
  snprintf(text, sizeof text, "%s: cannot be opened: No such file or directory", path);
  assert_string_equal(ctx->message, text);
  assert_int_equal(oct_file_open(ctx, folder, &file), OCTET_IO);
  snprintf(text, sizeof text, "%s: is a folder; a file is expected here", folder);
  assert_string_equal(ctx->message, text);
  assert_int_equal(oct_file_open(ctx, "", &file), OCTET_IO);
}

static void pipes_are_read_whole(void **state) {
  (void)state;
  enum { SIZE = 200001 };
  assert_int_equal(mkfifo(path, 0600), 0);
  pid_t child = fork();
  if (child == 0) {
    int fd = open(path, O_WRONLY);
    char block[3] = "abc";
    for (int i = 0; i < SIZE / 3; i++)
      if (write(fd, block, 3) != 3) _exit(1);
    _exit(0);
  }
  oct_file *file;
  assert_int_equal(oct_file_open(ctx, path, &file), OCTET_OK);
  assert_int_equal(oct_file_bytes(file).size, SIZE);
  assert_memory_equal(oct_file_bytes(file).data + SIZE - 6, "abcabc", 6);
  oct_file_close(file);
  waitpid(child, NULL, 0);
}

static void files_without_a_size_are_read(void **state) {
  (void)state;
  oct_file *file;
  if (access("/proc/self/status", R_OK) != 0) skip();
  assert_int_equal(oct_file_open(ctx, "/proc/self/status", &file), OCTET_OK);
  assert_true(oct_file_bytes(file).size > 10);
  assert_memory_equal(oct_file_bytes(file).data, "Name:", 5);
  oct_file_close(file);
}

static void abandoned_writer_changes_nothing(void **state) {
  (void)state;
  oct_writer *w;
  assert_int_equal(oct_file_write(ctx, path, "old", 3), OCTET_OK);
  assert_int_equal(oct_writer_open(ctx, path, &w), OCTET_OK);
  assert_int_equal(oct_writer_put(w, "newer", 5), OCTET_OK);
  assert_int_equal(entries(false), 2);
  oct_writer_abandon(w);
  oct_writer_abandon(NULL);
  expect_content(path, "old", 3);
  assert_int_equal(entries(false), 1);
}

static void killed_writer_leaves_the_old_file(void **state) {
  (void)state;
  assert_int_equal(oct_file_write(ctx, path, "old", 3), OCTET_OK);
  pid_t child = fork();
  if (child == 0) {
    oct_writer *w;
    char block[100000] = {0};
    if (oct_writer_open(ctx, path, &w) == OCTET_OK) oct_writer_put(w, block, sizeof block);
    raise(SIGKILL);
  }
  waitpid(child, NULL, 0);
  expect_content(path, "old", 3);
  assert_int_equal(oct_file_write(ctx, path, "new", 3), OCTET_OK); /* what the killed one left is no obstacle */
  expect_content(path, "new", 3);
}

static void full_device_is_an_error(void **state) {
  (void)state;
  if (access("/dev/full", W_OK) != 0) skip();
  assert_int_equal(oct_file_write(ctx, "/dev/full", "x", 1), OCTET_IO);
  assert_string_equal(ctx->message, "/dev/full: cannot be written: No space left on device");
}

static void size_limit_leaves_the_old_file(void **state) {
  (void)state;
  char *big = oct_alloc(ctx, 400000, 1);
  assert_int_equal(oct_file_write(ctx, path, "old", 3), OCTET_OK);
  struct rlimit old, limit;
  getrlimit(RLIMIT_FSIZE, &old);
  limit = (struct rlimit){.rlim_cur = 100000, .rlim_max = old.rlim_max};
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  octet_status status = oct_file_write(ctx, path, big, 400000);
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);
  assert_int_equal(status, OCTET_IO);
  assert_non_null(strstr(ctx->message, "a.bin: cannot be written: File too large"));
  expect_content(path, "old", 3);
  assert_int_equal(entries(false), 1);
  oct_free(big);
}

static void links_and_modes_are_kept(void **state) {
  (void)state;
  struct stat st;
  assert_int_equal(oct_file_write(ctx, path, "old", 3), OCTET_OK);
  assert_int_equal(chmod(path, 0640), 0);
  assert_int_equal(symlink("a.bin", path2), 0);
  assert_int_equal(oct_file_write(ctx, path2, "through", 7), OCTET_OK);
  assert_int_equal(lstat(path2, &st), 0);
  assert_true(S_ISLNK(st.st_mode));
  expect_content(path, "through", 7);
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0640);
  unlink(path);
  assert_int_equal(oct_file_write(ctx, path2, "made", 4), OCTET_OK); /* through a link to nothing */
  expect_content(path, "made", 4);
  assert_int_equal(entries(false), 2);
}

static void special_targets_are_written_directly(void **state) {
  (void)state;
  assert_int_equal(oct_file_write(ctx, "/dev/null", "x", 1), OCTET_OK);
  struct stat st;
  assert_int_equal(stat("/dev/null", &st), 0);
  assert_true(S_ISCHR(st.st_mode));
  assert_int_equal(mkfifo(path, 0600), 0);
  int reader = open(path, O_RDONLY | O_NONBLOCK);
  assert_int_equal(oct_file_write(ctx, path, "pipe", 4), OCTET_OK);
  char got[8];
  assert_int_equal(read(reader, got, sizeof got), 4);
  assert_memory_equal(got, "pipe", 4);
  close(reader);
}

static void standard_output_is_a_target(void **state) {
  (void)state;
  int fd = open(path, O_WRONLY | O_CREAT, 0600), saved = dup(STDOUT_FILENO);
  fflush(stdout);
  dup2(fd, STDOUT_FILENO);
  bool wrote = write(STDOUT_FILENO, "before ", 7) == 7;
  octet_status status = oct_file_write(ctx, "/dev/stdout", "model", 5);
  wrote = wrote && write(STDOUT_FILENO, " after", 6) == 6;
  dup2(saved, STDOUT_FILENO);
  close(saved);
  close(fd);
  assert_true(wrote);
  assert_int_equal(status, OCTET_OK);
  expect_content(path, "before model after", 18);
}

static void write_errors_name_the_path(void **state) {
  (void)state;
  oct_writer *w;
  assert_int_equal(oct_writer_open(ctx, folder, &w), OCTET_IO);
  assert_non_null(strstr(ctx->message, "is a folder"));
  snprintf(path2, sizeof path2, "%s/absent/x.onnx", folder);
  assert_int_equal(oct_writer_open(ctx, path2, &w), OCTET_IO);
  assert_non_null(strstr(ctx->message, path2));
  assert_non_null(strstr(ctx->message, "No such file or directory"));
}

static void allocation_failures_leave_nothing(void **state) {
  (void)state;
  oct_file *file;
  assert_int_equal(oct_file_write(ctx, path, "old", 3), OCTET_OK);
  octet_status status = OCTET_OUT_OF_MEMORY;
  for (int64_t n = 0; status != OCTET_OK; n++) {
    ctx->allocations_left = n;
    status = oct_file_write(ctx, path, "new", 3);
    if (status != OCTET_OK) assert_int_equal(status, OCTET_OUT_OF_MEMORY);
    ctx->allocations_left = -1;
    assert_int_equal(entries(false), 1);
    expect_content(path, status == OCTET_OK ? "new" : "old", 3);
  }
  ctx->allocations_left = 0;
  assert_int_equal(oct_file_open(ctx, path, &file), OCTET_OUT_OF_MEMORY);
}

static void expect_beside(const char *base, const char *name, const char *expected) {
  char *joined = oct_path_beside(ctx, base, name);
  assert_string_equal(joined, expected);
  oct_free(joined);
}

static void paths(void **state) {
  (void)state;
  expect_beside("dir/model.onnx", "w.bin", "dir/w.bin");
  expect_beside("model.onnx", "w.bin", "w.bin");
  expect_beside("/model.onnx", "w.bin", "/w.bin");
  expect_beside("a/b/", "sub/w.bin", "a/b/sub/w.bin");
  assert_true(oct_path_has_suffix("M.ONNX", ".onnx"));
  assert_false(oct_path_has_suffix("onnx", ".onnx"));
  assert_false(oct_path_has_suffix("m.onnx.gz", ".onnx"));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      T(write_then_read),
      T(many_small_puts),
      T(retained_file_stays),
      T(open_errors_name_the_path),
      T(pipes_are_read_whole),
      T(files_without_a_size_are_read),
      T(abandoned_writer_changes_nothing),
      T(killed_writer_leaves_the_old_file),
      T(full_device_is_an_error),
      T(size_limit_leaves_the_old_file),
      T(links_and_modes_are_kept),
      T(special_targets_are_written_directly),
      T(standard_output_is_a_target),
      T(write_errors_name_the_path),
      T(allocation_failures_leave_nothing),
      T(paths),
  };
  return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
