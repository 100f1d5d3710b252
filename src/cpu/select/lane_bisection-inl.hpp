// Bisections of short rows that stop early, one row per vector lane: a pass counts for all rows of a group at once, and
// never waits for a sum over lanes. Included by simd_type-inl.hpp, once per instruction set.

/// Selects from groups of rows. Every lane goes through the steps of core::Bisection and keeps its state when it ends.
template <class T, Direction direction>
class LaneBisection {
  using Key = core::KeyOf<T>;
  using Real = core::ArithmeticOf<T>;
  using D = hn::ScalableTag<Real>;
  static constexpr std::size_t kLanes = hn::MaxLanes(D{});
  static constexpr std::size_t kVectors = 2;

 public:
  static constexpr std::size_t kRows = kVectors * kLanes;  ///< That are searched at once.

  /// True if this beats searching one row after the other. Listing what a row selects takes as long either way, so longer
  /// rows gain less. Measured on a Xeon with AVX-512, f32, max_iter = 4, ns per row, one by one and in lanes: 16 columns,
  /// k = 4: 214, 47; 64 columns, k = 4: 234, 94; 128 columns, k = 32: 320, 207; 192 columns, k = 48: 375, 339.
  /// With SSE4 alone: 48 columns, k = 12: 224, 171; 96 columns, k = 24: 352, 276; 192 columns, k = 48: 569, 675.
  static bool Pays(const Problem& problem) {
    return problem.max_iter > 0 && problem.cols <= static_cast<std::int64_t>(kMostColumnsPerLane * kLanes);
  }

  /// Long rows take this scratch too, though they never use it: general rows measure the scratch of their longest row, and
  /// shorter ones must fit into it.
  LaneBisection(const Problem& problem, Scratch& scratch)
      : problem_(problem), cols_(static_cast<std::size_t>(problem.cols)), pitch_(std::max(cols_, kBlock)) {
    const auto most = static_cast<std::int64_t>(std::min(pitch_, kMostColumns) * kRows);
    keys_ = scratch.take<Key>(most);
    copied_ = scratch.take<Key>(most);
    reals_ = scratch.take<Real>(most);
  }

  /// Selects from at most kRows rows, `stride` elements apart. The first is row `number`. Calls otherwise(row, its number)
  /// for each with an element that is not finite.
  template <class Otherwise>
  void Select(const T* rows, std::int64_t stride, std::int64_t number, std::size_t count,
              Results<T, direction>& results, const Otherwise& otherwise) {
    Turn(reinterpret_cast<const Key*>(rows), static_cast<std::size_t>(stride), count);
    State state[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) state[v] = Convert(v);
    Search(state);
    for (std::size_t v = 0; v < kVectors; ++v) Mark(state[v], v);
    for (std::size_t row = 0; row < count; ++row) {
      const T* const elements = rows + static_cast<std::int64_t>(row) * stride;
      const std::int64_t its_number = number + static_cast<std::int64_t>(row);
      if (finite_[row] == 0) {
        otherwise(elements, its_number);
        continue;
      }
      results.Begin(elements, its_number);
      results.Add(positions_, ListMarked(row), 0);
      results.End(static_cast<std::int32_t>(passes_[row]));
    }
  }

 private:
  static constexpr std::size_t kMostColumnsPerLane = 12;
  static constexpr std::size_t kMostColumns = kMostColumnsPerLane * kLanes;
  static constexpr std::size_t kBlock = Transposition<Key>::kBlock;
  static_assert(kRows % kBlock == 0);

  using V = hn::Vec<D>;
  using DCount = hn::RebindToSigned<D>;
  using Count = hn::TFromD<DCount>;
  using VCount = hn::Vec<DCount>;
  using Bits = std::make_unsigned_t<Count>;
  static constexpr std::size_t kBits = 8 * sizeof(Bits);  ///< Columns whose marks are in one lane.
  static constexpr std::size_t kMostWords = (kMostColumns + 63) / 64;

  /// The searches of one vector of rows. True lanes of the last three are all ones, others zero.
  struct State {
    V low;
    V high;
    VCount count_high;  ///< Elements >= high, if it is counted.
    VCount passes;
    VCount high_is_counted;
    VCount last_is_low;  ///< The last threshold is low, not high.
    VCount active;
  };

  /// Transposes `count` rows. Lanes without a row are zero: they are searched, but not listed.
  void Turn(const Key* rows, std::size_t stride, std::size_t count) {
    if (count < kRows || cols_ < kBlock) {
      std::fill_n(copied_, kRows * pitch_, Key{});
      for (std::size_t row = 0; row < count; ++row) std::copy_n(rows + row * stride, cols_, copied_ + row * pitch_);
      rows = copied_;
      stride = pitch_;
    }
    for (std::size_t column = 0; column < cols_; column += kBlock) {
      const std::size_t first = std::min(column, pitch_ - kBlock);  // the last block overlaps the previous one
      for (std::size_t row = 0; row < kRows; row += kBlock) {
        Transposition<Key>::Copy(rows + row * stride + first, stride, keys_ + first * kRows + row, kRows);
      }
    }
  }

