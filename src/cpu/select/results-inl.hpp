// Receives the selected positions of a row in index order and writes them in the order and form of the problem.
// Included by simd_type-inl.hpp, once per instruction set.

/// A selected element. In ascending order of its key it is the output order by value: best first.
template <class Key>
struct Ranked {
  Key inverted_key;
  std::int64_t place;
};

template <class T, Direction direction>
class Results {
 public:
  Results(const Problem& problem, const Output& output, Scratch& scratch) : problem_(problem), output_(output) {
    if (!sorts()) return;
    if (ranks()) {
      bits_ = scratch.take<Bits>(problem.k);
      for (Ordered& part : ordered_) part = {scratch.take<Lane>(problem.k), scratch.take<Number>(problem.k)};
    } else {
      for (auto*& part : packed_) part = packs() ? scratch.take<std::uint64_t>(problem.k) : nullptr;
      for (auto*& part : ranked_) part = packs() ? nullptr : scratch.take<Ranked<Key>>(problem.k);
      digits_ = scratch.take<std::size_t>(static_cast<std::int64_t>(sizeof(Key) * kDigits));
    }
    places_ = scratch.take<std::int64_t>(problem.k);
  }

  /// True if results are written in another order than they are added. A single result is always in order.
  [[nodiscard]] bool sorts() const { return problem_.order == Order::by_value && problem_.k > 1; }

  void Begin(const T* elements, std::int64_t number) {
    elements_ = elements;
    number_ = number;
    written_ = 0;
    const std::int64_t row_start = number * problem_.cols;
    if (problem_.form == Form::dense) std::fill_n(static_cast<Bits*>(output_.dense) + row_start, problem_.cols, Bits{});
    if (problem_.form == Form::mask) std::fill_n(output_.mask + row_start, problem_.cols, std::uint8_t{});
  }

  /// Forgets what was added since Begin().
  void Restart() { Begin(elements_, number_); }

