/* Measuring peaks: the best of some short runs of each loop, on all threads at once.
 * SPDX-License-Identifier: MIT */
#include "exec/peaks.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/threads.h"
#include "kernels/peak.h"

#define REPEATS 8
#define SHORT_SECONDS 2e-3                 /* one timed run of an arithmetic loop */
#define READ_AT_LEAST ((size_t)8 << 20)    /* bytes per timed run of a reading loop */
#define LARGEST_SAMPLE ((size_t)256 << 20) /* of memory, by all threads together */

/* One loop on every thread; what the loops return is kept so that no compiler leaves them out. */
typedef struct peak_loop {
  const oct_peak_kernel *kernel;
  enum { DOT, FMA, READ } what;
  size_t rounds;
  const void *operands;
  const uint8_t *data; /* of the reading loop; bytes for each thread, one after the other */
  size_t bytes;
  volatile double *results; /* by worker */
} peak_loop;

static void run_loop(void *user, size_t begin, size_t end, size_t worker) {
  const peak_loop *l = user;
  for (size_t i = begin; i < end; i++) {
    if (l->what == DOT) l->results[worker] = l->kernel->dot_i8(l->rounds, l->operands);
    if (l->what == FMA) l->results[worker] = (double)l->kernel->fma_f32(l->rounds, l->operands);
    for (size_t r = 0; r < l->rounds && l->what == READ; r++)
      l->results[worker] = (double)l->kernel->read(l->data + i * l->bytes, l->bytes);
  }
}

static double seconds_of(octet_context *ctx, peak_loop *loop) {
  double start = oct_seconds_now();
  oct_parallel(ctx, (size_t)ctx->threads, 1, run_loop, loop);
  return oct_seconds_now() - start;
}

static double best_of(octet_context *ctx, peak_loop *loop) {
  double best = HUGE_VAL;
  for (int i = 0; i < REPEATS; i++) best = fmin(best, seconds_of(ctx, loop));
  return best;
}

/* Multiply-adds per second, 1e9, of all threads; the fastest of the allowed rows. */
static double arithmetic_peak(octet_context *ctx, peak_loop loop) {
  double peak = 0;
  for (const oct_peak_kernel *const *k = oct_peak_kernels; *k; k++) {
    loop.kernel = *k;
    bool there = loop.what == DOT ? (*k)->dot_i8 != NULL : (*k)->fma_f32 != NULL;
    if (!there || ((*k)->isa != OCT_ISA_SCALAR && !oct_isa_allowed(ctx->isa_mask, (*k)->isa))) continue;
    loop.rounds = 1000;
    double once = fmax(best_of(ctx, &loop), 1e-7);
    if (once < SHORT_SECONDS) loop.rounds = (size_t)((double)loop.rounds * SHORT_SECONDS / once);
    double macs = (double)loop.rounds * (double)(loop.what == DOT ? (*k)->dot_macs : (*k)->fma_macs) * ctx->threads;
    peak = fmax(peak, 1e-9 * macs / best_of(ctx, &loop));
  }
  return peak;
}

static const oct_peak_kernel *widest_reader(uint32_t isa_mask) {
  const oct_peak_kernel *best = NULL;
  for (const oct_peak_kernel *const *k = oct_peak_kernels; *k; k++) {
    bool allowed = (*k)->read && ((*k)->isa == OCT_ISA_SCALAR || oct_isa_allowed(isa_mask, (*k)->isa));
    if (allowed && (!best || (*k)->isa > best->isa)) best = *k;
  }
  return best;
}

/* 1e9 bytes per second that all threads read, each from `bytes` of its own. */
static double read_peak(octet_context *ctx, peak_loop loop, size_t bytes) {
  loop.what = READ;
  loop.kernel = widest_reader(ctx->isa_mask);
  loop.bytes = bytes / OCT_PEAK_READ_BLOCK * OCT_PEAK_READ_BLOCK;
  if (!loop.kernel || !loop.bytes) return 0;
  loop.rounds = loop.bytes < READ_AT_LEAST ? READ_AT_LEAST / loop.bytes : 1;
  return 1e-9 * (double)loop.bytes * (double)loop.rounds * ctx->threads / best_of(ctx, &loop);
}

static size_t cache_size(int level) {
  long bytes = 0;
#ifdef _SC_LEVEL1_DCACHE_SIZE
  bytes = sysconf(level == 0 ? _SC_LEVEL1_DCACHE_SIZE : level == 1 ? _SC_LEVEL2_CACHE_SIZE : _SC_LEVEL3_CACHE_SIZE);
#else
  (void)level;
#endif
  return bytes > 0 ? (size_t)bytes : 0;
}

/* What each thread reads to see one level: half of a cache of its own; of a shared one well more than the level before; of memory, as much as is
 * reasonable: more than twice the last level, where that is not huge. */
static void sample_sizes(const octet_context *ctx, octet_peaks *p, size_t sizes[4]) {
  static const size_t usual[3] = {(size_t)32 << 10, (size_t)512 << 10, (size_t)8 << 20};
  for (int i = 0; i < 3; i++) p->cache_bytes[i] = cache_size(i);
  size_t first = p->cache_bytes[0] ? p->cache_bytes[0] : usual[0], second = p->cache_bytes[1] ? p->cache_bytes[1] : usual[1];
  size_t third = p->cache_bytes[2] ? p->cache_bytes[2] : usual[2], threads = (size_t)ctx->threads;
  sizes[0] = first / 2;
  sizes[1] = second / 2;
  sizes[2] = third / 2 / threads;
  if (sizes[2] > 8 * second) sizes[2] = 8 * second;
  sizes[3] = third < LARGEST_SAMPLE / 2 ? 2 * third : LARGEST_SAMPLE;
  if (sizes[3] < LARGEST_SAMPLE / 4) sizes[3] = LARGEST_SAMPLE / 4;
  sizes[3] /= threads;
}

octet_status oct_peaks_measure(octet_context *ctx, octet_peaks *out) {
  size_t sizes[4];
  *out = (octet_peaks){0};
  sample_sizes(ctx, out, sizes);
  size_t bytes = 0;
  for (int i = 0; i < 4; i++) bytes = sizes[i] * (size_t)ctx->threads > bytes ? sizes[i] * (size_t)ctx->threads : bytes;
  uint8_t *data = oct_alloc_raw(ctx, bytes);
  double *results = oct_alloc(ctx, (size_t)ctx->threads, sizeof *results);
  if (!data || !results) {
    oct_free(data);
    oct_free(results);
    return OCTET_OUT_OF_MEMORY;
  }
  memset(data, 1, bytes);
  float operands[OCT_PEAK_OPERAND_BYTES / sizeof(float)];
  for (size_t i = 0; i < sizeof operands / sizeof *operands; i++) operands[i] = 0.5f;
  peak_loop loop = {.operands = operands, .data = data, .results = results};
  loop.what = DOT;
  out->int8_gmacs = arithmetic_peak(ctx, loop);
  loop.what = FMA;
  out->float_gmacs = arithmetic_peak(ctx, loop);
  for (int i = 0; i < 4; i++) out->read_gbs[i] = read_peak(ctx, loop, sizes[i]);
  oct_free(data);
  oct_free(results);
  return OCTET_OK;
}
