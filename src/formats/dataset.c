/* Datasets: opening by kind, arrays, and the way from a sample's index to its bytes. Images are in dataset_folder.c.
 * SPDX-License-Identifier: MIT */
#include "formats/dataset.h"

#include <sys/stat.h>

#include "formats/dataset_parts.h"
#include "formats/idx.h"
#include "formats/npy.h"
#include "formats/zip.h"

/* ---- opening ---- */

static octet_status check_array(octet_context *ctx, oct_dataset *data, const oct_named_tensor *item) {
  const oct_shape *shape = &item->tensor->shape;
  char text[OCT_SHAPE_TEXT];
  if (shape->rank < 1 || oct_shape_count(shape) == 0)
    return oct_fail(ctx, OCTET_DATA, "%s%s: no samples (shape %s)", *item->name ? "array " : "the array", item->name,
                    oct_shape_text(shape, text));
  if (data->count && data->count != shape->dim[0])
    return oct_fail(ctx, OCTET_DATA, "array %s has %lld samples, another one %lld", item->name, (long long)shape->dim[0],
                    (long long)data->count);
  data->count = shape->dim[0];
  return OCTET_OK;
}

static octet_status open_arrays(octet_context *ctx, oct_dataset *data) {
  oct_file *file;
  oct_tensor *tensor = NULL;
  octet_status status = oct_file_open(ctx, data->path, &file);
  if (status != OCTET_OK) return status;
  oct_bytes bytes = oct_file_bytes(file);
  if (oct_zip_is(bytes)) {
    data->named = true;
    status = oct_npz_read(ctx, data->path, &data->arrays);
  } else if (bytes.size >= 6 && !memcmp(bytes.data, "\x93NUMPY", 6)) {
    status = oct_npy_read_bytes(ctx, bytes, file, data->path, &tensor);
  } else if (oct_idx_is(bytes)) {
    status = oct_idx_read_bytes(ctx, bytes, file, data->path, &tensor);
  } else {
    status = oct_fail(ctx, OCTET_FORMAT, "%s: neither .npy, .npz, an IDX file (or its .gz) nor a folder of images", data->path);
  }
  oct_file_close(file);
  if (status == OCTET_OK && tensor) status = oct_bundle_add(ctx, &data->arrays, "", tensor, NULL);
  if (status != OCTET_OK) return status;
  if (data->arrays.count == 0) return oct_fail(ctx, OCTET_DATA, "%s: holds no array", data->path);
  for (size_t i = 0; status == OCTET_OK && i < data->arrays.count; i++) status = check_array(ctx, data, &data->arrays.items[i]);
  return status == OCTET_OK ? OCTET_OK : oct_fail_prefix(ctx, "%s", data->path);
}

octet_status oct_dataset_open(octet_context *ctx, const char *path, const oct_preprocess *preprocess, oct_dataset **out) {
  *out = NULL;
  struct stat st;
  oct_dataset *data = oct_alloc(ctx, 1, sizeof *data);
  if (!data) return OCTET_OUT_OF_MEMORY;
  data->preprocess = preprocess ? *preprocess : oct_preprocess_default();
  data->path = oct_strdup(ctx, path);
  octet_status status = data->path ? OCTET_OK : OCTET_OUT_OF_MEMORY;
  if (status == OCTET_OK) status = !stat(path, &st) && S_ISDIR(st.st_mode) ? oct_dataset_open_folder(ctx, data) : open_arrays(ctx, data);
  if (status == OCTET_OK) *out = data;
  else oct_dataset_close(data);
  return status;
}

void oct_dataset_close(oct_dataset *data) {
  if (!data) return;
  oct_bundle_free(&data->arrays);
  oct_region_free(&data->region);
  oct_free(data->files);
  oct_free(data->classes);
  oct_free(data->path);
  oct_free(data);
}

/* ---- facts ---- */

static const oct_tensor *array_of(const oct_dataset *data, const char *input) {
  if (data->arrays.count == 0) return NULL;
  if (!data->named || (!input && data->arrays.count == 1)) return data->arrays.items[0].tensor;
  const oct_named_tensor *item = input ? oct_bundle_find(&data->arrays, input) : NULL;
  return item ? item->tensor : NULL;
}

int64_t oct_dataset_count(const oct_dataset *data) { return data->count; }
const char *oct_dataset_path(const oct_dataset *data) { return data->path; }
size_t oct_dataset_n_names(const oct_dataset *data) { return data->named ? data->arrays.count : 0; }
const char *oct_dataset_name(const oct_dataset *data, size_t index) { return data->arrays.items[index].name; }
bool oct_dataset_has(const oct_dataset *data, const char *input) { return data->n_files > 0 || array_of(data, input); }

oct_dtype oct_dataset_dtype(const oct_dataset *data, const char *input) {
  if (data->n_files) return OCT_U8;
  const oct_tensor *array = array_of(data, input);
  return array ? array->dtype : OCT_DTYPE_NONE;
}

/* ---- reading ---- */

