/* Fuzz target: the text form. What parses is printed, and what was printed parses to a graph that prints the same; the passes run on it and keep
 * it valid. The weights file of every text is the same few arrays.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pass.h"

#define LARGEST_ALLOCATION ((size_t)1 << 20) /* bytes: `const x f32[N] = 0` must not fill gigabytes */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static octet_status add_array(octet_context *ctx, oct_bundle *bundle, const char *name, oct_shape shape) {
  oct_tensor *tensor;
  OCT_TRY(oct_tensor_create(ctx, OCT_F32, &shape, &tensor));
  for (int64_t i = 0; i < oct_shape_count(&shape); i++) ((float *)tensor->data)[i] = (float)(i % 17 - 8) / 16;
  return oct_bundle_add(ctx, bundle, name, tensor, NULL);
}

static octet_status load_arrays(octet_context *ctx, void *user, const char *file, oct_bundle *out) {
  (void)user, (void)file;
  OCT_TRY(add_array(ctx, out, "w", oct_shape_of(4, 4, 2, 3, 3)));
  OCT_TRY(add_array(ctx, out, "m", oct_shape_of(2, 4, 4)));
  return add_array(ctx, out, "b", oct_shape_of(1, 4));
}

static octet_status load_printed(octet_context *ctx, void *user, const char *file, oct_bundle *out) {
  const oct_bundle *printed = user;
  (void)file;
  for (size_t i = 0; i < printed->count; i++)
    OCT_TRY(oct_bundle_add(ctx, out, printed->items[i].name, oct_tensor_retain(printed->items[i].tensor), printed->items[i].quant));
  return OCTET_OK;
}

static octet_status print(octet_context *ctx, const oct_graph *graph, char **text, oct_bundle *arrays) {
  oct_strbuf out = oct_strbuf_make(ctx);
  *text = NULL;
  octet_status status = oct_text_print(ctx, graph, "arrays.npz", &out, arrays);
  if (status == OCTET_OK) return oct_strbuf_take(&out, text);
  oct_strbuf_free(&out);
  return status;
}

static void fault(const octet_context *ctx, const char *what, const char *first, const char *second) {
  fprintf(stderr, "%s: %s\n%s\n----\n%s\n", what, ctx->message, first ? first : "", second ? second : "");
  abort();
}

/* Out of memory is no fault: there is little here. */
static void check_round_trip(octet_context *ctx, const oct_graph *graph) {
  oct_bundle arrays = {0}, again = {0};
  oct_graph *back = NULL;
  char *text = NULL, *second = NULL;
  octet_status status = print(ctx, graph, &text, &arrays);
  if (status == OCTET_OK) status = oct_text_parse(ctx, text, strlen(text), load_printed, &arrays, &back);
  if (status == OCTET_OK) status = print(ctx, back, &second, &again);
  if (status != OCTET_OK && status != OCTET_OUT_OF_MEMORY) fault(ctx, "a graph that was parsed cannot be printed and parsed", text, NULL);
  if (status == OCTET_OK && strcmp(text, second) != 0) fault(ctx, "printed, parsed and printed again it differs", text, second);
  oct_free(text);
  oct_free(second);
  oct_bundle_free(&arrays);
  oct_bundle_free(&again);
  oct_graph_destroy(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  octet_context *ctx;
  oct_graph *graph;
  if (oct_context_create(&ctx) != OCTET_OK) return 0;
  ctx->largest_allocation = LARGEST_ALLOCATION;
  if (oct_text_parse(ctx, (const char *)data, size, load_arrays, NULL, &graph) == OCTET_OK) {
    check_round_trip(ctx, graph);
    octet_status status = oct_graph_infer(ctx, graph);
    if (status == OCTET_OK) status = oct_passes_run(ctx, graph, NULL);
    if (status == OCTET_OK && oct_graph_verify(ctx, graph) != OCTET_OK && ctx->status != OCTET_OUT_OF_MEMORY)
      fault(ctx, "the passes broke a graph", NULL, NULL);
    oct_graph_destroy(graph);
  }
  oct_context_destroy(ctx);
  return 0;
}
