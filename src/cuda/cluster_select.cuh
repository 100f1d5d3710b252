// cuda_cluster: few long rows. The blocks of a cluster share a row, each has a part of it.
//
// A bar is drawn from a sample of the whole row, so that a little more than k elements reach it whatever their distribution
// and their order. Every block reads its part once, lists what is above the bar and counts what is equal to it. Then each of
// them reads the lists of all, finds the row's border, and writes what its own part has of the result: only the sample and
// the lists have to be waited for.
#pragma once

#include "cluster.cuh"
#include "cluster_marks.cuh"
#include "cluster_shape.hpp"
#include "filter_bar.cuh"
#include "filter_border.cuh"
#include "result_row.cuh"
#include "row_block.cuh"
#include "row_vectors.cuh"

namespace rtopk::cuda {

/// Directed keys. Those of elements of 16 bits are made from floats, which is quicker.
template <class T>
struct ClusterKey {
  using Wide = std::conditional_t<sizeof(T) == 2, float, T>;
  using Key = typename FilterKey<Wide>::Key;
  static constexpr Key kGreatest = FilterKey<Wide>::kGreatest;
  static __device__ Key of(T raw, bool smallest) { return FilterKey<Wide>::of(Element<T>::value(raw), smallest); }
};

/// What a block's threads find out together; the others of the cluster read of it what is said.
template <class Key>
struct ClusterState {
  int listed;                        ///< Elements above the bar, whether the list had room or not. Read by others.
  int reaching;                      ///< Elements at or above it. Read by others.
  int counts[2][8];                  ///< Elements at or above each of several thresholds, in turn. Read by others.
  int first[kClusterMostParts + 1];  ///< Where the lists of all blocks begin if they lie side by side.
  Key bar;
  Key partials[2][kClusterWarps];
  BlockScratch sums;
};

/// Keys in shared memory, searched by the whole block: what find_border wants.
template <class T>
class KeysOfBlock {
 public:
  using Element = typename ClusterKey<T>::Wide;
  using Key = typename ClusterKey<T>::Key;
  using Warp = LaneGroup<32>;

  __device__ KeysOfBlock(const Key* keys, int number, ClusterState<Key>& state)
      : keys_(keys), number_(number), state_(state) {}

  __device__ int count(Key threshold) const {
    int mine = 0;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < number_; i += kClusterThreads)
      mine += keys_[i] >= threshold ? 1 : 0;
    return sum(mine);
  }
  __device__ Key greatest_up_to(Key bound) const {
    Key greatest = 0;
    for (int i = static_cast<int>(threadIdx.x); i < number_; i += kClusterThreads) {
      const Key key = keys_[i];
      greatest = key <= bound && key > greatest ? key : greatest;
    }
    return Warp::greatest(shared(Warp::greatest(greatest)));
  }
  __device__ int sum(int x) const { return Warp::sum(static_cast<int>(shared(static_cast<Key>(Warp::sum(x))))); }

 private:
  /// Every warp brings a number; a lane gets one of them, or 0. Two sets in turn, so that one barrier is enough.
  __device__ Key shared(Key of_warp) const {
    Key* partials = state_.partials[turn_ ? 1 : 0];
    turn_ = !turn_;
    if (lane_number() == 0) partials[warp_number()] = of_warp;
    __syncthreads();
    return lane_number() < kClusterWarps ? partials[lane_number()] : Key{0};
  }

  const Key* keys_;
  int number_;
  ClusterState<Key>& state_;
  mutable bool turn_ = false;
};

template <class T>
class ClusterSelect {
 public:
  using Shape = ClusterShape<T>;
  using Order = ClusterKey<T>;
  using Key = typename Order::Key;
  using State = ClusterState<Key>;
  using Warp = LaneGroup<32>;
  using Loaded = Load<T, Shape::kLoads>;
  static_assert(sizeof(State) <= Shape::kStateBytes);

  __device__ ClusterSelect(const Call& call, char* shared)
      : call_(call),
        number_(blockIdx.x / call.parts),
        block_(static_cast<int>(blockIdx.x % call.parts)),
        row_(call, number_),
        begin_(static_cast<int>(row_.size() * block_ / call.parts)),
        end_(static_cast<int>(row_.size() * (block_ + 1) / call.parts)),
        first_col_(static_cast<int>(max(row_.column(begin_), std::int64_t{0}))),
        cols_(max(static_cast<int>(min(row_.column(end_), call.cols)) - first_col_, 0)),
        state_(*reinterpret_cast<State*>(shared)),
        raws_(reinterpret_cast<T*>(shared + Shape::raws_at())),
        columns_(reinterpret_cast<int*>(shared + Shape::columns_at(call.list_capacity))),
        scratch_(shared + Shape::scratch_at(call.list_capacity)) {}

