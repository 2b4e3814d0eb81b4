/* Test cases in ONNX's layout: finding them, feeding them, comparing.
 * SPDX-License-Identifier: MIT */
#include "formats/check.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "formats/onnx.h"

#define BOUND_LIMIT 1024 /* elements of an input that may be bound as a constant */

/* ---- Comparing ---- */

static bool close_enough(double got, double want, double rtol, double atol) {
  if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
  if (isinf(got) || isinf(want)) return got == want;
  return fabs(got - want) <= atol + rtol * fabs(want);
}

static octet_status compare_integers(octet_context *ctx, const char *name, const oct_tensor *got, const oct_tensor *want) {
  int64_t count = oct_shape_count(&want->shape);
  for (int64_t i = 0; i < count; i++) {
    int64_t a = oct_get_i64(got->data, got->dtype, i), b = oct_get_i64(want->data, want->dtype, i);
    if (a != b)
      return oct_fail(ctx, OCTET_DATA, "output \"%s\": element %lld is %lld; %lld is expected", name, (long long)i, (long long)a,
                      (long long)b);
  }
  return OCTET_OK;
}

static octet_status compare_floats(octet_context *ctx, const char *name, const oct_tensor *got, const oct_tensor *want, double rtol,
                                   double atol, double *max_error) {
  int64_t count = oct_shape_count(&want->shape), wrong = 0, first = 0;
  for (int64_t i = 0; i < count; i++) {
    double a = oct_get_f64(got->data, got->dtype, i), b = oct_get_f64(want->data, want->dtype, i);
    double error = fabs(a - b);
    if (isfinite(error) && error > *max_error) *max_error = error;
    if (!close_enough(a, b, rtol, atol) && wrong++ == 0) first = i;
  }
  if (wrong == 0) return OCTET_OK;
  return oct_fail(ctx, OCTET_DATA, "output \"%s\": %lld of %lld elements differ; element %lld is %.9g, expected %.9g", name,
                  (long long)wrong, (long long)count, (long long)first, oct_get_f64(got->data, got->dtype, first),
                  oct_get_f64(want->data, want->dtype, first));
}

octet_status oct_check_compare(octet_context *ctx, const char *name, const oct_tensor *got, const oct_tensor *want, double rtol,
                               double atol, double *max_error) {
  char a[OCT_SHAPE_TEXT], b[OCT_SHAPE_TEXT];
  if (got->dtype != want->dtype)
    return oct_fail(ctx, OCTET_DATA, "output \"%s\" is %s; %s is expected", name, oct_dtype_name(got->dtype), oct_dtype_name(want->dtype));
  if (!oct_shape_equal(&got->shape, &want->shape))
    return oct_fail(ctx, OCTET_DATA, "output \"%s\" has shape %s; %s is expected", name, oct_shape_text(&got->shape, a),
                    oct_shape_text(&want->shape, b));
  if (!oct_dtype_is_float(want->dtype)) return compare_integers(ctx, name, got, want);
  return compare_floats(ctx, name, got, want, rtol, atol, max_error);
}

/* ---- One data set ---- */

typedef struct data_set {
  oct_named_tensor *inputs; /* by position of the file */
  size_t count, capacity;
} data_set;

static void free_data_set(data_set *set) {
  for (size_t i = 0; i < set->count; i++) {
    oct_free(set->inputs[i].name);
    oct_tensor_release(set->inputs[i].tensor);
  }
  oct_free(set->inputs);
}

/* A path that is cut off names no file, which is then reported as missing. */
static __attribute__((format(printf, 2, 3))) const char *path_to(char path[PATH_MAX], const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(path, PATH_MAX, format, arguments);
  va_end(arguments);
  return path;
}

static bool exists(const char *path) {
  struct stat st;
  return stat(path, &st) == 0;
}

/* Optional inputs that are not given have no file, so positions may be skipped. */
static octet_status load_inputs(octet_context *ctx, const char *folder, size_t most, data_set *set) {
  char path[PATH_MAX];
  for (size_t i = 0; i < most; i++) {
    path_to(path, "%s/input_%zu.pb", folder, i);
    if (!exists(path)) continue;
    OCT_TRY(oct_grow(ctx, &set->inputs, &set->capacity, set->count + 1, sizeof *set->inputs));
    oct_named_tensor *item = &set->inputs[set->count];
    OCT_TRY(oct_onnx_read_tensor(ctx, path, &item->tensor, &item->name));
    set->count++;
  }
  return OCTET_OK;
}

/* The tensor for graph input `i`: the one of its name, else the i-th. */
static const oct_tensor *tensor_for(const data_set *set, const oct_graph *graph, size_t i) {
  for (size_t k = 0; k < set->count; k++)
    if (strcmp(set->inputs[k].name, graph->inputs[i]->name) == 0) return set->inputs[k].tensor;
  return i < set->count ? set->inputs[i].tensor : NULL;
}

static bool all_known(const oct_graph *graph) {
  for (size_t i = 0; i < graph->n_values; i++)
    if (!graph->values[i]->has_shape || !oct_shape_known(&graph->values[i]->shape)) return false;
  return true;
}

/* Small inputs as constants: whatever shapes depend on is small, and never the first of several inputs unless it is a list of integers. */
static size_t choose_bound(const data_set *set, const oct_graph *graph, oct_named_tensor *bound) {
  size_t n = 0;
  for (size_t i = 0; i < graph->n_inputs; i++) {
    const oct_tensor *t = tensor_for(set, graph, i);
    bool integers = t && (t->dtype == OCT_I64 || t->dtype == OCT_I32);
    if (!t || t->shape.rank > (integers ? 2 : 1) || oct_shape_count(&t->shape) > BOUND_LIMIT ||
        (i == 0 && graph->n_inputs > 1 && !integers))
      continue;
    bound[n++] = (oct_named_tensor){.name = graph->inputs[i]->name, .tensor = oct_tensor_retain((oct_tensor *)(uintptr_t)t)};
  }
  return n;
}

static octet_status compare_outputs(octet_context *ctx, const char *folder, const oct_graph *graph, oct_tensor *const *outputs,
                                    double *max_error) {
  char path[PATH_MAX];
  for (size_t i = 0; i < graph->n_outputs; i++) {
    oct_tensor *want;
    path_to(path, "%s/output_%zu.pb", folder, i);
    if (!exists(path)) continue;
    OCT_TRY(oct_onnx_read_tensor(ctx, path, &want, NULL));
    octet_status status = oct_check_compare(ctx, graph->outputs[i]->name, outputs[i], want, OCT_CHECK_RTOL, OCT_CHECK_ATOL, max_error);
    oct_tensor_release(want);
    OCT_TRY(status);
  }
  return OCTET_OK;
}

typedef struct runner {
  oct_check_run run;
  void *user;
} runner;

static octet_status run_graph(octet_context *ctx, const char *folder, const runner *how, oct_graph *graph, const data_set *set, bool *ran,
                              double *max_error) {
  const oct_tensor **inputs = oct_alloc(ctx, graph->n_inputs, sizeof *inputs);
  oct_tensor **outputs = oct_alloc(ctx, graph->n_outputs, sizeof *outputs);
  octet_status status = inputs && outputs ? OCTET_OK : OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; status == OCTET_OK && i < graph->n_inputs; i++)
    if (!(inputs[i] = tensor_for(set, graph, i)))
      status = oct_fail(ctx, OCTET_DATA, "%s: no data for input \"%s\"", folder, graph->inputs[i]->name);
  if (status == OCTET_OK) status = how->run(ctx, how->user, graph, inputs, outputs);
  *ran = status == OCTET_OK;
  if (status == OCTET_OK) status = compare_outputs(ctx, folder, graph, outputs, max_error);
  for (size_t i = 0; outputs && i < graph->n_outputs; i++) oct_tensor_release(outputs[i]);
  oct_free(inputs);
  oct_free(outputs);
  return status;
}

static octet_status run_bound(octet_context *ctx, const char *model, const char *folder, const runner *how, const oct_graph *plain,
                              const data_set *set, double *max_error) {
  bool ran;
  oct_named_tensor *bound = oct_alloc(ctx, plain->n_inputs, sizeof *bound);
  if (!bound) return OCTET_OUT_OF_MEMORY;
  oct_onnx_options options = {.bound = bound, .n_bound = choose_bound(set, plain, bound)};
  oct_graph *graph = NULL;
  octet_status status = oct_onnx_read(ctx, model, &options, &graph);
  if (status == OCTET_OK) status = run_graph(ctx, folder, how, graph, set, &ran, max_error);
  for (size_t i = 0; i < options.n_bound; i++) oct_tensor_release(bound[i].tensor);
  oct_free(bound);
  oct_graph_destroy(graph);
  return status;
}

