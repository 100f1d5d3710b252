// cpu_row: counts over the whole row until the threshold is found, then lists the elements at or above it. For rows
// with a large selected share. Included by simd_type-inl.hpp, once per instruction set.

template <class T, Direction direction>
class RowFamily {
 public:
  RowFamily(const Plan& plan, const Output& output, Scratch& scratch)
      : problem_(plan.problem), results_(plan.problem, output, scratch), listing_(scratch) {
    if constexpr (Held::converts) keys_ = scratch.take<Element>(plan.problem.cols);
    const std::int64_t listed = std::min(plan.problem.cols, static_cast<std::int64_t>(kListedAtOnce));
    above_ = scratch.take<Element>(listed);
    places_ = scratch.take<std::uint16_t>(listed);
    chosen_ = scratch.take<std::uint16_t>(listed);
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
      if (is_above && size <= kListedAtOnce && TakeAbove(elements, passes)) return results_.End(passes);
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
      if constexpr (kMasksAreBits) {
        if (size <= kMaxDigitsColumns) {
          const Row<typename Held::View> row(keys_, size);
          return take(row, FindThresholdByDigits(row, problem_.k, hint_));
        }
      }
      WithThreshold<T, direction>(keys_, size, problem_.k, hint_, take);
    } else {
      WithThreshold<T, direction>(elements, size, problem_.k, hint_, take);
    }
  }

 private:
  using Held = HWY_NAMESPACE::Held<T, direction>;
  using RowView = typename Held::RowView;
  using Key = core::KeyOf<T>;
  using Element = typename Held::Element;

  /// True if it is worth to try whether the kth value is `key`: even if it is above, the ties need no search any more.
  bool MayBeTied(const T* elements, std::size_t size, Key& key) const {
    const bool tied = hint_.known && hint_.tied;
    const Key hinted = hint_.known ? RowView::FromReal(hint_.value) : Key{0};
    if (LooksTied<T, direction>(elements, size, key) && (tied || size <= kListedAtOnce || key >= hinted)) return true;
    key = hinted;
    return tied;
  }

  /// Selects from the elements above a tie, which TakeIfTied() marked. False if they are too many to gain by it.
  bool TakeAbove(const T* elements, std::int32_t& passes) {
    const std::size_t count = listing_.ListAbove();
    if (2 * count > static_cast<std::size_t>(problem_.cols)) return false;
    std::copy_n(listing_.positions(), count, places_);
    Gather(reinterpret_cast<const Key*>(elements), places_, count, reinterpret_cast<Key*>(above_));
    Held::Convert(above_, count);
    WithThreshold<T, direction>(above_, count, problem_.k, hint_above_, [&](const auto& row, const auto& threshold) {
      ListSelected(row, threshold, problem_.k, listing_,
                   [&](const std::uint16_t* positions, std::size_t listed, std::size_t base) {
                     Gather(places_ + base, positions, listed, chosen_);
                     results_.Add(chosen_, listed, 0);
                   });
      passes += threshold.passes;
    });
    return true;
  }

  const Problem& problem_;
  Results<T, direction> results_;
  Listing listing_;
  Element* keys_ = nullptr;  ///< The row as keys, if it is searched that way.
  Element* above_;           ///< The elements above a tie.
  std::uint16_t* places_;    ///< Where they are in the row.
  std::uint16_t* chosen_;    ///< Where the selected ones are.
  Hint hint_;
  Hint hint_above_;  ///< For the elements above a tie.
};
