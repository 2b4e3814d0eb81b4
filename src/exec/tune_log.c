/* The tuning log as a file: see tune_log.h.
 *   {"octet_tune_log": 1,
 *    "processors": {"PROCESSOR, ISA, KERNELS": {"layers": {"KEY": {"chosen": "conv_i8_...", "ms": {"conv_i8_...": 0.31, ...}}},
 *                                               "chunks": {"KEY": {"chosen": "8", "ms": {"1": 7.2, "8": 6.4}}}}}}
 * SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "exec/tune_log.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

#define MAX_LOG_BYTES ((size_t)16 << 20)
#define FORMAT_KEY "octet_tune_log"
#define FORMAT_NUMBER 1

struct oct_tune_log {
  char *path;
  json_t *root;      /* the whole file */
  json_t *processor; /* this processor's part: inside root, or NULL as long as it is empty */
  char section[256]; /* its name */
  bool foreign;      /* the file is something else: not to be replaced */
};

/* ---- Where it is --------------------------------------------------------------------------------------------------- */

static char *join(octet_context *ctx, const char *folder, const char *rest) {
  size_t length = strlen(folder) + strlen(rest) + 1;
  char *path = oct_alloc(ctx, length, 1);
  if (path) snprintf(path, length, "%s%s", folder, rest);
  return path;
}

/* *path NULL: there is none. */
static octet_status find_path(octet_context *ctx, const char *given, char **path) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  *path = NULL;
  if (!given || !*given) given = getenv("OCTET_TUNE_LOG");
  if (given && strcmp(given, "none") == 0) return OCTET_OK;
  if (given && *given) *path = oct_strdup(ctx, given);
  else if (cache && *cache == '/') *path = join(ctx, cache, "/octet/tune.json");
  else if (home && *home == '/') *path = join(ctx, home, "/.cache/octet/tune.json");
  else return OCTET_OK;
  return *path ? OCTET_OK : OCTET_OUT_OF_MEMORY;
}

/* Processor, widest instruction set, and the kernels of this version: figures of other kernels say nothing about these. */
static void name_section(uint32_t isa_mask, char *section, size_t size) {
  int widest = OCT_ISA_SCALAR;
  uint64_t hash = 14695981039346656037u; /* FNV-1a */
  char cpu[64];
  for (int i = 0; i < OCT_ISA_COUNT; i++)
    if (oct_isa_allowed(isa_mask, (oct_isa)i)) widest = i;
  for (const oct_conv_i8_kernel *const *k = oct_conv_i8_kernels; *k; k++)
    for (const char *p = (*k)->name; *p; p++) hash = (hash ^ (uint8_t)*p) * 1099511628211u;
  snprintf(section, size, "%s, %s, %s-%08x", oct_cpu_name(cpu), oct_isa_name((oct_isa)widest), OCTET_VERSION,
           (unsigned)(hash ^ hash >> 32));
}

/* ---- Reading ------------------------------------------------------------------------------------------------------- */

static octet_status set_aside(octet_context *ctx, oct_tune_log *log, const char *why) {
  oct_warn(ctx, "tuning log %s: %s; it is left alone and nothing is taken from it", log->path, why);
  log->foreign = true;
  return OCTET_OK;
}

static octet_status parse(octet_context *ctx, oct_tune_log *log, oct_bytes bytes) {
  json_error_t error;
  char why[JSON_ERROR_TEXT_LENGTH + 64];
  if (bytes.size == 0) return OCTET_OK;
  if (bytes.size > MAX_LOG_BYTES) return set_aside(ctx, log, "is too large for one");
  log->root = json_loadb((const char *)bytes.data, bytes.size, 0, &error);
  if (!log->root) {
    snprintf(why, sizeof why, "line %d is no JSON (%s)", error.line, error.text);
    return set_aside(ctx, log, why);
  }
  if (json_integer_value(json_object_get(log->root, FORMAT_KEY)) != FORMAT_NUMBER ||
      !json_is_object(json_object_get(log->root, "processors")))
    return set_aside(ctx, log, "is JSON, but no tuning log of this version");
  log->processor = json_object_get(json_object_get(log->root, "processors"), log->section);
  return OCTET_OK;
}

static octet_status read_file(octet_context *ctx, oct_tune_log *log) {
  struct stat st;
  oct_file *file;
  bool there = stat(log->path, &st) == 0;
  if (!there && (errno == ENOENT || errno == ENOTDIR)) return OCTET_OK;
  if (there && !S_ISREG(st.st_mode)) return set_aside(ctx, log, "is no ordinary file"); /* a pipe or device may have no end */
  octet_status status = oct_file_open(ctx, log->path, &file);
  if (status == OCTET_OUT_OF_MEMORY) return status;
  if (status != OCTET_OK) return set_aside(ctx, log, "cannot be read");
  status = parse(ctx, log, oct_file_bytes(file));
  oct_file_close(file);
  return status;
}

/* An empty log; takes `path`, which may be NULL for want of memory. */
static octet_status create(octet_context *ctx, char *path, oct_tune_log **out) {
  oct_tune_log *log = path ? oct_alloc(ctx, 1, sizeof *log) : NULL;
  if (log) log->path = path;
  else oct_free(path);
  *out = log;
  return log ? OCTET_OK : OCTET_OUT_OF_MEMORY;
}

