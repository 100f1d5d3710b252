// Single passes over a row: count or mark the elements at or above a threshold. Included by simd_type-inl.hpp, once per
// instruction set.

/// The elements of a row. Incomplete vectors at the end are read from a padded copy, so no load goes past the row.
template <class View>
class Row {
 public:
  using Element = typename View::Element;
  using Key = typename View::Key;
  using Lane = typename View::Lane;
  using D = hn::ScalableTag<Lane>;
  static constexpr std::size_t kLanes = hn::MaxLanes(D{});
  static constexpr std::size_t kUnit = kLanes < 16 ? 16 : kLanes;  ///< Elements that are marked together.

  HWY_INLINE Row(const Element* elements, std::size_t size)
      : elements_(elements), size_(size), whole_(size / kUnit * kUnit) {
    if (whole_ != size_) {
      std::fill_n(tail_, kUnit, View::Padding());
      std::copy(elements + whole_, elements + size, tail_);
    }
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] const Element* elements() const { return elements_; }

  /// Number of elements >= `key`, which must be above View::lowest_key.
  [[nodiscard]] HWY_INLINE std::int64_t Count(Key key) const {
    const D d;
    const auto threshold = hn::Set(d, View::Threshold(key));
    std::int64_t marked = 0;
    // Every lane counts in its own width: flush before a 16-bit lane overflows.
    constexpr std::size_t kFlush = sizeof(Lane) == 2 ? 32000 * kLanes : std::size_t{1} << 30;
    for (std::size_t begin = 0; begin < whole_; begin += kFlush) {
      marked += CountMarked(d, threshold, elements_ + begin, std::min(kFlush, whole_ - begin));
    }
    if (whole_ != size_) marked += CountMarked(d, threshold, tail_, kUnit);
    const std::size_t seen = whole_ != size_ ? whole_ + kUnit : whole_;
    return View::marks_below ? static_cast<std::int64_t>(seen) - marked : marked;
  }

  /// Count() at `low` + `step`, + 2 `step` and + 3 `step`, with one read of the row.
  [[nodiscard]] HWY_INLINE std::array<std::int64_t, 3> CountThree(Key low, Key step) const {
    static_assert(View::marks_below);
    const D d;
    const auto first = hn::Set(d, View::Threshold(static_cast<Key>(low + step)));
    const auto second = hn::Set(d, View::Threshold(static_cast<Key>(low + 2 * step)));
    const auto third = hn::Set(d, View::Threshold(static_cast<Key>(low + 3 * step)));
    std::size_t below[3] = {};
    const auto take = [&](const Element* from) HWY_ATTR {
      const auto lanes = View::Load(d, from);
      below[0] += hn::CountTrue(d, View::Marked(d, lanes, first));
      below[1] += hn::CountTrue(d, View::Marked(d, lanes, second));
      below[2] += hn::CountTrue(d, View::Marked(d, lanes, third));
    };
    for (std::size_t i = 0; i < whole_; i += kLanes) take(elements_ + i);
    for (std::size_t i = 0; i < kUnit && whole_ != size_; i += kLanes) take(tail_ + i);
    const std::size_t seen = whole_ != size_ ? whole_ + kUnit : whole_;
    return {static_cast<std::int64_t>(seen - below[0]), static_cast<std::int64_t>(seen - below[1]),
            static_cast<std::int64_t>(seen - below[2])};
  }

  /// The keys of the worst and the best element in [low, high]. There must be at least one.
  [[nodiscard]] std::pair<Key, Key> Extent(Key low, Key high) const {
    const D d;
    const auto worst = hn::Set(d, View::Threshold(low));
    const auto best = hn::Set(d, View::Threshold(high));
    const auto floor = View::ascending ? worst : best;
    const auto ceiling = View::ascending ? best : worst;
    auto least = ceiling;
    auto greatest = floor;
    const auto take = [&](const Element* from) HWY_ATTR {
      const auto lanes = View::Load(d, from);
      const auto inside = Between(lanes, floor, ceiling);
      least = hn::Min(least, hn::IfThenElse(inside, lanes, ceiling));
      greatest = hn::Max(greatest, hn::IfThenElse(inside, lanes, floor));
    };
    for (std::size_t i = 0; i < whole_; i += kLanes) take(elements_ + i);
    for (std::size_t i = 0; i < kUnit && whole_ != size_; i += kLanes) take(tail_ + i);
    const Key least_key = View::KeyOfLane(hn::GetLane(hn::MinOfLanes(d, least)));
    const Key greatest_key = View::KeyOfLane(hn::GetLane(hn::MaxOfLanes(d, greatest)));
    return View::ascending ? std::pair(least_key, greatest_key) : std::pair(greatest_key, least_key);
  }

