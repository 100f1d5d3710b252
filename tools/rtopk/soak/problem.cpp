#include "soak/problem.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "matrix/split_mix.hpp"
#include "selection/names.hpp"
#include "soak/layout.hpp"

namespace rtopk::tool {
namespace {

constexpr std::int64_t max_cols = std::int64_t{1} << 18;
// The reference sorts all elements, so most problems are small; now and then one fills a GPU.
constexpr std::int64_t max_elements = std::int64_t{1} << 19;
constexpr std::int64_t max_elements_of_large = std::int64_t{1} << 24;
constexpr std::int64_t large_one_in = 16;
constexpr std::int64_t general_one_in = 3;
constexpr std::int64_t max_cbsr_cols = 65536;
constexpr std::int64_t max_offset = 16;  // elements: more than the widest vector of a GPU has
constexpr std::int32_t max_threads = 4;

std::int64_t draw_k(std::int64_t cols, SplitMix& random) {
  switch (random.between(0, 5)) {
    case 0: return cols - random.between(0, std::min<std::int64_t>(cols - 1, 2));
    case 1: return random.between(1, cols);
    case 2: return random.log_between(1, std::min<std::int64_t>(cols, 8));
    default: return random.log_between(1, cols);
  }
}

void draw_form(Problem& problem, SplitMix& random) {
  problem.form = random.one_in(2) ? Form::pairs : random.pick(values_of<Form>());
  if (problem.form == Form::cbsr && problem.cols > max_cbsr_cols) problem.form = Form::pairs;
  if (problem.form == Form::cbsr) {
    problem.index_type = random.one_in(4) ? IndexType::u16 : selector_type(problem.cols);
  } else {
    problem.index_type = random.one_in(2) ? IndexType::i32 : IndexType::i64;
  }
  if (problem.form != Form::pairs) return;
  problem.order = random.pick(values_of<Order>());
  problem.values = !random.one_in(8);
  problem.indices = !problem.values || !random.one_in(8);
}

void draw_search(Problem& problem, SplitMix& random) {
  switch (random.between(0, 9)) {
    case 0:
      problem.max_iter = static_cast<std::int32_t>(random.log_between(1, 64));
      problem.rule = random.pick(values_of<Rule>());
      break;
    case 1: problem.epsilon = random.uniform() * (random.one_in(2) ? 1.0 : 1e-3); break;
    case 2: problem.search = Search::bisection; break;
    default: break;
  }
}

}  // namespace

SoakProblem soak_problem(std::uint64_t seed, std::int64_t number) {
  SplitMix random(scramble(seed) + scramble(static_cast<std::uint64_t>(number) + 1));
  SoakProblem soak;
  Problem& problem = soak.problem;
  problem.cols = random.log_between(1, max_cols);
  const std::int64_t elements = random.one_in(large_one_in) ? max_elements_of_large : max_elements;
  problem.rows = random.log_between(1, std::max<std::int64_t>(elements / problem.cols, 1));
  problem.k = draw_k(problem.cols, random);
  problem.dtype = random.pick(values_of<DType>());
  problem.direction = random.pick(values_of<Direction>());
  problem.passes = random.one_in(8);
  draw_form(problem, random);
  draw_search(problem, random);
  if (random.one_in(general_one_in)) {
    soak.arrays = draw_general_rows(problem, random);
  } else {
    draw_layout(problem, random);
  }
  soak.input_offset = random.one_in(2) ? 0 : random.between(1, max_offset);
  soak.output_offset = random.one_in(2) ? 0 : random.between(1, max_offset);
  soak.workspace_offset = static_cast<std::size_t>(random.between(0, 15));
  soak.threads = static_cast<std::int32_t>(random.between(1, max_threads));
  soak.rows = random.pick(row_kinds);
  soak.seed = random.bits();
  return soak;
}

std::string text(const SoakProblem& soak) {
  const Problem& problem = soak.problem;
  std::string result =
      fmt::format("{} {}x{} k={} {} {} {}, {} rows", name(problem.dtype), problem.rows, problem.cols, problem.k,
                  name(problem.direction), name(problem.form), name(problem.order), name(soak.rows));
  if (problem.row_stride != 0) result += fmt::format(", stride {}", problem.row_stride);
  if (problem.element_stride > 1) result += fmt::format(", elements {} apart", problem.element_stride);
  if (problem.group_rows != 0)
    result += fmt::format(", groups of {} every {}", problem.group_rows, problem.group_stride);
  if (soak.input_offset != 0) result += fmt::format(", offset {}", soak.input_offset);
  if (problem.max_iter > 0) result += fmt::format(", max_iter {} ({})", problem.max_iter, name(problem.rule));
  if (problem.epsilon > 0.0) result += fmt::format(", epsilon {}", problem.epsilon);
  if (problem.search != Search::fast) result += fmt::format(", {}", name(problem.search));
  return result + general_text(problem);
}

}  // namespace rtopk::tool
