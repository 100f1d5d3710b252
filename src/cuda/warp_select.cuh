// cuda_warp: rows of up to 1024 elements, one for each group of G lanes, R elements of it in the registers of each lane.
//
// A warp takes its rows in turn. Copies of the next ones into shared memory run on while it works on this one. It looks
// for a threshold that exactly k elements reach (border_search.cuh). The few rows that resist are put off to the end, and
// searched by keys (warp_search.cuh).
#pragma once

#include "warp_search.cuh"

namespace rtopk::cuda {

/// A warp's rows, tile by tile.
template <class T, int G, int R>
class WarpTiles {
 public:
  using Row = WarpRow<T, G, R>;
  using Shape = typename Row::Shape;
  using Group = LaneGroup<G>;

  __device__ WarpTiles(const Call& call, char* shared) : call_(call) {
    char* mine = shared + (threadIdx.x / 32) * Shape::kWarpBytes;
    tiles_ = reinterpret_cast<T*>(mine);
    list_ = reinterpret_cast<std::uint16_t*>(mine + Shape::kStages * Shape::kTileBytes) +
            Group::index_in_warp() * Shape::kListCols;
    const std::int64_t tiles = (call_.rows + Shape::kRows - 1) / Shape::kRows;
    const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / 32;
    const std::int64_t begin = warp * call_.units_per_worker;
    count_ = static_cast<int>(max(std::int64_t{0}, min(tiles - begin, call_.units_per_worker)));
    first_row_ = begin * Shape::kRows + Group::index_in_warp();
  }

  __device__ void pad() const {
    if (call_.cols == Shape::kCols) return;
#pragma unroll 1
    for (int stage = 0; stage < Shape::kStages; ++stage) {
      Row::pad(tiles_ + stage * Shape::kTileElements, static_cast<int>(call_.cols), call_.smallest);
    }
  }

  /// Calls `f` with the rows and the number of each tile, one after the other. Copies of the next ones run on meanwhile.
  template <class F>
  __device__ void for_each(F f) const {
    int fetched = 0;
    std::int64_t fetched_row = first_row_;
#pragma unroll
    for (int stage = 0; stage < Shape::kStages - 1; ++stage) fetch(stage, fetched, fetched_row);
    int stage = 0;
    std::int64_t row = first_row_;
#pragma unroll 1
    for (int number = 0; number < count_; ++number) {
      wait_for_copies<Shape::kStages - 2>();
      __syncwarp();
      fetch(stage == 0 ? Shape::kStages - 1 : stage - 1, fetched, fetched_row);
      f(Row{call_, tiles_ + stage * Shape::kTileElements, list_, last_if_behind(row)}, number);
      __syncwarp();
      stage = stage == Shape::kStages - 1 ? 0 : stage + 1;
      row += Shape::kRows;
    }
  }

  /// Calls `f` with the rows of the tiles that have a bit in `numbers`.
  template <class F>
  __device__ void for_some(std::uint64_t numbers, F f) const {
#pragma unroll 1
    for (; numbers != 0; numbers &= numbers - 1) {
      const std::int64_t row = first_row_ + (__ffsll(static_cast<long long>(numbers)) - 1) * Shape::kRows;
      fetch_row(0, last_if_behind(row));
      commit_copies();
      wait_for_copies<0>();
      __syncwarp();
      f(Row{call_, tiles_, list_, last_if_behind(row)});
      __syncwarp();
    }
  }

 private:
  /// Groups behind the last row do that row again, and write the same.
  __device__ std::int64_t last_if_behind(std::int64_t row) const {
    return G == 32 || row < call_.rows ? row : call_.rows - 1;
  }

  __device__ void fetch(int stage, int& fetched, std::int64_t& row) const {
    if (fetched < count_) fetch_row(stage, last_if_behind(row));
    ++fetched;
    row += Shape::kRows;
    commit_copies();
  }

  __device__ void fetch_row(int stage, std::int64_t row) const {
    const T* from = static_cast<const T*>(call_.input) + row * call_.stride;
    T* to = tiles_ + stage * Shape::kTileElements;
    const int cols = static_cast<int>(call_.cols);
    if (call_.access_bytes == 16) {
      T* mine = to + static_cast<int>(threadIdx.x % 32) * Shape::kVector;
      from += Group::lane() * Shape::kVector;
      if (cols == Shape::kCols) {
#pragma unroll
        for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
          copy_async<16>(mine + chunk * Shape::kVector * 32, from + chunk * Shape::kChunkCols);
        }
      } else {
#pragma unroll
        for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
          if (Row::col_of(chunk, 0) < cols) {
            copy_async<16>(mine + chunk * Shape::kVector * 32, from + chunk * Shape::kChunkCols);
          }
        }
      }
    } else {
      Row::fetch_narrow(from, to, cols, call_.access_bytes);
    }
  }

  const Call& call_;
  T* tiles_;             ///< The ring of tiles of this warp.
  std::uint16_t* list_;  ///< Columns, of this group's row.
  std::int64_t first_row_;
  int count_;
};

