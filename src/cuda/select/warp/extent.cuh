// The least and the greatest element of a row, for searches that stop early.
//
// Floats are compared by their bits, as integers: sm_90 has instructions for the greatest of three integers, which take two
// new elements each (four of 16 bits), and none for floats. The bits of positive numbers have the order of the numbers, those of
// negative ones the opposite order. So the greatest signed integer is the greatest element, unless all are negative, and
// the greatest unsigned one is the least element, unless none is. Infinities and NaN of either sign lie beyond all numbers of
// their sign.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/element.cuh"

namespace rtopk::cuda {

/// Takes two more words of bits into a result, each of them one number, or two of 16 bits.
enum class Fold { greatest_signed, least_signed, greatest_unsigned, least_unsigned };

template <Fold kFold, bool kHalves>
struct Folding {
  static constexpr unsigned kStart = kFold == Fold::greatest_unsigned ? 0u
                                     : kFold == Fold::least_unsigned  ? ~0u
                                     : kFold == Fold::least_signed    ? (kHalves ? 0x7fff7fffu : 0x7fffffffu)
                                                                      : (kHalves ? 0x80008000u : 0x80000000u);

  static __device__ unsigned of(unsigned found, unsigned a, unsigned b) {
    if constexpr (kHalves) {
      if constexpr (kFold == Fold::greatest_signed) return __vimax3_s16x2(found, a, b);
      if constexpr (kFold == Fold::least_signed) return __vimin3_s16x2(found, a, b);
      if constexpr (kFold == Fold::greatest_unsigned) return __vimax3_u16x2(found, a, b);
      if constexpr (kFold == Fold::least_unsigned) return __vimin3_u16x2(found, a, b);
    } else {
      const int x = static_cast<int>(found);
      const int y = static_cast<int>(a);
      const int z = static_cast<int>(b);
      if constexpr (kFold == Fold::greatest_signed) return static_cast<unsigned>(__vimax3_s32(x, y, z));
      if constexpr (kFold == Fold::least_signed) return static_cast<unsigned>(__vimin3_s32(x, y, z));
      if constexpr (kFold == Fold::greatest_unsigned) return __vimax3_u32(found, a, b);
      if constexpr (kFold == Fold::least_unsigned) return __vimin3_u32(found, a, b);
    }
  }
};

/// One of them is not finite if an element is not.
template <class Row, class Lane>
class WarpExtent {
 public:
  using T = typename Row::Type;
  using E = Element<T>;
  using Value = typename E::Value;
  using Group = typename Row::Group;

  __device__ WarpExtent(const Row& row, const Lane& lane) {
    if constexpr (sizeof(T) == 8) {
      take_each(row, lane);
    } else if (row.has_whole_vectors()) {
      take_bits(row, lane);
    } else {
      take_each(row, lane);
    }
  }

  [[nodiscard]] __device__ bool is_finite() const { return E::is_finite(least) && E::is_finite(greatest); }

  Value least;
  Value greatest;

 private:
  __device__ void take_bits(const Row& row, const Lane& lane) {
    if constexpr (std::is_integral_v<T>) {
      const unsigned distance = ~(lane.template folded<Fold::least_signed>(row) ^ kSign);  // from the greatest integer
      least = static_cast<Value>(~reduced<Fold::greatest_unsigned>(distance) ^ kSign);
      greatest = static_cast<Value>(reduced<Fold::greatest_signed>(lane.template folded<Fold::greatest_signed>(row)));
    } else {
      unsigned highest = reduced<Fold::greatest_signed>(lane.template folded<Fold::greatest_signed>(row));
      unsigned lowest = reduced<Fold::greatest_unsigned>(lane.template folded<Fold::greatest_unsigned>(row));
      const bool negative = static_cast<int>(highest) < 0;
      const bool positive = (lowest & kSignOfBits) == 0;
      if (__any_sync(kFullWarp, negative || positive)) {
        const unsigned other = ~reduced<Fold::greatest_unsigned>(~lane.template folded<Fold::least_unsigned>(row));
        highest = negative ? other : highest;
        lowest = positive ? other : lowest;
      }
      least = Lane::value_of_bits(lowest);
      greatest = Lane::value_of_bits(highest);
    }
  }

  /// Element by element.
  __device__ void take_each(const Row& row, const Lane& lane) {
    least = E::greatest();
    greatest = E::least();
    const auto take = [&](Value x) {
      least = E::lesser_or_nan(least, x);
      greatest = E::greater_or_nan(greatest, x);
    };
    if constexpr (sizeof(T) == 8) {
      lane.for_each(row, take);
    } else {
      lane.inside(row).for_each([&](int, int, int r) { take(row.value_at(r)); });  // seldom
    }
#pragma unroll
    for (int distance = Group::kLanes / 2; distance > 0; distance /= 2) {
      least = E::lesser_or_nan(least, __shfl_xor_sync(kFullWarp, least, distance));
      greatest = E::greater_or_nan(greatest, __shfl_xor_sync(kFullWarp, greatest, distance));
    }
  }

  static constexpr unsigned kSign = 0x80000000u;
  static constexpr unsigned kSignOfBits = sizeof(T) == 2 ? 0x8000u : kSign;

  /// The greatest of the group's lanes.
  template <Fold kFold>
  static __device__ unsigned reduced(unsigned x) {
    constexpr unsigned kFlip = kFold == Fold::greatest_signed ? kSign : 0u;
    return Group::greatest(x ^ kFlip) ^ kFlip;
  }
};

}  // namespace rtopk::cuda
