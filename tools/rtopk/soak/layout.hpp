// The layout of the input of `rtopk soak`: any strides, groups of rows, columns of matrices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <rtopk/select.hpp>

#include "matrix/split_mix.hpp"

namespace rtopk::tool {

/// Draws the strides of a problem whose other members are set. The input takes at most four times the matrix's memory.
void draw_layout(Problem& problem, SplitMix& random);

/// Elements from the first of the input to the last, gaps included.
[[nodiscard]] std::int64_t input_elements(const Problem& problem);

/// Copies rows without gaps to their places in the layout, and writes bait to all other places.
void lay_out(const Problem& problem, std::span<const std::byte> tight, std::span<std::byte> to);

}  // namespace rtopk::tool
