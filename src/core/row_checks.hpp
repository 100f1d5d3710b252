// Checks of the options and arrays that describe general rows.
#pragma once

#include <rtopk/select.hpp>

#include "core/regions.hpp"

namespace rtopk::core {

/// Checks Problem::ragged, index_map, thresholds and magnitude. The rest of the problem must be valid.
Status check_rows(const Problem& problem) noexcept;

/// Adds the arrays of a checked problem to the regions of a call.
void add_arrays(const Problem& problem, const RowArrays& arrays, Regions& regions) noexcept;

}  // namespace rtopk::core
