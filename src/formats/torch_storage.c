/* The two containers of PyTorch checkpoints. Zip: `<name>/data.pkl`, `<name>/data/<key>`, optionally `<name>/byteorder`.
 * Legacy: the pickles magic, protocol, sys_info, object and list of storage keys, then for each key an int64 count of
 * elements and the elements. Source: torch/serialization.py (_save, _legacy_save) of PyTorch 1.3 and 2.
 * SPDX-License-Identifier: MIT */
#include "formats/torch_storage.h"

#include <stdlib.h>

static const uint8_t LEGACY_MAGIC[] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
#define LEGACY_PROTOCOL 1001

static const oct_torch_type TYPES[] = {
    {"FloatStorage", OCT_F32, 4, false},
    {"DoubleStorage", OCT_F64, 8, false},
    {"HalfStorage", OCT_F16, 2, false},
    {"BFloat16Storage", OCT_BF16, 2, false},
    {"CharStorage", OCT_I8, 1, false},
    {"ByteStorage", OCT_U8, 1, false},
    {"ShortStorage", OCT_I16, 2, false},
    {"IntStorage", OCT_I32, 4, false},
    {"LongStorage", OCT_I64, 8, false},
    {"BoolStorage", OCT_BOOL, 1, false},
    {"QInt8Storage", OCT_I8, 1, true},
    {"QUInt8Storage", OCT_U8, 1, true},
    {"QInt32Storage", OCT_I32, 4, true},
    {"UntypedStorage", OCT_U8, 1, false},
    {"QUInt4x2Storage", OCT_DTYPE_NONE, 1, true},
    {"QUInt2x4Storage", OCT_DTYPE_NONE, 1, true},
    {"ComplexFloatStorage", OCT_DTYPE_NONE, 8, false},
    {"ComplexDoubleStorage", OCT_DTYPE_NONE, 16, false},
    {"float32", OCT_F32, 4, false},
    {"float64", OCT_F64, 8, false},
    {"float16", OCT_F16, 2, false},
    {"bfloat16", OCT_BF16, 2, false},
    {"int8", OCT_I8, 1, false},
    {"uint8", OCT_U8, 1, false},
    {"int16", OCT_I16, 2, false},
    {"uint16", OCT_U16, 2, false},
    {"int32", OCT_I32, 4, false},
    {"uint32", OCT_U32, 4, false},
    {"int64", OCT_I64, 8, false},
    {"uint64", OCT_U64, 8, false},
    {"bool", OCT_BOOL, 1, false},
    {"qint8", OCT_I8, 1, true},
    {"quint8", OCT_U8, 1, true},
    {"qint32", OCT_I32, 4, true},
    {"complex64", OCT_DTYPE_NONE, 8, false},
    {"complex128", OCT_DTYPE_NONE, 16, false},
    {"float8_e4m3fn", OCT_DTYPE_NONE, 1, false},
    {"float8_e5m2", OCT_DTYPE_NONE, 1, false},
};

const oct_torch_type *oct_torch_type_find(const char *global) {
  static const char *const prefixes[] = {"torch.storage.", "torch.cuda.", "torch."};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
    size_t length = strlen(prefixes[i]);
    if (strncmp(global, prefixes[i], length)) continue;
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++)
      if (!strcmp(TYPES[t].name, global + length)) return &TYPES[t];
  }
  return NULL;
}

static octet_status malformed(oct_torch_file *file, const char *what) { return oct_fail(file->ctx, OCTET_FORMAT, "checkpoint: %s", what); }

/* ('storage', type, key, location, count[, view]) */
static octet_status check_id(oct_torch_file *file, const oct_pickle *id) {
  if (id->kind != OCT_PICKLE_TUPLE || id->count < 5 || !oct_pickle_is(id->items[0], "storage") || id->items[1]->kind != OCT_PICKLE_GLOBAL ||
      (id->items[2]->kind != OCT_PICKLE_STRING) || id->items[4]->kind != OCT_PICKLE_INTEGER)
    return malformed(file, "a persistent id that names no storage");
  if (!oct_torch_type_find(id->items[1]->text))
    return oct_fail(file->ctx, OCTET_UNSUPPORTED, "checkpoint: unknown storage type %s", id->items[1]->text);
  return OCTET_OK;
}

static int compare_keys(const void *a, const void *b) {
  const oct_torch_storage *x = a, *y = b;
  size_t shorter = x->key_length < y->key_length ? x->key_length : y->key_length;
  int order = memcmp(x->key, y->key, shorter);
  return order ? order : (x->key_length > y->key_length) - (x->key_length < y->key_length);
}

static oct_torch_storage *find_storage(oct_torch_file *file, const oct_pickle *key) {
  oct_torch_storage probe = {.key = key->text, .key_length = key->count};
  if (key->kind != OCT_PICKLE_STRING || file->n_storages == 0) return NULL;
  return bsearch(&probe, file->storages, file->n_storages, sizeof probe, compare_keys);
}

