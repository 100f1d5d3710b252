// cuda_block: the search for fallback rows and other code that few rows need. select.cuh handles the rest.
#pragma once

#include "core/search.hpp"
#include "cuda/select/block/threads.cuh"
#include "cuda/select/counting_search.cuh"

namespace rtopk::cuda {

/// Code that few rows need. It reads the row from shared memory again, in loops that are not unrolled, so that it takes
/// few registers from the fast search.
template <class T, int W>
class BlockSearch : BlockOfThreads<T, W> {
 public:
  using Config = BlockConfig<T, W>;
  using E = Element<T>;
  using Value = typename E::Value;
  using Real = typename E::Real;
  using Key = core::KeyOf<T>;

  struct Row {
    const T* elements;  ///< In shared memory.
    int cols;
    int k;
    bool smallest;
  };

  /// Inputs and outputs of these functions, in shared memory.
  struct Note {
    Learnt<Real> expected;
    Value neighbour;  ///< The largest element below a threshold.
    int nan;          ///< The number of NaNs in the row.
    int passes;
    Key hint;  ///< The kth value of the last fallback row, which rows with many equal values often share.
  };

  /// The exact search by directed keys of the original bits. Returns one bit for each selected element of the thread.
  static __device__ unsigned choose(Row row, std::uint16_t* list, int* partials, Note* note) {
    return BlockSearch(row, list, partials).choose(note);
  }

  /// All elements at or above `high`, if there is one, and the first `quota` of those equal to `kth`.
  static __device__ unsigned choose_ties(Row row, std::uint16_t* list, int* partials, Value kth, Value high,
                                         bool has_high, int quota) {
    unsigned chosen = 0;
    unsigned tied = 0;
    BlockSearch search(row, list, partials);
#pragma unroll 1
    for (int r = 0; r < Config::kElements; ++r) {
      if (col_of(r) >= row.cols) continue;
      const Value x = search.value(col_of(r));
      chosen |= has_high && E::at_least(x, high) ? 1u << r : 0u;
      tied |= x == kth ? 1u << r : 0u;
    }
    return chosen | search.first_in_index_order(tied, quota);
  }

  /// Finds the kth value that a normally distributed row with this row's moments would have.
  static __device__ void expect(Row row, std::uint16_t* list, int* partials, const Expectation& expectation,
                                Note* note) {
    BlockSearch search(row, list, partials);
    Real totals[2] = {0, 0};
    int finite = 0;
#pragma unroll 2
    for (int col = static_cast<int>(threadIdx.x); col < row.cols; col += Config::kThreads) {
      const Value x = search.value(col);
      if (E::is_finite(x)) {
        ++finite;
        totals[0] += E::real(x);
        totals[1] += E::real(x) * E::real(x);
      }
    }
    auto* sums = reinterpret_cast<Real*>(list);
    totals[0] = Warp::sum_reals(totals[0]);
    totals[1] = Warp::sum_reals(totals[1]);
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
      sums[warp()] = totals[0];
      sums[W + warp()] = totals[1];
    }
    const int number = search.sum(finite);  // includes a barrier
    if (threadIdx.x == 0) {
#pragma unroll 1
      for (int w = 1; w < W; ++w) {
        sums[0] += sums[w];
        sums[W] += sums[W + w];
      }
      note->expected = expected_from(expectation, sums[0], sums[W], static_cast<float>(number));
    }
    __syncthreads();
  }

  /// Finds the largest element below `high`, or of all elements.
  static __device__ void find_neighbour(Row row, std::uint16_t* list, int* partials, Value high, bool has_high,
                                        Note* note) {
    BlockSearch search(row, list, partials);
    Value greatest = E::least();
    int nan = 0;
#pragma unroll 2
    for (int col = static_cast<int>(threadIdx.x); col < row.cols; col += Config::kThreads) {
      const Value x = search.value(col);
      nan += E::is_nan(x) ? 1 : 0;
      greatest = (x < high || !has_high) && x > greatest ? x : greatest;
    }
    using SortKey = typename E::SortKey;
    auto* keys = reinterpret_cast<SortKey*>(list);
    const SortKey of_warp = Warp::greatest(E::sort_key(greatest));
    __syncthreads();
    if (threadIdx.x % 32 == 0) keys[warp()] = of_warp;
    const int number = search.sum(nan);  // includes a barrier
    if (threadIdx.x == 0) {
#pragma unroll 1
      for (int w = 1; w < W; ++w) keys[0] = max(keys[0], keys[w]);
      note->neighbour = E::from_sort_key(keys[0]);
      note->nan = number;
    }
    __syncthreads();
  }

