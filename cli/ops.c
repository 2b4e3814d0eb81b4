/* octet ops: the operators and kernels of this build.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "cli.h"

/* All foreign names, each once. */
static const char *imports(size_t index, char text[256]) {
  text[0] = 0;
  for (size_t row = 0;; row++) {
    const char *name = octet_operator_import(index, row);
    if (!name) return text;
    size_t length = strlen(text), n = strlen(name);
    const char *found = strstr(text, name);
    bool known = found && (found == text || found[-1] == ' ') && (found[n] == 0 || found[n] == ' ');
    if (!known && length + n + 2 < 256) snprintf(text + length, 256 - length, "%s%s", length ? " " : "", name);
  }
}

static int run(cli *c, int argc, char **argv) {
  bool kernels = false, markdown = false;
  const cli_option options[] = {{"--kernels", CLI_FLAG, &kernels, NULL, "the kernels instead"},
                                {"--markdown", CLI_FLAG, &markdown, NULL, "as the table in docs/operators.md"},
                                {0}};
  int status = cli_parse(c, argc, argv, options);
  if (status >= 0) return status;
  if (kernels) {
    for (size_t i = 0; i < octet_kernel_count(); i++) {
      if (c->json) cli_print_json(cli_json("s", "kernel", octet_kernel_name(i)));
      else printf("%s%s\n", markdown ? "- " : "", octet_kernel_name(i));
    }
    return CLI_DONE;
  }
  cli_table table = cli_table_make("lllll");
  cli_table_row(&table, (const char *[]){"operator", "8 bits", "fast form", "ONNX", "summary"});
  if (markdown) printf("| operator | 8 bits | fast form | ONNX | summary |\n|---|---|---|---|---|\n");
  for (size_t i = 0; i < octet_operator_count(); i++) {
    octet_operator_info o = octet_operator(i);
    char names[256];
    imports(i, names);
    if (c->json)
      cli_print_json(cli_json("ssbss", "name", o.name, "quantization", o.quantization, "lowering", o.has_lowering, "onnx", names, "summary",
                              o.summary));
    else if (markdown)
      printf("| `%s` | %s | %s | %s | %s |\n", o.name, o.quantization, o.has_lowering ? "yes" : "reference", names, o.summary);
    else cli_table_row(&table, (const char *[]){o.name, o.quantization, o.has_lowering ? "yes" : "reference", names, o.summary});
  }
  cli_table_print(&table, c->json || markdown ? NULL : stdout);
  return CLI_DONE;
}

const cli_command cli_ops = {"ops",
                             "the operators of this build",
                             "[--kernels] [--json]",
                             "One line per operator: how it is quantized (integer: own arithmetic; table: 256 entries; moves: passes 8-bit "
                             "values on; float), whether it\n"
                             "has a fast form, and its ONNX names.",
                             "  octet ops\n  octet ops --kernels",
                             0,
                             0,
                             run};
