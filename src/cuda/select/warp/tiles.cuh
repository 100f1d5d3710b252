// Copies a warp's rows to shared memory tile by tile. The next tile is copied while the warp works on the current one.
#pragma once

#include "cuda/runtime/async_copy.cuh"
#include "cuda/select/warp/row.cuh"

namespace rtopk::cuda {

template <class T, int G, int R>
class WarpTiles {
 public:
  using Row = WarpRow<T, G, R>;
  using Config = typename Row::Config;
  using Group = LaneGroup<G>;

  __device__ WarpTiles(const SelectArguments& args, char* shared) : args_(args) {
    const int list_cols = Config::list_cols(args.k, args.by_value);
    char* mine = shared + (threadIdx.x / 32) * Config::warp_bytes(args.k, args.by_value);
    tiles_ = reinterpret_cast<T*>(mine);
    list_ = reinterpret_cast<std::uint16_t*>(mine + Config::kStages * Config::kTileBytes) +
            Group::index_in_warp() * list_cols;
    const std::int64_t tiles = (args_.rows + Config::kRows - 1) / Config::kRows;
    const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / 32;
    const std::int64_t begin = warp * args_.batch_length;
    count_ = static_cast<int>(max(std::int64_t{0}, min(tiles - begin, args_.batch_length)));
    first_row_ = begin * Config::kRows + Group::index_in_warp();
    const std::int64_t left = (args_.rows - first_row_ + Config::kRows - 1) / Config::kRows;
    own_ = static_cast<int>(max(std::int64_t{0}, min(left, static_cast<std::int64_t>(count_))));
    if (own_ == 0) first_row_ = args_.rows - 1;
  }

  __device__ void pad() const {
    if (args_.cols == Config::kCols) return;
#pragma unroll 1
    for (int stage = 0; stage < Config::kStages; ++stage) {
      Row::pad(tiles_ + stage * Config::kTileElements, static_cast<int>(args_.cols), args_.smallest);
    }
  }

  /// Calls `f` with the rows and the number of each tile, one after the other.
  template <class F>
  __device__ void for_each(F f) const {
    if (count_ == 0) return;
    fetch(0, first_row_);
    int at = 0;  // offset of the current tile
#pragma unroll 1
    for (int number = 0; number < count_; ++number) {
      wait_for_copies<0>();
      __syncwarp();
      if (number + 1 < count_) fetch(Config::kTileElements - at, row_of(number + 1));
      f(Row{args_, tiles_ + at, list_, row_of(number)}, number);
      __syncwarp();
      at = Config::kTileElements - at;
    }
  }

  /// Calls `f` with the rows of the tiles whose bits are set in `numbers`.
  template <class F>
  __device__ void for_some(unsigned numbers, F f) const {
#pragma unroll 1
    for (; numbers != 0; numbers &= numbers - 1) {
      const int number = __ffs(static_cast<int>(numbers)) - 1;
      fetch(0, row_of(number));
      wait_for_copies<0>();
      __syncwarp();
      f(Row{args_, tiles_, list_, row_of(number)});
      __syncwarp();
    }
  }

 private:
  /// This group's row of a tile. A group without a row of its own repeats its last one and writes the same results.
  __device__ std::int64_t row_of(int number) const {
    return first_row_ + static_cast<std::int64_t>(max(0, min(number, own_ - 1))) * Config::kRows;
  }

  /// Starts to copy a row into the tile at offset `to`, in elements.
  __device__ void fetch(int to, std::int64_t row) const {
    const T* from = static_cast<const T*>(args_.input) + row * args_.stride;
    if (args_.access_bytes != 16) {
      Row::fetch_narrow(from, tiles_ + to, static_cast<int>(args_.cols), args_.access_bytes);
    } else if (args_.cols < Config::kCols) {
      fetch_vectors<true, false>(to, from);
    } else if (args_.spares_cache) {
      __syncwarp();  // makes the compiler branch here instead of predicating sixteen copies twice
      fetch_vectors<false, true>(to, from);
    } else {
      fetch_vectors<false, false>(to, from);
    }
    commit_copies();
  }

  template <bool kShorter, bool kSparesCache>
  __device__ void fetch_vectors(int to, const T* from) const {
    const int first = Config::place_of_vector(Group::index_in_warp() * G * Config::kVectors + Group::lane());
    const std::uint32_t mine = static_cast<std::uint32_t>(__cvta_generic_to_shared(tiles_ + to)) + 16 * first;
    from = opaque(from + Group::lane() * Config::kVector);  // one address, with distances known at compile time
#pragma unroll
    for (int i = 0; i < Config::kVectors; ++i) {
      if (!kShorter || (i * G + Group::lane()) * Config::kVector < static_cast<int>(args_.cols)) {
        // As in WarpRow::vector_address: the bits of the lane's and the copy's index do not overlap.
        const int distance = Config::place_of_vector(i * G);
        const std::uint32_t address =
            Config::kSwizzled ? (mine ^ (distance % 8 * 16)) + distance / 8 * 128 : mine + distance * 16;
        copy_async_once<kSparesCache>(address, from + i * G * Config::kVector);
      }
    }
  }

  const SelectArguments& args_;
  T* tiles_;             ///< Two tiles of this warp.
  std::uint16_t* list_;  ///< Columns of this group's row.
  std::int64_t first_row_;
  int count_;  ///< Tiles of this warp.
  int own_;    ///< Tiles in which this group has a row of its own.
};

}  // namespace rtopk::cuda