 private:
  using Base = BlockOfThreads<T, W>;
  using Base::col_of;
  using Base::first_in_index_order;
  using Base::list_;
  using Base::sum;
  using Base::warp;
  using Warp = LaneGroup<32>;

  __device__ BlockSearch(const Row& row, std::uint16_t* list, int* partials) : Base(list, partials), row_(row) {}

  __device__ Value value(int col) const {
    const Value x = E::value(row_.elements[col]);
    return row_.smallest ? E::reversed(x) : x;
  }

  template <class F>
  __device__ void for_each_key(F f) const {
#pragma unroll 1
    for (int col = static_cast<int>(threadIdx.x); col < row_.cols; col += Config::kThreads) {
      f(directed_key(row_.elements[col], row_.smallest));
    }
  }

  /// The smallest and the largest key over the block, for every thread.
  __device__ void extremes(Key& least, Key& greatest) {
    auto* partials = reinterpret_cast<Key*>(list_);
    least = Warp::least(least);
    greatest = Warp::greatest(greatest);
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
      partials[warp()] = least;
      partials[W + warp()] = greatest;
    }
    __syncthreads();
#pragma unroll 1
    for (int w = 0; w < W; ++w) {
      least = min(least, partials[w]);
      greatest = max(greatest, partials[W + w]);
    }
    __syncthreads();
  }

  __device__ unsigned choose(Note* note) {
    __syncthreads();  // before this, others may still read partial sums of the fast search
    const Key hint = note->hint;
    core::ThresholdSearch<Key> search({0, core::max_key<T>, row_.cols, 0}, row_.k);
    // ThresholdSearch keeps the kth value in its bracket. Proposals affect only how fast that shrinks.
    for (int pass = 0; !search.done(); ++pass) {
      if (search.is_stuck() || pass == 2) {
        const core::Bracket<Key> bracket = search.bracket();
        Key least = bracket.high;
        Key greatest = bracket.low;
        for_each_key([&](Key key) {
          if (key >= bracket.low && key <= bracket.high) {
            least = min(least, key);
            greatest = max(greatest, key);
          }
        });
        extremes(least, greatest);
        search.narrow(least, greatest);
        if (search.done()) break;
      }
      const core::Bracket<Key> bracket = search.bracket();
      Key proposal = static_cast<Key>(bracket.low + (bracket.high - bracket.low) / 2 + 1);
      if (pass == 0) proposal = hint;
      if (pass == 1 && hint < core::max_key<T>) proposal = static_cast<Key>(hint + 1);
      const Key probe = search.probe(proposal);
      int counted = 0;
      for_each_key([&](Key key) { counted += key >= probe ? 1 : 0; });
      search.record(probe, sum(counted));
    }
    const core::Threshold<Key> kth = search.result();
    __syncthreads();
    if (threadIdx.x == 0) {
      note->hint = kth.key;
      note->passes = kth.passes;
    }
    __syncthreads();
    unsigned chosen = 0;
    unsigned tied = 0;
#pragma unroll 1
    for (int chunk = 0; chunk < Config::kChunks; ++chunk) {
#pragma unroll
      for (int j = 0; j < Config::kVector; ++j) {
        const int col = col_of(chunk, j);
        if (col < row_.cols) {
          const Key key = directed_key(row_.elements[col], row_.smallest);
          const unsigned bit = 1u << (chunk * Config::kVector + j);
          chosen |= key > kth.key ? bit : 0u;
          tied |= key == kth.key ? bit : 0u;
        }
      }
    }
    if (kth.count == row_.k) return chosen | tied;
    return chosen | first_in_index_order(tied, row_.k - static_cast<int>(kth.count_above));
  }

  Row row_;
};

}  // namespace rtopk::cuda
