/* Models by file suffix. Checkpoints that are put onto graphs are in model_weights.c.
 * SPDX-License-Identifier: MIT */
#include "formats/model.h"

#include <unistd.h>

#include "formats/model_parts.h"
#include "formats/npy.h"
#include "formats/onnx.h"
#include "formats/torch.h"
#include "ir/text.h"

/* ---- Weights files ------------------------------------------------------------------------------------------- */

static octet_status read_npy(octet_context *ctx, const char *path, oct_bundle *out) {
  oct_tensor *tensor;
  OCT_TRY(oct_npy_read(ctx, path, &tensor));
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  char *stem = oct_strndup(ctx, name, strlen(name) - strlen(".npy"));
  if (!stem) {
    oct_tensor_release(tensor);
    return OCTET_OUT_OF_MEMORY;
  }
  octet_status status = oct_bundle_add(ctx, out, stem, tensor, NULL);
  oct_free(stem);
  return status;
}

static const struct {
  const char *suffix;
  octet_status (*read)(octet_context *ctx, const char *path, oct_bundle *out);
} weight_formats[] = {{".npz", oct_npz_read},  {".npy", read_npy},       {".pth", oct_torch_read}, {".pt", oct_torch_read},
                      {".th", oct_torch_read}, {".bin", oct_torch_read}, {".tar", oct_torch_read}, {NULL, NULL}};

octet_status oct_weights_read(octet_context *ctx, const char *path, oct_bundle *out) {
  *out = (oct_bundle){0};
  for (size_t i = 0; weight_formats[i].suffix; i++)
    if (oct_path_has_suffix(path, weight_formats[i].suffix)) return weight_formats[i].read(ctx, path, out);
  oct_file *file;
  OCT_TRY(oct_file_open(ctx, path, &file));
  bool torch = oct_torch_is(oct_file_bytes(file));
  oct_file_close(file);
  if (torch) return oct_torch_read(ctx, path, out);
  return oct_fail(ctx, OCTET_UNSUPPORTED, "%s: no weights file that is known; known are .npz, .npy and PyTorch's .pth, .pt, .th, .bin",
                  path);
}

/* ---- Reading ------------------------------------------------------------------------------------------------- */

typedef struct text_weights {
  const char *text_path, *stand_in; /* stand_in: read when the named file is not there; or NULL */
  oct_bundle state;                 /* the tensors again, when some are quantized: for the activations' parameters */
  bool quantized;
} text_weights;

static octet_status keep_state(octet_context *ctx, text_weights *w, const oct_bundle *bundle) {
  for (size_t i = 0; i < bundle->count; i++) w->quantized |= bundle->items[i].quant != NULL;
  for (size_t i = 0; w->quantized && i < bundle->count; i++)
    OCT_TRY(oct_bundle_add(ctx, &w->state, bundle->items[i].name, oct_tensor_retain(bundle->items[i].tensor), NULL));
  return OCTET_OK;
}

static octet_status load_beside(octet_context *ctx, void *user, const char *file, oct_bundle *out) {
  text_weights *w = user;
  char *path = *file == '/' ? oct_strdup(ctx, file) : oct_path_beside(ctx, w->text_path, file);
  if (!path) return OCTET_OUT_OF_MEMORY;
  bool replace = w->stand_in && access(path, F_OK) != 0;
  octet_status status = oct_weights_read(ctx, replace ? w->stand_in : path, out);
  oct_free(path);
  return status == OCTET_OK ? keep_state(ctx, w, out) : status;
}

static octet_status read_text(octet_context *ctx, const char *path, const char *stand_in, oct_graph **out) {
  oct_file *file;
  OCT_TRY(oct_file_open(ctx, path, &file));
  oct_bytes bytes = oct_file_bytes(file);
  text_weights w = {.text_path = path, .stand_in = stand_in};
  octet_status status = oct_text_parse(ctx, (const char *)bytes.data, bytes.size, load_beside, &w, out);
  oct_file_close(file);
  if (status != OCTET_OK) status = oct_fail_prefix(ctx, "%s", path);
  if (status == OCTET_OK && w.quantized && !stand_in) status = oct_apply_torch_activations(ctx, *out, &w.state);
  oct_bundle_free(&w.state);
  return status;
}

