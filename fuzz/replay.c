/* Runs a fuzz target without libFuzzer: over files and folders of seeds, and over mutations of them drawn from a fixed
 * generator, so that every test run covers the same inputs with any compiler. It finds nothing new: that is `./dev fuzz`.
 * SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct replay {
  long mutations; /* per seed */
  long inputs, seeds;
  uint64_t state; /* generator */
} replay;

static uint64_t next_random(replay *r) {
  uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* The target gets memory of exactly the input's size, so that a sanitizer sees each read past it. */
static bool run_one(replay *r, const uint8_t *data, size_t size) {
  uint8_t *copy = calloc(size ? size : 1, 1);
  if (!copy) return false;
  if (size) memcpy(copy, data, size);
  LLVMFuzzerTestOneInput(copy, size);
  free(copy);
  r->inputs++;
  return true;
}

/* One to eight changes: flipped bits, bytes at their extremes, moved blocks; every fourth input is also cut short. */
static size_t mutate(replay *r, uint8_t *data, size_t size) {
  static const uint8_t extremes[] = {0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff};
  for (uint64_t n = 1 + next_random(r) % 8; n > 0; n--) {
    size_t at = (size_t)(next_random(r) % size), from = (size_t)(next_random(r) % size);
    size_t longest = size - (at > from ? at : from);
    switch (next_random(r) % 4) {
      case 0: data[at] ^= (uint8_t)(1u << (next_random(r) % 8)); break;
      case 1: data[at] = extremes[next_random(r) % sizeof extremes]; break;
      case 2: data[at] = (uint8_t)next_random(r); break;
      default: memmove(data + at, data + from, (size_t)(next_random(r) % (longest < 64 ? longest + 1 : 64))); break;
    }
  }
  return next_random(r) % 4 == 0 ? (size_t)(next_random(r) % size) : size;
}

static bool run_seed(replay *r, const uint8_t *data, size_t size) {
  r->seeds++;
  if (!run_one(r, data, size)) return false;
  if (size == 0) return true;
  uint8_t *work = malloc(size);
  if (!work) return false;
  bool ok = true;
  for (long i = 0; ok && i < r->mutations; i++) {
    memcpy(work, data, size);
    size_t length = mutate(r, work, size);
    ok = run_one(r, work, length);
  }
  free(work);
  return ok;
}

static bool run_file(replay *r, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  bool ok = false;
  uint8_t *data = NULL;
  if (fseek(file, 0, SEEK_END) == 0) {
    long size = ftell(file);
    rewind(file);
    data = size >= 0 ? malloc((size_t)size + 1) : NULL;
    ok = data && fread(data, 1, (size_t)size, file) == (size_t)size && run_seed(r, data, (size_t)size);
  }
  free(data);
  fclose(file);
  return ok;
}

static int is_visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

/* Folders are read in the order of their names: the generator's state must not depend on the file system. */
static bool run_path(replay *r, const char *path) {
  struct stat info;
  if (stat(path, &info) != 0) {
    fprintf(stderr, "replay: %s is missing\n", path);
    return false;
  }
  if (!S_ISDIR(info.st_mode)) {
    bool ok = run_file(r, path);
    if (!ok) fprintf(stderr, "replay: %s cannot be read\n", path);
    return ok;
  }
  struct dirent **entries;
  int count = scandir(path, &entries, is_visible, alphasort);
  bool ok = count >= 0;
  for (int i = 0; i < count; i++) {
    char inner[4096];
    int length = snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
    if (ok) ok = length > 0 && (size_t)length < sizeof inner && run_path(r, inner);
    free(entries[i]);
  }
  if (count >= 0) free(entries);
  return ok;
}

int main(int argc, char **argv) {
  replay r = {.mutations = 0, .state = 1};
  bool ok = run_one(&r, NULL, 0);
  for (int i = 1; i < argc && ok; i++) {
    if (strcmp(argv[i], "--mutations") == 0 && i + 1 < argc) {
      r.mutations = strtol(argv[++i], NULL, 10);
    } else {
      ok = run_path(&r, argv[i]);
    }
  }
  printf("%ld seeds, %ld inputs\n", r.seeds, r.inputs);
  return ok ? 0 : 1;
}
