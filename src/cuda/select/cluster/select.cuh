// cuda_cluster: long rows of which a small share is selected. A row is read once, by a block or by the blocks of a
// cluster, each of which has a part of it; only candidates are kept.
//
// A filter threshold comes from a sample of the whole row, so that a little more than k elements reach it for every
// distribution and order. Every block lists the elements of its part that reach it. Then the blocks search for the kth
// value together, and each writes the selected elements of its own part.
//
// If many elements are equal to the threshold, these are counted instead, and those above it are listed. If one of them
// is the kth value, the part is read again, as far as needed.
//
// A search that stops early also needs the extremes of the row, and perhaps elements that are no candidates: those it
// reads from the beginning of the part until there are enough.
//
// The first tiles of the part are copied while the sample is drawn. Rarely used code is kept short: a kernel that runs
// once must fetch its code too.
#pragma once

#include "cuda/select/block_sums.cuh"
#include "cuda/select/cluster/arguments.hpp"
#include "cuda/select/cluster/list.cuh"
#include "cuda/select/cluster/marks.cuh"
#include "cuda/select/cluster/part.cuh"
#include "cuda/select/cluster/sample.cuh"
#include "cuda/select/cluster/sums.cuh"
#include "cuda/select/extremes.cuh"
#include "cuda/select/general_row.cuh"
#include "cuda/select/part_search.cuh"
#include "cuda/select/result_row.cuh"
#include "cuda/select/tile_marks.cuh"
#include "cuda/select/written_index.cuh"
#include "plan/select/tuning_cluster.hpp"

namespace rtopk::cuda {

/// What the threads of a block share.
template <class T>
struct ClusterState {
  using Key = WideKey<T>;
  ClusterPart<T> part;  ///< Kept here because registers are few.
  PartSearchMemory<Key> search;
  ListState<Key> list;
  BlockSums::Memory sums;
  Key first_threshold;       ///< The same in all blocks.
  Key usual_high;            ///< Few elements exceed it.
  int ties;                  ///< Listed elements equal to the kth value.
  SampleGroups<Key> sample;  ///< Later, ties.
  RowExtent<Key> extent;     ///< Of this part, if the search stops early;
  KeyRange<Key> early_ties;  ///< then this, too.
};

template <class T, int kThreads, ClusterTask kTask>
class ClusterSelect {
 public:
  using Config = ClusterConfig<T, kThreads>;
  using Key = WideKey<T>;
  static constexpr bool kEarly = kTask == ClusterTask::stop_early;
  static constexpr bool kGeneral = kTask == ClusterTask::select_general || kTask == ClusterTask::select_by_magnitude;
  static constexpr bool kMagnitude = kTask == ClusterTask::select_by_magnitude;
  using Arguments = std::conditional_t<kGeneral, GeneralRow<ClusterArguments>, ClusterArguments>;
  using State = ClusterState<T>;
  static_assert(sizeof(State) <= Config::kStateBytes);

  __device__ ClusterSelect(const Arguments& args, char* shared)
      : args_(args),
        shared_(shared),
        state_(*reinterpret_cast<State*>(shared)),
        list_(shared + Config::kStateBytes, args.list_capacity),
        sums_(state_.sums) {}

  __device__ void run() {
    first_threshold();
    if (writes_rows()) clear_row();
#pragma unroll 1
    for (int pass = 1;; ++pass) {
      list();
      Search search = this->search();
      KeyRange<Key> range{state_.first_threshold, kTop};
      if (search.narrow(candidates(), range, state_.usual_high, {state_.list.listed + state_.list.equal, 0})) {
        if (args_.passes != nullptr && block() == 0 && threadIdx.x == 0) args_.passes[row()] = pass;
        finish(search, range);
        return search.wait_for_others();
      }
      // Fewer than k elements reach the threshold. Without one, the list will be pruned several times.
      search.meet();  // all have read the counts
      search.prepare();
      if (threadIdx.x == 0) {
        List::start(state_.list, 0, false);
        state_.first_threshold = 0;
        state_.usual_high = kTop;
      }
      tiles().fetch_first();
      __syncthreads();
    }
  }

 private:
  using Warp = LaneGroup<32>;
  using List = CandidateList<T, kMagnitude>;
  using Tiles = PartTiles<T, Config>;
  using Tile = typename Tiles::Tile;
  using Search = PartSearch<Key, ClusterArguments, SearchedBy::one_or_several>;
  using Share = typename Search::Share;
  using Marks = TileMarks<T, Config::kLoads, kMagnitude>;
  struct Nothing {};
  using Extent = std::conditional_t<kEarly, ExtremesOf<T>, Nothing>;
  static constexpr Key kTop = core::max_key<T>;
  static constexpr int kDropped = -1;

