// General rows of `rtopk soak`: lengths, starts, segments, k of each row, index maps; with any content.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <rtopk/select.hpp>

#include "matrix/split_mix.hpp"

namespace rtopk::tool {

/// One of the arrays of a call.
struct RowArray {
  const void* RowArrays::*member = nullptr;
  ArrayType type = ArrayType::none;
  std::vector<std::byte> bytes;
};

/// Draws what makes the rows of a problem general, with the arrays for it. Its strides must not be set.
[[nodiscard]] std::vector<RowArray> draw_general_rows(Problem& problem, SplitMix& random);

/// For a summary: ", lengths, ids, by magnitude".
[[nodiscard]] std::string general_text(const Problem& problem);

/// True if only the kernels for general rows can take the problem.
[[nodiscard]] bool is_general(const Problem& problem);

}  // namespace rtopk::tool
