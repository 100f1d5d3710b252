// Takes the selected positions of a row in index order and writes them in the order and form of the problem. Included by
// simd_type-inl.hpp, once for each instruction set.

/// A selected element in a form whose ascending order is the order of the results: best first, ties by index.
template <class Key>
struct Ranked {
  Key inverted_key;
  std::int64_t place;

  friend bool operator<(const Ranked& a, const Ranked& b) {
    return a.inverted_key != b.inverted_key ? a.inverted_key < b.inverted_key : a.place < b.place;
  }
};

template <class T, Direction direction>
class Results {
 public:
  Results(const Problem& problem, const Output& output, Scratch& scratch) : problem_(problem), output_(output) {
    if (!sorts()) return;
    if (ranks()) {
      bits_ = scratch.take<Bits>(problem.k);
      keys_ = scratch.take<Lane>(problem.k);
      ranks_ = scratch.take<Lane>(problem.k);
      order_ = scratch.take<std::uint8_t>(problem.k);
    } else if (packs()) {
      packed_ = scratch.take<std::uint64_t>(problem.k);
    } else {
      ranked_ = scratch.take<Ranked<Key>>(problem.k);
    }
    places_ = scratch.take<std::int64_t>(problem.k);
  }

  void Begin(const T* elements, std::int64_t number) {
    elements_ = elements;
    number_ = number;
    written_ = 0;
    const std::int64_t row_start = number * problem_.cols;
    if (problem_.form == Form::dense) std::fill_n(static_cast<Bits*>(output_.dense) + row_start, problem_.cols, Bits{});
    if (problem_.form == Form::mask) std::fill_n(output_.mask + row_start, problem_.cols, std::uint8_t{});
  }

