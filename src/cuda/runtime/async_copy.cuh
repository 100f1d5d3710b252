// Asynchronous copies from global to shared memory (cp.async, sm_80 and later).
#pragma once

#include <cstdint>

namespace rtopk::cuda {

template <int kBytes>
__device__ void copy_async(void* shared, const void* global) {
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(kBytes) : "memory");
  }
}

/// Copies 16 bytes of a row that is read once, from end to end.
///
/// kSparesCache: L2 evicts these bytes first, before data that was there already. Without it, reading a matrix about
/// as large as the cache waits for the cache to write back older data. For much larger ones it does not pay.
template <bool kSparesCache>
__device__ void copy_async_once(std::uint32_t shared, const void* global) {
  if constexpr (kSparesCache) {
#if __CUDA_ARCH__ == 900
    // The value that createpolicy below gives. As a constant it needs no register.
    constexpr std::uint64_t policy = 0x12f0000000000000;
#else
    std::uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "l"(policy)
                 : "memory");
  } else {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
  }
}

/// Closes the group of the copies that this thread has started since the last group.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most the last `kPending` groups are still in flight.
template <int kPending>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace rtopk::cuda
