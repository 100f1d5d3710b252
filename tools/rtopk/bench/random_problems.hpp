// The problems of `rtopk bench --random-shapes`: problem n of a seed is always the same one.
#pragma once

#include <cstdint>

#include "bench/case.hpp"
#include "command_line/options.hpp"

namespace rtopk::tool {

/// Draws columns, k, rows, type, layout, form, order and data. There are more rows on a GPU than on the CPU. What the
/// flags say replaces what was drawn: there may be no plan for the two together.
[[nodiscard]] BenchCase random_problem(std::uint64_t seed, std::int64_t number, Device device,
                                       const SelectionFlags& flags);

}  // namespace rtopk::tool
