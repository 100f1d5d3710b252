// cpu_best: k up to 8. Nothing is learnt from other rows, so all distributions cost the same. Included by
// simd_type-inl.hpp, once per instruction set.
//
// k = 1: reads the row once for its best element, and the block that has it once more for the position.
// k > 1: reads the row once for the best of each of some groups of elements. At least k elements reach the kth best of
// those, and rarely many more: a second read lists them.

template <class T, Direction direction>
class BestFamily {
 public:
  BestFamily(const Plan& plan, const Output& output, Scratch& scratch)
      : size_(static_cast<std::size_t>(plan.problem.cols)),
        k_(static_cast<std::size_t>(plan.problem.k)),
        results_(plan.problem, output, scratch),
        listing_(scratch),
        row_(plan, output, scratch) {}

  void Select(const T* elements, std::int64_t number) {
    results_.Begin(elements, number);
    if (k_ > 1) {
      Key tie = 0;  // among equal elements the groups tell nothing
      if (LooksTied<T, direction>(elements, size_, tie)) return row_.Select(elements, number);
      const bool found =
          SelectFew<FastView>(elements) || (sizeof(T) == 2 && SelectFew<ConvertingView<T, direction>>(elements));
      return found ? results_.End(2) : row_.Select(elements, number);
    }
    std::size_t place = 0;
    if (!Find<FastView>(elements, place)) Find<ConvertingView<T, direction>>(elements, place);
    const std::uint16_t here = 0;
    results_.Add(&here, 1, place);
    results_.End(1);
  }

 private:
  using Key = core::KeyOf<T>;
  using FastView = std::conditional_t<sizeof(T) == 2, HalfView<T, direction>, RawView<T, direction>>;

  /// Elements after which the best so far is compared: few enough that the block which has it is in the nearest cache.
  static constexpr std::size_t kBlock = 4096;

  /// Finds the first of the best elements. False if the view cannot tell which one that is.
  template <class View>
  HWY_INLINE bool Find(const T* elements, std::size_t& place) const {
    using D = hn::ScalableTag<typename View::Lane>;
    const D d;
    constexpr std::size_t kLanes = hn::MaxLanes(D{});
    if (size_ < kLanes) {
      T padded[kLanes];
      std::fill_n(padded, kLanes, elements[0]);
      std::copy_n(elements, size_, padded);
      return FindIn<View>(d, padded, kLanes, place);
    }
    return FindIn<View>(d, elements, size_, place);
  }

  template <class View, class D>
  static HWY_INLINE bool FindIn(D d, const T* elements, std::size_t size, std::size_t& place) {
    constexpr std::size_t kLanes = hn::MaxLanes(D{});
    typename View::Doubt doubt;
    typename View::Lane best{};
    std::size_t block = 0;
    for (std::size_t begin = 0; begin < size; begin += kBlock) {
      // The last vector of a row overlaps the one before it.
      const std::size_t end = std::min(size, begin + kBlock);
      const std::size_t first = std::min(begin, size - kLanes);
      const typename View::Lane found = BestOf<View>(d, elements + first, end - first, doubt);
      if (begin == 0 || (View::ascending ? found > best : found < best)) {
        best = found;
        block = first;
      }
    }
    if (doubt.Arises(best)) return false;
    const auto wanted = hn::Set(d, best);
    const std::size_t last = size - kLanes;
    for (std::size_t i = block;; i += kLanes) {
      i = std::min(i, last);
      const auto equal = hn::Eq(View::Load(d, elements + i), wanted);
      if (hn::AllFalse(d, equal)) continue;
      place = i + static_cast<std::size_t>(hn::FindFirstTrue(d, equal));
      return true;
    }
  }

  /// The best of `size` elements, which fill at least a vector.
  template <class View, class D>
  static HWY_INLINE typename View::Lane BestOf(D d, const T* elements, std::size_t size, typename View::Doubt& doubt) {
    constexpr std::size_t kLanes = hn::MaxLanes(D{});
    const auto better = [](auto a, auto b) HWY_ATTR { return View::ascending ? hn::Max(a, b) : hn::Min(a, b); };
    const auto take = [&](std::size_t i) HWY_ATTR {
      const auto lanes = View::Load(d, elements + i);
      doubt.See(lanes);
      return lanes;
    };
    auto best0 = take(size - kLanes);
    auto best1 = best0;
    auto best2 = best0;
    auto best3 = best0;
    std::size_t i = 0;
    for (; i + 4 * kLanes <= size; i += 4 * kLanes) {
      best0 = better(best0, take(i));
      best1 = better(best1, take(i + kLanes));
      best2 = better(best2, take(i + 2 * kLanes));
      best3 = better(best3, take(i + 3 * kLanes));
    }
    for (; i + kLanes <= size; i += kLanes) best0 = better(best0, take(i));
    const auto best = better(better(best0, best1), better(best2, best3));
    return hn::GetLane(View::ascending ? hn::MaxOfLanes(d, best) : hn::MinOfLanes(d, best));
  }