  [[nodiscard]] __device__ bool writes_rows() const { return args_.form == Form::dense || args_.form == Form::mask; }
  static __device__ int log_of(int power) { return __ffs(power) - 1; }
  /// Index of this block in the cluster.
  [[nodiscard]] __device__ int block() const { return static_cast<int>(blockIdx.x) & (args_.parts - 1); }
  [[nodiscard]] __device__ std::int64_t row() const { return kGeneral ? 0 : blockIdx.x >> log_of(args_.parts); }
  [[nodiscard]] __device__ char* memory_of_tiles() const { return shared_ + Config::tiles_at(args_.list_capacity); }
  [[nodiscard]] __device__ Tiles tiles() const { return Tiles(state_.part, memory_of_tiles()); }
  [[nodiscard]] __device__ Search search() const { return Search(state_.search, args_); }
  __device__ Key key_of(T raw) const { return List::key_of(raw, args_.smallest); }
  [[nodiscard]] __device__ typename List::Candidates candidates() const {
    return {list_.elements, state_.list, state_.list.listed, args_.smallest};
  }

  /// Starts to copy the part. Finds the first threshold: every block draws the same one.
  __device__ void first_threshold() {
    const RowVectors<T> row(args_, this->row());
    const ClusterPart<T> part = ClusterPart<T>::of(row, args_.cols, block(), log_of(args_.parts));
    if (threadIdx.x == 0) {
      state_.part = part;
      if constexpr (kEarly) state_.extent = {kTop, 0};
    }
    const RowSample<T> sample(args_);
    sample.draw(row, state_.sample);
    Tiles(part, memory_of_tiles()).fetch_first();
    search().prepare();
    __syncthreads();
    if (warp_number() == 0) {
      const ClusterThreshold<Key> threshold = sample.threshold_of(state_.sample);
      if (lane_number() == 0) {
        List::start(state_.list, threshold.key, threshold.has_ties);
        state_.first_threshold = threshold.key;
        state_.usual_high = threshold.usual_high;
      }
    }
    __syncthreads();
  }

  /// Selects and writes, once a range is known that holds the kth value: of one key, or of few elements.
  __device__ void finish(Search& search, const KeyRange<Key>& range) {
    ColumnMarks marks(memory_of_tiles(), state_.part.cols);  // the tiles are not needed any more
    marks.clear();
    const bool many_equal = range.low == range.high;
    Share share;
    if (!many_equal) share = search.share_of_few(candidates(), range, 0);
    const Key kth = many_equal ? range.low : search.kth();
    if constexpr (kGeneral) args_.template found<T>(static_cast<core::KeyOf<T>>(kth));
    if constexpr (kEarly) {
      const RowExtent<Key> row = extent();
      if (row.template is_finite<T>(args_.smallest)) {
        if (warp_number() == 0) state_.early_ties = early_ties<T>(args_, row, kth);
        __syncthreads();
        return finish_early(search, marks, state_.early_ties);
      }
    }
    if (many_equal) share = search.share_of_many(counts_of({kth, kth}));
    search.leave();
    int listed = state_.list.listed;
    if (state_.list.equal > 0 && kth == state_.list.threshold) {
      if (share.quota > 0) {
        list_first({kth, kth}, listed, share.quota);
        listed += share.quota;
        marks.clear();
        __syncthreads();
      }
    } else if (!share.all) {
      drop_ties(marks, {kth, kth}, listed, share.quota);
    }
    write_results(marks, kth, listed, share.first_result);
  }

  /// Of the whole row.
  [[nodiscard]] __device__ RowExtent<Key> extent() const {
    const bool reads = lane_number() < args_.parts;
    const RowExtent<Key> there = reads ? *of_block(&state_.extent, lane_number()) : RowExtent<Key>{kTop, 0};
    return {Warp::least(there.least), Warp::greatest(there.greatest)};
  }

  /// The same for a search that stops early: what is above `ties` is selected, and of `ties` the first elements.
  __device__ void finish_early(Search& search, ColumnMarks& marks, const KeyRange<Key>& ties) {
    const ListState<Key>& list = state_.list;
    const bool all_listed = ties.low > list.threshold || (ties.low == list.threshold && list.is_strict == 0);
    int listed = list.listed;
    RangeCounts here;
    if (all_listed) {
      here = counts_of(ties);
    } else {
      // Lists the ties anew: as many as this part could need, because what the other parts have is not known yet.
      listed = list_.keep(
          listed, [&](T raw) { return key_of(raw) > ties.high; }, sums_);
      here.above = listed;
      listed += list_first(ties, listed, static_cast<int>(args_.k) - listed);
      here.reach = listed;
      marks.clear();
    }
    const Share share = search.share_of_many(here);
    search.leave();
    if (!share.all) drop_ties(marks, ties, listed, share.quota);
    write_results(marks, ties.low, listed, share.first_result);
  }

