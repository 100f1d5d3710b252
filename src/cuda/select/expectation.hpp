// The first guess at the kth value of a row: see Expectation.
#pragma once

#include <cstdint>

#include "cuda/select/arguments.hpp"

namespace rtopk::cuda {

Expectation expectation_of(std::int64_t cols, std::int64_t k) noexcept;

}  // namespace rtopk::cuda
