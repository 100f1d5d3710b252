// A row in shared memory, or a part of one. It lies there as in global memory, copied as aligned vectors of 16 bytes,
// so its first element may be anywhere in the first vector.
#pragma once

#include <cstdint>

#include "cuda/runtime/bulk_copy.cuh"
#include "cuda/select/arguments.hpp"
#include "cuda/select/element.cuh"
#include "plan/select/tuning_block.hpp"

namespace rtopk::cuda {

/// Elements are numbered from the beginning of the first vector: the row is numbers begin() to end().
template <class T>
class BlockRow {
 public:
  static constexpr int kVector = BlockConfig<T>::kVector;

  /// The columns from `first` on, `cols` of them.
  __device__ BlockRow(const SelectArguments& args, std::int64_t row, int first, int cols, char* shared)
      : from_(static_cast<const T*>(args.input) + row * args.stride + first),
        elements_(reinterpret_cast<T*>(shared)),
        first_(first) {
    begin_ = static_cast<int>(reinterpret_cast<std::uintptr_t>(from_) % 16 / sizeof(T));
    end_ = begin_ + cols;
    begins_outside_ = row == 0 && first == 0 && begin_ > 0;
    ends_outside_ = row == args.rows - 1 && first + cols == static_cast<int>(args.cols) && end_ % kVector != 0;
  }

  [[nodiscard]] __device__ int begin() const { return begin_; }
  [[nodiscard]] __device__ int end() const { return end_; }
  [[nodiscard]] __device__ int column(int number) const { return first_ + number - begin_; }
  [[nodiscard]] __device__ T* elements() const { return elements_; }

  /// Starts to copy the row, but for its ends. Vectors are copied whole, because what lies around a row is mostly other
  /// rows. Called as BulkCopy::start.
  __device__ void fetch(const BulkCopy& copy, bool spares_cache) const {
    const T* from = from_ - begin_;
    const int first = begins_outside_ ? 1 : 0;
    const int last = (ends_outside_ ? end_ : end_ + kVector - 1) / kVector;
    if (spares_cache) {
      copy.start<true>(elements_ + first * kVector, from + first * kVector, max(last - first, 0));
    } else {
      copy.start<false>(elements_ + first * kVector, from + first * kVector, max(last - first, 0));
    }
  }

  /// The first vector of the matrix and the last one may reach outside of it: they are copied element by element. All
  /// threads call this.
  __device__ void fetch_ends() const {
    const T* from = from_ - begin_;
    const int number = static_cast<int>(threadIdx.x);
    if ((begins_outside_ || ends_outside_) && number < kVector) {
      if (begins_outside_ && number >= begin_ && number < end_) elements_[number] = from[number];
      const int of_last = end_ / kVector * kVector + number;
      if (ends_outside_ && of_last >= begin_ && of_last < end_) elements_[of_last] = from[of_last];
    }
  }

 private:
  const T* from_;
  T* elements_;
  int first_;
  int begin_;
  int end_;
  bool begins_outside_;
  bool ends_outside_;
};

}  // namespace rtopk::cuda
