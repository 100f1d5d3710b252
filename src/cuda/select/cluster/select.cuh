// cuda_cluster: few long rows. The blocks of a cluster share a row; each has a part of it.
//
// A filter threshold comes from a sample of the whole row, so that a little more than k elements reach it for every
// distribution and order. Every block reads its part once, lists the elements above the filter threshold and counts
// those equal to it. Then each block reads the lists of all, finds the kth value of the row, and writes the selected
// elements of its own part. So blocks wait for each other only once, for the lists.
//
// The first tiles of the part are copied while the sample is drawn. Rarely used code is kept short: a kernel that runs
// once must fetch its code too.
#pragma once

#include "cuda/runtime/cluster.cuh"
#include "cuda/select/block_sums.cuh"
#include "cuda/select/candidate_search.cuh"
#include "cuda/select/cluster/arguments.hpp"
#include "cuda/select/cluster/kth.cuh"
#include "cuda/select/cluster/marks.cuh"
#include "cuda/select/cluster/part.cuh"
#include "cuda/select/cluster/sample.cuh"
#include "cuda/select/cluster/sums.cuh"
#include "cuda/select/cluster/threshold.cuh"
#include "cuda/select/result_row.cuh"
#include "cuda/select/row_vectors.cuh"
#include "plan/select/tuning_cluster.hpp"

namespace rtopk::cuda {

/// What the threads of a block share. Other blocks of the cluster read the fields marked so.
template <class Key>
struct ClusterState {
  int listed;        ///< Elements above the filter threshold, also those that found no room. Read by others.
  int reaching;      ///< Elements at or above it. Read by others.
  int counts[2][8];  ///< Elements at or above each of several thresholds, two sets in alternation. Read by others.
  int above_before;  ///< Elements of the parts before this one that are above the kth value,
  int ties_before;   ///< and those equal to it;
  int ties;          ///< elements of this part equal to it.
  BlockSums::Memory sums;
  Key filter_threshold;
  Key greatest[kClusterWarps];      ///< The largest key that a warp has seen.
  Key of_numbers[kClusterThreads];  ///< The sample of the row.
};

template <class T>
class ClusterSelect {
 public:
  using Config = ClusterConfig<T>;
  using Order = ClusterKey<T>;
  using Key = typename Order::Key;
  using State = ClusterState<Key>;
  using Warp = LaneGroup<32>;
  static_assert(sizeof(State) <= Config::kStateBytes);

  __device__ ClusterSelect(const ClusterArguments& args, char* shared)
      : args_(args),
        log_parts_(log_of(args.parts)),
        number_(blockIdx.x >> log_parts_),
        block_(static_cast<int>(blockIdx.x) & (args.parts - 1)),
        part_(args, number_, block_, log_parts_, shared + Config::tiles_at(args.list_capacity)),
        state_(*reinterpret_cast<State*>(shared)),
        raws_(reinterpret_cast<T*>(shared + Config::raws_at())),
        columns_(reinterpret_cast<int*>(shared + Config::columns_at(args.list_capacity))),
        keys_(reinterpret_cast<Key*>(shared + Config::keys_at(args.list_capacity))),
        sums_(state_.sums) {}

  __device__ void run(char* shared) {
    const bool writes_rows = args_.form == Form::dense || args_.form == Form::mask;
    Key filter_threshold = first_threshold();
    if (writes_rows) clear_row();
    int passes = 0;
    Counted counted;
#pragma unroll 1
    while (true) {
      counted = list(filter_threshold);
      ++passes;
      if (counted.reaching >= args_.k && counted.above <= args_.list_capacity) break;
      filter_threshold = better_threshold(filter_threshold, counted, passes);
      part_.fetch_first();
    }
    ColumnMarks marks(shared + Config::marks_at(args_.list_capacity), part_.cols());
    int listed = state_.listed;
    Share share;
    if (counted.above >= args_.k) {
      marks.clear();
      share = share_of_lists(counted, filter_threshold);
      if (args_.parts > 1) cluster_leave();
      if (share.quota < share.ties) drop_ties(marks, share.least, listed, share.quota);
    } else {
      share = share_of_ties(counted, filter_threshold);
      if (args_.parts > 1) cluster_leave();
      list_ties(filter_threshold, listed, share.quota);
      listed += share.quota;
      marks.clear();
      __syncthreads();
    }
    if (writes_rows) {
      scatter(share.least, listed);
    } else {
      write(marks, share.least, listed, share.first_result);
    }
    if (args_.passes != nullptr && block_ == 0 && threadIdx.x == 0) args_.passes[number_] = passes;
    if (args_.parts > 1) cluster_wait();
  }

