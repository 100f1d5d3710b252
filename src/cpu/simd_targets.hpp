// Which of Highway's instruction sets are compiled. To be included before any of its headers.
#pragma once

// Scalable vectors (SVE, RVV) have no size at compile time, which the kernels need; NEON runs on those CPUs. SSSE3 without
// SSE4, and what AVX-512 has beyond its first generation, do not pay for their share of the build.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | HWY_AVX3_DL)
