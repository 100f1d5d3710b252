// The search for the exact threshold of a row: the first probe and the following ones. Included by simd_type-inl.hpp,
// once per instruction set.

/// Where to probe first, learnt from previous rows, because the rows of a matrix are usually similar. A hint cannot
/// change a result.
struct Hint {
  bool known = false;
  double value = 0;   ///< The kth value, averaged.
  double gap = 0;     ///< Distance between neighbouring elements there.
  bool tied = false;  ///< A large part of the row had exactly this value: for example the zeros after ReLU.

  /// Records that the kth value is `found`, with `elements` elements between it and `from`.
  HWY_INLINE void Learn(double found, double from, std::int64_t elements, bool anew) {
    anew = anew || tied;
    tied = false;
    value = anew ? found : value + (found - value) * 0.25;
    // A few elements tell little about their distance.
    if (std::abs(elements) >= 4) {
      const double seen = std::abs(found - from) / static_cast<double>(std::abs(elements));
      gap = anew ? seen : gap + (seen - gap) * 0.125;
    }
    known = true;
  }

  HWY_INLINE void LearnTie(double found) {
    known = true;
    tied = true;
    value = found;
  }
};

/// True if so many of `size` elements are equal to the threshold, not all of them selected, that the next row will be
/// tied, too. Smaller ties occur by chance with 16-bit elements; averaging handles them better.
template <class Key>
HWY_INLINE bool IsTied(const core::Threshold<Key>& threshold, std::int64_t k, std::size_t size) {
  return threshold.count > k && 8 * (threshold.count - threshold.count_above) >= static_cast<std::int64_t>(size);
}

/// A hint from a sample of the row itself: vectors from 16 places. A network without branches sorts the sample, each lane
/// by itself; what is read off every lane is averaged.
template <class View>
class Sample {
 public:
  HWY_INLINE explicit Sample(const Row<View>& row) : size_(static_cast<double>(row.size())) {
    const D d;
    const Element* elements = row.elements();
    Element padded[kLanes];
    std::size_t last = row.size() - kLanes;
    if (row.size() < kLanes) {
      std::fill_n(padded, kLanes, elements[0]);
      std::copy_n(elements, row.size(), padded);
      elements = padded;
      last = 0;
    }
    V sorted[kPlaces];
    for (std::size_t i = 0; i < kPlaces; ++i) sorted[i] = View::Load(d, elements + i * last / (kPlaces - 1));
    Sort<0>(sorted);
    for (std::size_t i = 0; i < kPlaces; ++i) hn::Store(sorted[i], d, lanes_ + i * kLanes);
  }

  [[nodiscard]] Hint At(std::int64_t k) const {
    const double place = static_cast<double>(k) / size_ * kPlaces - 0.5;
    const auto before = static_cast<std::size_t>(std::clamp(place, 0.0, kPlaces - 2.0));
    const double weight = std::clamp(place - static_cast<double>(before), 0.0, 1.0);
    const std::size_t first = before < 1 ? 0 : before - 1;
    const std::size_t last = std::min(before + 2, kPlaces - 1);
    const double elements = static_cast<double>(last - first) * size_ / kPlaces;
    const double value = Mean(before) + weight * (Mean(before + 1) - Mean(before));
    // The best of all lanes is nearer to a small k than the mean of their best.
    const bool few = static_cast<double>(k) * kPlaces * kLanes < 1.5 * size_;
    return {true, few ? Best() : value, (Mean(first) - Mean(last)) / elements, IsFlat(before)};
  }

 private:
  using D = hn::ScalableTag<typename View::Lane>;
  using V = hn::Vec<D>;
  using Lane = typename View::Lane;
  using Element = typename View::Element;
  static constexpr std::size_t kLanes = hn::MaxLanes(D{});
  static constexpr std::size_t kPlaces = 16;

  struct Pair {
    std::size_t better;
    std::size_t worse;
  };
  static constexpr std::size_t kExchanges = 63;
  /// Batcher's odd-even merge sort.
  static constexpr std::array<Pair, kExchanges> exchanges = [] {
    std::array<Pair, kExchanges> all{};
    std::size_t count = 0;
    for (std::size_t p = 1; p < kPlaces; p *= 2) {
      for (std::size_t apart = p; apart >= 1; apart /= 2) {
        for (std::size_t from = apart % p; from + apart < kPlaces; from += 2 * apart) {
          for (std::size_t i = from; i < std::min(from + apart, kPlaces - apart); ++i) {
            if (i / (2 * p) == (i + apart) / (2 * p)) all[count++] = {i, i + apart};
          }
        }
      }
    }
    return all;
  }();

