// cpu_lanes: a sorting network sorts a group of short rows at once, one row per vector lane. There is no search and no
// branch that depends on the elements. Included by simd_type-inl.hpp, once per instruction set.
//
//   rows of the input      lanes, column by column      after the network
//   r0: a b c d            a e i m                       the best of r0, r1, r2, r3
//   r1: e f g h      ->    b f j n               ->      the second best of each
//   r2: i j k l            c g k o                       ...
//   r3: m n o p            d h l p
//
// A sorted number is the key and, in lower bits, the column counted from the end, so that the first of equal elements
// wins. If both fit into a lane, they are one number. The columns of 64-bit keys are in separate lanes.

/// A compare-exchange: moves the better of two columns to `best`, and the other to `rest` if it is used afterwards.
struct Exchange {
  std::uint8_t best;
  std::uint8_t rest;
  bool keeps_rest;
};

/// A network that finds the k best of some columns, in order. It sorts blocks of k columns (rounded up to a power of
/// two) and merges them in pairs. To merge, it compares one sorted block with the other reversed; the better elements
/// are the better half of both.
class Network {
 public:
  Network(std::int64_t columns, std::int64_t k, Scratch& scratch)
      : columns_(static_cast<std::size_t>(columns)),
        k_(static_cast<std::size_t>(k)),
        block_(std::bit_ceil(k_)),
        blocks_((columns_ + block_ - 1) / block_) {
    const auto log = static_cast<std::size_t>(std::bit_width(block_ - 1));
    // In a round of a sort or a merge, every column is in at most one exchange.
    const std::size_t most = blocks_ * block_ * log * (log + 1) / 4 + (blocks_ - 1) * (block_ + block_ * log / 2);
    exchanges_ = scratch.take<Exchange>(static_cast<std::int64_t>(most));
    front_ = scratch.take<std::uint8_t>(k);
  }

  /// Builds the network: for the k best in order or, with `kth_alone`, for only the kth best.
  void Make(bool kth_alone) {
    for (std::size_t i = 0; i < blocks_ * block_; ++i) columns_at_[i] = static_cast<std::uint16_t>(i);
    end_ = 0;
    for (std::size_t block = 0; block < blocks_; ++block) SortBlock(block * block_);
    for (std::size_t apart = 1; apart < blocks_; apart *= 2) {
      for (std::size_t block = 0; block + apart < blocks_; block += 2 * apart) {
        MergeBlocks(block * block_, (block + apart) * block_);
      }
    }
    for (std::size_t i = 0; i < k_; ++i) front_[i] = static_cast<std::uint8_t>(columns_at_[i]);
    LeaveOutTheRest(kth_alone ? k_ - 1 : 0);
  }

  [[nodiscard]] const Exchange* begin() const { return exchanges_ + begin_; }
  [[nodiscard]] const Exchange* end() const { return exchanges_ + end_; }
  /// The column that finally holds the i-th best.
  [[nodiscard]] std::size_t front(std::size_t i) const { return front_[i]; }

 private:
  /// Columns past the end count as worse than every element. Exchanges with them need no code.
  void Add(std::size_t best, std::size_t rest) {
    if (columns_at_[rest] >= columns_) return;
    if (columns_at_[best] >= columns_) return std::swap(columns_at_[best], columns_at_[rest]);
    exchanges_[end_++] = {static_cast<std::uint8_t>(columns_at_[best]), static_cast<std::uint8_t>(columns_at_[rest]),
                          true};
  }

  /// Batcher's merge exchange (Knuth, Algorithm 5.2.2M).
  void SortBlock(std::size_t first) {
    for (std::size_t p = block_ / 2; p > 0; p /= 2) {
      std::size_t remainder = 0;
      std::size_t distance = p;
      for (std::size_t q = block_ / 2;; q /= 2) {
        for (std::size_t i = 0; i + distance < block_; ++i) {
          if ((i & p) == remainder) Add(first + i, first + i + distance);
        }
        if (q == p) break;
        distance = q - p;
        remainder = p;
      }
    }
  }

  /// Merges two sorted blocks: the better half of both ends up sorted in the first.
  void MergeBlocks(std::size_t first, std::size_t second) {
    for (std::size_t i = 0; i < block_; ++i) Add(first + i, second + block_ - 1 - i);
    for (std::size_t distance = block_ / 2; distance > 0; distance /= 2) {
      for (std::size_t i = 0; i < block_; ++i) {
        if ((i & distance) == 0) Add(first + i, first + i + distance);
      }
    }
  }

