// RTOPK_HD marks functions that compile for host and device.
#pragma once

#if defined(__CUDACC__)
#define RTOPK_HD __host__ __device__
#else
#define RTOPK_HD
#endif