/* One row per key that the pickle mentions; a key may be mentioned by several tensors. */
static octet_status list_storages(oct_torch_file *file, const oct_pickle_result *pickle) {
  OCT_TRY(oct_grow(file->ctx, &file->storages, &file->storages_capacity, pickle->n_persistent + 1, sizeof *file->storages));
  for (size_t i = 0; i < pickle->n_persistent; i++) {
    const oct_pickle *id = pickle->persistent[i]->items[0];
    OCT_TRY(check_id(file, id));
    file->storages[i] =
        (oct_torch_storage){.key = id->items[2]->text, .key_length = id->items[2]->count, .type = oct_torch_type_find(id->items[1]->text)};
  }
  qsort(file->storages, pickle->n_persistent, sizeof *file->storages, compare_keys);
  for (size_t i = 0; i < pickle->n_persistent; i++) {
    if (file->n_storages && !compare_keys(&file->storages[file->n_storages - 1], &file->storages[i])) {
      if (file->storages[file->n_storages - 1].type->element_size != file->storages[i].type->element_size)
        return malformed(file, "one storage with two types of different size");
      continue;
    }
    file->storages[file->n_storages++] = file->storages[i];
  }
  return OCTET_OK;
}

/* ---- zip ---- */

static octet_status find_data_pkl(oct_torch_file *file, const oct_zip_entry **out) {
  for (size_t i = 0; i < file->zip.count; i++) {
    const char *name = file->zip.entries[i].name, *slash = strchr(name, '/');
    if (slash && strstr(slash, "/code/") == slash)
      return oct_fail(
          file->ctx, OCTET_UNSUPPORTED,
          "this is a TorchScript archive (a program), not a checkpoint: save the weights with torch.save(model.state_dict(), path)");
    if (slash && !strcmp(slash, "/data.pkl")) *out = &file->zip.entries[i];
  }
  if (!*out) return malformed(file, "the zip archive holds no data.pkl, so it is no PyTorch checkpoint");
  file->prefix = oct_strndup(file->ctx, (*out)->name, strlen((*out)->name) - strlen("data.pkl"));
  return file->prefix ? OCTET_OK : OCTET_OUT_OF_MEMORY;
}

static char *entry_name(oct_torch_file *file, const char *folder, const char *name, size_t length) {
  size_t prefix = strlen(file->prefix), middle = strlen(folder);
  char *text = oct_alloc_raw(file->ctx, prefix + middle + length + 1);
  if (!text) return NULL;
  memcpy(text, file->prefix, prefix);
  memcpy(text + prefix, folder, middle);
  memcpy(text + prefix + middle, name, length);
  text[prefix + middle + length] = 0;
  return text;
}

static octet_status read_byteorder(oct_torch_file *file) {
  char *name = entry_name(file, "", "byteorder", strlen("byteorder"));
  if (!name) return OCTET_OUT_OF_MEMORY;
  const oct_zip_entry *entry = oct_zip_find(&file->zip, name);
  oct_free(name);
  if (!entry) return OCTET_OK;
  oct_bytes bytes;
  void *owned;
  OCT_TRY(oct_zip_read(file->ctx, entry, &bytes, &owned));
  file->big_endian = bytes.size >= 3 && !memcmp(bytes.data, "big", 3);
  oct_free(owned);
  return OCTET_OK;
}

static octet_status open_zip(oct_torch_file *file, oct_pickle_policy policy) {
  const oct_zip_entry *data = NULL;
  OCT_TRY(oct_zip_open(file->ctx, file->bytes, &file->zip));
  OCT_TRY(find_data_pkl(file, &data));
  OCT_TRY(read_byteorder(file));
  oct_bytes bytes;
  void *owned;
  OCT_TRY(oct_zip_read(file->ctx, data, &bytes, &owned));
  if (owned) { /* the nodes point into it */
    void *copy = oct_region_alloc(file->ctx, &file->region, bytes.size + 1, 1);
    if (copy) memcpy(copy, owned, bytes.size);
    oct_free(owned);
    if (!copy) return OCTET_OUT_OF_MEMORY;
    bytes.data = copy;
  }
  oct_reader reader = oct_reader_make(bytes.data, bytes.size);
  oct_pickle_result result = {0};
  OCT_TRY(oct_pickle_read(file->ctx, &file->region, &reader, policy, &result));
  file->root = result.root;
  return list_storages(file, &result);
}

static octet_status read_zip_storage(oct_torch_file *file, oct_torch_storage *storage) {
  if (memchr(storage->key, 0, storage->key_length)) return malformed(file, "a storage key with a zero byte");
  char *name = entry_name(file, "data/", storage->key, storage->key_length);
  if (!name) return OCTET_OUT_OF_MEMORY;
  const oct_zip_entry *entry = oct_zip_find(&file->zip, name);
  octet_status status = OCTET_OK;
  if (!entry) status = oct_fail(file->ctx, OCTET_FORMAT, "checkpoint: the archive lacks %s", name);
  else status = oct_zip_read(file->ctx, entry, &storage->bytes, &storage->owned);
  oct_free(name);
  return status;
}

