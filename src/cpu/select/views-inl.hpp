// Views define how a kernel reads a row: a view loads vectors and compares them with a threshold that is given as a
// directed key. Included by simd_type-inl.hpp, once per instruction set.

namespace hn = hwy::HWY_NAMESPACE;

/// True if a comparison yields one bit per lane (AVX-512), which are counted and stored as they are.
inline constexpr bool kMasksAreBits = HWY_TARGET <= HWY_AVX3;

template <class U>
using SignedOf = std::make_signed_t<U>;

/// A directed key as a signed lane, with its sign bit flipped.
template <class U>
constexpr SignedOf<U> KeyLane(U directed_key) {
  return static_cast<SignedOf<U>>(directed_key ^ static_cast<U>(U{1} << (8 * sizeof(U) - 1)));
}

/// Directed keys of elements given as bits, as signed lanes: key_of() for vectors.
template <class T, Direction direction, class DU, class V = hn::Vec<DU>>
HWY_INLINE hn::Vec<hn::RebindToSigned<DU>> KeyLanes(DU, V bits) {
  using Key = core::KeyOf<T>;
  constexpr Key sign = static_cast<Key>(Key{1} << (8 * sizeof(Key) - 1));
  const hn::RebindToSigned<DU> ds;
  if constexpr (core::is_floating<T>) {
    const auto lanes = hn::BitCast(ds, bits);
    const auto negative = hn::BroadcastSignBit(lanes);
    const auto magnitude = hn::AndNot(hn::Set(ds, static_cast<SignedOf<Key>>(sign)), lanes);
    const auto centred = hn::Sub(hn::Xor(magnitude, negative), negative);
    // Flipping the sign bit is the same as adding it, so one addition shifts and flips. NaN of either sign gets the
    // maximum.
    constexpr auto middle = KeyLane(core::key_of(T{}));
    const auto key = hn::Min(hn::Add(hn::Set(ds, middle), centred), hn::Set(ds, KeyLane(core::max_key<T>)));
    return direction == Direction::largest ? key
                                           : hn::Sub(hn::Set(ds, static_cast<SignedOf<Key>>(core::max_key<T>)), key);
  } else {
    const auto lanes = hn::BitCast(ds, bits);
    return direction == Direction::largest ? lanes : hn::Not(lanes);
  }
}

/// Converts between directed keys and values, in which rows are spread evenly enough for interpolation. Keys are
/// logarithmic towards zero.
template <class T, Direction direction>
struct RealScale {
  static double ToReal(core::KeyOf<T> key) {
    return static_cast<double>(
        core::directed_arithmetic<T, direction>(core::value_of<T>(core::directed<T, direction>(key))));
  }

  /// The key near `real`; any key if `real` is NaN.
  static core::KeyOf<T> FromReal(double real) {
    const double value = direction == Direction::largest ? real : -real;
    T element{};
    if constexpr (!core::is_floating<T>) {
      static_assert(sizeof(T) <= 4, "a double must hold the limits of T");
      constexpr double least = std::numeric_limits<T>::min();
      constexpr double greatest = std::numeric_limits<T>::max();
      element = static_cast<T>(value >= least ? std::min(value, greatest) : least);
    } else if constexpr (std::is_same_v<T, core::F16>) {
      element.bits = f16_from_float(static_cast<float>(value));
    } else if constexpr (std::is_same_v<T, core::BF16>) {
      element.bits = bf16_from_float(static_cast<float>(value));
    } else {
      element = static_cast<T>(value);
    }
    return core::directed_key<T, direction>(element);
  }
};

/// A view's doubt, for which nothing can be wrong: it tells all elements apart.
struct NoDoubt {
  template <class V>
  HWY_INLINE void See(V) {}
  template <class Lane>
  [[nodiscard]] bool Arises(Lane) const {
    return false;
  }
};

/// Sees NaN.
template <class Lane>
class NaNDoubt {
 public:
  using D = hn::ScalableTag<Lane>;
  // Not an initializer: an implicit constructor would be compiled for the baseline.
  HWY_INLINE NaNDoubt() : ordered_(hn::VecFromMask(D{}, hn::Eq(hn::Zero(D{}), hn::Zero(D{})))) {}
  HWY_INLINE void See(hn::Vec<D> lanes) {
    const D d;
    ordered_ = hn::And(ordered_, hn::VecFromMask(d, hn::Eq(lanes, lanes)));
  }
  [[nodiscard]] HWY_INLINE bool Arises(Lane) const {
    const D d;
    return !hn::AllTrue(d, hn::MaskFromVec(ordered_));
  }

 private:
  hn::Vec<D> ordered_;
};

