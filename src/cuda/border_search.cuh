// The search for a row's border by counting, for a group of lanes or a block: where to count next.
//
//   BorderSearch<T> search(learnt, k);
//   for (;;) {
//     if (search.record(/* elements at or above */ count(search.threshold()))) break;
//     if (search.passes() == search.kMostPasses) give up;
//     if (search.wants_neighbour()) search.step_down(/* the greatest element below search.high() */);
//     else search.propose(...);
//   }
//
// It starts where the rows before had their border, steps by as many ranks as it is off, and interpolates as soon as it has
// a threshold on either side. Where that does not end soon it takes, in turn, the element next below the upper threshold,
// which finds borders with ties, and the middle of the bracket in the order of keys, which bounds the number of passes for
// every distribution. What was learnt makes a row fast or slow, never a result different.
#pragma once

#include "element.cuh"

namespace rtopk::cuda {

/// What was learnt from the rows before about where the border of a row lies.
template <class Real>
struct Learnt {
  Real border = 0;      ///< A threshold for k elements,
  Real step = 0;        ///< and how far one rank is from the next there.
  float weight = 0.5f;  ///< Of the next row.
  bool known = false;
};

/// Good enough for an estimate.
__device__ inline float reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

template <class T>
class BorderSearch {
 public:
  using E = Element<T>;
  using Value = typename E::Value;
  using Real = typename E::Real;
  using SortKey = typename E::SortKey;

  static constexpr int kMostPasses = 48;
  static constexpr int kEasyPasses = 5;  ///< Most rows need no more.

  __device__ BorderSearch(const Learnt<Real>& learnt, int k) : k_(k), step_(learnt.step) { move_to(learnt.border); }

  [[nodiscard]] __device__ Value threshold() const { return threshold_; }
  [[nodiscard]] __device__ int passes() const { return passes_; }
  [[nodiscard]] __device__ bool done() const { return done_; }
  /// There are more elements equal to the threshold than can be selected: all at or above `high`, if there is one, then
  /// the first `quota` of those equal to the threshold.
  [[nodiscard]] __device__ bool ties() const { return ties_; }
  [[nodiscard]] __device__ bool has_high() const { return off_high_ < 0; }
  [[nodiscard]] __device__ Value high() const { return high_; }
  [[nodiscard]] __device__ int quota() const { return has_high() ? -off_high_ : k_; }
  [[nodiscard]] __device__ int first_off() const { return first_off_; }

  /// Takes in how many elements are at or above the threshold. True if that ends the search.
  __device__ bool record(int counted) {
    ++passes_;
    if (done_) return true;
    const int off = counted - k_;
    if (passes_ == 1) first_off_ = off;
    off_ = off;
    if (off > 0) {
      done_ = ties_ = is_neighbour_;
      low_ = threshold_;
      off_low_ = off;
    } else if (off < 0) {
      high_ = threshold_;
      off_high_ = off;
    } else {
      done_ = true;
    }
    return done_;
  }

  /// Whether the next threshold is to be the element next below `high`.
  [[nodiscard]] __device__ bool wants_neighbour() const { return passes_ >= kEasyPasses && passes_ % 4 == 1; }

  __device__ void step_down(Value neighbour) {
    if (done_) return;
    threshold_ = neighbour;
    is_neighbour_ = true;
  }

  /// Whether the row's own moments would help: after two passes on the same side.
  [[nodiscard]] __device__ bool wants_moments() const { return passes_ == 2 && !is_bracketed(); }

  __device__ void restart(const Learnt<Real>& expected) {
    if (done_ || is_bracketed()) return propose();
    step_ = expected.step;
    move_to(expected.border);
  }

  __device__ void propose() {
    if (done_) return;
    is_neighbour_ = false;
    if (passes_ > kEasyPasses && passes_ % 4 == 2) return halve();
    if (is_bracketed()) {
      const float share = static_cast<float>(off_low_) * reciprocal(static_cast<float>(off_low_ - off_high_));
      const Real low = E::real(low_);
      move_to(low + (E::real(high_) - low) * static_cast<Real>(share));
    } else {
      move_to(E::real(threshold_) + static_cast<Real>(off_) * step_);
      step_ *= Real{2};  // so that a row of another scale is caught up with
    }
  }

 private:
  [[nodiscard]] __device__ bool is_bracketed() const { return off_low_ > 0 && off_high_ < 0; }

  __device__ void move_to(Real at) { threshold_ = E::from_real(at); }

  /// The middle in the order of keys, of the bracket or of everything on the side that is open.
  __device__ void halve() {
    const SortKey low = off_low_ > 0 ? E::sort_key(low_) : E::sort_key(E::least());
    const SortKey high = off_high_ < 0 ? E::sort_key(high_) : E::sort_key(E::greatest());
    threshold_ = E::from_sort_key(low + (high - low) / 2);
  }

  int k_;
  Real step_;
  Value threshold_;
  Value low_{};   ///< A threshold that too many elements reach, if off_low_ > 0,
  Value high_{};  ///< and one that too few reach, if off_high_ < 0.
  int off_ = 0;
  int off_low_ = 0;
  int off_high_ = 0;
  int first_off_ = 0;
  int passes_ = 0;
  bool is_neighbour_ = false;
  bool done_ = false;
  bool ties_ = false;
};

/// Takes in the border that was found for a row whose first guess was off by `first_off` ranks.
template <class T>
__device__ void learn(Learnt<typename Element<T>::Real>& learnt, typename Element<T>::Value border, int first_off) {
  using E = Element<T>;
  using Real = typename E::Real;
  const Real moved = E::real(border) - learnt.border;
  // One row says little about how close neighbouring ranks are; a wild one, or none, must not say anything.
  const Real step = moved * static_cast<Real>(reciprocal(static_cast<float>(first_off)));
  const bool tells = abs(first_off) >= 3 && step > learnt.step * Real{0.25} && step < learnt.step * Real{4};
  if (tells) learnt.step += Real{0.25} * (step - learnt.step);
  // Nothing like the rows before: the next one will rather be like this one.
  const bool astray = !(fabs(moved) <= Real{64} * learnt.step);
  learnt.border += (astray ? Real{1} : static_cast<Real>(learnt.weight)) * moved;
  learnt.weight = fmaxf(0.7f * learnt.weight, 0.125f);
  learnt.known = E::is_finite(E::from_real(learnt.border));
}

/// What a row's moments say, if it were normally distributed. `sum` and `squares` are over `number` elements.
template <class Real>
__device__ Learnt<Real> expected_from(const Expectation& expectation, Real sum, Real squares, float number) {
  const Real share = static_cast<Real>(reciprocal(fmaxf(number, 1.0f)));
  const Real mean = sum * share;
  const Real variance = squares * share - mean * mean;
  const Real deviation = variance > 0 ? static_cast<Real>(sqrtf(static_cast<float>(variance))) : Real{0};
  Learnt<Real> expected;
  expected.border = mean + static_cast<Real>(expectation.border) * deviation;
  expected.step = static_cast<Real>(expectation.step) * deviation;
  expected.known = true;
  return expected;
}

}  // namespace rtopk::cuda
