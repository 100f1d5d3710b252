// Launches kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

namespace rtopk::cuda {

/// Dimensions, device and stream of a launch.
struct Grid {
  std::int64_t blocks;
  std::int32_t threads;
  std::size_t shared_bytes;
  int device;
  cudaStream_t stream;
  std::int32_t blocks_per_cluster = 1;
  /// Allows blocks to be set up while the previous kernel still runs. For kernels that begin with wait_for_previous(),
  /// after one that calls let_next_begin(). Has no effect on code for GPUs before sm_90.
  bool overlaps_previous = false;
};

/// Enqueues a kernel. A block that needs more than 48 KiB of shared memory must be allowed it first, once on each
/// device; `allowed` remembers on which devices that was done. It also asks for a multiprocessor whose memory is all
/// shared: else the driver may leave so much of it to the L1 cache that fewer blocks fit.
template <class... Arguments>
cudaError_t launch(void (*kernel)(Arguments...), std::atomic<std::uint64_t>& allowed, const Grid& grid,
                   Arguments... arguments) {
  constexpr std::size_t kAlwaysAllowed = std::size_t{47} * 1024;  // and 1 KiB that a kernel may have of its own
  if (grid.shared_bytes > kAlwaysAllowed) {
    const std::uint64_t bit = std::uint64_t{1} << (grid.device % 64);
    if ((allowed.load(std::memory_order_relaxed) & bit) == 0 || grid.device >= 64) {
      int most = 0;
      cudaError_t error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, grid.device);
      if (error != cudaSuccess) return error;
      cudaFuncAttributes code{};
      error = cudaFuncGetAttributes(&code, reinterpret_cast<const void*>(kernel));
      if (error != cudaSuccess) return error;
      // The limit is for both kinds of shared memory, and this kernel may have some of its own.
      error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   most - static_cast<int>(code.sharedSizeBytes));
      if (error != cudaSuccess) return error;
      error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                   cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
      if (error != cudaSuccess) return error;
      allowed.fetch_or(bit, std::memory_order_relaxed);
    }
  }
  void* pointers[] = {&arguments...};
  const auto* function = reinterpret_cast<const void*>(kernel);
  const dim3 blocks(static_cast<unsigned>(grid.blocks));
  const dim3 threads(static_cast<unsigned>(grid.threads));
  cudaLaunchAttribute attributes[2]{};
  unsigned count = 0;
  if (grid.blocks_per_cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {static_cast<unsigned>(grid.blocks_per_cluster), 1, 1};
  }
  int compiled_for = 0;
  if (grid.overlaps_previous) {
    // Code for sm_80, which newer GPUs may run, does not wait: see successive_kernels.cuh.
    cudaFuncAttributes code{};
    const cudaError_t error = cudaFuncGetAttributes(&code, function);
    if (error != cudaSuccess) return error;
    compiled_for = code.ptxVersion;
  }
  if (compiled_for >= 90) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (count == 0) return cudaLaunchKernel(function, blocks, threads, pointers, grid.shared_bytes, grid.stream);
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = grid.stream;
  config.attrs = attributes;
  config.numAttrs = count;
  return cudaLaunchKernelExC(&config, function, pointers);
}

}  // namespace rtopk::cuda