  /// Drops exchanges, and halves of exchanges, that do not affect the results from `first` to the kth best.
  void LeaveOutTheRest(std::size_t first) {
    std::array<bool, kMaxLanesColumns> matters{};
    for (std::size_t i = first; i < k_; ++i) matters[front_[i]] = true;
    begin_ = end_;
    // Invariant, from back to front: matters[c] tells if a result or an exchange after i uses column c.
    for (std::size_t i = end_; i-- > 0;) {
      Exchange exchange = exchanges_[i];
      if (!matters[exchange.best] && !matters[exchange.rest]) continue;
      exchange.keeps_rest = matters[exchange.rest];
      matters[exchange.best] = matters[exchange.rest] = true;
      exchanges_[--begin_] = exchange;
    }
  }

  std::size_t columns_;
  std::size_t k_;
  std::size_t block_;   ///< Columns of a block: k rounded up to a power of two.
  std::size_t blocks_;  ///< The last block may be incomplete.
  Exchange* exchanges_;
  std::uint8_t* front_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::array<std::uint16_t, 2 * kMaxLanesColumns> columns_at_;  ///< The column that each place of the blocks refers to.
};

/// Lanes of a group of rows: [column][row of the group].
template <class Lane>
struct LaneGroup {
  using D = hn::ScalableTag<Lane>;
  static constexpr std::size_t kLanes = hn::MaxLanes(D{});
  /// Four vectors: this amortizes the load of an exchange, and their instructions are independent.
  static constexpr std::size_t kRows = 4 * kLanes;

  /// Sorts lanes that hold key and column.
  static HWY_NOINLINE void Sort(const Network& network, Lane* lanes) {
    const D d;
    for (const Exchange exchange : network) {
      Lane* const best = lanes + exchange.best * kRows;
      Lane* const rest = lanes + exchange.rest * kRows;
      if (exchange.keeps_rest) {
        for (std::size_t i = 0; i < kRows; i += kLanes) {
          const auto a = hn::Load(d, best + i);
          const auto b = hn::Load(d, rest + i);
          if constexpr (sizeof(Lane) < 8) {
            hn::Store(hn::Max(a, b), d, best + i);
            hn::Store(hn::Min(a, b), d, rest + i);
          } else {  // few instruction sets have a 64-bit maximum
            const auto in_order = hn::Gt(a, b);
            hn::Store(hn::IfThenElse(in_order, a, b), d, best + i);
            hn::Store(hn::IfThenElse(in_order, b, a), d, rest + i);
          }
        }
      } else {
        for (std::size_t i = 0; i < kRows; i += kLanes) {
          hn::Store(hn::Max(hn::Load(d, best + i), hn::Load(d, rest + i)), d, best + i);
        }
      }
    }
  }

  /// Sorts keys with their columns in separate lanes.
  static HWY_NOINLINE void Sort(const Network& network, Lane* keys, Lane* columns) {
    const D d;
    for (const Exchange exchange : network) {
      for (std::size_t i = 0; i < kRows; i += kLanes) {
        const std::size_t best = exchange.best * kRows + i;
        const std::size_t rest = exchange.rest * kRows + i;
        const auto a = hn::Load(d, keys + best);
        const auto b = hn::Load(d, keys + rest);
        const auto column_a = hn::Load(d, columns + best);
        const auto column_b = hn::Load(d, columns + rest);
        const auto in_order = hn::Or(hn::Gt(a, b), hn::And(hn::Eq(a, b), hn::Gt(column_a, column_b)));
        hn::Store(hn::IfThenElse(in_order, a, b), d, keys + best);
        hn::Store(hn::IfThenElse(in_order, column_a, column_b), d, columns + best);
        if (!exchange.keeps_rest) continue;
        hn::Store(hn::IfThenElse(in_order, b, a), d, keys + rest);
        hn::Store(hn::IfThenElse(in_order, column_b, column_a), d, columns + rest);
      }
    }
  }
};

template <class T, Direction direction>
class LanesFamily {
  static constexpr bool packs = sizeof(core::KeyOf<T>) < 8;
  using Lane = std::conditional_t<sizeof(core::KeyOf<T>) == 2, std::int32_t, std::int64_t>;
  using Group = LaneGroup<Lane>;

 public:
  static constexpr std::size_t kRows = Group::kRows;  ///< That are sorted at once.

  /// True if rows by magnitude need not be copied.
  static bool ComparesMagnitudes(const Problem&) { return true; }

