// Marks of a part's columns, one bit each, in shared memory. They tell how many marked columns come before a column. So
// elements found in any order are written in index order, the same in every run.
#pragma once

#include <cstdint>

#include "cuda/select/cluster/sums.cuh"
#include "plan/select/tuning_cluster.hpp"

namespace rtopk::cuda {

class ColumnMarks {
 public:
  __device__ ColumnMarks(char* memory, int cols)
      : before_(reinterpret_cast<int*>(memory)),
        words_(reinterpret_cast<std::uint32_t*>(memory) + kClusterThreads),
        number_((cols + 31) / 32) {
    log_each_ = 32 - __clz((number_ - 1) / kClusterThreads);
  }

  /// Needs a barrier before and after it, as set() does.
  __device__ void clear() {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < number_; i += kClusterThreads) words_[i] = 0;
  }

  __device__ void set(int column) { atomicOr(words_ + column / 32, 1u << (column % 32)); }

  /// Call it once all marks are set, before `rank`. Includes its barriers.
  __device__ void count(BlockSums& sums) {
    __syncthreads();
    int mine = 0;
#pragma unroll 1
    for (int i = first(); i < last(); ++i) mine += __popc(words_[i]);
    before_[threadIdx.x] = sums.before(mine).before;
    __syncthreads();
  }

  /// How many marks are before this column.
  [[nodiscard]] __device__ int rank(int column) const {
    const int word = column / 32;
    const int chunk = word >> log_each_;
    int marks = before_[chunk] + __popc(words_[word] & ((1u << (column % 32)) - 1u));
#pragma unroll 1
    for (int i = chunk << log_each_; i < word; ++i) marks += __popc(words_[i]);
    return marks;
  }

 private:
  [[nodiscard]] __device__ int first() const { return static_cast<int>(threadIdx.x) << log_each_; }
  [[nodiscard]] __device__ int last() const { return min(first() + (1 << log_each_), number_); }

  int* before_;  ///< Marks before each thread's words.
  std::uint32_t* words_;
  int number_;
  int log_each_;  ///< log2 of the words of a thread.
};

}  // namespace rtopk::cuda
