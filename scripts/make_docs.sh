#!/bin/sh
# Writes the documents that the program itself prints - operators.md and commands.md - into a folder; tests/test_cli.py compares them.
#   scripts/make_docs.sh [PROGRAM [FOLDER]]      (build/octet, docs)
# SPDX-License-Identifier: MIT
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
program=${1:-$root/build/octet}
folder=${2:-$root/docs}

{
  printf '# Operators\n\n'
  printf 'What `octet ops --markdown` prints; `scripts/make_docs.sh` writes this file and a test keeps it true.\n\n'
  printf '"8 bits" is how an operator runs in a static int8 model: `integer` has arithmetic of its own, `table` looks up 256 entries, `moves` passes\n'
  printf '8-bit values on, `float` stays in float, `none` has no activations. Without a fast form the plain reference runs it.\n\n'
  "$program" ops --markdown
} >"$folder/operators.md"

{
  printf '# Commands\n\nWhat the program prints with `--help`; `scripts/make_docs.sh` writes this file and a test keeps it true.\n\n'
  printf '```\n'
  "$program" --help
  printf '```\n'
  for command in $("$program" --help | sed -n '/^commands$/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    printf '\n## %s\n\n```\n' "$command"
    "$program" "$command" --help
    printf '```\n'
  done
} >"$folder/commands.md"
