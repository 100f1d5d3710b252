// Reads a long row as aligned vectors of 16 bytes, whatever its address. The first and the last vector may reach past
// the ends of the row; these are read element by element. So one kernel serves every alignment and length.
#pragma once

#include <cstdint>

#include "cuda/select/arguments.hpp"
#include "cuda/select/element.cuh"

namespace rtopk::cuda {

template <class T>
union Vector {
  static constexpr int kSize = 16 / static_cast<int>(sizeof(T));
  uint4 bits;
  T raw[kSize];
};

/// Several vectors of a thread, and a bit for each element that exists.
template <class T, int kNumber>
struct Load {
  static constexpr int kLoads = kNumber;
  static constexpr int kElements = kNumber * Vector<T>::kSize;
  Vector<T> vector[kNumber];
  std::uint32_t valid;

  [[nodiscard]] __device__ T element(int i) const { return vector[i / Vector<T>::kSize].raw[i % Vector<T>::kSize]; }
  [[nodiscard]] __device__ bool has(int i) const { return (valid >> i & 1u) != 0; }
};

/// `kGeneral`: elements may compare by magnitude.
template <class T, bool kGeneral = false>
class RowVectors {
 public:
  using Type = T;
  static constexpr int kVector = Vector<T>::kSize;

  __device__ RowVectors(const SelectArguments& args, std::int64_t row)
      : row_(static_cast<const T*>(args.input) + row * args.stride), cols_(args.cols), magnitude_(args.magnitude) {
    lead_ = static_cast<int>(reinterpret_cast<std::uintptr_t>(row_) % 16 / sizeof(T));
  }

  [[nodiscard]] __device__ const T* elements() const { return row_; }
  /// What stands for an element in comparisons.
  [[nodiscard]] __device__ T comparable(T raw) const { return kGeneral ? compared(raw, magnitude_) : raw; }
  [[nodiscard]] __device__ std::int64_t size() const { return (cols_ + lead_ + kVector - 1) / kVector; }
  /// The column of a vector's first element; negative if the first vector begins before the row.
  [[nodiscard]] __device__ std::int64_t column(std::int64_t vector) const { return vector * kVector - lead_; }
  /// True if all elements of these vectors exist.
  [[nodiscard]] __device__ bool are_whole(std::int64_t begin, std::int64_t end) const {
    return column(begin) >= 0 && column(end) <= cols_;
  }

  /// Loads the vectors first, first + step, ... before `end`. Without `kWhole` some elements may not exist.
  template <bool kWhole, int kLoads>
  [[nodiscard]] __device__ Load<T, kLoads> load(std::int64_t first, int step, std::int64_t end) const {
    static_assert(kLoads * kVector <= 32);
    Load<T, kLoads> loaded;
    if constexpr (kWhole) {
      loaded.valid = ~0u;
      const T* from = row_ + column(first);
#pragma unroll
      for (int l = 0; l < kLoads; ++l) {
        loaded.vector[l].bits = __ldg(reinterpret_cast<const uint4*>(from) + l * step);
      }
    } else {
      loaded.valid = 0;
#pragma unroll
      for (int l = 0; l < kLoads; ++l) {
        const std::int64_t vector = first + l * step;
        loaded.vector[l].bits = uint4{};
        if (vector >= end) continue;
        loaded.valid |= load_edge(row_, cols_, column(vector), loaded.vector[l]) << (l * kVector);
      }
    }
    return loaded;
  }

 private:
  static __device__ std::uint32_t load_edge(const T* row, std::int64_t cols, std::int64_t column, Vector<T>& vector) {
    if (column >= 0 && column + kVector <= cols) {
      vector.bits = __ldg(reinterpret_cast<const uint4*>(row + column));
      return (1u << kVector) - 1u;
    }
    std::uint32_t valid = 0;
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      if (column + j >= 0 && column + j < cols) {
        vector.raw[j] = row[column + j];
        valid |= 1u << j;
      }
    }
    return valid;
  }

  const T* row_;
  std::int64_t cols_;
  int lead_;  ///< Elements of the first vector that lie before the row.
  bool magnitude_;
};

/// Calls f(loaded) with this thread's share of the vectors [begin, end): kLoads vectors at a time, or one at the ends
/// of the row and of the range.
template <int kLoads, class Row, class F>
__device__ void for_loads(const Row& row, std::int64_t begin, std::int64_t end, F&& f) {
  const int threads = static_cast<int>(blockDim.x);
  const int tile = threads * kLoads;
  for (std::int64_t first = begin; first < end; first += tile) {
    if (first + tile <= end && row.are_whole(first, first + tile)) {
      f(row.template load<true, kLoads>(first + threadIdx.x, threads, end));
    } else {
#pragma unroll 1
      for (int l = 0; l < kLoads; ++l) f(row.template load<false, 1>(first + l * threads + threadIdx.x, threads, end));
    }
  }
}

}  // namespace rtopk::cuda
