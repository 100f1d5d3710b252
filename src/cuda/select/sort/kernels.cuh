// Sorts results that are in index order by value: largest first, equal ones by index. The sort works on words of
// directed key and index. No two are equal, so that every sort gives the same result.
//
// A block sorts up to some thousand words. Each thread sorts a few in registers. Then pairs of sorted runs are merged
// in shared memory; each thread makes its share of the output. Longer rows are sorted in tiles. Their runs are merged
// in the same way, from one buffer of the workspace to the other.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/arguments.hpp"
#include "cuda/select/element.cuh"
#include "cuda/select/result_row.cuh"
#include "cuda/select/sort/value.cuh"
#include "plan/select/tuning_sort.hpp"

namespace rtopk::cuda {

/// Key and index in one word. The larger word comes first.
template <int kKeyBits>
struct NarrowEntry {
  static constexpr int kIndexBits = 64 - kKeyBits;
  static constexpr std::uint64_t kIndexMask = ~std::uint64_t{0} >> kKeyBits;
  std::uint64_t word;

  static __device__ NarrowEntry of(std::uint64_t key, std::int64_t index) {
    return {key << kIndexBits | (kIndexMask - static_cast<std::uint64_t>(index))};
  }
  static __device__ NarrowEntry last() { return {0}; }
  [[nodiscard]] __device__ std::uint64_t key() const { return word >> kIndexBits; }
  [[nodiscard]] __device__ std::int64_t index() const {
    return static_cast<std::int64_t>(kIndexMask - (word & kIndexMask));
  }
  [[nodiscard]] __device__ bool is_before(const NarrowEntry& other) const { return word > other.word; }
};

/// The same in two words.
struct __align__(16) WideEntry {
  std::uint64_t high;
  std::uint64_t low;

  static __device__ WideEntry of(std::uint64_t key, std::int64_t index) {
    return {key, ~static_cast<std::uint64_t>(index)};
  }
  static __device__ WideEntry last() { return {0, 0}; }
  [[nodiscard]] __device__ std::uint64_t key() const { return high; }
  [[nodiscard]] __device__ std::int64_t index() const { return static_cast<std::int64_t>(~low); }
  [[nodiscard]] __device__ bool is_before(const WideEntry& other) const {
    return high > other.high || (high == other.high && low > other.low);
  }
};

template <class T, bool kWide>
struct Sorter {
  using Key = core::KeyOf<T>;
  using Config = SortConfig<sizeof(Key), kWide>;
  using Entry = std::conditional_t<kWide, WideEntry, NarrowEntry<static_cast<int>(8 * sizeof(Key) % 64)>>;
  static constexpr int kItems = Config::kItems;
  static_assert(sizeof(Entry) == Config::kEntryBytes);

  // ------------------------------------------------------------------------------------------------------------------
  // Results and entries.

  static __device__ Entry read(const SelectArguments& args, const T* row, const ResultRow<T>& result,
                               std::int64_t position) {
    const std::int64_t index = result.index(position);
    const T raw = result.values != nullptr ? result.values[position] : row[index];
    return Entry::of(directed_key(raw, args.smallest), index);
  }

  static __device__ void write(const SelectArguments& args, const T* row, const ResultRow<T>& result,
                               std::int64_t position, Entry entry) {
    const std::int64_t index = entry.index();
    const T raw = result.values != nullptr ? value_of_sorted(args, row, static_cast<Key>(entry.key()), index) : T{};
    result.write(position, raw, index);
  }

  // ------------------------------------------------------------------------------------------------------------------
  // Sorting in a block.

  static __device__ int place(int position) { return position + position / kItems; }

  static __device__ void sort_items(Entry (&items)[kItems]) {
#pragma unroll
    for (int round = 0; round < kItems; ++round) {
#pragma unroll
      for (int i = round % 2; i + 1 < kItems; i += 2) {
        const Entry a = items[i];
        const Entry b = items[i + 1];
        const bool swaps = b.is_before(a);
        items[i] = swaps ? b : a;
        items[i + 1] = swaps ? a : b;
      }
    }
  }