  __device__ void write_results(ColumnMarks& marks, Key least, int listed, int first_result) {
    if (writes_rows()) {
      scatter(least, listed);
    } else {
      write(marks, least, listed, first_result);
    }
  }

  __device__ void list() {
    ListState<Key>& list = state_.list;
    Extent own;
    if (state_.part.has_ends()) {
      state_.part.for_ends([&](T raw, int column) {
        if constexpr (kEarly) own.add(raw);
        const Key key = key_of(raw);
        if (list.is_strict != 0 && key == list.threshold) {
          atomicAdd(&list.equal, 1);
        } else if (key >= list.threshold) {
          list_.put(atomicAdd(&list.listed, 1), raw, column);
        }
      });
      __syncthreads();  // there is room for these before others fill the list
    }
    Tile tile;
#pragma unroll 1
    while (true) {
      tile = list_until_full(tile, own);
      __syncthreads();
      if (list.is_full == 0) break;
      List::prune(list_, list, state_.search, state_.sums, static_cast<int>(args_.k), args_.smallest);
    }
    Tiles::wait_for_all();
    if constexpr (kEarly) widen<T>(state_.extent, own, args_.smallest);
  }

  /// Lists from a tile on, to the end or until the list is full. Returns the first tile that is not listed.
  __device__ Tile list_until_full(Tile tile, Extent& own) {
    ListState<Key>& list = state_.list;
    const Tiles tiles = this->tiles();
    const bool is_strict = list.is_strict != 0;
    const auto threshold_of = [&](bool strict) {
      return MarkingThreshold<T>(static_cast<core::KeyOf<T>>(list.threshold), strict, args_.smallest);
    };
    const MarkingThreshold<T> listed = threshold_of(is_strict);
    int equal = 0;
#pragma unroll 1
    while (tiles.has(tile)) {
      Tiles::wait();
      const T* elements = tiles.elements(tile);
      const unsigned marks = marks_of(tiles, tile, listed);
      if constexpr (kEarly) {
#pragma unroll
        for (int line = 0; line < Config::kLoads; ++line) {
          if (tiles.is_whole(tile) || tiles.exists(tile, line)) own.add(Tiles::vector(elements, line));
        }
      }
      if (!push(marks, elements, tiles.column(tile))) break;
      if (is_strict) equal += __popc(marks_of(tiles, tile, threshold_of(false)) & ~marks);
      tile = tiles.next(tile);
    }
    if (is_strict) {
      equal = Warp::sum(equal);
      if (lane_number() == 0) atomicAdd(&list.equal, equal);
    }
    return tile;
  }

  /// Marks this thread's elements of a tile that reach a threshold.
  static __device__ unsigned marks_of(const Tiles& tiles, Tile tile, const MarkingThreshold<T>& threshold) {
    const T* elements = tiles.elements(tile);
    unsigned there = Marks::kAll;
    if (!tiles.is_whole(tile)) {
#pragma unroll
      for (int line = 0; line < Config::kLoads; ++line) {
        there &= tiles.exists(tile, line) ? ~0u : ~Marks::of_line(line);
      }
    }
    const auto vector = [&](int line) { return Tiles::vector(elements, line); };
    return threshold.marks(Marks::at_most(vector, threshold.bound())) & there;
  }

  /// Lists marked elements, or none if there is no room. Reads them from memory, because registers cannot be indexed.
  __device__ bool push(unsigned marks, const T* elements, int column) const {
    if (!__any_sync(kFullWarp, marks != 0)) return true;
    const int at = list_.room_for(state_.list, __popc(marks));
    if (at < 0) return false;
    // The next place in each array.
    T* listed = list_.elements + at;
    int* listed_column = list_.columns + at;
#pragma unroll 1
    while (marks != 0) {
      const auto bit = static_cast<unsigned>(31 - __clz(static_cast<int>(marks)));
      marks ^= 1u << bit;
      const unsigned i = Marks::line(bit) * Tiles::kLineElements + Marks::place(bit);
      *listed++ = elements[i];
      *listed_column++ = column + static_cast<int>(i);
    }
    return true;
  }