static octet_status read_graph(octet_context *ctx, const char *path, const char *weights_path, const oct_onnx_options *options,
                               oct_graph **out) {
  if (oct_path_has_suffix(path, ".onnx")) return oct_onnx_read(ctx, path, options, out);
  if (oct_path_has_suffix(path, ".oct")) return read_text(ctx, path, weights_path, out);
  if (oct_path_has_suffix(path, ".tflite"))
    return oct_fail(ctx, OCTET_UNSUPPORTED, "%s: TensorFlow Lite models come in a later version; convert the model to .onnx for now", path);
  for (size_t i = 0; weight_formats[i].suffix; i++)
    if (oct_path_has_suffix(path, weight_formats[i].suffix))
      return oct_fail(ctx, OCTET_UNSUPPORTED,
                      "%s: holds weights, but no network; give the network as .oct or .onnx and this file with --weights", path);
  return oct_fail(ctx, OCTET_UNSUPPORTED, "%s: no model file that is known; known are .onnx and .oct", path);
}

static octet_status apply_file(octet_context *ctx, oct_graph *graph, const char *weights_path) {
  oct_bundle bundle;
  octet_status status = oct_weights_read(ctx, weights_path, &bundle);
  if (status == OCTET_OK) {
    status = oct_model_apply_weights(ctx, graph, &bundle, NULL);
    if (status != OCTET_OK) status = oct_fail_prefix(ctx, "%s", weights_path);
  }
  oct_bundle_free(&bundle);
  return status;
}

octet_status oct_model_read_with(octet_context *ctx, const char *path, const char *weights_path, const oct_onnx_options *options,
                                 oct_graph **out) {
  *out = NULL;
  octet_status status = read_graph(ctx, path, weights_path, options, out);
  if (status == OCTET_OK && weights_path) status = apply_file(ctx, *out, weights_path);
  if (status == OCTET_OK) return OCTET_OK;
  oct_graph_destroy(*out);
  *out = NULL;
  return status;
}

octet_status oct_model_read(octet_context *ctx, const char *path, const char *weights_path, oct_graph **out) {
  return oct_model_read_with(ctx, path, weights_path, NULL, out);
}

/* ---- Writing ------------------------------------------------------------------------------------------------- */

/* The path with .npz in place of .oct. */
static char *arrays_path(octet_context *ctx, const char *path) {
  size_t stem = strlen(path) - strlen(".oct");
  char *out = oct_alloc(ctx, stem + sizeof ".npz", 1);
  if (!out) return NULL;
  memcpy(out, path, stem);
  memcpy(out + stem, ".npz", sizeof ".npz");
  return out;
}

/* The text waits in its temporary file until the arrays are in place. */
static octet_status write_files(octet_context *ctx, const char *path, const oct_strbuf *text, const char *npz_path,
                                const oct_bundle *arrays) {
  oct_writer *writer;
  OCT_TRY(oct_writer_open(ctx, path, &writer));
  octet_status status = oct_writer_put(writer, text->text, text->length);
  if (status == OCTET_OK) status = oct_writer_sync(writer);
  if (status == OCTET_OK && arrays->count) status = oct_npz_write(ctx, npz_path, arrays);
  if (status == OCTET_OK) return oct_writer_commit(writer);
  oct_writer_abandon(writer);
  return status;
}

static octet_status write_text(octet_context *ctx, const oct_graph *graph, const char *path) {
  char *npz_path = arrays_path(ctx, path);
  if (!npz_path) return OCTET_OUT_OF_MEMORY;
  const char *slash = strrchr(npz_path, '/');
  oct_strbuf text = oct_strbuf_make(ctx);
  oct_bundle arrays = {0};
  octet_status status = oct_text_print(ctx, graph, slash ? slash + 1 : npz_path, &text, &arrays);
  if (status == OCTET_OK) status = write_files(ctx, path, &text, npz_path, &arrays);
  oct_strbuf_free(&text);
  oct_bundle_free(&arrays);
  oct_free(npz_path);
  return status;
}

octet_status oct_model_write(octet_context *ctx, const oct_graph *graph, const char *path) {
  if (oct_path_has_suffix(path, ".onnx")) return oct_onnx_write(ctx, graph, path);
  if (oct_path_has_suffix(path, ".oct")) return write_text(ctx, graph, path);
  if (oct_path_has_suffix(path, ".tflite"))
    return oct_fail(ctx, OCTET_UNSUPPORTED, "%s: writing TensorFlow Lite models comes in a later version", path);
  return oct_fail(ctx, OCTET_UNSUPPORTED, "%s: the suffix says no format that can be written; known are .onnx and .oct", path);
}
