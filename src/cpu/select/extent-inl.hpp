// The ends of a row, which a bisection starts from. Included by simd_type-inl.hpp, once per instruction set.

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
  Key least = std::numeric_limits<Key>::max();
  Key greatest = 0;
  const auto see = [&](T element) {
    const Key key = core::directed_key<T, direction>(element);
    least = std::min(least, key);
    greatest = std::max(greatest, key);
  };
  if (count >= lanes) {
    // Of positive numbers the greatest bits are the greatest number, of negative ones the least. So the greatest and the
    // least are among the ends of the bits in both orders of integers, and so is every NaN.
    const auto* bits = reinterpret_cast<const Key*>(elements);
    auto high = hn::LoadU(du, bits + (count - lanes));
    auto low = high;
    auto signed_high = hn::BitCast(ds, high);
    auto signed_low = signed_high;
    for (std::int64_t i = 0; i + lanes <= count; i += lanes) {
      const auto x = hn::LoadU(du, bits + i);
      if constexpr (core::is_floating<T>) {
        high = hn::Max(high, x);
        low = hn::Min(low, x);
      }
      signed_high = hn::Max(signed_high, hn::BitCast(ds, x));
      signed_low = hn::Min(signed_low, hn::BitCast(ds, x));
    }
    if constexpr (core::is_floating<T>) {
      see(std::bit_cast<T>(hn::GetLane(hn::MaxOfLanes(du, high))));
      see(std::bit_cast<T>(hn::GetLane(hn::MinOfLanes(du, low))));
    }
    see(std::bit_cast<T>(hn::GetLane(hn::MaxOfLanes(ds, signed_high))));
    see(std::bit_cast<T>(hn::GetLane(hn::MinOfLanes(ds, signed_low))));
  } else {
    for (std::int64_t i = 0; i < count; ++i) see(elements[i]);
  }
  const Key a = core::directed<T, direction>(least);
  const Key b = core::directed<T, direction>(greatest);
  return {least, greatest, std::min(a, b) >= core::lower_finite_key<T> && std::max(a, b) <= core::upper_finite_key<T>};
}

/// The extent of the beginning of a row, which grows while something else reads the row: its elements are in the cache then.
template <class T, Direction direction>
class GrowingExtent {
 public:
  using Key = core::KeyOf<T>;

  void Begin() {
    extent_ = {std::numeric_limits<Key>::max(), 0, true};
    size_ = 0;
  }

  /// The extent of at least the first `size` elements.
  const Extent<Key>& Reach(const T* row, std::int64_t size) {
    if (size > size_) {
      const Extent<Key> more = MeasureExtent<T, direction>(row + size_, size - size_);
      extent_ = {std::min(extent_.least, more.least), std::max(extent_.greatest, more.greatest),
                 extent_.finite && more.finite};
      size_ = size;
    }
    return extent_;
  }

 private:
  Extent<Key> extent_;
  std::int64_t size_;
};
