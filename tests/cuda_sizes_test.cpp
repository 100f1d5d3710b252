// The CUDA backend with difficult sizes and data. Everything must equal the CPU backend bit for bit.
#include "cuda_selection.hpp"

#include <algorithm>

#include "conformance.hpp"

namespace rtopk_test {
namespace {

class CudaSizes : public CudaTest {
 protected:
  /// True if this much device memory is free.
  static bool free_memory(std::size_t bytes) {
    std::size_t free = 0;
    std::size_t total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess && free >= bytes;
  }
};

// Many rows of all patterns, one after another: what a warp or block learnt from one row is wrong for the next.
TEST_F(CudaSizes, EveryRowIsDifferent) {
  Random random(seed() + 110);
  constexpr std::int64_t kElements = 1 << 19;
  for (const rtopk::DType dtype : kDTypes) {
    for (const std::int64_t cols :
         {3, 17, 32, 64, 100, 128, 250, 256, 512, 700, 768, 1024, 1500, 2048, 4096, 9000, 16384, 40000, 131072}) {
      const std::int64_t rows = std::max<std::int64_t>(scaled(kElements) / cols, 3);
      const std::int64_t k =
          std::min<std::int64_t>(cols, random.pick(std::vector<std::int64_t>{1, 4, 8, 12, 16, 32, 64, 100, 300}));
      const Matrix matrix = make_mixed_matrix(dtype, rows, cols, k, random);
      for (const rtopk::Direction direction : kDirections) {
        rtopk::Problem problem = problem_for(matrix, k);
        problem.direction = direction;
        random.pick(shapes_for(cols)).apply(problem);
        ASSERT_EQ(first_difference(on_cpu(problem, matrix.bytes.data()),
                                   on_gpu(problem, matrix.bytes.data(), matrix.bytes.size())),
                  "")
            << describe(problem) << '\n'
            << matrix.description;
      }
    }
  }
}

// With the paper's search, the number of passes is part of the result.
TEST_F(CudaSizes, StoppedEarlyOnManyRows) {
  Random random(seed() + 111);
  for (const rtopk::DType dtype : kDTypes) {
    for (const std::int64_t cols : {40, 256, 1000, 6000, 50000}) {
      const std::int64_t rows = std::max<std::int64_t>(scaled(1 << 19) / cols, 3);
      const std::int64_t k = std::min<std::int64_t>(cols, 32);
      const Matrix matrix = make_mixed_matrix(dtype, rows, cols, k, random);
      for (const Limits& limits : kLimits) {
        if (limits.max_iter > 100) continue;  // takes minutes on the CPU
        rtopk::Problem problem = problem_for(matrix, k);
        limits.apply(problem);
        problem.passes = limits.search == rtopk::Search::bisection;
        ASSERT_EQ(first_difference(on_cpu(problem, matrix.bytes.data()),
                                   on_gpu(problem, matrix.bytes.data(), matrix.bytes.size())),
                  "")
            << describe(problem) << '\n'
            << matrix.description;
      }
    }
  }
}

TEST_F(CudaSizes, OneVeryLongRow) {
  constexpr std::int64_t kCols = 3000017;
  Random random(seed() + 112);
  for (const rtopk::DType dtype : kDTypes) {
    for (const Pattern pattern :
         {Pattern::normal, Pattern::all_equal, Pattern::half_zeros, Pattern::ascending, Pattern::descending,
          Pattern::one_outlier, Pattern::shared_leading_bits, Pattern::nan_and_infinities, Pattern::random_bits}) {
      if (dtype != rtopk::DType::f32 && pattern != Pattern::normal && pattern != Pattern::random_bits) continue;
      const Matrix matrix = make_matrix(dtype, 1, kCols, 5000, pattern, random);
      for (const std::int64_t k : {std::int64_t{1}, std::int64_t{64}, std::int64_t{5000}, kCols / 2, kCols}) {
        const bool everywhere = k == 64 || k == kCols / 2;  // each takes a while on the CPU
        if ((pattern != Pattern::normal && !everywhere) || left_out(random)) continue;
        rtopk::Problem problem = problem_for(matrix, k);
        problem.direction = random.pick(kDirections);
        problem.order = random.pick(kOrders);
        problem.index_type = rtopk::IndexType::i32;
        ASSERT_EQ(first_difference(on_cpu(problem, matrix.bytes.data()),
                                   on_gpu(problem, matrix.bytes.data(), matrix.bytes.size())),
                  "")
            << describe(problem) << '\n'
            << matrix.description;
      }
    }
  }
}

constexpr std::size_t kMuchMemory = std::size_t{40} << 30;
constexpr const char* kTooLittleMemory = "less than 40 GiB of device memory are free";

/// A matrix too large for the host: repeats the rows of `period`. Their number is odd, so that an offset without its
/// upper bits leads to different elements.
class PeriodicMatrix {
 public:
  PeriodicMatrix(const Matrix& period, std::int64_t rows)
      : period_(period),
        matrix_(static_cast<std::size_t>(rows) * period.bytes.size() / static_cast<std::size_t>(period.rows)) {
    EXPECT_EQ(period.rows % 2, 1);
    matrix_.upload(period.bytes);
    for (std::size_t filled = period.bytes.size(); filled < matrix_.size();) {
      const std::size_t bytes = std::min(filled, matrix_.size() - filled);
      EXPECT_EQ(cudaMemcpy(matrix_.at(filled), matrix_.data(), bytes, cudaMemcpyDeviceToDevice), cudaSuccess);
      filled += bytes;
    }
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }

