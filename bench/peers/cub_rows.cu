// CUB's top-k of rows of RTOPK_PEER_ELEMENT, or its sort of rows where CUB has no such top-k.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#if __has_include(<cub/device/device_batched_topk.cuh>) && !defined(RTOPK_PEER_SORT)
#define RTOPK_PEER_TOPK
#include <cub/device/device_batched_topk.cuh>

#include <cuda/argument>
#include <cuda/iterator>
#include <cuda/std/execution>
#include <cuda/stream>
#else
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_segmented_sort.cuh>
#endif

#include <cub/version.cuh>

namespace {

using Element = RTOPK_PEER_ELEMENT;

struct Rows {
  void* temporary;
  std::size_t* temporary_bytes;
  const Element* matrix;
  Element* values;
  const int* columns;
  int* indices;
  std::int64_t rows, cols, k;
  cudaStream_t stream;
};

#ifdef RTOPK_PEER_TOPK
constexpr std::int64_t kMaxCols = 1 << 18;

// CUB picks its kernel by the longest row that the type of the row length allows.
template <std::int64_t kBound>
cudaError_t select_up_to(const Rows& in) {
  const auto every = [](auto* first, std::int64_t stride) {
    return cuda::make_strided_iterator(cuda::make_counting_iterator(first), stride);
  };
  const auto environment = cuda::std::execution::env{
      cuda::stream_ref{in.stream},
      cuda::execution::require(cuda::execution::determinism::not_guaranteed, cuda::execution::tie_break::unspecified,
                               cuda::execution::output_ordering::unsorted)};
  const auto bounds = cuda::args::bounds<std::int64_t{1}, kBound>();
  return cub::DeviceBatchedTopK::MaxPairs(
      in.temporary, *in.temporary_bytes, every(in.matrix, in.cols), every(in.values, in.k),
      cuda::make_constant_iterator(cuda::make_counting_iterator(0)), every(in.indices, in.k),
      cuda::args::immediate{in.cols, bounds}, cuda::args::immediate{in.k, bounds}, cuda::args::immediate{in.rows},
      environment);
}

cudaError_t select(const Rows& in) {
  if (in.cols <= 256) return select_up_to<256>(in);
  if (in.cols <= 1024) return select_up_to<1024>(in);
  if (in.cols <= 8192) return select_up_to<8192>(in);
  return select_up_to<kMaxCols>(in);
}
#else
constexpr std::int64_t kMaxCols = INT32_MAX;

struct RowBegin {
  std::int64_t cols;
  __host__ __device__ std::int64_t operator()(std::int64_t row) const { return row * cols; }
};

cudaError_t select(const Rows& in) {
  const auto begins =
      thrust::make_transform_iterator(thrust::make_counting_iterator(std::int64_t{0}), RowBegin{in.cols});
  return cub::DeviceSegmentedSort::SortPairsDescending(in.temporary, *in.temporary_bytes, in.matrix, in.values,
                                                       in.columns, in.indices, in.rows * in.cols, in.rows, begins,
                                                       begins + 1, in.stream);
}
#endif

}  // namespace

// Without temporary memory it only says how many bytes of it are needed. A sort fills whole rows of values and indices.
extern "C" int rtopk_peer_cub(void* temporary, std::size_t* temporary_bytes, const Element* matrix, Element* values,
                              const int* columns, int* indices, std::int64_t rows, std::int64_t cols, std::int64_t k,
                              cudaStream_t stream) {
  return select({temporary, temporary_bytes, matrix, values, columns, indices, rows, cols, k, stream});
}

extern "C" std::int64_t rtopk_peer_cub_max_cols() { return kMaxCols; }

extern "C" int rtopk_peer_cub_version() { return CUB_VERSION; }

extern "C" int rtopk_peer_cub_sorts() {
#ifdef RTOPK_PEER_TOPK
  return 0;
#else
  return 1;
#endif
}
