// Barriers and shared memory of a cluster, whose blocks run at the same time and read each other's shared memory.
// Before sm_90 a cluster is one block.
#pragma once

#include <cstdint>

namespace rtopk::cuda {

/// Writes of any thread of the cluster before it arrives are visible to every thread after it has waited.
__device__ inline void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}

/// Arrives for the last time: this thread reads no other block's memory any more, and wrote nothing for other blocks.
/// It must still wait before it ends, because others may read this block's memory.
__device__ inline void cluster_leave() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
}

__device__ inline void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#else
  __syncthreads();
#endif
}

__device__ inline void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

/// The number of this block in its cluster. Read from the hardware every time, so that it takes no register meanwhile.
__device__ inline int block_in_cluster() {
  int block = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(block));
#endif
  return block;
}

/// The address in another block's shared memory that corresponds to `mine`.
template <class X>
__device__ const X* of_block(const X* mine, int block) {
#if __CUDA_ARCH__ >= 900
  std::uint64_t theirs;
  asm("mapa.u64 %0, %1, %2;" : "=l"(theirs) : "l"(mine), "r"(block));
  return reinterpret_cast<const X*>(theirs);
#else
  return mine;
#endif
}

}  // namespace rtopk::cuda
