// Copies rows that are not contiguous to memory where they are.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace rtopk::cuda {

/// Strides in elements.
struct GatherArguments {
  const void* input = nullptr;  ///< Where the group of the first row begins.
  void* output = nullptr;       ///< Contiguous rows.
  std::int64_t rows = 0;        ///< At most kMaxChunkRows.
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;
  std::int64_t element_stride = 0;
  std::int64_t group_rows = 0;
  std::int64_t group_stride = 0;
  std::int64_t first = 0;  ///< Position of the first row in its group.
};

/// Enqueues the copy. Elements have 2, 4 or 8 bytes.
cudaError_t launch_gather(const GatherArguments& args, std::size_t element_bytes, cudaStream_t stream);

}  // namespace rtopk::cuda