  __device__ void run() {
    const Key drawn = draw();
    if (threadIdx.x == 0) read_ahead(begin_, begin_ + Shape::kTilesAhead * Shape::kTile);
    const bool writes_rows = call_.form == Form::dense || call_.form == Form::mask;
    if (writes_rows) clear_row();
    keys()[threadIdx.x] = drawn;
    cluster_sync();
    Key bar = first_bar();
    Counted counted = list(bar);
    int passes = 1;
    if (counted.reaching < call_.k || counted.above > call_.list_capacity) {
      bar = better_bar(bar, counted, passes);
      counted = list(bar);
      ++passes;
    }
    const bool in_lists = counted.above >= call_.k;
    const Share share = in_lists ? share_of_lists(counted, bar) : share_of_ties(counted, bar);
    cluster_leave();
    int listed = state_.listed;
    ColumnMarks marks(scratch_, cols_);
    if (!in_lists) {
      listed = list_ties(marks, bar, listed, share.quota);
    } else if (share.quota < share.ties) {
      drop_ties(marks, share.least, listed, share.quota);
    }
    if (writes_rows) {
      __syncthreads();
      scatter(share.least, listed);
    } else {
      write(marks, share.least, listed, share.first_result);
    }
    if (call_.passes != nullptr && block_ == 0 && threadIdx.x == 0) call_.passes[number_] = passes;
    cluster_wait();
  }

 private:
  /// Of the whole row, and of the parts before this one.
  struct Counted {
    int above;
    int reaching;
    int above_before;
    int reaching_before;
  };

  /// What of this part is selected: all above the border, and the first `quota` of its `ties`.
  struct Share {
    Key least;  ///< The least key that is selected.
    int ties;
    int quota;
    int first_result;
  };

  static constexpr int kDropped = -1;

  __device__ Key* keys() const { return reinterpret_cast<Key*>(scratch_); }
  __device__ Key key_of(T raw) const { return Order::of(raw, call_.smallest); }

  /// The greatest of this thread's samples: one of each piece of the part, at a place that no period of the row meets.
  __device__ Key draw() const {
    constexpr int kMost = 1 << kClusterMostLogSamples;
    constexpr std::uint32_t kScatter = 40503;  // times a piece's number, of 16 bits: spread evenly, without a period
    if (cols_ == 0) return 0;
    const int samples = 1 << call_.log_samples;
    T raws[kMost];
#pragma unroll
    for (int s = 0; s < kMost; ++s) {
      const auto piece = static_cast<std::uint32_t>(s * kClusterThreads) + threadIdx.x;
      const std::uint32_t place = (piece + static_cast<std::uint32_t>(block_)) * kScatter % 65536;
      const std::uint64_t share = piece * 65536ull + place;  // of 2^24 << log_samples
      const auto column = static_cast<int>(share * static_cast<std::uint32_t>(cols_) >> (24 + call_.log_samples));
      if (s < samples) raws[s] = row_.elements()[first_col_ + column];
    }
    Key greatest = 0;
#pragma unroll
    for (int s = 0; s < kMost; ++s) {
      if (s < samples) greatest = max(greatest, key_of(raws[s]));
    }
    return greatest;
  }

  /// Every block draws the same one.
  __device__ Key first_bar() {
    Key greatest = 0;
#pragma unroll
    for (int block = 0; block < kClusterMostParts; ++block) {
      if (block < call_.parts) greatest = max(greatest, of_block(keys(), block)[threadIdx.x]);
    }
    Key* of_numbers = keys() + kClusterThreads;
    of_numbers[threadIdx.x] = greatest;
    __syncthreads();
    if (warp_number() == 0) {
      KeysInRegisters<typename Order::Wide, kClusterWarps> all;
#pragma unroll
      for (int r = 0; r < kClusterWarps; ++r) all.keys[r] = of_numbers[r * 32 + lane_number()];
      const Border<Key> border = find_border(all, kClusterThreads, call_.bar_rank, Key{0}, KeyDistance<Key>{0});
      if (lane_number() == 0) {
        state_.bar = border.quota == 0 ? border.edge + 1 : border.edge;
        state_.listed = 0;
        state_.reaching = 0;
      }
    }
    __syncthreads();
    return state_.bar;
  }

