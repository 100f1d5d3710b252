// Kernel arguments for general rows, beside those of every selection.
#pragma once

#include <cstdint>

#include <rtopk/rows.hpp>

namespace rtopk::cuda {

/// What makes rows general: see <rtopk/rows.hpp>.
struct RowRules {
  Ragged ragged{};
  RowArrays arrays{};
  IndexMap map{};  ///< With its defaults filled in.
  void* thresholds = nullptr;
  std::uint64_t losing_bits = 0;  ///< Of the value that stands where there is no result.
  bool finishes = true;           ///< False: another kernel, which sorts the results, finishes the rows.
};

}  // namespace rtopk::cuda
