// Marks functions that host and device share.
#pragma once

#if defined(__CUDACC__)
#define RTOPK_HD __host__ __device__
#else
#define RTOPK_HD
#endif
