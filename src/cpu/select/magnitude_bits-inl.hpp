// Elements by magnitude. Included by simd_type-inl.hpp, once per instruction set.

/// Bits in whose plain order elements have the order of their magnitudes.
template <class T, class DU, class V = hn::Vec<DU>>
HWY_INLINE V MagnitudeBits(DU du, V bits) {
  using Key = core::KeyOf<T>;
  const auto sign = hn::Set(du, static_cast<Key>(Key{1} << (8 * sizeof(Key) - 1)));
  if constexpr (core::is_floating<T>) {
    return hn::AndNot(sign, bits);
  } else {
    const hn::RebindToSigned<DU> ds;  // the least integer, whose magnitude is the greatest, stays as it is
    return hn::Xor(hn::BitCast(du, hn::Abs(hn::BitCast(ds, bits))), sign);
  }
}

/// The same for one element.
template <class T>
core::KeyOf<T> MagnitudeBitsOf(core::KeyOf<T> bits) {
  using Key = core::KeyOf<T>;
  constexpr Key sign = static_cast<Key>(Key{1} << (8 * sizeof(Key) - 1));
  if constexpr (core::is_floating<T>) {
    return static_cast<Key>(bits & static_cast<Key>(~sign));
  } else {
    return static_cast<Key>(core::magnitude_key(std::bit_cast<T>(bits)) ^ sign);
  }
}

/// Copies `count` elements as MagnitudeBits.
template <class T>
void CopyMagnitudes(const core::KeyOf<T>* from, std::size_t count, core::KeyOf<T>* to) {
  const hn::ScalableTag<core::KeyOf<T>> du;
  const std::size_t lanes = hn::Lanes(du);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(MagnitudeBits<T>(du, hn::LoadU(du, from + i)), du, to + i);
  for (; i < count; ++i) to[i] = MagnitudeBitsOf<T>(from[i]);
}
