// Selects from a row in two reads, whatever share of it is selected. A block has the row to itself.
//
// A sample gives a bracket: two keys between which the kth value most likely lies. The first read counts the elements
// above the bracket and lists those in it, among which the kth value is found. The second read writes.
//
// A warp reads one stretch of the row at a time: stretch 0 is what lies before the first whole vector, the last one what
// lies behind them, and those between are whole vectors. What is counted in each tells where its results begin, so that
// warps write on their own and the second read needs no barrier.
//
// If many elements of the sample are equal to its kth, that is taken for the kth value, and nothing is listed.
#pragma once

#include <cstdint>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/arguments.hpp"
#include "cuda/select/at_most.cuh"
#include "cuda/select/digit_search.cuh"
#include "cuda/select/element.cuh"
#include "cuda/select/key_range.cuh"
#include "cuda/select/part_search.cuh"
#include "cuda/select/radix/bracket_sample.cuh"
#include "cuda/select/radix/votes.cuh"
#include "cuda/select/row_vectors.cuh"
#include "cuda/select/row_writer.cuh"
#include "cuda/select/tile_marks.cuh"
#include "plan/select/tuning_bracket.hpp"

namespace rtopk::cuda {

/// Elements of one stretch. The search narrows the bracket to one key, the kth value, and counts again; sum_up() then
/// makes of these the counts of all stretches before.
struct StretchCounts {
  int above;   ///< The bracket.
  int inside;  ///< The bracket.
  int first;   ///< Where those inside begin in the list, until the search has ended.
};

/// What the threads of a block share.
template <class T>
struct BracketState {
  PartSearchMemory<WideKey<T>> search;
  SampledBracket<WideKey<T>> sampled;
  int above;
  int listed;  ///< Also those that found no room.
};

template <class T>
class BracketSelect {
 public:
  using Key = WideKey<T>;
  using Config = BracketConfig<sizeof(T)>;
  using State = BracketState<T>;
  static_assert(sizeof(State) <= Config::kStateBytes);
  static_assert(sizeof(StretchCounts) == Config::kCountBytes);

  __device__ BracketSelect(const SelectArguments& args, const BracketLayout& layout, std::int64_t number, char* shared)
      : args_(args),
        layout_(layout),
        number_(number),
        row_(static_cast<const T*>(args.input) + number * args.stride),
        state_(*reinterpret_cast<State*>(shared)),
        list_(reinterpret_cast<T*>(shared + Config::kStateBytes)),
        stretches_(reinterpret_cast<StretchCounts*>(shared + layout.stretches_at)),
        kept_(reinterpret_cast<uint4*>(shared + layout.kept_at)) {
    const int lead = static_cast<int>(reinterpret_cast<std::uintptr_t>(row_) % 16 / sizeof(T));
    head_ = lead == 0 ? 0 : min(kVector - lead, static_cast<int>(args.cols));
    whole_ = (static_cast<int>(args.cols) - head_) / kVector;
    last_ = 1 + (whole_ + kStretchVectors - 1) / kStretchVectors;
  }

  /// False if the sample misled: then nothing is written. Dense rows and masks are written by the caller. All threads of
  /// the block call this.
  __device__ bool run(Threshold<core::KeyOf<T>>& threshold) {
    prepare();
    read();
    const int k = static_cast<int>(args_.k);
    const Bracket<Key> bracket = state_.sampled.bracket;
    const int above = state_.above;
    const int listed = state_.listed;
    if (above >= k || above + listed < k || (!bracket.is_tie && listed > layout_.capacity)) return false;
    const Key kth = bracket.is_tie ? bracket.worse.key : find_kth(bracket, k - above, listed);
    if (!bracket.is_tie) count_listed(kth);
    sum_up();
    const int ties = k - stretches_[last_ + 1].above;
    threshold = Threshold<core::KeyOf<T>>::with_ties(static_cast<core::KeyOf<T>>(kth), static_cast<std::int64_t>(ties));
    if (args_.form == Form::pairs || args_.form == Form::cbsr) write(kth, ties);
    return true;
  }

