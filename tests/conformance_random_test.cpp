// Random problems, to find what no other test considers. RTOPK_TEST_SEED changes them, RTOPK_TEST_SCALE makes more.
#include "conformance.hpp"

#include <cmath>

namespace rtopk_test {
namespace {

class Anything : public DTypeTest {};

TEST_P(Anything, Random) {
  Random random = random_for(30);
  for (std::int64_t left = scaled(1500); left > 0; --left) {
    // Lengths are uniform in their logarithm: as many from 1 to 20 as from 1000 to 20000.
    const auto cols = static_cast<std::int64_t>(std::exp(random.uniform() * std::log(20000.0)));
    const std::int64_t rows = random.between(0, std::min<std::int64_t>(40, 1 + 20000 / cols));
    const std::int64_t k = random_k(cols, random);
    const Matrix matrix = make_mixed_matrix(GetParam(), rows, cols, k, random);
    rtopk::Problem problem = problem_for(matrix, k);
    problem.direction = random.pick(kDirections);
    problem.passes = random.coin();
    random.pick(kLimits).apply(problem);
    if (problem.max_iter > 0 && random.coin()) problem.max_iter = static_cast<std::int32_t>(random.between(1, 200));
    if (problem.max_iter > 0 && random.coin()) problem.rule = rtopk::Rule::printed;
    if (problem.epsilon > 0.0 && random.coin()) problem.epsilon = random.uniform();
    random.pick(shapes_for(cols)).apply(problem);
    if (!conforms(problem, matrix, random_layout(random))) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, Anything, testing::ValuesIn(kDTypes), dtype_name);

}  // namespace
}  // namespace rtopk_test
