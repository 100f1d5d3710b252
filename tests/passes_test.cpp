// Number of passes of the CPU searches on similar rows, where a row learns from the previous one.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "conformance.hpp"
#include "guarded_buffer.hpp"

namespace rtopk_test {
namespace {

class Passes : public DTypeTest {
 protected:
  /// The passes of each row of a matrix, with the default plan.
  static std::vector<std::int32_t> of(const Matrix& matrix, std::int64_t k) {
    rtopk::Problem problem = problem_for(matrix, k);
    problem.passes = true;
    rtopk::Plan plan;
    EXPECT_TRUE(rtopk::make_plan(problem, rtopk::Traits{}, plan).ok());
    std::vector<std::byte> values(static_cast<std::size_t>(matrix.rows * k) * 8);
    std::vector<std::byte> indices(values.size());
    std::vector<std::int32_t> passes(static_cast<std::size_t>(matrix.rows));
    std::vector<std::byte> workspace(plan.workspace_bytes);
    rtopk::Output output;
    output.values = values.data();
    output.indices = indices.data();
    output.passes = passes.data();
    const rtopk::Status status =
        rtopk::run(plan, matrix.bytes.data(), output, {workspace.data(), workspace.size()}, {});
    EXPECT_TRUE(status.ok()) << status.text();
    return passes;
  }

  /// Rows like the output of ReLU: this share of positive elements, the rest zeros.
  Matrix rectified(std::int64_t rows, std::int64_t cols, double share) {
    Random random = random_for(40);
    std::vector<double> elements(static_cast<std::size_t>(rows * cols));
    for (double& element : elements) element = random.uniform() < share ? 1000 * std::abs(random.normal()) : 0.0;
    Matrix matrix = make_row(GetParam(), elements);
    matrix.rows = rows;
    matrix.cols = cols;
    return matrix;
  }
};

struct Size {
  std::int64_t cols;
  std::int64_t k;
};

// The kth value is one of many zeros: one pass marks the elements above zero and enough zeros. A row that is too long
// to be marked at once is first counted above zero and at zero.
TEST_P(Passes, AreFewWhereTheThresholdIsATie) {
  if (!rtopk::build_info().highway) GTEST_SKIP() << "without Highway every plan is the reference";
  for (const Size size : {Size{128, 16}, Size{256, 32}, Size{1024, 64}, Size{4096, 64}, Size{20000, 400}}) {
    for (const double share : {0.01, 0.002}) {
      const std::int64_t rows = 320;  // enough for blocks of eight rows
      const auto passes = of(rectified(rows, size.cols, share), size.k);
      const std::int32_t expected = size.cols <= 4096 ? 1 : 2;
      const auto longer = std::count_if(passes.begin(), passes.end(), [=](std::int32_t p) { return p > expected; });
      EXPECT_LE(longer, rows / 8 + rows / 80)
          << size.cols << " columns, " << share << " positive";  // the first of each block may take longer
    }
  }
}

// The kth value is slightly above the zeros, which must not all become candidates.
TEST_P(Passes, AreFewJustAboveATie) {
  if (!rtopk::build_info().highway) GTEST_SKIP() << "without Highway every plan is the reference";
  const auto passes = of(rectified(640, 4096, 0.02), 64);
  const double mean = std::accumulate(passes.begin(), passes.end(), 0.0) / static_cast<double>(passes.size());
  EXPECT_LE(mean, 9.0);
}

INSTANTIATE_TEST_SUITE_P(Learning, Passes, testing::ValuesIn(kDTypes), dtype_name);

}  // namespace
}  // namespace rtopk_test
