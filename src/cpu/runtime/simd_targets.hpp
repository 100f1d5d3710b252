// Chooses the instruction sets that Highway compiles. Include it before any Highway header.
#pragma once

// Targets that exist since Highway 1.2: later generations of AVX-512, and NEON without AES or with bf16. The kernels
// use neither AES nor bf16.
#if defined(RTOPK_HIGHWAY_1_2)
#define RTOPK_LATER_TARGETS (HWY_AVX3_ZEN4 | HWY_AVX3_SPR | HWY_NEON | HWY_NEON_BF16)
#else
#define RTOPK_LATER_TARGETS 0
#endif

// Builds that only look for faults leave some out: a target takes minutes under a sanitizer or clang-tidy.
// AddressSanitizer keeps the widest vectors, which reach furthest; for threads and style one target is enough.
#if defined(RTOPK_NO_AVX2)
#define RTOPK_UNWANTED_AVX2 HWY_AVX2
#else
#define RTOPK_UNWANTED_AVX2 0
#endif
#if defined(RTOPK_NO_AVX512)
#define RTOPK_UNWANTED_AVX512 HWY_AVX3
#else
#define RTOPK_UNWANTED_AVX512 0
#endif

// The size of scalable vectors (SVE, RVV) is unknown at compile time, but the kernels need it; NEON runs on those CPUs.
// SSSE3 without SSE4, and AVX-512 beyond its first generation, are not worth their build time.
#define HWY_DISABLED_TARGETS                                                                                   \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | HWY_AVX3_DL | RTOPK_LATER_TARGETS | \
   RTOPK_UNWANTED_AVX2 | RTOPK_UNWANTED_AVX512)

// The minimum for x86-64. Highway's fallback below it lacks operations with GCC before 12.3. Every CPU since 2011 has
// SSE4.2; has_simd() checks it.
#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif
