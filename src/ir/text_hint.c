/* Near misses of unknown names, for messages of the text form.
 * SPDX-License-Identifier: MIT */
#include "ir/text_lex.h"

#define LONGEST 63 /* names beyond are not compared */
#define MOST 20000 /* candidates that are looked at */
#define SUGGESTIONS 3

static int least(int a, int b) { return a < b ? a : b; }
static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* Edit distance with neighbouring letters exchanged at cost 1, case ignored. Both at most LONGEST long. */
static int distance(const char *a, const char *b) {
  int rows[3][LONGEST + 1], n = (int)strlen(b);
  int *before = rows[0], *above = rows[1], *now = rows[2];
  for (int j = 0; j <= n; j++) above[j] = before[j] = j;
  for (int i = 1; a[i - 1]; i++) {
    now[0] = i;
    for (int j = 1; j <= n; j++) {
      bool same = lower(a[i - 1]) == lower(b[j - 1]);
      now[j] = least(least(above[j] + 1, now[j - 1] + 1), above[j - 1] + !same);
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
        now[j] = least(now[j], before[j - 2] + 1);
    }
    int *free_row = before;
    before = above, above = now, now = free_row;
  }
  return above[n];
}

/* How far `candidate` is; a name that only goes on, or lacks an ending, counts as near. */
static int difference(const char *name, const char *candidate) {
  size_t a = strlen(name), b = strlen(candidate);
  if (a == 0 || a > LONGEST || b == 0 || b > LONGEST) return LONGEST;
  bool prefix = (a > 2 && strncmp(name, candidate, a) == 0) || (b > 2 && strncmp(name, candidate, b) == 0);
  int d = distance(name, candidate);
  return prefix ? least(d, 2) : d;
}

void oct_text_hint(oct_strbuf *out, const char *name, oct_candidate_fn next, const void *user) {
  const char *best[SUGGESTIONS] = {NULL}, *candidate;
  int far[SUGGESTIONS] = {0}, count = 0, limit = strlen(name) < 4 ? 1 : strlen(name) < 9 ? 2 : 3;
  for (size_t i = 0; i < MOST && (candidate = next(user, i)); i++) {
    int d = difference(name, candidate), at = count;
    if (d > limit) continue;
    while (at > 0 && far[at - 1] > d) at--;
    if (at >= SUGGESTIONS) continue;
    if (count < SUGGESTIONS) count++;
    for (int k = count - 1; k > at; k--) best[k] = best[k - 1], far[k] = far[k - 1];
    best[at] = candidate;
    far[at] = d;
  }
  for (int i = 0; i < count; i++)
    oct_strbuf_printf(out, "%s\"%.80s\"", i == 0 ? "; did you mean " : i + 1 < count ? ", " : " or ", best[i]);
  if (count) oct_strbuf_puts(out, "?");
}
