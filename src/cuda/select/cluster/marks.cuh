// Marks of a part's columns, one bit each, in shared memory. They tell how many marked columns come before a column. So
// elements found in any order are written in index order, the same in every run.
#pragma once

#include <cstdint>

#include "cuda/select/cluster/sums.cuh"

namespace rtopk::cuda {

class ColumnMarks {
 public:
  __device__ ColumnMarks(char* memory, int cols)
      : words_(reinterpret_cast<std::uint32_t*>(memory)),
        before_(reinterpret_cast<std::uint16_t*>(words_ + (cols + 31) / 32)),
        number_((cols + 31) / 32) {}

  /// Needs a barrier before and after it, as set() does.
  __device__ void clear() {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < number_; i += static_cast<int>(blockDim.x)) words_[i] = 0;
  }

  __device__ void set(unsigned column) { atomicOr(words_ + column / 32, 1u << (column % 32)); }

  /// Call it once all marks are set, before `rank`. Includes its barriers.
  __device__ void count(BlockSums& sums) {
    __syncthreads();
    // An odd number of words for each thread: no bank conflicts.
    const int threads = static_cast<int>(blockDim.x);
    const int each = (number_ + threads - 1) / threads | 1;
    const int first = static_cast<int>(threadIdx.x) * each;
    const int last = min(first + each, number_);
    int mine = 0;
#pragma unroll 1
    for (int i = first; i < last; ++i) mine += __popc(words_[i]);
    int before = sums.before(mine).before;
#pragma unroll 1
    for (int i = first; i < last; ++i) {
      before_[i] = static_cast<std::uint16_t>(before);
      before += __popc(words_[i]);
    }
    __syncthreads();
  }

  /// How many marks are before this column.
  [[nodiscard]] __device__ int rank(unsigned column) const {
    const unsigned word = column / 32;
    return before_[word] + __popc(words_[word] & ((1u << (column % 32)) - 1u));
  }

 private:
  std::uint32_t* words_;
  std::uint16_t* before_;  ///< Marks before each word.
  int number_;
};

}  // namespace rtopk::cuda