/* First with free inputs; where that leaves shapes open or does not run, with the small ones bound. */
static octet_status run_data_set(octet_context *ctx, const char *model, const char *folder, const runner *how, double *max_error) {
  oct_graph *graph;
  data_set set = {NULL, 0, 0};
  bool ran = false;
  OCT_TRY(oct_onnx_read(ctx, model, NULL, &graph));
  octet_status status = load_inputs(ctx, folder, graph->n_inputs + 16, &set);
  bool complete = all_known(graph);
  if (status == OCTET_OK && complete) status = run_graph(ctx, folder, how, graph, &set, &ran, max_error);
  if (!ran && (status == OCTET_OK || status == OCTET_UNSUPPORTED || status == OCTET_SHAPE))
    status = run_bound(ctx, model, folder, how, graph, &set, max_error);
  free_data_set(&set);
  oct_graph_destroy(graph);
  return status;
}

octet_status oct_check_case(octet_context *ctx, const char *folder, oct_check_run run, void *user, oct_check_result *result) {
  char model[PATH_MAX], data[PATH_MAX];
  runner how = {run, user};
  octet_status status = OCTET_OK;
  *result = (oct_check_result){.verdict = OCT_CHECK_PASSED};
  path_to(model, "%s/model.onnx", folder);
  for (; status == OCTET_OK; result->data_sets++) {
    path_to(data, "%s/test_data_set_%zu", folder, result->data_sets);
    if (!exists(data)) break;
    status = run_data_set(ctx, model, data, &how, &result->max_error);
  }
  if (status == OCTET_OUT_OF_MEMORY || status == OCTET_CANCELLED) return status;
  if (status == OCTET_OK && result->data_sets > 0) return OCTET_OK;
  result->verdict = status == OCTET_OK || status == OCTET_UNSUPPORTED ? OCT_CHECK_SKIPPED : OCT_CHECK_FAILED;
  snprintf(result->message, sizeof result->message, "%.1000s", status == OCTET_OK ? "it has no test_data_set_0" : ctx->message);
  return OCTET_OK;
}

/* ---- Finding ---- */

typedef struct list {
  char **items;
  size_t count, capacity;
} list;

static octet_status find_below(octet_context *ctx, const char *folder, int depth, list *out) {
  char path[PATH_MAX];
  struct dirent **entries;
  path_to(path, "%s/model.onnx", folder);
  if (exists(path)) {
    OCT_TRY(oct_grow(ctx, &out->items, &out->capacity, out->count + 1, sizeof *out->items));
    out->items[out->count] = oct_strdup(ctx, folder);
    return out->items[out->count] ? (out->count++, OCTET_OK) : OCTET_OUT_OF_MEMORY;
  }
  int n = depth > 0 ? scandir(folder, &entries, NULL, alphasort) : 0;
  octet_status status = OCTET_OK;
  if (n < 0) return oct_fail(ctx, OCTET_IO, "%s: cannot be read as a folder", folder);
  for (int i = 0; i < n; i++) {
    struct stat st;
    path_to(path, "%s/%s", folder, entries[i]->d_name);
    if (status == OCTET_OK && entries[i]->d_name[0] != '.' && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
      status = find_below(ctx, path, depth - 1, out);
    free(entries[i]);
  }
  if (depth > 0) free(entries);
  return status;
}

octet_status oct_check_find(octet_context *ctx, const char *folder, char ***out, size_t *count) {
  list found = {NULL, 0, 0};
  octet_status status = find_below(ctx, folder, 4, &found);
  if (status == OCTET_OK && found.count == 0) status = oct_fail(ctx, OCTET_IO, "%s: no folder with a model.onnx in it", folder);
  if (status != OCTET_OK) {
    for (size_t i = 0; i < found.count; i++) oct_free(found.items[i]);
    oct_free(found.items);
    found = (list){NULL, 0, 0};
  }
  *out = found.items;
  *count = found.count;
  return status;
}
