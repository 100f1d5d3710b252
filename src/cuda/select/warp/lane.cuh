// A lane's elements of a row, in registers, and the operations of a search on them. 16-bit elements: two in a register,
// compared by one instruction.
#pragma once

#include <bit>

#include "cuda/select/counting_search.cuh"
#include "cuda/select/marks.cuh"
#include "cuda/select/warp/extent.cuh"

namespace rtopk::cuda {

/// One element in each register.
template <class Row>
class PlainLane {
 public:
  using T = typename Row::Type;
  using E = Element<T>;
  using Value = typename E::Value;
  using Real = typename E::Real;
  using Group = typename Row::Group;
  static constexpr int R = Row::kElements;

  __device__ explicit PlainLane(const Row& row) : own_(row.own()) { row.load(x_); }

  /// The value of the element type closest to `x`. Thresholds are such values.
  static __device__ Value nearest(Value x) { return x; }
  /// The next larger one.
  static __device__ Value next(Value x) { return E::from_sort_key(E::sort_key(x) + 1); }

  /// The least value of the element type that reaches a threshold of the paper's search.
  static __device__ Value reaching(core::ArithmeticOf<T> threshold, bool smallest) {
    return E::reaching(threshold, smallest);
  }

  /// Marks of the elements inside the row that are the lane's own.
  __device__ Marks<R> inside(const Row& row) const { return own_.inside_of(row); }

  /// Calls `f` with the lane's elements in the row.
  template <class F>
  __device__ void for_each(const Row& row, F&& f) const {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (row.col_of(r) < row.cols()) f(x_[r]);
    }
  }
  /// NaN if one of the elements is.
  __device__ Value least_of(const Marks<R>& marks) const {
    Value found = E::greatest();
#pragma unroll
    for (int r = 0; r < R; ++r) found = marks.has(r) ? E::lesser_or_nan(found, x_[r]) : found;
    return found;
  }

  /// The bits of the lane's elements in the row, folded.
  template <Fold kFold>
  __device__ unsigned folded(const Row& row) const {
    using F = Folding<kFold, false>;
    const auto bits = [&](int r) { return std::bit_cast<unsigned>(x_[r < R ? r : R - 1]); };
    unsigned found = F::kStart;
    if (row.is_padded()) {
      constexpr int kVector = 4;  // padding comes in vectors
#pragma unroll
      for (int r = 0; r < R; r += kVector) {
        if (row.col_of(r) < row.cols()) found = F::of(F::of(found, bits(r), bits(r + 1)), bits(r + 2), bits(r + 3));
      }
    } else {
#pragma unroll
      for (int r = 0; r < R; r += 2) found = F::of(found, bits(r), bits(r + 1));
    }
    return found;
  }
  static __device__ Value value_of_bits(unsigned bits) { return std::bit_cast<Value>(bits); }

  /// Marks of the elements that reach the threshold, the first in the highest bit.
  __device__ Marks<R> marks(Value threshold) const { return own_.of(marks_of<T>(x_, threshold)); }

  /// Marks of NaN.
  __device__ Marks<R> nans() const {
    Marks<R> found = Marks<R>::none();
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (E::is_nan(x_[r])) found.add(r);
    }
    return own_.of(found);
  }

  /// The expectation for the row, from every other element of it.
  __device__ Learnt<Real> expected(const Row& row) const {
    constexpr int kNumber = R / 2;
    const bool whole = row.is_whole(R - 1);
    return expected_from_elements<Group::kLanes, kNumber>(row.expectation(), whole,
                                                          [&](int i) { return E::real(x_[2 * i]); });
  }

 private:
  typename Row::Own own_;
  Value x_[R];
};

/// Operations on two elements at once.
template <class T>
struct Pair;

template <>
struct Pair<core::F16> {
  static constexpr unsigned kMin = 0xfc00fc00u;  ///< -inf
  static constexpr unsigned kMax = 0x7c007c00u;
  static __device__ half2 of(unsigned bits) { return *reinterpret_cast<const half2*>(&bits); }
  static __device__ unsigned bits(half2 x) { return *reinterpret_cast<const unsigned*>(&x); }
  static __device__ unsigned at_least(unsigned x, unsigned threshold) { return __hgeu2_mask(of(x), of(threshold)); }
  /// Negated. NaN, which then comes last, becomes the smallest value.
  static __device__ unsigned reversed(unsigned x) { return bits(__hmax2(__hneg2(of(x)), of(kMin))); }
  static __device__ unsigned nan(unsigned x) { return __hneu2_mask(of(x), of(x)); }
  static __device__ float real(unsigned bits) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
  }
  static __device__ unsigned bits_near(float x) { return __half_as_ushort(__float2half_rn(x)); }
  static __device__ unsigned bits_from(float x) { return __half_as_ushort(__float2half_ru(x)); }
};

template <>
struct Pair<core::BF16> {
  static constexpr unsigned kMin = 0xff80ff80u;
  static constexpr unsigned kMax = 0x7f807f80u;
  static __device__ __nv_bfloat162 of(unsigned bits) { return *reinterpret_cast<const __nv_bfloat162*>(&bits); }
  static __device__ unsigned bits(__nv_bfloat162 x) { return *reinterpret_cast<const unsigned*>(&x); }
  static __device__ unsigned at_least(unsigned x, unsigned threshold) { return __hgeu2_mask(of(x), of(threshold)); }
  static __device__ unsigned reversed(unsigned x) { return bits(__hmax2(__hneg2(of(x)), of(kMin))); }
  static __device__ unsigned nan(unsigned x) { return __hneu2_mask(of(x), of(x)); }
  static __device__ float real(unsigned bits) { return __uint_as_float(bits << 16); }
  static __device__ unsigned bits_near(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
  static __device__ unsigned bits_from(float x) { return __bfloat16_as_ushort(__float2bfloat16_ru(x)); }
};

template <class Row>
class PackedLane {
 public:
  using T = typename Row::Type;
  using E = Element<T>;
  using Value = float;
  using Real = float;
  using Group = typename Row::Group;
  using P = Pair<T>;
  static constexpr int R = Row::kElements;