  LanesFamily(const Plan& plan, const Output& output, Scratch& scratch)
      : problem_(plan.problem),
        output_(output),
        cols_(static_cast<std::size_t>(plan.problem.cols)),
        k_(static_cast<std::size_t>(plan.problem.k)),
        pitch_(std::max(cols_, kBlock)),
        by_key_(plan.problem.cols, plan.problem.k, scratch),
        by_column_(plan.problem.k, plan.problem.k, scratch),
        lanes_(scratch.take<Lane>(static_cast<std::int64_t>(cols_ * kRows))),
        columns_(packs ? nullptr : scratch.take<Lane>(static_cast<std::int64_t>(cols_ * kRows))),
        copied_(scratch.take<Key>(static_cast<std::int64_t>(pitch_ * kRows))),
        unsorted_(scratch.take<Lane>(static_cast<std::int64_t>(cols_ * kRows))),
        front_(scratch.take<Lane>(static_cast<std::int64_t>(k_ * kRows))) {}

  /// True if thresholds are written with the other results: the network knows them.
  [[nodiscard]] bool WritesThresholds() const { return problem_.thresholds && searches(); }

  /// Selects from `count` rows, `stride` elements apart. The first is row `number`.
  void Select(const T* first, std::int64_t stride, std::int64_t number, std::int64_t count) {
    if (!prepared_) Prepare();
    stride_ = static_cast<std::size_t>(stride);
    end_of_group_ = number + core::rows_to_end_of_group(problem_, number);
    const auto* rows = reinterpret_cast<const Key*>(first);
    for (std::int64_t left = count; left > 0; left -= static_cast<std::int64_t>(kRows)) {
      const std::size_t at_once = std::min(static_cast<std::size_t>(left), kRows);
      if (searches()) Search(rows, number, at_once);
      Write(rows, stride_, number, at_once);
      if (WritesThresholds()) WriteThresholds(rows, number, at_once);
      rows += kRows * stride_;
      number += static_cast<std::int64_t>(kRows);
    }
  }

 private:
  using Key = core::KeyOf<T>;

  using DBlock = typename Transposition<Key>::D;
  static constexpr std::size_t kBlock = Transposition<Key>::kBlock;

  [[nodiscard]] bool by_value() const { return problem_.order == Order::by_value; }
  /// To get index order, either sort the results again by column, or mark the columns that reach the kth best. The
  /// number of exchanges grows about with the square of k, marking with the number of columns. On a Neoverse N1, ns
  /// per row (sort, mark), f32, 16 columns: k = 4: 5, 16; k = 12: 30, 16.
  [[nodiscard]] bool sorts_again() const { return !by_value() && k_ * k_ < 4 * cols_; }
  [[nodiscard]] bool marks() const { return !by_value() && !sorts_again(); }
  /// False if the result is the whole row in its own order.
  [[nodiscard]] bool searches() const { return k_ < cols_ || (by_value() && k_ > 1); }

  void Prepare() {
    prepared_ = true;
    if (searches()) {
      by_key_.Make(marks());
      if (sorts_again()) by_column_.Make(false);
    } else {
      for (std::size_t i = 0; i < k_; ++i) std::fill_n(front_ + i * kRows, kRows, static_cast<Lane>(cols_ - 1 - i));
    }
  }

  /// Finds the selected columns of `count` rows.
  void Search(const Key* rows, std::int64_t number, std::size_t count) {
    Fill(rows, number, count);
    if (marks()) std::copy_n(lanes_, cols_ * kRows, unsorted_);
    if constexpr (packs) {
      Group::Sort(by_key_, lanes_);
    } else {
      Group::Sort(by_key_, lanes_, columns_);
    }
    if (marks()) return TakeMarked(count);
    for (std::size_t i = 0; i < k_; ++i) {
      const Lane* const found = FoundAt(i);
      for (std::size_t row = 0; row < kRows; ++row)
        front_[i * kRows + row] = static_cast<Lane>(static_cast<Key>(found[row]));
    }
    if (sorts_again()) Group::Sort(by_column_, front_);  // k of k: every column keeps its place
  }

  /// After the sort: the i-th best of each row, with its column from the end in the bits of a key.
  [[nodiscard]] const Lane* FoundAt(std::size_t i) const {
    return (packs ? lanes_ : columns_) + by_key_.front(i) * kRows;
  }