  template <std::size_t step>
  static HWY_INLINE void Sort(V (&sorted)[kPlaces]) {
    if constexpr (step < kExchanges) {
      constexpr Pair pair = exchanges[step];
      const V a = sorted[pair.better];
      const V b = sorted[pair.worse];
      sorted[pair.better] = View::ascending ? hn::Max(a, b) : hn::Min(a, b);
      sorted[pair.worse] = View::ascending ? hn::Min(a, b) : hn::Max(a, b);
      Sort<step + 1>(sorted);
    }
  }

  /// The mean of the lanes at a place, without infinities and NaN.
  [[nodiscard]] double Mean(std::size_t place) const {
    const Lane* const lanes = lanes_ + place * kLanes;
    double sum = 0;
    double count = 0;
    for (std::size_t i = 0; i < kLanes; ++i) {
      const auto lane = static_cast<double>(lanes[i]);
      const bool finite = std::abs(lane) <= std::numeric_limits<double>::max();
      sum += finite ? lane : 0.0;
      count += finite ? 1.0 : 0.0;
    }
    return View::ToReal(View::KeyOfLane(count > 0 ? static_cast<Lane>(sum / count) : lanes[0]));
  }

  [[nodiscard]] double Best() const {
    const auto best =
        View::ascending ? *std::max_element(lanes_, lanes_ + kLanes) : *std::min_element(lanes_, lanes_ + kLanes);
    return View::ToReal(View::KeyOfLane(best));
  }

  /// True if all lanes at a place and the next one are equal.
  [[nodiscard]] bool IsFlat(std::size_t place) const {
    const Lane* const lanes = lanes_ + place * kLanes;
    return std::all_of(lanes, lanes + 2 * kLanes, [&](Lane lane) { return lane == lanes[0]; });
  }

  double size_;
  HWY_ALIGN Lane lanes_[kPlaces * kLanes];
};

template <class View>
HWY_NOINLINE Hint SampleHint(const Row<View>& row, std::int64_t k) {
  return Sample<View>(row).At(k);
}

/// Proposes probes by secant steps through the last two counts.
template <class View>
class Secant {
 public:
  using Key = typename View::Key;

  HWY_INLINE Secant(const Row<View>& row, std::int64_t k, double gap, bool may_sample)
      : row_(row), k_(k), gap_(gap), may_sample_(may_sample) {}

  HWY_INLINE void Record(Key probe, std::int64_t counted) {
    const double value = View::ToReal(probe);
    if (has_counted_) {
      // Same count at both probes: the gap is wider than estimated.
      gap_ = counted != counted_ ? std::abs((value - value_) / static_cast<double>(counted - counted_)) : 2 * gap_;
    }
    value_ = value;
    counted_ = counted;
    has_counted_ = true;
  }

  HWY_INLINE Key Next(const core::Bracket<Key>& bracket) {
    // The first probe was far off: the hint came from different data. Sample this row instead.
    if (may_sample_ && std::abs(counted_ - k_) * 8 > static_cast<std::int64_t>(row_.size())) {
      may_sample_ = false;
      const Hint own = SampleHint(row_, k_);
      gap_ = own.gap;
      return View::FromReal(own.value);
    }
    // Half an element further than the difference: aim between two elements.
    const double elements = static_cast<double>(counted_ - k_) + (counted_ > k_ ? 0.5 : -0.5);
    const Key next = View::FromReal(value_ + elements * gap_);
    if (next <= bracket.high) return next;  // probe() raises it to low + 1 if it is too low: ties end there
    const double low = View::ToReal(bracket.low);
    const double high = View::ToReal(bracket.high);
    if (!std::isfinite(high - low)) return static_cast<Key>(bracket.low + (bracket.high - bracket.low) / 2);
    const double share = (static_cast<double>(bracket.count_low - k_) + 0.5) /
                         (static_cast<double>(bracket.count_low - bracket.count_above) + 1.0);
    return View::FromReal(low + share * (high - low));
  }

  [[nodiscard]] double gap() const { return gap_; }

