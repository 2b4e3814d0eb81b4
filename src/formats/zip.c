/* Zip archives; see zip.h for what is read and written.
 * SPDX-License-Identifier: MIT */
#include "formats/zip.h"

#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

#define MAX_ENTRIES 1000000
#define INFLATE_RATIO 1032 /* deflate cannot expand by more (zlib's technical notes) */

enum {
  LOCAL_SIGNATURE = 0x04034b50,
  DIRECTORY_SIGNATURE = 0x02014b50,
  END_SIGNATURE = 0x06054b50,
  END64_SIGNATURE = 0x06064b50,
  LOCATOR64_SIGNATURE = 0x07064b50,
  LOCAL_SIZE = 30,
  DIRECTORY_SIZE = 46,
  END_SIZE = 22,
  LOCATOR64_SIZE = 20
};

static uint32_t get32(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }
static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint64_t get64(const uint8_t *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }

typedef struct directory {
  uint64_t count, size, offset;
} directory;

/* The end record stands in the last 64 kB + 22 bytes; a comment may follow it. */
static const uint8_t *find_end(oct_bytes bytes) {
  size_t limit = bytes.size < END_SIZE + 65535 ? bytes.size : END_SIZE + 65535;
  for (size_t back = END_SIZE; back <= limit; back++) {
    const uint8_t *p = bytes.data + bytes.size - back;
    if (get32(p) == END_SIGNATURE && (size_t)get16(p + 20) + END_SIZE <= back) return p;
  }
  return NULL;
}

static octet_status find_directory(octet_context *ctx, oct_bytes bytes, directory *out) {
  const uint8_t *end = bytes.size >= END_SIZE ? find_end(bytes) : NULL;
  if (!end) return oct_fail(ctx, OCTET_FORMAT, "zip: no end-of-directory record; the file is cut off or is no zip archive");
  *out = (directory){.count = get16(end + 10), .size = get32(end + 12), .offset = get32(end + 16)};
  size_t at = (size_t)(end - bytes.data);
  if (at >= LOCATOR64_SIZE && get32(end - LOCATOR64_SIZE) == LOCATOR64_SIGNATURE) {
    uint64_t at64 = get64(end - LOCATOR64_SIZE + 8);
    if (at64 > bytes.size || bytes.size - at64 < 56 || get32(bytes.data + at64) != END64_SIGNATURE)
      return oct_fail(ctx, OCTET_FORMAT, "zip: the 64-bit end record is not where the locator says");
    const uint8_t *p = bytes.data + at64;
    *out = (directory){.count = get64(p + 32), .size = get64(p + 40), .offset = get64(p + 48)};
  }
  if (out->offset > bytes.size || out->size > bytes.size - out->offset || out->count > out->size / DIRECTORY_SIZE ||
      out->count > MAX_ENTRIES)
    return oct_fail(ctx, OCTET_FORMAT, "zip: a directory of %llu entries and %llu bytes does not fit the file",
                    (unsigned long long)out->count, (unsigned long long)out->size);
  return OCTET_OK;
}

/* Sizes and offset of 0xffffffff stand in the extra field 1, in this order, each only when it overflowed. */
static bool read_extra64(oct_reader extra, uint64_t *size, uint64_t *stored_size, uint64_t *offset) {
  while (oct_reader_left(&extra) >= 4) {
    uint16_t id = oct_read_u16le(&extra), length = oct_read_u16le(&extra);
    const uint8_t *p = oct_read_bytes(&extra, length);
    if (!p) return false;
    if (id != 1) continue;
    oct_reader field = oct_reader_make(p, length);
    uint64_t *values[3] = {size, stored_size, offset};
    for (int i = 0; i < 3; i++)
      if (*values[i] == UINT32_MAX) *values[i] = oct_read_u64le(&field);
    return !field.failed;
  }
  return *size != UINT32_MAX && *stored_size != UINT32_MAX && *offset != UINT32_MAX;
}

