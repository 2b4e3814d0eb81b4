/* octet check: recorded cases in ONNX's layout.
 * SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

typedef struct tally {
  size_t count[3];
  bool only_failures;
  const char *filter;
} tally;

static bool is_case(const char *folder) {
  char path[4200];
  struct stat s;
  snprintf(path, sizeof path, "%s/model.onnx", folder);
  return stat(path, &s) == 0;
}

static int check_case(cli *c, const char *folder, tally *t) {
  static const char *const words[] = {"ok", "FAILED", "skipped"};
  octet_case_result result;
  char detail[512] = "";
  octet_status status = octet_check_case(c->ctx, folder, &result, detail);
  if (status != OCTET_OK) return cli_fail(c, status);
  octet_context_clear_warnings(c->ctx);
  t->count[result]++;
  if (c->json)
    cli_print_json(cli_json("sss", "case", cli_base_name(folder), "result",
                            result == OCTET_CASE_PASSED   ? "passed"
                            : result == OCTET_CASE_FAILED ? "failed"
                                                          : "skipped",
                            "detail", detail));
  else if (!t->only_failures || result == OCTET_CASE_FAILED)
    printf("%-8s %s%s%s\n", words[result], cli_base_name(folder), *detail ? ": " : "", detail);
  return CLI_DONE;
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

/* A case folder, or a folder of case folders. */
static int check_folder(cli *c, const char *folder, tally *t, int depth) {
  if (is_case(folder)) return check_case(c, folder, t);
  struct dirent **entries;
  int n = depth < 4 ? scandir(folder, &entries, NULL, by_name) : -1;
  if (n < 0) {
    fprintf(stderr, "octet check: %s is no folder with model.onnx and test_data_set_0, nor a folder of such\n", folder);
    return CLI_FAILED;
  }
  int status = CLI_DONE;
  for (int i = 0; i < n; i++) {
    char path[4096];
    struct stat s;
    snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
    bool wanted = entries[i]->d_name[0] != '.' && (!t->filter || strstr(entries[i]->d_name, t->filter));
    if (status == CLI_DONE && wanted && stat(path, &s) == 0 && S_ISDIR(s.st_mode) && is_case(path))
      status = check_folder(c, path, t, depth + 1);
    free(entries[i]);
  }
  free(entries);
  return status;
}

static int run(cli *c, int argc, char **argv) {
  tally t = {0};
  const cli_option options[] = {{"--only-failures", CLI_FLAG, &t.only_failures, NULL, "no line for what passed or was skipped"},
                                {"--filter", CLI_TEXT, (void *)&t.filter, "TEXT", "only cases whose name contains TEXT"},
                                {0}};
  int status = cli_parse(c, argc, argv, options);
  if (status >= 0) return status;
  status = CLI_DONE;
  for (size_t i = 0; i < c->n_positional && status == CLI_DONE; i++) status = check_folder(c, c->positional[i], &t, 0);
  if (status != CLI_DONE) return status;
  if (c->json)
    cli_print_json(cli_json("III", "passed", (json_int_t)t.count[0], "failed", (json_int_t)t.count[1], "skipped", (json_int_t)t.count[2]));
  else printf("%zu passed, %zu failed, %zu skipped\n", t.count[0], t.count[1], t.count[2]);
  return t.count[1] ? CLI_FAILED : CLI_DONE;
}

const cli_command cli_check = {
    "check",
    "run recorded test cases in ONNX's layout",
    "DIR... [--filter TEXT]",
    "Each DIR holds model.onnx and test_data_set_N/ with input_*.pb and output_*.pb, or folders of such. A line per case, then\n"
    "`N passed, N failed, N skipped`. Skipped cases use a type or form that Octet does not have; the line says which.",
    "  octet check node-tests/\n  octet check node-tests/ --filter conv --only-failures",
    1,
    CLI_MAX_POSITIONAL,
    run};
