// cpu_lanes: a group of short rows is sorted at once, one row in each lane of the vectors, by a fixed network of exchanges.
// No search, no branch that depends on the elements. Included by simd_type-inl.hpp, once for each instruction set.
//
//   rows of the input      lanes, column by column      after the exchanges
//   r0: a b c d            a e i m                       the best of r0, r1, r2, r3
//   r1: e f g h      ->    b f j n               ->      the second best of each
//   r2: i j k l            c g k o                       ...
//   r3: m n o p            d h l p
//
// What is sorted is the key and, below it, the column counted from the end, so that of equal elements the first one wins.
// Where both fit into a lane they are one number; 64-bit keys have their columns in lanes beside them.

/// Puts the greater of two columns' lanes at `best`, and the other at `rest` if anybody looks there afterwards.
struct Exchange {
  std::uint8_t best;
  std::uint8_t rest;
  bool keeps_rest;
};

/// Exchanges that find the k best of some columns, in order: blocks of k columns are sorted, then merged two by two. Of two
/// sorted blocks the better half is what is left of comparing one with the other turned around.
class Network {
 public:
  Network(std::int64_t columns, std::int64_t k, Scratch& scratch)
      : columns_(static_cast<std::size_t>(columns)),
        k_(static_cast<std::size_t>(k)),
        block_(std::bit_ceil(k_)),
        blocks_((columns_ + block_ - 1) / block_) {
    const auto log = static_cast<std::size_t>(std::bit_width(block_ - 1));
    // In a round of a sort or a merge no column is in two exchanges.
    const std::size_t most = blocks_ * block_ * log * (log + 1) / 4 + (blocks_ - 1) * (block_ + block_ * log / 2);
    exchanges_ = scratch.take<Exchange>(static_cast<std::int64_t>(most));
    front_ = scratch.take<std::uint8_t>(k);
  }

  void Make() {
    for (std::size_t i = 0; i < blocks_ * block_; ++i) columns_at_[i] = static_cast<std::uint16_t>(i);
    end_ = 0;
    for (std::size_t block = 0; block < blocks_; ++block) SortBlock(block * block_);
    for (std::size_t apart = 1; apart < blocks_; apart *= 2) {
      for (std::size_t block = 0; block + apart < blocks_; block += 2 * apart) {
        MergeBlocks(block * block_, (block + apart) * block_);
      }
    }
    for (std::size_t i = 0; i < k_; ++i) front_[i] = static_cast<std::uint8_t>(columns_at_[i]);
    LeaveOutTheRest();
  }

  [[nodiscard]] const Exchange* begin() const { return exchanges_ + begin_; }
  [[nodiscard]] const Exchange* end() const { return exchanges_ + end_; }
  /// Where the i-th best is in the end.
  [[nodiscard]] std::size_t front(std::size_t i) const { return front_[i]; }

 private:
  /// Behind the last column everything is as if it were worse than any element: such exchanges cost nothing.
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

  /// Leaves the best of both in order in the first.
  void MergeBlocks(std::size_t first, std::size_t second) {
    for (std::size_t i = 0; i < block_; ++i) Add(first + i, second + block_ - 1 - i);
    for (std::size_t distance = block_ / 2; distance > 0; distance /= 2) {
      for (std::size_t i = 0; i < block_; ++i) {
        if ((i & distance) == 0) Add(first + i, first + i + distance);
      }
    }
  }

  /// Drops what does not change the k best: whole exchanges, and halves of them.
  void LeaveOutTheRest() {
    std::array<bool, kMaxLanesColumns> matters{};
    for (std::size_t i = 0; i < k_; ++i) matters[front_[i]] = true;
    begin_ = end_;
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
  std::size_t block_;   ///< Columns of a block: k, rounded up to a power of two.
  std::size_t blocks_;  ///< The last one may be incomplete.
  Exchange* exchanges_;
  std::uint8_t* front_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::array<std::uint16_t, 2 * kMaxLanesColumns> columns_at_;  ///< Which column a place of a block stands for.
};

/// Lanes of a group of rows: [column][row of the group].
template <class Lane>
struct LaneGroup {
  using D = hn::ScalableTag<Lane>;
  static constexpr std::size_t kLanes = hn::MaxLanes(D{});
  /// Several vectors, so that reading which exchange is next costs little and none waits for the one before it.
  static constexpr std::size_t kRows = 4 * kLanes;