/// What a kernel is compiled for: calls that are seldom needed would cost the others registers.
enum class WarpTask { select, select_in_order, bisect };

template <class T, int G, int R, WarpTask kTask>
class WarpSelect {
 public:
  using Row = WarpRow<T, G, R>;
  using Shape = typename Row::Shape;
  using Positions = typename Row::Positions;
  using E = Element<T>;
  using Value = typename E::Value;
  using Real = typename E::Real;
  using Group = LaneGroup<G>;
  using Bracket = ThresholdBracket<T>;

  /// Selects and writes the rows of the warp. False if they must be put off.
  __device__ bool select(const Row& row) {
    constexpr int kMostPasses = 40;
    Value x[R];
    row.load(x);
    if (__any_sync(kWholeWarp, !learnt_.known)) {
      Learnt<Real> own = expected(row.call.expectation, x);
      own.tied = learnt_.tied;  // the same in all lanes, as the steps of the search must be
      if (!learnt_.known) learnt_ = own;
    }
    const int k = row.k();
    float counts[Shape::kChunks];
    Real at = learnt_.border;
    Value threshold = E::from_real(at);
    int off = count(x, threshold, counts) - k;
    const int first_off = off;
    int passes = 1;
    Bracket bracket;
    bool ties = false;
    if (__any_sync(kWholeWarp, off != 0)) {
      Real step = learnt_.step;
#pragma unroll 1
      do {
        bracket.take(threshold, off);
        const Real stepped = at + static_cast<Real>(off) * step;
        step *= Real{1.5};  // so that a row of another scale is caught up with
        // A row that is done stays where it is while others of the warp go on.
        if (off != 0) at = bracket.is_closed() ? bracket.between() : stepped;
        Value next = E::from_real(at);
        bool is_neighbour = false;
        if (passes >= first_unusual_pass<T>(learnt_.tied)) {
          if (passes == kMostPasses) return put_off();
          if (takes_neighbour(passes)) {
            // A NaN is at or above every threshold, so without an upper one it would pass for a tie.
            const bool nan = has_nan(x);
            if (__any_sync(kWholeWarp, off != 0 && !bracket.has_high() && nan)) return put_off();
            next = greatest_below(x, bracket.high, bracket.has_high());
            is_neighbour = true;
          } else if (takes_middle(passes)) {
            next = bracket.middle_key();
          }
          at = off != 0 ? E::real(next) : at;
        }
        threshold = off != 0 ? next : threshold;
        const int before = off;
        off = count(x, threshold, counts) - k;
        // Too few elements reach what is above the neighbour, too many the neighbour itself.
        ties = ties || (is_neighbour && before != 0 && off > 0);
        off = ties ? 0 : off;
        ++passes;
      } while (__any_sync(kWholeWarp, off != 0));
    }
    if (__any_sync(kWholeWarp, !E::is_finite(threshold) || threshold == E::least())) return put_off();
    learn<T>(learnt_, threshold, first_off, passes, __any_sync(kWholeWarp, ties));
    if (row.call.passes != nullptr && Group::lane() == 0) row.call.passes[row.row] = passes;

    // What every way ends with stands here once: inlined in each, it would cost registers and cached instructions.
    const bool any_ties = __any_sync(kWholeWarp, ties);
    if (row.call.form == Form::dense || row.call.form == Form::mask || any_ties) {
      const unsigned chosen = choose(x, threshold, bracket, ties, any_ties, k);
      if (row.call.form == Form::dense) {
        row.write_dense(chosen);
        return true;
      }
      if (row.call.form == Form::mask) {
        row.write_mask(chosen);
        return true;
      }
      row.list_chosen(chosen);
    } else {
      list(row, x, threshold, counts);
    }
    if constexpr (kTask == WarpTask::select_in_order) {
      row.write_list();
    } else {
      row.write_list_as_it_is();
    }
    return true;
  }

 private:
  /// Elements of the row at or above the threshold; `counts` says how many in each of this lane's chunks.
  static __device__ int count(const Value (&x)[R], Value threshold, float (&counts)[Shape::kChunks]) {
    return Group::sum(__float2int_rz(count_mine<T>(x, threshold, counts)));
  }

  static __device__ bool has_nan(const Value (&x)[R]) {
    bool found = false;
#pragma unroll
    for (int r = 0; r < R; ++r) found = found || E::is_nan(x[r]);
    return Group::any(found);
  }

