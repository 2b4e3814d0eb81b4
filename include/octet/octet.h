/* Octet: quantize a trained network, show what that did, and run it.
 * This is the only public header; it compiles alone as C17 and as C++.
 * SPDX-License-Identifier: MIT */
#ifndef OCTET_OCTET_H
#define OCTET_OCTET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(OCTET_STATIC) || !defined(__GNUC__)
#define OCTET_API
#else
#define OCTET_API __attribute__((visibility("default")))
#endif

/* ---- Status ------------------------------------------------------------------------------------------------ */

/* Every fallible call returns one of these; the message of the last failure is octet_context_message(). */
#define OCTET_STATUS_LIST(X)                 \
  X(OK, 0, "ok")                             \
  X(OUT_OF_MEMORY, 1, "out of memory")       \
  X(INVALID_ARGUMENT, 2, "invalid argument") \
  X(IO, 3, "input/output error")             \
  X(FORMAT, 4, "malformed file")             \
  X(UNSUPPORTED, 5, "not supported")         \
  X(SHAPE, 6, "shape mismatch")              \
  X(GRAPH, 7, "invalid graph")               \
  X(DATA, 8, "unusable data")                \
  X(NOT_INTEGER, 9, "cannot be integer")     \
  X(CANCELLED, 10, "cancelled")

typedef enum octet_status {
#define X(name, number, text) OCTET_##name = number,
  OCTET_STATUS_LIST(X)
#undef X
} octet_status;

/* A context carries what would otherwise be global: diagnostics, threads, the instruction-set cap, progress.
 * One context serves one thread at a time; any number may exist. */
typedef struct octet_context octet_context;

typedef struct octet_model octet_model;
typedef struct octet_session octet_session;
typedef struct octet_dataset octet_dataset;

/* Element types by their one name: "f32" "f64" "f16" "bf16" "i8" "u8" "i16" "u16" "i32" "u32" "i64" "u64" "bool". */
#define OCTET_MAX_RANK 8

/* A tensor as the caller sees it: row-major, contiguous. Who owns `data` is said where one is passed. dims < 0 are unknown. */
typedef struct octet_tensor {
  const char *name;
  const char *dtype;
  int rank;
  int64_t dims[OCTET_MAX_RANK];
  void *data;
  size_t bytes;
} octet_tensor;

/* ---- The three calls that most people need (after octet_context_create) ------------------------------------------
 *
 *   octet_model_read(ctx, "model.onnx", NULL, &model);
 *   octet_session_create(model, NULL, &session);
 *   octet_session_run(session);       with inputs written to, and outputs read from, octet_session_input/output()
 */

/* A context with one thread and every instruction set of the machine (or up to OCTET_ISA, if that is set in the environment).
 * On failure *out may still be a context that holds the message; destroy it in any case. */
OCTET_API octet_status octet_context_create(octet_context **out);
OCTET_API void octet_context_destroy(octet_context *ctx); /* after everything that was made from it; NULL is fine */

/* Reads .onnx, or .oct with its weights file beside it. `weights` (NULL: none) is a .pth, .npz or .npy whose tensors take the place of constants of
 * the same name; what does not match becomes warnings. Quantized models (QDQ) are read as such. */
OCTET_API octet_status octet_model_read(octet_context *ctx, const char *path, const char *weights, octet_model **out);
/* Writes .onnx or .oct (+ .npz) by suffix. The file appears whole or not at all. */
OCTET_API octet_status octet_model_write(const octet_model *model, const char *path);
OCTET_API void octet_model_destroy(octet_model *model);

/* A model made ready for given input shapes. Everything is chosen, packed and allocated here. `options` NULL: defaults.
 * Does not keep the model, but keeps the context. */
