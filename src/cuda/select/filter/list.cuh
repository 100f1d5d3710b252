// What a warp of cuda_filter keeps between the pieces of its rows: the candidates of the row, the filter threshold, and
// what it learnt from the rows before. All of it is in shared memory. These functions are seldom called and not
// inlined, so that they take no registers from the loop over pieces.
#pragma once

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/candidate_search.cuh"
#include "cuda/select/filter/result.cuh"
#include "cuda/select/filter/stream.cuh"
#include "cuda/select/filter/threshold.cuh"

namespace rtopk::cuda {

template <class T>
struct FilterState {
  using Key = typename FilterKey<T>::Key;
  using Distance = KeyDistance<Key>;

  // The current row.
  Key floor;          ///< No candidate is below.
  Key sampled_floor;  ///< If not 0: a filter threshold that only a sample suggests. It may be too high.
  int passes;
  int pruned;  ///< How often the list was full.
  int failed;  ///< How often too few elements reached the filter threshold.
  bool may_sample;
  bool from_sample;  ///< True if the first filter threshold of the row was sampled.

  // What was learnt.
  bool known;
  int capacity;
  float least_margin;
  Key kth;
  Distance step;  ///< Distance between the keys of neighbouring ranks, near the kth value.
  float margin;   ///< Ranks that the filter threshold lies below the kth value.
  float weight;   ///< Of the last row in the learnt average.

  /// Distance of the filter threshold below the kth value: the less is known, the larger.
  [[nodiscard]] __device__ Distance reach() const { return static_cast<Distance>(margin * (1.0f + weight)) * step; }
  [[nodiscard]] __device__ Key filter_threshold() const {
    return stepped(kth, -reach(), Key{0}, FilterKey<T>::kGreatest);
  }
  /// True if the learnt filter threshold would have been right for a row with this kth value.
  [[nodiscard]] __device__ bool suits(Key other) const {
    return known && other >= filter_threshold() && distance(filter_threshold(), other) <= Distance{3} * reach();
  }
};

/// `kShort`: for lists of up to kShortList candidates.
template <class T, bool kShort>
class FilterList {
 public:
  using Config = FilterConfig<T>;
  using Key = typename FilterKey<T>::Key;
  using State = FilterState<T>;
  using Distance = KeyDistance<Key>;
  using Result = FilterResult<T, kShort>;
  static_assert(sizeof(State) <= Config::kStateBytes);

  /// `shared` holds the state, the candidates' elements, and their columns in ascending order.
  __device__ FilterList(const SelectArguments& args, char* shared) : args_(args), shared_(shared) {}

  __device__ T* elements() const { return reinterpret_cast<T*>(shared_ + Config::kStateBytes); }
  __device__ std::int32_t* columns(int capacity) const {
    return reinterpret_cast<std::int32_t*>(shared_ + Config::kStateBytes + capacity * static_cast<int>(sizeof(T)));
  }

  /// The filter threshold of the first row.
  static __device__ __noinline__ FilterThreshold<T> begin(const SelectArguments& args, char* shared, std::int64_t row,
                                                          int capacity) {
    const FilterList list(args, shared);
    State state{};
    state.capacity = capacity;
    state.least_margin = 4.0f * sqrtf(static_cast<float>(learnt_rank(static_cast<int>(args.k))));
    state.margin = state.least_margin;
    state.passes = 1;
    state.floor = list.sample(row, 4.5f);  // a safe margin: to read the first row again would delay the end
    list.save(state);
    return FilterThreshold<T>::at(state.floor, args.smallest);
  }

  /// The rank whose key is learnt, and that a full list is cut to: k. The few largest elements of a row tell little
  /// about the next row, so there is a least rank.
  static __device__ int learnt_rank(int k) {
    constexpr int kLeast = 16;
    return max(k, kLeast);
  }