/* Finds the entry's bytes behind its local header, whose name and extra field may differ in length from the directory's. */
static octet_status locate(octet_context *ctx, oct_bytes bytes, uint64_t offset, oct_zip_entry *entry) {
  if (offset > bytes.size || bytes.size - offset < LOCAL_SIZE || get32(bytes.data + offset) != LOCAL_SIGNATURE)
    return oct_fail(ctx, OCTET_FORMAT, "zip: entry %s: no header where the directory says", entry->name);
  const uint8_t *local = bytes.data + offset;
  uint64_t start = offset + LOCAL_SIZE + get16(local + 26) + get16(local + 28);
  if (start > bytes.size || entry->stored_size > bytes.size - start)
    return oct_fail(ctx, OCTET_FORMAT, "zip: entry %s: %llu bytes run past the end of the file", entry->name,
                    (unsigned long long)entry->stored_size);
  entry->data = bytes.data + start;
  return OCTET_OK;
}

static octet_status check_entry(octet_context *ctx, const oct_zip_entry *entry, uint16_t flags) {
  if (flags & 1) return oct_fail(ctx, OCTET_UNSUPPORTED, "zip: entry %s is encrypted", entry->name);
  if (entry->method != 0 && entry->method != 8)
    return oct_fail(ctx, OCTET_UNSUPPORTED, "zip: entry %s uses compression method %u; only stored and deflated are read", entry->name,
                    entry->method);
  if (entry->method == 0 && entry->size != entry->stored_size)
    return oct_fail(ctx, OCTET_FORMAT, "zip: entry %s is stored with two different sizes", entry->name);
  if (entry->size / INFLATE_RATIO > entry->stored_size)
    return oct_fail(ctx, OCTET_FORMAT, "zip: entry %s declares %llu bytes, which %llu deflated bytes cannot hold", entry->name,
                    (unsigned long long)entry->size, (unsigned long long)entry->stored_size);
  return OCTET_OK;
}

static octet_status read_entry(octet_context *ctx, oct_zip *zip, oct_bytes bytes, oct_reader *r) {
  const uint8_t *p = oct_read_bytes(r, DIRECTORY_SIZE);
  if (!p || get32(p) != DIRECTORY_SIGNATURE) return oct_fail(ctx, OCTET_FORMAT, "zip: directory entry %zu is malformed", zip->count);
  size_t name_length = get16(p + 28), extra_length = get16(p + 30), comment_length = get16(p + 32);
  const uint8_t *name = oct_read_bytes(r, name_length), *extra = oct_read_bytes(r, extra_length);
  oct_read_bytes(r, comment_length);
  if (r->failed || memchr(name, 0, name_length)) return oct_fail(ctx, OCTET_FORMAT, "zip: directory entry %zu is malformed", zip->count);
  oct_zip_entry *entry = &zip->entries[zip->count];
  *entry = (oct_zip_entry){.method = get16(p + 10), .crc = get32(p + 16), .stored_size = get32(p + 20), .size = get32(p + 24)};
  entry->name = oct_region_strndup(ctx, &zip->region, (const char *)name, name_length);
  if (!entry->name) return OCTET_OUT_OF_MEMORY;
  uint64_t offset = get32(p + 42);
  if (!read_extra64(oct_reader_make(extra, extra_length), &entry->size, &entry->stored_size, &offset))
    return oct_fail(ctx, OCTET_FORMAT, "zip: entry %s: malformed extra field", entry->name);
  OCT_TRY(check_entry(ctx, entry, get16(p + 8)));
  OCT_TRY(locate(ctx, bytes, offset, entry));
  zip->count++;
  return OCTET_OK;
}

static int compare_names(const void *a, const void *b) {
  return strcmp((*(const oct_zip_entry *const *)a)->name, (*(const oct_zip_entry *const *)b)->name);
}

