/* What every command of the program shares: options, help, errors, tables, progress, JSON.
 * The program stands on octet.h alone.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_CLI_H
#define OCT_CLI_H

#include <jansson.h>
#include <stdio.h>

#include "octet/octet.h"

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

#define CLI_MAX_POSITIONAL 4096

typedef struct cli {
  octet_context *ctx;
  const struct cli_command *command;
  bool json, verbose;
  size_t threads;
  const char *isa;
  const char **positional;
  size_t n_positional;
} cli;

typedef enum cli_kind { CLI_FLAG, CLI_TEXT, CLI_COUNT, CLI_NUMBER, CLI_LIST } cli_kind;

/* Values of a repeatable option. */
typedef struct cli_list {
  const char *items[64];
  size_t count;
} cli_list;

typedef struct cli_option {
  const char *name; /* "--mode"; NULL ends the list */
  cli_kind kind;
  void *target;         /* bool, const char *, size_t, double, cli_list */
  const char *argument; /* "MODE" in the help; NULL for flags */
  const char *help;
} cli_option;

typedef struct cli_command {
  const char *name, *summary, *arguments;
  const char *description; /* paragraphs for --help */
  const char *examples;    /* lines for --help */
  size_t min_positional, max_positional;
  int (*run)(cli *c, int argc, char **argv);
} cli_command;

extern const cli_command cli_inspect, cli_run, cli_check, cli_convert, cli_quantize, cli_eval, cli_compare, cli_bench, cli_tune, cli_ops,
    cli_demo;

/* How a session is to be made, for commands that make one. */
typedef struct cli_making {
  bool tune;
  const char *tune_log, *memory;
} cli_making;
#define CLI_MAKING_OPTIONS(m)                                                                              \
  {"--tune", CLI_FLAG, &(m).tune, NULL, "time the kernels of integer layers first (`octet tune --help`)"}, \
      {"--tune-log", CLI_TEXT, (void *)&(m).tune_log, "FILE",                                              \
       "where timed kernels are kept, or \"none\" (OCTET_TUNE_LOG, else the user's cache)"},               \
  {                                                                                                        \
    "--memory", CLI_TEXT, (void *)&(m).memory, "SIZE", "small: least memory first; fast (the default)"     \
  }
#define CLI_TUNE_SECONDS 2.0
/* false, after a message: a wrong argument. */
bool cli_making_apply(cli *c, const cli_making *making, octet_session_options *options);

/* Reads the arguments after the command's name. Negative: go on; else the exit status to end with (help was shown, or an error). */
int cli_parse(cli *c, int argc, char **argv, const cli_option *options);
/* Prints the context's message and gives the exit status for it. */
int cli_fail(cli *c, octet_status status);
int cli_usage(cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints the warnings gathered so far on standard error and forgets them. */
void cli_warnings(cli *c);
/* Prints one line of JSON and drops the reference. */
void cli_print_json(json_t *value);
/* An object of keys and values in turn; `kinds` has one letter per value: s text (NULL: no such key), f double (none: null), I json_int_t, i int,
 * b bool, o json_t, whose reference is taken. Texts may hold any bytes. */
json_t *cli_json(const char *kinds, ...);
json_t *cli_json_text(const char *text);
json_t *cli_json_dims(const octet_tensor *tensor);
/* "1x3x224x224", "?" for unknown. */
const char *cli_dims(const int64_t *dims, int rank, char text[128]);
const char *cli_bytes(double bytes, char text[32]); /* "11.7 MB" */
/* Comma-separated whole numbers; false when one is none or too many. */
bool cli_numbers(const char *text, size_t *out, size_t max, size_t *count);
/* The file part of a path. */
const char *cli_base_name(const char *path);
/* A bar on standard error when that is a terminal. */
bool cli_progress(void *user, const char *what, size_t done, size_t total);

/* A text table: columns as wide as their widest cell, numbers to the right. Cells are copied; print frees, and only that when `out` is NULL. */
typedef struct cli_table {
  char ***rows;
  size_t n_rows, columns;
  const char *alignment; /* 'l' or 'r' per column */
} cli_table;
cli_table cli_table_make(const char *alignment);
void cli_table_row(cli_table *table, const char *const *cells);
void cli_table_print(cli_table *table, FILE *out);

/* Layer by layer, float beside quantized. */
json_t *cli_speed_json(const octet_speed *speed);
void cli_speed_print(const octet_speed *speed);

#endif
