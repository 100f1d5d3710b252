// cuda_warp for elements of 16 bits: two in a register, compared by one instruction.
//
// The search interpolates between values, and keeps its thresholds to values of the type: there are few enough of them that
// neighbours are met soon, and if the border lies between two neighbours, the elements equal to the lower one are ties. A value's
// key, its place in the order of all values, says what is next to it.
#pragma once

#include "border_search.cuh"
#include "warp_row.cuh"

namespace rtopk::cuda {

/// What is done with two elements at once.
template <class T>
struct Pair;

template <>
struct Pair<core::F16> {
  static constexpr int kInfinity = 0x7c00;
  static constexpr unsigned kLeast = 0xfc00fc00u;  ///< -inf
  static __device__ half2 of(unsigned bits) { return *reinterpret_cast<const half2*>(&bits); }
  static __device__ unsigned bits(half2 x) { return *reinterpret_cast<const unsigned*>(&x); }
  static __device__ unsigned at_least(unsigned x, unsigned threshold) { return __hgeu2_mask(of(x), of(threshold)); }
  static __device__ half2 ones_if_at_least(unsigned x, unsigned threshold) { return __hgeu2(of(x), of(threshold)); }
  static __device__ float sum(half2 x) { return __low2float(x) + __high2float(x); }
  /// Negated; NaN, which is then the last of all, becomes the least.
  static __device__ unsigned reversed(unsigned x) { return bits(__hmax2(__hneg2(of(x)), of(kLeast))); }
  static __device__ unsigned below(unsigned x, unsigned threshold) { return __hlt2_mask(of(x), of(threshold)); }
  static __device__ unsigned greater(unsigned a, unsigned b) { return bits(__hmax2(of(a), of(b))); }
  static __device__ float real(unsigned bits) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
  }
  static __device__ int bits_near(float x) { return __half_as_ushort(__float2half_rn(x)); }
};

template <>
struct Pair<core::BF16> {
  static constexpr int kInfinity = 0x7f80;
  static constexpr unsigned kLeast = 0xff80ff80u;
  static __device__ __nv_bfloat162 of(unsigned bits) { return *reinterpret_cast<const __nv_bfloat162*>(&bits); }
  static __device__ unsigned bits(__nv_bfloat162 x) { return *reinterpret_cast<const unsigned*>(&x); }
  static __device__ unsigned at_least(unsigned x, unsigned threshold) { return __hgeu2_mask(of(x), of(threshold)); }
  static __device__ __nv_bfloat162 ones_if_at_least(unsigned x, unsigned threshold) {
    return __hgeu2(of(x), of(threshold));
  }
  static __device__ float sum(__nv_bfloat162 x) { return __low2float(x) + __high2float(x); }
  static __device__ unsigned reversed(unsigned x) { return bits(__hmax2(__hneg2(of(x)), of(kLeast))); }
  static __device__ unsigned below(unsigned x, unsigned threshold) { return __hlt2_mask(of(x), of(threshold)); }
  static __device__ unsigned greater(unsigned a, unsigned b) { return bits(__hmax2(of(a), of(b))); }
  static __device__ float real(unsigned bits) { return __uint_as_float(bits << 16); }
  static __device__ int bits_near(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
};

template <class T, int G, int R>
class WarpSelectPacked {
 public:
  using Row = WarpRow<T, G, R>;
  using Group = LaneGroup<G>;
  using P = Pair<T>;