  /// Adds the elements at `base` + each of `positions`.
  template <class Position>
  void Add(const Position* positions, std::size_t count, std::size_t base) {
    if (!sorts()) {
      Write(positions, count, base);
    } else if (ranks()) {
      Gather(reinterpret_cast<const Bits*>(elements_) + base, positions, count, bits_ + written_);
      AddToAll(positions, count, static_cast<std::int64_t>(base), places_ + written_);
    } else if (packs()) {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t place = base + static_cast<std::size_t>(positions[i]);
        packed_[0][written_ + static_cast<std::int64_t>(i)] =
            (static_cast<std::uint64_t>(InvertedKey(place)) << 32) | place;
      }
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t place = base + static_cast<std::size_t>(positions[i]);
        ranked_[0][written_ + static_cast<std::int64_t>(i)] = {InvertedKey(place), static_cast<std::int64_t>(place)};
      }
    }
    written_ += static_cast<std::int64_t>(count);
  }

  /// Adds all missing results: equal elements, worse than all others. They are in order already.
  template <class Position>
  void AddWorst(const Position* positions, std::size_t count) {
    Write(positions, count, 0);
  }

  void End(std::int32_t passes) {
    if (sorts()) WriteSorted();
    if (problem_.passes) output_.passes[number_] = passes;
  }

 private:
  using Key = core::KeyOf<T>;
  using Lane = SignedOf<Key>;
  using Bits = core::KeyOf<T>;  ///< Values are copied as bits, which preserves NaN payloads and -0.

  /// True if ranks and merges sort the results, else the digits of their keys do. Neither has unpredictable branches.
  /// On a Neoverse N1, ns per row including the search (ranks, digits): 1024 columns, f32, k = 200: 4757, 4799;
  /// k = 400: 9268, 7457; f16, k = 129: 3176, 2666; f64, k = 200: 6330, 6331; k = 400: 11759, 9500.
  [[nodiscard]] bool ranks() const { return problem_.k <= kMaxRanked; }
  static constexpr std::int64_t kMaxRanked = sizeof(T) == 2 ? kMaxRankedOf16Bits : cpu::kMaxRanked;
  /// True if key and position fit into 64 bits, which are moved faster than pairs.
  [[nodiscard]] bool packs() const { return sizeof(Key) <= 4 && problem_.cols <= std::int64_t{1} << 32; }

  Key InvertedKey(std::size_t place) const {
    const Key bits = core::bits_of(elements_[place]);
    const Key compared = problem_.magnitude ? MagnitudeBitsOf<T>(bits) : bits;
    return static_cast<Key>(~core::directed_key<T, direction>(std::bit_cast<T>(compared)));
  }

  template <class Position>
  HWY_INLINE void Write(const Position* positions, std::size_t count, std::size_t base) {
    const Bits* elements = reinterpret_cast<const Bits*>(elements_) + base;
    const std::int64_t start = number_ * problem_.k + written_;
    if (core::writes_values(problem_)) Gather(elements, positions, count, static_cast<Bits*>(output_.values) + start);
    WithIndices(start, [&](auto* indices) {
      using Index = std::remove_pointer_t<decltype(indices)>;
      AddToAll(positions, count, static_cast<Index>(base), indices);
    });
    const std::int64_t row_start = number_ * problem_.cols + static_cast<std::int64_t>(base);
    if (problem_.form == Form::dense) {
      Bits* dense = static_cast<Bits*>(output_.dense) + row_start;
      for (std::size_t i = 0; i < count; ++i) dense[positions[i]] = elements[positions[i]];
    }
    if (problem_.form == Form::mask) {
      std::uint8_t* mask = output_.mask + row_start;
      for (std::size_t i = 0; i < count; ++i) mask[positions[i]] = 1;
    }
  }

  /// Calls write(pointer to the index of result `start`) if indices are written.
  template <class WriteIndices>
  HWY_INLINE void WithIndices(std::int64_t start, WriteIndices&& write) const {
    if (!core::writes_indices(problem_)) return;
    switch (problem_.index_type) {
      case IndexType::i32: write(static_cast<std::int32_t*>(output_.indices) + start); break;
      case IndexType::i64: write(static_cast<std::int64_t*>(output_.indices) + start); break;
      case IndexType::u8: write(static_cast<std::uint8_t*>(output_.indices) + start); break;
      case IndexType::u16: write(static_cast<std::uint16_t*>(output_.indices) + start); break;
    }
  }

  /// Sorts the added results and writes them.
  void WriteSorted() {
    const auto count = static_cast<std::size_t>(written_);
    if (ranks()) return WriteRanked(count);
    if (packs()) {
      const auto* sorted =
          SortDigits(packed_, count, [](std::uint64_t packed) { return static_cast<Key>(packed >> 32); });
      for (std::size_t i = 0; i < count; ++i) places_[i] = static_cast<std::int64_t>(sorted[i] & 0xffffffffu);
    } else {
      const auto* sorted = SortDigits(ranked_, count, [](const Ranked<Key>& ranked) { return ranked.inverted_key; });
      for (std::size_t i = 0; i < count; ++i) places_[i] = sorted[i].place;
    }
    written_ = 0;
    Write(places_, count, 0);
  }

  static constexpr std::size_t kDigits = 256;  ///< Values of a digit: a byte of a key.

  /// Sorts parts[0] by the bytes of the keys, the lowest first, from one part to the other and back. Every step keeps
  /// the order of equal digits, so that equal elements stay in the order of Add().
  template <class Record, class KeyOfRecord>
  const Record* SortDigits(Record* const (&parts)[2], std::size_t count, KeyOfRecord key_of) {
    Record* from = parts[0];
    Record* to = parts[1];
    if (count == 0) return from;
    std::fill_n(digits_, sizeof(Key) * kDigits, std::size_t{0});
    for (std::size_t i = 0; i < count; ++i) {
      const Key key = key_of(from[i]);
      for (std::size_t byte = 0; byte < sizeof(Key); ++byte) ++digits_[byte * kDigits + Digit(key, byte)];
    }
    for (std::size_t byte = 0; byte < sizeof(Key); ++byte) {
      std::size_t* const next = digits_ + byte * kDigits;
      if (next[Digit(key_of(from[0]), byte)] == count) continue;  // all have this digit
      std::size_t before = 0;
      for (std::size_t digit = 0; digit < kDigits; ++digit) before += std::exchange(next[digit], before);
      for (std::size_t i = 0; i < count; ++i) to[next[Digit(key_of(from[i]), byte)]++] = from[i];
      std::swap(from, to);
    }
    return from;
  }

  static std::size_t Digit(Key key, std::size_t byte) { return static_cast<std::size_t>(key >> (8 * byte)) % kDigits; }

  void WriteRanked(std::size_t count) {
    if (count == 0) return;
    const Number* const order = PutIntoOrder(count);
    const std::int64_t start = number_ * problem_.k;
    if (core::writes_values(problem_)) Gather(bits_, order, count, static_cast<Bits*>(output_.values) + start);
    WithIndices(start, [&](auto* indices) {
      using Index = std::remove_pointer_t<decltype(indices)>;
      for (std::size_t i = 0; i < count; ++i) indices[i] = static_cast<Index>(places_[order[i]]);
    });
  }

  using D = hn::ScalableTag<Lane>;
  using V = hn::Vec<D>;
  static constexpr std::size_t kLanes = hn::MaxLanes(D{});

  using Number = std::uint16_t;  ///< Number of a result, in the order of Add().

  /// Sorted keys, and the numbers of their results.
  struct Ordered {
    Lane* keys;
    Number* numbers;
  };

  /// Results ranked by comparing all pairs. That grows with the square of their number; merging grows linearly.
  static constexpr std::size_t kRankedTogether = 32;

  /// Sorts the first `count` results by value and returns their numbers: best first, equal ones in the order of Add().
  const Number* PutIntoOrder(std::size_t count) {
    std::size_t parts = 1;
    while (count > parts * kRankedTogether) parts *= 2;
    const auto begin_of = [=](std::size_t part) { return part * count / parts; };
    MakeKeys(count);
    for (std::size_t part = 0; part < parts; ++part) Rank(begin_of(part), begin_of(part + 1), ordered_[1]);
    // Invariant: in ordered_[from], every block of `width` parts is sorted.
    std::size_t from = 1;
    for (std::size_t width = 1; width < parts; width *= 2, from = 1 - from) {
      for (std::size_t part = 0; part < parts; part += 2 * width) {
        Merge(ordered_[from], begin_of(part), begin_of(part + width), begin_of(part + 2 * width), ordered_[1 - from]);
      }
    }
    return ordered_[from].numbers;
  }

  /// Reads and writes whole vectors. Keys after the last result are not used.
  void MakeKeys(std::size_t count) {
    const D d;
    const hn::RebindToUnsigned<D> du;
    std::fill_n(bits_ + count, kLanes, Bits{});
    for (std::size_t i = 0; i < count; i += kLanes) {
      const auto bits = hn::LoadU(du, bits_ + i);
      const auto compared = problem_.magnitude ? MagnitudeBits<T>(du, bits) : bits;
      hn::StoreU(KeyLanes<T, direction>(du, compared), d, ordered_[0].keys + i);
    }
  }

  /// Sorts results [begin, end): the rank of each is the number of results that come before it.
  void Rank(std::size_t begin, std::size_t end, const Ordered& to) {
    HWY_ALIGN Lane ranks[kRankedTogether + 4 * kLanes];
    const Lane* const keys = ordered_[0].keys + begin;
    const std::size_t count = end - begin;
    std::size_t i = 0;
    for (; i + 3 * kLanes < count; i += 4 * kLanes) RankAt<4>(keys, i, count, ranks);
    for (; i + kLanes < count; i += 2 * kLanes) RankAt<2>(keys, i, count, ranks);
    if (i < count) RankAt<1>(keys, i, count, ranks);
    for (i = 0; i < count; ++i) {
      const std::size_t place = begin + static_cast<std::size_t>(ranks[i]);
      to.keys[place] = keys[i];
      to.numbers[place] = static_cast<Number>(begin + i);
    }
  }

  /// Ranks `vectors` vectors of keys, starting at `begin`. Several at once, because broadcasting the other key costs
  /// as much as comparing with it.
  template <std::size_t vectors>
  static HWY_INLINE void RankAt(const Lane* all_keys, std::size_t begin, std::size_t count, Lane* all_ranks) {
    const D d;
    V keys[vectors];
    V ranks[vectors];
    for (std::size_t v = 0; v < vectors; ++v) {
      keys[v] = hn::LoadU(d, all_keys + begin + v * kLanes);
      ranks[v] = hn::Set(d, static_cast<Lane>(begin + v * kLanes));  // as if all earlier results came before
    }
    for (std::size_t j = 0; j < begin; ++j) {
      const auto other = hn::Set(d, all_keys[j]);
      for (std::size_t v = 0; v < vectors; ++v) LeaveOutWorse(keys[v], other, ranks[v]);
    }
    RankAmong<0>(all_keys, begin, count, keys, ranks);
    for (std::size_t j = begin + vectors * kLanes; j < count; ++j) {
      const auto other = hn::Set(d, all_keys[j]);
      for (std::size_t v = 0; v < vectors; ++v) AddBetter(keys[v], other, ranks[v]);
    }
    for (std::size_t v = 0; v < vectors; ++v) hn::Store(ranks[v], d, all_ranks + begin + v * kLanes);
  }

  /// Compares the keys with the elements of the vectors themselves, starting with vector `of`.
  template <std::size_t of, std::size_t vectors>
  static HWY_INLINE void RankAmong(const Lane* all_keys, std::size_t begin, std::size_t count, const V (&keys)[vectors],
                                   V (&ranks)[vectors]) {
    const D d;
    const std::size_t first = begin + of * kLanes;
    const auto places = hn::Iota(d, static_cast<Lane>(first));
    for (std::size_t j = first; j < std::min(first + kLanes, count); ++j) {
      const auto other = hn::Set(d, all_keys[j]);
      for (std::size_t v = 0; v < of; ++v) AddBetter(keys[v], other, ranks[v]);
      const auto equal_before = hn::And(hn::Eq(other, keys[of]), hn::Gt(places, hn::Set(d, static_cast<Lane>(j))));
      const auto goes_before = hn::Or(hn::Gt(other, keys[of]), equal_before);
      ranks[of] = hn::Sub(ranks[of], hn::VecFromMask(d, goes_before));
      for (std::size_t v = of + 1; v < vectors; ++v) LeaveOutWorse(keys[v], other, ranks[v]);
    }
    if constexpr (of + 1 < vectors) RankAmong<of + 1>(all_keys, begin, count, keys, ranks);
  }

  // A comparison that holds gives -1.

  /// `other` was added after `keys`: it comes before those that it is better than.
  static HWY_INLINE void AddBetter(V keys, V other, V& ranks) {
    ranks = hn::Sub(ranks, hn::VecFromMask(D{}, hn::Gt(other, keys)));
  }

  /// `other` was added before `keys`: it comes after those that it is worse than.
  static HWY_INLINE void LeaveOutWorse(V keys, V other, V& ranks) {
    ranks = hn::Add(ranks, hn::VecFromMask(D{}, hn::Gt(keys, other)));
  }

  /// Merges two adjacent sorted parts whose sizes differ by at most one. Works from both ends at once, which gives two
  /// independent chains of steps. Each end takes half of all elements, which is at most the size of a part: no check
  /// for empty parts.
  static void Merge(const Ordered& from, std::size_t begin, std::size_t middle, std::size_t end, const Ordered& to) {
    const auto take = [&](std::size_t what, std::size_t where) {
      to.keys[where] = from.keys[what];
      to.numbers[where] = from.numbers[what];
    };
    std::size_t left = begin;
    std::size_t right = middle;
    std::size_t left_end = middle;
    std::size_t right_end = end;
    // Arithmetic instead of a conditional, which a compiler could turn into a branch.
    const auto either = [](std::size_t a, std::size_t b, std::size_t is_b) { return a + ((b - a) & (0 - is_b)); };
    // Invariant: to[begin, begin + i) and to[end - i, end) are final. Still to merge: from[left, left_end) and
    // from[right, right_end).
    for (std::size_t i = 0; i < (end - begin) / 2; ++i) {
      const std::size_t right_is_next = from.keys[right] > from.keys[left] ? 1 : 0;
      take(either(left, right, right_is_next), begin + i);
      right += right_is_next;
      left += 1 - right_is_next;
      const std::size_t left_is_last = from.keys[right_end - 1] > from.keys[left_end - 1] ? 1 : 0;
      take(either(right_end, left_end, left_is_last) - 1, end - 1 - i);
      left_end -= left_is_last;
      right_end -= 1 - left_is_last;
    }
    if ((end - begin) % 2 != 0) take(left < left_end ? left : right, begin + (end - begin) / 2);
  }

  const Problem& problem_;
  const Output& output_;
  const T* elements_ = nullptr;
  std::int64_t number_ = 0;
  std::int64_t written_ = 0;
  Bits* bits_ = nullptr;           ///< Added results, to be sorted.
  Ordered ordered_[2] = {};        ///< First their keys; then sorted parts, which merges move from one to the other.
  std::uint64_t* packed_[2] = {};  ///< Added results in the first, for SortDigits().
  Ranked<Key>* ranked_[2] = {};    ///< The same where they do not fit into 64 bits.
  std::size_t* digits_ = nullptr;
  std::int64_t* places_ = nullptr;
};

