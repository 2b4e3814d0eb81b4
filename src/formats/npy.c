/* .npy: a magic, a version, a Python dict literal with type, order and shape, then the elements.
 * SPDX-License-Identifier: MIT */
#include "formats/npy.h"

#include "base/strbuf.h"
#include "formats/byteorder.h"
#include "formats/npy_header.h"

static const char MAGIC[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

/* ---- header ---- */

typedef struct parser {
  const char *at, *end;
} parser;

static void skip_space(parser *p) {
  while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r')) p->at++;
}

static bool take(parser *p, char c) {
  skip_space(p);
  if (p->at == p->end || *p->at != c) return false;
  p->at++;
  return true;
}

static bool take_word(parser *p, const char *word) {
  size_t length = strlen(word);
  skip_space(p);
  if ((size_t)(p->end - p->at) < length || memcmp(p->at, word, length)) return false;
  p->at += length;
  return true;
}

/* A quoted string without escapes into `text`. */
static bool take_string(parser *p, char *text, size_t size) {
  skip_space(p);
  if (p->at == p->end || (*p->at != '\'' && *p->at != '"')) return false;
  char quote = *p->at++;
  size_t length = 0;
  while (p->at < p->end && *p->at != quote && length + 1 < size) text[length++] = *p->at++;
  text[length] = 0;
  return take(p, quote);
}

/* Digits, and Python 2's 'L' behind them. */
static bool take_dimension(parser *p, int64_t *value) {
  skip_space(p);
  const char *start = p->at;
  *value = 0;
  for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
    if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, *p->at - '0', value)) return false;
  bool any = p->at > start;
  if (any && p->at < p->end && *p->at == 'L') p->at++;
  return any;
}

static bool take_shape(parser *p, oct_shape *shape, bool *too_many) {
  if (!take(p, '(')) return false;
  while (!take(p, ')')) {
    int64_t dim;
    if (!take_dimension(p, &dim)) return false;
    if (shape->rank == OCT_MAX_RANK) {
      *too_many = true;
      return false;
    }
    shape->dim[shape->rank++] = dim;
    if (!take(p, ',')) return take(p, ')');
  }
  return true;
}

static const struct {
  char text[4];
  oct_dtype dtype;
} DESCRIPTORS[] = {
    {"f4", OCT_F32}, {"f8", OCT_F64}, {"f2", OCT_F16}, {"V2", OCT_BF16}, {"i1", OCT_I8},  {"u1", OCT_U8},   {"i2", OCT_I16},
    {"u2", OCT_U16}, {"i4", OCT_I32}, {"u4", OCT_U32}, {"i8", OCT_I64},  {"u8", OCT_U64}, {"b1", OCT_BOOL},
};

static octet_status read_descriptor(octet_context *ctx, const char *text, oct_npy_header *out) {
  const char *type = text;
  if (*type == '<' || *type == '>' || *type == '|' || *type == '=') type++;
  for (size_t i = 0; i < sizeof DESCRIPTORS / sizeof *DESCRIPTORS; i++)
    if (!strcmp(DESCRIPTORS[i].text, type)) out->dtype = DESCRIPTORS[i].dtype;
  out->big_endian = *text == '>';
  if (out->dtype != OCT_DTYPE_NONE) return OCTET_OK;
  if (*type == 'O') return oct_fail(ctx, OCTET_UNSUPPORTED, "the array holds Python objects (a pickle): refused; save numbers");
  return oct_fail(ctx, OCTET_UNSUPPORTED, "elements of type '%s' are not supported (only floats, integers and bool)", text);
}