  /// Adds `base` + each of `positions`.
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
        packed_[written_ + static_cast<std::int64_t>(i)] =
            (static_cast<std::uint64_t>(InvertedKey(place)) << 32) | place;
      }
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t place = base + static_cast<std::size_t>(positions[i]);
        ranked_[written_ + static_cast<std::int64_t>(i)] = {InvertedKey(place), static_cast<std::int64_t>(place)};
      }
    }
    written_ += static_cast<std::int64_t>(count);
  }

  void End(std::int32_t passes) {
    if (sorts() && ranks()) {
      WriteRanked();
    } else if (sorts()) {
      WriteSorted();
    }
    if (problem_.passes) output_.passes[number_] = passes;
  }

 private:
  using Key = core::KeyOf<T>;
  using Lane = SignedOf<Key>;
  static constexpr std::int64_t kMaxRanked = 128;
  using Bits = core::KeyOf<T>;  ///< Values are moved as bits, so that NaN payloads and -0 survive.

  [[nodiscard]] bool sorts() const { return problem_.order == Order::by_value && problem_.k > 1; }
  /// Whether results are put into order by counting, for each, those that are better: k * k comparisons, many at a time, that
  /// are never mispredicted. Measured on a Neoverse N1, f32, ns a row, against std::sort: k = 8: 56, 94; k = 32: 320, 644;
  /// k = 64: 945, 1528; k = 128: 3200, 3519.
  [[nodiscard]] bool ranks() const { return problem_.k <= kMaxRanked; }
  /// Whether key and place fit into 64 bits, which sort faster than pairs.
  [[nodiscard]] bool packs() const { return sizeof(Key) <= 4 && problem_.cols <= std::int64_t{1} << 32; }

  Key InvertedKey(std::size_t place) const {
    return static_cast<Key>(~core::directed_key<T, direction>(elements_[place]));
  }

  /// Minus the number of keys of [begin, end) that are above (or below) each of `keys`.
  template <bool above, class D, class V = hn::Vec<D>>
  HWY_INLINE V CountKeys(D d, V keys, std::size_t begin, std::size_t end) const {
    const auto compare = [&](std::size_t j) HWY_ATTR {  // a comparison that holds is -1
      const auto other = hn::Set(d, keys_[j]);
      return hn::VecFromMask(d, above ? hn::Gt(other, keys) : hn::Gt(keys, other));
    };
    auto even = hn::Zero(d);
    auto odd = hn::Zero(d);
    std::size_t j = begin;
    for (; j + 2 <= end; j += 2) {
      even = hn::Add(even, compare(j));
      odd = hn::Add(odd, compare(j + 1));
    }
    if (j < end) even = hn::Add(even, compare(j));
    return hn::Add(even, odd);
  }

  /// Counts how many of the first `count` keys are better than each: those before it that are not worse, and those behind
  /// it that are better.
  void Rank(std::size_t count) {
    const hn::ScalableTag<Lane> d;
    const std::size_t lanes = hn::Lanes(d);
    for (std::size_t i = 0; i < count; i += lanes) {
      const auto keys = hn::LoadU(d, keys_ + i);
      const auto places = hn::Iota(d, static_cast<Lane>(i));
      const std::size_t end = std::min(i + lanes, count);
      auto rank = hn::Add(hn::Set(d, static_cast<Lane>(i)), CountKeys<false>(d, keys, 0, i));
      for (std::size_t j = i; j < end; ++j) {
        const auto other = hn::Set(d, keys_[j]);
        const auto first_of_equal = hn::And(hn::Eq(other, keys), hn::Gt(places, hn::Set(d, static_cast<Lane>(j))));
        rank = hn::Sub(rank, hn::VecFromMask(d, hn::Or(hn::Gt(other, keys), first_of_equal)));
      }
      hn::StoreU(hn::Sub(rank, CountKeys<true>(d, keys, end, count)), d, ranks_ + i);
    }
  }

  /// Moves results that are equal to the worst behind the others: they are in order. Returns how many others there are.
  std::size_t PutTiesLast(Lane worst) {
    const auto k = static_cast<std::size_t>(problem_.k);
    std::array<std::uint8_t, kMaxRanked> ties;
    std::size_t others = 0;
    std::size_t tied = 0;
    for (std::size_t i = 0; i < k; ++i) {  // without a branch that hangs on the elements
      const Lane key = keys_[i];
      keys_[others] = key;
      order_[others] = static_cast<std::uint8_t>(i);
      ties[tied] = static_cast<std::uint8_t>(i);
      const bool is_tie = key == worst;
      others += is_tie ? 0 : 1;
      tied += is_tie ? 1 : 0;
    }
    std::copy_n(ties.begin(), tied, order_ + others);
    return others;
  }

  void WriteRanked() {
    const hn::ScalableTag<Lane> d;
    const hn::RebindToUnsigned<decltype(d)> du;
    const std::size_t lanes = hn::Lanes(d);
    const auto k = static_cast<std::size_t>(problem_.k);
    std::fill_n(bits_ + k, lanes, bits_[0]);  // behind the end, where a vector is read whole
    auto least = hn::Set(d, std::numeric_limits<Lane>::max());
    for (std::size_t i = 0; i < k; i += lanes) {
      const auto keys = KeyLanes<T, direction>(du, hn::LoadU(du, bits_ + i));
      hn::StoreU(keys, d, keys_ + i);
      least = hn::Min(least, keys);
    }
    const Lane worst = hn::GetLane(hn::MinOfLanes(d, least));
    std::size_t ties = 0;
    for (std::size_t i = 0; i < k && k >= 16; i += lanes) {
      ties += hn::CountTrue(d, hn::Eq(hn::LoadU(d, keys_ + i), hn::Set(d, worst)));
    }
    std::size_t others = k;
    if (4 * ties >= k) {
      others = PutTiesLast(worst);
    } else {
      std::iota(order_, order_ + k, std::uint8_t{0});
    }
    Rank(others);
    for (std::size_t i = others; i < k; ++i) ranks_[i] = static_cast<Lane>(i);
    const std::int64_t start = number_ * problem_.k;
    if (core::writes_values(problem_)) {
      Bits* const values = static_cast<Bits*>(output_.values) + start;
      for (std::size_t i = 0; i < k; ++i) values[ranks_[i]] = bits_[order_[i]];
    }
    if (core::writes_indices(problem_)) {
      switch (problem_.index_type) {
        case IndexType::i32: WriteRankedIndices<std::int32_t>(start); break;
        case IndexType::i64: WriteRankedIndices<std::int64_t>(start); break;
        case IndexType::u8: WriteRankedIndices<std::uint8_t>(start); break;
        case IndexType::u16: WriteRankedIndices<std::uint16_t>(start); break;
      }
    }
  }

  template <class Index>
  HWY_INLINE void WriteRankedIndices(std::int64_t start) {
    Index* const indices = static_cast<Index*>(output_.indices) + start;
    for (std::int64_t i = 0; i < problem_.k; ++i) indices[ranks_[i]] = static_cast<Index>(places_[order_[i]]);
  }

  template <class Position>
  HWY_INLINE void Write(const Position* positions, std::size_t count, std::size_t base) {
    const Bits* elements = reinterpret_cast<const Bits*>(elements_) + base;
    const std::int64_t start = number_ * problem_.k + written_;
    if (core::writes_values(problem_)) Gather(elements, positions, count, static_cast<Bits*>(output_.values) + start);
    if (core::writes_indices(problem_)) {
      switch (problem_.index_type) {
        case IndexType::i32: WriteIndices<std::int32_t>(positions, count, base, start); break;
        case IndexType::i64: WriteIndices<std::int64_t>(positions, count, base, start); break;
        case IndexType::u8: WriteIndices<std::uint8_t>(positions, count, base, start); break;
        case IndexType::u16: WriteIndices<std::uint16_t>(positions, count, base, start); break;
      }
    }
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

  template <class Index, class Position>
  HWY_INLINE void WriteIndices(const Position* positions, std::size_t count, std::size_t base, std::int64_t start) {
    AddToAll(positions, count, static_cast<Index>(base), static_cast<Index*>(output_.indices) + start);
  }

  void WriteSorted() {
    const auto k = static_cast<std::size_t>(problem_.k);
    if (packs()) {
      std::sort(packed_, packed_ + k);  // in place: a run allocates nothing
      for (std::size_t i = 0; i < k; ++i) places_[i] = static_cast<std::int64_t>(packed_[i] & 0xffffffffu);
    } else {
      std::sort(ranked_, ranked_ + k);
      for (std::size_t i = 0; i < k; ++i) places_[i] = ranked_[i].place;
    }
    written_ = 0;
    Write(places_, k, 0);
  }

  const Problem& problem_;
  const Output& output_;
  const T* elements_ = nullptr;
  std::int64_t number_ = 0;
  std::int64_t written_ = 0;
  Bits* bits_ = nullptr;           ///< The results in index order, to be ranked.
  Lane* keys_ = nullptr;           ///< Their directed keys, ties for the last place behind the others.
  std::uint8_t* order_ = nullptr;  ///< Which result a key is of.
  Lane* ranks_ = nullptr;          ///< And its place in the order by value.
  std::uint64_t* packed_ = nullptr;
  Ranked<Key>* ranked_ = nullptr;
  std::int64_t* places_ = nullptr;
};
