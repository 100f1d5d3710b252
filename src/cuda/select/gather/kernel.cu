// Gathers strided rows. A block moves a tile of rows and columns through shared memory, so that neighbouring lanes both
// read and write neighbouring elements:
//
//   input:  c0 r0 r1 r2 ...        tile[column][row]        output:  r0 c0 c1 c2 ...
//           c1 r0 r1 r2 ...                                          r1 c0 c1 c2 ...
#include <algorithm>

#include "cuda/select/gather/launch.hpp"

namespace rtopk::cuda {
namespace {

constexpr int kThreads = 256;

/// Two-byte elements have larger tiles, so that a warp still reads and writes whole sectors of 32 bytes wherever a row
/// begins.
template <class Word>
constexpr int kTile = sizeof(Word) == 2 ? 64 : 32;

/// Avoids bank conflicts of lanes that read a column of a tile: rows are an odd number of 4-byte words long, or of
/// 8-byte words, which half a warp reads at a time.
template <class Word>
constexpr int kPitch = kTile<Word> + (sizeof(Word) == 2 ? 2 : 1);

/// The offset of a row from the group of the first row, without a 64-bit division: fewer than 2^31 rows follow the
/// first group, and if groups are longer than that, they all lie in one more group.
__device__ std::int64_t start_of(const GatherArguments& args, std::int64_t row) {
  std::int64_t in_group = args.first + row;
  std::int64_t group = 0;
  if (in_group >= args.group_rows) {
    const auto rest = static_cast<std::uint32_t>(in_group - args.group_rows);
    const auto group_rows = static_cast<std::uint32_t>(min(args.group_rows, std::int64_t{0xffffffff}));
    group = 1 + rest / group_rows;
    in_group = rest % group_rows;
  }
  return group * args.group_stride + in_group * args.row_stride;
}

template <class Word>
__global__ void __launch_bounds__(kThreads) gather_kernel(const GatherArguments args) {
  constexpr int kSize = kTile<Word>;
  constexpr int kStep = kThreads / kSize;
  __shared__ Word tile[kSize][kPitch<Word>];
  const auto* const input = static_cast<const Word*>(args.input);
  auto* const output = static_cast<Word*>(args.output);
  const bool rows_are_nearer = args.row_stride < args.element_stride;
  const int lane = static_cast<int>(threadIdx.x) % kSize;
  const int first = static_cast<int>(threadIdx.x) / kSize;
  const std::int64_t row_tiles = (args.rows + kSize - 1) / kSize;
  const std::int64_t tiles = row_tiles * ((args.cols + kSize - 1) / kSize);
  for (std::int64_t number = blockIdx.x; number < tiles; number += gridDim.x) {
    const std::int64_t row = number % row_tiles * kSize;
    const std::int64_t column = number / row_tiles * kSize;
    const auto rows = static_cast<int>(min(args.rows - row, std::int64_t{kSize}));
    const auto columns = static_cast<int>(min(args.cols - column, std::int64_t{kSize}));
    // Streaming loads: the gathered chunk should stay in the cache, not the input.
    if (rows_are_nearer) {
      if (lane < rows) {
        const Word* const from = input + start_of(args, row + lane) + column * args.element_stride;
#pragma unroll
        for (int i = 0; i < kSize; i += kStep) {
          if (first + i < columns) tile[first + i][lane] = __ldcs(from + (first + i) * args.element_stride);
        }
      }
    } else if (lane < columns) {
      const Word* const from = input + (column + lane) * args.element_stride;
#pragma unroll
      for (int i = 0; i < kSize; i += kStep) {
        if (first + i < rows) tile[lane][first + i] = __ldcs(from + start_of(args, row + first + i));
      }
    }
    __syncthreads();
    if (lane < columns) {
      Word* const to = output + row * args.cols + column + lane;
#pragma unroll
      for (int i = 0; i < kSize; i += kStep) {
        if (first + i < rows) to[(first + i) * args.cols] = tile[lane][first + i];
      }
    }
    __syncthreads();
  }
}

template <class Word>
cudaError_t launch(const GatherArguments& args, cudaStream_t stream) {
  constexpr std::int64_t kMaxBlocks = 0x7fffffff;
  const auto tiles_of = [](std::int64_t count) { return (count - 1) / kTile<Word> + 1; };
  const std::int64_t row_tiles = tiles_of(args.rows);
  const std::int64_t column_tiles = tiles_of(args.cols);
  const std::int64_t blocks = column_tiles > kMaxBlocks / row_tiles ? kMaxBlocks : row_tiles * column_tiles;
  GatherArguments copy = args;
  void* arguments[] = {&copy};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&gather_kernel<Word>), dim3(static_cast<unsigned>(blocks)),
                          dim3(kThreads), arguments, 0, stream);
}

}  // namespace

cudaError_t launch_gather(const GatherArguments& args, std::size_t element_bytes, cudaStream_t stream) {
  switch (element_bytes) {
    case 2: return launch<unsigned short>(args, stream);
    case 4: return launch<unsigned int>(args, stream);
    default: return launch<unsigned long long>(args, stream);
  }
}

}  // namespace rtopk::cuda