  /// Sets one bit per element of [begin, end): 1 if it is >= `key`. Bits after `end` are zero, up to a multiple of 64.
  /// `begin` must be a multiple of 64, and `end` too unless it is the size of the row.
  HWY_INLINE void Mark(Key key, std::size_t begin, std::size_t end, std::uint64_t* words) const {
    const D d;
    const auto threshold = hn::Set(d, View::Threshold(key));
    const std::size_t whole_end = std::min(end, whole_);
    words[(end - begin - 1) / 64] = 0;
    std::size_t at = begin;
#if HWY_ARCH_ARM
    if (begin + kWorthWords <= whole_end) {
      for (; at + 64 <= whole_end; at += 64) words[(at - begin) / 64] = MarkWord(threshold, elements_ + at);
    }
#endif
    auto* bytes = reinterpret_cast<std::uint8_t*>(words) + (at - begin) / 8;
    for (; at < whole_end; at += kUnit, bytes += kUnit / 8) MarkUnit(d, threshold, elements_ + at, bytes);
    if (whole_end < end) {
      std::uint8_t last[kUnit / 8];
      MarkUnit(d, threshold, tail_, last);
      std::memcpy(bytes, last, (end - whole_end + 7) / 8);
      if (end % 64 != 0) words[(end - begin - 1) / 64] &= (std::uint64_t{1} << (end % 64)) - 1;
    }
  }

 private:
  using V = hn::Vec<D>;
  using DCount = hn::RebindToSigned<D>;

  static HWY_INLINE hn::Vec<DCount> Marks(D d, V threshold, const Element* from) {
    const DCount dc;
    return hn::BitCast(dc, hn::VecFromMask(d, View::Marked(d, View::Load(d, from), threshold)));
  }

  static HWY_INLINE hn::Mask<D> Between(V lanes, V floor, V ceiling) {
    if constexpr (std::is_floating_point_v<Lane>) {
      return hn::And(hn::Ge(lanes, floor), hn::Le(lanes, ceiling));  // false for NaN
    } else {
      return hn::Not(hn::Or(hn::Lt(lanes, floor), hn::Gt(lanes, ceiling)));
    }
  }

  static HWY_INLINE std::int64_t CountMarked(D d, V threshold, const Element* from, std::size_t size) {
    if constexpr (kMasksAreBits) {  // no sum of lanes at the end, which the next probe would wait for
      std::size_t even = 0;
      std::size_t odd = 0;
      for (std::size_t i = 0; i < size; i += 2 * kLanes) {
        even += hn::CountTrue(d, View::Marked(d, View::Load(d, from + i), threshold));
        if (i + kLanes == size) break;
        odd += hn::CountTrue(d, View::Marked(d, View::Load(d, from + i + kLanes), threshold));
      }
      return static_cast<std::int64_t>(even + odd);
    }
    const DCount dc;
    auto sum0 = hn::Zero(dc);
    auto sum1 = hn::Zero(dc);
    auto sum2 = hn::Zero(dc);
    auto sum3 = hn::Zero(dc);
    std::size_t i = 0;
    for (; i + 4 * kLanes <= size; i += 4 * kLanes) {
      sum0 = hn::Sub(sum0, Marks(d, threshold, from + i));
      sum1 = hn::Sub(sum1, Marks(d, threshold, from + i + kLanes));
      sum2 = hn::Sub(sum2, Marks(d, threshold, from + i + 2 * kLanes));
      sum3 = hn::Sub(sum3, Marks(d, threshold, from + i + 3 * kLanes));
    }
    for (; i < size; i += kLanes) sum0 = hn::Sub(sum0, Marks(d, threshold, from + i));
    const auto sum = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
    if constexpr (sizeof(Lane) == 2) {
      const hn::RepartitionToWide<DCount> dw;
      const hn::Half<DCount> half;
      const auto wide =
          hn::Add(hn::PromoteTo(dw, hn::LowerHalf(half, sum)), hn::PromoteTo(dw, hn::UpperHalf(half, sum)));
      return hn::GetLane(hn::SumOfLanes(dw, wide));
    } else {
      return hn::GetLane(hn::SumOfLanes(dc, sum));
    }
  }

