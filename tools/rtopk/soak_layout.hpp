// Where the input of a problem of `rtopk soak` lies: at any strides, in groups, as columns of matrices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <rtopk/select.hpp>

#include "split_mix.hpp"

namespace rtopk::tool {

/// Sets the strides of a problem, all else of which is set. At most four elements of memory for one of the matrix.
void draw_layout(Problem& problem, SplitMix& random);

/// From the first element of the input to behind the last one.
[[nodiscard]] std::int64_t input_elements(const Problem& problem);

/// Puts rows without gaps where the problem says that they lie, and bait everywhere else.
void lay_out(const Problem& problem, std::span<const std::byte> tight, std::span<std::byte> to);

}  // namespace rtopk::tool
