/* Shared parts of the commands: see cli.h.
 * SPDX-License-Identifier: MIT */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const cli_option *common_options(cli *c) {
  static cli_option options[6];
  options[0] = (cli_option){"--json", CLI_FLAG, &c->json, NULL, "results as JSON, one object per line"};
  options[1] = (cli_option){"--threads", CLI_COUNT, &c->threads, "N", "threads to use (1)"};
  options[2] = (cli_option){"--isa", CLI_TEXT, (void *)&c->isa, "NAME",
                            "widest instruction set: scalar, avx2, avxvnni, avx512, avx512vbmi, avx512vnni, amx (OCTET_ISA does the same)"};
  options[3] = (cli_option){"--verbose", CLI_FLAG, &c->verbose, NULL, "say more (-v)"};
  options[4] = (cli_option){0};
  return options;
}

static const cli_option *find_option(const cli_option *options, const char *name, size_t length);

/* `own` (or NULL): the command's own options, which take the place of common ones of the same name. */
static void print_options(const cli_option *options, const cli_option *own) {
  for (const cli_option *o = options; o && o->name; o++) {
    if (find_option(own, o->name, strlen(o->name))) continue;
    char left[80];
    snprintf(left, sizeof left, "%s%s%s", o->name, o->argument ? " " : "", o->argument ? o->argument : "");
    printf("  %-28s %s\n", left, o->help);
  }
}

static void print_help(cli *c, const cli_option *options) {
  const cli_command *m = c->command;
  printf("usage: octet %s %s\n\n%s\n", m->name, m->arguments, m->description);
  if (options && options->name) {
    printf("\noptions\n");
    print_options(options, NULL);
  }
  printf("\ncommon options\n");
  print_options(common_options(c), options);
  printf("\nexamples\n%s\n", m->examples);
}

int cli_usage(cli *c, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "octet %s: ", c->command->name);
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\nusage: octet %s %s\n`octet %s --help` says more.\n", c->command->name, c->command->arguments, c->command->name);
  va_end(arguments);
  return CLI_USAGE;
}

static const cli_option *find_option(const cli_option *options, const char *name, size_t length) {
  for (const cli_option *o = options; o && o->name; o++)
    if (strlen(o->name) == length && strncmp(o->name, name, length) == 0) return o;
  return NULL;
}

/* Stores the value; false when it is not of the option's kind. */
static bool store(const cli_option *o, const char *value) {
  char *end;
  errno = 0;
  switch (o->kind) {
    case CLI_FLAG: *(bool *)o->target = true; return true;
    case CLI_TEXT: *(const char **)o->target = value; return true;
    case CLI_COUNT:
      if (*value < '0' || *value > '9') return false;
      *(size_t *)o->target = strtoull(value, &end, 10);
      return *end == 0 && errno == 0;
    case CLI_NUMBER:
      *(double *)o->target = strtod(value, &end);
      return *end == 0 && end != value && errno == 0 && isfinite(*(double *)o->target) && *(double *)o->target >= 0;
    case CLI_LIST: {
      cli_list *list = o->target;
      if (list->count == sizeof list->items / sizeof *list->items) return false;
      list->items[list->count++] = value;
      return true;
    }
  }
  return false;
}

static int parse_option(cli *c, int argc, char **argv, int *at, const cli_option *options) {
  const char *word = argv[*at], *equals = strchr(word, '=');
  if (strcmp(word, "-v") == 0) word = "--verbose";
  size_t length = equals ? (size_t)(equals - word) : strlen(word);
  const cli_option *o = find_option(options, word, length);
  if (!o) o = find_option(common_options(c), word, length);
  if (!o) return cli_usage(c, "unknown option %.*s", (int)length, word);
  const char *value = equals ? equals + 1 : NULL;
  if (o->kind == CLI_FLAG && value) return cli_usage(c, "%s takes no value", o->name);
  if (o->kind != CLI_FLAG && !value) {
    if (*at + 1 >= argc) return cli_usage(c, "%s needs a value (%s)", o->name, o->argument);
    value = argv[++*at];
  }
  if (!store(o, value)) return cli_usage(c, "%s: \"%s\" is no valid %s", o->name, value, o->argument);
  return -1;
}

int cli_parse(cli *c, int argc, char **argv, const cli_option *options) {
  static const char *positional[CLI_MAX_POSITIONAL];
  c->positional = positional;
  bool only_names = false;
  for (int i = 0; i < argc; i++) {
    const char *word = argv[i];
    if (!only_names && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
      print_help(c, options);
      return CLI_DONE;
    }
    if (!only_names && strcmp(word, "--") == 0) {
      only_names = true;
    } else if (!only_names && word[0] == '-' && word[1]) {
      if (strcmp(word, "-o") == 0) argv[i] = (char *)(uintptr_t) "--output";
      int status = parse_option(c, argc, argv, &i, options);
      if (status >= 0) return status;
    } else {
      if (c->n_positional == CLI_MAX_POSITIONAL) return cli_usage(c, "more than %d names", CLI_MAX_POSITIONAL);
      positional[c->n_positional++] = word;
    }
  }
  if (c->n_positional < c->command->min_positional) return cli_usage(c, "too few arguments");
  if (c->n_positional > c->command->max_positional) return cli_usage(c, "what is \"%s\" for?", positional[c->command->max_positional]);
  if (c->isa && octet_context_set_isa(c->ctx, c->isa) != OCTET_OK) return cli_usage(c, "%s", octet_context_message(c->ctx));
  if (octet_context_set_threads(c->ctx, c->threads > 10000 ? 10000 : (int)c->threads) != OCTET_OK)
    return cli_usage(c, "%s", octet_context_message(c->ctx));
  octet_context_set_progress(c->ctx, cli_progress, NULL);
  return -1;
}

