/* Instruction sets of this machine: from cpuinfo, or straight from CPUID where /proc and /sys are not mounted.
 * SPDX-License-Identifier: MIT */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* syscall() */
#endif
#include "base/cpu.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <cpuinfo.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/syscall.h>
#endif

/* What the masks below are made of. */
typedef struct cpu_features {
  bool avx2, fma, f16c, avx512f, avx512bw, avx512vl, avx512dq, avx512vbmi, avx512vnni, avxvnni, amx;
} cpu_features;

static bool bit(uint32_t word, int index) { return (word >> index) & 1; }

/* XCR0: which register files the operating system saves. */
static uint64_t saved_registers(void) {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

/* CPUID leaves 1 and 7 (Intel SDM volume 2, "CPUID"; XCR0 bits 1-2: YMM, 5-7: ZMM and masks, 17-18: tiles). */
static cpu_features features_from_cpuid(void) {
  cpu_features f = {0};
  uint32_t a, b, c, d, leaf7_b, leaf7_c, subleaves;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !bit(c, 27)) return f; /* OSXSAVE */
  uint64_t saved = saved_registers();
  bool ymm = (saved & 0x06) == 0x06, zmm = (saved & 0xe6) == 0xe6;
  f.fma = ymm && bit(c, 12);
  f.f16c = ymm && bit(c, 29);
  if (!__get_cpuid_count(7, 0, &subleaves, &leaf7_b, &leaf7_c, &d)) return f;
  f.avx2 = ymm && bit(leaf7_b, 5);
  f.avx512f = zmm && bit(leaf7_b, 16);
  f.avx512dq = zmm && bit(leaf7_b, 17);
  f.avx512bw = zmm && bit(leaf7_b, 30);
  f.avx512vl = zmm && bit(leaf7_b, 31);
  f.avx512vbmi = zmm && bit(leaf7_c, 1);
  f.avx512vnni = zmm && bit(leaf7_c, 11);
  f.amx = zmm && (saved & 0x60000) == 0x60000 && bit(d, 24) && bit(d, 25); /* tiles; their 8-bit products */
  if (subleaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) f.avxvnni = ymm && bit(a, 4);
  return f;
}

/* cpuinfo reads these and complains on standard error when they are absent. */
static bool cpuinfo_can_start(void) {
  return access("/proc/cpuinfo", R_OK) == 0 && access("/sys/devices/system/cpu/possible", R_OK) == 0 &&
         access("/sys/devices/system/cpu/present", R_OK) == 0;
}

static cpu_features features(void) {
  cpu_features f = features_from_cpuid();
  if (!cpuinfo_can_start() || !cpuinfo_initialize()) return f;
  f.avx2 = cpuinfo_has_x86_avx2();
  f.fma = cpuinfo_has_x86_fma3();
  f.f16c = cpuinfo_has_x86_f16c();
  f.avx512f = cpuinfo_has_x86_avx512f();
  f.avx512bw = cpuinfo_has_x86_avx512bw();
  f.avx512vl = cpuinfo_has_x86_avx512vl();
  f.avx512dq = cpuinfo_has_x86_avx512dq();
  f.avx512vbmi = cpuinfo_has_x86_avx512vbmi();
  f.avx512vnni = cpuinfo_has_x86_avx512vnni();
  return f; /* AVX-VNNI is younger than this cpuinfo: always from CPUID */
}

/* Linux keeps tiles only for processes that ask for it (Documentation/arch/x86/xstate.rst); to ask again changes nothing. */
static bool tiles_are_allowed(void) {
#if defined(__linux__) && defined(SYS_arch_prctl)
  enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
  return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
  return false;
#endif
}

uint32_t oct_isa_detect(void) {
  cpu_features f = features();
  bool avx2 = f.avx2 && f.fma && f.f16c;
  bool avx512 = avx2 && f.avx512f && f.avx512bw && f.avx512vl && f.avx512dq;
  uint32_t mask = 1u << OCT_ISA_SCALAR;
  if (avx2) mask |= 1u << OCT_ISA_AVX2;
  if (avx2 && (f.avxvnni || (avx512 && f.avx512vnni))) mask |= 1u << OCT_ISA_AVXVNNI;
  if (avx512) mask |= 1u << OCT_ISA_AVX512;
  if (avx512 && f.avx512vbmi) mask |= 1u << OCT_ISA_AVX512VBMI;
  if (avx512 && f.avx512vnni) mask |= 1u << OCT_ISA_AVX512VNNI;
  if (avx512 && f.avx512vnni && f.amx && tiles_are_allowed()) mask |= 1u << OCT_ISA_AMX;
  return mask;
}

/* CPUID leaves 0x80000002 to 0x80000004: 48 characters, padded with blanks. */
static void brand(char text[64]) {
  uint32_t words[12];
  for (unsigned i = 0; i < 3; i++)
    if (!__get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3])) return;
  memcpy(text, words, sizeof words);
}
#else
uint32_t oct_isa_detect(void) { return 1u << OCT_ISA_SCALAR; }
static void brand(char text[64]) { (void)text; }
#endif

const char *oct_cpu_name(char text[64]) {
  memset(text, 0, 64);
  brand(text);
  size_t n = 0;
  for (const char *p = text; *p; p++) { /* single blanks, printable characters */
    bool blank = *p <= ' ' || *p > '~';
    if (!blank || (n && text[n - 1] != ' ')) text[n++] = blank ? ' ' : *p;
  }
  while (n && text[n - 1] == ' ') n--;
  text[n] = 0;
  if (!n) memcpy(text, "unknown processor", sizeof "unknown processor");
  return text;
}

static const char *const isa_names[OCT_ISA_COUNT] = {
#define X(name, text) text,
    OCT_ISA_LIST(X)
#undef X
};

bool oct_isa_cap(const char *name, uint32_t *mask) {
  for (int i = 0; i < OCT_ISA_COUNT; i++)
    if (strcmp(name, isa_names[i]) == 0) {
      *mask = (2u << i) - 1;
      return true;
    }
  return false;
}

const char *oct_isa_name(oct_isa isa) { return (unsigned)isa < OCT_ISA_COUNT ? isa_names[isa] : "unknown"; }
