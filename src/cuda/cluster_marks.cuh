// Marks of columns of a part, a bit for each, in shared memory: how many are before a column. So what was found in any order
// is put in the order of its columns, the same in every run.
#pragma once

#include <cstdint>

#include "cluster_shape.hpp"
#include "row_block.cuh"

namespace rtopk::cuda {

class ColumnMarks {
 public:
  __device__ ColumnMarks(char* memory, int cols)
      : before_(reinterpret_cast<int*>(memory)),
        words_(reinterpret_cast<std::uint32_t*>(memory) + kClusterThreads),
        number_((cols + 31) / 32),
        each_((number_ + kClusterThreads - 1) / kClusterThreads) {}

  /// Between barriers, as all that follow.
  __device__ void clear() {
    for (int i = static_cast<int>(threadIdx.x); i < number_; i += kClusterThreads) words_[i] = 0;
  }

  __device__ void set(int column) { atomicOr(words_ + column / 32, 1u << (column % 32)); }

  /// Once all are set: makes `rank` known. Has barriers of its own.
  __device__ void count(BlockScratch& scratch) {
    __syncthreads();
    int mine = 0;
    for (int i = first(); i < last(); ++i) mine += __popc(words_[i]);
    before_[threadIdx.x] = static_cast<int>(block_sum_before(mine, scratch));
    __syncthreads();
  }

  /// How many marks are before this column.
  [[nodiscard]] __device__ int rank(int column) const {
    const int word = column / 32;
    const int chunk = word / each_;
    int marks = before_[chunk] + __popc(words_[word] & ((1u << (column % 32)) - 1u));
    for (int i = chunk * each_; i < word; ++i) marks += __popc(words_[i]);
    return marks;
  }

  /// Calls f(rank, column) for the first `quota` marks.
  template <class F>
  __device__ void for_first(int quota, F f) const {
    int rank = before_[threadIdx.x];
    for (int i = first(); i < last() && rank < quota; ++i) {
      for (std::uint32_t bits = words_[i]; bits != 0 && rank < quota; bits &= bits - 1u) {
        f(rank, i * 32 + __ffs(static_cast<int>(bits)) - 1);
        ++rank;
      }
    }
  }

 private:
  [[nodiscard]] __device__ int first() const { return static_cast<int>(threadIdx.x) * each_; }
  [[nodiscard]] __device__ int last() const { return min(first() + each_, number_); }

  int* before_;  ///< Of each thread's words.
  std::uint32_t* words_;
  int number_;
  int each_;  ///< Words of a thread.
};

}  // namespace rtopk::cuda