 private:
  const Row<View>& row_;
  std::int64_t k_;
  double gap_;
  bool may_sample_;
  bool has_counted_ = false;
  double value_ = 0;
  std::int64_t counted_ = 0;
};

/// Shrinks the bracket of a search to the elements in it.
template <class View>
void Narrow(const Row<View>& row, core::ThresholdSearch<typename View::Key>& search) {
  const auto& bracket = search.bracket();
  const auto [worst, best] = row.Extent(bracket.low, bracket.high);
  // Keep ends that were never counted: NaN may lie behind them, which this view cannot see.
  const bool low_is_known = View::tells_nan_apart || bracket.low != View::lowest_key;
  const bool high_is_known = View::tells_nan_apart || bracket.high != View::highest_key;
  search.narrow(low_is_known ? worst : bracket.low, high_is_known ? best : bracket.high);
}

/// Finds the threshold of the k best elements, probing first at the hint, and updates the hint. Stops as soon as no more
/// than `slack` elements beyond k reach it.
template <class View>
HWY_INLINE core::Threshold<typename View::Key> FindThreshold(const Row<View>& row, std::int64_t k, Hint& hint,
                                                             std::int64_t slack = 0) {
  using Key = typename View::Key;
  constexpr std::size_t kWorthSampling = 128;
  const bool from_sample = !hint.known;
  if (from_sample) hint = SampleHint(row, k);
  Secant<View> secant(row, k, hint.gap, !from_sample && row.size() >= kWorthSampling);
  core::ThresholdSearch<Key> search({View::lowest_key, View::highest_key, static_cast<std::int64_t>(row.size()), 0}, k);
  if (!search.done()) {
    const Key hinted = View::FromReal(hint.value);
    // Probe just above a tie, then at it: if the row has the same tie, two passes suffice.
    Key probe = search.probe(hint.tied && hinted < View::highest_key ? static_cast<Key>(hinted + 1) : hinted);
    const double first_value = View::ToReal(probe);
    std::int64_t first_count = -1;
    for (;;) {
      const std::int64_t counted = row.Count(probe);
      search.record(probe, counted);
      const bool first = first_count < 0;
      if (first) first_count = counted;
      if (search.done() || search.bracket().count_low - k <= slack) break;
      secant.Record(probe, counted);
      if (first && hint.tied && counted < k) {
        probe = search.probe(search.bracket().high);
        continue;
      }
      if (search.is_stuck()) {
        Narrow(row, search);
        if (search.done()) break;
      }
      probe = search.probe(secant.Next(search.bracket()));
    }
    const double found = View::ToReal(search.result().key);
    if (IsTied(search.result(), k, row.size())) {
      hint.LearnTie(found);
    } else {
      hint.Learn(found, first_value, first_count - k, from_sample);
    }
  }
  return search.result();
}

/// The longest row that FindThresholdByDigits() searches: it takes about 7 passes, each with three counts. Measured on a
/// Xeon with AVX-512, f16, ns per row, FindThreshold() against it: 128 columns, k = 32: 527, 345; 256 columns: 652, 480;
/// each row of its own scale: 1335, 503; 1024 columns, k = 256: 1971, 1623.
inline constexpr std::size_t kMaxDigitsColumns = 1024;

/// Finds the threshold of 16-bit keys digit by digit: three counts at a time decide two bits. In a short row a pass takes
/// less time than the arithmetic of a secant step and the branches that depend on it.
template <class View>
HWY_INLINE core::Threshold<typename View::Key> FindThresholdByDigits(const Row<View>& row, std::int64_t k, Hint& hint) {
  using Key = typename View::Key;
  static_assert(sizeof(Key) == 2 && View::lowest_key == 0);
  // Invariant: the kth value is in [key, key + 4 * step); count elements are >= key, count_above >= key + 4 * step.
  core::Threshold<Key> found{0, static_cast<std::int64_t>(row.size()), 0, 0};
  for (unsigned step = 1u << 14; step > 0 && found.count != k; step /= 4) {
    const auto counts = row.CountThree(found.key, static_cast<Key>(step));
    const std::int64_t all[] = {found.count, counts[0], counts[1], counts[2], found.count_above};
    unsigned digit = 0;  // a sum, because branches on it would be mispredicted
    for (const std::int64_t count : counts) digit += count >= k ? 1u : 0u;
    found.key = static_cast<Key>(found.key + digit * step);
    found.count = all[digit];
    found.count_above = all[digit + 1];
    ++found.passes;
  }
  const double value = View::ToReal(found.key);
  if (IsTied(found, k, row.size())) {
    hint.LearnTie(value);
  } else {
    hint.Learn(value, value, 0, true);
  }
  return found;
}