  /// Counts of the elements of this part that reach a range, and of those above it. It begins at or above the list's
  /// threshold.
  __device__ RangeCounts counts_of(const KeyRange<Key>& range) {
    int reach = 0;
    int above = 0;
    candidates().for_each([&](Key other) {
      reach += other >= range.low ? 1 : 0;
      above += other > range.high ? 1 : 0;
    });
    return {sums_.total(reach) + (range.low == state_.list.threshold ? state_.list.equal : 0), sums_.total(above)};
  }

  [[nodiscard]] __device__ bool is_chosen(int i, Key least) const {
    return key_of(list_.elements[i]) >= least && list_.columns[i] != kDropped;
  }

  /// Appends to the list the first elements of the part that are in a range, up to `most`. Reads the part once more, as
  /// far as needed. Returns how many there are. The list has `listed` elements before.
  __device__ int list_first(const KeyRange<Key>& range, int listed, int most) {
    const ClusterPart<T> part = state_.part;
    const Tiles tiles = this->tiles();
    tiles.fetch_first();
    int found = 0;
    const auto belongs = [&](T raw) {
      const Key key = key_of(raw);
      return key >= range.low && key <= range.high;
    };
    // Each thread has one vector or one element; they are in the order of the threads.
    const auto list_line = [&](int number, const T* elements, int column) {
      int ties = 0;
#pragma unroll 1
      for (int j = 0; j < number; ++j) ties += belongs(elements[j]) ? 1 : 0;
      const BlockSums::Sums sums = sums_.before(ties);
      int at = found + sums.before;
      found += sums.total;
#pragma unroll 1
      for (int j = 0; ties > 0 && at < most; ++j) {
        if (!belongs(elements[j])) continue;
        list_.put(listed + at, elements[j], column + j);
        ++at;
        --ties;
      }
    };
    const auto list_ends = [&](int first, int last) {
      const int column = first + static_cast<int>(threadIdx.x);
      list_line(column < last ? 1 : 0, part.elements + column, column);
    };
    list_ends(0, part.head);
    if (kEarly && threadIdx.x == 0) state_.list.listed = listed + min(found, most);  // where push() goes on
#pragma unroll 1
    for (Tile tile; tiles.has(tile) && found < most; tile = tiles.next(tile)) {
      Tiles::wait();
      const T* elements = tiles.elements(tile);
      if constexpr (kEarly) {  // for others there are not enough registers, and ties are rare
        const auto marks_from = [&](Key key, bool next) {
          return marks_of(tiles, tile, {static_cast<core::KeyOf<T>>(key), next, args_.smallest});
        };
        const unsigned marks = marks_from(range.low, false) & ~marks_from(range.high, true);
        const int number = sums_.total(__popc(marks));
        if (found + number <= most) {
          push(marks, elements, tiles.column(tile));  // in any order: all of them are listed
          found += number;
          continue;
        }
      }
#pragma unroll 1
      for (int line = 0; line < Config::kLoads; ++line) {
        const int first = line * Tiles::kLineElements;
        list_line(tiles.exists(tile, line) ? Config::kVector : 0, elements + first, tiles.column(tile) + first);
      }
    }
    Tiles::wait_for_all();
    list_ends(part.head + part.whole * Config::kVector, part.cols);
    __syncthreads();
    return min(found, most);
  }