static octet_status read_entry(octet_context *ctx, parser *p, oct_npy_header *out, unsigned *seen) {
  char key[32], text[32];
  bool too_many = false;
  if (!take_string(p, key, sizeof key) || !take(p, ':')) return oct_fail(ctx, OCTET_FORMAT, "malformed header");
  if (!strcmp(key, "descr")) {
    *seen |= 1;
    if (take(p, '[')) return oct_fail(ctx, OCTET_UNSUPPORTED, "arrays of records (structured types) are not supported");
    if (!take_string(p, text, sizeof text)) return oct_fail(ctx, OCTET_FORMAT, "malformed element type in the header");
    return read_descriptor(ctx, text, out);
  }
  if (!strcmp(key, "fortran_order")) {
    *seen |= 2;
    out->fortran_order = take_word(p, "True");
    return out->fortran_order || take_word(p, "False") ? OCTET_OK : oct_fail(ctx, OCTET_FORMAT, "malformed order in the header");
  }
  if (!strcmp(key, "shape")) {
    *seen |= 4;
    out->shape.rank = 0;
    if (take_shape(p, &out->shape, &too_many)) return OCTET_OK;
    return too_many ? oct_fail(ctx, OCTET_UNSUPPORTED, "the array has more than %d dimensions", OCT_MAX_RANK)
                    : oct_fail(ctx, OCTET_FORMAT, "malformed shape in the header");
  }
  return oct_fail(ctx, OCTET_FORMAT, "unknown key '%s' in the header", key);
}

octet_status oct_npy_header_read(octet_context *ctx, oct_bytes bytes, oct_npy_header *out) {
  *out = (oct_npy_header){0};
  oct_reader reader = oct_reader_make(bytes.data, bytes.size);
  const uint8_t *magic = oct_read_bytes(&reader, sizeof MAGIC);
  if (!magic || memcmp(magic, MAGIC, sizeof MAGIC)) return oct_fail(ctx, OCTET_FORMAT, "no .npy file (its first bytes are wrong)");
  unsigned major = oct_read_u8(&reader);
  oct_read_u8(&reader);
  if (major < 1 || major > 3) return oct_fail(ctx, OCTET_UNSUPPORTED, "version %u of the .npy format; versions 1 to 3 are read", major);
  size_t length = major == 1 ? oct_read_u16le(&reader) : oct_read_u32le(&reader);
  const uint8_t *text = oct_read_bytes(&reader, length);
  if (!text) return oct_fail(ctx, OCTET_FORMAT, "the header runs past the end of the file (cut off?)");
  parser p = {(const char *)text, (const char *)text + length};
  unsigned seen = 0;
  bool open = take(&p, '{');
  while (open && !take(&p, '}')) {
    OCT_TRY(read_entry(ctx, &p, out, &seen));
    if (!take(&p, ',')) {
      if (!take(&p, '}')) open = false;
      break;
    }
  }
  if (!open || seen != 7) return oct_fail(ctx, OCTET_FORMAT, "malformed header: it must give descr, fortran_order and shape");
  out->data = bytes.data + reader.position;
  return OCTET_OK;
}

/* ---- elements ---- */

/* Column-major to row-major: an odometer over the row-major order, with the other order's strides. */
static void copy_fortran(const oct_shape *shape, size_t size, const uint8_t *from, uint8_t *to, int64_t count) {
  int64_t stride[OCT_MAX_RANK], at[OCT_MAX_RANK] = {0}, step = 1, element = 0;
  for (int d = 0; d < shape->rank; d++) {
    stride[d] = step;
    step *= shape->dim[d];
  }
  for (int64_t i = 0; i < count; i++) {
    memcpy(to + (size_t)i * size, from + (size_t)element * size, size);
    for (int d = shape->rank - 1; d >= 0; d--) {
      element += stride[d];
      if (++at[d] < shape->dim[d]) break;
      element -= stride[d] * shape->dim[d];
      at[d] = 0;
    }
  }
}