/* ---- legacy ---- */

bool oct_torch_is_legacy(oct_bytes bytes) {
  for (size_t at = 0; at < 32 && bytes.size >= at + sizeof LEGACY_MAGIC; at++)
    if (!memcmp(bytes.data + at, LEGACY_MAGIC, sizeof LEGACY_MAGIC)) return true;
  return false;
}

static octet_status check_legacy_head(oct_torch_file *file, oct_reader *reader) {
  oct_pickle_result head = {0};
  OCT_TRY(oct_pickle_read(file->ctx, &file->region, reader, NULL, &head));
  if (head.root->kind != OCT_PICKLE_LONG || head.root->count != sizeof LEGACY_MAGIC ||
      memcmp(head.root->text, LEGACY_MAGIC, sizeof LEGACY_MAGIC))
    return malformed(file, "neither a zip archive nor a legacy PyTorch file");
  OCT_TRY(oct_pickle_read(file->ctx, &file->region, reader, NULL, &head));
  if (head.root->kind != OCT_PICKLE_INTEGER || head.root->integer != LEGACY_PROTOCOL)
    return malformed(file, "unknown protocol of a legacy file");
  OCT_TRY(oct_pickle_read(file->ctx, &file->region, reader, NULL, &head));
  const oct_pickle *little = oct_pickle_get(head.root, "little_endian");
  file->big_endian = little && little->kind == OCT_PICKLE_BOOL && !little->boolean;
  return OCTET_OK;
}

static octet_status read_legacy_storage(oct_torch_file *file, oct_reader *reader, const oct_pickle *key) {
  oct_torch_storage *storage = find_storage(file, key);
  if (!storage) return malformed(file, "the list of storages names one that no tensor uses");
  uint64_t count = file->big_endian ? oct_read_u64be(reader) : oct_read_u64le(reader);
  size_t bytes = 0;
  const uint8_t *data = NULL;
  if (!reader->failed && count <= SIZE_MAX && oct_mul_size((size_t)count, (size_t)storage->type->element_size, &bytes))
    data = oct_read_bytes(reader, bytes);
  if (!data)
    return oct_fail(file->ctx, OCTET_FORMAT, "checkpoint: storage %.*s of %llu elements runs past the end of the file (cut off?)",
                    (int)(storage->key_length < 64 ? storage->key_length : 64), storage->key, (unsigned long long)count);
  storage->bytes = (oct_bytes){data, bytes};
  return OCTET_OK;
}

static octet_status open_legacy(oct_torch_file *file, oct_pickle_policy policy) {
  oct_reader reader = oct_reader_make(file->bytes.data, file->bytes.size);
  oct_pickle_result object = {0}, keys = {0};
  OCT_TRY(check_legacy_head(file, &reader));
  OCT_TRY(oct_pickle_read(file->ctx, &file->region, &reader, policy, &object));
  file->root = object.root;
  OCT_TRY(list_storages(file, &object));
  OCT_TRY(oct_pickle_read(file->ctx, &file->region, &reader, NULL, &keys));
  if (keys.root->kind != OCT_PICKLE_LIST) return malformed(file, "the legacy file has no list of storages");
  for (uint32_t i = 0; i < keys.root->count; i++) OCT_TRY(read_legacy_storage(file, &reader, keys.root->items[i]));
  return OCTET_OK;
}

/* ---- both ---- */

octet_status oct_torch_open(oct_torch_file *file, oct_pickle_policy policy) {
  if (oct_zip_is(file->bytes)) return open_zip(file, policy);
  if (file->bytes.size > 262 && !memcmp(file->bytes.data + 257, "ustar", 5))
    return oct_fail(file->ctx, OCTET_UNSUPPORTED,
                    "checkpoint: the tar form of PyTorch before 0.1.10 is not read; load and save it with a newer PyTorch");
  if (!oct_torch_is_legacy(file->bytes)) return malformed(file, "neither a zip archive nor a legacy PyTorch file");
  return open_legacy(file, policy);
}

void oct_torch_close(oct_torch_file *file) {
  for (size_t i = 0; i < file->n_storages; i++) oct_free(file->storages[i].owned);
  oct_free(file->storages);
  oct_free(file->prefix);
  oct_zip_close(&file->zip);
  oct_region_free(&file->region);
}

octet_status oct_torch_storage_of(oct_torch_file *file, const oct_pickle *id, const oct_torch_storage **out) {
  OCT_TRY(check_id(file, id));
  oct_torch_storage *storage = find_storage(file, id->items[2]);
  if (!storage) return malformed(file, "a tensor without a storage");
  if (!storage->bytes.data) {
    if (!file->prefix) return malformed(file, "a tensor whose storage the legacy file does not list");
    OCT_TRY(read_zip_storage(file, storage));
  }
  *out = storage;
  return OCTET_OK;
}
