// A warp's rows, tile by tile, through shared memory: copies of the next tile run on while the warp works on this one.
#pragma once

#include "async_copy.cuh"
#include "warp_row.cuh"

namespace rtopk::cuda {

template <class T, int G, int R>
class WarpTiles {
 public:
  using Row = WarpRow<T, G, R>;
  using Shape = typename Row::Shape;
  using Group = LaneGroup<G>;

  __device__ WarpTiles(const Call& call, char* shared) : call_(call) {
    const int list_cols = Shape::list_cols(call.k, call.by_value);
    char* mine = shared + (threadIdx.x / 32) * Shape::warp_bytes(call.k, call.by_value);
    tiles_ = reinterpret_cast<T*>(mine);
    list_ = reinterpret_cast<std::uint16_t*>(mine + Shape::kStages * Shape::kTileBytes) +
            Group::index_in_warp() * list_cols;
    const std::int64_t tiles = (call_.rows + Shape::kRows - 1) / Shape::kRows;
    const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / 32;
    const std::int64_t begin = warp * call_.units_per_worker;
    count_ = static_cast<int>(max(std::int64_t{0}, min(tiles - begin, call_.units_per_worker)));
    first_row_ = begin * Shape::kRows + Group::index_in_warp();
    const std::int64_t left = (call_.rows - first_row_ + Shape::kRows - 1) / Shape::kRows;
    own_ = static_cast<int>(max(std::int64_t{0}, min(left, static_cast<std::int64_t>(count_))));
    if (own_ == 0) first_row_ = call_.rows - 1;
  }

  __device__ void pad() const {
    if (call_.cols == Shape::kCols) return;
#pragma unroll 1
    for (int stage = 0; stage < Shape::kStages; ++stage) {
      Row::pad(tiles_ + stage * Shape::kTileElements, static_cast<int>(call_.cols), call_.smallest);
    }
  }

  /// Calls `f` with the rows and the number of each tile, one after the other.
  template <class F>
  __device__ void for_each(F f) const {
    if (count_ == 0) return;
    fetch(0, first_row_);
    int at = 0;  // where the tile at hand lies
#pragma unroll 1
    for (int number = 0; number < count_; ++number) {
      wait_for_copies<0>();
      __syncwarp();
      if (number + 1 < count_) fetch(Shape::kTileElements - at, row_of(number + 1));
      f(Row{call_, tiles_ + at, list_, row_of(number)}, number);
      __syncwarp();
      at = Shape::kTileElements - at;
    }
  }

  /// Calls `f` with the rows of the tiles that have a bit in `numbers`.
  template <class F>
  __device__ void for_some(unsigned numbers, F f) const {
#pragma unroll 1
    for (; numbers != 0; numbers &= numbers - 1) {
      const int number = __ffs(static_cast<int>(numbers)) - 1;
      fetch(0, row_of(number));
      wait_for_copies<0>();
      __syncwarp();
      f(Row{call_, tiles_, list_, row_of(number)});
      __syncwarp();
    }
  }

 private:
  /// This group's row of a tile. A group behind the last row does its last one again, and writes the same.
  __device__ std::int64_t row_of(int number) const {
    return first_row_ + static_cast<std::int64_t>(max(0, min(number, own_ - 1))) * Shape::kRows;
  }

  /// Starts to copy a row into the tile `to` elements behind the first.
  __device__ void fetch(int to, std::int64_t row) const {
    const T* from = static_cast<const T*>(call_.input) + row * call_.stride;
    if (call_.access_bytes != 16) {
      Row::fetch_narrow(from, tiles_ + to, static_cast<int>(call_.cols), call_.access_bytes);
    } else if (call_.cols < Shape::kCols) {
      fetch_vectors<true, false>(to, from);
    } else if (call_.spares_cache) {
      __syncwarp();  // a branch then, not sixteen copies under two predicates
      fetch_vectors<false, true>(to, from);
    } else {
      fetch_vectors<false, false>(to, from);
    }
    commit_copies();
  }

  template <bool kShorter, bool kSparesCache>
  __device__ void fetch_vectors(int to, const T* from) const {
    const int first = Shape::place_of_vector(Group::index_in_warp() * G * Shape::kVectors + Group::lane());
    const std::uint32_t mine = static_cast<std::uint32_t>(__cvta_generic_to_shared(tiles_ + to)) + 16 * first;
    from = opaque(from + Group::lane() * Shape::kVector);  // one address then, and distances from it that are known
#pragma unroll
    for (int i = 0; i < Shape::kVectors; ++i) {
      if (!kShorter || (i * G + Group::lane()) * Shape::kVector < static_cast<int>(call_.cols)) {
        // As in WarpRow::vector_address: the numbers of lane and copy have no bit in common.
        const int distance = Shape::place_of_vector(i * G);
        const std::uint32_t address =
            Shape::kSwizzled ? (mine ^ (distance % 8 * 16)) + distance / 8 * 128 : mine + distance * 16;
        copy_async_once<kSparesCache>(address, from + i * G * Shape::kVector);
      }
    }
  }

  const Call& call_;
  T* tiles_;             ///< Two tiles of this warp.
  std::uint16_t* list_;  ///< Columns, of this group's row.
  std::int64_t first_row_;
  int count_;  ///< Tiles of this warp,
  int own_;    ///< and those in which this group has a row of its own.
};

}  // namespace rtopk::cuda
