// cuda_warp: rows of up to 1024 elements, one for each group of G lanes, R elements of it in the registers of each lane.
//
// A warp takes its rows in turn. Copies of the next ones into shared memory run on while it works on this one. A row costs
// one pass over its registers if the search starts well: it counts the elements at or above a lower threshold (and an
// upper one, if k is large) that should leave few candidates for the border, compacts those to at most a few per lane, and
// sorts them in registers; the border is then read off. Where to start is learnt from the rows before. A start that leaves
// too many or too few candidates is corrected; a row that resists is searched by keys (exact_border.cuh). So what was
// learnt makes a row fast or slow, never a result different.
#pragma once

#include <cstdint>

#include "async_copy.cuh"
#include "call.hpp"
#include "core/search.hpp"
#include "element.cuh"
#include "lane_group.cuh"
#include "result_row.cuh"
#include "warp_shape.hpp"

namespace rtopk::cuda {

/// What is known of where the border of a row lies: the value of rank k, and how far apart neighbouring ranks are there.
template <class Real>
struct Estimate {
  Real border = 0;
  Real step = 0;
  Real weight = 1;  ///< Of the next row.
  bool known = false;
};

template <class T, int G, int R>
class WarpRows {
 public:
  using Shape = WarpShape<T, G, R>;
  using E = Element<T>;
  using Value = typename E::Value;
  using Real = typename E::Real;
  using SortKey = typename E::SortKey;
  using Key = core::KeyOf<T>;
  using Arithmetic = core::ArithmeticOf<T>;
  using Group = LaneGroup<G>;

  __device__ WarpRows(const Call& call, char* shared) : call_(call), cols_(static_cast<int>(call.cols)),
        k_(static_cast<int>(call.k)) {
    char* mine = shared + (threadIdx.x / 32) * Shape::kWarpBytes;
    tiles_ = reinterpret_cast<T*>(mine);
    list_ = reinterpret_cast<std::uint16_t*>(mine + Shape::kStages * Shape::kTileBytes) +
            Group::index_in_warp() * Shape::kCols;
  }

  template <bool kBisection>
  __device__ void run() {
    const std::int64_t tiles = (call_.rows + Shape::kRows - 1) / Shape::kRows;
    const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / 32;
    const std::int64_t begin = warp * call_.units_per_worker;
    const std::int64_t end = min(tiles, begin + call_.units_per_worker);
    if (begin >= end) return;
    if (cols_ < Shape::kCols) pad_tiles();
#pragma unroll
    for (int stage = 0; stage < Shape::kStages - 1; ++stage) {
      if (begin + stage < end) fetch(begin + stage, stage);
      commit_copies();
    }
    int stage = 0;
    for (std::int64_t tile = begin; tile < end; ++tile) {
      wait_for_copies<Shape::kStages - 2>();
      __syncwarp();
      const int free_stage = stage == 0 ? Shape::kStages - 1 : stage - 1;
      if (tile + Shape::kStages - 1 < end) fetch(tile + Shape::kStages - 1, free_stage);
      commit_copies();
      tile_ = tiles_ + stage * Shape::kTileElements;
      row_ = tile * Shape::kRows + Group::index_in_warp();
      has_row_ = row_ < call_.rows;
      if constexpr (kBisection) {
        bisect();
      } else {
        select();
      }
      __syncwarp();
      stage = stage == Shape::kStages - 1 ? 0 : stage + 1;
    }
  }

 private:
  // ------------------------------------------------------------------------------------------------------------------
  // Rows in shared memory: chunk by chunk, 16 bytes of each lane next to each other, so that no access has conflicts.

  static __device__ int place(int col) {
    if constexpr (G == 32) {
      return col;
    } else {
      return col % Shape::kChunkCols + Group::index_in_warp() * Shape::kChunkCols +
             col / Shape::kChunkCols * (Shape::kVector * 32);
    }
  }
  static __device__ int col_of(int chunk, int j) {
    return chunk * Shape::kChunkCols + Group::lane() * Shape::kVector + j;
  }

