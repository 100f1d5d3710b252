// The part of a row that a block of cuda_cluster has. It is copied to shared memory tile by tile, ahead of its use.
// Every thread reads only what it copied itself, so that tiles need no barriers.
#pragma once

#include <cstdint>

#include "cuda/runtime/async_copy.cuh"
#include "cuda/select/arguments.hpp"
#include "cuda/select/row_vectors.cuh"
#include "plan/select/tuning_cluster.hpp"

namespace rtopk::cuda {

template <class T>
class ClusterPart {
 public:
  using Config = ClusterConfig<T>;

  /// The part of block `block` of 1 << log_parts blocks.
  __device__ ClusterPart(const SelectArguments& args, std::int64_t row, int block, int log_parts, char* tiles)
      : row_(args, row), tiles_(tiles) {
    int begin = static_cast<int>(row_.size() * block >> log_parts);
    int end = static_cast<int>(row_.size() * (block + 1) >> log_parts);
    first_col_ = static_cast<int>(max(row_.column(begin), std::int64_t{0}));
    cols_ = max(static_cast<int>(min(row_.column(end), args.cols)) - first_col_, 0);
    if (row_.column(begin) < 0) ++begin;
    if (row_.column(end) > args.cols) --end;
    whole_ = max(end - begin, 0);
    head_ = min(static_cast<int>(row_.column(begin)) - first_col_, cols_);
    vectors_ = reinterpret_cast<const char*>(row_.elements() + first_col_ + head_);
  }

  /// The whole row.
  [[nodiscard]] __device__ const RowVectors<T>& row() const { return row_; }
  [[nodiscard]] __device__ const T* elements() const { return row_.elements() + first_col_; }
  [[nodiscard]] __device__ int first_col() const { return first_col_; }
  [[nodiscard]] __device__ int cols() const { return cols_; }
  /// Elements before the first whole vector.
  [[nodiscard]] __device__ int head() const { return head_; }
  /// The number of whole vectors.
  [[nodiscard]] __device__ int whole() const { return whole_; }
  /// The memory of the tiles, free for other uses once the part has been read.
  [[nodiscard]] __device__ char* tiles() const { return tiles_; }

  __device__ void fetch_first() const {
#pragma unroll 1
    for (int tile = 0; tile < Config::kTiles; ++tile) fetch(tile * Config::kTile, tile * Config::kTileBytes);
  }

  /// Calls f(first, tile_at) for each tile until it returns false, which it must do in all threads alike. The copies of
  /// the first tiles must have been started.
  template <class F>
  __device__ void for_tiles(F f) const {
    int tile_at = 0;
#pragma unroll 1
    for (int first = 0; first < whole_; first += Config::kTile) {
      wait_for_copies<Config::kTiles - 1>();
      const bool more = f(first, tile_at);
      fetch(first + Config::kTiles * Config::kTile, tile_at);
      tile_at = tile_at == (Config::kTiles - 1) * Config::kTileBytes ? 0 : tile_at + Config::kTileBytes;
      if (!more) break;
    }
    wait_for_copies<0>();
  }

  /// Calls f(raw, column) for this thread's elements of a tile, in the order of their columns.
  template <class F>
  __device__ void for_elements(int first, int tile_at, F f) const {
#pragma unroll 1
    for (int i = 0; i < Config::kLoads * Config::kVector; ++i) {
      const int line = i / Config::kVector;
      const int vector = first + line * kClusterThreads + static_cast<int>(threadIdx.x);
      if (vector >= whole_) break;
      f(reinterpret_cast<const T*>(slot(tile_at, line))[i % Config::kVector], column_of(vector, i % Config::kVector));
    }
  }

  /// Calls f(raw, column) for the elements of the part that are in no whole vector. A thread has at most one.
  template <class F>
  __device__ void for_ends(F f) const {
    int column = static_cast<int>(threadIdx.x);
    if (column >= head_) column += whole_ * Config::kVector;
    if (column < cols_ && threadIdx.x < 2 * Config::kVector) f(row_.elements()[first_col_ + column], column);
  }

  /// Counted from the part's first column.
  __device__ int column_of(int vector, int element) const { return head_ + vector * Config::kVector + element; }

  /// This thread's vector of a line of a tile in shared memory.
  __device__ char* slot(int tile_at, int line) const {
    return tiles_ + tile_at + line * Config::kLineBytes + threadIdx.x * 16;
  }

 private:
  /// Starts to copy a tile: the whole vectors of the part from `first` on.
  __device__ void fetch(int first, int tile_at) const {
#pragma unroll
    for (int line = 0; line < Config::kLoads; ++line) {
      const int vector = first + line * kClusterThreads + static_cast<int>(threadIdx.x);
      if (vector < whole_) {
        copy_async_once<false>(static_cast<std::uint32_t>(__cvta_generic_to_shared(slot(tile_at, line))),
                               vectors_ + static_cast<std::int64_t>(vector) * 16);
      }
    }
    commit_copies();
  }

  RowVectors<T> row_;
  int first_col_;
  int cols_;
  int head_;
  int whole_;
  const char* vectors_;  ///< The first whole vector.
  char* tiles_;
};

}  // namespace rtopk::cuda
