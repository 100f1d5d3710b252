// Y += X W. A warp takes some rows at a time. It stages their values and selectors in shared memory, 32 of each row;
// then the lanes of a row multiply one element after the other.
#pragma once

#include "cuda/product/tile.cuh"

namespace rtopk::cuda {

/// An element of X: its value, and the position of its row of W.
struct alignas(8) PlacedValue {
  float value;
  std::int32_t place;
};

template <int kTile, bool kStaged>
__global__ void __launch_bounds__(kProductThreads, 1) product_kernel(const __grid_constant__ ProductArguments args) {
  extern __shared__ __align__(16) char shared[];
  constexpr int kLanes = product_lanes(kTile);
  constexpr int kRows = 32 / kLanes;
  constexpr int kAtOnce = 2;  // elements whose loads are in flight together
  constexpr int kQuads = kTile / (4 * kLanes);
  const LaneColumns<kLanes> columns;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  auto* const staged = reinterpret_cast<PlacedValue*>(shared) + warp * kRows * kStagePitch;
  auto* const tile =
      reinterpret_cast<float*>(shared + kProductThreads / 32 * kRows * kStagePitch * sizeof(PlacedValue));
  const std::int64_t first = static_cast<std::int64_t>(static_cast<int>(blockIdx.x) % args.tiles) * kTile;
  if constexpr (kStaged) load_tile<kTile>(tile, args, first);
  const int width = columns_of<kTile>(args, first);
  const MatrixRows<kTile, kStaged> matrix{reinterpret_cast<const char*>(tile), args, first, width};
  const std::int32_t nowhere = matrix.nowhere();

  const std::int64_t groups = (args.rows + kRows - 1) / kRows;
#pragma unroll 1
  for (std::int64_t group = static_cast<std::int64_t>(blockIdx.x / args.tiles) * (kProductThreads / 32) + warp;
       group < groups; group += static_cast<std::int64_t>(args.parts) * (kProductThreads / 32)) {
    const std::int64_t first_row = group * kRows;
    const int rows = static_cast<int>(min(args.rows - first_row, static_cast<std::int64_t>(kRows)));
    float4 sums[kQuads];
#pragma unroll
    for (int i = 0; i < kQuads; ++i) sums[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
    for (std::int32_t begin = 0; begin < args.k; begin += kStagedElements) {
      const std::int64_t element = first_row * args.k + begin + lane;
      PlacedValue loaded[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        loaded[r] = {0.0f, nowhere};
        if (r < rows && begin + lane < args.k) {
          const float value = args.values[element + r * args.k];
          const std::int32_t place = matrix.place_of(args.selector_at(element + r * args.k));
          loaded[r] = {place == nowhere ? 0.0f : value, place};
        }
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) staged[r * kStagePitch + lane] = loaded[r];
      __syncwarp();
      const PlacedValue* const own = staged + lane / kLanes * kStagePitch;
      const int count = min(args.k - begin, kStagedElements);
#pragma unroll 1
      for (int j = 0; j < count; j += kAtOnce) {  // elements past the last are zero
#pragma unroll
        for (int l = 0; l < kAtOnce; ++l) {
          const PlacedValue element = own[j + l];
#pragma unroll
          for (int i = 0; i < kQuads; ++i) {
            add_multiple(sums[i], element.value, matrix.quad(element.place, columns.column(i)));
          }
        }
      }
      __syncwarp();
    }
    if (lane / kLanes >= rows) continue;
    float* const y = args.result + (first_row + lane / kLanes) * args.width + first;
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      add_multiple(sums[i], 1.0f, load_quad(y, columns.column(i), width, args.row_quads));
    }
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      store_quad(y, columns.column(i), width, args.row_quads, sums[i]);
    }
  }
}

}  // namespace rtopk::cuda