bool cli_making_apply(cli *c, const cli_making *making, octet_session_options *options) {
  options->tune_log = making->tune_log;
  options->tune_seconds = making->tune ? CLI_TUNE_SECONDS : 0;
  options->memory_small = making->memory && strcmp(making->memory, "small") == 0;
  if (making->memory && !options->memory_small && strcmp(making->memory, "fast") != 0) {
    cli_usage(c, "--memory: \"%s\" is neither small nor fast", making->memory);
    return false;
  }
  if (!making->tune || !options->memory_small) return true;
  cli_usage(c, "--memory small and --tune exclude each other");
  return false;
}

int cli_fail(cli *c, octet_status status) {
  cli_progress(NULL, NULL, 0, 0);
  cli_warnings(c);
  const char *message = octet_context_message(c->ctx);
  fprintf(stderr, "octet %s: %s\n", c->command->name, *message ? message : octet_status_name(status));
  return CLI_FAILED;
}

void cli_warnings(cli *c) {
  cli_progress(NULL, NULL, 0, 0);
  for (size_t i = 0; i < octet_context_warning_count(c->ctx); i++)
    fprintf(stderr, "octet %s: warning: %s\n", c->command->name, octet_context_warning(c->ctx, i));
  octet_context_clear_warnings(c->ctx);
}

const char *cli_dims(const int64_t *dims, int rank, char text[128]) {
  size_t n = 0;
  text[0] = 0;
  if (rank == 0) snprintf(text, 128, "scalar");
  if (rank < 0) snprintf(text, 128, "?");
  for (int d = 0; d < rank && n < 100; d++) {
    if (dims[d] < 0) n += (size_t)snprintf(text + n, 128 - n, "%s?", d ? "x" : "");
    else n += (size_t)snprintf(text + n, 128 - n, "%s%lld", d ? "x" : "", (long long)dims[d]);
  }
  return text;
}

const char *cli_bytes(double bytes, char text[32]) {
  if (bytes < 10000) snprintf(text, 32, "%.0f B", bytes);
  else if (bytes < 1e7) snprintf(text, 32, "%.1f kB", bytes / 1e3);
  else snprintf(text, 32, "%.1f MB", bytes / 1e6);
  return text;
}

bool cli_numbers(const char *text, size_t *out, size_t max, size_t *count) {
  *count = 0;
  while (*text) {
    char *end;
    if (*text < '0' || *text > '9' || *count == max) return false;
    out[(*count)++] = strtoull(text, &end, 10);
    if (*end && *end != ',') return false;
    text = *end ? end + 1 : end;
  }
  return *count > 0;
}

const char *cli_base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

bool cli_progress(void *user, const char *what, size_t done, size_t total) {
  static bool shown;
  (void)user;
  if (!isatty(STDERR_FILENO)) return true;
  if (!what || (total && done >= total)) {
    if (shown) fprintf(stderr, "\r\033[K");
    shown = false;
    return true;
  }
  shown = true;
  int width = 30, filled = total ? (int)((double)done / (double)total * width) : 0;
  fprintf(stderr, "\r\033[K%-12s [", what);
  for (int i = 0; i < width; i++) fputc(i < filled ? '#' : '.', stderr);
  if (total) fprintf(stderr, "] %zu/%zu", done, total);
  else fprintf(stderr, "] %zu", done);
  fflush(stderr);
  return true;
}

cli_table cli_table_make(const char *alignment) { return (cli_table){.columns = strlen(alignment), .alignment = alignment}; }

void cli_table_row(cli_table *table, const char *const *cells) {
  char ***wider = realloc(table->rows, (table->n_rows + 1) * sizeof *wider);
  if (!wider) return;
  table->rows = wider;
  char **row = calloc(table->columns, sizeof *row);
  if (!row) return;
  for (size_t i = 0; i < table->columns; i++) row[i] = strdup(cells[i] ? cells[i] : "");
  table->rows[table->n_rows++] = row;
}

static void print_cell(FILE *out, const char *cell, char alignment, size_t width, bool last) {
  if (!out) return;
  if (alignment == 'r') fprintf(out, "%*s%s", (int)width, cell, last ? "\n" : "  ");
  else fprintf(out, "%-*s%s", last ? 0 : (int)width, cell, last ? "\n" : "  ");
}

void cli_table_print(cli_table *table, FILE *out) {
  size_t width[32] = {0};
  for (size_t r = 0; r < table->n_rows; r++)
    for (size_t i = 0; i < table->columns && i < 32; i++) {
      size_t length = table->rows[r][i] ? strlen(table->rows[r][i]) : 0;
      if (length > width[i]) width[i] = length;
    }
  for (size_t r = 0; r < table->n_rows; r++) {
    for (size_t i = 0; i < table->columns; i++) {
      print_cell(out, table->rows[r][i] ? table->rows[r][i] : "", table->alignment[i], width[i], i + 1 == table->columns);
      free(table->rows[r][i]);
    }
    free(table->rows[r]);
  }
  free(table->rows);
  *table = (cli_table){0};
}
