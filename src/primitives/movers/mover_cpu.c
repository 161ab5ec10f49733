#include "primitives/movers/mover_cpu.h"

#include <string.h>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>

/* clang 14's builtin does not support F16C. "avx2" includes the check that the system saves wide
 * registers. */
static int processor_has_f16c(void) {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) != 0;
}

static int processor_has_avx2(void) {
  return __builtin_cpu_supports("avx2") && processor_has_f16c();
}

static int processor_has_avx512(void) {
  return processor_has_avx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
}
#else
static int processor_has_avx2(void) { return 0; }
static int processor_has_avx512(void) { return 0; }
#endif

static const df_mover_cpu *avx512(void) {
  return df_mover_cpu_avx512 != NULL && processor_has_avx512() ? df_mover_cpu_avx512 : NULL;
}

static const df_mover_cpu *avx2(void) {
  return df_mover_cpu_avx2 != NULL && processor_has_avx2() ? df_mover_cpu_avx2 : NULL;
}

static const df_mover_cpu *neon(void) {
#if defined(__aarch64__)
  if (getauxval(AT_HWCAP) & HWCAP_ASIMD) return df_mover_cpu_neon;
#endif
  return NULL;
}

const df_mover_cpu *df_mover_cpu_best(void) {
  const df_mover_cpu *mover = avx512();
  if (mover == NULL) mover = avx2();
  if (mover == NULL) mover = neon();
  return mover != NULL ? mover : df_mover_cpu_plain;
}

const df_mover_cpu *df_mover_cpu_by_name(const char *name) {
  if (strcmp(name, "plain") == 0) return df_mover_cpu_plain;
  if (strcmp(name, "avx2") == 0) return avx2();
  if (strcmp(name, "avx512") == 0) return avx512();
  if (strcmp(name, "neon") == 0) return neon();
  return NULL;
}
