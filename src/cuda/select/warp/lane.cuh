// A lane's elements of a row, in registers, and the operations of a search on them. 16-bit elements: two in a register,
// compared by one instruction.
#pragma once

#include "cuda/select/counting_search.cuh"
#include "cuda/select/marks.cuh"
#include "cuda/select/warp/row.cuh"

namespace rtopk::cuda {

/// One element in each register.
template <class T, int G, int R>
class PlainLane {
 public:
  using Row = WarpRow<T, G, R>;
  using E = Element<T>;
  using Value = typename E::Value;
  using Real = typename E::Real;
  using Group = LaneGroup<G>;

  __device__ explicit PlainLane(const Row& row) { row.load(x_); }

  /// The value of the element type closest to `x`. Thresholds are such values.
  static __device__ Value nearest(Value x) { return x; }

  /// Marks of the elements that reach the threshold, the first in the highest bit.
  __device__ Marks<R> marks(Value threshold) const { return marks_of<T>(x_, threshold); }

  /// True if the row has a NaN.
  __device__ bool has_nan() const {
    bool found = false;
#pragma unroll
    for (int r = 0; r < R; ++r) found = found || E::is_nan(x_[r]);
    return Group::any(found);
  }

  /// The largest element of the row below `high`; E::least() if there is none.
  __device__ Value greatest_below(Value high, bool has_high) const {
    Value greatest = E::least();
#pragma unroll
    for (int r = 0; r < R; ++r) greatest = (x_[r] < high || !has_high) && x_[r] > greatest ? x_[r] : greatest;
    return E::from_sort_key(Group::greatest(E::sort_key(greatest)));
  }

  /// The expectation for the row, from every other element of it.
  __device__ Learnt<Real> expected(const Row& row) const {
    constexpr int kNumber = R / 2;
    const bool whole = Row::col_of(R - 1) < row.cols();
    return expected_from_elements<G, kNumber>(row.args.expectation, whole, [&](int i) { return E::real(x_[2 * i]); });
  }

 private:
  Value x_[R];
};

/// Operations on two elements at once.
template <class T>
struct Pair;

template <>
struct Pair<core::F16> {
  static constexpr unsigned kMin = 0xfc00fc00u;  ///< -inf
  static __device__ half2 of(unsigned bits) { return *reinterpret_cast<const half2*>(&bits); }
  static __device__ unsigned bits(half2 x) { return *reinterpret_cast<const unsigned*>(&x); }
  static __device__ unsigned at_least(unsigned x, unsigned threshold) { return __hgeu2_mask(of(x), of(threshold)); }
  /// Negated. NaN, which then comes last, becomes the smallest value.
  static __device__ unsigned reversed(unsigned x) { return bits(__hmax2(__hneg2(of(x)), of(kMin))); }
  static __device__ unsigned below(unsigned x, unsigned threshold) { return __hlt2_mask(of(x), of(threshold)); }
  static __device__ unsigned greater(unsigned a, unsigned b) { return bits(__hmax2(of(a), of(b))); }
  static __device__ float real(unsigned bits) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
  }
  static __device__ unsigned bits_near(float x) { return __half_as_ushort(__float2half_rn(x)); }
};

template <>
struct Pair<core::BF16> {
  static constexpr unsigned kMin = 0xff80ff80u;
  static __device__ __nv_bfloat162 of(unsigned bits) { return *reinterpret_cast<const __nv_bfloat162*>(&bits); }
  static __device__ unsigned bits(__nv_bfloat162 x) { return *reinterpret_cast<const unsigned*>(&x); }
  static __device__ unsigned at_least(unsigned x, unsigned threshold) { return __hgeu2_mask(of(x), of(threshold)); }
  static __device__ unsigned reversed(unsigned x) { return bits(__hmax2(__hneg2(of(x)), of(kMin))); }
  static __device__ unsigned below(unsigned x, unsigned threshold) { return __hlt2_mask(of(x), of(threshold)); }
  static __device__ unsigned greater(unsigned a, unsigned b) { return bits(__hmax2(of(a), of(b))); }
  static __device__ float real(unsigned bits) { return __uint_as_float(bits << 16); }
  static __device__ unsigned bits_near(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
};

template <class T, int G, int R>
class PackedLane {
 public:
  using Row = WarpRow<T, G, R>;
  using E = Element<T>;
  using Value = float;
  using Real = float;
  using Group = LaneGroup<G>;
  using P = Pair<T>;

