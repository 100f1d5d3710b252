// Attributes that hosts and devices spell differently. RTOPK_HD marks functions that compile for both.
#pragma once

#if defined(__CUDACC__)
#define RTOPK_HD __host__ __device__
#else
#define RTOPK_HD
#endif

// RTOPK_ROLLED stands before a loop that kernels must not unroll: it would take their registers.
#if defined(__CUDACC__)
#define RTOPK_ROLLED _Pragma("unroll 1")
#else
#define RTOPK_ROLLED
#endif
