// dW = X^T dY, without sorting and without atomic additions. A block takes the rows in chunks. It scatters a chunk's
// values to a dense tile in shared memory and marks them in the mask of their selector, one bit for each row. Groups of
// eight lanes own some selectors each, with their sums in registers, and walk the marked rows in order. If several
// blocks share the rows, a second kernel adds up their sums.
#pragma once

#include "cuda/product/arguments.hpp"
#include "cuda/product/owners.cuh"
#include "cuda/product/quads.cuh"
#include "plan/tuning_product.hpp"

namespace rtopk::cuda {

/// A chunk in shared memory.
struct Chunk {
  float* gradient;  ///< [row][tile].
  float* values;    ///< [row][selector], valid where a mask has a bit.
  unsigned* masks;  ///< [selector][32 rows], two words each.
};

/// The most rows of a chunk that a warp loads.
inline constexpr int kRowsOfWarp = kMaxProductChunkRows / (kMatrixThreads / 32);

/// The first 32 elements of a warp's rows, read ahead.
struct ReadAhead {
  float values[kRowsOfWarp];
  std::int32_t selectors[kRowsOfWarp];
};

template <int kTile>
class MatrixGradient {
  static constexpr int kLanes = 8;
  static constexpr int kQuads = kTile / (4 * kLanes);
  static constexpr int kWarps = kMatrixThreads / 32;
  static constexpr int kOwned = kRangeCols / (kMatrixThreads / kLanes);

 public:
  __device__ MatrixGradient(const ProductArguments& args, char* shared)
      : args_(args), shared_(reinterpret_cast<float*>(shared)) {
    const int unit = static_cast<int>(blockIdx.x) % (args.tiles * args.ranges);
    part_ = static_cast<int>(blockIdx.x) / (args.tiles * args.ranges);
    first_ = static_cast<std::int64_t>(unit % args.tiles) * kTile;
    width_ = static_cast<int>(min(args.width - first_, static_cast<std::int64_t>(kTile)));
    range_ = unit / args.tiles * kRangeCols;
    range_cols_ = min(args.cols - range_, kRangeCols);
  }

  __device__ void run() {
    deal_out<kWarps, 32 / kLanes>(args_, range_, reinterpret_cast<unsigned*>(shared_), owned_);
    for (int i = static_cast<int>(threadIdx.x); i < 2 * kRangeCols; i += kMatrixThreads) {
      reinterpret_cast<std::uint64_t*>(chunk(i / kRangeCols).masks)[i % kRangeCols] = 0;
    }
    const std::int64_t chunks = (args_.rows + args_.chunk_rows - 1) / args_.chunk_rows;
    std::int64_t number = part_;
    ReadAhead ahead;
    if (number < chunks) {
      copy_gradient(chunk(0), number);
      read(ahead, number);
      __syncthreads();
      scatter(chunk(0), ahead, number);
      wait_for_copies<0>();
      __syncthreads();
    }
    // Invariant: chunk(turn) holds chunk `number`, and the masks of the other one are zero.
    for (int turn = 0; number < chunks; number += args_.parts, turn ^= 1) {
      const std::int64_t next = number + args_.parts;
      if (next < chunks) {
        copy_gradient(chunk(turn ^ 1), next);
        read(ahead, next);
      }
      add(chunk(turn));
      if (next < chunks) scatter(chunk(turn ^ 1), ahead, next);
      wait_for_copies<0>();
      __syncthreads();
    }
    write();
  }

 private:
  /// One of the two chunks: one is added while the other is filled.
  [[nodiscard]] __device__ Chunk chunk(int turn) const {
    const int rows = args_.chunk_rows;
    float* const gradient = shared_ + turn * static_cast<int>(chunk_words(rows, kTile));
    float* const values = gradient + rows * kTile;
    return {gradient, values, reinterpret_cast<unsigned*>(values + rows * kRangeCols)};
  }

  [[nodiscard]] __device__ int owner_lane() const { return static_cast<int>(threadIdx.x) % kLanes; }

  __device__ void copy_gradient(const Chunk& chunk, std::int64_t number) {
    constexpr int kQuadsOfRow = kTile / 4;
    const std::int64_t first_row = number * args_.chunk_rows;
    for (int i = static_cast<int>(threadIdx.x); i < args_.chunk_rows * kQuadsOfRow; i += kMatrixThreads) {
      const std::int64_t row = first_row + i / kQuadsOfRow;
      if (row < args_.rows) {
        copy_quad(chunk.gradient + 4 * i, args_.gradient + row * args_.width + first_, 4 * (i % kQuadsOfRow), width_,
                  args_.row_quads);
      }
    }
    commit_copies();
  }