  /// Whole vectors of [from, to), as far as they belong to this part.
  __device__ void read_ahead(int from, int to) const {
    to = min(to, end_);
    if (row_.column(from) < 0) ++from;
    if (row_.column(to) > call_.cols) --to;
    if (from < to) prefetch_to_cache(row_.elements() + row_.column(from), static_cast<std::uint32_t>(to - from) * 16);
  }

  /// Calls f(loaded, vector) with this thread's vectors of each tile of the part, vector, vector + 32, ..., until it returns
  /// false, which it must for all threads.
  template <class F>
  __device__ void for_tiles(F f) const {
#pragma unroll 1
    for (int first = begin_; first < end_; first += Shape::kTile) {
      if (threadIdx.x == 0) {
        read_ahead(first + Shape::kTilesAhead * Shape::kTile, first + (Shape::kTilesAhead + 1) * Shape::kTile);
      }
      const int mine = first + warp_number() * Shape::kWarpTile + lane_number();
      const bool whole = first + Shape::kTile <= end_ && row_.are_whole(first, first + Shape::kTile);
      const Loaded loaded = whole ? row_.template load<true, Shape::kLoads>(mine, 32, end_)
                                  : row_.template load<false, Shape::kLoads>(mine, 32, end_);
      if (!f(loaded, mine)) break;
    }
  }

  /// The column, counted from the part's first, of a load's element.
  __device__ int column_of(int vector, int element) const {
    return static_cast<int>(row_.column(vector)) - first_col_ + element / Shape::kVector * (32 * Shape::kVector) +
           element % Shape::kVector;
  }

  /// Lists what is above the bar, in any order, and counts.
  __device__ Counted list(Key bar) {
    int reaching = 0;
    for_tiles([&](const Loaded& loaded, int vector) {
      std::uint32_t above = 0;
      std::uint32_t at_least = 0;
#pragma unroll
      for (int i = 0; i < Loaded::kElements; ++i) {
        const Key key = key_of(loaded.element(i));
        if (key > bar) above |= 1u << i;
        if (key >= bar) at_least |= 1u << i;
      }
      above &= loaded.valid;
      reaching += __popc(at_least & loaded.valid);
      if (Warp::any(above != 0)) push(above, vector);
      return true;
    });
    reaching = Warp::sum(reaching);
    if (lane_number() == 0) atomicAdd(&state_.reaching, reaching);
    cluster_sync();
    return counted();
  }

  __device__ void push(std::uint32_t above, int vector) {
    const auto number = static_cast<std::uint32_t>(__popc(above));
    const std::uint32_t inclusive = Warp::inclusive_sum(number);
    int at = 0;
    if (lane_number() == 31) at = atomicAdd(&state_.listed, static_cast<int>(inclusive));
    at = Warp::from_lane(at, 31) + static_cast<int>(inclusive - number);
    for (; above != 0; above &= above - 1u) {
      const int column = column_of(vector, __ffs(static_cast<int>(above)) - 1);
      if (at < call_.list_capacity) {
        // Loaded once more, from the nearest cache: registers cannot be indexed.
        raws_[at] = row_.elements()[first_col_ + column];
        columns_[at] = column;
      }
      ++at;
    }
  }

  __device__ Counted counted() {
    const int lane = lane_number();
    const bool exists = lane < call_.parts;
    const int above = exists ? *of_block(&state_.listed, lane) : 0;
    const int reaching = exists ? *of_block(&state_.reaching, lane) : 0;
    const int above_up_to = static_cast<int>(Warp::inclusive_sum(static_cast<std::uint32_t>(above)));
    const int reaching_up_to = static_cast<int>(Warp::inclusive_sum(static_cast<std::uint32_t>(reaching)));
    if (warp_number() == 0 && lane <= kClusterMostParts) state_.first[lane] = above_up_to - above;
    return {Warp::from_lane(above_up_to, 31), Warp::from_lane(reaching_up_to, 31),
            Warp::from_lane(above_up_to - above, block_), Warp::from_lane(reaching_up_to - reaching, block_)};
  }