static octet_status sort_names(octet_context *ctx, oct_zip *zip) {
  zip->by_name = oct_alloc(ctx, zip->count + 1, sizeof *zip->by_name);
  if (!zip->by_name) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < zip->count; i++) zip->by_name[i] = &zip->entries[i];
  qsort(zip->by_name, zip->count, sizeof *zip->by_name, compare_names);
  for (size_t i = 1; i < zip->count; i++)
    if (!strcmp(zip->by_name[i - 1]->name, zip->by_name[i]->name))
      return oct_fail(ctx, OCTET_FORMAT, "zip: two entries are named %s", zip->by_name[i]->name);
  return OCTET_OK;
}

octet_status oct_zip_open(octet_context *ctx, oct_bytes bytes, oct_zip *out) {
  *out = (oct_zip){0};
  directory where = {0};
  OCT_TRY(find_directory(ctx, bytes, &where));
  octet_status status = oct_grow(ctx, &out->entries, &out->capacity, (size_t)where.count + 1, sizeof *out->entries);
  oct_reader reader = oct_reader_make(bytes.data + where.offset, (size_t)where.size);
  uint64_t stored = 0;
  for (uint64_t i = 0; status == OCTET_OK && i < where.count; i++) {
    status = read_entry(ctx, out, bytes, &reader);
    if (status == OCTET_OK) stored += out->entries[i].stored_size;
    if (stored > bytes.size) status = oct_fail(ctx, OCTET_FORMAT, "zip: entries overlap");
  }
  if (status == OCTET_OK) status = sort_names(ctx, out);
  if (status != OCTET_OK) oct_zip_close(out);
  return status;
}

void oct_zip_close(oct_zip *zip) {
  oct_free(zip->by_name);
  oct_free(zip->entries);
  oct_region_free(&zip->region);
  *zip = (oct_zip){0};
}

const oct_zip_entry *oct_zip_find(const oct_zip *zip, const char *name) {
  oct_zip_entry probe = {.name = (char *)(uintptr_t)name};
  const oct_zip_entry *key = &probe;
  const oct_zip_entry **found = zip->count ? bsearch(&key, zip->by_name, zip->count, sizeof *zip->by_name, compare_names) : NULL;
  return found ? *found : NULL;
}

static void *zlib_alloc(void *ctx, uInt count, uInt size) { return oct_alloc(ctx, count, size); }
static void zlib_free(void *ctx, void *memory) {
  (void)ctx;
  oct_free(memory);
}

static octet_status inflate_entry(octet_context *ctx, const oct_zip_entry *entry, uint8_t *to) {
  z_stream stream = {.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = ctx};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    return oct_fail(ctx, OCTET_OUT_OF_MEMORY, "zip: entry %s: no memory to inflate", entry->name);
  uint64_t left_in = entry->stored_size, left_out = entry->size;
  stream.next_in = (Bytef *)(uintptr_t)entry->data;
  stream.next_out = to;
  int code = Z_OK;
  while (code == Z_OK) { /* zlib counts in 32 bits */
    if (stream.avail_in == 0) {
      stream.avail_in = left_in > UINT_MAX ? UINT_MAX : (uInt)left_in;
      left_in -= stream.avail_in;
    }
    if (stream.avail_out == 0) {
      stream.avail_out = left_out > UINT_MAX ? UINT_MAX : (uInt)left_out;
      left_out -= stream.avail_out;
    }
    code = inflate(&stream, left_in ? Z_NO_FLUSH : Z_SYNC_FLUSH);
  }
  bool whole = code == Z_STREAM_END && left_out == 0 && stream.avail_out == 0;
  inflateEnd(&stream);
  if (code == Z_MEM_ERROR) return oct_fail(ctx, OCTET_OUT_OF_MEMORY, "zip: entry %s: no memory to inflate", entry->name);
  if (!whole) return oct_fail(ctx, OCTET_FORMAT, "zip: entry %s: deflated data is damaged or not of the declared size", entry->name);
  return OCTET_OK;
}

