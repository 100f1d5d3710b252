#include "soak/layout.hpp"

#include <algorithm>
#include <cstring>

#include "matrix/rows.hpp"

namespace rtopk::tool {
namespace {

std::int64_t element_stride(const Problem& problem) { return std::max(problem.element_stride, std::int64_t{1}); }

std::int64_t row_stride(const Problem& problem) {
  return problem.row_stride != 0 ? problem.row_stride : problem.cols * element_stride(problem);
}

std::int64_t place_of(const Problem& problem, std::int64_t row) {
  if (problem.group_rows == 0) return row * row_stride(problem);
  return row / problem.group_rows * problem.group_stride + row % problem.group_rows * row_stride(problem);
}

}  // namespace

void draw_layout(Problem& problem, SplitMix& random) {
  const auto padding = [&](std::int64_t size) { return random.between(0, std::min<std::int64_t>(size, 64)); };
  const bool grouped = random.one_in(4);
  const std::int64_t of_group = grouped ? random.log_between(1, problem.rows) : problem.rows;
  std::int64_t group = 0;
  switch (random.between(0, 5)) {
    case 0:  // columns of matrices
      problem.row_stride = 1;
      problem.element_stride = std::max<std::int64_t>(of_group + padding(of_group), 2);
      group = problem.cols * problem.element_stride;
      break;
    case 1:  // elements apart
      problem.element_stride = random.between(2, 3);
      group = of_group * row_stride(problem);
      break;
    case 2:
    case 3:
      problem.row_stride = problem.cols + padding(problem.cols);
      group = of_group * problem.row_stride;
      break;
    default: group = of_group * problem.cols; break;
  }
  if (!grouped) return;
  problem.group_rows = of_group;
  problem.group_stride = group + padding(group);
}

std::int64_t input_elements(const Problem& problem) {
  std::int64_t end = 0;
  for (std::int64_t row = 0; row < problem.rows; ++row) end = std::max(end, place_of(problem, row));
  return end + (problem.cols - 1) * element_stride(problem) + 1;
}

void lay_out(const Problem& problem, std::span<const std::byte> tight, std::span<std::byte> to) {
  const std::size_t size = size_of(problem.dtype);
  write_bait(problem.dtype, problem.direction, static_cast<std::int64_t>(to.size() / size), to.data());
  const std::size_t step = static_cast<std::size_t>(element_stride(problem)) * size;
  const std::byte* from = tight.data();
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    std::byte* at = to.data() + static_cast<std::size_t>(place_of(problem, row)) * size;
    if (step == size) {
      std::memcpy(at, from, static_cast<std::size_t>(problem.cols) * size);
      from += static_cast<std::size_t>(problem.cols) * size;
      continue;
    }
    for (std::int64_t column = 0; column < problem.cols; ++column, at += step, from += size) {
      std::memcpy(at, from, size);
    }
  }
}

}  // namespace rtopk::tool