  /// The marks of one unit, as bits.
  static HWY_INLINE void MarkUnit(D d, V threshold, const Element* from, std::uint8_t* bytes) {
#if HWY_ARCH_ARM
    // Converting a mask to bits dominates the pass, and costs the same for 16 lanes as for 4: narrow the lanes first.
    // Their bits are all ones or all zeros, so any part of a lane will do.
    const hn::Repartition<std::uint8_t, D> d8;
    hn::StoreMaskBits(d8, hn::MaskFromVec(hn::BitCast(d8, NarrowMarks<sizeof(Lane)>(d, threshold, from))), bytes);
#else
    for (std::size_t i = 0; i < kUnit; i += kLanes) {
      const auto mask = View::Marked(d, View::Load(d, from + i), threshold);
      if constexpr (kMasksAreBits) {
        hn::StoreMaskBits(d, View::marks_below ? hn::Not(mask) : mask, bytes + i / 8);
      } else if constexpr (kLanes >= 8) {
        hn::StoreMaskBits(d, mask, bytes + i / 8);
      } else {
        std::uint8_t bits = 0;
        hn::StoreMaskBits(d, mask, &bits);
        bytes[i / 8] = static_cast<std::uint8_t>(i % 8 == 0 ? bits : bytes[i / 8] | (bits << (i % 8)));
      }
    }
#endif
    if constexpr (View::marks_below && !kMasksAreBits) {
      for (std::size_t i = 0; i < kUnit / 8; ++i) bytes[i] = static_cast<std::uint8_t>(~bytes[i]);
    }
  }

#if HWY_ARCH_ARM
  using DBits = hn::RebindToUnsigned<D>;
  using Bits = hn::TFromD<DBits>;
  static constexpr std::size_t kBits = 8 * sizeof(Bits);

  /// `bits`, repeated every `width` bits.
  static constexpr Bits Pattern(std::size_t width, Bits bits) {
    Bits pattern = 0;
    for (std::size_t at = 0; at < kBits; at += width) pattern = static_cast<Bits>(pattern | (bits << at));
    return pattern;
  }

  /// Fewest elements for which MarkWord() amortizes loading its constants; wider lanes need more constants.
  static constexpr std::size_t kWorthWords = sizeof(Lane) == 8 ? 256 : 64;

