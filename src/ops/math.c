/* Elementary functions in double from additions, multiplications and divisions only, so that the same bits come out on every machine.
 * Not for hot float loops: those have their own polynomials in ops/math_f32.h.
 * SPDX-License-Identifier: MIT */
#include "ops/math.h"

#include <math.h>
#include <stdbool.h>

#define LN2_HIGH 0x1.62e42fefa3800p-1 /* 42 bits: k * LN2_HIGH is exact for the exponents of a double */
#define LN2_LOW 0x1.ef35793c76730p-45 /* ln 2 - LN2_HIGH */
#define INVERSE_LN2 0x1.71547652b82fep+0
#define TWO_OVER_SQRT_PI 0x1.20dd750429b6dp+0
#define SQRT_HALF 0x1.6a09e667f3bcdp-1

/* A value as an unevaluated sum high + low, |low| <= ulp(high) / 2. */
typedef struct pair {
  double high, low;
} pair;

static pair two_sum(double a, double b) {
  double s = a + b, t = s - a;
  return (pair){s, (a - (s - t)) + (b - t)};
}

/* Dekker's product; arguments stay far from overflow here. */
static pair two_product(double a, double b) {
  const double split = 134217729.0; /* 2^27 + 1 */
  double p = a * b, t = split * a, ah = t - (t - a), al = a - ah;
  t = split * b;
  double bh = t - (t - b), bl = b - bh;
  return (pair){p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}

static pair pair_add(pair a, pair b) {
  pair s = two_sum(a.high, b.high);
  return two_sum(s.high, s.low + (a.low + b.low));
}

static pair pair_multiply(pair a, pair b) {
  pair p = two_product(a.high, b.high);
  return two_sum(p.high, p.low + (a.high * b.low + a.low * b.high));
}

/* expm1(r) for |r| <= ln(2) / 2: r + r^2 (1/2 + r/6 + ...). */
static double expm1_core(double r) {
  static const double c[] = {1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,        1.0 / 5040,       1.0 / 40320,
                             1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800, 1.0 / 87178291200};
  double sum = 0;
  for (int i = (int)(sizeof c / sizeof c[0]) - 1; i >= 0; i--) sum = sum * r + c[i];
  return r + r * r * sum;
}

/* x = k ln 2 + r. */
static double reduce(double x, int *k) {
  double n = rint(x * INVERSE_LN2);
  *k = (int)n;
  return (x - n * LN2_HIGH) - n * LN2_LOW;
}

/* exp(x) (1 + low), for a tiny `low`. */
static double exp_with_tail(double x, double low) {
  if (x != x) return x;
  if (x > 709.79) return INFINITY;
  if (x < -745.2) return 0;
  int k;
  double p = expm1_core(reduce(x, &k));
  return ldexp(1 + (p + low * (1 + p)), k);
}

double oct_exp(double x) { return exp_with_tail(x, 0); }

/* expm1 for x >= 0, relative error of an ulp or two. */
static double expm1_positive(double x) {
  int k;
  double p = expm1_core(reduce(x, &k)), power = ldexp(1, k);
  return k == 0 ? p : power * p + (power - 1);
}

/* x = 2^k m with m in [sqrt(1/2), sqrt(2)). */
static double normalize(double x, int *k) {
  double m = frexp(x, k);
  if (m >= SQRT_HALF) return m;
  --*k;
  return 2 * m;
}

double oct_log(double x) {
  if (x != x || x == INFINITY) return x;
  if (x == 0) return -INFINITY;
  if (x < 0) return NAN;
  int k;
  double f = normalize(x, &k) - 1, s = f / (2 + f), z = s * s, sum = 0;
  for (int n = 25; n >= 3; n -= 2) sum = (sum + 1.0 / n) * z; /* atanh(s) / s - 1 */
  double r = 2 * sum;
  return k * LN2_HIGH + (f - (s * (f - r) - k * LN2_LOW));
}

/* log(x) for finite x > 0 to about 2^-65 of its value. */
static pair log_pair(double x) {
  int k;
  double f = normalize(x, &k) - 1;
  pair u = two_sum(2, f);
  pair s = {f / u.high, 0};
  pair p = two_product(s.high, u.high);
  s = two_sum(s.high, (((f - p.high) - p.low) - s.high * u.low) / u.high);
  pair z = pair_multiply(s, s);
  double tail = 0;
  for (int n = 25; n >= 5; n -= 2) tail = tail * z.high + 1.0 / n; /* 1/5 + z/7 + ... */
  const pair third = {0x1.5555555555555p-2, 0x1.5555555555555p-56};
  pair sum = pair_multiply(z, third);
  sum = pair_add(sum, (pair){z.high * z.high * tail, 0});
  sum = pair_add(pair_multiply(s, sum), s);
  sum = (pair){2 * sum.high, 2 * sum.low};
  return pair_add(two_sum(k * LN2_HIGH, k * LN2_LOW), sum);
}

double oct_tanh(double x) {
  double a = fabs(x);
  if (a != a) return x;
  if (a > 22) return x < 0 ? -1 : 1;
  double t = expm1_positive(2 * a);
  return copysign(a < 1e-300 ? a : t / (t + 2), x);
}

double oct_sigmoid(double x) {
  if (x >= 0) return 1 / (1 + oct_exp(-x));
  double e = oct_exp(x);
  return e / (1 + e);
}

/* exp(-x^2) with the square kept in two parts. */
static double exp_minus_square(double x) {
  pair square = two_product(x, x);
  return exp_with_tail(-square.high, -square.low);
}

/* erf(x) = 2/sqrt(pi) exp(-x^2) x (1 + z/3 (1 + z/5 (1 + z/7 ...))), z = 2 x^2, all terms positive (Abramowitz and Stegun 7.1.6). */
static double erf_series(double x) {
  double z = 2 * x * x, tail = 0;
  for (int n = z < 1 ? 29 : 75; n >= 3; n -= 2) tail = z * (1 + tail) / n;
  double factor = TWO_OVER_SQRT_PI * exp_minus_square(x) * x;
  return factor + factor * tail;
}

/* erfc(x) = exp(-x^2)/sqrt(pi) * 1/(x + (1/2)/(x + 1/(x + (3/2)/(x + ...)))) for x >= 2 (Abramowitz and Stegun 7.1.14). */
static double erfc_fraction(double x) {
  double f = x;
  for (int n = 60; n >= 1; n--) f = x + 0.5 * n / f;
  return 0.5 * TWO_OVER_SQRT_PI * exp_minus_square(x) / f;
}

double oct_erf(double x) {
  double a = fabs(x), y;
  if (a != a) return x;
  if (a < 1e-9) y = TWO_OVER_SQRT_PI * a;
  else if (a < 2) y = erf_series(a);
  else y = a > 6 ? 1 : 1 - erfc_fraction(a);
  return copysign(y, x);
}

/* y is an integer (*odd tells its parity); infinities do not come here. */
static bool is_integer(double y, bool *odd) {
  *odd = false;
  if (y != floor(y)) return false;
  *odd = fabs(y) < 9007199254740992.0 && fmod(y, 2) != 0;
  return true;
}

/* Cases of IEEE 754 in which no logarithm is taken; true when *result is set. */
static bool pow_special(double x, double y, double *result) {
  bool odd = false, integer = isinf(y) || is_integer(y, &odd);
  double a = fabs(x);
  if (y == 0 || x == 1) *result = 1;
  else if (x != x || y != y) *result = NAN;
  else if (isinf(y)) *result = a == 1 ? 1 : (a > 1) == (y > 0) ? INFINITY : 0;
  else if (a == 0 || isinf(a)) *result = copysign((a == 0) == (y > 0) ? 0 : INFINITY, odd ? x : 1);
  else if (x < 0 && !integer) *result = NAN;
  else return false;
  return true;
}

double oct_pow(double x, double y) {
  double result;
  if (pow_special(x, y, &result)) return result;
  bool odd;
  is_integer(y, &odd);
  pair l = log_pair(fabs(x));
  double estimate = y * l.high;
  if (estimate > 710) result = INFINITY;
  else if (estimate < -746) result = 0;
  else if (l.high == 0 || fabs(y) < 1e-280) result = 1;
  else {
    pair e = two_product(y, l.high);
    double low = e.low + y * l.low;
    e = two_sum(e.high, low);
    result = exp_with_tail(e.high, e.low);
  }
  return x < 0 && odd ? -result : result;
}
