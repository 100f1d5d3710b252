// Y += X W: a warp takes some rows at a time. Their values and selectors are staged in shared memory, 32 of each row; then a row's
// lanes multiply one after the other.
#pragma once

#include "product_tile.cuh"

namespace rtopk::cuda {

/// An element of X: its value, and where its row of W is.
struct alignas(8) PlacedValue {
  float value;
  std::int32_t place;
};

template <int kTile, bool kStaged>
__global__ void __launch_bounds__(kMultiplyThreads, 1) product_kernel(const __grid_constant__ MultiplyCall call) {
  extern __shared__ __align__(16) char shared[];
  constexpr int kLanes = kProductLanes;
  constexpr int kRows = 32 / kLanes;
  constexpr int kQuads = kTile / (4 * kLanes);
  constexpr int kAtOnce = kQuads >= 8 ? 2 : 4;  // elements whose loads are under way together
  const LaneColumns<kLanes> columns;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  auto* const staged = reinterpret_cast<PlacedValue*>(shared) + warp * kRows * kStagePitch;
  auto* const tile =
      reinterpret_cast<float*>(shared + kMultiplyThreads / 32 * kRows * kStagePitch * sizeof(PlacedValue));
  const std::int64_t first = static_cast<std::int64_t>(static_cast<int>(blockIdx.x) % call.tiles) * kTile;
  if constexpr (kStaged) load_tile<kTile>(tile, call, first);
  const int width = columns_of<kTile>(call, first);
  const MatrixRows<kTile, kStaged> matrix{reinterpret_cast<const char*>(tile), call, first, width};
  const PlacedValue none{0.0f, matrix.nowhere()};

  const std::int64_t groups = (call.rows + kRows - 1) / kRows;
  const std::int64_t step = static_cast<std::int64_t>(call.parts) * (kMultiplyThreads / 32);
  for (std::int64_t group = static_cast<int>(blockIdx.x) / call.tiles * (kMultiplyThreads / 32) + warp; group < groups;
       group += step) {
    const std::int64_t row = group * kRows + lane / kLanes;
    float* const y = call.result + row * call.width + first;
    float4 sums[kQuads];
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      sums[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (row < call.rows) sums[i] = load_quad(y, columns.column(i), width, call.row_quads);
    }
    for (std::int32_t begin = 0; begin < call.k; begin += kStagedElements) {
      PlacedValue loaded[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        loaded[r] = none;
        if (group * kRows + r < call.rows && begin + lane < call.k) {
          const std::int64_t element = (group * kRows + r) * call.k + begin + lane;
          const std::int32_t selector = call.selector_at(element);
          if (selector < call.cols) loaded[r] = {call.values[element], matrix.place_of(selector)};
        }
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) staged[r * kStagePitch + lane] = loaded[r];
      __syncwarp();
      const PlacedValue* const own = staged + lane / kLanes * kStagePitch;
      const int count = min(call.k - begin, kStagedElements);
#pragma unroll 1
      for (int j = 0; j < count; j += kAtOnce) {  // what is behind the last one is `none`
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
    if (row >= call.rows) continue;
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      store_quad(y, columns.column(i), width, call.row_quads, sums[i]);
    }
  }
}

}  // namespace rtopk::cuda
