// cpu_bisection: the paper's searches, which count over the whole row in every pass. Included by simd_type-inl.hpp,
// once per instruction set.

template <class T, Direction direction>
class BisectionFamily {
 public:
  BisectionFamily(const Plan& plan, const Output& output, Scratch& scratch)
      : problem_(plan.problem),
        output_(output),
        exact_(plan, output, scratch),
        results_(plan.problem, output, scratch),
        listing_(plan.problem, scratch) {
    if constexpr (Held::converts) keys_ = scratch.take<typename Held::Element>(plan.problem.cols);
    if (plan.problem.max_iter > 0) lanes_.emplace(plan.problem, scratch);
  }

  /// Selects from `count` rows, `stride` elements apart. The first is row `number`.
  void Select(const T* rows, std::int64_t stride, std::int64_t number, std::int64_t count) {
    constexpr auto kAtOnce = static_cast<std::int64_t>(Lanes::kRows);
    // Fewer rows than a quarter of the lanes are searched faster one by one.
    for (; Lanes::Pays(problem_) && count >= kAtOnce / 4; number += kAtOnce) {
      const std::int64_t now = std::min(count, kAtOnce);
      lanes_->Select(rows, stride, number, static_cast<std::size_t>(now), results_,
                     [this](const T* elements, std::int64_t its_number) { SelectOne(elements, its_number); });
      rows += now * stride;
      count -= now;
    }
    for (std::int64_t i = 0; i < count; ++i) SelectOne(rows + i * stride, number + i);
  }

 private:
  using Key = core::KeyOf<T>;
  using Real = core::ArithmeticOf<T>;
  using Held = HWY_NAMESPACE::Held<T, direction>;
  using Lanes = LaneBisection<T, direction>;

  void SelectOne(const T* elements, std::int64_t number) {
    const Extent<Key> extent = MeasureExtent<T, direction>(elements, problem_.cols);
    std::int32_t passes = 0;
    if (extent.finite) {
      const auto size = static_cast<std::size_t>(problem_.cols);
      if constexpr (Held::converts) {
        Held::ConvertFrom(reinterpret_cast<const Key*>(elements), size, keys_);
        passes = Bisect(Row<typename Held::View>(keys_, size), extent, elements, number);
      } else {
        passes = Bisect(Row<typename Held::View>(elements, size), extent, elements, number);
      }
      if (core::stops_early(problem_)) return;
    }
    exact_.Select(elements, number);
    if (problem_.passes) output_.passes[number] = passes;  // passes of the bisection, not of the exact search
  }

  /// Runs the search, and writes its selection if it stops early. Returns the number of passes.
  template <class View>
  std::int32_t Bisect(const Row<View>& row, const Extent<Key>& extent, const T* elements, std::int64_t number) {
    const auto real = [](Key key) { return RealOf<T, direction>(key); };
    core::Bisection<Real> search(real(extent.least), real(extent.greatest), problem_.k, problem_.max_iter,
                                 problem_.rule, problem_.epsilon);
    while (search.next()) search.record(row.Count(core::directed_threshold_key<T, direction>(search.middle())));
    const auto selection = search.selection();
    if (core::stops_early(problem_)) Take(row, selection, elements, number);
    return selection.passes;
  }

  template <class View>
  void Take(const Row<View>& row, const core::Selection<Real>& selection, const T* elements, std::int64_t number) {
    results_.Begin(elements, number);
    const std::size_t filled = listing_.FillUp(row, selection, results_);
    if (!selection.fill_only) listing_.AddSure(row, selection, filled, results_);
    results_.End(selection.passes);
  }

  const Problem& problem_;
  const Output& output_;
  RowFamily<T, direction> exact_;  ///< For rows with a NaN or an infinity, and for exact problems.
  Results<T, direction> results_;
  EarlyListing<T, direction> listing_;
  typename Held::Element* keys_ = nullptr;  ///< The row as keys, if it is searched that way.
  std::optional<Lanes> lanes_;              ///< For many short rows.
};