/// True if three elements of a row are the same: its kth value may be a tie at `key`. A row of one value is recognised by
/// that, whatever the rows before it were.
template <class T, Direction direction>
HWY_INLINE bool LooksTied(const T* elements, std::size_t size, core::KeyOf<T>& key) {
  key = core::directed_key<T, direction>(elements[size / 2]);
  return core::bits_of(elements[0]) == core::bits_of(elements[size / 2]) &&
         core::bits_of(elements[size - 1]) == core::bits_of(elements[size / 2]);
}

/// TakeIfTied() for a row that is too long to be marked at once.
template <class T, Direction direction, class View>
bool TakeIfTiedLong(const Row<View>& row, const Problem& problem, core::KeyOf<T> key, Listing& listing,
                    Results<T, direction>& results, std::int32_t& passes, bool& is_above) {
  std::int64_t above = row.Count(static_cast<core::KeyOf<T>>(key + 1));
  ++passes;
  is_above = above >= problem.k;
  if (is_above) return false;
  ++passes;
  std::int64_t ties = problem.k - above;
  for (std::size_t begin = 0; begin < row.size() && above + ties > 0; begin += kListedAtOnce) {
    const std::size_t end = std::min(row.size(), begin + kListedAtOnce);
    const std::int64_t ties_before = ties;
    const std::size_t count =
        above == 0 ? listing.FillTies(row, key, begin, end, ties) : listing.FillWithTies(row, key, begin, end, ties);
    if (count > 0) results.Add(listing.positions(), count, begin);
    above -= static_cast<std::int64_t>(count) - (ties_before - ties);
  }
  if (ties == 0) return true;
  results.Restart();  // the kth value is below `key`
  return false;
}