 private:
  using Warp = LaneGroup<32>;
  using Marks = TileMarks<T, Config::kLoads, false>;
  using Edge = KeyEdge<Key>;
  static constexpr int kVector = Vector<T>::kSize;
  static constexpr int kStretchVectors = 32 * Config::kLoads;
  static constexpr int kAhead = 2;  ///< Stretches of a warp that are on their way.
  static constexpr Key kTop = core::max_key<T>;

  __device__ Key key_of(T raw) const { return directed_key(raw, args_.smallest); }
  [[nodiscard]] __device__ static int threads() { return static_cast<int>(blockDim.x); }
  [[nodiscard]] __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  [[nodiscard]] __device__ MarkingThreshold<T> marking(const Edge& edge) const {
    return {static_cast<core::KeyOf<T>>(edge.key), edge.next, args_.smallest};
  }

  /// Finds the bracket.
  __device__ void prepare() {
    const BracketSample<T> sample{args_, layout_, row_, state_.sampled, reinterpret_cast<Key*>(list_)};
    sample.draw();
    PartSearch<Key, SearchAlone, SearchedBy::one>(state_.search, SearchAlone{1}).prepare();
    if (thread() == 0) state_.above = state_.listed = 0;
    __syncthreads();
    sample.find_bracket();
  }

  // -------------------------------------------------------------------------------------------------------------------
  // The first read.

  __device__ void read() {
    const Bracket<Key> bracket = state_.sampled.bracket;
    const MarkingThreshold<T> worse = marking(bracket.worse);
    const MarkingThreshold<T> better = marking(bracket.better);
    int above = 0;
    prefetch(warp_number() + warps_of_block());
#pragma unroll 1
    for (int stretch = warp_number(); stretch <= last_; stretch += warps_of_block()) {
      prefetch(stretch + kAhead * warps_of_block());
      above += stretch == 0 || stretch == last_ ? read_end(stretch, bracket)
                                                : read_stretch(stretch, worse, better, !bracket.is_tie);
    }
    if (lane_number() == 0 && above > 0) atomicAdd(&state_.above, above);
    __syncthreads();
  }

  /// Asks for a stretch that this warp reads later: registers cannot hold as much as must be on its way.
  __device__ void prefetch(int stretch) const {
    constexpr int kLine = 128;  // bytes
    const int vector = (stretch - 1) * kStretchVectors + lane_number() * (kLine / 16);
    if (stretch <= 0 || lane_number() * kLine >= kStretchVectors * 16 || vector >= whole_) return;
    const void* line = row_ + head_ + static_cast<std::int64_t>(vector) * kVector;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
  }

  /// Takes room in the list for a stretch, and keeps its counts. Returns the place of its first element.
  __device__ int take(int stretch, int above, int inside) const {
    int first = 0;
    if (lane_number() == 0) {
      first = inside > 0 ? atomicAdd(&state_.listed, inside) : 0;
      stretches_[stretch] = {above, inside, first};
    }
    return Warp::from_lane(first, 0);
  }

  /// Whole vectors. Returns how many elements are above the bracket.
  __device__ int read_stretch(int stretch, const MarkingThreshold<T>& worse, const MarkingThreshold<T>& better,
                              bool lists) const {
    const int first_vector = (stretch - 1) * kStretchVectors + lane_number();
    const auto* vectors = reinterpret_cast<const uint4*>(row_ + head_) + first_vector;
    Vector<T> loaded[Config::kLoads];
    unsigned there = Marks::kAll;
    if (stretch * kStretchVectors <= whole_) {
#pragma unroll
      for (int line = 0; line < Config::kLoads; ++line) loaded[line].bits = __ldg(vectors + line * 32);
    } else {
#pragma unroll
      for (int line = 0; line < Config::kLoads; ++line) {
        const bool exists = first_vector + line * 32 < whole_;
        loaded[line].bits = exists ? __ldg(vectors + line * 32) : uint4{};
        there &= exists ? ~0u : ~Marks::of_line(line);
      }
    }
    if (stretch <= layout_.kept) {
#pragma unroll
      for (int line = 0; line < Config::kLoads; ++line) {
        kept_[(stretch - 1) * kStretchVectors + line * 32 + lane_number()] = loaded[line].bits;
      }
    }
    const auto vector = [&](int line) { return loaded[line].bits; };
    const unsigned reach = worse.marks(Marks::at_most(vector, worse.bound())) & there;
    const unsigned better_ones = better.marks(Marks::at_most(vector, better.bound())) & there;
    const unsigned inside = reach & ~better_ones;
    const int above = Warp::sum(__popc(better_ones));
    const int mine = __popc(inside);
    const int up_to_here = static_cast<int>(Warp::inclusive_sum(static_cast<std::uint32_t>(mine)));
    const int number = Warp::from_lane(up_to_here, 31);
    const int first = take(stretch, above, number);
    if (!lists || number == 0 || first + number > layout_.capacity) return above;
    T* to = list_ + first + up_to_here - mine;
#pragma unroll
    for (int line = 0; line < Config::kLoads; ++line) {
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        if ((inside & Marks::of_element(line, j)) != 0) *to++ = loaded[line].raw[j];
      }
    }
    return above;
  }

