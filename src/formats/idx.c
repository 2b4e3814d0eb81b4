/* IDX: two zero bytes, a type, the number of dimensions, the dimensions (big-endian), the elements (big-endian).
 * A gzipped file is inflated into exactly what its own header declares; more or less is an error.
 * SPDX-License-Identifier: MIT */
#include "formats/idx.h"

#include <limits.h>
#include <zlib.h>

#include "formats/byteorder.h"

#define INFLATE_RATIO 1032 /* deflate cannot expand by more */
#define MAX_HEADER (4 + 4 * OCT_MAX_RANK)

static const struct {
  uint8_t code;
  oct_dtype dtype;
} TYPES[] = {{0x08, OCT_U8}, {0x09, OCT_I8}, {0x0b, OCT_I16}, {0x0c, OCT_I32}, {0x0d, OCT_F32}, {0x0e, OCT_F64}};

static bool is_gzip(oct_bytes bytes) { return bytes.size >= 2 && bytes.data[0] == 0x1f && bytes.data[1] == 0x8b; }

bool oct_idx_is(oct_bytes bytes) {
  if (is_gzip(bytes)) return true;
  if (bytes.size < 4 || bytes.data[0] || bytes.data[1]) return false;
  for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
    if (TYPES[i].code == bytes.data[2]) return true;
  return false;
}

typedef struct header {
  oct_dtype dtype;
  oct_shape shape;
  size_t bytes; /* of elements */
} header;

/* The first four bytes: type and number of dimensions. */
static octet_status read_start(octet_context *ctx, oct_reader *r, header *out) {
  uint16_t zero = oct_read_u16le(r);
  uint8_t code = oct_read_u8(r), rank = oct_read_u8(r);
  if (r->failed || zero) return oct_fail(ctx, OCTET_FORMAT, "no IDX file (it must start with two zero bytes)");
  for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
    if (TYPES[i].code == code) out->dtype = TYPES[i].dtype;
  if (out->dtype == OCT_DTYPE_NONE) return oct_fail(ctx, OCTET_FORMAT, "IDX element type 0x%02x is not defined", code);
  if (rank > OCT_MAX_RANK) return oct_fail(ctx, OCTET_UNSUPPORTED, "%u dimensions; at most %d are supported", rank, OCT_MAX_RANK);
  out->shape.rank = rank;
  return OCTET_OK;
}

static octet_status read_dimensions(octet_context *ctx, oct_reader *r, header *out) {
  char text[OCT_SHAPE_TEXT];
  for (int i = 0; i < out->shape.rank; i++) out->shape.dim[i] = oct_read_u32be(r);
  if (r->failed) return oct_fail(ctx, OCTET_FORMAT, "the IDX header is cut off");
  int64_t count = oct_shape_count(&out->shape);
  if (count < 0 || !oct_mul_size((size_t)count, oct_dtype_size(out->dtype), &out->bytes))
    return oct_fail(ctx, OCTET_FORMAT, "the declared shape %s overflows", oct_shape_text(&out->shape, text));
  return OCTET_OK;
}

static octet_status too_short(octet_context *ctx, const header *h, size_t found) {
  char text[OCT_SHAPE_TEXT];
  return oct_fail(ctx, OCTET_FORMAT, "%s %s needs %zu bytes of data, but there are only %zu (cut off?)", oct_dtype_name(h->dtype),
                  oct_shape_text(&h->shape, text), h->bytes, found);
}

static octet_status read_plain(octet_context *ctx, oct_bytes bytes, oct_file *file, oct_tensor **out) {
  oct_reader r = oct_reader_make(bytes.data, bytes.size);
  header h = {0};
  OCT_TRY(read_start(ctx, &r, &h));
  OCT_TRY(read_dimensions(ctx, &r, &h));
  if (oct_reader_left(&r) < h.bytes) return too_short(ctx, &h, oct_reader_left(&r));
  const uint8_t *data = bytes.data + r.position;
  if (oct_dtype_size(h.dtype) == 1) return oct_tensor_from_bytes(ctx, h.dtype, &h.shape, file, data, h.bytes, out);
  OCT_TRY(oct_tensor_create(ctx, h.dtype, &h.shape, out));
  if (h.bytes) memcpy((*out)->data, data, h.bytes);
  oct_swap_elements((*out)->data, h.bytes, oct_dtype_size(h.dtype));
  return OCTET_OK;
}

/* ---- gzip ---- */

typedef struct inflater {
  octet_context *ctx;
  z_stream stream;
  size_t left; /* input bytes not yet given to zlib */
} inflater;

static void *zlib_alloc(void *ctx, uInt count, uInt size) { return oct_alloc(ctx, count, size); }
static void zlib_free(void *ctx, void *memory) {
  (void)ctx;
  oct_free(memory);
}