  /// Chooses from the rows of the warp. False if they must be put off.
  __device__ bool choose(const Row& row, unsigned& chosen) {
    unsigned x[kPairs];
    load(row, x);
    constexpr float kFar = 127.5f;  // ranks; not a whole number, so that it is told from what was counted
    constexpr int kFirstPasses = 3;
    constexpr int kUsualPasses = 5;
    constexpr float kClose = 24.0f;  // ranks
    const int k = row.k();
    Bound at;
    Bound low;
    Bound high;
    float off_low;
    float off_high;
    float first_off;
    int passes = 0;
    int corrections = 0;
    bool estimates = lonely_ || __any_sync(kWholeWarp, !learnt_.known);
    bool again;
    do {
      again = false;
      if (estimates) {
        const Learnt<float> own = expected(row, x);
        if (lonely_ || !learnt_.known) learnt_ = own;
      }
      const float reach = kFar * learnt_.step;
      at = bound_of(min(max(key_near(learnt_.border), 1 - kLimit), kLimit - 1));
      low = {learnt_.border - reach, min(max(key_near(learnt_.border - reach), -kLimit), at.key - 1)};
      high = {learnt_.border + reach, max(min(key_near(learnt_.border + reach), kLimit), at.key + 1)};
      off_low = kFar;
      off_high = -kFar;
      unsigned threshold = both(at.key);
      float off = Group::sum_reals(count_mine(x, threshold)) - static_cast<float>(k);
      first_off = off;
      const int start = passes++;
#pragma unroll 1
      while (true) {
        const bool reached = off >= 0.0f;
        low.value = reached ? at.value : low.value;
        low.key = reached ? at.key : low.key;
        off_low = reached ? off : off_low;
        high.value = reached ? high.value : at.value;
        high.key = reached ? high.key : at.key;
        off_high = reached ? off_high : off;
        bool goes_on = off_low != 0.0f && high.key - low.key > 1;
        if (!__any_sync(kWholeWarp, goes_on)) {
          // A bound that was only expected, and is the border's neighbour, was expected wrongly. Its own neighbour may do: that is
          // so with equal elements. If not, it is moved farther and farther off.
          const bool expected_low = off_low == kFar && low.key != -kLimit;
          const bool expected_high = off_high == -kFar && off_low != 0.0f && high.key != kLimit;
          if (!__any_sync(kWholeWarp, expected_low || expected_high)) break;
          const int farther = 2 << min(4 * corrections++, 16);
          if (expected_low) low = bound_of(max(-kLimit, high.key - farther));
          if (expected_high) high = bound_of(min(kLimit, low.key + farther));
          goes_on = off_low != 0.0f && high.key - low.key > 1;
        }
        int next = key_near(low.value + (high.value - low.value) * (off_low * reciprocal(off_low - off_high)));
        int least = low.key + 1;
        bool is_neighbour = false;
        if (passes - start >= kFirstPasses) {
          if (passes - start == kFirstPasses && !estimates && __any_sync(kWholeWarp, goes_on && fabsf(off) > kClose)) {
            // The row is nothing like those before it: it is asked itself.
            again = true;
            break;
          }
          // Where interpolation takes long: the element next below the upper bound, which finds ties, and the middle in the
          // order of keys, which bounds the number of passes.
          const int turn = passes - start - kUsualPasses;
          if (turn >= 0 && (turn & 3) == 0) {
            is_neighbour = off_high != -kFar;
            const int neighbour = key_below(x, both(high.key));
            next = is_neighbour ? neighbour : next;
            least = is_neighbour ? low.key : least;
          } else if (turn >= 0 && (turn & 3) == 2) {
            next = (low.key + high.key) / 2;
          }
        }
        next = min(max(next, least), high.key - 1);
        at.key = goes_on ? next : at.key;
        threshold = both(at.key);
        at.value = P::real(threshold & 0xffffu);
        off = Group::sum_reals(count_mine(x, threshold)) - static_cast<float>(k);
        // Between the neighbour and the bound there is nothing, so that what is next above the neighbour is as good a bound.
        if (is_neighbour && goes_on && off >= 0.0f) high = bound_of(at.key + 1);
        ++passes;
      }
      lonely_ = again || (lonely_ && passes - start < 4 * kFirstPasses);
      estimates = again;
    } while (again);
    // Borders among infinities, NaN and what lies behind a row's end.
    if (__any_sync(kWholeWarp, low.key == -kLimit || (off_low != 0.0f && high.key == kLimit))) return put_off();

    const bool tied = off_low != 0.0f;
    chosen = marks_of(x, both(low.key));
    if (__any_sync(kWholeWarp, tied)) {
      const unsigned above = marks_of(x, both(high.key));
      const unsigned eligible = tied ? chosen & ~above : 0u;
      chosen = (tied ? above : chosen) | Row::first_in_index_order(eligible, -static_cast<int>(off_high));
    }
    learn<T>(learnt_, low.value, static_cast<int>(first_off), passes, false);
    if (row.call.passes != nullptr && Group::lane() == 0) row.call.passes[row.row] = passes;
    return true;
  }

