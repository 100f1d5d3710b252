// The first guess at the kth value of a row: see Expectation.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/attributes.hpp"
#include "cuda/select/arguments.hpp"

namespace rtopk::cuda {

/// The value that a standard normal variable exceeds with probability p, to three digits (Abramowitz and Stegun,
/// 26.2.23).
template <class Real>
[[nodiscard]] RTOPK_HD Real normal_quantile(Real p) {
  const bool upper = p < Real(0.5);
  const Real t = std::sqrt(Real(-2) * std::log(upper ? p : 1 - p));
  const Real z = t - (Real(2.515517) + t * (Real(0.802853) + t * Real(0.010328))) /
                         (1 + t * (Real(1.432788) + t * (Real(0.189269) + t * Real(0.001308))));
  return upper ? z : -z;
}

/// For a row of this many elements.
template <class Real>
[[nodiscard]] RTOPK_HD Expectation expectation_for(Real number, Real k) {
  constexpr Real kLeast = sizeof(Real) == 8 ? Real(1e-12) : Real(1e-6);
  const Real wanted = (k - Real(0.1)) / (number + Real(0.2));
  const Real share = wanted < kLeast ? kLeast : wanted > 1 - kLeast ? 1 - kLeast : wanted;
  const Real kth = normal_quantile(share);
  const Real density = std::exp(Real(-0.5) * kth * kth) / Real(2.5066282746310002);
  return {static_cast<float>(kth), static_cast<float>(1 / (number * (density > kLeast ? density : kLeast)))};
}

[[nodiscard]] inline Expectation expectation_of(std::int64_t cols, std::int64_t k) {
  return expectation_for(static_cast<double>(cols), static_cast<double>(k));
}

}  // namespace rtopk::cuda