typedef struct octet_session_options {
  size_t struct_size;
  int64_t batch;              /* size of unknown first dims, and of a declared first dim if given; 0: as declared, else 1 */
  const octet_tensor *shapes; /* inputs by name: rank and dims (data NULL), or data too: then the input is fixed to that value */
  size_t n_shapes;
  /* The widest set that may be used: "scalar" "avx2" "avxvnni" "avx512" "avx512vbmi" "avx512vnni" "amx"; NULL: the context's. */
  const char *isa;
  const char *
      no_fuse; /* comma-separated: "residual" "activation" "table" "bias" "transpose" "attention" "strips" "all", or names of passes; NULL: everything is fused */
  bool exact_float;     /* float convolutions by direct sums only: Winograd's rounding error is about five times as large */
  bool memory_small;    /* least memory first: weights in no form larger than they are, samples one by one, pages of the model's file given
                                 back once they are packed. Float results may differ by rounding, as kernels differ */
  const char *tune_log; /* file of timed kernels, kept per processor and taken from where it has a layer; NULL: OCTET_TUNE_LOG, else
                                 octet/tune.json in XDG_CACHE_HOME or ~/.cache; "none": no such file. Integer results do not depend on it, and
                                 float layers are not in it. A damaged file is a warning */
  double
      tune_seconds; /* > 0: times the kernels of each integer layer for about so long, writes what it finds into that file, and uses it */
} octet_session_options;
OCTET_API octet_session_options octet_session_options_default(void);

OCTET_API octet_status octet_session_create(const octet_model *model, const octet_session_options *options, octet_session **out);
OCTET_API void octet_session_destroy(octet_session *session);
OCTET_API size_t octet_session_input_count(const octet_session *session);
OCTET_API size_t octet_session_output_count(const octet_session *session);
/* `data` lies in the session: fill inputs before each run (they keep their content), read outputs after it. */
OCTET_API octet_tensor octet_session_input(const octet_session *session, size_t index);
OCTET_API octet_tensor octet_session_output(const octet_session *session, size_t index);
/* Allocates nothing, locks nothing. Integer results are the same bytes for every thread count and instruction set. */
OCTET_API octet_status octet_session_run(octet_session *session);

/* ---- Context -------------------------------------------------------------------------------------------------- */

OCTET_API const char *octet_status_name(octet_status status);
/* What went wrong last: which file, node or tensor, which rule, what to do. "" when nothing did. */
OCTET_API const char *octet_context_message(const octet_context *ctx);
OCTET_API size_t octet_context_warning_count(const octet_context *ctx);
OCTET_API const char *octet_context_warning(const octet_context *ctx, size_t index);
OCTET_API void octet_context_clear_warnings(octet_context *ctx);
/* 1 to 256. Sessions made afterwards use that many. */
OCTET_API octet_status octet_context_set_threads(octet_context *ctx, int threads);
OCTET_API octet_status octet_context_set_isa(octet_context *ctx, const char *isa);
OCTET_API const char *octet_context_isa(const octet_context *ctx); /* the widest that is used */
/* Called during long work with what is being done, how much of how much (0: unknown). Returning false ends the work with OCTET_CANCELLED. */
typedef bool (*octet_progress_fn)(void *user, const char *what, size_t done, size_t total);
OCTET_API void octet_context_set_progress(octet_context *ctx, octet_progress_fn progress, void *user);
OCTET_API const char *octet_version(void);

/* ---- Looking at a model ----------------------------------------------------------------------------------------- */

OCTET_API size_t octet_model_input_count(const octet_model *model);
OCTET_API size_t octet_model_output_count(const octet_model *model);
OCTET_API octet_tensor octet_model_input(const octet_model *model, size_t index); /* data NULL */
OCTET_API octet_tensor octet_model_output(const octet_model *model, size_t index);
/* Size of the graph as it is stored: bytes of weights, biases and quantization parameters. */
OCTET_API size_t octet_model_weight_bytes(const octet_model *model);
OCTET_API size_t octet_model_parameter_count(const octet_model *model);
/* "preprocess", "profile", ...; NULL when there is none. */
OCTET_API const char *octet_model_metadata(const octet_model *model, const char *key);
OCTET_API octet_status octet_model_set_metadata(octet_model *model, const char *key, const char *text);
/* Folding, dead code, batch normalization into convolutions, quantize/dequantize pairs into parameters, ... `disabled`: comma-separated pass names, or NULL. */
OCTET_API octet_status octet_model_optimize(octet_model *model, const char *disabled);