  static __device__ Value greatest_below(const Value (&x)[R], Value high, bool has_high) {
    Value greatest = E::least();
#pragma unroll
    for (int r = 0; r < R; ++r) greatest = (x[r] < high || !has_high) && x[r] > greatest ? x[r] : greatest;
    return E::from_sort_key(Group::greatest(E::sort_key(greatest)));
  }

  static __device__ Learnt<Real> expected(const Expectation& expectation, const Value (&x)[R]) {
    Real sum = 0;
    Real squares = 0;
    float finite = 0;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const bool counts = E::is_finite(x[r]) && x[r] != E::least();
      const Real value = counts ? E::real(x[r]) : Real{0};
      finite += counts ? 1.0f : 0.0f;
      sum += value;
      squares += value * value;
    }
    return expected_from(expectation, Group::sum_reals(sum), Group::sum_reals(squares), Group::sum_reals(finite));
  }

  __device__ bool put_off() {
    learnt_.known = false;
    return false;
  }

  /// The columns of all elements at or above the threshold, in ascending order.
  static __device__ void list(const Row& row, const Value (&x)[R], Value threshold,
                              const float (&counts)[Shape::kChunks]) {
    unsigned numbers[Shape::kChunks];
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      numbers[chunk] = static_cast<unsigned>(__float2int_rz(counts[chunk]));
    }
    const Positions at = Row::positions(numbers);
    const auto list = static_cast<std::uint32_t>(__cvta_generic_to_shared(row.list));
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      std::uint32_t next = list + 2 * static_cast<std::uint32_t>(at.first[chunk]);
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j) {
        E::push_if_at_least(x[chunk * Shape::kVector + j], threshold, next, Row::col_of(0, 0),
                            chunk * Shape::kChunkCols + j);
      }
    }
    __syncwarp();
  }

  static __device__ unsigned choose(const Value (&x)[R], Value threshold, const Bracket& bracket, bool ties,
                                    bool any_ties, int k) {
    unsigned chosen = 0;
    const Value border = ties ? bracket.high : threshold;
    const bool none = ties && !bracket.has_high();
#pragma unroll
    for (int r = 0; r < R; ++r) chosen |= !none && E::at_least(x[r], border) ? 1u << r : 0u;
    if (!any_ties) return chosen;
    unsigned tied = 0;
#pragma unroll
    for (int r = 0; r < R; ++r) tied |= ties && x[r] == threshold ? 1u << r : 0u;
    return chosen | Row::first_in_index_order(tied, bracket.has_high() ? -bracket.off_high : k);
  }

  Learnt<Real> learnt_;
};

/// The tiles that were put off. Not inlined: what is seldom needed must not take registers from the rest.
template <class T, int G, int R>
__device__ __noinline__ void search_tiles(const Call& call, char* shared, std::uint64_t tiles) {
  core::KeyOf<T> hint = core::max_key<T> / 2;
  WarpTiles<T, G, R>(call, shared).for_some(tiles, [&](const WarpRow<T, G, R>& row) {
    WarpSearch<T, G, R>::select(row, hint);
  });
}

/// Blocks of a multiprocessor of sm_90, by the registers that a kernel needs.
template <class T, int G, int R, WarpTask kTask>
constexpr int blocks_per_multiprocessor() {
  if (kTask == WarpTask::select) return WarpShape<T, G, R>::kBlocksPerMultiprocessor;
  if (sizeof(T) == 8) return 2;
  if (G < 16) return 4;
  if (kTask == WarpTask::bisect) return R <= 16 ? 8 : 4;
  return 6;
}

template <class T, int G, int R, WarpTask kTask>
__global__ void __launch_bounds__(32 * kWarpsPerBlock, (blocks_per_multiprocessor<T, G, R, kTask>()))
    warp_kernel(const __grid_constant__ Call call) {
  extern __shared__ __align__(16) char shared[];
  const WarpTiles<T, G, R> tiles(call, shared);
  tiles.pad();
  if constexpr (kTask == WarpTask::bisect) {
    tiles.for_each([&](const WarpRow<T, G, R>& row, int) { WarpSearch<T, G, R>::bisect(row); });
  } else {
    WarpSelect<T, G, R, kTask> rows;
    std::uint64_t put_off = 0;
    int failures = 0;
    tiles.for_each([&](const WarpRow<T, G, R>& row, int number) {
      // After three that resist, the others are not even tried.
      if (failures < 3 && rows.select(row)) return;
      ++failures;
      put_off |= std::uint64_t{1} << number;
    });
    if (put_off != 0) search_tiles<T, G, R>(call, shared, put_off);
  }
}

}  // namespace rtopk::cuda
