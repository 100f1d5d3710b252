// A copy of neighbouring vectors of 16 bytes from global to shared memory, for a whole block or a warp: one instruction
// of one thread on sm_90 (cp.async.bulk), a loop of all threads before.
#pragma once

#include <cstdint>

#include "cuda/runtime/async_copy.cuh"

namespace rtopk::cuda {

class BulkCopy {
 public:
  /// True if the first thread of a block can start a copy alone.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  static constexpr bool kByOneThread = true;
#else
  static constexpr bool kByOneThread = false;
#endif

  /// `barrier`: in shared memory; for one copy.
  __device__ explicit BulkCopy(std::uint64_t* barrier)
      : barrier_(static_cast<std::uint32_t>(__cvta_generic_to_shared(barrier))) {}

  /// All threads call this, or at least the first one if kByOneThread. At most 2^16 - 1 vectors.
  template <bool kSparesCache>
  __device__ void start(void* shared, const void* global, int vectors) const {
    const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x != 0) return;
    const int bytes = vectors * 16;
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier_) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier_), "r"(bytes) : "memory");
    if (bytes == 0) return;
    if constexpr (kSparesCache) {
      std::uint64_t policy;
      asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], "
          "%4;" ::"r"(to),
          "l"(global), "r"(bytes), "r"(barrier_), "l"(policy)
          : "memory");
    } else {
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                   "l"(global), "r"(bytes), "r"(barrier_)
                   : "memory");
    }
#else
    const char* from = static_cast<const char*>(global);
    for (int i = static_cast<int>(threadIdx.x); i < vectors; i += static_cast<int>(blockDim.x)) {
      copy_async_once<kSparesCache>(to + static_cast<std::uint32_t>(i) * 16, from + std::int64_t{i} * 16);
    }
    commit_copies();
#endif
  }

  /// Waits for the copy. All threads call this, after a barrier of the block that follows `start`.
  __device__ void wait() const {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{ .reg .pred done; again%=: mbarrier.try_wait.parity.shared.b64 done, [%0], 0; @!done bra again%=; }" ::"r"(
            barrier_)
        : "memory");
#else
    wait_for_copies<0>();
    __syncthreads();
#endif
  }

 private:
  std::uint32_t barrier_;
};

/// Copies of a warp, one after another. What they copy was written once, and is read once.
class WarpBulkCopy {
 public:
  /// `barrier`: in shared memory, the warp's own.
  __device__ WarpBulkCopy(std::uint64_t* barrier, int lane)
      : barrier_(static_cast<std::uint32_t>(__cvta_generic_to_shared(barrier))), lane_(lane) {
#if __CUDA_ARCH__ >= 900
    if (lane == 0) {
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier_) : "memory");
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncwarp();
#endif
  }

  /// All lanes call this, when none reads `shared` any more.
  __device__ void start(void* shared, const void* global, int bytes) const {
    const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
#if __CUDA_ARCH__ >= 900
    if (lane_ != 0) return;
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier_), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(global), "r"(bytes), "r"(barrier_)
                 : "memory");
#else
    for (int at = 16 * lane_; at < bytes; at += 16 * 32) {
      copy_async_once<false>(to + at, static_cast<const char*>(global) + at);
    }
    commit_copies();
#endif
  }

  /// Waits for the copy that was started last. All lanes call this.
  __device__ void wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{ .reg .pred done; again%=: mbarrier.try_wait.parity.shared.b64 done, [%0], %1; @!done bra again%=; }" ::"r"(
            barrier_),
        "r"(phase_)
        : "memory");
    phase_ ^= 1u;
#else
    wait_for_copies<0>();
#endif
    __syncwarp();
  }

 private:
  std::uint32_t barrier_;
  int lane_;
  std::uint32_t phase_ = 0;
};

/// Copies that are started after this write behind what threads have written.
__device__ inline void order_copies_after_writes() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

}  // namespace rtopk::cuda