/// Compares elements as they are: the fast view of f32, f64 and i32. It cannot distinguish NaN from +infinity, its
/// neighbour in the order, so it supports only thresholds from lowest_key to highest_key.
template <class T, Direction direction>
struct RawView : RealScale<T, direction> {
  using Element = T;
  using Lane = T;
  using Key = core::KeyOf<T>;
  static constexpr bool tells_nan_apart = !core::is_floating<T>;
  static constexpr Key lowest_key = core::is_floating<T> && direction == Direction::smallest ? 1 : 0;
  static constexpr Key highest_key = static_cast<Key>(
      core::is_floating<T> && direction == Direction::largest ? core::max_key<T> - 1 : core::max_key<T>);

  static Lane Threshold(Key key) { return core::value_of<T>(core::directed<T, direction>(key)); }
  static Key KeyOf(Element element) { return core::directed_key<T, direction>(element); }
  static Key KeyOfLane(Lane lane) { return KeyOf(lane); }

  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const Element* from) {
    return hn::LoadU(d, from);
  }

  // Marks the lanes at or above the threshold, or those below it, whichever takes one instruction.
  static constexpr bool marks_below = direction == Direction::largest || !core::is_floating<T>;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE hn::Mask<D> Marked(D, V lanes, V threshold) {
    if constexpr (direction == Direction::largest) {
      return hn::Lt(lanes, threshold);
    } else if constexpr (core::is_floating<T>) {
      return hn::Le(lanes, threshold);
    } else {
      return hn::Gt(lanes, threshold);
    }
  }

  /// True if greater lanes are better.
  static constexpr bool ascending = direction == Direction::largest;

  /// Tells if the best of the lanes that it has seen may not be the best element.
  using Doubt = std::conditional_t<tells_nan_apart, NoDoubt, NaNDoubt<Lane>>;

  /// An element below every threshold above lowest_key.
  static Element Padding() {
    if constexpr (core::is_floating<T> && direction == Direction::smallest) {
      return std::numeric_limits<T>::quiet_NaN();
    } else {
      return core::value_of<T>(core::directed<T, direction>(0));
    }
  }
};

/// Base of views whose lanes are directed keys.
template <class T, Direction direction>
struct KeyLaneView : RealScale<T, direction> {
  using Key = core::KeyOf<T>;
  using Lane = SignedOf<Key>;
  static constexpr Key lowest_key = 0;
  static constexpr Key highest_key = core::max_key<T>;
  static constexpr bool tells_nan_apart = true;
  static constexpr bool ascending = true;
  using Doubt = NoDoubt;

  static Lane Threshold(Key key) { return KeyLane(key); }
  static Key KeyOfLane(Lane lane) { return static_cast<Key>(KeyLane(static_cast<Key>(lane))); }

  static constexpr bool marks_below = true;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE hn::Mask<D> Marked(D, V lanes, V threshold) {
    return hn::Lt(lanes, threshold);
  }
};

/// An array of directed keys: converted rows and candidate buffers.
template <class T, Direction direction>
struct KeyView : KeyLaneView<T, direction> {
  using Key = core::KeyOf<T>;
  using Element = SignedOf<Key>;

  static Key KeyOf(Element element) { return static_cast<Key>(KeyLane(static_cast<Key>(element))); }

  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const Element* from) {
    return hn::LoadU(d, from);
  }
  static Element Padding() { return std::numeric_limits<Element>::min(); }
};

/// Converts elements to directed keys as it loads them: exact for all values of all types.
template <class T, Direction direction>
struct ConvertingView : KeyLaneView<T, direction> {
  using Element = T;
  using Key = core::KeyOf<T>;

  static Key KeyOf(Element element) { return core::directed_key<T, direction>(element); }

  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D, const Element* from) {
    const hn::RebindToUnsigned<D> du;
    return KeyLanes<T, direction>(du, hn::LoadU(du, reinterpret_cast<const Key*>(from)));
  }
  static Element Padding() { return core::value_of<T>(core::directed<T, direction>(0)); }
};

/// Compares 16-bit elements by their bits. Supports only thresholds on the better side of zero, where bits are in order
/// except for negative NaN (see HidesNaN).
template <class T, Direction direction>
struct HalfView : RealScale<T, direction> {
  using Element = T;
  using Key = core::KeyOf<T>;
  using Lane = std::int16_t;
  static constexpr Key lowest_key = core::directed<T, direction>(core::key_of(T{}));
  static constexpr Key highest_key = core::max_key<T>;
  static constexpr auto negative_infinity = static_cast<std::uint16_t>(0x8000 | core::ElementTraits<T>::infinity_bits);
  static constexpr std::uint16_t better_side = direction == Direction::largest ? 0 : 0x8000;
  static constexpr bool ascending = true;