  /// What lies behind the end of a row can never be selected. Copies do not touch it, so it is written once.
  __device__ void pad_tiles() {
    using Bits = core::KeyOf<T>;
    Bits bits;
    if constexpr (core::is_floating<T>) {
      constexpr Bits infinity = core::ElementTraits<T>::infinity_bits;
      bits = call_.smallest ? infinity : static_cast<Bits>(infinity | (Bits{1} << (8 * sizeof(Bits) - 1)));
    } else {
      bits = call_.smallest ? 0x7fffffffu : 0x80000000u;
    }
    auto* tiles = reinterpret_cast<Bits*>(tiles_);
    for (int stage = 0; stage < Shape::kStages; ++stage) {
      for (int col = cols_ + Group::lane(); col < Shape::kCols; col += G) {
        tiles[stage * Shape::kTileElements + place(col)] = bits;
      }
    }
  }

  __device__ void fetch(std::int64_t tile, int stage) {
    const std::int64_t row = tile * Shape::kRows + Group::index_in_warp();
    if (row >= call_.rows) return;
    const T* from = static_cast<const T*>(call_.input) + row * call_.stride;
    T* to = tiles_ + stage * Shape::kTileElements;
    if (call_.access_bytes == 16) {
#pragma unroll
      for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
        const int col = col_of(chunk, 0);
        if (col < cols_) {
          copy_async<16>(to + chunk * Shape::kVector * 32 + static_cast<int>(threadIdx.x % 32) * Shape::kVector,
                         from + col);
        }
      }
      return;
    }
    fetch_narrow(from, to, cols_, call_.access_bytes);
  }

  // Not inlined, and static so that the object can stay in registers: rare cases cost the others nothing.
  static __device__ __noinline__ void fetch_narrow(const T* from, T* to, int cols, int access_bytes) {
    if (access_bytes >= 8) {
      copy_pieces<8>(from, to, cols);
    } else if (access_bytes >= 4) {
      copy_pieces<4>(from, to, cols);
    } else {
      for (int col = Group::lane(); col < cols; col += G) to[place(col)] = from[col];
    }
  }

  template <int kBytes>
  static __device__ void copy_pieces(const T* from, T* to, int cols) {
    constexpr int kPiece = kBytes / static_cast<int>(sizeof(T));
    if constexpr (kPiece >= 1) {
      for (int col = Group::lane() * kPiece; col < cols; col += G * kPiece) {
        copy_async<kBytes>(to + place(col), from + col);
      }
    }
  }

  union Chunk {
    uint4 bits;
    T raw[Shape::kVector];
  };

  __device__ Chunk raw_chunk(int chunk) const {
    Chunk loaded;
    loaded.bits = *reinterpret_cast<const uint4*>(tile_ + chunk * Shape::kVector * 32 +
                                                  static_cast<int>(threadIdx.x % 32) * Shape::kVector);
    return loaded;
  }

