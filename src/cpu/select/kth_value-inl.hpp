// The kth value of each row, from its results. Included by simd_type-inl.hpp, once per instruction set.

/// Writes the last result of each row in the order by value: of the equally bad ones, the one with the highest place.
template <class T, Direction direction>
class KthValues {
 public:
  KthValues(const Problem& problem, const Output& output, Scratch& scratch)
      : problem_(problem),
        output_(output),
        k_(static_cast<std::size_t>(problem.k)),
        gathered_(problem.values ? nullptr : scratch.take<Key>(problem.k)) {}

  /// Of `count` rows, `stride` elements apart, whose results are written. The first is row `number`.
  void Write(const T* rows, std::int64_t stride, std::int64_t number, std::int64_t count) const {
    Key* const thresholds = static_cast<Key*>(output_.thresholds) + number;
    for (std::int64_t i = 0; i < count; ++i) {
      thresholds[i] = Last(problem_.values ? Written(number + i) : Gathered(rows + i * stride, number + i));
    }
  }

 private:
  using Key = core::KeyOf<T>;

  [[nodiscard]] const Key* Written(std::int64_t number) const {
    return static_cast<const Key*>(output_.values) + number * problem_.k;
  }

  /// The values of a row's results, where only indices are written.
  const Key* Gathered(const T* row, std::int64_t number) const {
    const auto gather = [&](const auto* indices) {
      Gather(reinterpret_cast<const Key*>(row), indices + number * problem_.k, k_, gathered_);
    };
    if (problem_.index_type == IndexType::i32) {
      gather(static_cast<const std::int32_t*>(output_.indices));
    } else {
      gather(static_cast<const std::int64_t*>(output_.indices));
    }
    return gathered_;
  }

  /// `values` are in the order by value, or in that of their places.
  [[nodiscard]] Key Last(const Key* values) const {
    if (problem_.order == Order::by_value) return values[k_ - 1];
    const Key key = LeastKey(values);
    if (!problem_.magnitude && core::is_of_one_value<T>(core::directed<T, direction>(key))) {
      return core::bits_of(core::value_of<T>(core::directed<T, direction>(key)));
    }
    std::size_t last = k_ - 1;
    while (KeyAt(values, last) != key) --last;
    return values[last];
  }

  [[nodiscard]] Key KeyAt(const Key* values, std::size_t i) const {
    const Key bits = problem_.magnitude ? MagnitudeBitsOf<T>(values[i]) : values[i];
    return core::directed_key<T, direction>(std::bit_cast<T>(bits));
  }

  [[nodiscard]] Key LeastKey(const Key* values) const {
    const hn::ScalableTag<Key> whole;
    const hn::CappedTag<Key, 16 / sizeof(Key)> narrow;
    if (k_ >= hn::Lanes(whole)) return LeastKeyOf(whole, values);
    if (k_ >= hn::Lanes(narrow)) return LeastKeyOf(narrow, values);
    Key least = KeyAt(values, 0);
    for (std::size_t i = 1; i < k_; ++i) least = std::min(least, KeyAt(values, i));
    return least;
  }

  /// At least one vector of values.
  template <class D>
  [[nodiscard]] HWY_INLINE Key LeastKeyOf(D d, const Key* values) const {
    const std::size_t lanes = hn::Lanes(d);
    const auto keys_at = [&](std::size_t i) HWY_ATTR {
      const auto bits = hn::LoadU(d, values + i);
      return KeyLanes<T, direction>(d, problem_.magnitude ? MagnitudeBits<T>(d, bits) : bits);
    };
    auto least = keys_at(k_ - lanes);
    for (std::size_t i = 0; i + lanes < k_; i += lanes) least = hn::Min(least, keys_at(i));
    const auto found = hn::GetLane(hn::MinOfLanes(hn::RebindToSigned<D>{}, least));
    return static_cast<Key>(KeyLane(static_cast<Key>(found)));
  }

  const Problem& problem_;
  const Output& output_;
  std::size_t k_;
  Key* gathered_;
};
