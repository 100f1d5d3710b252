// The problems of `rtopk soak`: problem n of a seed is always the same one, so a failure can be repeated alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <rtopk/select.hpp>

#include "soak_rows.hpp"

namespace rtopk::tool {

struct SoakProblem {
  Problem problem;  ///< Its device is the CPU's until somebody else sets it.
  RowKind rows = RowKind::normal;
  std::uint64_t seed = 0;            ///< Of the rows.
  std::int32_t threads = 1;          ///< CPU.
  std::int64_t input_offset = 0;     ///< Elements from an aligned address to the first row.
  std::int64_t output_offset = 0;    ///< The same for every output, in its own elements.
  std::size_t workspace_offset = 0;  ///< Bytes.
};

/// Everything at random: sizes, k, types, form, order, early stopping, strides, alignment, rows.
[[nodiscard]] SoakProblem soak_problem(std::uint64_t seed, std::int64_t number);

/// "f32 17x300 k=5 largest pairs by_value, ties rows, stride 304, offset 1": what a reader needs to see what it is.
[[nodiscard]] std::string text(const SoakProblem& soak);

}  // namespace rtopk::tool
