// A tile of W, some columns of all its rows, and how the lanes of a warp share it. A warp works on several rows of X at
// the same time, with 8 or 16 lanes each: one instruction loads a selector for every row, and sums over columns need
// few shuffles.
//
// The limit of these kernels is the bandwidth of shared memory, 128 bytes a cycle: eight lanes read that much of a row
// of W at once.
#pragma once

#include <cstdint>

#include "cuda/product/arguments.hpp"
#include "cuda/product/quads.cuh"
#include "plan/tuning_product.hpp"

namespace rtopk::cuda {

/// The columns of a tile that a lane has: every kLanes-th quad.
template <int kLanes>
struct LaneColumns {
  int lane = static_cast<int>(threadIdx.x) % kLanes;  ///< Among the lanes of a row.

  [[nodiscard]] __device__ int column(int quad) const { return 4 * (kLanes * quad + lane); }
};

/// The number of columns that exist in the tile that begins at `first`.
template <int kTile>
__device__ int columns_of(const ProductArguments& args, std::int64_t first) {
  return static_cast<int>(min(args.width - first, static_cast<std::int64_t>(kTile)));
}

/// Loads the block's tile: columns from `first` on, and a row of zeros after the last for selectors that are out of
/// range.
template <int kTile>
__device__ void load_tile(float* tile, const ProductArguments& args, std::int64_t first) {
  constexpr int kQuadsOfRow = kTile / 4;
  const int width = columns_of<kTile>(args, first);
  const int quads = (args.cols + 1) * kQuadsOfRow;
  for (int i = static_cast<int>(threadIdx.x); i < quads; i += static_cast<int>(blockDim.x)) {
    const int row = i / kQuadsOfRow;
    const int col = 4 * (i % kQuadsOfRow);
    float4* const to = reinterpret_cast<float4*>(tile) + i;
    const float* const from = args.matrix + row * args.width + first;
    if (row < args.cols && args.matrix_quads && col < width) {
      copy_async<16>(to, from + col);
    } else {
      *to = row < args.cols ? load_quad(from, col, width, false) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
  }
  commit_copies();
  wait_for_copies<0>();
  __syncthreads();
}

/// The rows of W that selectors name: from the tile, or from global memory if no tile fits.
template <int kTile, bool kStaged>
struct MatrixRows {
  const char* tile;
  const ProductArguments& args;
  std::int64_t first;  ///< The first column of the tile.
  int width;           ///< Columns of the tile that exist.

  static constexpr std::int32_t kRowBytes = kTile * static_cast<std::int32_t>(sizeof(float));

  /// The position of a row; `nowhere()` for a selector out of range.
  [[nodiscard]] __device__ std::int32_t place_of(std::int32_t selector) const {
    if constexpr (kStaged) return min(selector, args.cols) * kRowBytes;
    return min(selector, args.cols);
  }
  [[nodiscard]] __device__ std::int32_t nowhere() const { return place_of(args.cols); }

  [[nodiscard]] __device__ float4 quad(std::int32_t place, int column) const {
    if constexpr (kStaged) return *reinterpret_cast<const float4*>(tile + place + column * sizeof(float));
    if (place == args.cols) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return load_quad(args.matrix + place * args.width + first, column, width, args.matrix_quads);
  }
};

}  // namespace rtopk::cuda