 private:
  static constexpr int kPairs = R / 2;
  static constexpr int kLimit =
      P::kInfinity + 1;  ///< Keys of thresholds lie between -kLimit, which is -inf, and kLimit.

  struct Bound {
    float value;
    int key;
  };
  static __device__ Bound bound_of(int key) { return {P::real(both(key) & 0xffffu), key}; }

  /// The bits of the value with this key, twice.
  static __device__ unsigned both(int key) {
    const auto bits = static_cast<unsigned>(key ^ ((key >> 31) & 0x7fff));
    return __byte_perm(bits, bits, 0x1010);
  }

  static __device__ int key_near(float value) {
    const int bits = static_cast<std::int16_t>(P::bits_near(value + 0.0f));  // both zeros have the key of +0
    return bits ^ ((bits >> 31) & 0x7fff);
  }

  /// A lane's first half in the upper halves of the registers, its second half in the lower ones.
  static __device__ void load(const Row& row, unsigned (&x)[kPairs]) {
    unsigned words[kPairs];
#pragma unroll
    for (int i = 0; i < Row::Shape::kVectors; ++i) {
      const uint4 loaded = row.vector_at(i).bits;
      words[4 * i] = loaded.x;
      words[4 * i + 1] = loaded.y;
      words[4 * i + 2] = loaded.z;
      words[4 * i + 3] = loaded.w;
    }
#pragma unroll
    for (int i = 0; i < kPairs / 2; ++i) {
      x[2 * i] = __byte_perm(words[kPairs / 2 + i], words[i], 0x5410);
      x[2 * i + 1] = __byte_perm(words[kPairs / 2 + i], words[i], 0x7632);
    }
    if (row.call.smallest) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) x[i] = P::reversed(x[i]);
    }
  }

  static __device__ float count_mine(const unsigned (&x)[kPairs], unsigned threshold) {
    auto even = P::ones_if_at_least(x[0], threshold);
    auto odd = P::ones_if_at_least(x[1], threshold);
#pragma unroll
    for (int i = 2; i < kPairs; i += 2) {
      even = __hadd2(even, P::ones_if_at_least(x[i], threshold));
      odd = __hadd2(odd, P::ones_if_at_least(x[i + 1], threshold));
    }
    return P::sum(__hadd2(even, odd));
  }

  /// The key of the greatest element of the row below the threshold; -kLimit if there is none.
  static __device__ int key_below(const unsigned (&x)[kPairs], unsigned threshold) {
    unsigned greatest = P::kLeast;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const unsigned below = P::below(x[i], threshold);
      greatest = P::greater(greatest, (x[i] & below) | (P::kLeast & ~below));
    }
    return Group::greatest(max(key_near(P::real(greatest >> 16)), key_near(P::real(greatest & 0xffffu))));
  }

  /// Which elements reach the threshold: the first in the highest bit.
  static __device__ unsigned marks_of(const unsigned (&x)[kPairs], unsigned threshold) {
    unsigned halves = 0;  // those of a lane's first half from bit 31 down, those of its second from bit 15
#pragma unroll
    for (int i = 0; i < kPairs; ++i) halves |= P::at_least(x[i], threshold) & (0x80008000u >> i);
    return kPairs == 16 ? halves : (halves & 0xffff0000u) | (halves & 0xffffu) << (16 - kPairs);
  }

  static __device__ Learnt<float> expected(const Row& row, const unsigned (&x)[kPairs]) {
    constexpr int kNumber = kPairs;  // a lane's first half: the second may lie behind the row's end
    const float pivot = P::real(x[0] >> 16);
    float sum = 0;
    float squares = 0;
#pragma unroll
    for (int i = 1; i < kNumber; ++i) {
      const float distance = P::real(x[i] >> 16) - pivot;
      sum += distance;
      squares += distance * distance;
    }
    const bool whole = Row::col_of(kPairs - 1) < row.cols() && Element<T>::is_finite(pivot);
    return expected_from_lanes<G>(row.call.expectation, pivot, sum, whole ? squares : INFINITY, kNumber);
  }

  __device__ bool put_off() {
    learnt_.known = false;
    return false;
  }

  Learnt<float> learnt_;
  bool lonely_ = false;  ///< Rows have nothing in common: each is asked itself where its border may be.
};

}  // namespace rtopk::cuda
