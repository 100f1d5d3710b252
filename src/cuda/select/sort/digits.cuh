// Sorts the results of a row, or a tile of them, by value in shared memory, by digits from the least significant one. Each pass is stable, so
// results in index order stay so where values are equal. Only bits in which the keys differ are sorted: often half of
// them, none of equal ones.
//
// Each warp has neighbouring items, and counters of its own for each digit. A pass ranks the items of a warp, sums all
// counters, and moves each item to where its warp's first item with this digit goes, plus its rank.
#pragma once

#include <cstdint>

#include "cuda/select/arguments.hpp"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/element.cuh"
#include "cuda/select/result_row.cuh"
#include "cuda/select/sort/kernels.cuh"
#include "cuda/select/sort/value.cuh"
#include "plan/select/tuning_sort.hpp"

namespace rtopk::cuda {

template <class T>
class DigitSort {
 public:
  using Key = core::KeyOf<T>;
  using Config = DigitSortConfig<sizeof(Key)>;

  /// For `size` results of a row from `first` on. `shared`: Config::shared_bytes(size).
  __device__ DigitSort(const SelectArguments& args, std::int64_t number, std::int64_t first, int size, char* shared)
      : args_(args),
        row_(static_cast<const T*>(args.input) + number * args.stride),
        result_(args, number),
        first_(first),
        size_(size),
        counters_(reinterpret_cast<std::uint32_t*>(shared)),
        buffers_(shared + Config::kCounterBytes),
        ranks_(reinterpret_cast<std::uint16_t*>(buffers_ + 2 * Config::buffer_bytes(size_))) {}

  /// The least and the greatest key.
  struct Extent {
    std::uint32_t least;
    std::uint32_t greatest;
  };

  /// Fills the first buffer. All threads of the block call this, and get the extent of the keys.
  __device__ Extent read() const {
    Extent extent{~0u, 0};
    for (int i = static_cast<int>(threadIdx.x); i < size_; i += static_cast<int>(blockDim.x)) {
      const T raw = result_.values != nullptr ? result_.values[first_ + i] : row_[result_.index(first_ + i)];
      const Key key = directed_key(raw, args_.smallest);
      keys(0)[i] = key;
      places(0)[i] = static_cast<std::uint16_t>(i);
      extent.least = min(extent.least, std::uint32_t{key});
      extent.greatest = max(extent.greatest, std::uint32_t{key});
    }
    extent = {__reduce_min_sync(kFullWarp, extent.least), __reduce_max_sync(kFullWarp, extent.greatest)};
    if (lane_number() == 0) {
      counters_[warp_number()] = extent.least;
      counters_[32 + warp_number()] = extent.greatest;
    }
    __syncthreads();
    const int other = lane_number() < warps_of_block() ? lane_number() : 0;
    extent = {__reduce_min_sync(kFullWarp, counters_[other]), __reduce_max_sync(kFullWarp, counters_[32 + other])};
    __syncthreads();  // the counters are used for other things
    return extent;
  }

  /// Sorts what was read; returns the buffer that has the items in order. All threads of the block call this.
  __device__ int run(const Extent& extent) const {
    const int bits = 32 - __clz(static_cast<int>(extent.greatest - extent.least));  // 0: in order already
    const int passes = (bits + Config::kMaxBits - 1) / Config::kMaxBits;
    const int width = (bits + passes - 1) / max(passes, 1);
    int from = 0;
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
      const Digit digit{extent.greatest, pass * width, (1u << width) - 1u};
      clear(1 << width);
      __syncthreads();
      rank(from, digit);
      __syncthreads();
      sum(1 << width);
      move(from, digit);
      __syncthreads();
      from = 1 - from;
    }
    return from;
  }

  /// Writes the results in their new order. Their columns are read first, because they are overwritten.
  __device__ void write_results(int from) const {
    auto* columns = reinterpret_cast<std::uint32_t*>(keys(1 - from));
    for (int i = static_cast<int>(threadIdx.x); i < size_; i += static_cast<int>(blockDim.x)) {
      columns[i] = static_cast<std::uint32_t>(result_.index(first_ + i));
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < size_; i += static_cast<int>(blockDim.x)) {
      const std::int64_t index = columns[places(from)[i]];
      const T raw = result_.values != nullptr ? value_of_sorted(args_, row_, keys(from)[i], index) : T{};
      result_.write(first_ + i, raw, index);
    }
  }

  /// Writes a tile in its new order elsewhere.
  template <class Entry>
  __device__ void write_entries(int from, Entry* to) const {
    for (int i = static_cast<int>(threadIdx.x); i < size_; i += static_cast<int>(blockDim.x)) {
      to[i] = Entry::of(keys(from)[i], result_.index(first_ + places(from)[i]));
    }
  }

 private:
  /// The digit of a key, smaller for larger keys.
  struct Digit {
    std::uint32_t greatest;
    int shift;
    std::uint32_t mask;
    __device__ std::uint32_t of(Key key) const { return (greatest - key) >> shift & mask; }
  };

  [[nodiscard]] __device__ Key* keys(int buffer) const {
    return reinterpret_cast<Key*>(buffers_ + buffer * Config::buffer_bytes(size_));
  }
  [[nodiscard]] __device__ std::uint16_t* places(int buffer) const {
    return reinterpret_cast<std::uint16_t*>(keys(buffer) + Config::capacity(size_));
  }
  /// A warp's counter. Those of a digit are rotated, so that different digits lie in different banks.
  [[nodiscard]] __device__ std::uint32_t& counter(std::uint32_t digit, std::uint32_t warp) const {
    return counters_[digit * 32 + (warp + digit) % 32];
  }

