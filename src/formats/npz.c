/* .npz: a zip archive with one .npy entry per array.
 * SPDX-License-Identifier: MIT */
#include "formats/npy.h"
#include "formats/npy_header.h"
#include "formats/zip.h"

static octet_status read_entry(octet_context *ctx, const oct_zip_entry *entry, oct_file *file, oct_bundle *out) {
  size_t length = strlen(entry->name);
  if (length <= 4 || strcmp(entry->name + length - 4, ".npy")) return OCTET_OK;
  oct_bytes bytes;
  void *owned;
  oct_tensor *tensor = NULL;
  OCT_TRY(oct_zip_read(ctx, entry, &bytes, &owned));
  octet_status status = oct_npy_read_bytes(ctx, bytes, owned ? NULL : file, entry->name, &tensor);
  oct_free(owned);
  if (status != OCTET_OK) return status;
  char *name = oct_strndup(ctx, entry->name, length - 4);
  if (!name) {
    oct_tensor_release(tensor);
    return OCTET_OUT_OF_MEMORY;
  }
  status = oct_bundle_add(ctx, out, name, tensor, NULL);
  oct_free(name);
  return status;
}

static octet_status read_archive(octet_context *ctx, oct_bytes bytes, oct_file *file, const char *name, oct_bundle *out) {
  *out = (oct_bundle){0};
  oct_zip zip;
  octet_status status =
      oct_zip_is(bytes) ? oct_zip_open(ctx, bytes, &zip) : oct_fail(ctx, OCTET_FORMAT, "no .npz file (not a zip archive)");
  if (status == OCTET_OK) {
    for (size_t i = 0; status == OCTET_OK && i < zip.count; i++) status = read_entry(ctx, &zip.entries[i], file, out);
    oct_zip_close(&zip);
  }
  return status == OCTET_OK ? OCTET_OK : oct_fail_prefix(ctx, "%s", name);
}

octet_status oct_npz_read_bytes(octet_context *ctx, oct_bytes bytes, const char *name, oct_bundle *out) {
  return read_archive(ctx, bytes, NULL, name, out);
}

octet_status oct_npz_read(octet_context *ctx, const char *path, oct_bundle *out) {
  *out = (oct_bundle){0};
  oct_file *file;
  OCT_TRY(oct_file_open(ctx, path, &file));
  octet_status status = read_archive(ctx, oct_file_bytes(file), file, path, out);
  oct_file_close(file);
  return status;
}

static octet_status write_entry(octet_context *ctx, oct_zip_writer *zip, const oct_named_tensor *item) {
  char *header, *name;
  size_t size;
  OCT_TRY(oct_npy_header_write(ctx, item->tensor, &header, &size));
  size_t length = strlen(item->name);
  octet_status status = OCTET_OUT_OF_MEMORY;
  if ((name = oct_alloc_raw(ctx, length + sizeof ".npy"))) {
    memcpy(name, item->name, length);
    memcpy(name + length, ".npy", sizeof ".npy");
    status = oct_zip_put(zip, name, (oct_bytes){(const uint8_t *)header, size}, (oct_bytes){item->tensor->data, item->tensor->bytes});
  }
  oct_free(name);
  oct_free(header);
  return status;
}

octet_status oct_npz_write(octet_context *ctx, const char *path, const oct_bundle *bundle) {
  oct_zip_writer zip;
  OCT_TRY(oct_zip_create(ctx, path, &zip));
  for (size_t i = 0; i < bundle->count; i++) {
    octet_status status = write_entry(ctx, &zip, &bundle->items[i]);
    if (status == OCTET_OK) continue;
    oct_zip_abandon(&zip);
    return status;
  }
  return oct_zip_finish(&zip);
}
