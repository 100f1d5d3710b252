// The two selections that a split one consists of, and their memory.
#include "plan/select/split.hpp"

#include "core/checks.hpp"
#include "core/placement.hpp"
#include "core/rows.hpp"
#include "core/sizes.hpp"

namespace rtopk::cpu {

bool can_split(const Problem& problem, std::int64_t parts) noexcept {
  // The passes of a row would depend on the number of its parts, which depends on the number of threads.
  return parts >= 2 && parts <= problem.cols / problem.k && problem.form == Form::pairs && !problem.passes &&
         !core::bisects(problem) && core::elements_are_adjacent(problem) && !core::is_ragged(problem);
}

Problem parts_of_row(const Problem& problem, std::int64_t parts) noexcept {
  Problem result = core::tight(problem, parts);
  result.cols = problem.cols / parts;
  result.order = Order::unsorted;
  result.index_type = IndexType::i64;
  result.values = result.indices = true;
  result.thresholds = false;
  result.index_map = {};
  return result;
}

Problem candidates_of_rows(const Problem& problem, std::int64_t parts) noexcept {
  Problem result = core::tight(problem, problem.rows);
  result.cols = parts * problem.k + problem.cols % parts;
  result.index_type = IndexType::i64;
  result.indices = true;
  result.index_map = {};
  return result;
}

SplitLayout split_layout(const Problem& problem, std::int64_t parts, std::size_t scratch_bytes) noexcept {
  const auto after = [](std::size_t begin, std::int64_t rows, std::int64_t count, std::size_t size) {
    const std::size_t bytes = core::times(core::bytes_of(rows, size), core::bytes_of(count, 1));
    return core::plus(begin, core::round_up(bytes, SplitLayout::kAlignment));
  };
  const std::int64_t candidates = candidates_of_rows(problem, parts).cols;
  SplitLayout layout;
  layout.places = after(layout.values, problem.rows, candidates, size_of(problem.dtype));
  layout.chosen = after(layout.places, problem.rows, candidates, sizeof(std::int64_t));
  layout.scratch = after(layout.chosen, problem.rows, problem.k, sizeof(std::int64_t));
  layout.bytes = core::plus(core::plus(layout.scratch, scratch_bytes), SplitLayout::kAlignment);
  return layout;
}

}  // namespace rtopk::cpu