  /// A lane's first half goes to the upper halves of the registers, its second half to the lower ones.
  __device__ explicit PackedLane(const Row& row) {
    unsigned words[kPairs];
#pragma unroll
    for (int i = 0; i < Row::Config::kVectors; ++i) {
      const uint4 loaded = row.vector_at(i).bits;
      words[4 * i] = loaded.x;
      words[4 * i + 1] = loaded.y;
      words[4 * i + 2] = loaded.z;
      words[4 * i + 3] = loaded.w;
    }
#pragma unroll
    for (int i = 0; i < kPairs / 2; ++i) {
      x_[2 * i] = __byte_perm(words[kPairs / 2 + i], words[i], 0x5410);
      x_[2 * i + 1] = __byte_perm(words[kPairs / 2 + i], words[i], 0x7632);
    }
    if (row.args.smallest) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) x_[i] = P::reversed(x_[i]);
    }
  }

  static __device__ float nearest(float x) { return P::real(P::bits_near(x)); }

  __device__ Marks<R> marks(float threshold) const {
    const unsigned bits = P::bits_near(threshold);
    const unsigned both = __byte_perm(bits, bits, 0x1010);
    // Each word is for 16 registers: the lane's first half from bit 31 down, its second half from bit 15 down.
    unsigned halves[2] = {};
#pragma unroll
    for (int i = 0; i < kPairs; ++i) halves[i / 16] |= P::at_least(x_[i], both) & (0x80008000u >> (i % 16));
    const unsigned first = __byte_perm(halves[1], halves[0], 0x7632);
    const unsigned second = __byte_perm(halves[1], halves[0], 0x5410);
    Marks<R> marks;
    marks.words[0] = kPairs == 32 ? first : first | second >> (kPairs % 32);
    if constexpr (R > 32) marks.words[1] = second << (32 - kPairs);
    return marks;
  }

  __device__ bool has_nan() const {
    bool found = false;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      found = found || E::is_nan(P::real(x_[i] & 0xffffu)) || E::is_nan(P::real(x_[i] >> 16));
    }
    return Group::any(found);
  }

  __device__ float greatest_below(float high, bool has_high) const {
    const unsigned bits = P::bits_near(high);
    const unsigned both = __byte_perm(bits, bits, 0x1010);
    unsigned greatest = P::kMin;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const unsigned below = has_high ? P::below(x_[i], both) : ~0u;
      greatest = P::greater(greatest, (x_[i] & below) | (P::kMin & ~below));
    }
    const float mine = fmaxf(P::real(greatest >> 16), P::real(greatest & 0xffffu));
    return E::from_sort_key(Group::greatest(E::sort_key(mine)));
  }

  /// From the first half of each lane: the second may lie past the end of the row.
  __device__ Learnt<float> expected(const Row& row) const {
    const bool whole = Row::col_of(kPairs - 1) < row.cols();
    return expected_from_elements<G, kPairs>(row.args.expectation, whole, [&](int i) { return P::real(x_[i] >> 16); });
  }

 private:
  static constexpr int kPairs = R / 2;

  unsigned x_[kPairs];
};

template <class T, int G, int R>
using WarpLane = std::conditional_t<sizeof(T) == 2, PackedLane<T, G, R>, PlainLane<T, G, R>>;

}  // namespace rtopk::cuda
