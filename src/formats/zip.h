/* Zip archives as .pth and .npz use them: reading from mapped bytes (stored entries without a copy, deflated ones through
 * zlib, checked by CRC), writing stored entries with fixed times so that equal contents give equal bytes.
 * Not for encrypted, split or otherwise compressed archives. Source: PKWARE APPNOTE.TXT 6.3.
 * libzip is not used: it copies stored entries, has no offsets into the mapped file and allocates behind the context's back.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_ZIP_H
#define OCT_FORMATS_ZIP_H

#include "base/file.h"

typedef struct oct_zip_entry {
  char *name;
  const uint8_t *data; /* stored or deflated bytes, inside the archive */
  uint64_t stored_size, size;
  uint32_t crc;
  uint16_t method; /* 0 stored, 8 deflated */
} oct_zip_entry;

typedef struct oct_zip {
  oct_zip_entry *entries;
  size_t count, capacity;
  const oct_zip_entry **by_name; /* sorted */
  oct_region region;
} oct_zip;

static inline bool oct_zip_is(oct_bytes bytes) {
  return bytes.size >= 22 && (!memcmp(bytes.data, "PK\3\4", 4) || !memcmp(bytes.data, "PK\5\6", 4));
}
/* Reads the directory. The archive's bytes must outlive the zip. */
octet_status oct_zip_open(octet_context *ctx, oct_bytes bytes, oct_zip *out);
void oct_zip_close(oct_zip *zip);
const oct_zip_entry *oct_zip_find(const oct_zip *zip, const char *name);
/* The entry's contents: into the archive when stored (*owned NULL), else inflated into *owned (oct_free it). */
octet_status oct_zip_read(octet_context *ctx, const oct_zip_entry *entry, oct_bytes *out, void **owned);

/* Writing: open a writer, put the entries one after another, finish. */
typedef struct oct_zip_writer {
  octet_context *ctx;
  oct_writer *file;
  struct oct_zip_written *entries;
  size_t count, capacity;
} oct_zip_writer;

octet_status oct_zip_create(octet_context *ctx, const char *path, oct_zip_writer *out);
/* One stored entry made of two parts (a header and the data); either may be empty. */
octet_status oct_zip_put(oct_zip_writer *zip, const char *name, oct_bytes first, oct_bytes second);
octet_status oct_zip_finish(oct_zip_writer *zip); /* writes the directory and renames the file into place; frees, also on failure */
void oct_zip_abandon(oct_zip_writer *zip);

#endif