  /// Keeps the largest of a full list. Later elements equal to the smallest of them cannot be selected.
  static __device__ __noinline__ FilterThreshold<T> prune(const SelectArguments& args, char* shared, std::int64_t row) {
    const FilterList list(args, shared);
    const int number = list.peek().capacity;
    const CandidateThreshold<Key> kth = list.find(number, learnt_rank(static_cast<int>(args.k)));
    Result::keep(args, list.elements(), list.columns(number), number, kth);
    FilterThreshold<T> filter_threshold = FilterThreshold<T>::above(kth.edge, args.smallest);
    // The list is full for the second time: the row may be ascending. A sample tells what is still to come.
    const bool samples =
        list.peek().pruned == 1 && list.peek().may_sample && filter_threshold.way != FilterThreshold<T>::Way::closed;
    const Key sampled = samples ? list.sample(row, 3.0f) : Key{0};
    State state = list.state();
    state.passes += kth.passes;
    state.floor = kth.least();
    ++state.pruned;
    state.may_sample = state.may_sample && !samples;
    if (samples && sampled > filter_threshold.key) {
      filter_threshold = FilterThreshold<T>::at(sampled, args.smallest);
      state.sampled_floor = sampled;
    }
    list.save(state);
    return filter_threshold;
  }

  struct End {
    bool done;                            ///< If false, the row must be read again.
    FilterThreshold<T> filter_threshold;  ///< For the next read.
  };

  /// Writes the selected elements and learns from them. If one may be missing from the candidates, the row must be read
  /// again instead. `more`: another row follows.
  static __device__ __noinline__ End end(const SelectArguments& args, char* shared, std::int64_t row, int number,
                                         bool more) {
    const FilterList list(args, shared);
    const int k = static_cast<int>(args.k);
    const Key sampled_floor = list.peek().sampled_floor;
    if (number < k || (sampled_floor != 0 && list.count(number, sampled_floor) < k)) return {false, list.again(row)};
    const CandidateThreshold<Key> kth = list.find(number, k);
    const int rank = min(number, learnt_rank(k));
    const bool astray = list.peek().failed > 0 || list.peek().pruned > 0 || !list.peek().known;
    const Key learnt = rank == k ? kth.least() : key_at(args, shared, number, rank);
    Distance step = 0;
    if (astray) {
      // Estimates the step from the distance between the rank and half of it. Ranks are denser there, hence the 0.7.
      const int half = (rank + 1) / 2;
      step = Distance{0.7f} * distance(learnt, key_at(args, shared, number, half)) *
             Distance{reciprocal(static_cast<float>(rank - half + 1))};
    }
    Result::write(args, list.elements(), list.columns(list.peek().capacity), row, number, kth);
    State state = list.state();
    if (args.passes != nullptr && LaneGroup<32>::lane() == 0) args.passes[row] = state.passes + kth.passes;
    if (!astray && number > rank) {
      step = distance(state.floor, learnt) * Distance{reciprocal(static_cast<float>(number - rank))};
    } else if (!astray) {
      step = state.step;
    }
    // If rows differ much, samples cost less than filter thresholds that fail.
    const bool samples =
        state.from_sample ? !state.suits(learnt) : state.known && (state.failed > 0 || state.pruned > 1);
    learn(state, learnt, step, astray, k);
    state.floor = state.filter_threshold();
    state.sampled_floor = 0;
    state.passes = 1;
    state.pruned = 0;
    state.failed = 0;
    state.may_sample = true;
    state.from_sample = samples;
    list.save(state);
    if (samples && more) {
      const Key sampled = list.sample(row + 1, 3.0f);
      state = list.state();
      state.floor = sampled;
      state.may_sample = false;
      list.save(state);
    }
    return {true, FilterThreshold<T>::at(list.peek().floor, args.smallest)};
  }

 private:
  __device__ State state() const {
    __syncwarp();
    return *reinterpret_cast<const State*>(shared_);
  }
  /// Reads a field where it is needed, instead of holding it in registers.
  __device__ const volatile State& peek() const { return *reinterpret_cast<const volatile State*>(shared_); }
  __device__ void save(const State& state) const {
    __syncwarp();
    if (LaneGroup<32>::lane() == 0) *reinterpret_cast<State*>(shared_) = state;
    __syncwarp();
  }

  __device__ CandidateThreshold<Key> find(int number, int k) const {
    const Key floor = peek().floor;
    const Distance step = peek().step;
    // Each size is small enough that reads past the candidates stay within their columns.
    if constexpr (kShort) {
      if (number <= 128) return search<128>(number, k, floor, step);
      constexpr int kMiddle = sizeof(T) == 8 ? 192 : 384;
      if (number <= kMiddle) return search<kMiddle>(number, k, floor, step);
      return search<Config::kShortList>(number, k, floor, step);
    } else if constexpr (sizeof(T) == 8) {
      if (number <= 480) return search<480>(number, k, floor, step);
      if (number <= 704) return search<704>(number, k, floor, step);
      return search<0>(number, k, floor, step);
    } else {
      if (number <= 1280) return search<1280>(number, k, floor, step);
      if (number <= 2432) return search<2432>(number, k, floor, step);
      return search<0>(number, k, floor, step);
    }
  }
  template <int kMax>
  __device__ CandidateThreshold<Key> search(int number, int k, Key floor, Distance step) const {
    return kth_of<T, kMax / 32>(elements(), number, k, args_.smallest, floor, step);
  }

