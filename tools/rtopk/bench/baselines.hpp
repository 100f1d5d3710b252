// The baseline of a measurement on the CPU: a selection by the C++ standard library.
#pragma once

#include <cstdint>

#include <rtopk/select.hpp>

#include "system/thread_pool.hpp"

namespace rtopk::tool {

struct NthElementTime {
  double seconds = 0.0;  ///< For all rows, scaled up if not all were timed.
  std::int64_t rows_timed = 0;
};

/// Times std::nth_element on the (value, index) pairs of each row, with all threads of the pool. Where that takes long
/// it times some rows and scales.
[[nodiscard]] NthElementTime time_nth_element(const Problem& problem, const void* input, ThreadPool& pool);

}  // namespace rtopk::tool
