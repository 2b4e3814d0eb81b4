/* Reading whole files (mapped, or read from pipes) and small path helpers. Writing is in writer.c.
 * SPDX-License-Identifier: MIT */
#define _DEFAULT_SOURCE
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct oct_file {
  uint8_t *data;
  size_t size;
  bool mapped; /* else data is from the allocator */
  int references;
};

static octet_status io_error(octet_context *ctx, const char *path, const char *what) {
  return oct_fail(ctx, OCTET_IO, "%s: %s: %s", path, what, strerror(errno));
}

/* Reads to the end; for pipes, and for files whose size is not known ahead (those under /proc say 0). */
static octet_status read_all(octet_context *ctx, int fd, const char *path, oct_file *file) {
  size_t capacity = 0;
  for (;;) {
    OCT_TRY(oct_grow(ctx, &file->data, &capacity, file->size + 1 > 65536 ? file->size + 1 : 65536, 1));
    ssize_t n = read(fd, file->data + file->size, capacity - file->size);
    if (n == 0) return OCTET_OK;
    if (n < 0 && errno != EINTR) return io_error(ctx, path, "cannot be read");
    if (n > 0) file->size += (size_t)n;
  }
}

static octet_status load(octet_context *ctx, int fd, const char *path, oct_file *file) {
  struct stat st;
  if (fstat(fd, &st) != 0) return io_error(ctx, path, "cannot be read");
  if (S_ISDIR(st.st_mode)) return oct_fail(ctx, OCTET_IO, "%s: is a folder; a file is expected here", path);
  if (S_ISREG(st.st_mode) && st.st_size > 0) {
    void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data != MAP_FAILED) {
      file->data = data;
      file->size = (size_t)st.st_size;
      file->mapped = true;
      return OCTET_OK;
    }
  }
  return read_all(ctx, fd, path, file);
}

octet_status oct_file_open(octet_context *ctx, const char *path, oct_file **out) {
  *out = NULL;
  int fd;
  do fd = open(path, O_RDONLY | O_CLOEXEC);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) return io_error(ctx, path, "cannot be opened");
  oct_file *file = oct_alloc(ctx, 1, sizeof *file);
  octet_status status = file ? OCTET_OK : OCTET_OUT_OF_MEMORY;
  if (file) {
    file->references = 1;
    status = load(ctx, fd, path, file);
  }
  close(fd);
  if (status != OCTET_OK) oct_file_close(file);
  else *out = file;
  return status;
}

oct_bytes oct_file_bytes(const oct_file *file) { return (oct_bytes){file->data, file->size}; }

oct_file *oct_file_retain(oct_file *file) {
  if (file) __atomic_add_fetch(&file->references, 1, __ATOMIC_RELAXED);
  return file;
}

void oct_file_close(oct_file *file) {
  if (!file || __atomic_sub_fetch(&file->references, 1, __ATOMIC_ACQ_REL) > 0) return;
  if (file->mapped) munmap(file->data, file->size);
  else oct_free(file->data);
  oct_free(file);
}

void oct_file_forget(const oct_file *file, const void *bytes, size_t size) {
  if (!file || !file->mapped || !size) return;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), mapping = (uintptr_t)file->data;
  uintptr_t begin = (uintptr_t)bytes / page * page, end = ((uintptr_t)bytes + size + page - 1) / page * page, last = mapping + file->size;
  if (begin < mapping || begin >= last) return;
#if defined(MADV_DONTNEED) /* posix_madvise() would do nothing here */
  (void)madvise((void *)begin, (end < last ? end : last) - begin, MADV_DONTNEED);
#endif
}

char *oct_path_beside(octet_context *ctx, const char *base_path, const char *name) {
  const char *slash = strrchr(base_path, '/');
  size_t folder = slash ? (size_t)(slash - base_path) + 1 : 0, length = strlen(name);
  char *path = oct_alloc(ctx, folder + length + 1, 1);
  if (!path) return NULL;
  memcpy(path, base_path, folder);
  memcpy(path + folder, name, length);
  return path;
}

bool oct_path_has_suffix(const char *path, const char *suffix) {
  size_t n = strlen(path), m = strlen(suffix);
  return n >= m && strcasecmp(path + n - m, suffix) == 0;
}