  /// Gets items diagonal, diagonal + 1, ... of the merge of two runs: `number_a` entries at place `a` and `number_b` at
  /// `b`. Items past the end are Entry::last().
  static __device__ void merge_items(const Entry* entries, int a, int number_a, int b, int number_b, int diagonal,
                                     Entry (&items)[kItems]) {
    diagonal = min(diagonal, number_a + number_b);
    int low = max(0, diagonal - number_b);
    int high = min(diagonal, number_a);
    // The first `diagonal` merged entries are s of `a` and diagonal - s of `b`. Invariant: low <= s <= high.
    while (low < high) {
      const int middle = (low + high) / 2;
      if (entries[place(b + diagonal - 1 - middle)].is_before(entries[place(a + middle)])) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    int next_a = low;
    int next_b = diagonal - low;
    Entry from_a = next_a < number_a ? entries[place(a + next_a)] : Entry::last();
    Entry from_b = next_b < number_b ? entries[place(b + next_b)] : Entry::last();
    // Invariant: from_a and from_b are the first entries of their runs that come after items[0 .. i).
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const bool takes_a = next_b >= number_b || (next_a < number_a && !from_b.is_before(from_a));
      items[i] = takes_a ? from_a : from_b;
      if (takes_a) {
        ++next_a;
        from_a = next_a < number_a ? entries[place(a + next_a)] : Entry::last();
      } else {
        ++next_b;
        from_b = next_b < number_b ? entries[place(b + next_b)] : Entry::last();
      }
    }
  }

  /// Fills `entries`, at place(), with `size` results of a row from `first` on, and with Entry::last() after them.
  static __device__ void read_into(const SelectArguments& args, const T* row, const ResultRow<T>& result,
                                   std::int64_t first, int size, Entry* entries) {
    const int number = static_cast<int>(blockDim.x) * kItems;
#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.x); i < number; i += static_cast<int>(blockDim.x)) {
      entries[place(i)] = i < size ? read(args, row, result, first + i) : Entry::last();
    }
  }

  /// Sorts kItems entries for each thread. All threads of the block call this.
  static __device__ void sort_in_block(Entry* entries) {
    const int number = static_cast<int>(blockDim.x) * kItems;
    const int mine = static_cast<int>(threadIdx.x) * kItems;
    Entry items[kItems];
    __syncthreads();  // `entries` are filled
#pragma unroll
    for (int i = 0; i < kItems; ++i) items[i] = entries[place(mine + i)];
    sort_items(items);
    // Invariant: the `items` of all threads, in thread order, are sorted runs of `run` entries.
#pragma unroll 1
    for (int run = kItems;; run *= 2) {
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kItems; ++i) entries[place(mine + i)] = items[i];
      __syncthreads();
      if (run >= number) return;
      const int a = mine / (2 * run) * (2 * run);
      const int b = min(a + run, number);
      merge_items(entries, a, b - a, b, min(b + run, number) - b, mine - a, items);
    }
  }

  // ------------------------------------------------------------------------------------------------------------------
  // Merging runs in global memory.

  /// How many of the first `diagonal` entries of two merged runs are from `a`. All lanes of a warp call this.
  static __device__ std::int64_t split(const Entry* a, std::int64_t number_a, const Entry* b, std::int64_t number_b,
                                       std::int64_t diagonal) {
    std::int64_t low = max(std::int64_t{0}, diagonal - number_b);
    std::int64_t high = min(diagonal, number_a);
    // Invariant: low <= the result <= high. Each step probes at 32 places and keeps the interval between two of them.
    while (low < high) {
      const std::int64_t step = (high - low + 31) / 32;
      const std::int64_t probe = low + (threadIdx.x % 32 + 1) * step - 1;
      const bool from_a = probe < high && !b[diagonal - 1 - probe].is_before(a[probe]);
      low += __popc(__ballot_sync(kFullWarp, from_a)) * step;
      high = min(high, low + step - 1);
    }
    return low;
  }
};

/// Rows of one tile: a block sorts a whole row.
template <class T, bool kWide>
__global__ void __launch_bounds__(1024) sort_rows_kernel(const __grid_constant__ SelectArguments args) {
  using S = Sorter<T, kWide>;
  extern __shared__ __align__(16) char shared[];
  auto* entries = reinterpret_cast<typename S::Entry*>(shared);
  const int k = static_cast<int>(args.k);
  for (std::int64_t number = blockIdx.x; number < args.rows; number += gridDim.x) {
    const T* row = static_cast<const T*>(args.input) + number * args.stride;
    const ResultRow<T> result(args, number);
    S::read_into(args, row, result, 0, k, entries);
    S::sort_in_block(entries);
#pragma unroll 1
    for (int position = static_cast<int>(threadIdx.x); position < k; position += static_cast<int>(blockDim.x)) {
      S::write(args, row, result, position, entries[S::place(position)]);
    }
    __syncthreads();  // the next row uses the same memory
  }
}

/// A batch of rows of several tiles each. Blocks are numbered row by row.
struct SortBatch {
  std::int64_t first_row;
  std::int64_t tiles;
  std::int64_t run;  ///< Entries of a sorted run, in a merge.
  const void* from;
  void* to;  ///< Null: writes the results themselves.
};

template <class T, bool kWide>
__global__ void __launch_bounds__(512)
    sort_tiles_kernel(const __grid_constant__ SelectArguments args, const __grid_constant__ SortBatch batch) {
  using S = Sorter<T, kWide>;
  extern __shared__ __align__(16) char shared[];
  auto* entries = reinterpret_cast<typename S::Entry*>(shared);
  const std::int64_t in_batch = blockIdx.x / batch.tiles;
  const std::int64_t first = blockIdx.x % batch.tiles * S::Config::kTile;
  const int size = static_cast<int>(min(args.k - first, std::int64_t{S::Config::kTile}));
  const std::int64_t number = batch.first_row + in_batch;
  const T* row = static_cast<const T*>(args.input) + number * args.stride;
  const ResultRow<T> result(args, number);
  S::read_into(args, row, result, first, size, entries);
  S::sort_in_block(entries);
  auto* to = static_cast<typename S::Entry*>(batch.to) + in_batch * args.k + first;
  for (int position = static_cast<int>(threadIdx.x); position < size; position += static_cast<int>(blockDim.x)) {
    to[position] = entries[S::place(position)];
  }
}

template <class T, bool kWide>
__global__ void __launch_bounds__(512)
    merge_tiles_kernel(const __grid_constant__ SelectArguments args, const __grid_constant__ SortBatch batch) {
  using S = Sorter<T, kWide>;
  using Entry = typename S::Entry;
  extern __shared__ __align__(16) char shared[];
  __shared__ std::int64_t splits[2];
  auto* entries = reinterpret_cast<Entry*>(shared);
  const std::int64_t in_batch = blockIdx.x / batch.tiles;
  const std::int64_t first = blockIdx.x % batch.tiles * S::Config::kTile;
  const int size = static_cast<int>(min(args.k - first, std::int64_t{S::Config::kTile}));

  // The pair of runs that holds this tile: `run` is a multiple of the tile.
  const Entry* from = static_cast<const Entry*>(batch.from) + in_batch * args.k;
  const std::int64_t begin_a = first / (2 * batch.run) * (2 * batch.run);
  const std::int64_t begin_b = min(begin_a + batch.run, args.k);
  const std::int64_t number_a = begin_b - begin_a;
  const std::int64_t number_b = min(begin_b + batch.run, args.k) - begin_b;
  const std::int64_t diagonal = first - begin_a;
  const int warp = static_cast<int>(threadIdx.x / 32);
  if (warp < 2) {
    const std::int64_t split = S::split(from + begin_a, number_a, from + begin_b, number_b, diagonal + warp * size);
    if (threadIdx.x % 32 == 0) splits[warp] = split;
  }
  __syncthreads();
  const std::int64_t a = splits[0];
  const std::int64_t b = diagonal - a;
  const int size_a = static_cast<int>(splits[1] - a);
  const int size_b = size - size_a;
  for (int i = static_cast<int>(threadIdx.x); i < size; i += static_cast<int>(blockDim.x)) {
    entries[S::place(i)] = i < size_a ? from[begin_a + a + i] : from[begin_b + b + (i - size_a)];
  }
  __syncthreads();
  Entry items[S::kItems];
  const int mine = static_cast<int>(threadIdx.x) * S::kItems;
  S::merge_items(entries, 0, size_a, size_a, size_b, mine, items);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < S::kItems; ++i) entries[S::place(mine + i)] = items[i];
  __syncthreads();

  if (batch.to != nullptr) {
    Entry* to = static_cast<Entry*>(batch.to) + in_batch * args.k + first;
    for (int i = static_cast<int>(threadIdx.x); i < size; i += static_cast<int>(blockDim.x))
      to[i] = entries[S::place(i)];
    return;
  }
  const std::int64_t number = batch.first_row + in_batch;
  const T* row = static_cast<const T*>(args.input) + number * args.stride;
  const ResultRow<T> result(args, number);
  for (int i = static_cast<int>(threadIdx.x); i < size; i += static_cast<int>(blockDim.x)) {
    S::write(args, row, result, first + i, entries[S::place(i)]);
  }
}

}  // namespace rtopk::cuda
