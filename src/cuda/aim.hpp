// Where to look first for the border of a row: see Aim.
#pragma once

#include <cstdint>

#include "call.hpp"

namespace rtopk::cuda {

/// For rows of `cols` elements, if `capacity` candidates can be sorted. One-sided, that is without an upper threshold, if
/// everything selected fits among them.
Aim aim_at(std::int64_t cols, std::int64_t k, std::int64_t capacity) noexcept;

}  // namespace rtopk::cuda