/* One row per operator of the session's (specialized) graph. Strings live as long as the session. */
typedef struct octet_layer {
  const char *name, *op;
  const char *type;       /* "int8", "float", "dynamic", "weight-only", "other" */
  const char *kernel;     /* that runs it; NULL: none of its own */
  const char *fused_into; /* name of the layer whose step it is part of, or NULL */
  const char *reason;     /* why not a faster or integer form; NULL: nothing to say */
  const char *dtype;      /* of the output */
  int rank;
  int64_t dims[OCTET_MAX_RANK]; /* output */
  double macs;
  size_t parameters, bytes; /* of its constants, as stored */
  double seconds;           /* by octet_session_run_profiled(), summed over runs */
  const char *choice; /* of the kernel: by rule, timed, ..., what else there was, and why faster forms were refused; NULL: there was none */
} octet_layer;
OCTET_API size_t octet_session_layer_count(const octet_session *session);
OCTET_API octet_layer octet_session_layer(const octet_session *session, size_t index);
OCTET_API octet_status octet_session_run_profiled(octet_session *session);
/* Steps as they run, in order (kernels and conversions). */
typedef struct octet_step_info {
  const char *kernel, *layer; /* layer "" for steps at the graph's border */
  double macs, seconds;
} octet_step_info;
OCTET_API size_t octet_session_step_count(const octet_session *session);
OCTET_API octet_step_info octet_session_step(const octet_session *session, size_t index);
OCTET_API size_t octet_session_arena_bytes(const octet_session *session);  /* activations, with workspaces */
OCTET_API size_t octet_session_weight_bytes(const octet_session *session); /* packed weights and tables */
OCTET_API int octet_session_boundary_count(const octet_session *session);  /* integer/float conversions inside the graph */

/* ---- Data ------------------------------------------------------------------------------------------------------ */

/* F.npy, F.npz (named inputs), IDX (.gz too), or a folder of images. `preprocess` as in "scale=1/255 mean=0.5 std=0.25 color=rgb resize=256 crop=224"; NULL: the
 * model's metadata, if a model is given. The first dim of arrays counts the samples. */
OCTET_API octet_status octet_dataset_open(octet_context *ctx, const char *path, const char *preprocess, const octet_model *model,
                                          octet_dataset **out);
OCTET_API void octet_dataset_destroy(octet_dataset *data);
OCTET_API size_t octet_dataset_count(const octet_dataset *data);
/* Seeded draw of `count` of the samples without replacement; `count` 0 or too large: all, in order. */
OCTET_API octet_status octet_dataset_draw(octet_dataset *data, size_t count, uint64_t seed);
/* Writes samples [first, first + count) of the draw into the session's inputs; its batch must be `count`. */
OCTET_API octet_status octet_dataset_fill(octet_dataset *data, size_t first, size_t count, octet_session *session);

typedef struct octet_accuracy {
  size_t correct, correct5, total; /* top-1, top-5 */
  double top1, top5;               /* shares, 0 to 1 */
  double images_per_second;
} octet_accuracy;
/* Classes of output 0 against labels: IDX, .npy, a TSV of file name and accepted classes, or NULL: the data's own (sub-folders). `limit` 0: all. */
OCTET_API octet_status octet_evaluate(const octet_model *model, octet_dataset *data, const char *labels, size_t limit,
                                      const octet_session_options *options, octet_accuracy *out);

/* ---- Quantization ------------------------------------------------------------------------------------------------ */

typedef struct octet_quantize_options {
  size_t struct_size;
  const char *mode;              /* "int8" "dynamic" "weight-only" "fp16" */
  const char *observer;          /* "minmax" "moving-average" "percentile" "kl" "mse"; NULL: the default */
  bool per_tensor;               /* one weight scale per layer instead of one per output channel */
  bool symmetric;                /* activations with the zero point in the middle */
  const char *io;                /* "float" "int8" "uint8" */
  double percentile;             /* of the observer "percentile", in percent; 0: 99.99 */
  bool strict;                   /* OCTET_NOT_INTEGER with the list of operators that would stay float */
  const char *const *keep_float; /* names of nodes or values */
  size_t n_keep_float;
  const char *config; /* path of a JSON file with per-layer settings, or NULL */
  size_t batch;       /* samples per calibration run; 0: chosen */
} octet_quantize_options;
OCTET_API octet_quantize_options octet_quantize_options_default(void);

/* Everything in one call. `data` may be NULL for modes without calibration; its current draw is used. */
OCTET_API octet_status octet_quantize(const octet_model *model, octet_dataset *data, const octet_quantize_options *options,
                                      octet_model **out);

