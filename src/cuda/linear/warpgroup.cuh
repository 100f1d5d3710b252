// Hopper's matrix instructions: a warpgroup of four warps multiplies 64 rows of bf16 in its registers by 128 columns in
// shared memory. For sm_90a.
#pragma once

#include <cstdint>

namespace rtopk::cuda {

/// A thread's share of the 64 x 128 sums: in two rows, eight apart, pairs of neighbours, eight columns apart.
using WarpgroupSums = float[64];

/// The descriptor of matrices of eight by eight bf16 in shared memory: their address, and the distances in bytes from
/// one to the next along the depth and along the columns.
[[nodiscard]] __device__ inline std::uint64_t describe(unsigned address, std::uint64_t deep, std::uint64_t wide) {
  return (address >> 4 & 0x3fff) | deep / 16 << 16 | wide / 16 << 32;
}

/// Makes writes to shared memory visible to the matrix instructions after the next barrier.
__device__ inline void show_to_matrix_units() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

/// Ends a sequence of products and waits for it. The instructions still read the registers of their factors, but the
/// compiler believes them free: no other code may come between the products and this.
__device__ inline void finish_products(WarpgroupSums& sums) {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");
}

#define RTOPK_EIGHT_SUMS(i)                                                                                     \
  "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3]), "+f"(sums[i + 4]), "+f"(sums[i + 5]), \
      "+f"(sums[i + 6]), "+f"(sums[i + 7])

/// sums = a b, or sums += a b, for a depth of 16. kAcross: in shared memory neighbours are columns, not of the depth.
template <bool kAcross, bool kAdds>
__device__ inline void multiply(WarpgroupSums& sums, const unsigned (&a)[4], std::uint64_t b) {
  asm volatile(
      "{\n"
      ".reg .pred adds;\n"
      "setp.ne.b32 adds, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, adds, 1, 1, %70;\n"
      "}\n"
      : RTOPK_EIGHT_SUMS(0), RTOPK_EIGHT_SUMS(8), RTOPK_EIGHT_SUMS(16), RTOPK_EIGHT_SUMS(24), RTOPK_EIGHT_SUMS(32),
        RTOPK_EIGHT_SUMS(40), RTOPK_EIGHT_SUMS(48), RTOPK_EIGHT_SUMS(56)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kAdds ? 1 : 0), "n"(kAcross ? 1 : 0));
}

#undef RTOPK_EIGHT_SUMS

}  // namespace rtopk::cuda
