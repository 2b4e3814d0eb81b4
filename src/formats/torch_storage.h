/* Where the bytes of a checkpoint's storages lie: the part in which the zip and the legacy form differ.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_TORCH_STORAGE_H
#define OCT_FORMATS_TORCH_STORAGE_H

#include "formats/pickle.h"
#include "formats/zip.h"
#include "tensor/tensor.h"

/* A storage class: torch.FloatStorage and the like. */
typedef struct oct_torch_type {
  const char *name;
  oct_dtype dtype;  /* OCT_DTYPE_NONE: not read (complex, float8, packed 4 bits) */
  int element_size; /* bytes */
  bool quantized;
} oct_torch_type;

/* "torch.FloatStorage", "torch.float32", "torch.storage.UntypedStorage"; NULL when unknown. */
const oct_torch_type *oct_torch_type_find(const char *global);

typedef struct oct_torch_storage {
  const char *key; /* not zero-terminated */
  size_t key_length;
  const oct_torch_type *type;
  oct_bytes bytes; /* data NULL until found */
  void *owned;     /* inflated bytes, or NULL */
} oct_torch_storage;

typedef struct oct_torch_file {
  octet_context *ctx;
  oct_bytes bytes;
  oct_file *file;    /* NULL when read from memory */
  oct_region region; /* the pickle's nodes */
  oct_pickle *root;
  oct_zip zip;
  char *prefix; /* zip: folder of data.pkl inside the archive, with its '/' */
  bool big_endian;
  oct_torch_storage *storages; /* sorted by key */
  size_t n_storages, storages_capacity;
} oct_torch_file;

/* true when the legacy form's magic number stands near the start. */
bool oct_torch_is_legacy(oct_bytes bytes);
/* Reads the pickle and finds the storages. Close also after a failure. */
octet_status oct_torch_open(oct_torch_file *file, oct_pickle_policy policy);
void oct_torch_close(oct_torch_file *file);
/* The storage that a persistent id names, with its bytes; `id` is the tuple ('storage', type, key, location, count, ...). */
octet_status oct_torch_storage_of(oct_torch_file *file, const oct_pickle *id, const oct_torch_storage **out);

#endif