  static Lane Threshold(Key key) {
    return static_cast<Lane>(core::bits_of(core::value_of<T>(core::directed<T, direction>(key))) ^ better_side);
  }
  static Key KeyOfLane(Lane lane) {
    return core::directed_key<T, direction>(
        T{static_cast<std::uint16_t>(static_cast<std::uint16_t>(lane) ^ better_side)});
  }

  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const Element* from) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::LoadU(du, reinterpret_cast<const std::uint16_t*>(from));
    return hn::BitCast(d, direction == Direction::largest ? bits : hn::Xor(bits, hn::Set(du, better_side)));
  }

  static constexpr bool marks_below = true;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE hn::Mask<D> Marked(D, V lanes, V threshold) {
    return hn::Lt(lanes, threshold);
  }
  static Element Padding() { return T{static_cast<std::uint16_t>(0x8000 ^ better_side)}; }

  /// Lanes are in order from zero to infinity, and negative NaN hides below.
  class Doubt {
   public:
    using D = hn::ScalableTag<Lane>;
    HWY_INLINE Doubt() : greatest_(hn::Zero(hn::RebindToUnsigned<D>{})) {}
    HWY_INLINE void See([[maybe_unused]] hn::Vec<D> lanes) {
      const hn::RebindToUnsigned<D> du;
      if constexpr (direction == Direction::largest) greatest_ = hn::Max(greatest_, hn::BitCast(du, lanes));
    }
    [[nodiscard]] HWY_INLINE bool Arises(Lane best) const {
      const hn::RebindToUnsigned<D> du;
      return best <= 0 || best > static_cast<Lane>(core::ElementTraits<T>::infinity_bits) ||
             !hn::AllFalse(du, hn::Gt(greatest_, hn::Set(du, negative_infinity)));
    }

   private:
    hn::Vec<hn::RebindToUnsigned<D>> greatest_;
  };

  /// True if a row holds a negative NaN, whose bits compare as the least number.
  static bool HidesNaN(const Element* elements, std::size_t size) {
    const hn::ScalableTag<std::uint16_t> d;
    const auto* bits = reinterpret_cast<const std::uint16_t*>(elements);
    const std::size_t lanes = hn::Lanes(d);
    // Four at a time: each maximum waits for the one before it.
    auto greatest = hn::Zero(d);
    auto greatest1 = greatest;
    auto greatest2 = greatest;
    auto greatest3 = greatest;
    std::size_t i = 0;
    for (; i + 4 * lanes <= size; i += 4 * lanes) {
      greatest = hn::Max(greatest, hn::LoadU(d, bits + i));
      greatest1 = hn::Max(greatest1, hn::LoadU(d, bits + i + lanes));
      greatest2 = hn::Max(greatest2, hn::LoadU(d, bits + i + 2 * lanes));
      greatest3 = hn::Max(greatest3, hn::LoadU(d, bits + i + 3 * lanes));
    }
    for (; i + lanes <= size; i += lanes) greatest = hn::Max(greatest, hn::LoadU(d, bits + i));
    greatest = hn::Max(hn::Max(greatest, greatest1), hn::Max(greatest2, greatest3));
    bool found = !hn::AllFalse(d, hn::Gt(greatest, hn::Set(d, negative_infinity)));
    for (; i < size; ++i) found = found || bits[i] > negative_infinity;
    return found;
  }
};

/// How elements that several passes read are stored: unchanged if the hardware can compare them, else as keys.
template <class T, Direction direction>
struct Held {
  static constexpr bool converts = sizeof(T) == 2;
  using View = std::conditional_t<converts, KeyView<T, direction>, RawView<T, direction>>;
  using Element = typename View::Element;
  /// For a single pass over the row itself.
  using RowView = std::conditional_t<converts, ConvertingView<T, direction>, RawView<T, direction>>;

  /// Converts `count` elements in place, from bits to what View reads.
  static void Convert(Element* elements, std::size_t count) {
    if constexpr (converts) {
      ConvertFrom(reinterpret_cast<const core::KeyOf<T>*>(elements), count, elements);
    }
  }

  static void ConvertFrom(const core::KeyOf<T>* bits, std::size_t count, SignedOf<core::KeyOf<T>>* keys) {
    const hn::ScalableTag<core::KeyOf<T>> du;
    const hn::RebindToSigned<decltype(du)> ds;
    const std::size_t lanes = hn::Lanes(du);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes)
      hn::StoreU(KeyLanes<T, direction>(du, hn::LoadU(du, bits + i)), ds, keys + i);
    for (; i < count; ++i) keys[i] = KeyLane(core::directed_key<T, direction>(std::bit_cast<T>(bits[i])));
  }
};
