/* A folder of images as a dataset: listing (one level of sub-folders, which are classes), order, decoding on demand.
 * SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "formats/dataset_parts.h"

#define MAX_FILES 16777216

static bool is_image_name(const char *name) {
  return oct_path_has_suffix(name, ".png") || oct_path_has_suffix(name, ".jpg") || oct_path_has_suffix(name, ".jpeg");
}

static bool is_folder(const char *path) {
  struct stat st;
  return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static octet_status add_file(octet_context *ctx, oct_dataset *data, const char *folder, const char *name, int class_index) {
  if (data->n_files >= MAX_FILES) return oct_fail(ctx, OCTET_UNSUPPORTED, "%s: more than %d images", data->path, MAX_FILES);
  OCT_TRY(oct_grow(ctx, &data->files, &data->files_capacity, data->n_files + 1, sizeof *data->files));
  const char *stored = folder ? oct_region_printf(ctx, &data->region, "%s/%s", folder, name) : oct_region_strdup(ctx, &data->region, name);
  if (!stored) return OCTET_OUT_OF_MEMORY;
  data->files[data->n_files++] = (oct_image_file){stored, class_index};
  return OCTET_OK;
}

static octet_status add_class(octet_context *ctx, oct_dataset *data, const char *name) {
  OCT_TRY(oct_grow(ctx, &data->classes, &data->classes_capacity, data->n_classes + 1, sizeof *data->classes));
  const char *stored = oct_region_strdup(ctx, &data->region, name);
  if (!stored) return OCTET_OUT_OF_MEMORY;
  data->classes[data->n_classes++] = stored;
  return OCTET_OK;
}

static char *join(octet_context *ctx, const char *folder, const char *name) {
  size_t a = strlen(folder), b = strlen(name);
  char *path = oct_alloc_raw(ctx, a + b + 2);
  if (!path) return NULL;
  memcpy(path, folder, a);
  path[a] = '/';
  memcpy(path + a + 1, name, b + 1);
  return path;
}

/* Lists the images of one folder, and of the top folder (class_index -1) its sub-folders. Hidden names are passed over. */
static octet_status list_entry(octet_context *ctx, oct_dataset *data, const char *path, const char *folder, const char *name,
                               int class_index) {
  if (*name == '.') return OCTET_OK;
  if (is_image_name(name)) return add_file(ctx, data, folder, name, class_index);
  if (folder) return OCTET_OK;
  char *full = join(ctx, path, name);
  if (!full) return OCTET_OUT_OF_MEMORY;
  octet_status status = is_folder(full) ? add_class(ctx, data, name) : OCTET_OK;
  oct_free(full);
  return status;
}

static octet_status list_folder(octet_context *ctx, oct_dataset *data, const char *path, const char *folder, int class_index) {
  DIR *dir = opendir(path);
  if (!dir) return oct_fail(ctx, OCTET_IO, "%s: cannot be listed: %s", path, strerror(errno));
  octet_status status = OCTET_OK;
  struct dirent *entry;
  while (status == OCTET_OK && (entry = readdir(dir))) status = list_entry(ctx, data, path, folder, entry->d_name, class_index);
  closedir(dir);
  return status;
}

static int compare_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static int compare_files(const void *a, const void *b) {
  const oct_image_file *x = a, *y = b;
  if (x->class_index != y->class_index) return x->class_index < y->class_index ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* Sub-folders without images are no classes: they are listed first, and dropped when nothing comes of them. */
static octet_status list_classes(octet_context *ctx, oct_dataset *data) {
  size_t kept = 0;
  if (data->n_classes) qsort(data->classes, data->n_classes, sizeof *data->classes, compare_text);
  for (size_t i = 0; i < data->n_classes; i++) {
    size_t before = data->n_files;
    char *path = join(ctx, data->path, data->classes[i]);
    if (!path) return OCTET_OUT_OF_MEMORY;
    octet_status status = list_folder(ctx, data, path, data->classes[i], (int)kept);
    oct_free(path);
    if (status != OCTET_OK) return status;
    if (data->n_files > before) data->classes[kept++] = data->classes[i];
  }
  data->n_classes = kept;
  return OCTET_OK;
}

octet_status oct_dataset_open_folder(octet_context *ctx, oct_dataset *data) {
  OCT_TRY(list_folder(ctx, data, data->path, NULL, -1));
  OCT_TRY(list_classes(ctx, data));
  if (data->n_files == 0) return oct_fail(ctx, OCTET_DATA, "%s: the folder and its sub-folders hold no PNG or JPEG images", data->path);
  qsort(data->files, data->n_files, sizeof *data->files, compare_files);
  data->count = (int64_t)data->n_files;
  return OCTET_OK;
}

octet_status oct_dataset_image(octet_context *ctx, const oct_dataset *data, int64_t index, oct_image *out) {
  char *path = join(ctx, data->path, data->files[index].name);
  if (!path) return OCTET_OUT_OF_MEMORY;
  octet_status status = oct_image_read(ctx, path, out);
  if (status == OCTET_OK && (status = oct_preprocess_image(ctx, &data->preprocess, out)) != OCTET_OK) {
    oct_fail_prefix(ctx, "%s", path);
    oct_image_free(out);
  }
  oct_free(path);
  return status;
}

const char *oct_dataset_file(const oct_dataset *data, int64_t index) { return data->n_files ? data->files[index].name : NULL; }
int oct_dataset_class(const oct_dataset *data, int64_t index) { return data->n_files ? data->files[index].class_index : -1; }
int oct_dataset_n_classes(const oct_dataset *data) { return (int)data->n_classes; }
const char *oct_dataset_class_name(const oct_dataset *data, int class_index) { return data->classes[class_index]; }