 private:
  /// Counts over the whole row, and over the parts before this one.
  struct Counted {
    int above;
    int reaching;
    int above_before;
    int reaching_before;
    int first_there;  ///< Offset of the list that this warp copies, if all lists were concatenated,
    int above_there;  ///< and its length.
  };

  /// What of this part is selected: all above the kth value, and the first `quota` of its `ties`.
  struct Share {
    Key least;  ///< The smallest selected key.
    int ties;
    int quota;
    int first_result;
  };

  static constexpr int kDropped = -1;

  static __device__ int log_of(int power) { return __ffs(power) - 1; }
  __device__ Key key_of(T raw) const { return Order::of(raw, args_.smallest); }

  /// A barrier of all threads of the cluster, or of the block if it is the only one.
  __device__ void meet() const {
    if (args_.parts > 1) {
      cluster_sync();
    } else {
      __syncthreads();
    }
  }

  /// The block whose list this warp reads. Each list is read by the same number of warps.
  __device__ int block_of_warp() const { return warp_number() & (args_.parts - 1); }

  /// Every block draws the same one.
  __device__ Key first_threshold() {
    const RowSample<T> sample(args_);
    state_.of_numbers[threadIdx.x] = sample.draw(part_);
    __syncthreads();
    if (warp_number() == 0) {
      const Key filter_threshold = sample.filter_threshold_of(state_.of_numbers);
      if (lane_number() == 0) {
        state_.filter_threshold = filter_threshold;
        state_.listed = 0;
        state_.reaching = 0;
      }
    }
    __syncthreads();
    return state_.filter_threshold;
  }

  /// Lists the elements above the filter threshold, in any order, and counts.
  __device__ Counted list(Key filter_threshold) {
    const QuickThreshold<T> quick(filter_threshold, args_.smallest);
    int reaching = 0;
    part_.for_ends([&](T raw, int column) {
      const Key key = key_of(raw);
      reaching += key >= filter_threshold ? 1 : 0;
      if (key > filter_threshold) put(atomicAdd(&state_.listed, 1), raw, column);
    });
    part_.for_tiles([&](int first, int tile_at) {
#pragma unroll
      for (int line = 0; line < Config::kLoads; ++line) {
        const int number = first + line * kClusterThreads + static_cast<int>(threadIdx.x);
        if (number >= part_.whole()) continue;
        Vector<T> vector;
        vector.bits = *reinterpret_cast<const uint4*>(part_.slot(tile_at, line));
        bool passes = false;
#pragma unroll
        for (int j = 0; j < Config::kVector; ++j) passes |= quick.passes(vector.raw[j]);
        if (!passes) continue;
        std::uint32_t above = 0;
#pragma unroll
        for (int j = 0; j < Config::kVector; ++j) {
          const Key key = key_of(vector.raw[j]);
          if (key >= filter_threshold) ++reaching;
          if (key > filter_threshold) above |= 1u << j;
        }
        if (above != 0) push(above, number, part_.slot(tile_at, line));
      }
      return true;
    });
    reaching = Warp::sum(reaching);
    if (lane_number() == 0) atomicAdd(&state_.reaching, reaching);
    meet();
    return counted();
  }