  /// Key and column in one lane.
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
          } else {  // few instruction sets have a maximum of these
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

  /// Keys, with their columns beside them.
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
 public:
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
        front_(scratch.take<Lane>(static_cast<std::int64_t>(k_ * kRows))) {}

  /// Selects rows [begin, end) of the matrix at `input`.
  void Select(const T* input, std::int64_t begin, std::int64_t end) {
    Prepare();
    const auto stride = static_cast<std::size_t>(core::stride_of(problem_));
    for (std::int64_t number = begin; number < end; number += static_cast<std::int64_t>(kRows)) {
      const Key* const rows = reinterpret_cast<const Key*>(input) + number * core::stride_of(problem_);
      const std::size_t count = std::min(static_cast<std::size_t>(end - number), kRows);
      if (searches()) Search(rows, number, count);
      Write(rows, stride, number, count);
    }
  }

 private:
  using Key = core::KeyOf<T>;
  static constexpr bool packs = sizeof(Key) < 8;
  using Lane = std::conditional_t<sizeof(Key) == 2, std::int32_t, std::int64_t>;
  using Group = LaneGroup<Lane>;
  static constexpr std::size_t kRows = Group::kRows;

  using DBlock = hn::CappedTag<Key, 16 / sizeof(Key)>;
  static constexpr std::size_t kBlock = hn::MaxLanes(DBlock{});  ///< Rows and columns that are turned around at once.

  /// Whether there is anything to find out: not where a whole row is wanted as it is.
  [[nodiscard]] bool searches() const { return k_ < cols_ || problem_.order == Order::by_value; }
  [[nodiscard]] bool orders_by_column() const {
    return problem_.order != Order::by_value && (problem_.form == Form::pairs || problem_.form == Form::cbsr);
  }

  void Prepare() {
    if (searches()) {
      by_key_.Make();
      if (orders_by_column()) by_column_.Make();
    } else {
      for (std::size_t i = 0; i < k_; ++i) std::fill_n(front_ + i * kRows, kRows, static_cast<Lane>(cols_ - 1 - i));
    }
  }

  /// Finds the selected columns of `count` rows.
  void Search(const Key* rows, std::int64_t number, std::size_t count) {
    Fill(rows, number, count);
    if constexpr (packs) {
      Group::Sort(by_key_, lanes_);
    } else {
      Group::Sort(by_key_, lanes_, columns_);
    }
    const Lane* const from = packs ? lanes_ : columns_;
    for (std::size_t i = 0; i < k_; ++i) {
      const Lane* const found = from + by_key_.front(i) * kRows;
      for (std::size_t row = 0; row < kRows; ++row) {
        front_[i * kRows + row] = static_cast<Lane>(static_cast<Key>(found[row]));
      }
    }
    if (orders_by_column()) Group::Sort(by_column_, front_);  // all of k columns: each stays in its place
  }

  /// Turns `count` rows into lanes. The lanes of rows that are not there are sorted like the others, and not written.
  void Fill(const Key* rows, std::int64_t number, std::size_t count) {
    const auto stride = static_cast<std::size_t>(core::stride_of(problem_));
    // A row that is shorter than a block is read with the beginning of the next, where that is input too.
    const bool next_is_input =
        stride == cols_ && problem_.rows - number >= static_cast<std::int64_t>(kRows + kBlock / cols_);
    if (count == kRows && (cols_ >= kBlock || next_is_input)) return FillFrom(rows, stride);
    std::fill_n(copied_, kRows * pitch_, Key{});
    for (std::size_t row = 0; row < count; ++row) std::copy_n(rows + row * stride, cols_, copied_ + row * pitch_);
    FillFrom(copied_, pitch_);
  }

  HWY_INLINE void FillFrom(const Key* rows, std::size_t stride) {
    for (std::size_t row = 0; row < kRows; row += kBlock) {
      for (std::size_t column = 0; column < cols_; column += kBlock) {
        // The last block overlaps the one before it.
        const std::size_t first = cols_ < kBlock ? 0 : std::min(column, cols_ - kBlock);
        FillBlock(rows + row * stride + first, stride, row, first);
      }
    }
  }

  HWY_INLINE void FillBlock(const Key* from, std::size_t stride, std::size_t row, std::size_t column) {
    const DBlock d;
    hn::Vec<DBlock> block[kBlock];
    for (std::size_t i = 0; i < kBlock; ++i) block[i] = hn::LoadU(d, from + i * stride);
    // Interleaving the first half of the rows with the second, log2(kBlock) times, exchanges rows and columns.
    for (std::size_t round = 1; round < kBlock; round *= 2) {
      hn::Vec<DBlock> next[kBlock];
      for (std::size_t i = 0; i < kBlock / 2; ++i) {
        next[2 * i] = hn::InterleaveLower(d, block[i], block[i + kBlock / 2]);
        next[2 * i + 1] = hn::InterleaveUpper(d, block[i], block[i + kBlock / 2]);
      }
      for (std::size_t i = 0; i < kBlock; ++i) block[i] = next[i];
    }
    for (std::size_t i = 0; i < kBlock && column + i < cols_; ++i) {
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

  template <class Index>
  HWY_INLINE void WriteIndices(std::int64_t start, std::size_t count) {
    Index* const indices = static_cast<Index*>(output_.indices) + start;
    ForEach(count, [&](std::size_t row, std::size_t i, std::size_t place) {
      indices[row * k_ + i] = static_cast<Index>(place);
    });
  }

  /// Calls each(row, i, column of its i-th result).
  template <class Each>
  HWY_INLINE void ForEach(std::size_t count, Each&& each) const {
    for (std::size_t i = 0; i < k_; ++i) {
      for (std::size_t row = 0; row < count; ++row)
        each(row, i, cols_ - 1 - static_cast<std::size_t>(front_[i * kRows + row]));
    }
  }

  const Problem& problem_;
  const Output& output_;
  std::size_t cols_;
  std::size_t k_;
  std::size_t pitch_;  ///< Elements from one copied row to the next.
  Network by_key_;     ///< Finds the best.
  Network by_column_;  ///< Puts them into the order of their columns.
  Lane* lanes_;        ///< Of keys, with their columns below them.
  Lane* columns_;      ///< Counted from the end, beside keys that fill a lane.
  Key* copied_;        ///< Rows that cannot be read in whole blocks where they are.
  Lane* front_;        ///< The selected columns, counted from the end, in the order of the results.
};
