// cpu_bisection: the paper's searches, which count over the whole row in every pass. Included by simd_type-inl.hpp,
// once per instruction set.

/// The least and greatest element of a row, as directed keys, and whether all elements are finite.
template <class Key>
struct Extent {
  Key least;
  Key greatest;
  bool finite;
};

template <class T, Direction direction>
Extent<core::KeyOf<T>> MeasureExtent(const T* elements, std::int64_t count) {
  using Key = core::KeyOf<T>;
  const hn::ScalableTag<Key> du;
  const hn::RebindToSigned<decltype(du)> ds;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(du));
  const auto* bits = reinterpret_cast<const Key*>(elements);
  Key least = std::numeric_limits<Key>::max();
  Key greatest = 0;
  std::int64_t i = 0;
  if (count >= lanes) {
    auto low = KeyLanes<T, direction>(du, hn::LoadU(du, bits));
    auto high = low;
    for (i = lanes; i + lanes <= count; i += lanes) {
      const auto keys = KeyLanes<T, direction>(du, hn::LoadU(du, bits + i));
      low = hn::Min(low, keys);
      high = hn::Max(high, keys);
    }
    const auto unsign = [](SignedOf<Key> lane) { return static_cast<Key>(KeyLane(static_cast<Key>(lane))); };
    alignas(64) SignedOf<Key> lows[hn::MaxLanes(ds)];
    alignas(64) SignedOf<Key> highs[hn::MaxLanes(ds)];
    hn::Store(low, ds, lows);
    hn::Store(high, ds, highs);
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      least = std::min(least, unsign(lows[lane]));
      greatest = std::max(greatest, unsign(highs[lane]));
    }
  }
  for (; i < count; ++i) {
    const Key key = core::directed_key<T, direction>(elements[i]);
    least = std::min(least, key);
    greatest = std::max(greatest, key);
  }
  const Key a = core::directed<T, direction>(least);
  const Key b = core::directed<T, direction>(greatest);
  return {least, greatest, std::min(a, b) >= core::lower_finite_key<T> && std::max(a, b) <= core::upper_finite_key<T>};
}

template <class T, Direction direction>
class BisectionFamily {
 public:
  BisectionFamily(const Plan& plan, const Output& output, Scratch& scratch)
      : problem_(plan.problem),
        output_(output),
        exact_(plan, output, scratch),
        results_(plan.problem, output, scratch),
        listing_(scratch) {
    if constexpr (Held::converts) keys_ = scratch.take<typename Held::Element>(plan.problem.cols);
  }

  void Select(const T* elements, std::int64_t number) {
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

 private:
  using Key = core::KeyOf<T>;
  using Real = core::ArithmeticOf<T>;
  using Held = HWY_NAMESPACE::Held<T, direction>;

  static Real RealOf(Key directed_key) {
    return core::directed_arithmetic<T, direction>(core::value_of<T>(core::directed<T, direction>(directed_key)));
  }

  /// Runs the search, and writes its selection if it stops early. Returns the number of passes.
  template <class View>
  std::int32_t Bisect(const Row<View>& row, const Extent<Key>& extent, const T* elements, std::int64_t number) {
    core::Bisection<Real> search(RealOf(extent.least), RealOf(extent.greatest), problem_.k, problem_.max_iter,
                                 problem_.rule, problem_.epsilon);
    while (search.next()) search.record(row.Count(core::directed_threshold_key<T, direction>(search.middle())));
    const auto selection = search.selection();
    if (core::stops_early(problem_)) Take(row, selection, elements, number);
    return selection.passes;
  }

  template <class View>
  void Take(const Row<View>& row, const core::Selection<Real>& selection, const T* elements, std::int64_t number) {
    results_.Begin(elements, number);
    const Key fill = core::directed_threshold_key<T, direction>(selection.fill);
    const Key sure = core::directed_threshold_key<T, direction>(selection.sure);
    std::int64_t places_to_fill = problem_.k - (selection.fill_only ? 0 : selection.count_sure);
    std::int64_t places = problem_.k;
    for (std::size_t begin = 0; begin < row.size() && places > 0; begin += kListedAtOnce) {
      const std::size_t end = std::min(row.size(), begin + kListedAtOnce);
      std::size_t count = listing_.template Fill<false>(row, fill, begin, end);
      std::uint16_t* positions = listing_.positions();
      if (!selection.fill_only) {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < count; ++i) {
          const bool is_sure = View::KeyOf(row.elements()[begin + positions[i]]) >= sure;
          positions[kept] = positions[i];
          kept += is_sure || places_to_fill > 0 ? 1 : 0;
          places_to_fill -= !is_sure && places_to_fill > 0 ? 1 : 0;
        }
        count = kept;
      }
      count = std::min(count, static_cast<std::size_t>(places));
      results_.Add(positions, count, begin);
      places -= static_cast<std::int64_t>(count);
    }
    results_.End(selection.passes);
  }

  const Problem& problem_;
  const Output& output_;
  RowFamily<T, direction> exact_;  ///< For rows with a NaN or an infinity, and for exact problems.
  Results<T, direction> results_;
  Listing listing_;
  typename Held::Element* keys_ = nullptr;  ///< The row as keys, if it is searched that way.
};