  __device__ void put(int at, T raw, int column) const {
    if (at >= args_.list_capacity) return;
    raws_[at] = raw;
    columns_[at] = column;
  }

  /// Reads elements from memory, because registers cannot be indexed.
  __device__ void push(std::uint32_t above, int vector, const char* from) const {
    int at = atomicAdd(&state_.listed, __popc(above));
#pragma unroll 1
    for (; above != 0; above &= above - 1u) {
      const int j = __ffs(static_cast<int>(above)) - 1;
      put(at++, reinterpret_cast<const T*>(from)[j], part_.column_of(vector, j));
    }
  }

  __device__ Counted counted() const {
    const int lane = lane_number();
    const bool exists = lane < args_.parts;
    const int above = exists ? *of_block(&state_.listed, lane) : 0;
    const int reaching = exists ? *of_block(&state_.reaching, lane) : 0;
    const int above_up_to = static_cast<int>(Warp::inclusive_sum(static_cast<std::uint32_t>(above)));
    const int reaching_up_to = static_cast<int>(Warp::inclusive_sum(static_cast<std::uint32_t>(reaching)));
    return {Warp::from_lane(above_up_to, 31),
            Warp::from_lane(reaching_up_to, 31),
            Warp::from_lane(above_up_to - above, block_),
            Warp::from_lane(reaching_up_to - reaching, block_),
            Warp::from_lane(above_up_to - above, block_of_warp()),
            Warp::from_lane(above, block_of_warp())};
  }

  /// A filter threshold that serves, after one that too few elements reached or too many exceeded. Counts several
  /// thresholds in each pass. Needed for about one row in a million (see cluster_sample).
  __device__ Key better_threshold(Key filter_threshold, const Counted& counted_before, int& passes) {
    constexpr int kThresholds = sizeof(T) == 8 ? 4 : 8;  // as many as there are registers for
    meet();                                              // all have read the counts
    // Invariant: low <= kth value <= high, and at_low elements reach `low`.
    Key low = 0;
    Key high = Order::kGreatest;
    std::int64_t at_low = args_.cols;
    if (counted_before.reaching < args_.k) {
      high = filter_threshold - 1;
    } else {
      low = filter_threshold + 1;
      at_low = counted_before.above;
    }
#pragma unroll 1
    for (int turn = 0; at_low > args_.list_capacity && low < high; turn ^= 1) {
      const Key first_key = low;
      const Key last_key = high;
      const Key step = max((last_key - first_key) / kThresholds, Key{1});
      const auto threshold = [&](int i) {
        return i == kThresholds - 1 ? last_key : first_key + min(step * static_cast<Key>(i + 1), last_key - first_key);
      };
      int mine[kThresholds] = {};
      const auto count = [&](T raw, int) {
        const Key key = key_of(raw);
#pragma unroll
        for (int i = 0; i < kThresholds; ++i) mine[i] += key >= threshold(i) ? 1 : 0;
      };
      part_.fetch_first();
      part_.for_ends(count);
      part_.for_tiles([&](int first, int tile_at) {
        part_.for_elements(first, tile_at, count);
        return true;
      });
#pragma unroll
      for (int i = 0; i < kThresholds; ++i) {
        const int sum = sums_.total(mine[i]);
        if (threadIdx.x == 0) state_.counts[turn][i] = sum;
      }
      meet();
      ++passes;
      // Counts fall as thresholds rise. All blocks read the same counts, so all get the same bounds.
#pragma unroll 1
      for (int i = 0; i < kThresholds; ++i) {
        const int there = lane_number() < args_.parts ? of_block(&state_.counts[turn][0], lane_number())[i] : 0;
        const int reaching = Warp::sum(there);
        if (reaching < args_.k) {
          high = threshold(i) - 1;
          break;
        }
        low = threshold(i);
        at_low = reaching;
      }
    }
    if (threadIdx.x == 0) {
      state_.listed = 0;
      state_.reaching = 0;
    }
    __syncthreads();
    return low;
  }