  /// Drops all but the first `quota` of the elements in a range from the list. The marks are clear before and after.
  __device__ void drop_ties(ColumnMarks& marks, const KeyRange<Key>& range, int listed, int quota) {
    constexpr int kFew = kClusterNumbers;
    Key* of_ties = state_.sample.greatest;  // columns
    Key* places = state_.sample.least;      // in the list
    const auto is_tie = [&](int i) {
      const Key key = key_of(list_.elements[i]);
      return key >= range.low && key <= range.high;
    };
    if (threadIdx.x == 0) state_.ties = 0;
    __syncthreads();
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < listed; i += kThreads) {
      if (!is_tie(i)) continue;
      const int tie = atomicAdd(&state_.ties, 1);
      if (tie < kFew) {
        of_ties[tie] = static_cast<Key>(list_.columns[i]);
        places[tie] = static_cast<Key>(i);
      }
    }
    __syncthreads();
    const int ties = state_.ties;
    if (ties <= kFew) {
      for (int mine = static_cast<int>(threadIdx.x); mine < ties; mine += kThreads) {
        int before = 0;
        for (int i = 0; i < ties; ++i) before += of_ties[i] < of_ties[mine] ? 1 : 0;
        if (before >= quota) list_.columns[places[mine]] = kDropped;
      }
      __syncthreads();
      return;
    }
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < listed; i += kThreads) {
      if (is_tie(i)) marks.set(static_cast<unsigned>(list_.columns[i]));
    }
    marks.count(sums_);
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < listed; i += kThreads) {
      if (is_tie(i) && marks.rank(static_cast<unsigned>(list_.columns[i])) >= quota) list_.columns[i] = kDropped;
    }
    __syncthreads();
    marks.clear();
    __syncthreads();
  }

  /// Writes the results in index order.
  __device__ void write(ColumnMarks& marks, Key least, int listed, int first_result) {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < listed; i += kThreads) {
      if (is_chosen(i, least)) {
        marks.set(static_cast<unsigned>(list_.columns[i]));
      } else {
        list_.columns[i] = kDropped;  // so that this thread need not compare again
      }
    }
    marks.count(sums_);
    const int first_col = state_.part.first_col;
    T* values = args_.values == nullptr ? nullptr : static_cast<T*>(args_.values) + row() * args_.k;
    with_indices(args_, row(), [&](auto* indices) {
      using Index = std::remove_reference_t<decltype(*indices)>;
      const bool wants_indices = args_.indices != nullptr;
      const auto index_of = index_writer(args_);
#pragma unroll 1
      for (int i = static_cast<int>(threadIdx.x); i < listed; i += kThreads) {
        const int column = list_.columns[i];
        if (column == kDropped) continue;
        const int place = first_result + marks.rank(static_cast<unsigned>(column));
        if (values != nullptr) values[place] = list_.elements[i];
        if (wants_indices) indices[place] = static_cast<Index>(index_of(first_col + column));
      }
    });
  }

  /// Writes the selected elements of the dense form or the mask. The rest is zero already.
  __device__ void scatter(Key least, int listed) const {
    const std::int64_t first = row() * args_.cols + state_.part.first_col;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < listed; i += kThreads) {
      if (!is_chosen(i, least)) continue;
      if (args_.form == Form::dense) {
        static_cast<T*>(args_.dense)[first + list_.columns[i]] = list_.elements[i];
      } else {
        args_.mask[first + list_.columns[i]] = 1;
      }
    }
  }

  /// Zeroes this part of the dense form or the mask.
  __device__ void clear_row() const {
    const std::int64_t first = row() * args_.cols + state_.part.first_col;
    const bool dense = args_.form == Form::dense;
    char* to = dense ? reinterpret_cast<char*>(static_cast<T*>(args_.dense) + first)
                     : reinterpret_cast<char*>(args_.mask + first);
    const int bytes = dense ? state_.part.cols * static_cast<int>(sizeof(T)) : state_.part.cols;
    const int head = min(bytes, static_cast<int>(-reinterpret_cast<std::uintptr_t>(to) % 16));
    const int vectors = (bytes - head) / 16;
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < head) to[thread] = 0;
#pragma unroll 4
    for (int i = thread; i < vectors; i += kThreads) reinterpret_cast<uint4*>(to + head)[i] = uint4{};
    if (head + vectors * 16 + thread < bytes) to[head + vectors * 16 + thread] = 0;
  }

  const Arguments& args_;
  char* shared_;
  State& state_;
  List list_;
  BlockSums sums_;
};

template <class T, int kThreads, ClusterTask kTask>
__global__ void __launch_bounds__(kThreads,
                                  (ClusterConfig<T, kThreads>::blocks_per_multiprocessor(kTask == ClusterTask::select)))
    cluster_kernel(const __grid_constant__ ClusterArguments args) {
  extern __shared__ __align__(16) char shared[];
  ClusterSelect<T, kThreads, kTask>(args, shared).run();
}

template <class T, int kThreads, ClusterTask kTask>
__global__ void __launch_bounds__(kThreads, (ClusterConfig<T, kThreads>::blocks_per_multiprocessor(false)))
    general_cluster_kernel(const __grid_constant__ ClusterArguments args, const __grid_constant__ RowRules rules) {
  extern __shared__ __align__(16) char shared[];
  __shared__ GeneralRow<ClusterArguments> row;
  const std::int64_t number = blockIdx.x / static_cast<unsigned>(args.parts);
  row.template set<T, true>(args, rules, number, [&](ClusterArguments& own) {
    if (own.cols != args.cols || own.k != args.k) sample_again<T>(own);
  });
  if (row.k > 0) ClusterSelect<T, kThreads, kTask>(row, shared).run();
  finish_row_of_cluster<T>(args, rules, number, row, args.parts);
}

}  // namespace rtopk::cuda
