// What a selection is measured beside, next to a copy of the matrix: what a C++ programmer would write.
#pragma once

#include <cstdint>

#include <rtopk/select.hpp>

#include "thread_pool.hpp"

namespace rtopk::tool {

struct NthElementTime {
  double seconds = 0.0;  ///< For all rows; scaled up if not all were timed.
  std::int64_t rows_timed = 0;
};

/// std::nth_element on (value, index) pairs of each row, rows shared by the threads. Stops after some rows if it takes
/// long, and scales.
[[nodiscard]] NthElementTime time_nth_element(const Problem& problem, const void* input, ThreadPool& pool);

}  // namespace rtopk::tool
