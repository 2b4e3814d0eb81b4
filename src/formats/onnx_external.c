/* External data of ONNX tensors: files beside the model, by relative path, never outside the model's folder.
 * SPDX-License-Identifier: MIT */
#include <limits.h>
#include <stdlib.h>

#include "formats/onnx_parts.h"

void oct_onnx_source_free(oct_onnx_source *source) {
  for (size_t i = 0; i < source->n_externals; i++) {
    oct_free(source->externals[i].location);
    oct_file_close(source->externals[i].file);
  }
  oct_free(source->externals);
  oct_file_close(source->file);
  *source = (oct_onnx_source){.ctx = source->ctx};
}

/* A relative path without ".." parts, backslashes or drive letters. */
static bool is_inside(const char *location) {
  if (!*location || *location == '/' || strchr(location, '\\') || strchr(location, ':')) return false;
  for (const char *part = location; part; part = strchr(part, '/')) {
    if (*part == '/') part++;
    if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == 0)) return false;
  }
  return true;
}

/* Follows links: `path` must lie in the folder of `model`. A path that does not resolve is left to the opener. */
static bool resolves_inside(const char *model, const char *path) {
  char folder[PATH_MAX], file[PATH_MAX];
  if (!realpath(path, file)) return true;
  char *slash;
  size_t length = strlen(model);
  if (length >= sizeof folder) return false;
  char copy[PATH_MAX];
  memcpy(copy, model, length + 1);
  if (!(slash = strrchr(copy, '/'))) memcpy(copy, ".", 2);
  else slash[slash == copy] = 0;
  if (!realpath(copy, folder)) return false;
  length = strlen(folder);
  return strncmp(file, folder, length) == 0 && (length == 1 || file[length] == '/');
}

static octet_status open_beside(oct_onnx_source *source, const char *location, oct_file **out) {
  octet_context *ctx = source->ctx;
  if (!source->path)
    return oct_fail(ctx, OCTET_UNSUPPORTED, "external data \"%s\" cannot be found: the model was not read from a file", location);
  if (!is_inside(location))
    return oct_fail(ctx, OCTET_FORMAT,
                    "external data \"%s\" is refused: it must be a relative path inside the model's folder, without \"..\"", location);
  char *path = oct_path_beside(ctx, source->path, location);
  if (!path) return OCTET_OUT_OF_MEMORY;
  octet_status status = OCTET_OK;
  if (!resolves_inside(source->path, path))
    status = oct_fail(ctx, OCTET_FORMAT, "external data \"%s\" is refused: it is a link to a place outside the model's folder", location);
  if (status == OCTET_OK && (status = oct_file_open(ctx, path, out)) != OCTET_OK) oct_fail_prefix(ctx, "external data \"%s\"", location);
  oct_free(path);
  return status;
}

octet_status oct_onnx_external_open(oct_onnx_source *source, oct_bytes location, oct_file **out) {
  octet_context *ctx = source->ctx;
  char text[OCT_ONNX_TEXT];
  *out = NULL;
  if (!oct_onnx_text_valid(location) || location.size >= PATH_MAX)
    return oct_fail(ctx, OCTET_FORMAT, "external data \"%s\" is refused: it is not a path", oct_onnx_text(location, text));
  for (size_t i = 0; i < source->n_externals; i++)
    if (oct_onnx_equal(location, source->externals[i].location)) {
      *out = source->externals[i].file;
      return OCTET_OK;
    }
  OCT_TRY(oct_grow(ctx, &source->externals, &source->externals_capacity, source->n_externals + 1, sizeof *source->externals));
  char *copy = oct_strndup(ctx, (const char *)location.data, location.size);
  if (!copy) return OCTET_OUT_OF_MEMORY;
  octet_status status = open_beside(source, copy, out);
  if (status != OCTET_OK) {
    oct_free(copy);
    return status;
  }
  source->externals[source->n_externals++] = (oct_onnx_external){copy, *out};
  return OCTET_OK;
}