  /// Lists the columns that are at least as good as the kth best, in index order.
  void TakeMarked(std::size_t count) {
    using Bits = std::make_unsigned_t<Lane>;
    constexpr std::size_t kBits = 8 * sizeof(Bits);
    std::array<Lane*, kRows> next;
    for (std::size_t row = 0; row < kRows; ++row) next[row] = front_ + row;
    for (std::size_t first = 0; first < cols_; first += kBits) {
      HWY_ALIGN Bits marks[kRows];
      MarkSelected(first, std::min(cols_, first + kBits), reinterpret_cast<Lane*>(marks));
      for (std::size_t row = 0; row < count; ++row) {
        Lane* to = next[row];
        for (Bits left = marks[row]; left != 0; left &= left - 1, to += kRows) {
          *to = static_cast<Lane>(cols_ - 1 - first) - static_cast<Lane>(std::countr_zero(left));
        }
        next[row] = to;
      }
    }
  }

  /// Sets one bit per column of [first, end), in the lane of each row: 1 if selected.
  HWY_INLINE void MarkSelected(std::size_t first, std::size_t end, Lane* marks) {
    const typename Group::D d;
    for (std::size_t row = 0; row < kRows; row += Group::kLanes) {
      const std::size_t at = by_key_.front(k_ - 1) * kRows + row;
      const auto kth = hn::Load(d, lanes_ + at);
      auto selected = hn::Zero(d);
      auto bit = hn::Set(d, Lane{1});
      for (std::size_t column = first; column < end; ++column) {
        const auto lanes = hn::Load(d, unsorted_ + column * kRows + row);
        auto behind = hn::Gt(kth, lanes);
        if constexpr (!packs) {
          const auto after = hn::Gt(hn::Load(d, columns_ + at), hn::Set(d, static_cast<Lane>(cols_ - 1 - column)));
          behind = hn::Or(behind, hn::And(hn::Eq(kth, lanes), after));
        }
        selected = hn::Or(selected, hn::IfThenZeroElse(behind, bit));
        bit = hn::Add(bit, bit);
      }
      hn::Store(selected, d, marks + row);
    }
  }

  /// Transposes `count` rows into lanes. Lanes without a row are sorted as well, but not written.
  void Fill(const Key* rows, std::int64_t number, std::size_t count) {
    // A row shorter than a block is read together with the start of the next row, if that is part of the input.
    const bool next_is_input =
        stride_ == cols_ && end_of_group_ - number >= static_cast<std::int64_t>(kRows + kBlock / cols_);
    if (count == kRows && (cols_ >= kBlock || next_is_input)) return FillFrom(rows, stride_);
    std::fill_n(copied_, kRows * pitch_, Key{});
    for (std::size_t row = 0; row < count; ++row) std::copy_n(rows + row * stride_, cols_, copied_ + row * pitch_);
    FillFrom(copied_, pitch_);
  }

  HWY_INLINE void FillFrom(const Key* rows, std::size_t stride) {
    for (std::size_t row = 0; row < kRows; row += kBlock) {
      for (std::size_t column = 0; column < cols_; column += kBlock) {
        // The last block overlaps the previous one.
        const std::size_t first = cols_ < kBlock ? 0 : std::min(column, cols_ - kBlock);
        FillBlock(rows + row * stride + first, stride, row, first, column - first);
      }
    }
  }

  /// Fills a block, except for its first `done` columns.
  HWY_INLINE void FillBlock(const Key* from, std::size_t stride, std::size_t row, std::size_t column,
                            std::size_t done) {
    const DBlock d;
    hn::Vec<DBlock> block[kBlock];
    for (std::size_t i = 0; i < kBlock; ++i) block[i] = hn::LoadU(d, from + i * stride);
    if (problem_.magnitude) {
      for (std::size_t i = 0; i < kBlock; ++i) block[i] = MagnitudeBits<T>(d, block[i]);
    }
    Transposition<Key>::Turn(block);
    for (std::size_t i = 0; i < kBlock; ++i) {  // starts at 0, so that the compiler keeps the block in registers
      if (i < done || column + i >= cols_) continue;
      const auto keys = hn::BitCast(d, KeyLanes<T, direction>(d, block[i]));
      const auto from_end = hn::Set(d, static_cast<Key>(cols_ - 1 - column - i));
      const std::size_t at = (column + i) * kRows + row;
      if constexpr (packs) {
        const hn::RepartitionToWide<DBlock> wide;
        const hn::RebindToSigned<decltype(wide)> lanes;
        hn::Store(hn::BitCast(lanes, hn::ZipLower(wide, from_end, keys)), lanes, lanes_ + at);
        hn::Store(hn::BitCast(lanes, hn::ZipUpper(wide, from_end, keys)), lanes, lanes_ + at + kBlock / 2);
      } else {
        const hn::RebindToSigned<DBlock> lanes;
        hn::Store(hn::BitCast(lanes, keys), lanes, lanes_ + at);
        hn::Store(hn::BitCast(lanes, from_end), lanes, columns_ + at);
      }
    }
  }

