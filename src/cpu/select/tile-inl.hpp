// Copies rows whose elements are not contiguous to scratch memory, one tile at a time. Included by simd_type-inl.hpp,
// once per instruction set.

/// Transposes small square blocks.
template <class Key>
struct Transposition {
  using D = hn::CappedTag<Key, 16 / sizeof(Key)>;
  static constexpr std::size_t kBlock = hn::MaxLanes(D{});  ///< Rows and columns of a block.
  using Block = hn::Vec<D>[kBlock];

  static HWY_INLINE void Turn(Block& block) {
    const D d;
    // Interleaving the first half of the rows with the second, log2(kBlock) times, transposes the block.
    for (std::size_t round = 1; round < kBlock; round *= 2) {
      Block next;
      for (std::size_t i = 0; i < kBlock / 2; ++i) {
        next[2 * i] = hn::InterleaveLower(d, block[i], block[i + kBlock / 2]);
        next[2 * i + 1] = hn::InterleaveUpper(d, block[i], block[i + kBlock / 2]);
      }
      for (std::size_t i = 0; i < kBlock; ++i) block[i] = next[i];
    }
  }

  /// Transposes from memory to memory. Strides are in elements.
  static HWY_INLINE void Copy(const Key* HWY_RESTRICT from, std::size_t from_stride, Key* HWY_RESTRICT to,
                              std::size_t to_stride) {
    const D d;
    Block block;
    for (std::size_t i = 0; i < kBlock; ++i) block[i] = hn::LoadU(d, from + i * from_stride);
    Turn(block);
    for (std::size_t i = 0; i < kBlock; ++i) hn::StoreU(block[i], d, to + i * to_stride);
  }
};

template <class T>
class Tile {
 public:
  Tile(const Problem& problem, Scratch& scratch)
      : rows_(tile_rows(problem)),
        cols_(static_cast<std::size_t>(problem.cols)),
        row_stride_(static_cast<std::size_t>(core::stride_of(problem))),
        element_stride_(static_cast<std::size_t>(core::element_stride_of(problem))),
        pitch_(static_cast<std::size_t>(tile_pitch(problem))),
        data_(rows_ == 0 ? nullptr : scratch.take<Key>(rows_ * tile_pitch(problem))) {}

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t pitch() const { return static_cast<std::int64_t>(pitch_); }

  /// Copies `count` rows, the first of which begins at `from`. At most rows().
  const T* Fill(const T* from, std::int64_t count) {
    const auto* const keys = reinterpret_cast<const Key*>(from);
    const auto rows = static_cast<std::size_t>(count);
    std::size_t done = 0;
    if (row_stride_ == 1 && cols_ >= kBlock && rows >= kBlock) {
      done = rows / kBlock * kBlock;
      for (std::size_t column = 0; column < cols_; column += kBlock) {
        const std::size_t first = std::min(column, cols_ - kBlock);  // the last block overlaps the previous one
        if (column + kAhead + kBlock <= cols_) Prefetch(keys + (column + kAhead) * element_stride_, rows);
        for (std::size_t row = 0; row < done; row += kBlock) {
          Transposition<Key>::Copy(keys + first * element_stride_ + row, element_stride_, data_ + row * pitch_ + first,
                                   pitch_);
        }
      }
    }
    // Copy the other rows in blocks of columns, so that cache lines shared by several rows are still in the L1 cache.
    constexpr std::size_t kColumns = 256;
    for (std::size_t column = 0; column < cols_ && done < rows; column += kColumns) {
      const std::size_t end = std::min(cols_, column + kColumns);
      for (std::size_t row = done; row < rows; ++row) {
        Key* const to = data_ + row * pitch_;
        for (std::size_t i = column; i < end; ++i) to[i] = keys[row * row_stride_ + i * element_stride_];
      }
    }
    return reinterpret_cast<const T*>(data_);
  }

 private:
  using Key = core::KeyOf<T>;  // bits: copying a floating-point number may change a signalling NaN
  static constexpr std::size_t kBlock = Transposition<Key>::kBlock;
  /// Columns to prefetch ahead. Each may be in another page, where the hardware does not prefetch. On a Neoverse N1,
  /// 8 x 4096 x 64, f32: 2.99 ms with it, 3.84 ms without.
  static constexpr std::size_t kAhead = 32;

  /// Prefetches a block of columns. An unaligned column needs one more cache line, for the last row.
  HWY_INLINE void Prefetch(const Key* from, std::size_t rows) const {
    constexpr std::size_t kLine = kTileLineBytes / sizeof(Key);
    for (std::size_t i = 0; i < kBlock; ++i, from += element_stride_) {
      for (std::size_t row = 0; row < rows; row += kLine) hwy::Prefetch(from + row);
      hwy::Prefetch(from + rows - 1);
    }
  }

  std::int64_t rows_;
  std::size_t cols_;
  std::size_t row_stride_;
  std::size_t element_stride_;
  std::size_t pitch_;
  Key* data_;
};

/// Splits rows [begin, end) into batches of neighbouring rows and calls each(rows, stride, number, count), in order.
/// `rows` points to `count` rows with contiguous elements, `stride` elements apart. The first is row `number`.
template <class T, class Each>
void ForEachBatch(const Problem& problem, const T* input, std::int64_t begin, std::int64_t end, Tile<T>& tile,
                  Each&& each) {
  const std::int64_t longest = tile.rows() > 0 ? tile.rows() : problem.rows;
  for (std::int64_t number = begin; number < end;) {
    const std::int64_t count = std::min({end - number, core::rows_to_end_of_group(problem, number), longest});
    const T* const rows = input + core::row_start(problem, number);
    if (tile.rows() > 0) {
      each(tile.Fill(rows, count), tile.pitch(), number, count);
    } else {
      each(rows, core::stride_of(problem), number, count);
    }
    number += count;
  }
}
