// The part of a row that a block of cuda_cluster has. It is copied to shared memory tile by tile, ahead of its use.
// Every thread reads only what it copied itself, so that tiles need no barriers.
#pragma once

#include <cstdint>

#include "cuda/runtime/async_copy.cuh"
#include "cuda/select/arguments.hpp"
#include "cuda/select/row_vectors.cuh"
#include "plan/select/tuning_cluster.hpp"

namespace rtopk::cuda {

/// A part is whole vectors of 16 bytes, with some elements before and after them.
template <class T>
struct ClusterPart {
  static constexpr int kVector = Vector<T>::kSize;

  const T* elements;
  int first_col;  ///< In the row.
  int cols;
  int head;   ///< Elements before the first whole vector.
  int whole;  ///< The number of whole vectors.

  /// The part of block `block` of 1 << log_parts blocks.
  static __device__ ClusterPart of(const RowVectors<T>& row, std::int64_t cols, int block, int log_parts) {
    ClusterPart part;
    int begin = static_cast<int>(row.size() * block >> log_parts);
    int end = static_cast<int>(row.size() * (block + 1) >> log_parts);
    part.first_col = static_cast<int>(max(row.column(begin), std::int64_t{0}));
    part.cols = max(static_cast<int>(min(row.column(end), cols)) - part.first_col, 0);
    if (row.column(begin) < 0) ++begin;
    if (row.column(end) > cols) --end;
    part.whole = max(end - begin, 0);
    part.head = min(static_cast<int>(row.column(begin)) - part.first_col, part.cols);
    part.elements = row.elements() + part.first_col;
    return part;
  }

  [[nodiscard]] __device__ bool has_ends() const { return whole * kVector < cols; }

  /// Calls f(raw, column) for the elements that are in no whole vector. A thread has at most one.
  template <class F>
  __device__ void for_ends(F f) const {
    int column = static_cast<int>(threadIdx.x);
    if (column >= head) column += whole * kVector;
    if (column < cols && threadIdx.x < 2 * kVector) f(elements[column], column);
  }
};

/// A thread's vectors of a part, in tiles. It has one vector in each line of a tile.
template <class T, class Config>
class PartTiles {
 public:
  /// Where a thread is in the part.
  struct Tile {
    int first = 0;  ///< Vector.
    int at = 0;     ///< In the memory of the tiles.
  };
  /// Between the elements at the same place of two lines, in the row and in the memory of the tiles.
  static constexpr int kLineElements = Config::kThreads * Config::kVector;

  __device__ PartTiles(const ClusterPart<T>& part, char* tiles)
      : vectors_(reinterpret_cast<const char*>(part.elements + part.head) + threadIdx.x * 16),
        slots_(tiles + threadIdx.x * 16),
        first_col_(part.head + static_cast<int>(threadIdx.x) * Config::kVector),
        whole_(part.whole) {}

  __device__ void fetch_first() const {
#pragma unroll 1
    for (int tile = 0; tile < Config::kTiles; ++tile) fetch(tile * Config::kTile, tile * kTileBytes);
  }
  [[nodiscard]] __device__ bool has(Tile tile) const { return tile.first < whole_; }
  /// Waits until a tile is there.
  static __device__ void wait() { wait_for_copies<Config::kTiles - 1>(); }
  static __device__ void wait_for_all() { wait_for_copies<0>(); }
  /// Starts to copy the tile that will take the place of this one. Returns the next one.
  __device__ Tile next(Tile tile) const {
    fetch(tile.first + Config::kTiles * Config::kTile, tile.at);
    return {tile.first + Config::kTile, tile.at == (Config::kTiles - 1) * kTileBytes ? 0 : tile.at + kTileBytes};
  }

  /// This thread's elements of a tile, those of its first line first.
  [[nodiscard]] __device__ const T* elements(Tile tile) const { return reinterpret_cast<const T*>(slots_ + tile.at); }
  /// Those of a line, as `elements` begin.
  [[nodiscard]] static __device__ uint4 vector(const T* elements, int line) {
    return *reinterpret_cast<const uint4*>(elements + line * kLineElements);
  }
  /// The column of the first one, counted from the part's first column.
  [[nodiscard]] __device__ int column(Tile tile) const { return first_col_ + tile.first * Config::kVector; }
  [[nodiscard]] __device__ bool exists(Tile tile, int line) const { return exists(tile.first, line); }
  [[nodiscard]] __device__ bool is_whole(Tile tile) const { return tile.first + Config::kTile <= whole_; }

 private:
  static constexpr int kTileBytes = Config::kTileBytes;
  static constexpr int kLineBytes = Config::kThreads * 16;

  [[nodiscard]] __device__ bool exists(int first, int line) const {
    return first + line * Config::kThreads + static_cast<int>(threadIdx.x) < whole_;
  }

  __device__ void fetch(int first, int tile_at) const {
    const char* from = vectors_ + static_cast<std::int64_t>(first) * 16;
    const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(slots_ + tile_at));
    const auto copy = [&](int line) {
      copy_async_once<false>(to + static_cast<std::uint32_t>(line * kLineBytes), from + line * kLineBytes);
    };
    if (first + Config::kTile <= whole_) {
#pragma unroll
      for (int line = 0; line < Config::kLoads; ++line) copy(line);
    } else {
#pragma unroll 1
      for (int line = 0; line < Config::kLoads && exists(first, line); ++line) copy(line);
    }
    commit_copies();
  }

  const char* vectors_;  ///< This thread's first one.
  char* slots_;          ///< The same in shared memory.
  int first_col_;
  int whole_;
};

}  // namespace rtopk::cuda
