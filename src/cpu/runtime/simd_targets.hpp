// Which of Highway's instruction sets are compiled. To be included before any of its headers.
#pragma once

// What Highway 1.2 knows and older releases do not name: further generations of AVX-512, and NEON apart from NEON with AES and
// NEON with bf16, of which the kernels use neither.
#if defined(RTOPK_HIGHWAY_1_2)
#define RTOPK_LATER_TARGETS (HWY_AVX3_ZEN4 | HWY_AVX3_SPR | HWY_NEON | HWY_NEON_BF16)
#else
#define RTOPK_LATER_TARGETS 0
#endif

// Scalable vectors (SVE, RVV) have no size at compile time, which the kernels need; NEON runs on those CPUs. SSSE3 without
// SSE4, and what AVX-512 has beyond its first generation, do not pay for their share of the build.
#define HWY_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | HWY_AVX3_DL | RTOPK_LATER_TARGETS)

// The least that x86-64 kernels are compiled for. Highway's own fallback below it has too few operations with GCC before 12.3, and
// every CPU since 2011 has SSE4.2; has_simd() says whether this one does.
#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif
