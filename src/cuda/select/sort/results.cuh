// The results of a row in shared memory, while they are sorted by value.
#pragma once

#include <cstdint>

#include "cuda/select/arguments.hpp"
#include "cuda/select/element.cuh"
#include "cuda/select/key_range.cuh"
#include "cuda/select/result_row.cuh"

namespace rtopk::cuda {

/// Results have places, in the order in which they were written, and ranks, in the order by value.
template <class T, int kPlaces>
struct SortedResults {
  using Key = WideKey<T>;

  alignas(16) std::uint16_t order[kPlaces];  ///< The place of each rank.
  std::uint32_t indices[kPlaces];
  T values[kPlaces];

  [[nodiscard]] __device__ Key key_at(int place, bool smallest) const { return directed_key(values[place], smallest); }

  /// Reads this thread's results, one in `threads`. Returns the range of their keys.
  __device__ KeyRange<Key> read(const SelectArguments& args, std::int64_t row, int thread, int threads) {
    const ResultRow<T> result(args, row);
    const T* elements = static_cast<const T*>(args.input) + row * args.stride;
    const int k = static_cast<int>(args.k);
    KeyRange<Key> range{~Key{0}, 0};
#pragma unroll 4
    for (int i = thread; i < k; i += threads) {
      const std::int64_t index = result.index(i);
      const T value = compared(result.values != nullptr ? result.values[i] : elements[index], args.magnitude);
      values[i] = value;
      indices[i] = static_cast<std::uint32_t>(index);
      const Key key = directed_key(value, args.smallest);
      range = {min(range.low, key), max(range.high, key)};
    }
    return range;
  }

  __device__ void write(const SelectArguments& args, std::int64_t row, int thread, int threads) const {
    const ResultRow<T> result(args, row);
    const T* elements = static_cast<const T*>(args.input) + row * args.stride;
#pragma unroll 2
    for (int i = thread; i < static_cast<int>(args.k); i += threads) {
      const int place = order[i];
      result.write(i, args.magnitude ? elements[indices[place]] : values[place], indices[place]);
    }
  }

  /// An insertion sort of a few neighbouring ranks. Equal ones stay in their order.
  __device__ void order_by_key(int first, int members, bool smallest) {
    for (int i = first + 1; i < first + members; ++i) {
      const std::uint16_t place = order[i];
      const Key key = key_at(place, smallest);
      int to = i;
      for (; to > first && key_at(order[to - 1], smallest) < key; --to) order[to] = order[to - 1];
      order[to] = place;
    }
  }
};

}  // namespace rtopk::cuda