static octet_status check_request(octet_context *ctx, const oct_dataset *data, const char *input, int64_t index) {
  if (index < 0 || index >= data->count)
    return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "%s: sample %lld of %lld was wanted", data->path, (long long)index,
                    (long long)data->count);
  if (oct_dataset_has(data, input)) return OCTET_OK;
  if (!input) return oct_fail(ctx, OCTET_DATA, "%s: has several arrays; say which one is the input", data->path);
  return oct_fail(ctx, OCTET_DATA, "%s: has no array named \"%s\"", data->path, input);
}

/* The sample's stored elements; an image is decoded and must be freed with oct_image_free(). */
static octet_status find_source(octet_context *ctx, const oct_dataset *data, const char *input, int64_t index, oct_sample_source *source,
                                oct_image *image) {
  *image = (oct_image){0};
  OCT_TRY(check_request(ctx, data, input, index));
  if (data->n_files) {
    OCT_TRY(oct_dataset_image(ctx, data, index, image));
    *source = (oct_sample_source){image->pixels, OCT_U8, oct_shape_of(3, (int64_t)image->height, (int64_t)image->width, (int64_t)3), true};
    return OCTET_OK;
  }
  const oct_tensor *array = array_of(data, input);
  *source = (oct_sample_source){.dtype = array->dtype, .shape.rank = array->shape.rank - 1};
  for (int i = 1; i < array->shape.rank; i++) source->shape.dim[i - 1] = array->shape.dim[i];
  source->data = (const uint8_t *)array->data + (size_t)index * (array->bytes / (size_t)array->shape.dim[0]);
  return OCTET_OK;
}

/* "folder/cat.png" or "digits.npy, sample 3". */
static octet_status name_failure(octet_context *ctx, const oct_dataset *data, int64_t index) {
  if (data->n_files) return oct_fail_prefix(ctx, "%s/%s", data->path, data->files[index].name);
  return oct_fail_prefix(ctx, "%s, sample %lld", data->path, (long long)index);
}

static octet_status fit_sample(octet_context *ctx, const oct_sample_source *source, const oct_sample_form *form, oct_sample_fit *fit) {
  if (oct_sample_fits(source, form, fit)) return OCTET_OK;
  char have[OCT_SHAPE_TEXT], want[OCT_SHAPE_TEXT];
  return oct_fail(ctx, OCTET_SHAPE, "the sample has shape %s, but the model's input takes %s%s", oct_shape_text(&source->shape, have),
                  oct_shape_text(&form->shape, want),
                  source->is_image ? "; resize= and crop= of the preprocessing change an image's size" : "");
}

octet_status oct_dataset_shape(octet_context *ctx, const oct_dataset *data, const char *input, int64_t index, const oct_sample_form *form,
                               oct_shape *out) {
  oct_sample_source source;
  oct_sample_fit fit;
  oct_image image;
  OCT_TRY(find_source(ctx, data, input, index, &source, &image));
  octet_status status = fit_sample(ctx, &source, form, &fit);
  oct_image_free(&image);
  if (status != OCTET_OK) return name_failure(ctx, data, index);
  *out = fit.shape;
  return OCTET_OK;
}

octet_status oct_dataset_read(octet_context *ctx, const oct_dataset *data, const char *input, int64_t index, const oct_sample_form *form,
                              void *to) {
  oct_sample_source source;
  oct_sample_fit fit;
  oct_image image;
  OCT_TRY(find_source(ctx, data, input, index, &source, &image));
  octet_status status = fit_sample(ctx, &source, form, &fit);
  if (status == OCTET_OK) status = oct_sample_convert(ctx, &data->preprocess, &source, form, &fit, to);
  oct_image_free(&image);
  return status == OCTET_OK ? OCTET_OK : name_failure(ctx, data, index);
}

/* ---- drawing ---- */

static uint64_t splitmix64(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* Uniform below n: values of the incomplete last round are drawn again. */
static uint64_t below(uint64_t *state, uint64_t n) {
  uint64_t incomplete = (UINT64_MAX - n + 1) % n; /* 2^64 mod n */
  for (;;) {
    uint64_t value = splitmix64(state);
    if (value >= incomplete) return value % n;
  }
}

octet_status oct_dataset_draw(octet_context *ctx, uint64_t seed, int64_t total, int64_t count, int64_t *indices) {
  if (count < 0 || total < 0 || count > total)
    return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "%lld samples were wanted of data that has %lld", (long long)count, (long long)total);
  int64_t *all = oct_alloc_raw(ctx, (size_t)total * sizeof *all);
  if (!all) return OCTET_OUT_OF_MEMORY;
  for (int64_t i = 0; i < total; i++) all[i] = i;
  uint64_t state = seed;
  for (int64_t i = 0; i < count; i++) {
    int64_t other = i + (int64_t)below(&state, (uint64_t)(total - i));
    indices[i] = all[other];
    all[other] = all[i];
  }
  oct_free(all);
  return OCTET_OK;
}