  __device__ Share share_of_lists(const Counted& counted, Key filter_threshold) {
    BlockThreshold<T> search(part_.tiles());
    search.prepare();
    if (threadIdx.x == 0) {
      state_.above_before = 0;
      state_.ties_before = 0;
      state_.ties = 0;
    }
    const T* there = of_block(raws_, block_of_warp());
    Key greatest = 0;
#pragma unroll 4
    for (int i = (warp_number() >> log_parts_) * 32 + lane_number(); i < counted.above_there;
         i += kClusterThreads >> log_parts_) {
      const Key key = key_of(there[i]);
      keys_[counted.first_there + i] = key;
      greatest = max(greatest, key);
    }
    greatest = Warp::greatest(greatest);
    if (lane_number() == 0) state_.greatest[warp_number()] = greatest;
    __syncthreads();
    greatest = Warp::greatest(lane_number() < kClusterWarps ? state_.greatest[lane_number()] : Key{0});
    const CandidateThreshold<Key> kth =
        search.find(keys_, counted.above, static_cast<int>(args_.k), filter_threshold + 1, greatest);

    const int first = counted.above_before;
    const int last = first + state_.listed;
    int above_before = 0;
    int ties_before = 0;
    int ties = 0;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < last; i += kClusterThreads) {
      const Key key = keys_[i];
      above_before += i < first && key > kth.edge ? 1 : 0;
      ties_before += i < first && key == kth.edge ? 1 : 0;
      ties += i >= first && key == kth.edge ? 1 : 0;
    }
    above_before = Warp::sum(above_before);
    ties_before = Warp::sum(ties_before);
    ties = Warp::sum(ties);
    if (lane_number() == 0) {
      atomicAdd(&state_.above_before, above_before);
      atomicAdd(&state_.ties_before, ties_before);
      atomicAdd(&state_.ties, ties);
    }
    __syncthreads();
    return share_of(kth, state_.above_before, state_.ties_before, state_.ties);
  }

  /// The filter threshold itself is the kth value.
  __device__ Share share_of_ties(const Counted& counted, Key filter_threshold) const {
    return share_of({filter_threshold, static_cast<int>(args_.k) - counted.above, 0}, counted.above_before,
                    counted.reaching_before - counted.above_before, state_.reaching - state_.listed);
  }

  static __device__ Share share_of(const CandidateThreshold<Key>& kth, int above_before, int ties_before, int ties) {
    if (kth.quota == 0) return {kth.edge + 1, 0, 0, above_before};
    return {kth.edge, ties, min(max(kth.quota - ties_before, 0), ties), above_before + min(ties_before, kth.quota)};
  }

  [[nodiscard]] __device__ bool is_chosen(int i, Key least) const {
    return key_of(raws_[i]) >= least && columns_[i] != kDropped;
  }

  /// Appends to the list the first `quota` elements of the part that equal the filter threshold. Reads the part once
  /// more, as far as needed.
  __device__ void list_ties(Key filter_threshold, int listed, int quota) {
    if (quota == 0) return;
    part_.fetch_first();
    int found = 0;
    // Each thread has one vector or one element; they are in the order of the threads.
    const auto list_line = [&](int number, const T* elements, int column) {
      int equal = 0;
#pragma unroll 1
      for (int j = 0; j < number; ++j) equal += key_of(elements[j]) == filter_threshold ? 1 : 0;
      const BlockSums::Sums sums = sums_.before(equal);
      int at = found + sums.before;
      found += sums.total;
#pragma unroll 1
      for (int j = 0; equal > 0 && at < quota; ++j) {
        if (key_of(elements[j]) != filter_threshold) continue;
        put(listed + at, elements[j], column + j);
        ++at;
        --equal;
      }
    };
    const auto list_ends = [&](int first, int last) {
      const int column = first + static_cast<int>(threadIdx.x);
      list_line(column < last ? 1 : 0, part_.elements() + column, column);
    };
    list_ends(0, part_.head());
    part_.for_tiles([&](int first, int tile_at) {
#pragma unroll 1
      for (int line = 0; line < Config::kLoads; ++line) {
        const int vector = first + line * kClusterThreads + static_cast<int>(threadIdx.x);
        list_line(vector < part_.whole() ? Config::kVector : 0, reinterpret_cast<const T*>(part_.slot(tile_at, line)),
                  part_.column_of(vector, 0));
      }
      return found < quota;
    });
    list_ends(part_.head() + part_.whole() * Config::kVector, part_.cols());
    __syncthreads();
  }

