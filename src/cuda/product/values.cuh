// dX = (dY W^T) at the selectors of X. The lanes of a row have a piece of dY each, and read the same piece of every
// selected row of W. They reduce as many products as there are lanes together, in one shuffle less than lanes; each
// lane ends up with one sum.
#pragma once

#include "cuda/product/tile.cuh"
#include "cuda/runtime/lanes.cuh"

namespace rtopk::cuda {

/// For each element l, the sum of each[l] over the kLanes lanes of a row. Lane l gets sum l.
template <int kLanes>
__device__ float sum_across(float (&each)[kLanes]) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    const bool upper = (lane & distance) != 0;
#pragma unroll
    for (int i = 0; i < distance; ++i) {
      const float sent = upper ? each[i] : each[i + distance];
      const float kept = upper ? each[i + distance] : each[i];
      each[i] = kept + __shfl_xor_sync(kFullWarp, sent, distance);
    }
  }
  return each[0];
}

template <int kTile, bool kStaged>
__global__ void __launch_bounds__(values_threads(kTile), 1)
    values_gradient_kernel(const __grid_constant__ ProductArguments args) {
  extern __shared__ __align__(16) char shared[];
  constexpr int kThreads = values_threads(kTile);
  constexpr int kLanes = kValuesLanes;
  constexpr int kRows = 32 / kLanes;
  constexpr int kQuads = kTile / (4 * kLanes);
  const LaneColumns<kLanes> columns;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  auto* const staged = reinterpret_cast<std::int32_t*>(shared) + warp * kRows * kStagePitch;
  auto* const tile = reinterpret_cast<float*>(shared + kThreads / 32 * kRows * kStagePitch * sizeof(std::int32_t));
  const std::int64_t groups = (args.rows + kRows - 1) / kRows;

  // A block has its rows to itself, so that it can add the contribution of each tile to those before.
  for (std::int32_t t = 0; t < args.tiles; ++t) {
    const std::int64_t first = static_cast<std::int64_t>(t) * kTile;
    if constexpr (kStaged) {
      __syncthreads();
      load_tile<kTile>(tile, args, first);
    }
    const int width = columns_of<kTile>(args, first);
    const MatrixRows<kTile, kStaged> matrix{reinterpret_cast<const char*>(tile), args, first, width};
    const std::int32_t nowhere = matrix.nowhere();
#pragma unroll 1
    for (std::int64_t group = static_cast<std::int64_t>(blockIdx.x) * (kThreads / 32) + warp; group < groups;
         group += static_cast<std::int64_t>(args.parts) * (kThreads / 32)) {
      const std::int64_t first_row = group * kRows;
      const int rows = static_cast<int>(min(args.rows - first_row, static_cast<std::int64_t>(kRows)));
      float4 gradient[kQuads];
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        gradient[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (lane / kLanes < rows) {
          gradient[i] = load_quad(args.gradient + (first_row + lane / kLanes) * args.width + first, columns.column(i),
                                  width, args.row_quads);
        }
      }
#pragma unroll 1
      for (std::int32_t begin = 0; begin < args.k; begin += kStagedElements) {
        const std::int64_t element = first_row * args.k + begin + lane;
        std::int32_t loaded[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          loaded[r] = nowhere;
          if (r < rows && begin + lane < args.k) {
            loaded[r] = matrix.place_of(args.selector_at(element + r * args.k));
          }
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) staged[r * kStagePitch + lane] = loaded[r];
        __syncwarp();
        const std::int32_t* const own = staged + lane / kLanes * kStagePitch;
        const int count = min(args.k - begin, kStagedElements);
#pragma unroll 1
        for (int j = 0; j < count; j += kLanes) {
          float sums[kLanes];
#pragma unroll
          for (int l = 0; l < kLanes; ++l) {
            const std::int32_t place = own[j + l];
            sums[l] = 0.0f;
#pragma unroll
            for (int i = 0; i < kQuads; ++i)
              sums[l] = add_dot(sums[l], gradient[i], matrix.quad(place, columns.column(i)));
          }
          float sum = sum_across(sums);
          const int mine = j + columns.lane;
          if (own[mine] == nowhere) sum = 0.0f;
          if (lane / kLanes < rows && mine < count) {
            float* const to = args.result + (first_row + lane / kLanes) * args.k + begin + mine;
            *to = t == 0 ? sum : *to + sum;
          }
        }
        __syncwarp();
      }
    }
  }
}

}  // namespace rtopk::cuda
