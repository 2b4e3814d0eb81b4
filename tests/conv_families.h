/* Families of random convolution problems: which rows a family is steered to, and how often each row has been compared. To be included after
 * conv_i8_checks.h or conv_f32_checks.h, whose problems and rows it takes.
 *
 * A family gives problems until each of its rows has been compared comparisons_wanted() times with the reference; other rows that accept a
 * problem are compared, too, a tenth as often. A row that no family brings to that number fails check_all_rows(), and so does a new one that no family is for.
 * OCTET_CASE=N repeats one problem.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_TESTS_CONV_FAMILIES_H
#define OCT_TESTS_CONV_FAMILIES_H

enum { FAMILY_NUMBERS = 10000000, MAX_CONV_ROWS = 64 };

typedef struct family {
  uint64_t base; /* its problems have the numbers [base, base + FAMILY_NUMBERS) */
  problem (*choose)(uint64_t number);
  row_filter takes;
  const char *rows[8]; /* parts of the names of the rows that it is for */
} family;

static long most_comparisons[MAX_CONV_ROWS]; /* of each row within one family */

static bool is_for(const family *f, const conv_row *row) {
  if (!row_here(row->name, row->isa)) return false;
  for (size_t i = 0; i < sizeof f->rows / sizeof *f->rows && f->rows[i]; i++)
    if (strstr(row->name, f->rows[i])) return true;
  return false;
}

/* The place of a row of the family that has not been compared often enough, or -1. */
static int row_left(const family *f, uint64_t enough) {
  for (int k = 0; conv_rows[k]; k++)
    if (is_for(f, conv_rows[k]) && !(enough >> k & 1)) return k;
  return -1;
}

static void check_family(const family *f) {
  const char *one = getenv("OCTET_CASE");
  uint64_t number = one ? strtoull(one, NULL, 10) : f->base, enough = 0;
  uint64_t last =
      f->base + (uint64_t)comparisons_wanted() * 100; /* a problem in a hundred is for each row, or the family is not made for it */
  long counts[MAX_CONV_ROWS] = {0};
  if (one && number - f->base < FAMILY_NUMBERS) {
    problem p = f->choose(number);
    check_rows(&p, f->takes, 0);
  }
  if (one) return;
  for (; row_left(f, enough) >= 0 && number < last; number++) {
    problem p = f->choose(number);
    uint64_t compared = check_rows(&p, f->takes, enough);
    for (int k = 0; conv_rows[k]; k++) {
      counts[k] += compared >> k & 1;
      if (counts[k] > most_comparisons[k]) most_comparisons[k] = counts[k];
      if (counts[k] >= comparisons_wanted() / (is_for(f, conv_rows[k]) ? 1 : 10)) enough |= UINT64_C(1) << k;
    }
  }
  int left = row_left(f, enough);
  if (left >= 0) fail_msg("%s: compared %ld times in %d problems made for it", conv_rows[left]->name, counts[left], (int)(last - f->base));
}

/* All rows that `wanted` takes by name were compared often enough; says how often. */
static void check_all_rows(bool (*wanted)(const conv_row *row)) {
  if (getenv("OCTET_CASE")) skip();
  for (int k = 0; conv_rows[k]; k++) {
    assert_true(k < MAX_CONV_ROWS);
    if (!row_here(conv_rows[k]->name, conv_rows[k]->isa) || !wanted(conv_rows[k])) continue;
    printf("%s: %ld comparisons\n", conv_rows[k]->name, most_comparisons[k]);
    if (most_comparisons[k] < comparisons_wanted()) fail_msg("%s: compared %ld times", conv_rows[k]->name, most_comparisons[k]);
  }
}

#endif
