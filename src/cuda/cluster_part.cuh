// The part of a row that a block of cuda_cluster has, copied to shared memory ahead of its use, tile by tile. Every thread reads
// what it has copied itself, so that tiles need no barriers.
#pragma once

#include <cstdint>

#include "async_copy.cuh"
#include "call.hpp"
#include "cluster_shape.hpp"
#include "row_vectors.cuh"

namespace rtopk::cuda {

template <class T>
class ClusterPart {
 public:
  using Shape = ClusterShape<T>;

  /// Of one of 1 << log_parts blocks.
  __device__ ClusterPart(const Call& call, std::int64_t row, int block, int log_parts, char* tiles)
      : row_(call, row), tiles_(tiles) {
    int begin = static_cast<int>(row_.size() * block >> log_parts);
    int end = static_cast<int>(row_.size() * (block + 1) >> log_parts);
    first_col_ = static_cast<int>(max(row_.column(begin), std::int64_t{0}));
    cols_ = max(static_cast<int>(min(row_.column(end), call.cols)) - first_col_, 0);
    if (row_.column(begin) < 0) ++begin;
    if (row_.column(end) > call.cols) --end;
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
  /// Vectors that are whole.
  [[nodiscard]] __device__ int whole() const { return whole_; }
  /// Where the tiles lie: memory for something else once the part has been read.
  [[nodiscard]] __device__ char* tiles() const { return tiles_; }

  __device__ void fetch_first() const {
#pragma unroll 1
    for (int tile = 0; tile < Shape::kTiles; ++tile) fetch(tile * Shape::kTile, tile * Shape::kTileBytes);
  }

  /// Calls f(first, tile_at) for the tiles, the first of which are on their way by now, until it returns false, which it must
  /// for all threads.
  template <class F>
  __device__ void for_tiles(F f) const {
    int tile_at = 0;
#pragma unroll 1
    for (int first = 0; first < whole_; first += Shape::kTile) {
      wait_for_copies<Shape::kTiles - 1>();
      const bool more = f(first, tile_at);
      fetch(first + Shape::kTiles * Shape::kTile, tile_at);
      tile_at = tile_at == (Shape::kTiles - 1) * Shape::kTileBytes ? 0 : tile_at + Shape::kTileBytes;
      if (!more) break;
    }
    wait_for_copies<0>();
  }

  /// Calls f(raw, column) for this thread's elements of a tile, in the order of their columns.
  template <class F>
  __device__ void for_elements(int first, int tile_at, F f) const {
#pragma unroll 1
    for (int i = 0; i < Shape::kLoads * Shape::kVector; ++i) {
      const int line = i / Shape::kVector;
      const int vector = first + line * kClusterThreads + static_cast<int>(threadIdx.x);
      if (vector >= whole_) break;
      f(reinterpret_cast<const T*>(slot(tile_at, line))[i % Shape::kVector], column_of(vector, i % Shape::kVector));
    }
  }

  /// Calls f(raw, column) for the elements of the part that belong to no whole vector; a thread has one at most.
  template <class F>
  __device__ void for_ends(F f) const {
    int column = static_cast<int>(threadIdx.x);
    if (column >= head_) column += whole_ * Shape::kVector;
    if (column < cols_ && threadIdx.x < 2 * Shape::kVector) f(row_.elements()[first_col_ + column], column);
  }

  /// Counted from the part's first.
  __device__ int column_of(int vector, int element) const { return head_ + vector * Shape::kVector + element; }

  /// This thread's vector of a line of a tile in shared memory.
  __device__ char* slot(int tile_at, int line) const {
    return tiles_ + tile_at + line * Shape::kLineBytes + threadIdx.x * 16;
  }

 private:
  /// Begins to copy a tile; of the vectors, counted from the part's first whole one, it has those from `first` on.
  __device__ void fetch(int first, int tile_at) const {
#pragma unroll
    for (int line = 0; line < Shape::kLoads; ++line) {
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
  const char* vectors_;  ///< The whole ones.
  char* tiles_;
};

}  // namespace rtopk::cuda
