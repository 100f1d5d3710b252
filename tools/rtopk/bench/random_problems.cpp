#include "bench/random_problems.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "matrix/split_mix.hpp"

namespace rtopk::tool {
namespace {

constexpr std::int64_t min_cols = 8;
constexpr std::int64_t max_cols = std::int64_t{1} << 18;
constexpr std::int64_t max_cbsr_cols = 65536;

// The logarithm of the number of elements. On a GPU they fill it, and few fit into its L2 cache; on the CPU a problem
// takes less than a second, with its check.
struct Exponents {
  double low;
  double high;
};
constexpr Exponents gpu_elements{24.5, 28.5};
constexpr Exponents cpu_elements{18.0, 22.0};

// Rows that differ. Making them takes the CPU longer than the GPU takes for all the rest.
constexpr std::int64_t distinct_elements = std::int64_t{1} << 22;
constexpr std::int64_t min_distinct_rows = 16;

constexpr std::int64_t max_offset = 7;
constexpr std::int64_t max_gap = 64;

// Every kind as often as it stands here.
constexpr auto types =
    std::to_array({DType::f32, DType::f32, DType::f32, DType::f32, DType::f32, DType::f32, DType::f16, DType::f16,
                   DType::f16, DType::f16, DType::bf16, DType::bf16, DType::bf16, DType::bf16, DType::f64, DType::i32});
constexpr auto forms = std::to_array({Form::pairs, Form::pairs, Form::pairs, Form::pairs, Form::pairs, Form::pairs,
                                      Form::pairs, Form::pairs, Form::pairs, Form::pairs, Form::pairs, Form::pairs,
                                      Form::dense, Form::dense, Form::mask, Form::cbsr});
constexpr auto orders = std::to_array({Order::unsorted, Order::unsorted, Order::by_value, Order::by_index});
constexpr auto kinds_beside_normal = std::to_array({RowKind::own_scale, RowKind::two_humps, RowKind::softmax,
                                                    RowKind::sparse, RowKind::constant, RowKind::infinities});

void draw_sizes(Problem& problem, SplitMix& random) {
  problem.cols = random.log_between(min_cols, max_cols);
  problem.k = random.log_between(1, problem.cols / 2);
  const Exponents range = problem.device.kind == DeviceKind::cuda ? gpu_elements : cpu_elements;
  const double elements = std::exp2(range.low + random.uniform() * (range.high - range.low));
  problem.rows = std::max<std::int64_t>(static_cast<std::int64_t>(elements) / problem.cols, 1);
}

void draw_layout(BenchCase& bench, SplitMix& random) {
  switch (random.between(0, 3)) {
    case 0: bench.input_offset = random.between(1, max_offset); break;
    case 1:
      bench.problem.row_stride = bench.problem.cols + random.between(1, max_gap);
      bench.input_offset = random.between(0, max_offset);
      break;
    default: break;
  }
}

/// Draws the same however the flags are, so that a flag changes nothing else of a problem.
void draw_results(Problem& problem, SplitMix& random, const SelectionFlags& flags) {
  problem.form = random.pick(forms);
  if (problem.form == Form::cbsr && problem.cols > max_cbsr_cols) problem.form = Form::pairs;
  if (flags.form) problem.form = *flags.form;
  const Order order = random.pick(orders);
  if (problem.form == Form::pairs) problem.order = order;
  problem.index_type = random.one_in(2) ? IndexType::i32 : IndexType::i64;
  if (problem.form == Form::cbsr) problem.index_type = selector_type(problem.cols);
  problem.direction = random.one_in(4) ? Direction::smallest : Direction::largest;
  apply(flags, problem);
}

}  // namespace

BenchCase random_problem(std::uint64_t seed, std::int64_t number, Device device, const SelectionFlags& flags) {
  // Not symmetric in seed and number: no two seeds share problems.
  SplitMix random(scramble(scramble(seed + SplitMix::step) + static_cast<std::uint64_t>(number)));
  BenchCase bench;
  bench.number = number;
  Problem& problem = bench.problem;
  problem.device = device;
  draw_sizes(problem, random);
  problem.dtype = random.pick(types);
  if (flags.dtype) problem.dtype = *flags.dtype;
  draw_layout(bench, random);
  draw_results(problem, random, flags);
  const RowKind other = random.pick(kinds_beside_normal);
  bench.data = random.one_in(3) ? RowKind::normal : other;
  bench.seed = random.bits();
  bench.distinct_rows = std::min(problem.rows, std::max(distinct_elements / problem.cols, min_distinct_rows));
  return bench;
}

}  // namespace rtopk::tool