  /// Calls f(i, exists) for the items of this warp, 32 neighbours at a time. All lanes take part.
  template <class F>
  __device__ void for_items(F&& f) const {
    const int each = ((size_ + warps_of_block() - 1) / warps_of_block() + 31) / 32 * 32;
    const int begin = warp_number() * each;
    const int end = min(begin + each, size_);
#pragma unroll 1
    for (int first = begin; first < end; first += 32) f(first + lane_number(), first + lane_number() < end);
  }

  __device__ void clear(int digits) const {
    auto* words = reinterpret_cast<uint4*>(counters_);
    for (int i = static_cast<int>(threadIdx.x); i < digits * 8; i += static_cast<int>(blockDim.x)) words[i] = uint4{};
  }

  /// Ranks the items of each warp among those with the same digit, and counts these.
  __device__ void rank(int from, const Digit& digit) const {
    const auto warp = static_cast<std::uint32_t>(warp_number());
    const unsigned lanes_before = (1u << lane_number()) - 1u;
    for_items([&](int i, bool exists) {
      const std::uint32_t mine = exists ? digit.of(keys(from)[i]) : ~0u;
      const unsigned same = __match_any_sync(kFullWarp, mine);
      const int before = __popc(same & lanes_before);
      const std::uint32_t counted = exists ? counter(mine, warp) : 0;
      __syncwarp();
      if (exists) {
        if (before == 0) counter(mine, warp) = counted + static_cast<std::uint32_t>(__popc(same));
        ranks_[i] = static_cast<std::uint16_t>(counted + static_cast<std::uint32_t>(before));
      }
      __syncwarp();
    });
  }

  /// Replaces each counter by the sum of those before it: by digit, then by warp.
  __device__ void sum(int digits) const {
    std::uint32_t* totals = counters_ + Config::kCounters;
    const auto each = static_cast<std::uint32_t>(max(digits * 32 / static_cast<int>(blockDim.x), 1));
    const std::uint32_t begin = threadIdx.x * each;
    const bool has = begin < static_cast<std::uint32_t>(digits) * 32;
    std::uint32_t mine = 0;
    for (std::uint32_t i = begin; has && i < begin + each; ++i) mine += counter(i / 32, i % 32);
    const std::uint32_t inclusive = LaneGroup<32>::inclusive_sum(mine);
    if (lane_number() == 31) totals[warp_number()] = inclusive;
    __syncthreads();
    std::uint32_t before =
        inclusive - mine + __reduce_add_sync(kFullWarp, lane_number() < warp_number() ? totals[lane_number()] : 0u);
    for (std::uint32_t i = begin; has && i < begin + each; ++i) {
      std::uint32_t& next = counter(i / 32, i % 32);
      const std::uint32_t counted = next;
      next = before;
      before += counted;
    }
    __syncthreads();
  }

  __device__ void move(int from, const Digit& digit) const {
    const auto warp = static_cast<std::uint32_t>(warp_number());
    for_items([&](int i, bool exists) {
      if (!exists) return;
      const Key key = keys(from)[i];
      const std::uint32_t to = counter(digit.of(key), warp) + ranks_[i];
      keys(1 - from)[to] = key;
      places(1 - from)[to] = places(from)[i];
    });
  }

  const SelectArguments& args_;
  const T* row_;
  ResultRow<T> result_;
  std::int64_t first_;
  int size_;
  std::uint32_t* counters_;
  char* buffers_;
  std::uint16_t* ranks_;
};

/// A block sorts a whole row.
template <class T>
__global__ void __launch_bounds__(DigitSortConfig<sizeof(T)>::kMaxThreads, 1)
    digit_sort_kernel(const __grid_constant__ SelectArguments args) {
  extern __shared__ __align__(16) char shared[];
  for (std::int64_t number = blockIdx.x; number < args.rows; number += gridDim.x) {
    const DigitSort<T> sort(args, number, 0, static_cast<int>(args.k), shared);
    const auto extent = sort.read();
    // Equal values are in index order, and so in the order asked for.
    if (extent.least != extent.greatest) sort.write_results(sort.run(extent));
    __syncthreads();  // the next row uses the same memory
  }
}

/// A block sorts a tile of a row. Blocks are numbered row by row.
template <class T>
__global__ void __launch_bounds__(DigitSortConfig<sizeof(T)>::kMaxThreads, 1)
    digit_sort_tiles_kernel(const __grid_constant__ SelectArguments args, const __grid_constant__ SortBatch batch) {
  using Entry = typename Sorter<T, false>::Entry;
  extern __shared__ __align__(16) char shared[];
  const auto tiles = static_cast<unsigned>(batch.tiles);
  const std::int64_t in_batch = blockIdx.x / tiles;
  const std::int64_t first = std::int64_t{blockIdx.x % tiles} * DigitSortConfig<sizeof(T)>::kTile;
  const auto size = static_cast<int>(min(args.k - first, std::int64_t{DigitSortConfig<sizeof(T)>::kTile}));
  const DigitSort<T> sort(args, batch.first_row + in_batch, first, size, shared);
  sort.write_entries(sort.run(sort.read()), static_cast<Entry*>(batch.to) + in_batch * args.k + first);
}

}  // namespace rtopk::cuda