  /// Drops all but the first `quota` of the ties from the list. The marks are clear before and after.
  __device__ void drop_ties(ColumnMarks& marks, Key edge, int listed, int quota) {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < listed; i += kClusterThreads) {
      if (key_of(raws_[i]) == edge) marks.set(columns_[i]);
    }
    marks.count(sums_);
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < listed; i += kClusterThreads) {
      if (key_of(raws_[i]) == edge && marks.rank(columns_[i]) >= quota) columns_[i] = kDropped;
    }
    __syncthreads();
    marks.clear();
    __syncthreads();
  }

  /// Writes the results in index order.
  __device__ void write(ColumnMarks& marks, Key least, int listed, int first_result) {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < listed; i += kClusterThreads) {
      if (is_chosen(i, least)) marks.set(columns_[i]);
    }
    marks.count(sums_);
    const ResultRow<T> result(args_, number_);
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < listed; i += kClusterThreads) {
      if (!is_chosen(i, least)) continue;
      const int column = columns_[i];
      result.write(first_result + marks.rank(column), raws_[i], part_.first_col() + column);
    }
  }

  /// Writes the selected elements of the dense form or the mask. The rest is zero already.
  __device__ void scatter(Key least, int listed) const {
    const std::int64_t first = number_ * args_.cols + part_.first_col();
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < listed; i += kClusterThreads) {
      if (!is_chosen(i, least)) continue;
      if (args_.form == Form::dense) {
        static_cast<T*>(args_.dense)[first + columns_[i]] = raws_[i];
      } else {
        args_.mask[first + columns_[i]] = 1;
      }
    }
  }

  /// Zeroes this part of the dense form or the mask.
  __device__ void clear_row() const {
    const std::int64_t first = number_ * args_.cols + part_.first_col();
    const bool dense = args_.form == Form::dense;
    char* to = dense ? reinterpret_cast<char*>(static_cast<T*>(args_.dense) + first)
                     : reinterpret_cast<char*>(args_.mask + first);
    const int bytes = dense ? part_.cols() * static_cast<int>(sizeof(T)) : part_.cols();
    const int head = min(bytes, static_cast<int>(-reinterpret_cast<std::uintptr_t>(to) % 16));
    const int vectors = (bytes - head) / 16;
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < head) to[thread] = 0;
#pragma unroll 4
    for (int i = thread; i < vectors; i += kClusterThreads) reinterpret_cast<uint4*>(to + head)[i] = uint4{};
    if (head + vectors * 16 + thread < bytes) to[head + vectors * 16 + thread] = 0;
  }

  const ClusterArguments& args_;
  int log_parts_;
  std::int64_t number_;  ///< Index of the row.
  int block_;            ///< Index of this block in the cluster.
  ClusterPart<T> part_;
  State& state_;
  T* raws_;       ///< The list: elements,
  int* columns_;  ///< and their columns, counted from the part's first.
  Key* keys_;     ///< Keys of all lists.
  BlockSums sums_;
};

template <class T>
__global__ void __launch_bounds__(kClusterThreads, kClusterBlocksPerMultiprocessor)
    cluster_kernel(const __grid_constant__ ClusterArguments args) {
  extern __shared__ __align__(16) char shared[];
  ClusterSelect<T>(args, shared).run(shared);
}

}  // namespace rtopk::cuda