  /// Row i of those that this warp loads, relative to the chunk's first.
  [[nodiscard]] static __device__ int row_of_warp(int i) { return i * kWarps + static_cast<int>(threadIdx.x) / 32; }

  __device__ void read(ReadAhead& ahead, std::int64_t number) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kRowsOfWarp; ++i) {
      const std::int64_t row = number * args_.chunk_rows + row_of_warp(i);
      ahead.selectors[i] = args_.cols;
      ahead.values[i] = 0.0f;
      if (row_of_warp(i) < args_.chunk_rows && row < args_.rows && lane < args_.k) {
        ahead.selectors[i] = args_.selector_at(row * args_.k + lane);
        ahead.values[i] = args_.values[row * args_.k + lane];
      }
    }
  }

  __device__ void place(const Chunk& chunk, int row, std::int32_t selector, float value) const {
    const int column = selector - range_;
    if (column < 0 || column >= range_cols_) return;
    chunk.values[row * kRangeCols + column] = value;
    atomicOr(chunk.masks + 2 * column + row / 32, 1u << (row % 32));
  }

  __device__ void scatter(const Chunk& chunk, const ReadAhead& ahead, std::int64_t number) const {
#pragma unroll
    for (int i = 0; i < kRowsOfWarp; ++i) place(chunk, row_of_warp(i), ahead.selectors[i], ahead.values[i]);
    for (int i = 0; i < kRowsOfWarp; ++i) {
      const std::int64_t row = number * args_.chunk_rows + row_of_warp(i);
      if (row_of_warp(i) >= args_.chunk_rows || row >= args_.rows) break;
      for (std::int32_t j = 32 + static_cast<int>(threadIdx.x) % 32; j < args_.k; j += 32) {
        place(chunk, row_of_warp(i), args_.selector_at(row * args_.k + j), args_.values[row * args_.k + j]);
      }
    }
  }

  /// Adds a chunk to the sums of the owned selectors. Clears the chunk's masks for its next use.
  __device__ void add(const Chunk& chunk) {
#pragma unroll
    for (int s = 0; s < kOwned; ++s) {
      auto* const place = reinterpret_cast<unsigned long long*>(chunk.masks) + owned_[s];
      unsigned long long mask = *place;
      __syncwarp();
      if (owner_lane() == 0) *place = 0;
      const float* const values = chunk.values + owned_[s];
      const float* const gradient = chunk.gradient + 4 * owner_lane();
      // Finds the next row while this row's elements are being loaded.
      int row = __ffsll(static_cast<long long>(mask)) - 1;
      while (row >= 0) {
        mask &= mask - 1;
        const float value = values[row * kRangeCols];
        float4 quads[kQuads];
#pragma unroll
        for (int i = 0; i < kQuads; ++i) {
          quads[i] = *reinterpret_cast<const float4*>(gradient + row * kTile + 4 * kLanes * i);
        }
        row = __ffsll(static_cast<long long>(mask)) - 1;
#pragma unroll
        for (int i = 0; i < kQuads; ++i) add_multiple(sums_[s][i], value, quads[i]);
      }
      __syncwarp();
    }
  }

  __device__ void write() const {
    float* const to = args_.partial_sums == nullptr
                          ? args_.result
                          : args_.partial_sums + static_cast<std::int64_t>(part_) * args_.cols * args_.width;
#pragma unroll
    for (int s = 0; s < kOwned; ++s) {
      if (owned_[s] >= range_cols_) continue;
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        store_quad(to + (range_ + owned_[s]) * args_.width + first_, 4 * (owner_lane() + kLanes * i), width_,
                   args_.sum_quads, sums_[s][i]);
      }
    }
  }

  const ProductArguments& args_;
  float* shared_;
  int part_;
  int range_;
  int range_cols_;
  std::int64_t first_;  ///< The first column of the tile.
  int width_;           ///< Columns of the tile that exist.
  int owned_[kOwned];   ///< Selectors of these lanes, relative to the range's first.
  float4 sums_[kOwned][kQuads] = {};
};

template <int kTile>
__global__ void __launch_bounds__(kMatrixThreads, 1)
    matrix_gradient_kernel(const __grid_constant__ ProductArguments args) {
  extern __shared__ __align__(16) char shared[];
  MatrixGradient<kTile>(args, shared).run();
}

}  // namespace rtopk::cuda
