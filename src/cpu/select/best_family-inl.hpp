// cpu_best: k = 1. Reads the row once for its best element, and the block that has it once more for the position.
// Nothing is learnt from other rows, so all distributions cost the same. Included by simd_type-inl.hpp, once per
// instruction set.

template <class T, Direction direction>
class BestFamily {
 public:
  BestFamily(const Plan& plan, const Output& output, Scratch& scratch)
      : size_(static_cast<std::size_t>(plan.problem.cols)), results_(plan.problem, output, scratch) {}

  void Select(const T* elements, std::int64_t number) {
    results_.Begin(elements, number);
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

  std::size_t size_;
  Results<T, direction> results_;
};