/// Finds the threshold of elements stored as Held describes, and calls use(row, threshold). The view of the row
/// distinguishes NaN if the threshold depends on it.
template <class T, Direction direction, class Use>
void WithThreshold(const typename Held<T, direction>::Element* elements, std::size_t size, std::int64_t k, Hint& hint,
                   Use&& use) {
  using View = typename Held<T, direction>::View;
  const Row<View> row(elements, size);
  const auto threshold = FindThreshold(row, k, hint);
  if constexpr (!View::tells_nan_apart) {
    // The search ended among infinities, which a raw view cannot distinguish from NaN: repeat it with exact keys.
    const bool beyond = direction == Direction::largest ? threshold.key == View::highest_key && threshold.count != k
                                                        : threshold.key == View::lowest_key;
    if (beyond) {
      hint.known = false;
      const Row<ConvertingView<T, direction>> exact_row(elements, size);
      use(exact_row, FindThreshold(exact_row, k, hint));
      hint.known = false;
      return;
    }
  }
  use(row, threshold);
}

/// Buffers for the marks and positions of a piece of a row.
class Listing {
 public:
  explicit Listing(Scratch& scratch)
      : words_(scratch.take<std::uint64_t>(kListedAtOnce / 64)),
        tied_words_(scratch.take<std::uint64_t>(kListedAtOnce / 64)),
        positions_(scratch.take<std::uint16_t>(kListedAtOnce)) {}

  [[nodiscard]] std::uint16_t* positions() const { return positions_; }

  /// Lists the positions, relative to `begin`, of the elements of [begin, end) that are >= `key`. Returns their number.
  template <bool sparse, class View>
  HWY_INLINE std::size_t Fill(const Row<View>& row, typename View::Key key, std::size_t begin, std::size_t end) {
    row.Mark(key, begin, end, words_);
    return ListPositions<sparse>(words_, Words(begin, end), positions_);
  }

  /// The same, but of the elements below `sure` takes only the first `ties`, and subtracts them from `ties`.
  template <class View>
  std::size_t FillUp(const Row<View>& row, typename View::Key key, typename View::Key sure, std::size_t begin,
                     std::size_t end, std::int64_t& ties) {
    row.Mark(sure, begin, end, words_);
    AddTies(MarkTies(row, key, begin, end, ties));
    return ListPositions<false>(words_, Words(begin, end), positions_);
  }

  /// The same, but takes only the first `ties` elements equal to `key`, and subtracts them from `ties`.
  template <class View>
  std::size_t FillWithTies(const Row<View>& row, typename View::Key key, std::size_t begin, std::size_t end,
                           std::int64_t& ties) {
    if (key == View::highest_key) return FillTies(row, key, begin, end, ties);
    return FillUp(row, key, static_cast<typename View::Key>(key + 1), begin, end, ties);
  }

  /// The same, where no element is above `key`, or where those that are count as equal.
  template <class View>
  std::size_t FillTies(const Row<View>& row, typename View::Key key, std::size_t begin, std::size_t end,
                       std::int64_t& ties) {
    std::fill_n(words_, Words(begin, end), std::uint64_t{0});
    return ListPositions<false>(tied_words_, MarkTies(row, key, begin, end, ties), positions_);
  }

  /// Handles a row of at most kListedAtOnce elements whose kth value is `key`, with many ties: marks the k best
  /// without a search. Otherwise returns false; `is_above` tells if the kth value is above `key`. `fast_row` is the
  /// same row in a view that need only support thresholds above `key`.
  template <class FastView, class View>
  bool MarkIfTied(const Row<FastView>& fast_row, const Row<View>& row, typename View::Key key, std::int64_t k,
                  bool& is_above) {
    words_of_row_ = Words(0, row.size());
    fast_row.Mark(static_cast<typename View::Key>(key + 1), 0, row.size(), words_);
    std::int64_t ties = k;
    for (std::size_t i = 0; i < words_of_row_; ++i) ties -= static_cast<std::int64_t>(std::popcount(words_[i]));
    is_above = ties <= 0;
    if (is_above) return false;
    words_with_ties_ = MarkTies(row, key, 0, row.size(), ties);
    return ties == 0;
  }