  __device__ void load() {
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      const Chunk loaded = raw_chunk(chunk);
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j) x_[chunk * Shape::kVector + j] = E::value(loaded.raw[j]);
    }
    if (call_.smallest) {
#pragma unroll
      for (int r = 0; r < R; ++r) x_[r] = E::reversed(x_[r]);
    }
  }

  __device__ Value value_at(int col) const {
    const Value x = E::value(tile_[place(col)]);
    return call_.smallest ? E::reversed(x) : x;
  }

  // ------------------------------------------------------------------------------------------------------------------
  // Positions in index order. A lane's elements of one chunk are neighbours, so what is needed is, for each chunk, how many
  // come in the chunks before it and in the lanes below. The counts of several chunks are summed in one word.

  static constexpr int kFieldBits = Shape::kChunkCols <= 128 ? 8 : 16;
  static constexpr int kFields = 32 / kFieldBits;
  static constexpr int kWords = (Shape::kChunks + kFields - 1) / kFields;
  static constexpr unsigned kFieldMask = (1u << kFieldBits) - 1u;

  struct Positions {
    int first[Shape::kChunks];  ///< Of this lane's first element in a chunk.
    int total;
  };

  static __device__ Positions positions(const unsigned (&counts)[Shape::kChunks]) {
    Positions result;
    int base = 0;
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      unsigned packed = 0;
#pragma unroll
      for (int field = 0; field < kFields && word * kFields + field < Shape::kChunks; ++field) {
        packed += counts[word * kFields + field] << (field * kFieldBits);
      }
      const unsigned inclusive = Group::inclusive_sum(packed);
      const unsigned below = inclusive - packed;
      const unsigned totals = Group::from_lane(inclusive, G - 1);
#pragma unroll
      for (int field = 0; field < kFields && word * kFields + field < Shape::kChunks; ++field) {
        result.first[word * kFields + field] = base + static_cast<int>((below >> (field * kFieldBits)) & kFieldMask);
        base += static_cast<int>((totals >> (field * kFieldBits)) & kFieldMask);
      }
    }
    result.total = base;
    return result;
  }

  static __device__ unsigned chunk_bits(unsigned chosen, int chunk) {
    if constexpr (Shape::kVector == 32) {
      return chosen;
    } else {
      return (chosen >> (chunk * Shape::kVector)) & ((1u << Shape::kVector) - 1u);
    }
  }

  static __device__ Positions positions_of(unsigned chosen) {
    unsigned counts[Shape::kChunks];
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      counts[chunk] = static_cast<unsigned>(__popc(chunk_bits(chosen, chunk)));
    }
    return positions(counts);
  }

  /// Of the elements in `eligible` (a bit for each register) the first `quota` in index order.
  static __device__ unsigned first_in_index_order(unsigned eligible, int quota) {
    const Positions at = positions_of(eligible);
    unsigned chosen = 0;
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      int position = at.first[chunk];
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j) {
        const unsigned bit = 1u << (chunk * Shape::kVector + j);
        if ((eligible & bit) != 0) {
          if (position < quota) chosen |= bit;
          ++position;
        }
      }
    }
    return chosen;
  }

  // ------------------------------------------------------------------------------------------------------------------
  // The exact selection.

  struct Window {
    Value low;
    Value high;
    int count_low;   ///< Elements at or above `low`,
    int count_high;  ///< and at or above `high`; 0 if there is no upper threshold.
  };

  __device__ void select() {
    load();
    int passes = 0;
    Window window{};
    Positions at{};
    const bool two_sided = call_.aim.high_rank > 0;
    bool accepted = !has_row_;
    Estimate<Real> guess = learnt_;
    if (!guess.known) guess = from_moments();
    for (int attempt = 0;; ++attempt) {
      if (!accepted) {
        window.low = E::from_real(guess.border - static_cast<Real>(call_.aim.low_rank - k_) * guess.step);
        window.high = E::from_real(guess.border + static_cast<Real>(k_ - call_.aim.high_rank) * guess.step);
        ++passes;
      }
      at = count_window(window, two_sided);
      if (!accepted) accepted = is_usable(window, guess);
      if (!__any_sync(kWholeWarp, !accepted)) break;
      if (attempt == 4) break;
      if (attempt == 1) {
        const Estimate<Real> anew = from_moments();
        if (!accepted) guess = anew;
      } else if (!accepted) {
        guess = corrected(guess, window, two_sided);
      }
    }

    if (!__any_sync(kWholeWarp, !accepted)) {
      finish(window, at, guess, two_sided);
    } else {
      // Rare: all rows of the warp are searched by keys, those that were accepted too.
      const Border border = search_by_keys(k_, passes);
      learn_from_keys(border, passes);
      write_chosen(choose(border), has_row_);
    }
    if (call_.passes != nullptr && has_row_ && Group::lane() == 0) call_.passes[row_] = passes;
  }

  /// Where the border would be if the row were normally distributed.
  __device__ Estimate<Real> from_moments() const {
    Real sum = 0;
    Real squares = 0;
    int finite = 0;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const bool counts = E::is_finite(x_[r]) && x_[r] != E::least();
      const Real x = counts ? E::real(x_[r]) : Real{0};
      finite += counts ? 1 : 0;
      sum += x;
      squares += x * x;
    }
    sum = Group::sum_reals(sum);
    squares = Group::sum_reals(squares);
    const Real number = static_cast<Real>(max(Group::sum(finite), 1));
    const Real mean = sum / number;
    const Real variance = squares / number - mean * mean;
    const Real deviation = variance > 0 ? sqrt(variance) : Real{0};
    Estimate<Real> estimate;
    estimate.border = mean + static_cast<Real>(call_.aim.deviations) * deviation;
    estimate.step = static_cast<Real>(call_.aim.step) * deviation;
    return estimate;
  }

  /// Counts the elements of the window; returns where its candidates go.
  __device__ Positions count_window(Window& window, bool two_sided) const {
    unsigned counts[Shape::kChunks];
    float above = 0;
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      float low = 0;
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j) low += E::one_if_at_least(x_[chunk * Shape::kVector + j], window.low);
      if (two_sided) {
        float high = 0;
#pragma unroll
        for (int j = 0; j < Shape::kVector; ++j) {
          high += E::one_if_at_least(x_[chunk * Shape::kVector + j], window.high);
        }
        above += high;
        low -= high;
      }
      counts[chunk] = static_cast<unsigned>(__float2int_rz(low));
    }
    const Positions at = positions(counts);
    window.count_high = two_sided ? Group::sum(__float2int_rz(above)) : 0;
    window.count_low = window.count_high + at.total;
    return at;
  }

  __device__ bool is_usable(const Window& window, const Estimate<Real>& guess) const {
    const int candidates = window.count_low - window.count_high;
    // A threshold that is not a number, or below all of them, would let pads and turned NaN in.
    const bool sound = guess.step > 0 && E::is_finite(window.low) && window.low != E::least();
    return sound && window.count_low >= k_ && window.count_high < k_ && candidates <= Shape::kCapacity &&
           candidates >= 0;
  }

  __device__ Estimate<Real> corrected(Estimate<Real> guess, const Window& window, bool two_sided) const {
    const Aim& aim = call_.aim;
    const int candidates = window.count_low - window.count_high;
    if (two_sided && candidates >= 4) {
      guess.step *= static_cast<Real>(aim.low_rank - aim.high_rank) / static_cast<Real>(candidates);
    }
    const Real off = two_sided ? static_cast<Real>(window.count_low + window.count_high - aim.low_rank - aim.high_rank) / 2
                               : static_cast<Real>(window.count_low - aim.low_rank);
    guess.border += off * guess.step;
    return guess;
  }

  /// Sorts the candidates and takes the best of them.
  __device__ void finish(const Window& window, const Positions& at, const Estimate<Real>& guess, bool two_sided) {
    list_candidates(window, at, two_sided);
    __syncwarp();
    constexpr int C = Shape::kCandidatesPerLane;
    const int candidates = has_row_ ? window.count_low - window.count_high : 0;
    const int wanted = k_ - window.count_high;
    SortKey keys[C];
    int cols[C];
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const int rank = j * G + Group::lane();
      cols[j] = rank < candidates ? list_[rank] : 0;
      keys[j] = rank < candidates ? E::sort_key(value_at(cols[j])) : 0;
    }
    const SortKey border = key_of_rank(keys, wanted, candidates);
    learn(guess, window, E::real(E::from_sort_key(border)));

    // Candidates are in index order, so ties at the border go to the first of them.
    int at_or_above = 0;
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const bool exists = j * G + Group::lane() < candidates;
      at_or_above += __popc(Group::vote(exists && keys[j] >= border));
    }
    const Value value = E::from_sort_key(border);
    const bool plain = !__any_sync(kWholeWarp, has_row_ && (at_or_above != wanted || E::is_nan(value)));
    int tie_quota = Shape::kCapacity;
    if (!plain) {
      int above = 0;
#pragma unroll
      for (int j = 0; j < C; ++j) above += __popc(Group::vote(keys[j] > border));
      tie_quota = wanted - above;
    }
    const bool from_candidates = !two_sided && (call_.form == Form::pairs || call_.form == Form::cbsr);
    if (from_candidates) {
      write_candidates(keys, cols, border, candidates, plain, tie_quota);
      return;
    }
    unsigned chosen = 0;
    if (plain) {
#pragma unroll
      for (int r = 0; r < R; ++r) chosen |= E::at_least(x_[r], value) ? 1u << r : 0u;
    } else {
      unsigned tied = 0;
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const SortKey key = E::sort_key(x_[r]);
        chosen |= key > border ? 1u << r : 0u;
        tied |= key == border ? 1u << r : 0u;
      }
      chosen |= first_in_index_order(tied, tie_quota);
    }
    write_chosen(chosen, has_row_);
  }

  __device__ void list_candidates(const Window& window, const Positions& at, bool two_sided) {
    if (!has_row_) return;
    if (two_sided) {
#pragma unroll
      for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
        std::uint16_t* next = list_ + at.first[chunk];
#pragma unroll
        for (int j = 0; j < Shape::kVector; ++j) {
          const Value x = x_[chunk * Shape::kVector + j];
          if (E::at_least(x, window.low) && !E::at_least(x, window.high)) {
            *next++ = static_cast<std::uint16_t>(col_of(chunk, j));
          }
        }
      }
    } else {
#pragma unroll
      for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
        std::uint16_t* next = list_ + at.first[chunk];
#pragma unroll
        for (int j = 0; j < Shape::kVector; ++j) {
          if (E::at_least(x_[chunk * Shape::kVector + j], window.low)) {
            *next++ = static_cast<std::uint16_t>(col_of(chunk, j));
          }
        }
      }
    }
  }

  /// The key of the wanted-th greatest candidate.
  static __device__ SortKey key_of_rank(const SortKey (&keys)[Shape::kCandidatesPerLane], int wanted, int candidates) {
    constexpr int C = Shape::kCandidatesPerLane;
    if (!__any_sync(kWholeWarp, candidates > G)) {
      SortKey one[1] = {keys[0]};
      Group::sort_descending(one);
      return Group::from_lane(one[0], wanted - 1);
    }
    SortKey sorted[C];
#pragma unroll
    for (int j = 0; j < C; ++j) sorted[j] = keys[j];
    Group::sort_descending(sorted);
    SortKey result = 0;
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const SortKey here = Group::from_lane(sorted[j], (wanted - 1) % G);
      if ((wanted - 1) / G == j) result = here;
    }
    return result;
  }

  __device__ void learn(const Estimate<Real>& guess, const Window& window, Real border) {
    if (!has_row_) return;
    const Real surplus = static_cast<Real>(window.count_low - k_);
    Real step = guess.step;
    if (surplus > 0) step = (border - E::real(window.low)) / surplus;
    if (!learnt_.known) {
      learnt_ = {border, step > 0 ? step : guess.step, Real{0.5}, true};
    } else {
      learnt_.border += learnt_.weight * (border - learnt_.border);
      learnt_.step += learnt_.weight * (step - learnt_.step);
      learnt_.weight = learnt_.weight > Real{0.125} ? learnt_.weight * Real{0.75} : learnt_.weight;
      // The row before was nothing like this one: start over from here.
      if (!(fabs(border - learnt_.border) < 32 * learnt_.step)) learnt_ = {border, guess.step, Real{0.5}, true};
    }
    learnt_.known = learnt_.step > 0 && E::is_finite(E::from_real(learnt_.border));
  }

  /// `plain`: all that equal the border are taken; else the first `tie_quota` of them.
  __device__ void write_candidates(const SortKey (&keys)[Shape::kCandidatesPerLane],
                                   const int (&cols)[Shape::kCandidatesPerLane], SortKey border, int candidates,
                                   bool plain, int tie_quota) {
    const ResultRow<T> result(call_, row_);
    int written = 0;
    int ties_seen = 0;
#pragma unroll
    for (int j = 0; j < Shape::kCandidatesPerLane; ++j) {
      const bool exists = j * G + Group::lane() < candidates;
      bool takes = exists && keys[j] >= border;
      if (!plain) {
        const unsigned tied = Group::vote(exists && keys[j] == border);
        if (keys[j] == border) takes = takes && ties_seen + __popc(tied & Group::members_below()) < tie_quota;
        ties_seen += __popc(tied);
      }
      const unsigned taken = Group::vote(takes);
      const int position = written + __popc(taken & Group::members_below());
      if (takes) {
        if (call_.by_value) {
          list_[position] = static_cast<std::uint16_t>(cols[j]);
        } else {
          result.write(position, tile_[place(cols[j])], cols[j]);
        }
      }
      written += __popc(taken);
    }
    if (call_.by_value) {
      __syncwarp();
      write_list(has_row_);
    }
  }

  // ------------------------------------------------------------------------------------------------------------------
  // The exact search by directed keys of the original bits: for every row that the fast way does not suit.

  struct Border {
    Key key;
    int count;        ///< Elements at or above `key`.
    int count_above;  ///< If count > k.
  };

  template <class F>
  __device__ void for_each_key(F f) const {
#pragma unroll 1
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      const Chunk loaded = raw_chunk(chunk);
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j) {
        if (col_of(chunk, j) < cols_) f(chunk * Shape::kVector + j, directed_key(loaded.raw[j], call_.smallest));
      }
    }
  }

  __device__ int count_keys(Key threshold) const {
    int count = 0;
    for_each_key([&](int, Key key) { count += key >= threshold ? 1 : 0; });
    return Group::sum(count);
  }

  __device__ Border search_by_keys(int rank, int& passes) const {
    core::ThresholdSearch<Key> search({0, core::max_key<T>, cols_, 0}, rank);
    int pass = 0;
    while (__any_sync(kWholeWarp, has_row_ && !search.done())) {
      const core::Bracket<Key> bracket = search.bracket();
      const bool stuck = search.is_stuck() || (pass == 2 && has_hint_);
      if (__any_sync(kWholeWarp, has_row_ && !search.done() && stuck)) {
        Key least = bracket.high;
        Key greatest = bracket.low;
        for_each_key([&](int, Key key) {
          if (key < bracket.low || key > bracket.high) return;
          least = key < least ? key : least;
          greatest = key > greatest ? key : greatest;
        });
        least = Group::least(least);
        greatest = Group::greatest(greatest);
        if (has_row_ && !search.done() && stuck) search.narrow(least, greatest);
      }
      Key proposal = static_cast<Key>(bracket.low + (bracket.high - bracket.low) / 2 + 1);
      // Rows with many equal values at the border often share that value with the row before.
      if (has_hint_ && pass == 0) proposal = hint_;
      if (has_hint_ && pass == 1 && hint_ < core::max_key<T>) proposal = static_cast<Key>(hint_ + 1);
      const Key probe = search.probe(proposal);
      const int counted = count_keys(probe);
      if (has_row_ && !search.done()) search.record(probe, counted);
      ++pass;
    }
    const core::Threshold<Key> result = search.result();
    passes += result.passes;
    return {result.key, static_cast<int>(result.count), static_cast<int>(result.count_above)};
  }

  __device__ unsigned choose(const Border& border) const {
    unsigned chosen = 0;
    unsigned tied = 0;
    for_each_key([&](int r, Key key) {
      chosen |= key > border.key ? 1u << r : 0u;
      tied |= key == border.key ? 1u << r : 0u;
    });
    const bool ties = border.count > k_;
    const unsigned first = first_in_index_order(tied, ties ? k_ - border.count_above : Shape::kCols);
    return chosen | first;
  }

  /// So that the next row starts well even if the moments of the rows tell nothing of where their borders are.
  __device__ void learn_from_keys(const Border& border, int& passes) {
    hint_ = border.key;
    has_hint_ = true;
    const int rank = min(cols_, call_.aim.low_rank);
    const bool informative = rank > k_ && border.count == k_;
    if (!__any_sync(kWholeWarp, has_row_ && informative)) {
      learnt_.known = false;
      return;
    }
    const Border lower = search_by_keys(rank, passes);
    const Real at_k = real_of_key(border.key);
    const Real at_rank = real_of_key(lower.key);
    const Real step = (at_k - at_rank) / static_cast<Real>(max(rank - k_, 1));
    learnt_ = {at_k, step, Real{0.5}, informative && step > 0 && E::is_finite(E::from_real(at_k))};
  }

  __device__ Real real_of_key(Key directed) const {
    const Key key = call_.smallest ? static_cast<Key>(core::max_key<T> - directed) : directed;
    const Value value = E::value(core::value_of<T>(key));
    return E::real(call_.smallest ? E::reversed(value) : value);
  }

  // ------------------------------------------------------------------------------------------------------------------
  // The paper's searches.

  /// The element as the paper's algorithms see it.
  __device__ Arithmetic arithmetic(Value x) const {
    if constexpr (core::is_floating<T>) {
      return x;
    } else {
      return static_cast<double>(x) + (call_.smallest ? 1.0 : 0.0);  // -raw, and x is ~raw
    }
  }
  /// The least element whose arithmetic value is at or above `threshold`.
  __device__ Value least_at(Arithmetic threshold) const {
    if constexpr (core::is_floating<T>) {
      return threshold;
    } else {
      return __double2int_ru(threshold - (call_.smallest ? 1.0 : 0.0));
    }
  }

  __device__ unsigned elements_at_least(Value threshold) const {
    unsigned bits = 0;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      bits |= col_of(r / Shape::kVector, r % Shape::kVector) < cols_ && E::at_least(x_[r], threshold) ? 1u << r : 0u;
    }
    return bits;
  }

  __device__ void bisect() {
    load();
    Value least = x_[0];
    Value greatest = x_[0];
    bool finite = true;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const Value x = x_[r];
      const bool is_element = col_of(r / Shape::kVector, r % Shape::kVector) < cols_;
      if (r == 0 && !is_element) {
        least = value_at(0);  // a lane without elements of its own must not add any
        greatest = least;
      }
      if (is_element) {
        finite = finite && E::is_finite(x);
        least = x < least ? x : least;
        greatest = x > greatest ? x : greatest;
      }
    }
    least = Group::least(least);
    greatest = Group::greatest(greatest);
    finite = !Group::any(!finite);

    core::Bisection<Arithmetic> search(arithmetic(least), arithmetic(greatest), k_, call_.max_iter, call_.epsilon);
    bool goes_on = has_row_ && finite && search.next();
    while (__any_sync(kWholeWarp, goes_on)) {
      const Value threshold = least_at(search.middle());
      float count = 0;
#pragma unroll
      for (int r = 0; r < R; ++r) count += E::one_if_at_least(x_[r], threshold);
      const int counted = Group::sum(__float2int_rz(count));
      if (goes_on) {
        search.record(counted);
        goes_on = search.next();
      }
    }
    const core::Selection<Arithmetic> selection = search.selection();
    const bool stops_early = call_.max_iter > 0 || call_.epsilon > 0;
    unsigned chosen = 0;
    if (stops_early) {
      const unsigned fill = elements_at_least(least_at(selection.fill));
      const unsigned sure = selection.fill_only ? 0u : elements_at_least(least_at(selection.sure));
      chosen = sure | first_in_index_order(fill & ~sure, k_ - (selection.fill_only ? 0 : static_cast<int>(selection.count_sure)));
    }
    if (__any_sync(kWholeWarp, has_row_ && (!stops_early || !finite))) {
      int ignored = 0;
      const Border border = search_by_keys(k_, ignored);
      const unsigned exact = choose(border);
      if (!stops_early || !finite) chosen = exact;
    }
    write_chosen(chosen, has_row_);
    if (call_.passes != nullptr && has_row_ && Group::lane() == 0) {
      call_.passes[row_] = finite ? selection.passes : 0;
    }
  }

  // ------------------------------------------------------------------------------------------------------------------
  // Writing what was chosen: a bit for each register.

  __device__ void write_chosen(unsigned chosen, bool writes) {
    if (call_.form == Form::dense) return write_dense(chosen, writes);
    if (call_.form == Form::mask) return write_mask(chosen, writes);
    const Positions at = positions_of(chosen);
    __syncwarp();
    if (writes) {
#pragma unroll
      for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
        std::uint16_t* next = list_ + at.first[chunk];
#pragma unroll
        for (int j = 0; j < Shape::kVector; ++j) {
          if ((chosen >> (chunk * Shape::kVector + j) & 1u) != 0) {
            *next++ = static_cast<std::uint16_t>(col_of(chunk, j));
          }
        }
      }
    }
    __syncwarp();
    write_list(writes);
  }

  __device__ void write_dense(unsigned chosen, bool writes) const {
    if (!writes) return;
    T* row = static_cast<T*>(call_.dense) + row_ * call_.cols;
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      Chunk out = raw_chunk(chunk);
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j) {
        if ((chosen >> (chunk * Shape::kVector + j) & 1u) == 0) out.raw[j] = T{};
      }
      const int col = col_of(chunk, 0);
      if (call_.dense_access_bytes == 16) {
        if (col < cols_) *reinterpret_cast<uint4*>(row + col) = out.bits;
      } else {
#pragma unroll
        for (int j = 0; j < Shape::kVector; ++j) {
          if (col + j < cols_) row[col + j] = out.raw[j];
        }
      }
    }
  }

  __device__ void write_mask(unsigned chosen, bool writes) const {
    if (!writes) return;
    std::uint8_t* row = call_.mask + row_ * call_.cols;
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j) {
        const int col = col_of(chunk, j);
        if (col < cols_) row[col] = static_cast<std::uint8_t>(chosen >> (chunk * Shape::kVector + j) & 1u);
      }
    }
  }

  /// Writes the k listed columns, which are in ascending order.
  __device__ void write_list(bool writes) {
    if (call_.by_value) return write_list_by_value(writes);
    if (!writes) return;
    const ResultRow<T> result(call_, row_);
    for (int i = Group::lane(); i < k_; i += G) {
      const int col = list_[i];
      result.write(i, tile_[place(col)], col);
    }
  }

  /// The same, best first. What is sorted is the key's distance from the least of them, cut to the bits that a word has
  /// room for beside the position. Where the cut makes neighbours of different keys look equal, all pairs are compared.
  __device__ void write_list_by_value(bool writes) {
    constexpr int C = Shape::kSortedPerLane;
    constexpr int kPositionBits = 7;
    constexpr int kKeyBits = static_cast<int>(8 * sizeof(SortKey)) - kPositionBits;
    constexpr SortKey kPositionMask = (SortKey{1} << kPositionBits) - 1;
    using OrderKey = SortKey;
    OrderKey keys[C];
    OrderKey least = ~OrderKey{0};
    OrderKey greatest = 0;
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const int i = j * G + Group::lane();
      keys[j] = 0;
      if (writes && i < k_) {
        keys[j] = order_key(tile_, list_[i], call_.smallest);
        least = keys[j] < least ? keys[j] : least;
        greatest = keys[j] > greatest ? keys[j] : greatest;
      }
    }
    least = Group::least(least);
    greatest = Group::greatest(greatest);
    const OrderKey range = greatest - least;
    int shift = 0;
    if constexpr (sizeof(OrderKey) == 8) {
      shift = max(0, 64 - __clzll(static_cast<long long>(range)) - (kKeyBits - 1));
    } else {
      shift = max(0, 32 - __clz(static_cast<int>(range)) - (kKeyBits - 1));
    }
    OrderKey sorted[C];
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const int i = j * G + Group::lane();
      // 1 more than the distance, so that a place without an element comes last.
      sorted[j] = i < k_ ? ((((keys[j] - least) >> shift) + 1) << kPositionBits) |
                               (kPositionMask - static_cast<OrderKey>(i))
                         : OrderKey{0};
    }
    if (C == 1 || !__any_sync(kWholeWarp, k_ > G)) {
      OrderKey one[1] = {sorted[0]};
      Group::sort_descending(one);
      sorted[0] = one[0];
    } else {
      Group::sort_descending(sorted);
    }

    int cols[C];
    bool in_order = true;
    OrderKey before_last = ~OrderKey{0};
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const int i = j * G + Group::lane();
      const int position = static_cast<int>(kPositionMask - (sorted[j] & kPositionMask));
      cols[j] = writes && i < k_ ? list_[position] : 0;
      const OrderKey key = writes && i < k_ ? order_key(tile_, cols[j], call_.smallest) : OrderKey{0};
      OrderKey before = __shfl_up_sync(kWholeWarp, key, 1, G);
      if (Group::lane() == 0) before = before_last;
      in_order = in_order && (!writes || i >= k_ || before >= key);
      before_last = Group::from_lane(key, G - 1);
    }
    if (__any_sync(kWholeWarp, !in_order)) {
      if (writes) write_list_by_comparing(call_, row_, tile_, list_);
      return;
    }
    if (!writes) return;
    const ResultRow<T> result(call_, row_);
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const int i = j * G + Group::lane();
      if (i < k_) result.write(i, tile_[place(cols[j])], cols[j]);
    }
  }

  static __device__ SortKey order_key(const T* tile, int col, bool smallest) {
    return static_cast<SortKey>(directed_key(tile[place(col)], smallest));
  }

  static __device__ __noinline__ void write_list_by_comparing(const Call& call, std::int64_t row, const T* tile,
                                                              const std::uint16_t* list) {
    const ResultRow<T> result(call, row);
    const int k = static_cast<int>(call.k);
    for (int i = Group::lane(); i < k; i += G) {
      const int col = list[i];
      const SortKey key = order_key(tile, col, call.smallest);
      int rank = 0;
      for (int other = 0; other < k; ++other) {
        const SortKey other_key = order_key(tile, list[other], call.smallest);
        rank += other_key > key || (other_key == key && other < i) ? 1 : 0;
      }
      result.write(rank, tile[place(col)], col);
    }
  }

  const Call& call_;
  int cols_;
  int k_;
  T* tiles_;             ///< The ring of tiles of this warp.
  std::uint16_t* list_;  ///< Columns, of this group's row.
  T* tile_ = nullptr;    ///< The one at hand.
  std::int64_t row_ = 0;
  bool has_row_ = false;  ///< Not so for the last groups of the last tile.
  Value x_[R];
  Estimate<Real> learnt_;
  Key hint_ = 0;  ///< The border of the last row that was searched by keys.
  bool has_hint_ = false;
};

template <class T, int G, int R, bool kBisection>
__global__ void __launch_bounds__(32 * kWarpsPerBlock) warp_rows_kernel(const __grid_constant__ Call call) {
  extern __shared__ __align__(16) char shared[];
  WarpRows<T, G, R>(call, shared).template run<kBisection>();
}

}  // namespace rtopk::cuda
