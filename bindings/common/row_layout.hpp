// How the rows of an array with any number of dimensions lie in memory, as a Problem describes it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <rtopk/select.hpp>

namespace rtopk::bindings {

/// Sizes and strides of a Problem. Strides count elements.
struct RowLayout {
  std::int64_t rows = 1;
  std::int64_t cols = 1;
  std::int64_t row_stride = 1;
  std::int64_t element_stride = 1;
  std::int64_t group_rows = 0;
  std::int64_t group_stride = 0;
};

/// True if the rows along the last of `dims` >= 1 dimensions have a layout that a Problem can describe: one row stride,
/// or groups with a second stride. If so, writes it to `seen`. No size is 0. `seen.cols` is written in any case.
inline bool describe_rows(const std::int64_t* sizes, const std::int64_t* strides, std::size_t dims, RowLayout& seen) {
  /// Dimensions that can be merged into one with a constant stride.
  struct Level {
    std::int64_t size = 1;
    std::int64_t stride = 0;
  };
  const std::size_t last = dims - 1;
  seen.cols = sizes[last];
  seen.element_stride = seen.cols > 1 ? strides[last] : 1;
  if (seen.element_stride < 1) return false;  // expanded: the same element repeated; or reversed
  Level levels[2];
  std::size_t used = 0;
  for (std::size_t i = last; i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (used > 0 && strides[i] == levels[used - 1].stride * levels[used - 1].size) {
      levels[used - 1].size *= sizes[i];
    } else if (used < 2) {
      levels[used++] = {sizes[i], strides[i]};
    } else {
      return false;
    }
  }
  auto [rows, groups] = levels;
  const std::int64_t least = seen.element_stride == 1 ? seen.cols : 1;
  if (used == 1 && rows.stride < least) {  // expanded or overlapping rows: groups of one
    groups = rows;
    rows = {};
    used = 2;
  }
  seen.rows = rows.size * groups.size;
  seen.row_stride = rows.size > 1 ? rows.stride : seen.cols * seen.element_stride;
  seen.group_rows = used == 2 ? rows.size : 0;
  seen.group_stride = used == 2 ? groups.stride : 0;
  return (rows.size == 1 || rows.stride >= least) && seen.group_stride >= 0;
}

/// Makes the rows segments of a flat input. `max_length`: of the longest; 0: not known. Of a longer one, the first
/// `max_length` elements are its row, or k if that is more. Problem::k is written already.
inline void set_segments(std::int64_t segments, std::int64_t elements, std::int64_t max_length, Problem& problem) {
  // No segment is longer than the input. A bound below k would be refused, though segments may have fewer elements.
  const std::int64_t bound = max_length == 0 ? elements : std::min(max_length, elements);
  problem.rows = segments;
  problem.cols = std::max<std::int64_t>({bound, problem.k, 1});
  problem.row_stride = 0;
  problem.ragged.elements = elements;
}

inline void set_layout(const RowLayout& layout, Problem& problem) {
  problem.rows = layout.rows;
  problem.cols = layout.cols;
  problem.row_stride = layout.row_stride;
  problem.element_stride = layout.element_stride;
  problem.group_rows = layout.group_rows;
  problem.group_stride = layout.group_stride;
}

}  // namespace rtopk::bindings