static uint32_t crc_of(uint32_t crc, oct_bytes bytes) {
  while (bytes.size) {
    uInt piece = bytes.size > UINT_MAX ? UINT_MAX : (uInt)bytes.size;
    crc = (uint32_t)crc32(crc, bytes.data, piece);
    bytes.data += piece;
    bytes.size -= piece;
  }
  return crc;
}

octet_status oct_zip_read(octet_context *ctx, const oct_zip_entry *entry, oct_bytes *out, void **owned) {
  *owned = NULL;
  *out = (oct_bytes){entry->data, (size_t)entry->stored_size};
  if (entry->method == 8) {
    uint8_t *data = oct_alloc_raw(ctx, entry->size ? (size_t)entry->size : 1);
    if (!data) return OCTET_OUT_OF_MEMORY;
    *out = (oct_bytes){data, (size_t)entry->size};
    *owned = data;
    octet_status status = inflate_entry(ctx, entry, data);
    if (status != OCTET_OK) {
      oct_free(data);
      *owned = NULL;
      return status;
    }
  }
  if (crc_of(0, *out) == entry->crc) return OCTET_OK;
  oct_free(*owned);
  *owned = NULL;
  return oct_fail(ctx, OCTET_FORMAT, "zip: entry %s is damaged (its CRC-32 does not match)", entry->name);
}

/* ---- writing ---- */

struct oct_zip_written {
  char *name;
  uint64_t offset, size;
  uint32_t crc;
};

typedef struct header {
  uint8_t bytes[128];
  size_t size;
} header;

static void put(header *h, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) h->bytes[h->size++] = (uint8_t)(value >> (8 * i));
}

octet_status oct_zip_create(octet_context *ctx, const char *path, oct_zip_writer *out) {
  *out = (oct_zip_writer){.ctx = ctx};
  return oct_writer_open(ctx, path, &out->file);
}

/* Fields that a local header and a directory entry share: version, flags, method, time, CRC, sizes, lengths.
 * The time is 1980-01-01 00:00, as numpy writes it too. Sizes above 4 GB go to a 64-bit extra field. */
static void put_common(header *h, const struct oct_zip_written *entry, size_t name_length, size_t extra) {
  bool large = entry->size >= UINT32_MAX;
  put(h, extra ? 45 : 20, 2);
  put(h, 0, 2);
  put(h, 0, 2);
  put(h, 0, 2);
  put(h, 0x21, 2);
  put(h, entry->crc, 4);
  put(h, large ? UINT32_MAX : entry->size, 4);
  put(h, large ? UINT32_MAX : entry->size, 4);
  put(h, name_length, 2);
  put(h, extra, 2);
}

octet_status oct_zip_put(oct_zip_writer *zip, const char *name, oct_bytes first, oct_bytes second) {
  size_t name_length = strlen(name);
  if (name_length > 60000) return oct_fail(zip->ctx, OCTET_INVALID_ARGUMENT, "zip: the name of an entry is too long");
  OCT_TRY(oct_grow(zip->ctx, &zip->entries, &zip->capacity, zip->count + 1, sizeof *zip->entries));
  struct oct_zip_written *entry = &zip->entries[zip->count];
  *entry = (struct oct_zip_written){.offset = oct_writer_position(zip->file), .size = (uint64_t)first.size + second.size};
  entry->crc = crc_of(crc_of(0, first), second);
  entry->name = oct_strdup(zip->ctx, name);
  if (!entry->name) return OCTET_OUT_OF_MEMORY;
  zip->count++;
  bool large = entry->size >= UINT32_MAX;
  header h = {.size = 0};
  put(&h, LOCAL_SIGNATURE, 4);
  put_common(&h, entry, name_length, large ? 20 : 0);
  OCT_TRY(oct_writer_put(zip->file, h.bytes, h.size));
  OCT_TRY(oct_writer_put(zip->file, name, name_length));
  if (large) {
    h.size = 0;
    put(&h, 1, 2);
    put(&h, 16, 2);
    put(&h, entry->size, 8);
    put(&h, entry->size, 8);
    OCT_TRY(oct_writer_put(zip->file, h.bytes, h.size));
  }
  if (first.size) OCT_TRY(oct_writer_put(zip->file, first.data, first.size));
  if (second.size) OCT_TRY(oct_writer_put(zip->file, second.data, second.size));
  return OCTET_OK;
}

