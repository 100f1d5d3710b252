// What an early-stopped bisection selects. Included by simd_type-inl.hpp, once per instruction set.

/// A key as the number that the paper's search computes with.
template <class T, Direction direction>
core::ArithmeticOf<T> RealOf(core::KeyOf<T> directed_key) {
  return core::directed_arithmetic<T, direction>(core::value_of<T>(core::directed<T, direction>(directed_key)));
}

/// Adds the elements that a bisection selects to results, in index order.
template <class T, Direction direction>
class EarlyListing {
 public:
  using Key = core::KeyOf<T>;
  using Selection = core::Selection<core::ArithmeticOf<T>>;

  EarlyListing(const Problem& problem, Scratch& scratch) : k_(problem.k), listing_(scratch) {}

  /// Adds elements until none below the last threshold is missing. Returns how many elements of the row were looked at.
  template <class View>
  std::size_t FillUp(const Row<View>& row, const Selection& selection, Results<T, direction>& results) {
    const Key fill = core::directed_threshold_key<T, direction>(selection.fill);
    const Key sure = core::directed_threshold_key<T, direction>(selection.sure);
    std::int64_t places = k_ - (selection.fill_only ? 0 : selection.count_sure);
    std::size_t begin = 0;
    for (; begin < row.size() && places > 0; begin += kListedAtOnce) {
      const std::size_t end = std::min(row.size(), begin + kListedAtOnce);
      const std::size_t count = selection.fill_only ? listing_.FillTies(row, fill, begin, end, places)
                                                    : listing_.FillUp(row, fill, sure, begin, end, places);
      results.Add(listing_.positions(), count, begin);
    }
    return std::min(begin, row.size());
  }

  /// Adds the elements from `begin` on that reach the last threshold.
  template <class View>
  void AddSure(const Row<View>& row, const Selection& selection, std::size_t begin, Results<T, direction>& results) {
    const Key sure = core::directed_threshold_key<T, direction>(selection.sure);
    for (; begin < row.size(); begin += kListedAtOnce) {
      const std::size_t end = std::min(row.size(), begin + kListedAtOnce);
      const std::size_t count = listing_.template Fill<false>(row, sure, begin, end);
      results.Add(listing_.positions(), count, begin);
    }
  }

 private:
  std::int64_t k_;
  Listing listing_;
};

/// Writes the results of searches that stop early, from the exact selections. The thresholds of all passes follow from the
/// kth value and the ends of a row, so no pass is made.
template <class T, Direction direction>
class EarlyStop {
 public:
  EarlyStop(const Problem& problem, const Output& output, Scratch& scratch)
      : problem_(problem), output_(output), results_(problem, output, scratch), listing_(problem, scratch) {}

  /// Writes the results of `count` rows, `stride` elements apart. The first is row `number`. `columns` and `values`: of the
  /// k best of each, in index order. extent_of(row): the Extent of that row.
  template <class ExtentOf>
  HWY_NOINLINE void Write(const T* rows, std::int64_t stride, std::int64_t number, std::int64_t count,
                          const std::int64_t* columns, const T* values, const ExtentOf& extent_of) {
    for (std::int64_t i = 0; i < count; ++i, columns += problem_.k, values += problem_.k) {
      const T* const row = rows + i * stride;
      results_.Begin(row, number + i);
      const Extent<Key> extent = extent_of(row);
      if (extent.finite) {
        Add(row, extent, columns, values);
      } else {
        results_.Add(columns, static_cast<std::size_t>(problem_.k), 0);
      }
      results_.End(problem_.passes ? output_.passes[number + i] : 0);  // those of the exact search
    }
  }

 private:
  using Key = core::KeyOf<T>;
  using Selection = typename EarlyListing<T, direction>::Selection;
  using RowView = typename Held<T, direction>::RowView;

  void Add(const T* row, const Extent<Key>& extent, const std::int64_t* columns, const T* values) {
    const auto real = [](Key key) { return RealOf<T, direction>(key); };
    const Key kth = MeasureExtent<T, direction>(values, problem_.k).least;
    Selection selection = core::selection_of_kth(problem_, real(extent.least), real(extent.greatest), real(kth));
    if (selection.fill_only) {
      FillUp(row, selection);
      return;
    }
    // What reaches the last threshold is above the kth value, and so among the best.
    const Key sure = core::directed_threshold_key<T, direction>(selection.sure);
    selection.count_sure = Row<RowView>(values, static_cast<std::size_t>(problem_.k)).Count(sure);
    const auto filled = static_cast<std::int64_t>(FillUp(row, selection));
    for (std::int64_t i = std::lower_bound(columns, columns + problem_.k, filled) - columns; i < problem_.k; ++i) {
      if (core::directed_key<T, direction>(values[i]) >= sure) results_.Add(columns + i, 1, 0);
    }
  }

  /// With the fastest view that compares finite elements with this threshold.
  std::size_t FillUp(const T* elements, const Selection& selection) {
    const auto size = static_cast<std::size_t>(problem_.cols);
    if constexpr (sizeof(T) == 2) {
      using View = HalfView<T, direction>;
      if (core::directed_threshold_key<T, direction>(selection.fill) > View::lowest_key) {
        return listing_.FillUp(Row<View>(elements, size), selection, results_);
      }
    }
    return listing_.FillUp(Row<RowView>(elements, size), selection, results_);
  }

  const Problem& problem_;
  const Output& output_;
  Results<T, direction> results_;
  EarlyListing<T, direction> listing_;
};