  void Write(const Key* rows, std::size_t stride, std::int64_t number, std::size_t count) {
    const std::int64_t start = number * problem_.k;
    if (core::writes_values(problem_)) {
      Key* const values = static_cast<Key*>(output_.values) + start;
      ForEach(count, [&](std::size_t row, std::size_t i, std::size_t place) {
        values[row * k_ + i] = rows[row * stride + place];
      });
    }
    if (core::writes_indices(problem_)) {
      switch (problem_.index_type) {
        case IndexType::i32: WriteIndices<std::int32_t>(start, count); break;
        case IndexType::i64: WriteIndices<std::int64_t>(start, count); break;
        case IndexType::u8: WriteIndices<std::uint8_t>(start, count); break;
        case IndexType::u16: WriteIndices<std::uint16_t>(start, count); break;
      }
    }
    const std::int64_t row_start = number * problem_.cols;
    if (problem_.form == Form::dense) {
      Key* const dense = static_cast<Key*>(output_.dense) + row_start;
      std::fill_n(dense, count * cols_, Key{});
      ForEach(count, [&](std::size_t row, std::size_t, std::size_t place) {
        dense[row * cols_ + place] = rows[row * stride + place];
      });
    }
    if (problem_.form == Form::mask) {
      std::uint8_t* const mask = output_.mask + row_start;
      std::fill_n(mask, count * cols_, std::uint8_t{});
      ForEach(count, [&](std::size_t row, std::size_t, std::size_t place) { mask[row * cols_ + place] = 1; });
    }
    if (problem_.passes) std::fill_n(output_.passes + number, count, searches() ? 1 : 0);
  }

  void WriteThresholds(const Key* rows, std::int64_t number, std::size_t count) {
    Key* const thresholds = static_cast<Key*>(output_.thresholds) + number;
    const Lane* const kth = FoundAt(k_ - 1);
    for (std::size_t row = 0; row < count; ++row) {
      thresholds[row] = rows[row * stride_ + cols_ - 1 - static_cast<Key>(kth[row])];
    }
  }

  template <class Index>
  HWY_INLINE void WriteIndices(std::int64_t start, std::size_t count) {
    Index* const indices = static_cast<Index*>(output_.indices) + start;
    ForEach(count, [&](std::size_t row, std::size_t i, std::size_t place) {
      indices[row * k_ + i] = static_cast<Index>(place);
    });
  }

  /// Calls each(row, i, column of the row's i-th result).
  template <class Each>
  HWY_INLINE void ForEach(std::size_t count, Each&& each) const {
    if (count == kRows) return ForEachOf<kRows>(kRows, each);  // a compile-time constant
    ForEachOf<0>(count, each);
  }

  template <std::size_t known, class Each>
  HWY_INLINE void ForEachOf(std::size_t count, Each& each) const {
    const std::size_t rows = known > 0 ? known : count;
    const std::size_t last = cols_ - 1;
    for (std::size_t i = 0; i < k_; ++i) {
      for (std::size_t row = 0; row < rows; ++row)
        each(row, i, last - static_cast<std::size_t>(front_[i * kRows + row]));
    }
  }

  const Problem& problem_;
  const Output& output_;
  std::size_t cols_;
  std::size_t k_;
  std::size_t pitch_;              ///< Distance between copied rows, in elements.
  std::size_t stride_ = 0;         ///< Distance between rows of the input, in elements.
  std::int64_t end_of_group_ = 0;  ///< End of the rows that are stride_ apart.
  bool prepared_ = false;
  Network by_key_;     ///< Finds the k best.
  Network by_column_;  ///< Sorts them by column.
  Lane* lanes_;        ///< Keys, with the column in the lower bits if it fits.
  Lane* columns_;      ///< Columns counted from the end, for 64-bit keys.
  Key* copied_;        ///< Copies of rows that cannot be read in whole blocks.
  Lane* unsorted_;     ///< Copy of `lanes_` before sorting.
  Lane* front_;        ///< The selected columns, counted from the end, in output order.
};
