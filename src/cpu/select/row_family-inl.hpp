// cpu_row: counts over the whole row until the threshold is found, then lists the elements at or above it. For rows
// with a large selected share. Included by simd_type-inl.hpp, once per instruction set.

template <class T, Direction direction>
class RowFamily {
 public:
  RowFamily(const Plan& plan, const Output& output, Scratch& scratch)
      : problem_(plan.problem), results_(plan.problem, output, scratch), listing_(scratch) {
    if constexpr (Held::converts) keys_ = scratch.take<typename Held::Element>(plan.problem.cols);
  }

  void Select(const T* elements, std::int64_t number) {
    results_.Begin(elements, number);
    const auto size = static_cast<std::size_t>(problem_.cols);
    std::int32_t passes = 0;
    if (Key key = 0; MayBeTied(elements, size, key)) {
      bool is_above = false;
      if (TakeIfTied(elements, problem_, key, listing_, results_, passes, is_above)) {
        hint_.LearnTie(RowView::ToReal(key));
        return results_.End(passes);
      }
    }
    const auto take = [&](const auto& row, const auto& threshold) {
      ListSelected(row, threshold, problem_.k, listing_,
                   [&](const std::uint16_t* positions, std::size_t count, std::size_t base) {
                     results_.Add(positions, count, base);
                   });
      results_.End(passes + threshold.passes);
    };
    if constexpr (Held::converts) {
      Held::ConvertFrom(reinterpret_cast<const core::KeyOf<T>*>(elements), size, keys_);
      WithThreshold<T, direction>(keys_, size, problem_.k, hint_, take);
    } else {
      WithThreshold<T, direction>(elements, size, problem_.k, hint_, take);
    }
  }

 private:
  using Held = HWY_NAMESPACE::Held<T, direction>;
  using RowView = typename Held::RowView;
  using Key = core::KeyOf<T>;

  /// True if it is worth to try whether the kth value is `key`.
  bool MayBeTied(const T* elements, std::size_t size, Key& key) const {
    const bool tied = hint_.known && hint_.tied;
    const Key hinted = hint_.known ? RowView::FromReal(hint_.value) : Key{0};
    if (LooksTied<T, direction>(elements, size, key) && (tied || key >= hinted)) return true;
    key = hinted;
    return tied;
  }

  const Problem& problem_;
  Results<T, direction> results_;
  Listing listing_;
  typename Held::Element* keys_ = nullptr;  ///< The row as keys, if it is searched that way.
  Hint hint_;
};