  /// A lane's first half goes to the upper halves of the registers, its second half to the lower ones.
  __device__ explicit PackedLane(const Row& row) : own_(row.own()) {
    unsigned words[kPairs];
    row.load_words(words);
#pragma unroll
    for (int i = 0; i < kPairs / 2; ++i) {
      x_[2 * i] = __byte_perm(words[kPairs / 2 + i], words[i], 0x5410);
      x_[2 * i + 1] = __byte_perm(words[kPairs / 2 + i], words[i], 0x7632);
    }
    if (row.args.smallest) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) x_[i] = P::reversed(x_[i]);
    }
    if (row.has_foreign_first()) x_[0] = (x_[0] & 0xffffu) | (P::kMin & 0xffff0000u);
    if (row.has_foreign_last()) x_[kPairs - 1] = (x_[kPairs - 1] & 0xffff0000u) | (P::kMin & 0xffffu);
  }

  static __device__ float nearest(float x) { return P::real(P::bits_near(x)); }
  static __device__ float next(float x) {
    const unsigned bits = P::bits_near(x + 0.0f);  // never -0
    return P::real((bits & 0x8000u) != 0 ? bits - 1 : bits + 1);
  }

  static __device__ float reaching(float threshold, bool) { return P::real(P::bits_from(threshold)); }

  __device__ Marks<R> inside(const Row& row) const { return own_.inside_of(row); }

  __device__ Marks<R> marks(float threshold) const {
    const unsigned both = twice(threshold);
    return marks_where([&](unsigned x) { return P::at_least(x, both); });
  }

  __device__ Marks<R> nans() const {
    return marks_where([](unsigned x) { return P::nan(x); });
  }

  /// The bits of the lane's elements in the row, folded: extended to 32 bits.
  template <Fold kFold>
  __device__ unsigned folded(const Row& row) const {
    using F = Folding<kFold, true>;
    static_assert(kPairs % 2 == 0);
    unsigned found = F::kStart;
    unsigned second = F::kStart;  // the second half of a lane ends earlier
    if (row.is_padded()) {
      // Padding comes in vectors, of which the second half may begin in the middle of one.
      constexpr int kHalfVector = 4;
#pragma unroll
      for (int i = 0; i < kPairs; i += kHalfVector) {
        const auto word = [&](int j) { return x_[i + j < kPairs ? i + j : i]; };
        if (row.col_of(i) < row.cols()) found = F::of(F::of(found, word(0), word(1)), word(2), word(3));
        second = row.col_of(kPairs + i) < row.cols() ? found : second;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kPairs; i += 2) found = F::of(found, own_word(row, i), own_word(row, i + 1));
      second = found;
    }
    const unsigned halves = __byte_perm(second, found, 0x7610);
    const unsigned both = F::of(halves, halves << 16 | halves >> 16, halves);
    constexpr bool kSigned = kFold == Fold::greatest_signed || kFold == Fold::least_signed;
    return kSigned ? static_cast<unsigned>(static_cast<int>(both) >> 16) : both >> 16;
  }
  static __device__ float value_of_bits(unsigned bits) { return P::real(bits & 0xffffu); }

  /// From the first half of each lane: the second may lie past the end of the row.
  __device__ Learnt<float> expected(const Row& row) const {
    const bool whole = row.is_whole(kPairs - 1);
    return expected_from_elements<Group::kLanes, kPairs>(row.expectation(), whole,
                                                         [&](int i) { return P::real(x_[i] >> 16); });
  }

 private:
  static constexpr int kPairs = R / 2;

  static __device__ unsigned twice(float x) {
    const unsigned bits = P::bits_near(x);
    return __byte_perm(bits, bits, 0x1010);
  }

  /// In place of an element of another row: the other half of the word.
  __device__ unsigned own_word(const Row& row, int i) const {
    const unsigned word = x_[i];
    if (i == 0 && row.has_foreign_first()) return __byte_perm(word, word, 0x1010);
    if (i == kPairs - 1 && row.has_foreign_last()) return __byte_perm(word, word, 0x3232);
    return word;
  }

  /// `f` gives a mask of the elements in a register that are to be marked.
  template <class F>
  __device__ Marks<R> marks_where(F f) const {
    // Each word is for 16 registers: the lane's first half from bit 31 down, its second half from bit 15 down.
    unsigned halves[2] = {};
#pragma unroll
    for (int i = 0; i < kPairs; ++i) halves[i / 16] |= f(x_[i]) & (0x80008000u >> (i % 16));
    const unsigned first = __byte_perm(halves[1], halves[0], 0x7632);
    const unsigned second = __byte_perm(halves[1], halves[0], 0x5410);
    Marks<R> marks;
    marks.words[0] = kPairs == 32 ? first : first | second >> (kPairs % 32);
    if constexpr (R > 32) marks.words[1] = second << (32 - kPairs);
    return own_.of(marks);
  }

  typename Row::Own own_;
  unsigned x_[kPairs];
};

template <class Row>
using WarpLane = std::conditional_t<sizeof(typename Row::Type) == 2, PackedLane<Row>, PlainLane<Row>>;

}  // namespace rtopk::cuda