  /// Makes real numbers of the keys of a vector of rows, and starts their searches.
  HWY_INLINE State Convert(std::size_t v) {
    const D d;
    const DCount dc;
    const hn::Rebind<Key, D> du;
    const hn::RebindToSigned<decltype(du)> ds;
    V least = hn::Set(d, std::numeric_limits<Real>::infinity());
    V greatest = hn::Neg(least);
    auto magnitude = hn::Zero(ds);
    for (std::size_t column = 0; column < cols_; ++column) {
      const std::size_t at = column * kRows + v * kLanes;
      const auto bits = hn::Load(du, keys_ + at);
      if constexpr (core::is_floating<T>) {
        constexpr Key kMagnitude = static_cast<Key>(~Key{0}) >> 1;
        magnitude = hn::Max(magnitude, hn::BitCast(ds, hn::And(bits, hn::Set(du, kMagnitude))));
      }
      const V real = RealOfBits(bits);
      hn::Store(real, d, reals_ + at);
      least = hn::Min(least, real);
      greatest = hn::Max(greatest, real);
    }
    HWY_ALIGN SignedOf<Key> magnitudes[kLanes];
    HWY_ALIGN Count active[kLanes];
    hn::Store(magnitude, ds, magnitudes);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      bool finite = true;
      if constexpr (core::is_floating<T>) {
        finite = static_cast<Key>(magnitudes[lane]) < core::ElementTraits<T>::infinity_bits;
      }
      finite_[v * kLanes + lane] = finite ? 1 : 0;
      // Others are searched by themselves. Here their search would not end before the last pass, for the whole group.
      active[lane] = finite ? Count{-1} : Count{0};
    }
    const VCount none = hn::Zero(dc);
    const VCount all = hn::Set(dc, Count{-1});
    return {least, greatest, none, none, none, all, hn::Load(dc, active)};
  }

  template <class VKeys>
  static HWY_INLINE V RealOfBits(VKeys bits) {
    const D d;
    V real;
    if constexpr (std::is_same_v<T, core::F16>) {
      real = hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>{}, bits));
    } else if constexpr (std::is_same_v<T, core::BF16>) {
      real = hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<D>{}, bits)));
    } else if constexpr (std::is_same_v<T, std::int32_t>) {
      real = hn::PromoteTo(d, hn::BitCast(hn::Rebind<std::int32_t, D>{}, bits));
    } else {
      real = hn::BitCast(d, bits);
    }
    return direction == Direction::largest ? real : hn::Neg(real);
  }

  /// All ones where a comparison holds.
  template <class M>
  static HWY_INLINE VCount Lanes(M mask) {
    return hn::BitCast(DCount{}, hn::VecFromMask(D{}, mask));
  }
  static HWY_INLINE VCount Choose(VCount where, VCount yes, VCount no) { return hn::IfVecThenElse(where, yes, no); }
  static HWY_INLINE V Choose(VCount where, V yes, V no) { return hn::IfVecThenElse(hn::BitCast(D{}, where), yes, no); }

  void Search(State (&state)[kVectors]) const {
    const DCount dc;
    const VCount k = hn::Set(dc, static_cast<Count>(problem_.k));
    VCount counted[kVectors];
    V middle[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) counted[v] = hn::Zero(dc);
    for (std::int32_t pass = 0; pass < problem_.max_iter; ++pass) {
      VCount active = hn::Zero(dc);
      for (std::size_t v = 0; v < kVectors; ++v) {
        middle[v] = Next(state[v], counted[v], k);
        active = hn::Or(active, state[v].active);
      }
      if (hn::AllFalse(dc, hn::Ne(active, hn::Zero(dc)))) return;
      CountAll(middle, counted);
      for (std::size_t v = 0; v < kVectors; ++v) Record(state[v], middle[v], counted[v], k);
    }
  }

  /// Returns the middles of the next pass. Searches that end become inactive.
  static HWY_INLINE V Next(State& state, VCount counted, VCount k) {
    const D d;
    const V half = hn::Set(d, static_cast<Real>(0.5));
    const V middle = hn::Add(hn::Mul(half, state.low), hn::Mul(half, state.high));
    // Before the first pass nothing is counted, and k is not 0.
    const VCount found = hn::And(Lanes(hn::RebindMask(d, hn::Eq(counted, k))), Lanes(hn::Lt(state.low, state.high)));
    const VCount goes_on = hn::AndNot(found, state.active);
    const VCount at_low = Lanes(hn::Eq(middle, state.low));
    const VCount at_high = hn::And(Lanes(hn::Eq(middle, state.high)), state.high_is_counted);
    const VCount at_end = hn::And(hn::Or(at_low, at_high), goes_on);
    state.last_is_low = Choose(at_end, at_low, state.last_is_low);
    state.active = hn::AndNot(at_end, goes_on);
    return middle;
  }

  /// Counts the elements of each row that reach its middle.
  HWY_INLINE void CountAll(const V (&middle)[kVectors], VCount (&counted)[kVectors]) const {
    const D d;
    const DCount dc;
    VCount count0 = hn::Zero(dc);
    VCount count1 = hn::Zero(dc);
    for (const Real* at = reals_; at != reals_ + cols_ * kRows; at += kRows) {
      CountOne(hn::Ge(hn::Load(d, at), middle[0]), count0);
      CountOne(hn::Ge(hn::Load(d, at + kLanes), middle[1]), count1);
    }
    counted[0] = count0;
    counted[1] = count1;
  }

  template <class M>
  static HWY_INLINE void CountOne(M mask, VCount& count) {
    const DCount dc;
    if constexpr (kMasksAreBits) {
      count = hn::IfThenElse(hn::RebindMask(dc, mask), hn::Add(count, hn::Set(dc, Count{1})), count);
    } else {
      count = hn::Sub(count, Lanes(mask));
    }
  }

  static HWY_INLINE void Record(State& state, V middle, VCount counted, VCount k) {
    const DCount dc;
    const VCount up = hn::VecFromMask(dc, hn::Not(hn::Lt(counted, k)));
    const VCount rises = hn::And(state.active, up);
    const VCount falls = hn::AndNot(up, state.active);
    state.low = Choose(rises, middle, state.low);
    state.high = Choose(falls, middle, state.high);
    state.count_high = Choose(falls, counted, state.count_high);
    state.high_is_counted = hn::Or(state.high_is_counted, falls);
    state.last_is_low = Choose(state.active, up, state.last_is_low);
    state.passes = hn::Sub(state.passes, state.active);
  }

  /// Marks what the rows of a vector select: one bit per column, in the lane of the row.
  HWY_INLINE void Mark(const State& state, std::size_t v) {
    const D d;
    const DCount dc;
    const bool printed = problem_.rule == Rule::printed;
    const VCount fills_only = printed ? hn::Set(dc, Count{-1}) : state.last_is_low;
    const V sure = Choose(fills_only, hn::Set(d, std::numeric_limits<Real>::infinity()), state.high);
    const VCount k = hn::Set(dc, static_cast<Count>(problem_.k));
    VCount places = Choose(fills_only, k, hn::Sub(k, state.count_high));
    for (std::size_t first = 0, block = 0; first < cols_; first += kBits, ++block) {
      const std::size_t end = std::min(cols_, first + kBits);
      VCount marks = hn::Zero(dc);
      VCount bit = hn::Set(dc, Count{1});
      for (std::size_t column = first; column < end; ++column) {
        const V real = hn::Load(d, reals_ + column * kRows + v * kLanes);
        const VCount is_sure = Lanes(hn::Ge(real, sure));
        const VCount has_place = hn::VecFromMask(dc, hn::Gt(places, hn::Zero(dc)));
        const VCount fills = hn::And(hn::AndNot(is_sure, Lanes(hn::Ge(real, state.low))), has_place);
        places = hn::Add(places, fills);
        marks = hn::Or(marks, hn::And(hn::Or(is_sure, fills), bit));
        bit = hn::Add(bit, bit);
      }
      hn::Store(marks, dc, reinterpret_cast<Count*>(marks_[block]) + v * kLanes);
    }
    hn::Store(state.passes, dc, passes_ + v * kLanes);
  }

  /// Lists the marked positions of a row and returns their number.
  HWY_INLINE std::size_t ListMarked(std::size_t row) {
    std::uint64_t words[kMostWords];
    const std::size_t count = (cols_ + 63) / 64;
    for (std::size_t word = 0; word < count; ++word) {
      std::uint64_t bits = marks_[word * (64 / kBits)][row];
      if (kBits < 64 && 64 * word + kBits < cols_) bits |= std::uint64_t{marks_[2 * word + 1][row]} << (kBits % 64);
      words[word] = bits;
    }
    // With one word, every row lists exactly k bits: a loop of k steps, which is predicted.
    return count == 1 && problem_.k <= 8 ? ListPositions<true>(words, 1, positions_)
                                         : ListPositions<false>(words, count, positions_);
  }

  const Problem& problem_;
  std::size_t cols_;
  std::size_t pitch_;      ///< Columns of `keys_`, and distance between copied rows: at least those of a block.
  Key* keys_ = nullptr;    ///< [column][row of the group]
  Key* copied_ = nullptr;  ///< Copies of rows that cannot be read in whole blocks.
  Real* reals_ = nullptr;  ///< As `keys_`.
  alignas(64) Bits marks_[(kMostColumns + kBits - 1) / kBits][kRows];
  alignas(64) Count passes_[kRows];
  std::uint8_t finite_[kRows];
  std::uint16_t positions_[kMostColumns + 8];
};