static octet_status put_directory_entry(oct_zip_writer *zip, const struct oct_zip_written *entry) {
  bool large = entry->size >= UINT32_MAX, far = entry->offset >= UINT32_MAX;
  size_t extra = large || far ? 4 + (large ? 16u : 0u) + (far ? 8u : 0u) : 0;
  size_t name_length = strlen(entry->name);
  header h = {.size = 0};
  put(&h, DIRECTORY_SIGNATURE, 4);
  put(&h, 45, 2);
  put_common(&h, entry, name_length, extra);
  put(&h, 0, 2);
  put(&h, 0, 2);
  put(&h, 0, 2);
  put(&h, 0, 4);
  put(&h, far ? UINT32_MAX : entry->offset, 4);
  OCT_TRY(oct_writer_put(zip->file, h.bytes, h.size));
  OCT_TRY(oct_writer_put(zip->file, entry->name, name_length));
  if (!extra) return OCTET_OK;
  h.size = 0;
  put(&h, 1, 2);
  put(&h, extra - 4, 2);
  if (large) put(&h, entry->size, 8), put(&h, entry->size, 8);
  if (far) put(&h, entry->offset, 8);
  return oct_writer_put(zip->file, h.bytes, h.size);
}

static octet_status put_end(oct_zip_writer *zip, uint64_t start) {
  uint64_t end = oct_writer_position(zip->file), size = end - start, count = zip->count;
  bool large = count >= UINT16_MAX || start >= UINT32_MAX || size >= UINT32_MAX;
  header h = {.size = 0};
  if (large) {
    put(&h, END64_SIGNATURE, 4);
    put(&h, 44, 8);
    put(&h, 45, 2);
    put(&h, 45, 2);
    put(&h, 0, 8);
    put(&h, count, 8);
    put(&h, count, 8);
    put(&h, size, 8);
    put(&h, start, 8);
    put(&h, LOCATOR64_SIGNATURE, 4);
    put(&h, 0, 4);
    put(&h, end, 8);
    put(&h, 1, 4);
  }
  put(&h, END_SIGNATURE, 4);
  put(&h, 0, 4);
  put(&h, large ? UINT16_MAX : count, 2);
  put(&h, large ? UINT16_MAX : count, 2);
  put(&h, large ? UINT32_MAX : size, 4);
  put(&h, large ? UINT32_MAX : start, 4);
  put(&h, 0, 2);
  return oct_writer_put(zip->file, h.bytes, h.size);
}

static void free_written(oct_zip_writer *zip) {
  for (size_t i = 0; i < zip->count; i++) oct_free(zip->entries[i].name);
  oct_free(zip->entries);
  *zip = (oct_zip_writer){0};
}

octet_status oct_zip_finish(oct_zip_writer *zip) {
  uint64_t start = oct_writer_position(zip->file);
  octet_status status = OCTET_OK;
  for (size_t i = 0; status == OCTET_OK && i < zip->count; i++) status = put_directory_entry(zip, &zip->entries[i]);
  if (status == OCTET_OK) status = put_end(zip, start);
  if (status == OCTET_OK) status = oct_writer_commit(zip->file);
  else oct_writer_abandon(zip->file);
  free_written(zip);
  return status;
}

void oct_zip_abandon(oct_zip_writer *zip) {
  oct_writer_abandon(zip->file);
  free_written(zip);
}
