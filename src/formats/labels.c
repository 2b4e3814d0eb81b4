/* Labels; the formats are described in labels.h.
 * SPDX-License-Identifier: MIT */
#include "formats/labels.h"

#include <stdlib.h>

#include "formats/idx.h"
#include "formats/npy.h"

static octet_status create(octet_context *ctx, int64_t count, int64_t n_classes, oct_labels *out) {
  *out = (oct_labels){.count = count};
  out->start = oct_alloc(ctx, (size_t)count + 1, sizeof *out->start);
  out->classes = oct_alloc(ctx, (size_t)n_classes + 1, sizeof *out->classes);
  if (out->start && out->classes) return OCTET_OK;
  oct_labels_free(out);
  return OCTET_OUT_OF_MEMORY;
}

void oct_labels_free(oct_labels *labels) {
  oct_free(labels->start);
  oct_free(labels->classes);
  *labels = (oct_labels){0};
}

bool oct_labels_accept(const oct_labels *labels, int64_t sample, int64_t class_index) {
  for (int64_t i = labels->start[sample]; i < labels->start[sample + 1]; i++)
    if (labels->classes[i] == class_index) return true;
  return false;
}

/* ---- arrays ---- */

static octet_status from_array(octet_context *ctx, const oct_tensor *array, const oct_dataset *data, oct_labels *out) {
  char text[OCT_SHAPE_TEXT];
  int64_t count = oct_dataset_count(data);
  if (oct_dtype_is_float(array->dtype) || array->dtype == OCT_BOOL)
    return oct_fail(ctx, OCTET_DATA, "labels must be integers, not %s", oct_dtype_name(array->dtype));
  if (array->shape.rank < 1 || array->shape.dim[0] != count || oct_shape_count(&array->shape) != count)
    return oct_fail(ctx, OCTET_SHAPE, "labels of shape %s for %lld samples", oct_shape_text(&array->shape, text), (long long)count);
  OCT_TRY(create(ctx, count, count, out));
  for (int64_t i = 0; i < count; i++) {
    int64_t class_index = oct_get_i64(array->data, array->dtype, i);
    if (class_index < 0 || class_index > INT32_MAX) {
      oct_labels_free(out);
      return oct_fail(ctx, OCTET_DATA, "label %lld of sample %lld is no class", (long long)class_index, (long long)i);
    }
    out->classes[i] = (int32_t)class_index;
    out->start[i + 1] = i + 1;
  }
  out->labelled = count;
  return OCTET_OK;
}

/* ---- TSV ---- */

typedef struct row {
  const char *name, *classes; /* not zero-terminated */
  size_t name_length, classes_length;
  size_t line; /* from 1 */
  bool used;
} row;

typedef struct table {
  octet_context *ctx;
  const oct_dataset *data;
  row *rows;
  size_t count, capacity;
} table;

/* Reads comma-separated classes; stores them when `to` is given. -1 when malformed. */
static int64_t read_classes(const char *text, size_t length, int32_t *to) {
  int64_t count = 0;
  size_t at = 0;
  while (at < length && text[at] == ' ') at++;
  if (at == length) return 0;
  for (;;) {
    int64_t value = 0;
    size_t digits = 0;
    while (at < length && text[at] == ' ') at++;
    for (; at < length && text[at] >= '0' && text[at] <= '9' && value <= INT32_MAX; at++, digits++) value = value * 10 + (text[at] - '0');
    while (at < length && text[at] == ' ') at++;
    if (!digits || value > INT32_MAX || (at < length && text[at] != ',')) return -1;
    if (to) to[count] = (int32_t)value;
    count++;
    if (at++ >= length) return count;
  }
}

static octet_status add_row(table *t, const char *line, size_t length, size_t number) {
  const char *tab = memchr(line, '\t', length);
  if (!tab) return oct_fail(t->ctx, OCTET_FORMAT, "line %zu has no tab: a file name, a tab and classes are wanted", number);
  const char *end = line + length, *classes = tab + 1, *next = memchr(classes, '\t', (size_t)(end - classes));
  row r = {.name = line,
           .name_length = (size_t)(tab - line),
           .classes = classes,
           .classes_length = (size_t)((next ? next : end) - classes),
           .line = number};
  if (read_classes(r.classes, r.classes_length, NULL) < 0) {
    if (t->count == 0 && number == 1) return OCTET_OK; /* the header */
    return oct_fail(t->ctx, OCTET_FORMAT, "line %zu: \"%.*s\" are no comma-separated class numbers", number,
                    (int)(r.classes_length < 40 ? r.classes_length : 40), r.classes);
  }
  OCT_TRY(oct_grow(t->ctx, &t->rows, &t->capacity, t->count + 1, sizeof *t->rows));
  t->rows[t->count++] = r;
  return OCTET_OK;
}

static octet_status read_rows(table *t, oct_bytes bytes) {
  const char *at = (const char *)bytes.data, *end = at + bytes.size;
  for (size_t number = 1; at < end; number++) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) stop = end;
    size_t length = (size_t)(stop - at);
    if (length && at[length - 1] == '\r') length--;
    if (length) OCT_TRY(add_row(t, at, length, number));
    at = stop < end ? stop + 1 : end;
  }
  return OCTET_OK;
}

static int compare_names(const char *a, size_t a_length, const char *b, size_t b_length) {
  size_t shorter = a_length < b_length ? a_length : b_length;
  int order = memcmp(a, b, shorter);
  return order ? order : (a_length > b_length) - (a_length < b_length);
}

