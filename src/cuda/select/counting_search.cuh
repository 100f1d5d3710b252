// What a search for the kth value by counting needs: the thresholds on either side, what it learns from row to row, and
// what it expects of a row. What was learnt changes the speed of a row, never its result.
#pragma once

#include "cuda/runtime/lanes.cuh"
#include "cuda/select/element.cuh"

namespace rtopk::cuda {

/// What the previous rows tell about the kth value of the next one.
template <class Real>
struct Learnt {
  Real kth = 0;         ///< A threshold that about k elements reach.
  Real step = 0;        ///< The distance from one rank to the next there.
  float weight = 0.5f;  ///< Of the next row in the learnt average.
  bool known = false;
  bool tied = false;  ///< The last row had many ties, or was unlike those before: interpolation would not help.
};

/// Approximate: precise enough for an estimate.
__device__ inline float reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ inline float square_root(float x) {
  float result;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// A lower threshold that too many elements reach, an upper one that too few reach, and how many too many or too few.
template <class T>
struct ThresholdBracket {
  using E = Element<T>;
  using Value = typename E::Value;
  using Real = typename E::Real;
  using SortKey = typename E::SortKey;

  Value low{};
  Value high{};
  int off_low = 0;   ///< Above 0 once `low` is known.
  int off_high = 0;  ///< Below 0 once `high` is known.

  [[nodiscard]] __device__ bool has_high() const { return off_high < 0; }

  __device__ void take(Value threshold, int off) {
    low = off > 0 ? threshold : low;
    off_low = off > 0 ? off : off_low;
    high = off < 0 ? threshold : high;
    off_high = off < 0 ? off : off_high;
  }

  /// The kth value if ranks were evenly spaced.
  [[nodiscard]] __device__ Real between() const {
    const float share = static_cast<float>(off_low) * reciprocal(static_cast<float>(off_low - off_high));
    return E::real(low) + (E::real(high) - E::real(low)) * static_cast<Real>(share);
  }

  /// The middle in the order of keys. An open side extends to the end of all keys.
  [[nodiscard]] __device__ Value middle_key() const {
    const SortKey bottom = E::sort_key(off_low > 0 ? low : E::least());
    const SortKey top = E::sort_key(off_high < 0 ? high : E::greatest());
    return E::from_sort_key(bottom + (top - bottom) / 2);
  }
};

/// Learns from the kth value of a row whose first guess was off by `first_off` ranks.
template <class T>
__device__ void learn(Learnt<typename Element<T>::Real>& learnt, typename Element<T>::Value kth, int first_off,
                      int passes, bool tied) {
  using E = Element<T>;
  using Real = typename E::Real;
  const Real moved = E::real(kth) - learnt.kth;
  const Real step = moved * static_cast<Real>(reciprocal(static_cast<float>(first_off)));
  if (abs(first_off) >= 3 && step > 0) {
    // One row tells little about the distance between ranks. But if it disagrees widely, the estimate comes from rows
    // unlike this one and is replaced.
    const bool agrees = step > learnt.step * Real{0.0625} && step < learnt.step * Real{16};
    learnt.step += (agrees ? Real{0.125} : Real{1}) * (step - learnt.step);
  }
  const bool astray = passes > 6;
  learnt.kth += (astray ? Real{1} : static_cast<Real>(learnt.weight)) * moved;
  learnt.weight = fmaxf(0.7f * learnt.weight, 0.125f);
  learnt.tied = tied;
  learnt.known = E::is_finite(E::from_real(learnt.kth));
}

/// The expectation for a row with normally distributed elements.
template <class Real>
__device__ Learnt<Real> expected_at(const Expectation& expectation, Real mean, Real variance) {
  const Real deviation = variance > 0 ? static_cast<Real>(square_root(static_cast<float>(variance))) : Real{0};
  Learnt<Real> expected;
  expected.kth = mean + static_cast<Real>(expectation.kth) * deviation;
  expected.step = static_cast<Real>(expectation.step) * deviation;
  expected.known = true;
  return expected;
}

/// The expectation from each lane's own elements: the sum and the sum of squares of their distances from `pivot`. The wider a
/// lane's elements are spread, the less weight it has, so that an outlier, an infinity, a NaN or the end of the row
/// spoils one lane only.
template <int G, class Real>
__device__ Learnt<Real> expected_from_lanes(const Expectation& expectation, Real pivot, Real sum, Real squares,
                                            int number) {
  const Real share = Real{1} / static_cast<Real>(number);
  const Real distance = sum * share;
  const Real variance = squares * share - distance * distance;
  // Adds the rounding error of a variance that is small beside the distance from the pivot.
  const auto spread = static_cast<float>(variance + Real{1e-5} * distance * distance);
  const bool counts = spread >= 0.0f && spread < 1e37f;
  constexpr float kMinSpread = 1e-30f;  // of equal elements, so that their weight is finite
  const float weight = counts ? reciprocal(spread + kMinSpread) : 0.0f;
  const float weights = LaneGroup<G>::sum_reals(weight);
  const float lanes = LaneGroup<G>::sum_reals(counts ? 1.0f : 0.0f);
  const Real part = static_cast<Real>(weight) * static_cast<Real>(reciprocal(weights));
  const Real own_mean = pivot + distance;
  const Real mean = LaneGroup<G>::sum_reals(counts ? part * own_mean : Real{0});
  // The variance is the sum of two. Within lanes: the harmonic mean of a few elements' spreads is too small, and the
  // factor corrects it for normal elements. Between lanes: this is most of the variance if a row is sorted.
  const Real within =
      static_cast<Real>(lanes * reciprocal(weights)) * (static_cast<Real>(number) / static_cast<Real>(number - 3));
  const Real between = LaneGroup<G>::sum_reals(counts ? part * (own_mean - mean) * (own_mean - mean) : Real{0});
  Learnt<Real> expected = expected_at(expectation, mean, (within > 4 * kMinSpread ? within : Real{0}) + between);
  if (!(weights > 0.0f)) {  // all lanes are spoilt: any value will do
    expected.kth = 0;
    expected.step = 1;
  }
  return expected;
}

/// The same from elements: `at(i)` gives those of a lane. `whole`: all of the lane's elements are inside the row.
template <int G, int kNumber, class At>
__device__ auto expected_from_elements(const Expectation& expectation, bool whole, At at) {
  using Real = decltype(at(0));
  const auto is_finite = [](Real x) { return abs(x) < static_cast<Real>(INFINITY); };
  Real pivot = opaque(at(0));  // keeps the compiler from computing the sums ahead: they are seldom needed
  Real sum = 0;
  Real squares = 0;
#pragma unroll
  for (int i = 1; i < kNumber; ++i) {
    const Real distance = at(i) - pivot;
    sum += distance;
    squares += distance * distance;
  }
  if (__any_sync(kFullWarp, !is_finite(squares))) {
    // Leaves out infinities and NaNs.
    constexpr int kStride = kNumber > 16 ? 2 : 1;
    int number = 0;
    sum = 0;
    squares = 0;
#pragma unroll
    for (int i = 0; i < kNumber; i += kStride) {
      const Real x = opaque(at(i));
      pivot = number == 0 ? x : pivot;
      const bool counts = is_finite(x);
      number += counts ? kStride : 0;
      const Real distance = counts ? x - pivot : Real{0};
      sum += distance * kStride;
      squares += distance * distance * kStride;
    }
    const Real scale = static_cast<Real>(kNumber) * static_cast<Real>(reciprocal(static_cast<float>(number)));
    sum *= scale;
    squares = 2 * number >= kNumber ? squares * scale : static_cast<Real>(INFINITY);
  }
  return expected_from_lanes<G>(expectation, pivot, sum, whole ? squares : static_cast<Real>(INFINITY), kNumber);
}

}  // namespace rtopk::cuda