  /// The number of candidates that reach a key.
  __device__ int count(int number, Key key) const {
    return KeysInMemory<T>(elements(), number, args_.smallest).count(key);
  }

  /// The filter threshold for reading a row again after too few elements reached the last one. Comes from a sample of
  /// the row. If that was tried before, or is not lower, all elements are candidates at first.
  __device__ FilterThreshold<T> again(std::int64_t row) const {
    const Key sampled = peek().may_sample ? sample(row, 3.0f) : Key{0};
    State state = this->state();
    state.floor = sampled < state.floor ? sampled : Key{0};
    state.sampled_floor = 0;
    state.may_sample = false;
    state.pruned = 0;
    ++state.failed;
    ++state.passes;
    save(state);
    return FilterThreshold<T>::at(state.floor, args_.smallest);
  }

  /// The key of a rank. Not inlined, because it is seldom called: instructions that wait to be fetched cost time.
  static __device__ __noinline__ Key key_at(const SelectArguments& args, char* shared, int number, int rank) {
    return FilterList(args, shared).find(number, rank).least();
  }

  static __device__ void learn(State& state, Key key, Distance step, bool astray, int k) {
    if (state.failed > 0) {
      state.margin = fminf(1.5f * state.margin, 0.5f * static_cast<float>(state.capacity - k));
    } else {
      state.margin = fmaxf(0.98f * state.margin, state.least_margin);
    }
    astray = astray || state.from_sample;
    state.weight = astray ? 1.0f : fmaxf(state.weight * reciprocal(1.0f + state.weight), 0.125f);
    const auto weight = static_cast<Distance>(state.weight);
    state.step += weight * (step - state.step);
    state.kth = astray ? key : stepped(state.kth, weight * distance(state.kth, key), Key{0}, FilterKey<T>::kGreatest);
    state.known = true;
  }

  /// A filter threshold from a sample of a row.
  __device__ Key sample(std::int64_t row, float deviations) const {
    const T* elements = row_of<T>(args_, row);
    const int cols = static_cast<int>(args_.cols);
    const int k = static_cast<int>(args_.k);
    if constexpr (kShort) {
      // A small sample, if it would not make too many candidates.
      using Small = Samples<2>;
      const int rank = Small::rank(cols, k, deviations - 1);
      if (rank * (cols / Small::kNumber + 1) < peek().capacity * 7 / 8) {
        return Small::at_rank(elements, cols, rank, args_.smallest);
      }
    }
    using Large = Samples<8>;
    return Large::at_rank(elements, cols, Large::rank(cols, k, deviations), args_.smallest);
  }

  /// A sample of a row: evenly spread groups of neighbours, `kGroups` for each lane.
  template <int kGroups>
  struct Samples {
    static constexpr int kGroup = (kShort ? 4 : 8) / (sizeof(T) == 8 ? 2 : 1);  // no more than a sector of memory
    static constexpr int kPerLane = kGroup * kGroups;
    static constexpr int kNumber = 32 * kPerLane;

    /// A rank in the sample that k elements of the row should reach.
    static __device__ int rank(int cols, int k, float deviations) {
      const float expected = static_cast<float>(k) * static_cast<float>(kNumber) / static_cast<float>(cols);
      return static_cast<int>(expected + deviations * sqrtf(expected) + deviations);
    }

    static __device__ __noinline__ Key at_rank(const T* row, int cols, int rank, bool smallest) {
      const int stride = cols / (32 * kGroups);
      if (stride < kGroup || rank >= kNumber) return 0;
      KeysInRegisters<T, kPerLane> keys;
      row += LaneGroup<32>::lane() * stride;
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
#pragma unroll
        for (int j = 0; j < kGroup; ++j) keys.keys[group * kGroup + j] = FilterKey<T>::of(row[j], smallest);
        row += 32 * stride;
      }
      return find_kth(keys, kNumber, rank, Key{0}, Distance{0}).least();
    }
  };

  const SelectArguments& args_;
  char* shared_;
};

}  // namespace rtopk::cuda