  // Positions of what MarkIfTied() marked: all elements, those above `key`, and those equal to it.
  std::size_t ListMarked() {
    AddTies(words_with_ties_);
    return ListPositions<false>(words_, words_of_row_, positions_);
  }
  std::size_t ListAbove() { return ListPositions<false>(words_, words_of_row_, positions_); }
  std::size_t ListTies() { return ListPositions<false>(tied_words_, words_with_ties_, positions_); }

 private:
  static std::size_t Words(std::size_t begin, std::size_t end) { return (end - begin + 63) / 64; }

  /// Marks the first `ties` elements that reach `key` and are not marked yet as above it, and subtracts them from
  /// `ties`. Stops when it has enough. Returns the number of words read.
  template <class View>
  std::size_t MarkTies(const Row<View>& row, typename View::Key key, std::size_t begin, std::size_t end,
                       std::int64_t& ties) {
    std::size_t done = 0;
    std::size_t words = 1;
    for (std::size_t at = begin; at < end && ties > 0; at += 64 * words, words = kTiedWords) {
      const std::size_t stop = std::min(end, at + 64 * words);
      row.Mark(key, at, stop, tied_words_ + done);
      for (const std::size_t last = done + Words(at, stop); done < last; ++done) {
        tied_words_[done] = First(tied_words_[done] & ~words_[done], ties);
      }
    }
    return done;
  }

  void AddTies(std::size_t words) {
    for (std::size_t i = 0; i < words; ++i) words_[i] |= tied_words_[i];
  }

  /// The lowest `count` set bits, or all if there are fewer. Subtracts their number from `count`.
  static HWY_INLINE std::uint64_t First(std::uint64_t bits, std::int64_t& count) {
    constexpr std::uint64_t kOnes = 0x0101010101010101;
    constexpr std::uint64_t kTops = kOnes << 7;
    // Byte i of sums: the number of set bits in bytes 0 to i.
    std::uint64_t sums = bits - ((bits >> 1) & 0x5555555555555555);
    sums = (sums & 0x3333333333333333) + ((sums >> 2) & 0x3333333333333333);
    sums = ((sums + (sums >> 4)) & (0x0f * kOnes)) * kOnes;
    const auto there = static_cast<std::int64_t>(sums >> 56);
    if (there <= count) {
      count -= there;
      return bits;
    }
    // Find the bytes that are taken completely, then the first bit of the next byte that is not taken.
    const auto wanted = static_cast<std::uint64_t>(count);
    const std::uint64_t whole = (((wanted * kOnes) | kTops) - sums) & kTops;
    const std::uint64_t next = 8 * (((whole >> 7) * kOnes) >> 56);
    const std::uint64_t left = wanted - (((sums << 8) >> next) & 0xff);
    const std::uint64_t end = next + kPositionTable.places[(bits >> next) & 0xff][left];
    count = 0;
    return bits & ((std::uint64_t{1} << end) - 1);
  }

  static constexpr std::size_t kTiedWords = 4;  ///< Words that are searched for ties at a time, after the first one.

  std::uint64_t* words_;
  std::uint64_t* tied_words_;
  std::size_t words_of_row_ = 0;
  std::size_t words_with_ties_ = 0;
  std::uint16_t* positions_;
};

/// Lists the positions of the selected elements, for at most kListedAtOnce elements of the row at a time, and calls
/// each(positions, count, base). Of the elements equal to the kth value it takes the first ones.
template <class View, class Each>
HWY_INLINE void ListSelected(const Row<View>& row, const core::Threshold<typename View::Key>& threshold, std::int64_t k,
                             Listing& listing, Each&& each) {
  std::int64_t ties = k - threshold.count_above;
  for (std::size_t begin = 0; begin < row.size(); begin += kListedAtOnce) {
    const std::size_t end = std::min(row.size(), begin + kListedAtOnce);
    const std::size_t count = threshold.count == k ? listing.Fill<false>(row, threshold.key, begin, end)
                                                   : listing.FillWithTies(row, threshold.key, begin, end, ties);
    if (count > 0) each(listing.positions(), count, begin);
  }
}