  /// The elements before the first whole vector, or behind the last: a lane has at most one.
  struct End {
    int column;
    bool exists;
  };
  [[nodiscard]] __device__ End end_of(int stretch) const {
    const int column = stretch == 0 ? lane_number() : head_ + whole_ * kVector + lane_number();
    return {column, column < (stretch == 0 ? head_ : static_cast<int>(args_.cols))};
  }

  __device__ int read_end(int stretch, const Bracket<Key>& bracket) const {
    const End end = end_of(stretch);
    const T raw = end.exists ? row_[end.column] : T{};
    const Key key = key_of(raw);
    const bool is_above = end.exists && bracket.better.is_reached_by(key);
    const bool is_inside = end.exists && !is_above && bracket.worse.is_reached_by(key);
    const unsigned inside = __ballot_sync(kFullWarp, is_inside);
    const int above = __popc(__ballot_sync(kFullWarp, is_above));
    const int number = __popc(inside);
    const int first = take(stretch, above, number);
    if (is_inside && !bracket.is_tie && first + number <= layout_.capacity) {
      list_[first + __popc(inside & ((1u << lane_number()) - 1u))] = raw;
    }
    return above;
  }

  // -------------------------------------------------------------------------------------------------------------------
  // The search.

  /// For PartSearch.
  struct Listed {
    const T* list;
    int number;
    bool smallest;

    template <class F>
    __device__ void for_each(F&& f) const {
#pragma unroll 2
      for (int i = thread(); i < number; i += threads()) f(static_cast<Key>(directed_key(list[i], smallest)));
    }
    // No key is known to be that of many elements.
    [[nodiscard]] static __device__ Key equal_key() { return 0; }
    [[nodiscard]] static __device__ int equal() { return 0; }
  };

  __device__ Key find_kth(const Bracket<Key>& bracket, int rank, int listed) {
    const SearchAlone alone{rank};
    PartSearch<Key, SearchAlone, SearchedBy::one> search(state_.search, alone);
    const Listed candidates{list_, listed, args_.smallest};
    KeyRange<Key> range{static_cast<Key>(bracket.worse.key + (bracket.worse.next ? 1 : 0)),
                        bracket.better.next ? kTop : static_cast<Key>(bracket.better.key - 1)};
    search.narrow(candidates, range, bracket.usual_high, {listed, 0});
    if (range.low == range.high) return range.low;
    search.share_of_few(candidates, range, 0);
    return search.kth();
  }

  /// Adds the listed elements of each stretch to its counts.
  __device__ void count_listed(Key kth) {
#pragma unroll 1
    for (int stretch = warp_number(); stretch <= last_; stretch += warps_of_block()) {
      // Read by the lane that writes it below; others might read what it has written.
      const StretchCounts counts = lane_number() == 0 ? stretches_[stretch] : StretchCounts{};
      const int inside = Warp::from_lane(counts.inside, 0);
      const int first = Warp::from_lane(counts.first, 0);
      int above = 0;
      int equal = 0;
#pragma unroll 1
      for (int i = lane_number(); i < inside; i += 32) {
        const Key key = key_of(list_[first + i]);
        above += key > kth ? 1 : 0;
        equal += key == kth ? 1 : 0;
      }
      above = Warp::sum(above);
      equal = Warp::sum(equal);
      if (lane_number() == 0) stretches_[stretch] = {counts.above + above, equal, 0};
    }
  }

