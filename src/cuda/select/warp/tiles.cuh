// Copies a warp's rows to shared memory tile by tile. The next tile is copied while the warp works on the current one.
#pragma once

#include "cuda/runtime/async_copy.cuh"
#include "cuda/runtime/lanes.cuh"
#include "cuda/select/arguments.hpp"
#include "plan/select/tuning_warp.hpp"

namespace rtopk::cuda {

template <class Row>
class WarpTiles {
 public:
  using Config = typename Row::Config;
  using Group = typename Row::Group;
  using Arguments = typename Row::Arguments;

  __device__ WarpTiles(const Arguments& args, char* shared) : args_(args), stage_bytes_(Row::stage_bytes(args)) {
    const int list_bytes = Config::lists_bytes(args.k, args.by_value);
    stages_ = shared + (threadIdx.x / 32) * (Config::kStages * stage_bytes_ + list_bytes);
    list_ = reinterpret_cast<std::uint16_t*>(stages_ + Config::kStages * stage_bytes_) +
            Group::index_in_warp() * Config::list_cols(args.k, args.by_value);
    const std::int64_t tiles = (args_.rows + Config::kRows - 1) / Config::kRows;
    const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / 32;
    const std::int64_t begin = warp * args_.batch_length;
    count_ = static_cast<int>(max(std::int64_t{0}, min(tiles - begin, args_.batch_length)));
    first_row_ = begin * Config::kRows + Group::index_in_warp();
    const std::int64_t left = (args_.rows - first_row_ + Config::kRows - 1) / Config::kRows;
    own_ = static_cast<int>(max(std::int64_t{0}, min(left, static_cast<std::int64_t>(count_))));
    if (own_ == 0) first_row_ = args_.rows - 1;
#pragma unroll 1
    for (int stage = 0; stage < Config::kStages; ++stage) Row::pad(args_, stages_ + stage * stage_bytes_);
  }

  /// Calls `f` with the rows of each tile, one after the other.
  template <class F>
  __device__ void for_each(F f) const {
    if (count_ == 0) return;
    Row::fetch(args_, stages_, first_row_);
    int at = 0;  // offset of the current tile
#pragma unroll 1
    for (int number = 0; number < count_; ++number) {
      wait_for_copies<0>();
      __syncwarp();
      if (number + 1 < count_) Row::fetch(args_, stages_ + (stage_bytes_ - at), row_of(number + 1));
      f(Row(args_, stages_ + at, list_, row_of(number)));
      __syncwarp();
      at = stage_bytes_ - at;
    }
  }

 private:
  /// This group's row of a tile. A group without a row of its own repeats its last one and writes the same results.
  __device__ std::int64_t row_of(int number) const {
    return first_row_ + static_cast<std::int64_t>(max(0, min(number, own_ - 1))) * Config::kRows;
  }

  const Arguments& args_;
  int stage_bytes_;
  char* stages_;         ///< Two tiles of this warp.
  std::uint16_t* list_;  ///< Columns of this group's row.
  std::int64_t first_row_;
  int count_;  ///< Tiles of this warp.
  int own_;    ///< Tiles in which this group has a row of its own.
};

}  // namespace rtopk::cuda