  /// A bar that serves, after one that too few elements reach, or that too many are above: looked for by counting, several
  /// thresholds at a time. Once in ten thousand rows.
  __device__ Key better_bar(Key bar, const Counted& counted_before, int& passes) {
    constexpr int kThresholds = sizeof(T) == 4 ? 8 : 4;  // as many as there are registers for
    cluster_sync();                                      // all have read the counts
    // The border is not below `low`, nor above `high`.
    Key low = 0;
    Key high = Order::kGreatest;
    std::int64_t at_low = call_.cols;
    if (counted_before.reaching < call_.k) {
      high = bar - 1;
    } else {
      low = bar + 1;
      at_low = counted_before.above;
    }
#pragma unroll 1
    for (int turn = 0; at_low > call_.list_capacity && low < high; turn ^= 1) {
      const Key first = low;
      const Key last = high;
      const Key step = max((last - first) / kThresholds, Key{1});
      const auto threshold = [&](int i) {
        return i == kThresholds - 1 ? last : first + min(step * static_cast<Key>(i + 1), last - first);
      };
      int mine[kThresholds] = {};
      for_tiles([&](const Loaded& loaded, int) {
#pragma unroll
        for (int j = 0; j < Loaded::kElements; ++j) {
          const Key key = loaded.has(j) ? key_of(loaded.element(j)) : Key{0};  // below every threshold
#pragma unroll
          for (int i = 0; i < kThresholds; ++i) mine[i] += key >= threshold(i) ? 1 : 0;
        }
        return true;
      });
      const KeysOfBlock<T> block(nullptr, 0, state_);
#pragma unroll
      for (int i = 0; i < kThresholds; ++i) {
        const int sum = block.sum(mine[i]);
        if (threadIdx.x == 0) state_.counts[turn][i] = sum;
      }
      cluster_sync();
      ++passes;
      // Counts fall as thresholds rise. Other blocks read the same numbers, so all come to the same bounds.
#pragma unroll 1
      for (int i = 0; i < kThresholds; ++i) {
        const int there = lane_number() < call_.parts ? of_block(&state_.counts[turn][0], lane_number())[i] : 0;
        const int reaching = Warp::sum(there);
        if (reaching < call_.k) {
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

  __device__ Share share_of_lists(const Counted& counted, Key bar) {
    __syncthreads();  // where the lists begin
    const int number = counted.above;
    for (int i = static_cast<int>(threadIdx.x); i < number; i += kClusterThreads) {
      int block = 0;
      while (i >= state_.first[block + 1]) ++block;
      keys()[i] = key_of(of_block(raws_, block)[i - state_.first[block]]);
    }
    __syncthreads();
    const KeysOfBlock<T> all(keys(), number, state_);
    const Border<Key> border = find_border(all, number, static_cast<int>(call_.k), bar + 1, KeyDistance<Key>{0});

    const int first = state_.first[block_];
    const int last = state_.first[block_ + 1];
    int above_before = 0;
    int ties_before = 0;
    int ties = 0;
    for (int i = static_cast<int>(threadIdx.x); i < last; i += kClusterThreads) {
      const Key key = keys()[i];
      above_before += i < first && key > border.edge ? 1 : 0;
      ties_before += i < first && key == border.edge ? 1 : 0;
      ties += i >= first && key == border.edge ? 1 : 0;
    }
    return share_of(border, all.sum(above_before), all.sum(ties_before), all.sum(ties));
  }

  /// The bar itself is the border.
  __device__ Share share_of_ties(const Counted& counted, Key bar) const {
    return share_of({bar, static_cast<int>(call_.k) - counted.above, 0}, counted.above_before,
                    counted.reaching_before - counted.above_before, state_.reaching - state_.listed);
  }

  static __device__ Share share_of(const Border<Key>& border, int above_before, int ties_before, int ties) {
    if (border.quota == 0) return {border.edge + 1, 0, 0, above_before};
    return {border.edge, ties, min(max(border.quota - ties_before, 0), ties),
            above_before + min(ties_before, border.quota)};
  }

  [[nodiscard]] __device__ bool is_chosen(int i, Key least) const {
    return key_of(raws_[i]) >= least && columns_[i] != kDropped;
  }

  /// Puts the first `quota` elements of the part that are equal to the bar on the list: it is read once more, as far as need
  /// be.
  __device__ int list_ties(ColumnMarks& marks, Key bar, int listed, int quota) {
    if (quota == 0) return listed;
    __syncthreads();
    marks.clear();
    __syncthreads();
    const KeysOfBlock<T> block(nullptr, 0, state_);
    int found = 0;
    for_tiles([&](const Loaded& loaded, int vector) {
      std::uint32_t equal = 0;
#pragma unroll
      for (int i = 0; i < Loaded::kElements; ++i) {
        if (key_of(loaded.element(i)) == bar) equal |= 1u << i;
      }
      equal &= loaded.valid;
      found += block.sum(__popc(equal));
      for (; equal != 0; equal &= equal - 1u) marks.set(column_of(vector, __ffs(static_cast<int>(equal)) - 1));
      return found < quota;
    });
    marks.count(state_.sums);
    marks.for_first(quota, [&](int rank, int column) {
      raws_[listed + rank] = row_.elements()[first_col_ + column];
      columns_[listed + rank] = column;
    });
    __syncthreads();
    return listed + quota;
  }

  /// Takes all but the first `quota` of the ties from the list.
  __device__ void drop_ties(ColumnMarks& marks, Key edge, int listed, int quota) {
    __syncthreads();
    marks.clear();
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < listed; i += kClusterThreads) {
      if (key_of(raws_[i]) == edge) marks.set(columns_[i]);
    }
    marks.count(state_.sums);
    for (int i = static_cast<int>(threadIdx.x); i < listed; i += kClusterThreads) {
      if (key_of(raws_[i]) == edge && marks.rank(columns_[i]) >= quota) columns_[i] = kDropped;
    }
    __syncthreads();
  }

  /// In index order.
  __device__ void write(ColumnMarks& marks, Key least, int listed, int first_result) {
    __syncthreads();
    marks.clear();
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < listed; i += kClusterThreads) {
      if (is_chosen(i, least)) marks.set(columns_[i]);
    }
    marks.count(state_.sums);
    const ResultRow<T> result(call_, number_);
    for (int i = static_cast<int>(threadIdx.x); i < listed; i += kClusterThreads) {
      if (!is_chosen(i, least)) continue;
      const int column = columns_[i];
      result.write(first_result + marks.rank(column), raws_[i], first_col_ + column);
    }
  }

  /// The dense form or the mask, where the rest is zero by now.
  __device__ void scatter(Key least, int listed) const {
    const std::int64_t first = number_ * call_.cols + first_col_;
    for (int i = static_cast<int>(threadIdx.x); i < listed; i += kClusterThreads) {
      if (!is_chosen(i, least)) continue;
      if (call_.form == Form::dense) {
        static_cast<T*>(call_.dense)[first + columns_[i]] = raws_[i];
      } else {
        call_.mask[first + columns_[i]] = 1;
      }
    }
  }

  /// Zeroes what belongs to this part of the dense form or the mask.
  __device__ void clear_row() const {
    const std::int64_t first = number_ * call_.cols + first_col_;
    const bool dense = call_.form == Form::dense;
    char* to = dense ? reinterpret_cast<char*>(static_cast<T*>(call_.dense) + first)
                     : reinterpret_cast<char*>(call_.mask + first);
    const int bytes = dense ? cols_ * static_cast<int>(sizeof(T)) : cols_;
    const int head = min(bytes, static_cast<int>(-reinterpret_cast<std::uintptr_t>(to) % 16));
    const int vectors = (bytes - head) / 16;
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < head) to[thread] = 0;
#pragma unroll 4
    for (int i = thread; i < vectors; i += kClusterThreads) reinterpret_cast<uint4*>(to + head)[i] = uint4{};
    if (head + vectors * 16 + thread < bytes) to[head + vectors * 16 + thread] = 0;
  }

  const Call& call_;
  std::int64_t number_;  ///< Of the row.
  int block_;            ///< Of this block among those of the cluster.
  RowVectors<T> row_;
  int begin_;  ///< Vectors of this part.
  int end_;
  int first_col_;
  int cols_;
  State& state_;
  T* raws_;       ///< The list: elements,
  int* columns_;  ///< and their columns, counted from the part's first.
  char* scratch_;
};

template <class T>
__global__ void __launch_bounds__(kClusterThreads, kClusterBlocksPerMultiprocessor)
    cluster_kernel(const __grid_constant__ Call call) {
  extern __shared__ __align__(16) char shared[];
  ClusterSelect<T>(call, shared).run();
}

}  // namespace rtopk::cuda