  /// Puts in the place of each stretch's counts those of all before; behind the last, those of the row.
  __device__ void sum_up() {
    __syncthreads();
    if (warp_number() == 0) {
      int above = 0;
      int inside = 0;
#pragma unroll 1
      for (int first = 0; first <= last_ + 1; first += 32) {
        const int stretch = first + lane_number();
        const StretchCounts here = stretch <= last_ ? stretches_[stretch] : StretchCounts{};
        const int above_here = static_cast<int>(Warp::inclusive_sum(static_cast<std::uint32_t>(here.above)));
        const int inside_here = static_cast<int>(Warp::inclusive_sum(static_cast<std::uint32_t>(here.inside)));
        if (stretch <= last_ + 1) {
          stretches_[stretch] = {above + above_here - here.above, inside + inside_here - here.inside, 0};
        }
        above += Warp::from_lane(above_here, 31);
        inside += Warp::from_lane(inside_here, 31);
      }
    }
    __syncthreads();
  }

  // -------------------------------------------------------------------------------------------------------------------
  // The second read. `ties` of the elements equal to the kth value are selected.

  using Word = VoteWord<T>;
  using Votes = WordVotes<T>;
  static constexpr int kPerWord = kPerVoteWord<T>;
  static constexpr int kGroups = Config::kStretch / kPerWord / 32;  ///< Words of a lane.

  /// The last stretches first: of these, most is still in the L2 cache.
  __device__ void write(Key kth, int ties) const {
    const AnyResults<T> result{{args_, number_}};
    const bool is_usual = result.values != nullptr && result.indices != nullptr && result.index_type == IndexType::i32;
    const UsualResults<T> usual{result.values, static_cast<std::int32_t*>(result.indices)};
#pragma unroll 1
    for (int stretch = last_ - warp_number(); stretch >= 0; stretch -= warps_of_block()) {
      const int later = stretch - kAhead * warps_of_block();
      if (later > layout_.kept) prefetch(later);
      const StretchCounts before = stretches_[stretch];
      const StretchCounts up_to_here = stretches_[stretch + 1];
      const int first_result = before.above + min(before.inside, ties);
      if (first_result == up_to_here.above + min(up_to_here.inside, ties)) continue;
      const int ties_here = ties - before.inside;  // from here on
      if (stretch == 0 || stretch == last_) {
        write_end(stretch, kth, first_result, ties_here, result);
        continue;
      }
      // In one stretch some of the ties are selected and others not; before it all, behind it none.
      const bool cuts_ties = ties_here > 0 && ties < up_to_here.inside;
      const Edge edge{kth, ties_here <= 0};
      if (is_usual && !cuts_ties && stretch * kStretchVectors <= whole_) {
        write_stretch<true>(stretch, edge, first_result, false, 0, usual);
      } else {
        write_stretch<false>(stretch, edge, first_result, cuts_ties, ties_here, result);
      }
    }
  }

  /// Writes what reaches the edge; if `cuts_ties`, only the first `ties` of those equal to its key. `kWhole`: all
  /// vectors exist, and no ties are cut.
  template <bool kWhole, class Results>
  __device__ void write_stretch(int stretch, const Edge& edge, int first_result, bool cuts_ties, int ties,
                                const Results& result) const {
    constexpr int kBatch = 8;  // words that are on their way at a time
    static_assert(kGroups % kBatch == 0);
    const VoteThreshold<T> threshold(marking(edge));
    const unsigned own = 1u << lane_number();
    const int first_word = (stretch - 1) * 32 * kGroups;
    const int words = whole_ * kVector / kPerWord;
    const char* from =
        stretch <= layout_.kept ? reinterpret_cast<const char*>(kept_) : reinterpret_cast<const char*>(row_ + head_);
    const Word* of_lane = reinterpret_cast<const Word*>(from) + first_word + lane_number();
    int column = head_ + (first_word + lane_number()) * kPerWord;
#pragma unroll 1
    for (int group = 0; group < kGroups; group += kBatch) {
      Word loaded[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int word = (group + i) * 32;
        loaded[i] = kWhole || first_word + lane_number() + word < words ? of_lane[word] : Word{};
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        Votes chosen = threshold.votes(loaded[i]);
        if constexpr (!kWhole) {
          const unsigned there = __ballot_sync(kFullWarp, first_word + lane_number() + (group + i) * 32 < words);
#pragma unroll
          for (int j = 0; j < kPerWord; ++j) chosen.of[j] &= there;
          if (cuts_ties) chosen = first_ties(loaded[i], edge.key, chosen, there, ties);
        }
        int at = first_result + votes_before_lane<T>(chosen);
#pragma unroll
        for (int j = 0; j < kPerWord; ++j) {
          const unsigned is_chosen = chosen.of[j] & own;
          Word value = loaded[i];
          if constexpr (kPerWord == 2) value = j == 0 ? value & 0xffffu : value >> 16;
          result.write_if(is_chosen, at, value, column + j);
          at += is_chosen != 0 ? 1 : 0;
          first_result += __popc(chosen.of[j]);
        }
        column += 32 * kPerWord;
      }
    }
  }