/// Handles a row whose kth value is `key`, with many ties: selects the k best without a search. Otherwise returns false
/// and changes only `passes`; `is_above` tells if the kth value is above `key`.
template <class T, Direction direction>
bool TakeIfTied(const T* elements, const Problem& problem, core::KeyOf<T> key, Listing& listing,
                Results<T, direction>& results, std::int32_t& passes, bool& is_above) {
  using View = typename Held<T, direction>::RowView;
  if (key <= View::lowest_key || key >= View::highest_key) return false;
  const auto size = static_cast<std::size_t>(problem.cols);
  const Row<View> row(elements, size);
  if (size > kListedAtOnce) {
    return TakeIfTiedLong<T, direction>(row, problem, key, listing, results, passes, is_above);
  }
  ++passes;
  const auto mark = [&](const auto& fast_row) { return listing.MarkIfTied(fast_row, row, key, problem.k, is_above); };
  bool found = false;
  if constexpr (Held<T, direction>::converts) {
    using FastView = HalfView<T, direction>;
    const bool is_fast = key >= FastView::lowest_key && !FastView::HidesNaN(elements, size);
    found = is_fast ? mark(Row<FastView>(elements, size)) : mark(row);
  } else {
    found = mark(row);
  }
  if (!found) return false;
  if (results.sorts()) {
    const std::size_t above = listing.ListAbove();
    results.Add(listing.positions(), above, 0);
    const std::size_t ties = listing.ListTies();
    results.AddWorst(listing.positions(), ties);
  } else {
    const std::size_t count = listing.ListMarked();
    results.Add(listing.positions(), count, 0);
  }
  return true;
}