/* Inflates up to `size` bytes to `to`; *got is less when the stream ends. Concatenated gzip members are one stream. */
static octet_status inflate_bytes(inflater *in, uint8_t *to, size_t size, size_t *got) {
  *got = 0;
  while (*got < size) {
    uInt room = size - *got > UINT_MAX ? UINT_MAX : (uInt)(size - *got);
    in->stream.next_out = to + *got;
    in->stream.avail_out = room;
    if (in->stream.avail_in == 0) {
      in->stream.avail_in = in->left > UINT_MAX ? UINT_MAX : (uInt)in->left;
      in->left -= in->stream.avail_in;
    }
    int code = inflate(&in->stream, Z_NO_FLUSH);
    *got += room - in->stream.avail_out;
    if (code == Z_STREAM_END) {
      if (in->stream.avail_in == 0 && in->left == 0) return OCTET_OK;
      code = inflateReset(&in->stream);
    } else if (code == Z_BUF_ERROR && in->stream.avail_in == 0 && in->left == 0) {
      return oct_fail(in->ctx, OCTET_FORMAT, "the gzip data is cut off");
    }
    if (code == Z_MEM_ERROR) return oct_fail(in->ctx, OCTET_OUT_OF_MEMORY, "no memory to inflate");
    if (code != Z_OK) return oct_fail(in->ctx, OCTET_FORMAT, "the gzip data is damaged (%s)", in->stream.msg ? in->stream.msg : "inflate");
  }
  return OCTET_OK;
}

static octet_status inflate_exactly(inflater *in, uint8_t *to, size_t size, size_t *got) {
  OCT_TRY(inflate_bytes(in, to, size, got));
  return *got == size ? OCTET_OK : oct_fail(in->ctx, OCTET_FORMAT, "the IDX header is cut off");
}

static octet_status inflate_elements(inflater *in, const header *h, size_t compressed, oct_tensor **out) {
  size_t got;
  uint8_t extra;
  if (h->bytes / INFLATE_RATIO > compressed)
    return oct_fail(in->ctx, OCTET_FORMAT, "the IDX header declares %zu bytes, which %zu compressed bytes cannot hold", h->bytes,
                    compressed);
  OCT_TRY(oct_tensor_create(in->ctx, h->dtype, &h->shape, out));
  octet_status status = inflate_bytes(in, (*out)->data, h->bytes, &got);
  if (status == OCTET_OK && got < h->bytes) status = too_short(in->ctx, h, got);
  if (status == OCTET_OK) status = inflate_bytes(in, &extra, 1, &got); /* reads the check sum at the end as well */
  if (status == OCTET_OK && got)
    status = oct_fail(in->ctx, OCTET_FORMAT, "the gzip data goes on beyond the %zu bytes that the IDX header declares", h->bytes);
  if (status == OCTET_OK) {
    oct_swap_elements((*out)->data, h->bytes, oct_dtype_size(h->dtype));
    return OCTET_OK;
  }
  oct_tensor_release(*out);
  *out = NULL;
  return status;
}

static octet_status read_gzip(octet_context *ctx, oct_bytes bytes, oct_tensor **out) {
  inflater in = {.ctx = ctx, .stream = {.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = ctx}, .left = bytes.size};
  if (inflateInit2(&in.stream, 16 + MAX_WBITS) != Z_OK) return oct_fail(ctx, OCTET_OUT_OF_MEMORY, "no memory to inflate");
  in.stream.next_in = (Bytef *)(uintptr_t)bytes.data;
  uint8_t start[MAX_HEADER];
  header h = {0};
  size_t got = 0;
  octet_status status = inflate_exactly(&in, start, 4, &got);
  if (status == OCTET_OK) {
    oct_reader r = oct_reader_make(start, 4);
    status = read_start(ctx, &r, &h);
  }
  if (status == OCTET_OK && h.shape.rank) status = inflate_exactly(&in, start + 4, 4 * (size_t)h.shape.rank, &got);
  if (status == OCTET_OK) {
    oct_reader r = oct_reader_make(start + 4, 4 * (size_t)h.shape.rank);
    status = read_dimensions(ctx, &r, &h);
  }
  if (status == OCTET_OK) status = inflate_elements(&in, &h, bytes.size, out);
  inflateEnd(&in.stream);
  return status;
}

/* ---- */

octet_status oct_idx_read_bytes(octet_context *ctx, oct_bytes bytes, oct_file *file, const char *name, oct_tensor **out) {
  *out = NULL;
  octet_status status = is_gzip(bytes) ? read_gzip(ctx, bytes, out) : read_plain(ctx, bytes, file, out);
  return status == OCTET_OK ? OCTET_OK : oct_fail_prefix(ctx, "%s", name);
}

octet_status oct_idx_read(octet_context *ctx, const char *path, oct_tensor **out) {
  *out = NULL;
  oct_file *file;
  OCT_TRY(oct_file_open(ctx, path, &file));
  octet_status status = oct_idx_read_bytes(ctx, oct_file_bytes(file), file, path, out);
  oct_file_close(file);
  return status;
}