  /// Leaves of the elements equal to the kth value the first `ties`, and counts these down: 0 or less selects none.
  __device__ Votes first_ties(Word word, Key kth, const Votes& reach, unsigned there, int& ties) const {
    Votes above = VoteThreshold<T>(marking({kth, true})).votes(word);
    Votes equal;
#pragma unroll
    for (int j = 0; j < kPerWord; ++j) {
      above.of[j] &= there;
      equal.of[j] = reach.of[j] & ~above.of[j];
    }
    int rank = votes_before_lane<T>(equal);
    int number = 0;
    Votes chosen;
#pragma unroll
    for (int j = 0; j < kPerWord; ++j) {
      const bool is_equal = (equal.of[j] >> lane_number() & 1u) != 0;
      chosen.of[j] = above.of[j] | __ballot_sync(kFullWarp, is_equal && rank < ties);
      rank += is_equal ? 1 : 0;
      number += __popc(equal.of[j]);
    }
    ties -= number;
    return chosen;
  }

  __device__ void write_end(int stretch, Key kth, int first_result, int ties, const AnyResults<T>& result) const {
    const End end = end_of(stretch);
    const T raw = end.exists ? row_[end.column] : T{};
    const Key key = key_of(raw);
    const unsigned earlier = (1u << lane_number()) - 1u;
    const bool is_equal = end.exists && key == kth;
    const int rank = __popc(__ballot_sync(kFullWarp, is_equal) & earlier);
    const bool chosen = end.exists && (key > kth || (is_equal && rank < ties));
    const unsigned all = __ballot_sync(kFullWarp, chosen);
    if (chosen) result.write(first_result + __popc(all & earlier), raw, end.column);
  }

  const SelectArguments& args_;
  const BracketLayout& layout_;
  std::int64_t number_;
  const T* row_;
  State& state_;
  T* list_;
  StretchCounts* stretches_;
  uint4* kept_;  ///< The first stretches.
  int head_;     ///< Elements before the first whole vector.
  int whole_;    ///< Vectors.
  int last_;     ///< The stretch behind the whole vectors.
};

/// A block for each row. A row whose sample misled is searched digit by digit.
template <class T>
__global__ void __launch_bounds__(kBracketMoreThreads)
    bracket_kernel(const __grid_constant__ SelectArguments args, const __grid_constant__ BracketLayout layout) {
  extern __shared__ __align__(16) char shared[];
  __shared__ BlockScratch scratch;
  __shared__ std::uint32_t totals[2][32];
  static_assert(sizeof(scratch) + sizeof(totals) <= kBracketStaticBytes);
  char* buffer = shared + BracketConfig<sizeof(T)>::kStateBytes;
  const std::int64_t number = blockIdx.x;
  std::int32_t passes = 0;
  auto threshold = Threshold<core::KeyOf<T>>::first_at_least(0, 0);
  const bool found = BracketSelect<T>(args, layout, number, shared).run(threshold);
  const RowVectors<T> row(args, number);
  if (!found) {
    threshold = radix_kth<T>(args, row, reinterpret_cast<std::uint32_t*>(buffer), scratch, passes);
    __syncthreads();
  }
  if (!found || args.form == Form::dense || args.form == Form::mask) {
    write_row<T>(args, number, row, threshold, {totals, reinterpret_cast<std::uint16_t*>(buffer)});
  }
  if (args.passes != nullptr && threadIdx.x == 0) args.passes[number] = 1 + passes;
}

}  // namespace rtopk::cuda