/* The same in steps: prepare, observe batches, convert. */
typedef struct octet_calibration octet_calibration;
OCTET_API octet_status octet_calibration_create(const octet_model *model, const octet_quantize_options *options, octet_calibration **out);
/* `inputs`: one tensor per model input, with data; first dim any batch. */
OCTET_API octet_status octet_calibration_observe(octet_calibration *calibration, const octet_tensor *inputs, size_t n_inputs);
OCTET_API octet_status octet_calibration_convert(octet_calibration *calibration, octet_model **out);
OCTET_API void octet_calibration_destroy(octet_calibration *calibration);

/* What octet_quantize() or octet_calibration_convert() did, layer by layer; zero layers for models that were read. Strings live as long as the model. */
typedef struct octet_quantized_layer {
  const char *name, *op;
  const char *type;      /* "int8" "float" "float16" "dynamic" "weight-only" */
  const char *weights;   /* "int8 per channel", ..., or NULL */
  const char *reason;    /* why float, or NULL */
  bool island;           /* float, and integer layers come after it */
  bool fused;            /* part of another layer's step */
  size_t bytes;          /* weights, bias, parameters */
  double weight_sqnr_db; /* of the 8-bit weights; NaN without */
  double clipped;        /* share of observed values outside the output's range; NaN when not observed */
} octet_quantized_layer;
OCTET_API size_t octet_model_quantized_layer_count(const octet_model *model);
OCTET_API octet_quantized_layer octet_model_quantized_layer(const octet_model *model, size_t index);
/* Conversions between integers and floats inside the graph; -1: not known. */
OCTET_API int octet_model_quantized_boundaries(const octet_model *model);

/* What was seen of a value and chosen for it, and what another observer would have chosen. */
typedef struct octet_quantized_value {
  const char *name;
  float low, high, scale; /* seen; chosen */
  int zero_point;
  const char *observer; /* whose range it is; "given", "fixed" or "content" */
  double clipped, sqnr_db;
} octet_quantized_value;
OCTET_API size_t octet_model_quantized_value_count(const octet_model *model);
OCTET_API octet_quantized_value octet_model_quantized_value(const octet_model *model, size_t index);
/* The same value as `observer` would have it; false when it was not observed or the observer is unknown. */
OCTET_API bool octet_model_quantized_alternative(const octet_model *model, size_t index, const char *observer, double *low, double *high,
                                                 double *clipped, double *sqnr_db);

/* ---- Comparing a float model with its quantized form ---------------------------------------------------------------- */

typedef struct octet_comparison octet_comparison;
typedef struct octet_output_difference {
  const char *name;
  double sqnr_db, max_error;
} octet_output_difference;
typedef struct octet_layer_difference {
  const char *name, *op, *type;
  double sqnr_db;       /* with everything before it quantized too */
  double sqnr_alone_db; /* only this layer quantized; NaN when it is float */
  double clipped;       /* share of the float values outside the output's 8-bit range; NaN when it has none */
  const char *reason;   /* why float, or NULL */
  bool island;          /* stays float between integers */
} octet_layer_difference;
OCTET_API octet_status octet_compare(const octet_model *reference, const octet_model *quantized, octet_dataset *data, size_t limit,
                                     octet_comparison **out);
OCTET_API void octet_comparison_destroy(octet_comparison *comparison);
OCTET_API size_t octet_comparison_output_count(const octet_comparison *comparison);
OCTET_API octet_output_difference octet_comparison_output(const octet_comparison *comparison, size_t index);
OCTET_API size_t octet_comparison_layer_count(const octet_comparison *comparison);
OCTET_API octet_layer_difference octet_comparison_layer(const octet_comparison *comparison, size_t index);
OCTET_API size_t octet_comparison_warning_count(const octet_comparison *comparison);
OCTET_API const char *octet_comparison_warning(const octet_comparison *comparison, size_t index);

/* ---- Measuring ------------------------------------------------------------------------------------------------------ */

typedef struct octet_timing {
  double min_ms, median_ms, p90_ms, p99_ms; /* of one run of the whole batch */
  size_t runs;
} octet_timing;
/* For measurements: floats between 0 and 1 (always the same), ones for integers, which stand for indices, lengths and masks. Other types stay as they
 * are. */
OCTET_API void octet_session_fill_inputs(octet_session *session);
/* Runs for about `seconds` after a warm-up, with the inputs as they are. */
OCTET_API octet_status octet_session_time(octet_session *session, double seconds, octet_timing *out);

