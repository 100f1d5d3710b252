// A tile of W, some columns of all its rows, and how the lanes of a warp share it: several rows of X side by side, 8 or 16 lanes
// each, so that one instruction brings every row its own selector, and sums over columns need few shuffles.
//
// What limits these kernels is the shared memory, 128 bytes a cycle: eight lanes read as much of a row of W at once.
#pragma once

#include <cstdint>

#include "cuda/product/arguments.hpp"
#include "cuda/product/quads.cuh"
#include "plan/tuning_product.hpp"

namespace rtopk::cuda {

/// Which columns of a tile a lane has: every kLanes-th quad.
template <int kLanes>
struct LaneColumns {
  int lane = static_cast<int>(threadIdx.x) % kLanes;  ///< Of the lanes of a row.

  [[nodiscard]] __device__ int column(int quad) const { return 4 * (kLanes * quad + lane); }
};

/// How many columns of the tile that begins at `first` exist.
template <int kTile>
__device__ int columns_of(const ProductArguments& args, std::int64_t first) {
  return static_cast<int>(min(args.width - first, static_cast<std::int64_t>(kTile)));
}

/// The block's tile: columns from `first` on, with a row of zeros behind the last one for selectors that name none.
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

/// A row of W where a selector says so: from the tile, or from global memory where no tile would fit.
template <int kTile, bool kStaged>
struct MatrixRows {
  const char* tile;
  const ProductArguments& args;
  std::int64_t first;  ///< Column of the tile's first.
  int width;           ///< Columns of the tile that exist.

  static constexpr std::int32_t kRowBytes = kTile * static_cast<std::int32_t>(sizeof(float));

  /// Where a row is; that of a selector which names none is `nowhere()`.
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