  /// The marks of 64 elements. Packs kBits of them at a time: bit i belongs to lane i % kLanes of vector i / kLanes.
  /// Each lane keeps only its own bits, so that the sum of the lanes is the packed word.
  static HWY_INLINE std::uint64_t MarkWord(V threshold, const Element* from) {
    constexpr std::size_t vectors = kBits / kLanes;
    const DBits db;
    HWY_ALIGN static constexpr auto own_bits = [] {
      std::array<Bits, kLanes> all{};
      for (std::size_t i = 0; i < kLanes; ++i) all[i] = Pattern(kLanes, static_cast<Bits>(Bits{1} << i));
      return all;
    }();
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < 64; i += kBits) {
      const auto marks = hn::And(ShareLanes<1, vectors>(threshold, from + i), hn::Load(db, own_bits.data()));
      word |= static_cast<std::uint64_t>(hn::GetLane(hn::SumOfLanes(db, marks))) << i;
    }
    return View::marks_below ? ~word : word;
  }

  /// The marks of `vectors` vectors that are `step` apart, packed: each lane holds those of the first in its lowest
  /// bits.
  template <std::size_t step, std::size_t vectors>
  static HWY_INLINE hn::Vec<DBits> ShareLanes(V threshold, const Element* from) {
    const DBits db;
    if constexpr (vectors == 1) {
      return hn::BitCast(db, Marks(D{}, threshold, from));
    } else {
      constexpr std::size_t width = kBits / vectors;
      constexpr Bits upper = Pattern(2 * width, static_cast<Bits>(((Bits{1} << width) - 1) << width));
      const auto even = ShareLanes<2 * step, vectors / 2>(threshold, from);
      const auto odd = ShareLanes<2 * step, vectors / 2>(threshold, from + step * kLanes);
      return hn::IfVecThenElse(hn::Set(db, upper), odd, even);
    }
  }

  /// The marks of `width` vectors, packed into one by keeping the even bytes, words or double words.
  template <std::size_t width>
  static HWY_INLINE hn::Vec<hn::Repartition<std::uint8_t, D>> NarrowMarks(D d, V threshold, const Element* from) {
    const hn::Repartition<std::uint8_t, D> d8;
    if constexpr (width == 1) {
      return hn::BitCast(d8, Marks(d, threshold, from));
    } else {
      using Part = std::conditional_t<width == sizeof(Lane), std::uint8_t,
                                      std::conditional_t<2 * width == sizeof(Lane), std::uint16_t, std::uint32_t>>;
      const hn::Repartition<Part, D> dp;
      const auto low = NarrowMarks<width / 2>(d, threshold, from);
      const auto high = NarrowMarks<width / 2>(d, threshold, from + width / 2 * kLanes);
      return hn::BitCast(d8, hn::ConcatEven(dp, hn::BitCast(dp, high), hn::BitCast(dp, low)));
    }
  }
#endif

  const Element* elements_;
  std::size_t size_;
  std::size_t whole_;  ///< Elements in complete units.
  Element tail_[kUnit];
};

/// Lists the positions of the set bits of `count` words, in ascending order, and returns their number. At most 65536
/// bits. Writes whole vectors: `positions` needs space for 8 more.
template <bool sparse>
HWY_INLINE std::size_t ListPositions(const std::uint64_t* words, std::size_t count, std::uint16_t* positions) {
  std::uint16_t* out = positions;
  if constexpr (sparse) {
    std::size_t first = 0;
    for (std::size_t i = 0; i < count; ++i, first += 64) {
      for (std::uint64_t left = words[i]; left != 0; left &= left - 1) {
        *out++ = static_cast<std::uint16_t>(first + static_cast<std::size_t>(std::countr_zero(left)));
      }
    }
  } else {
    const hn::CappedTag<std::uint16_t, 8> d16;
    const hn::Rebind<std::uint8_t, decltype(d16)> d8;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(words);
    auto first = hn::Zero(d16);
    for (std::size_t i = 0; i < 8 * count; ++i) {
      const std::size_t bits = bytes[i];
      hn::StoreU(hn::Add(first, hn::PromoteTo(d16, hn::LoadU(d8, kPositionTable.places[bits].data()))), d16, out);
      out += kPositionTable.counts[bits];
      first = hn::Add(first, hn::Set(d16, std::uint16_t{8}));
    }
  }
  return static_cast<std::size_t>(out - positions);
}

/// Loads elements at listed positions, four at a time: compilers do not unroll a loop of dependent loads.
template <class Bits, class Position>
HWY_INLINE void Gather(const Bits* HWY_RESTRICT from, const Position* HWY_RESTRICT positions, std::size_t count,
                       Bits* HWY_RESTRICT to) {
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const Bits a = from[positions[i]];
    const Bits b = from[positions[i + 1]];
    const Bits c = from[positions[i + 2]];
    const Bits d = from[positions[i + 3]];
    to[i] = a;
    to[i + 1] = b;
    to[i + 2] = c;
    to[i + 3] = d;
  }
  for (; i < count; ++i) to[i] = from[positions[i]];
}

/// to[i] = base + positions[i].
template <class Index, class Position>
HWY_INLINE void AddToAll(const Position* HWY_RESTRICT positions, std::size_t count, Index base,
                         Index* HWY_RESTRICT to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<Index>(base + static_cast<Index>(positions[i]));
}