  [[nodiscard]] const void* data() const { return matrix_.data(); }

  /// Checks that rows [first, first + count) of an output repeat the output of the period. A row of the output has
  /// `row_bytes`.
  void expect_rows(const DeviceBuffer& output, const std::byte* expected, std::size_t row_bytes, std::int64_t first,
                   std::int64_t count) const {
    const Bytes window =
        output.download(static_cast<std::size_t>(first) * row_bytes, static_cast<std::size_t>(count) * row_bytes);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto in_period = static_cast<std::size_t>((first + i) % period_.rows);
      ASSERT_EQ(std::memcmp(window.data() + static_cast<std::size_t>(i) * row_bytes, expected + in_period * row_bytes,
                            row_bytes),
                0)
          << "row " << first + i;
    }
  }

 private:
  const Matrix& period_;
  DeviceBuffer matrix_;
};

/// The problem of the period, repeated to `rows` rows.
rtopk::Problem repeated(rtopk::Problem problem, std::int64_t rows) {
  problem.rows = rows;
  return problem;
}

void run_to_the_end(const CudaSelection& selection, const void* input) {
  const Stream stream;
  selection.poison(stream);
  const rtopk::Status status = selection.run(input, stream);
  ASSERT_TRUE(status.ok()) << status.text();
  stream.synchronize();
}

TEST_F(CudaSizes, MoreThan32BitsOfElements) {
  if (!free_memory(kMuchMemory)) GTEST_SKIP() << kTooLittleMemory;
  constexpr std::int64_t kRows = (1 << 20) + 3;
  Random random(seed() + 113);
  for (const rtopk::DType dtype : {rtopk::DType::bf16, rtopk::DType::f32}) {
    const Matrix period = make_matrix(dtype, 4001, 2049, 8, Pattern::normal, random);
    const PeriodicMatrix matrix(period, kRows);
    for (const std::int64_t k : {8, 100}) {
      rtopk::Problem problem = problem_for(period, k);
      problem.index_type = rtopk::IndexType::i32;
      const Bytes expected = on_cpu(problem, period.bytes.data());
      const CudaSelection selection(repeated(problem, kRows));
      ASSERT_NO_FATAL_FAILURE(run_to_the_end(selection, matrix.data())) << describe(problem);
      const std::size_t value_bytes = static_cast<std::size_t>(k) * rtopk::size_of(dtype);
      const auto index_bytes = static_cast<std::size_t>(k) * 4;
      matrix.expect_rows(selection.values(), expected.data(), value_bytes, 0, kRows);
      matrix.expect_rows(selection.indices(), expected.data() + 4001 * value_bytes, index_bytes, 0, kRows);
      ASSERT_FALSE(HasFailure()) << rtopk::to_string(selection.plan());
    }
  }
}

TEST_F(CudaSizes, MoreThan32BitsOfDenseElements) {
  if (!free_memory(kMuchMemory)) GTEST_SKIP() << kTooLittleMemory;
  constexpr std::int64_t kRows = (1 << 23) + 3;
  constexpr std::int64_t kCols = 257;
  Random random(seed() + 114);
  const Matrix period = make_matrix(rtopk::DType::bf16, 4001, kCols, 32, Pattern::normal, random);
  const PeriodicMatrix matrix(period, kRows);
  rtopk::Problem problem = problem_for(period, 32);
  problem.form = rtopk::Form::dense;
  const Bytes expected = on_cpu(problem, period.bytes.data());
  const CudaSelection selection(repeated(problem, kRows));
  ASSERT_NO_FATAL_FAILURE(run_to_the_end(selection, matrix.data()));
  constexpr std::int64_t kBorder = (std::int64_t{1} << 31) / kCols;
  for (const std::int64_t first : {std::int64_t{0}, kBorder / 2 - 500, kBorder - 500, kRows - 1000}) {
    matrix.expect_rows(selection.dense(), expected.data(), static_cast<std::size_t>(kCols) * 2, first, 1000);
    ASSERT_FALSE(HasFailure()) << rtopk::to_string(selection.plan());
  }
}

TEST_F(CudaSizes, MoreThan32BitsOfRows) {
  if (!free_memory(kMuchMemory)) GTEST_SKIP() << kTooLittleMemory;
  constexpr std::int64_t kRows = (std::int64_t{1} << 31) + 5;
  Random random(seed() + 115);
  const Matrix period = make_matrix(rtopk::DType::bf16, 100003, 2, 1, Pattern::normal, random);
  const PeriodicMatrix matrix(period, kRows);
  rtopk::Problem problem = problem_for(period, 1);
  problem.index_type = rtopk::IndexType::i32;
  const Bytes expected = on_cpu(problem, period.bytes.data());
  const CudaSelection selection(repeated(problem, kRows));
  ASSERT_NO_FATAL_FAILURE(run_to_the_end(selection, matrix.data()));
  for (const std::int64_t first : {std::int64_t{0}, kRows / 4 - 1000, kRows / 2 - 1000, kRows - 2000}) {
    matrix.expect_rows(selection.values(), expected.data(), 2, first, 2000);
    matrix.expect_rows(selection.indices(), expected.data() + 2 * period.rows, 4, first, 2000);
    ASSERT_FALSE(HasFailure()) << rtopk::to_string(selection.plan());
  }
}

TEST_F(CudaSizes, RowsFurtherApartThan32Bits) {
  if (!free_memory(kMuchMemory)) GTEST_SKIP() << kTooLittleMemory;
  constexpr std::int64_t kStride = (std::int64_t{1} << 31) + 5;
  constexpr std::int64_t kRows = 3;
  Random random(seed() + 116);
  for (const std::int64_t cols : {100, 5000, 100000}) {
    const Matrix matrix = make_matrix(rtopk::DType::f32, kRows, cols, 10, Pattern::normal, random);
    const auto row_bytes = static_cast<std::size_t>(cols) * 4;
    const DeviceBuffer input(static_cast<std::size_t>((kRows - 1) * kStride + cols) * 4);
    for (std::int64_t row = 0; row < kRows; ++row) {
      RTOPK_REQUIRE_CUDA(cudaMemcpy(input.at(static_cast<std::size_t>(row * kStride) * 4),
                                    matrix.bytes.data() + static_cast<std::size_t>(row) * row_bytes, row_bytes,
                                    cudaMemcpyHostToDevice));
    }
    RTOPK_REQUIRE_CUDA(cudaDeviceSynchronize());
    rtopk::Problem problem = problem_for(matrix, 10);
    const Bytes expected = on_cpu(problem, matrix.bytes.data());
    problem.row_stride = kStride;
    const CudaSelection selection(problem);
    ASSERT_NO_FATAL_FAILURE(run_to_the_end(selection, input.data()));
    EXPECT_EQ(first_difference(expected, selection.result()), "") << describe(problem);
  }
}

// Every chunk has some of the columns, and its own part of the outputs.
TEST_F(CudaSizes, ColumnsOfManyChunks) {
  Random random(seed() + 117);
  for (const rtopk::DType dtype : {rtopk::DType::bf16, rtopk::DType::f32, rtopk::DType::f64}) {
    const Matrix matrix = make_matrix(dtype, 60000, 500, 10, Pattern::normal, random);
    for (const std::int64_t group_rows : {60000, 100, 7777}) {
      rtopk::Problem problem = problem_for(matrix, 10);
      problem.order = rtopk::Order::by_value;
      problem.row_stride = 1;
      problem.group_rows = group_rows;
      problem.element_stride = group_rows;
      problem.group_stride = group_rows * problem.cols;
      problem.rows = 60000 / group_rows * group_rows;  // complete groups in the matrix
      const Bytes expected = on_cpu(problem, matrix.bytes.data());
      EXPECT_EQ(first_difference(expected, on_gpu(problem, matrix.bytes.data(), matrix.bytes.size())), "")
          << describe(problem);
    }
  }
}

TEST_F(CudaSizes, ElementsAndGroupsFurtherApartThan32Bits) {
  if (!free_memory(kMuchMemory)) GTEST_SKIP() << kTooLittleMemory;
  constexpr std::int64_t kStride = (std::int64_t{1} << 31) + 5;
  Random random(seed() + 118);
  const DeviceBuffer input(static_cast<std::size_t>(2 * kStride + 1000) * 4);
  RTOPK_REQUIRE_CUDA(cudaMemset(input.data(), 0, input.size()));
  const Matrix matrix = make_matrix(rtopk::DType::f32, 3, 1000, 10, Pattern::normal, random);
  for (std::size_t piece = 0; piece < 3; ++piece) {
    RTOPK_REQUIRE_CUDA(cudaMemcpy(input.at(piece * static_cast<std::size_t>(kStride) * 4),
                                  matrix.bytes.data() + piece * 4000, 4000, cudaMemcpyHostToDevice));
  }
  RTOPK_REQUIRE_CUDA(cudaDeviceSynchronize());
  rtopk::Problem elements = problem_for(matrix, 2);
  elements.rows = 1000;
  elements.cols = 3;
  elements.row_stride = 1;
  elements.element_stride = 1000;
  rtopk::Problem groups = problem_for(matrix, 10);
  groups.cols = 100;
  groups.rows = 30;
  const Bytes expected_elements = on_cpu(elements, matrix.bytes.data());
  const Bytes expected_groups = on_cpu(groups, matrix.bytes.data());
  elements.element_stride = kStride;
  groups.group_rows = 10;
  groups.group_stride = kStride;
  const CudaSelection of_elements(elements);
  ASSERT_NO_FATAL_FAILURE(run_to_the_end(of_elements, input.data()));
  EXPECT_EQ(first_difference(expected_elements, of_elements.result()), "");
  const CudaSelection of_groups(groups);
  ASSERT_NO_FATAL_FAILURE(run_to_the_end(of_groups, input.data()));
  EXPECT_EQ(first_difference(expected_groups, of_groups.result()), "");
}

// Zeros, and a few nonzero elements near both ends.
TEST_F(CudaSizes, RowLongerThan32Bits) {
  if (!free_memory(kMuchMemory)) GTEST_SKIP() << kTooLittleMemory;
  constexpr std::int64_t kCols = (std::int64_t{1} << 31) + 1000;
  const DeviceBuffer input(static_cast<std::size_t>(kCols) * 2);
  RTOPK_REQUIRE_CUDA(cudaMemset(input.data(), 0, input.size()));
  const auto put = [&](std::int64_t column, double value) {
    const auto bits = static_cast<std::uint16_t>(encode(rtopk::DType::f16, value));
    EXPECT_EQ(cudaMemcpy(input.at(static_cast<std::size_t>(column) * 2), &bits, 2, cudaMemcpyHostToDevice),
              cudaSuccess);
  };
  put(5, 1.0);
  put(kCols - 700, 3.0);
  put(kCols - 1, 2.0);
  RTOPK_REQUIRE_CUDA(cudaDeviceSynchronize());
  rtopk::Problem problem;
  problem.rows = 1;
  problem.cols = kCols;
  problem.k = 5;
  problem.dtype = rtopk::DType::f16;
  problem.order = rtopk::Order::by_value;
  const CudaSelection selection(problem);
  ASSERT_NO_FATAL_FAILURE(run_to_the_end(selection, input.data()));
  const Bytes values = selection.values().download();
  const Bytes indices = selection.indices().download();
  const std::vector<std::int64_t> expected_indices = {kCols - 700, kCols - 1, 5, 0, 1};
  const std::vector<std::uint16_t> expected_values = {0x4200, 0x4000, 0x3c00, 0, 0};
  ASSERT_EQ(indices.size(), 5 * sizeof(std::int64_t));
  ASSERT_EQ(values.size(), 5 * sizeof(std::uint16_t));
  EXPECT_EQ(std::memcmp(indices.data(), expected_indices.data(), indices.size()), 0);
  EXPECT_EQ(std::memcmp(values.data(), expected_values.data(), values.size()), 0);
}

}  // namespace
}  // namespace rtopk_test