  static constexpr std::size_t kGroupVectors = 8;
  static constexpr std::size_t kMostCandidates = 64;

  /// Selects the k best. False if NaN is in the row, or if many elements are equal.
  template <class View>
  bool SelectFew(const T* elements) {
    typename View::Lane threshold{};
    if (!FindThreshold<View>(elements, threshold)) return false;
    const typename View::Key key = View::KeyOfLane(threshold);
    if (key <= View::lowest_key) return false;
    const Row<View> row(elements, size_);
    std::size_t places[kMostCandidates];
    std::size_t count = 0;
    for (std::size_t begin = 0; begin < size_; begin += kListedAtOnce) {
      const std::size_t listed = listing_.template Fill<true>(row, key, begin, std::min(size_, begin + kListedAtOnce));
      if (count + listed > kMostCandidates) return false;
      AddToAll(listing_.positions(), listed, begin, places + count);
      count += listed;
    }
    Key keys[kMostCandidates];
    for (std::size_t i = 0; i < count; ++i) keys[i] = core::directed_key<T, direction>(elements[places[i]]);
    for (; count > k_; --count) {
      std::size_t worst = 0;  // the last of equal ones
      for (std::size_t i = 1; i < count; ++i) worst = keys[i] <= keys[worst] ? i : worst;
      std::copy(keys + worst + 1, keys + count, keys + worst);
      std::copy(places + worst + 1, places + count, places + worst);
    }
    results_.Add(places, count, 0);
    return true;
  }

  /// Finds a lane that at least k elements reach: the kth of the different bests of groups. False if the view is in
  /// doubt.
  template <class View>
  HWY_INLINE bool FindThreshold(const T* elements, typename View::Lane& threshold) const {
    using Lane = typename View::Lane;
    using D = hn::ScalableTag<Lane>;
    const D d;
    constexpr std::size_t kLanes = hn::MaxLanes(D{});
    const auto better = [](auto a, auto b) HWY_ATTR { return View::ascending ? hn::Max(a, b) : hn::Min(a, b); };
    T padded[kLanes];
    std::fill_n(padded, kLanes, core::value_of<T>(core::directed<T, direction>(View::lowest_key)));
    const auto worst = View::Load(d, padded);
    typename View::Doubt doubt;
    hn::Vec<D> best[kGroupVectors];
    for (auto& group : best) group = worst;
    std::size_t i = 0;
    for (; i + kGroupVectors * kLanes <= size_; i += kGroupVectors * kLanes) {
      for (std::size_t group = 0; group < kGroupVectors; ++group) {
        const auto lanes = View::Load(d, elements + i + group * kLanes);
        doubt.See(lanes);
        best[group] = better(best[group], lanes);
      }
    }
    for (std::size_t group = 0; i < size_; i += kLanes, ++group) {
      // A group has no element twice, so the last vector must not overlap the one before it.
      if (i + kLanes > size_) std::copy(elements + i, elements + size_, padded);
      const auto lanes = View::Load(d, i + kLanes > size_ ? padded : elements + i);
      doubt.See(lanes);
      best[group] = better(best[group], lanes);
    }
    for (std::size_t rank = 1;; ++rank) {
      auto all = best[0];
      for (std::size_t group = 1; group < kGroupVectors; ++group) all = better(all, best[group]);
      threshold = hn::GetLane(View::ascending ? hn::MaxOfLanes(d, all) : hn::MinOfLanes(d, all));
      if (rank == 1 && doubt.Arises(threshold)) return false;
      if (rank == k_) return true;
      const auto taken = hn::Set(d, threshold);
      for (auto& group : best) group = hn::IfThenElse(hn::Eq(group, taken), worst, group);
    }
  }

  std::size_t size_;
  std::size_t k_;
  Results<T, direction> results_;
  Listing listing_;
  RowFamily<T, direction> row_;  ///< For rows that are not selected from here.
};
