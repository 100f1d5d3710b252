// cpu_row: counts over the whole row until the threshold is found, then lists what is at or above it. For rows of which a
// large part is selected. Included by simd_type-inl.hpp, once for each instruction set.

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
    const auto* const held = Hold(elements, size);
    if (hint_.known && hint_.tied && size <= kListedAtOnce && ListTied(Row<View>(held, size))) return results_.End(1);
    const auto take = [&](const auto& row, const auto& threshold) {
      ListSelected(row, threshold, problem_.k, listing_,
                   [&](const std::uint16_t* positions, std::size_t count, std::size_t base) {
                     results_.Add(positions, count, base);
                   });
      results_.End(threshold.passes);
    };
    WithThreshold<T, direction>(held, size, problem_.k, hint_, take);
  }

 private:
  using Held = HWY_NAMESPACE::Held<T, direction>;
  using View = typename Held::View;

  /// Selects the k best if the k-th is equal to that of the row before.
  bool ListTied(const Row<View>& row) {
    const auto key = View::FromReal(hint_.value);
    if (key <= View::lowest_key || key >= View::highest_key) return false;
    bool is_above = false;
    const std::size_t count = listing_.FillIfTied(row, key, problem_.k, is_above);
    if (count > 0) results_.Add(listing_.positions(), count, 0);
    return count > 0;
  }

  /// The row as it is searched.
  const typename Held::Element* Hold(const T* elements, std::size_t size) {
    if constexpr (Held::converts) {
      Held::ConvertFrom(reinterpret_cast<const core::KeyOf<T>*>(elements), size, keys_);
      return keys_;
    } else {
      return elements;
    }
  }

  const Problem& problem_;
  Results<T, direction> results_;
  Listing listing_;
  typename Held::Element* keys_ = nullptr;  ///< The row, if it is searched as keys.
  Hint hint_;
};
