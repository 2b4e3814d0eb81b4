/* Writing files: through a temporary file beside the target that takes its name at the end, so that an error, a full
 * disk or a kill leaves the old file whole. What is not a regular file (pipes, /dev/null) is written directly.
 * SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define BUFFER_BYTES 65536
#define MAX_TEMPORARY 1000 /* names tried before giving up */

struct oct_writer {
  octet_context *ctx;
  char *path;      /* as the caller named it, for messages */
  char *target;    /* the file to replace: links followed */
  char *temporary; /* NULL: written directly */
  int fd;
  octet_status status; /* the first failure */
  uint64_t position;
  size_t buffered;
  uint8_t buffer[BUFFER_BYTES];
};

static octet_status write_error(oct_writer *w, const char *what) {
  w->status = oct_fail(w->ctx, OCTET_IO, "%s: %s: %s", w->path, what, strerror(errno));
  return w->status;
}

static void destroy(oct_writer *w) {
  if (w->fd >= 0) close(w->fd);
  oct_free(w->path);
  oct_free(w->target);
  oct_free(w->temporary);
  oct_free(w);
}

/* The name behind links, when that is a regular file or will be a new one; `direct` when it is something else. */
static octet_status find_target(oct_writer *w, bool *direct, mode_t *mode) {
  struct stat st;
  *direct = strncmp(w->path, "/dev/", 5) == 0 || strncmp(w->path, "/proc/", 6) == 0;
  *mode = 0;
  if (stat(w->path, &st) == 0) {
    if (S_ISDIR(st.st_mode)) return oct_fail(w->ctx, OCTET_IO, "%s: is a folder; a file is expected here", w->path);
    if (!S_ISREG(st.st_mode)) *direct = true;
    *mode = st.st_mode & 0777;
    char *resolved = *direct ? NULL : realpath(w->path, NULL);
    if (resolved) w->target = oct_strdup(w->ctx, resolved);
    else w->target = oct_strdup(w->ctx, w->path);
    free(resolved);
  } else {
    if (lstat(w->path, &st) == 0) *direct = true; /* a link to nothing yet */
    w->target = oct_strdup(w->ctx, w->path);
  }
  return w->target ? OCTET_OK : OCTET_OUT_OF_MEMORY;
}

static octet_status open_direct(oct_writer *w) {
  if (strcmp(w->path, "/dev/stdout") == 0) w->fd = dup(STDOUT_FILENO); /* shares the offset with other output */
  else w->fd = open(w->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  return w->fd < 0 ? write_error(w, "cannot be opened for writing") : OCTET_OK;
}

static octet_status open_temporary(oct_writer *w, mode_t mode) {
  if (mode && access(w->target, W_OK) != 0) return write_error(w, "cannot be replaced");
  size_t size = strlen(w->target) + 48;
  w->temporary = oct_alloc(w->ctx, size, 1);
  if (!w->temporary) return OCTET_OUT_OF_MEMORY;
  for (int n = 0; n < MAX_TEMPORARY && w->fd < 0; n++) {
    snprintf(w->temporary, size, "%s.tmp-%ld-%d", w->target, (long)getpid(), n);
    w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd < 0 && errno != EEXIST && errno != EINTR) break;
  }
  if (w->fd < 0) return write_error(w, "a temporary file beside it cannot be made");
  if (mode && fchmod(w->fd, mode) != 0) errno = 0; /* some file systems have no modes */
  return OCTET_OK;
}

octet_status oct_writer_open(octet_context *ctx, const char *path, oct_writer **out) {
  *out = NULL;
  oct_writer *w = oct_alloc(ctx, 1, sizeof *w);
  if (!w) return OCTET_OUT_OF_MEMORY;
  w->ctx = ctx;
  w->fd = -1;
  w->path = oct_strdup(ctx, path);
  bool direct = false;
  mode_t mode = 0;
  octet_status status = w->path ? find_target(w, &direct, &mode) : OCTET_OUT_OF_MEMORY;
  if (status == OCTET_OK) status = direct ? open_direct(w) : open_temporary(w, mode);
  if (status != OCTET_OK) {
    destroy(w);
    return status;
  }
  *out = w;
  return OCTET_OK;
}

static octet_status write_all(oct_writer *w, const uint8_t *data, size_t size) {
  while (size) {
    ssize_t n = write(w->fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return write_error(w, "cannot be written");
    data += n;
    size -= (size_t)n;
  }
  return OCTET_OK;
}

static octet_status flush(oct_writer *w) {
  size_t n = w->buffered;
  w->buffered = 0;
  return write_all(w, w->buffer, n);
}

octet_status oct_writer_put(oct_writer *w, const void *data, size_t size) {
  if (w->status != OCTET_OK || size == 0) return w->status;
  w->position += size;
  if (size > sizeof w->buffer - w->buffered) OCT_TRY(flush(w));
  if (size >= sizeof w->buffer) return write_all(w, data, size);
  memcpy(w->buffer + w->buffered, data, size);
  w->buffered += size;
  return OCTET_OK;
}

uint64_t oct_writer_position(const oct_writer *w) { return w->position; }

octet_status oct_writer_sync(oct_writer *w) {
  OCT_TRY(w->status);
  OCT_TRY(flush(w));
  if (fsync(w->fd) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP) return write_error(w, "cannot be written");
  return OCTET_OK;
}

/* Bytes to the disk, then the name: a crash in between leaves the old file. */
static octet_status finish(oct_writer *w) {
  OCT_TRY(oct_writer_sync(w));
  int fd = w->fd;
  w->fd = -1;
  if (close(fd) != 0 && errno != EINTR) return write_error(w, "cannot be written");
  if (w->temporary && rename(w->temporary, w->target) != 0) return write_error(w, "cannot be replaced");
  return OCTET_OK;
}

octet_status oct_writer_commit(oct_writer *w) {
  octet_status status = finish(w);
  if (status != OCTET_OK && w->temporary) unlink(w->temporary);
  destroy(w);
  return status;
}

void oct_writer_abandon(oct_writer *w) {
  if (!w) return;
  if (w->temporary) unlink(w->temporary);
  destroy(w);
}

octet_status oct_file_write(octet_context *ctx, const char *path, const void *data, size_t size) {
  oct_writer *w;
  OCT_TRY(oct_writer_open(ctx, path, &w));
  oct_writer_put(w, data, size); /* a failure is kept and comes back from commit */
  return oct_writer_commit(w);
}