static octet_status read_array(octet_context *ctx, oct_bytes bytes, oct_file *file, oct_tensor **out) {
  oct_npy_header header;
  OCT_TRY(oct_npy_header_read(ctx, bytes, &header));
  size_t size = oct_dtype_size(header.dtype), needed, left = bytes.size - (size_t)(header.data - bytes.data);
  int64_t count = oct_shape_count(&header.shape);
  char text[OCT_SHAPE_TEXT];
  if (count < 0 || !oct_mul_size((size_t)count, size, &needed) || needed > left)
    return oct_fail(ctx, OCTET_FORMAT, "%zu bytes of data are too few for %s %s (cut off?)", left, oct_dtype_name(header.dtype),
                    oct_shape_text(&header.shape, text));
  bool swapped = header.big_endian && size > 1, turned = header.fortran_order && header.shape.rank > 1;
  if (!swapped && !turned) return oct_tensor_from_bytes(ctx, header.dtype, &header.shape, file, header.data, needed, out);
  OCT_TRY(oct_tensor_create(ctx, header.dtype, &header.shape, out));
  if (turned) copy_fortran(&header.shape, size, header.data, (*out)->data, count);
  else if (needed) memcpy((*out)->data, header.data, needed);
  if (swapped) oct_swap_elements((*out)->data, needed, size);
  return OCTET_OK;
}

octet_status oct_npy_read_bytes(octet_context *ctx, oct_bytes bytes, oct_file *file, const char *name, oct_tensor **out) {
  *out = NULL;
  octet_status status = read_array(ctx, bytes, file, out);
  return status == OCTET_OK ? OCTET_OK : oct_fail_prefix(ctx, "%s", name);
}

octet_status oct_npy_read(octet_context *ctx, const char *path, oct_tensor **out) {
  *out = NULL;
  oct_file *file;
  OCT_TRY(oct_file_open(ctx, path, &file));
  octet_status status = oct_npy_read_bytes(ctx, oct_file_bytes(file), file, path, out);
  oct_file_close(file);
  return status;
}

/* ---- writing ---- */

/* Magic, version 1, length, and the literal as numpy writes it, padded so that the data starts at a multiple of 64. */
octet_status oct_npy_header_write(octet_context *ctx, const oct_tensor *tensor, char **out, size_t *size) {
  const char *type = NULL;
  for (size_t i = 0; i < sizeof DESCRIPTORS / sizeof *DESCRIPTORS; i++)
    if (DESCRIPTORS[i].dtype == tensor->dtype) type = DESCRIPTORS[i].text;
  if (!type) return oct_fail(ctx, OCTET_UNSUPPORTED, "%s cannot be written to a .npy file", oct_dtype_name(tensor->dtype));
  oct_strbuf text = oct_strbuf_make(ctx);
  oct_strbuf_append(&text, MAGIC, sizeof MAGIC);
  oct_strbuf_append(&text, "\1\0\0\0", 4); /* version 1.0 and the length, set below */
  oct_strbuf_printf(&text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", oct_dtype_size(tensor->dtype) > 1 ? '<' : '|', type);
  for (int i = 0; i < tensor->shape.rank; i++) {
    const char *after = tensor->shape.rank == 1 ? "," : i + 1 < tensor->shape.rank ? ", " : "";
    oct_strbuf_printf(&text, "%lld%s", (long long)tensor->shape.dim[i], after);
  }
  oct_strbuf_puts(&text, "), }");
  while (text.length % 64 != 63 && !text.failed) oct_strbuf_append(&text, " ", 1);
  oct_strbuf_append(&text, "\n", 1);
  *size = text.length;
  OCT_TRY(oct_strbuf_take(&text, out));
  size_t length = *size - sizeof MAGIC - 4;
  (*out)[8] = (char)(length & 255);
  (*out)[9] = (char)(length >> 8);
  return OCTET_OK;
}

octet_status oct_npy_write(octet_context *ctx, const char *path, const oct_tensor *tensor) {
  char *header;
  size_t size;
  oct_writer *writer = NULL;
  OCT_TRY(oct_npy_header_write(ctx, tensor, &header, &size));
  octet_status status = oct_writer_open(ctx, path, &writer);
  if (status == OCTET_OK) status = oct_writer_put(writer, header, size);
  if (status == OCTET_OK && tensor->bytes) status = oct_writer_put(writer, tensor->data, tensor->bytes);
  oct_free(header);
  if (status == OCTET_OK) return oct_writer_commit(writer);
  oct_writer_abandon(writer);
  return status;
}
