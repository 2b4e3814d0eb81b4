/* The program `octet`: picks the command.
 * SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <string.h>

#include "cli.h"

static const cli_command *const commands[] = {&cli_demo,  &cli_inspect, &cli_run,     &cli_eval,  &cli_quantize, &cli_compare,
                                              &cli_bench, &cli_tune,    &cli_convert, &cli_check, &cli_ops};
#define N_COMMANDS (sizeof commands / sizeof *commands)

static void print_help(FILE *out) {
  fprintf(out,
          "octet %s - quantize a trained network, show what that did, run it\n\nusage: octet COMMAND ... [--json] [--threads N] "
          "[-v]\n\ncommands\n",
          octet_version());
  for (size_t i = 0; i < N_COMMANDS; i++) fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
  fprintf(out, "\n`octet COMMAND --help` explains one, with examples. Results go to standard output, messages to standard error;\n"
               "exit status 0: done, 1: failed, 2: wrong usage.\n");
}

/* A closed standard stream would hand its number to the next file that is opened: /dev/null takes the place, open for what the stream is not for. */
static void hold_standard_streams(void) {
  for (int fd = 0; fd < 3; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0) return;
}

static int run(const cli_command *command, int argc, char **argv) {
  cli c = {.command = command, .threads = 1};
  octet_status status = octet_context_create(&c.ctx);
  int result = status == OCTET_OK ? command->run(&c, argc, argv) : cli_fail(&c, status);
  octet_context_destroy(c.ctx);
  return result;
}

static int run_named(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "--help";
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
    print_help(argc > 1 ? stdout : stderr);
    return argc > 1 ? CLI_DONE : CLI_USAGE;
  }
  if (strcmp(name, "--version") == 0) {
    printf("octet %s\n", octet_version());
    return CLI_DONE;
  }
  for (size_t i = 0; i < N_COMMANDS; i++)
    if (strcmp(commands[i]->name, name) == 0) return run(commands[i], argc - 2, argv + 2);
  fprintf(stderr, "octet: there is no command \"%s\"; `octet --help` lists them\n", name);
  return CLI_USAGE;
}

int main(int argc, char **argv) {
  hold_standard_streams();
  int result = run_named(argc, argv);
  if (fflush(stdout) == 0 && !ferror(stdout)) return result;
  fprintf(stderr, "octet: standard output could not be written\n");
  return CLI_FAILED;
}
