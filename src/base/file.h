/* Whole files: reading by mapping, writing beside and renaming.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_BASE_FILE_H
#define OCT_BASE_FILE_H

#include <stdio.h>

#include "base/reader.h"

/* A mapped (or, for pipes, read) file; the bytes live until oct_file_close(). Reference-counted so that tensors may keep it. */
typedef struct oct_file oct_file;

octet_status oct_file_open(octet_context *ctx, const char *path, oct_file **out);
oct_bytes oct_file_bytes(const oct_file *file);
oct_file *oct_file_retain(oct_file *file);
/* Tells the system that these bytes of the file are not needed soon: where it is mapped, their memory is given back, and a later look reads
 * them again. */
void oct_file_forget(const oct_file *file, const void *bytes, size_t size);
void oct_file_close(oct_file *file); /* drops one reference; NULL is fine */

/* Writes through a temporary file in the same folder; the target changes only when commit succeeds (fsync + rename). */
typedef struct oct_writer oct_writer;

octet_status oct_writer_open(octet_context *ctx, const char *path, oct_writer **out);
octet_status oct_writer_put(oct_writer *writer, const void *data, size_t size);
/* What was put so far is on the disk: for files that appear together, all but the renaming can be done first. */
octet_status oct_writer_sync(oct_writer *writer);
uint64_t oct_writer_position(const oct_writer *writer);
octet_status oct_writer_commit(oct_writer *writer); /* frees the writer, also on failure */
void oct_writer_abandon(oct_writer *writer);        /* removes the temporary file and frees; NULL is fine */

octet_status oct_file_write(octet_context *ctx, const char *path, const void *data, size_t size);
/* Joins the folder of `base_path` and a relative name. */
char *oct_path_beside(octet_context *ctx, const char *base_path, const char *name);
/* true when `path` ends in `suffix`, case ignored. */
bool oct_path_has_suffix(const char *path, const char *suffix);

#endif