/* One row per step, octet_session_step_count() of them: time of one run of the whole batch, and the bytes that the step moves in it. */
typedef struct octet_step_timing {
  double min_ms, median_ms;
  double weight_bytes, read_bytes, written_bytes; /* packed weights and tables; activations with their borders */
  bool integer;                                   /* its products are of 8-bit integers */
} octet_step_timing;
OCTET_API octet_status octet_session_time_steps(octet_session *session, double seconds, octet_step_timing *out);

/* Each layer of a float model beside the same layer of its quantized form: both are run in turn for `seconds` in all. Layers that run as one step
 * in either form are one row, under the name of the first. Times are medians, and the least of several turns. */
typedef struct octet_speed octet_speed;
typedef struct octet_layer_speed {
  const char *name, *op, *type;      /* type: of the quantized form, "int8", "float", ... */
  double reference_ms, quantized_ms; /* with the changes of type and layout that the layer needs */
  bool slower;                       /* quantized, by more than measurements differ */
} octet_layer_speed;
OCTET_API octet_status octet_compare_speed(const octet_model *reference, const octet_model *quantized, const octet_session_options *options,
                                           double seconds, octet_speed **out);
OCTET_API void octet_speed_destroy(octet_speed *speed);
OCTET_API size_t octet_speed_layer_count(const octet_speed *speed);
OCTET_API octet_layer_speed octet_speed_layer(const octet_speed *speed, size_t index);
OCTET_API double octet_speed_reference_ms(const octet_speed *speed); /* sum over all steps, of those at the border too */
OCTET_API double octet_speed_quantized_ms(const octet_speed *speed);

/* Energy of one run, from the processor packages' counters (Linux, RAPL): of all that runs there meanwhile. */
typedef struct octet_energy {
  double joules, watts;
  size_t runs;
  char reason[160]; /* why there is no figure; "": there is one */
} octet_energy;
OCTET_API octet_status octet_session_energy(octet_session *session, double seconds, octet_energy *out);

/* What the machine does at best in short loops, with the context's threads and instruction sets. Takes about half a second. */
typedef struct octet_peaks {
  double int8_gmacs, float_gmacs; /* multiply-adds per second, 1e9: direct products; Winograd kernels do fewer than a layer's products */
  double read_gbs[4];             /* bytes read per second, 1e9, from the first, second and third cache, and from memory */
  size_t cache_bytes[3];          /* of the three caches; 0: unknown */
} octet_peaks;
OCTET_API octet_status octet_context_peaks(octet_context *ctx, octet_peaks *out);

/* ---- Checking against recorded cases ----------------------------------------------------------------------------- */

typedef enum octet_case_result { OCTET_CASE_PASSED, OCTET_CASE_FAILED, OCTET_CASE_SKIPPED } octet_case_result;
/* One folder in ONNX's layout: model.onnx, test_data_set_N/input_*.pb, output_*.pb. `detail` (at least 512 bytes) says why it failed or was skipped. */
OCTET_API octet_status octet_check_case(octet_context *ctx, const char *folder, octet_case_result *result, char detail[512]);

/* ---- Arrays in files --------------------------------------------------------------------------------------------------- */

/* Reads a .npy; *out's data and name are freed by octet_tensor_free(). */
OCTET_API octet_status octet_tensor_read(octet_context *ctx, const char *path, octet_tensor *out);
OCTET_API octet_status octet_tensor_write(octet_context *ctx, const char *path, const octet_tensor *tensor);
OCTET_API void octet_tensor_free(octet_tensor *tensor);

/* ---- What this build knows ------------------------------------------------------------------------------------------- */

typedef struct octet_operator_info {
  const char *name, *summary;
  bool has_lowering;                     /* own fast form; else the reference runs it */
  const char *quantization;              /* "integer" "table" "moves" "float" "none" */
  const char *onnx_import, *onnx_export; /* first foreign name; NULL if none */
} octet_operator_info;
OCTET_API size_t octet_operator_count(void);
OCTET_API octet_operator_info octet_operator(size_t index);
/* Foreign name of the operator's import row `row`; NULL after the last. The same name may come more than once (operator-set versions). */
OCTET_API const char *octet_operator_import(size_t index, size_t row);
OCTET_API size_t octet_kernel_count(void);
OCTET_API const char *octet_kernel_name(size_t index);

#ifdef __cplusplus
}
#endif
#endif