static int compare_rows(const void *a, const void *b) {
  const row *x = a, *y = b;
  return compare_names(x->name, x->name_length, y->name, y->name_length);
}

static row *find_row(table *t, const char *name) {
  row probe = {.name = name, .name_length = strlen(name)};
  return t->count ? bsearch(&probe, t->rows, t->count, sizeof probe, compare_rows) : NULL;
}

/* The row of a sample: for folders by path or last part of it, for other data by position. */
static row *row_of(table *t, int64_t sample) {
  const char *file = oct_dataset_file(t->data, sample);
  if (!file) return &t->rows[sample];
  const char *slash = strrchr(file, '/');
  row *found = find_row(t, file);
  return found || !slash ? found : find_row(t, slash + 1);
}

static octet_status check_rows(table *t) {
  int64_t count = oct_dataset_count(t->data);
  if (!oct_dataset_file(t->data, 0)) {
    if ((int64_t)t->count != count) return oct_fail(t->ctx, OCTET_SHAPE, "%zu rows of labels for %lld samples", t->count, (long long)count);
    return OCTET_OK;
  }
  if (t->count) qsort(t->rows, t->count, sizeof *t->rows, compare_rows);
  for (size_t i = 1; i < t->count; i++)
    if (!compare_rows(&t->rows[i - 1], &t->rows[i]))
      return oct_fail(t->ctx, OCTET_FORMAT, "lines %zu and %zu both label %.*s", t->rows[i - 1].line, t->rows[i].line,
                      (int)(t->rows[i].name_length < 200 ? t->rows[i].name_length : 200), t->rows[i].name);
  return OCTET_OK;
}

static octet_status fill(table *t, oct_labels *out) {
  int64_t count = oct_dataset_count(t->data), total = 0, missing = 0;
  for (int64_t i = 0; i < count; i++) { /* a row may serve several files of one name in different sub-folders */
    const row *r = row_of(t, i);
    total += r ? read_classes(r->classes, r->classes_length, NULL) : 0;
  }
  OCT_TRY(create(t->ctx, count, total, out));
  for (int64_t i = 0; i < count; i++) {
    row *r = row_of(t, i);
    int64_t n = r ? read_classes(r->classes, r->classes_length, out->classes + out->start[i]) : 0;
    out->start[i + 1] = out->start[i] + n;
    out->labelled += n > 0;
    missing += !r;
    if (r) r->used = true;
  }
  if (missing) oct_warn(t->ctx, "%lld of %lld samples have no row in the labels and are left out", (long long)missing, (long long)count);
  return OCTET_OK;
}

static octet_status from_table(octet_context *ctx, oct_bytes bytes, const oct_dataset *data, oct_labels *out) {
  table t = {.ctx = ctx, .data = data};
  octet_status status = read_rows(&t, bytes);
  if (status == OCTET_OK) status = check_rows(&t);
  if (status == OCTET_OK) status = fill(&t, out);
  size_t unused = 0;
  for (size_t i = 0; status == OCTET_OK && i < t.count; i++) unused += !t.rows[i].used;
  if (unused) oct_warn(ctx, "%zu rows of the labels name no sample of the data", unused);
  oct_free(t.rows);
  return status;
}

/* ---- all ---- */

static octet_status read_any(octet_context *ctx, const char *path, oct_file *file, const oct_dataset *data, oct_labels *out) {
  oct_bytes bytes = oct_file_bytes(file);
  bool npy = bytes.size >= 6 && !memcmp(bytes.data, "\x93NUMPY", 6);
  oct_tensor *array = NULL;
  octet_status status;
  if (npy) status = oct_npy_read_bytes(ctx, bytes, file, path, &array);
  else if (oct_idx_is(bytes)) status = oct_idx_read_bytes(ctx, bytes, file, path, &array);
  else if ((status = from_table(ctx, bytes, data, out)) != OCTET_OK) return oct_fail_prefix(ctx, "%s", path);
  if (status == OCTET_OK && array && (status = from_array(ctx, array, data, out)) != OCTET_OK) oct_fail_prefix(ctx, "%s", path);
  oct_tensor_release(array);
  return status;
}

octet_status oct_labels_read(octet_context *ctx, const char *path, const oct_dataset *data, oct_labels *out) {
  *out = (oct_labels){0};
  oct_file *file;
  OCT_TRY(oct_file_open(ctx, path, &file));
  octet_status status = read_any(ctx, path, file, data, out);
  oct_file_close(file);
  if (status != OCTET_OK || out->labelled) return status;
  oct_labels_free(out);
  return oct_fail(ctx, OCTET_DATA, "%s: labels no sample of %s", path, oct_dataset_path(data));
}

octet_status oct_labels_from_folders(octet_context *ctx, const oct_dataset *data, oct_labels *out) {
  *out = (oct_labels){0};
  int64_t count = oct_dataset_count(data);
  if (!oct_dataset_n_classes(data))
    return oct_fail(ctx, OCTET_DATA,
                    "%s: has no sub-folders that would be classes: give labels (IDX, .npy, or a TSV of file name and classes)",
                    oct_dataset_path(data));
  OCT_TRY(create(ctx, count, count, out));
  for (int64_t i = 0; i < count; i++) {
    int class_index = oct_dataset_class(data, i);
    if (class_index >= 0) out->classes[out->labelled++] = class_index;
    out->start[i + 1] = out->labelled;
  }
  return OCTET_OK;
}
