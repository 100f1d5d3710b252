// Copies of rows by magnitude, for families that do not know it. Included by simd_type-inl.hpp, once per instruction set.

/// What families without magnitudes select from copies of rows by magnitude, which have no signs.
[[nodiscard]] inline Problem places_by_magnitude(const Problem& problem, std::int64_t rows) {
  Problem places = places_of(problem, rows, problem.cols, problem.k);
  places.magnitude = false;
  return places;
}

/// Copies of a few rows, which stay in the nearest cache until a family has read them, and the places that it selects there.
template <class T, Direction direction>
class Magnitudes {
 public:
  Magnitudes(const Problem& problem, const Output& output, Scratch& scratch)
      : written_(in_order(problem)),
        output_(output),
        rows_(std::max(kElements / problem.cols, std::int64_t{1})),
        elements_(scratch.take<Key>(std::max(problem.cols, kElements))),
        results_(written_, output_, scratch) {
    found_.indices = scratch.take<std::int64_t>(std::max(problem.k, kElements));
  }

  /// Rows that are copied at a time.
  [[nodiscard]] std::int64_t rows() const { return rows_; }

  /// Where places and passes of those rows are written.
  [[nodiscard]] const Output& found() const { return found_; }

  /// Copies `count` rows, `stride` elements apart, calls select(copies, their stride, 0, number of copies), which writes to
  /// found(), and writes the results. The first is row `number`.
  template <class Select>
  void ForEach(const T* rows, std::int64_t stride, std::int64_t number, std::int64_t count, const Select& select) {
    for (std::int64_t left = count; left > 0; left -= rows_, number += rows_, rows += rows_ * stride) {
      const std::int64_t now = std::min(left, rows_);
      if (written_.passes) found_.passes = output_.passes + number;
      select(Copy(rows, stride, now), written_.cols, 0, now);
      Write(rows, stride, number, now);
    }
  }

 private:
  using Key = core::KeyOf<T>;
  static constexpr std::int64_t kElements = 4096;

  const T* Copy(const T* rows, std::int64_t stride, std::int64_t count) {
    const auto* from = reinterpret_cast<const Key*>(rows);
    const std::int64_t cols = written_.cols;
    if (stride == cols) {
      CopyMagnitudes<T>(from, static_cast<std::size_t>(cols * count), elements_);
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        CopyMagnitudes<T>(from + i * stride, static_cast<std::size_t>(cols), elements_ + i * cols);
      }
    }
    return reinterpret_cast<const T*>(elements_);
  }

  void Write(const T* rows, std::int64_t stride, std::int64_t number, std::int64_t count) {
    const auto* places = static_cast<const std::int64_t*>(found_.indices);
    for (std::int64_t i = 0; i < count; ++i, places += written_.k) {
      results_.Begin(rows + i * stride, number + i);
      results_.Add(places, static_cast<std::size_t>(written_.k), 0);
      results_.End(written_.passes ? found_.passes[i] : 0);
    }
  }

  /// The places come in the order of the results.
  static Problem in_order(const Problem& problem) {
    Problem written = problem;
    written.order = Order::unsorted;
    return written;
  }

  Problem written_;
  const Output& output_;
  std::int64_t rows_;
  Key* elements_;
  Output found_;
  Results<T, direction> results_;
};