static octet_status finish(octet_status status, oct_tune_log *log, oct_tune_log **out) {
  if (status == OCTET_OK) *out = log;
  else oct_tune_log_close(log);
  return status;
}

octet_status oct_tune_log_open(octet_context *ctx, const char *path, uint32_t isa_mask, oct_tune_log **out) {
  char *found;
  oct_tune_log *log;
  *out = NULL;
  OCT_TRY(find_path(ctx, path, &found));
  if (!found) return OCTET_OK;
  OCT_TRY(create(ctx, found, &log));
  name_section(isa_mask, log->section, sizeof log->section);
  return finish(read_file(ctx, log), log, out);
}

octet_status oct_tune_log_read_bytes(octet_context *ctx, oct_bytes bytes, const char *path, const char *section, oct_tune_log **out) {
  oct_tune_log *log;
  *out = NULL;
  OCT_TRY(create(ctx, oct_strdup(ctx, path), &log));
  snprintf(log->section, sizeof log->section, "%s", section);
  return finish(parse(ctx, log, bytes), log, out);
}

void oct_tune_log_close(oct_tune_log *log) {
  if (!log) return;
  json_decref(log->root);
  oct_free(log->path);
  oct_free(log);
}

const char *oct_tune_log_path(const oct_tune_log *log) { return log->path; }

/* ---- What it says -------------------------------------------------------------------------------------------------- */

static json_t *entry(const oct_tune_log *log, const char *part, const char *key) {
  return log && !log->foreign ? json_object_get(json_object_get(log->processor, part), key) : NULL;
}

const char *oct_tune_log_kernel(const oct_tune_log *log, const char *key) {
  return json_string_value(json_object_get(entry(log, "layers", key), "chosen"));
}

double oct_tune_log_time(const oct_tune_log *log, const char *key, const char *kernel) {
  double ms = json_number_value(json_object_get(json_object_get(entry(log, "layers", key), "ms"), kernel));
  return ms > 0 && ms < 1e9 ? ms : 0;
}

int64_t oct_tune_log_chunk(const oct_tune_log *log, const char *key) {
  const char *text = json_string_value(json_object_get(entry(log, "chunks", key), "chosen"));
  long long chunk = text ? strtoll(text, NULL, 10) : 0;
  return chunk > 0 && chunk <= INT32_MAX ? chunk : 0;
}

/* ---- Adding and writing -------------------------------------------------------------------------------------------- */

/* The object `key` of `parent`, made where it is absent or something else; NULL: out of memory. */
static json_t *object_in(json_t *parent, const char *key) {
  json_t *object = json_object_get(parent, key);
  if (json_is_object(object)) return object;
  return json_object_set_new(parent, key, json_object()) == 0 ? json_object_get(parent, key) : NULL;
}

static octet_status put(octet_context *ctx, oct_tune_log *log, const char *part, const char *key, const oct_timed *timed, size_t n,
                        size_t chosen) {
  if (log->foreign) return OCTET_OK;
  if (!log->root) log->root = json_pack("{s:i,s:{}}", FORMAT_KEY, FORMAT_NUMBER, "processors");
  log->processor = object_in(json_object_get(log->root, "processors"), log->section);
  json_t *ms = json_object();
  bool fine = ms && log->processor;
  for (size_t i = 0; i < n && fine; i++) fine = json_object_set_new(ms, timed[i].name, json_real(timed[i].ms)) == 0;
  json_t *entries = fine ? object_in(log->processor, part) : NULL;
  if (!entries) {
    json_decref(ms);
    return oct_fail(ctx, OCTET_OUT_OF_MEMORY, "out of memory for the tuning log");
  }
  json_t *value = json_pack("{s:s,s:o}", "chosen", timed[chosen].name, "ms", ms);
  return json_object_set_new(entries, key, value) == 0 ? OCTET_OK : oct_fail(ctx, OCTET_OUT_OF_MEMORY, "out of memory for the tuning log");
}

octet_status oct_tune_log_put_kernel(octet_context *ctx, oct_tune_log *log, const char *key, const oct_timed *timed, size_t n,
                                     size_t chosen) {
  return put(ctx, log, "layers", key, timed, n, chosen);
}

octet_status oct_tune_log_put_chunk(octet_context *ctx, oct_tune_log *log, const char *key, const oct_timed *timed, size_t n,
                                    size_t chosen) {
  return put(ctx, log, "chunks", key, timed, n, chosen);
}

/* What cannot be made shows when the file is written. */
static void make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    if (access(path, F_OK) != 0) (void)mkdir(path, 0777);
    *slash = '/';
  }
}

octet_status oct_tune_log_save(octet_context *ctx, const oct_tune_log *log) {
  if (log->foreign)
    return oct_fail(ctx, OCTET_UNSUPPORTED, "%s: is no tuning log, and is not replaced by one: give another name", log->path);
  if (!log->root) return OCTET_OK;
  char *text = json_dumps(log->root, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
  if (!text) return oct_fail(ctx, OCTET_OUT_OF_MEMORY, "out of memory for the tuning log");
  make_folders(log->path);
  octet_status status = oct_file_write(ctx, log->path, text, strlen(text));
  free(text);
  return status;
}
