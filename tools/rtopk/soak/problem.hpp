// The problems of `rtopk soak`: problem n of a seed is always the same one, so a failure can be repeated alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <rtopk/select.hpp>

#include "matrix/rows.hpp"
#include "soak/general_rows.hpp"

namespace rtopk::tool {

struct SoakProblem {
  Problem problem;               ///< For the CPU; the caller may set another device.
  std::vector<RowArray> arrays;  ///< Those of general rows.
  RowKind rows = RowKind::normal;
  std::uint64_t seed = 0;            ///< Seed of the rows.
  std::int32_t threads = 1;          ///< Threads on the CPU.
  std::int64_t input_offset = 0;     ///< Elements from an aligned address to the first row.
  std::int64_t output_offset = 0;    ///< The same for every output array.
  std::size_t workspace_offset = 0;  ///< Bytes.
};

/// Draws sizes, k, types, form, order, early stopping, strides or general rows, alignment and elements.
[[nodiscard]] SoakProblem soak_problem(std::uint64_t seed, std::int64_t number);

/// A summary: "f32 17x300 k=5 largest pairs by_value, ties rows, stride 304, offset 1".
[[nodiscard]] std::string text(const SoakProblem& soak);

}  // namespace rtopk::tool
