// Memory at its limits: rows next to inaccessible pages, and offsets beyond 2^31 elements.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "check.hpp"
#include "conformance.hpp"
#include "general_rows.hpp"
#include "mapping.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RTOPK_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define RTOPK_TEST_SANITIZED 1
#endif
#endif

namespace rtopk_test {
namespace {

/// Memory between two inaccessible regions. bytes() ends, or begins, next to one of them.
class Island {
 public:
  Island(std::size_t bytes, bool at_end)
      : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
        middle_((bytes + page_ - 1) / page_ * page_),
        mapping_(middle_ + 2 * page_) {
    if (mapping_.data() == nullptr) return;
    if (mprotect(mapping_.data(), page_, PROT_NONE) != 0) return;
    if (mprotect(mapping_.data() + page_ + middle_, page_, PROT_NONE) != 0) return;
    bytes_ = {mapping_.data() + page_ + (at_end ? middle_ - bytes : 0), bytes};
  }
  /// Empty if this system cannot protect memory.
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
  void expect(const std::vector<std::byte>& expected) const {
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), bytes_.begin()));
  }

 private:
  std::size_t page_;
  std::size_t middle_;
  Mapping mapping_;
  std::span<std::byte> bytes_;
};

/// All memory of a call, on islands.
struct Archipelago {
  Island input, values, indices, dense, mask;

  Archipelago(const Matrix& matrix, std::int64_t k, bool at_end)
      : input(matrix.bytes.size(), at_end),
        values(static_cast<std::size_t>(matrix.rows * k) * rtopk::size_of(matrix.dtype), at_end),
        indices(static_cast<std::size_t>(matrix.rows * k) * 8, at_end),
        dense(matrix.bytes.size(), at_end),
        mask(static_cast<std::size_t>(matrix.rows * matrix.cols), at_end) {
    if (usable()) std::memcpy(input.bytes().data(), matrix.bytes.data(), matrix.bytes.size());
  }
  [[nodiscard]] bool usable() const {
    return !input.bytes().empty() && !values.bytes().empty() && !indices.bytes().empty() && !dense.bytes().empty() &&
           !mask.bytes().empty();
  }
};

// A vector load that reaches past the row works by luck almost everywhere. Here it is a segmentation fault.
TEST(Memory, NothingIsTouchedOutsideTheMatrix) {
  Random random(seed() + 60);
  for (const rtopk::DType dtype : kDTypes) {
    for (std::int64_t cols = 1; cols <= 5000; cols += cols < 70 ? 1 : cols / 3) {
      if (left_out(random)) continue;
      const std::int64_t k = random_k(cols, random);
      // Rows shorter than a vector may be read together with the start of the next row, if there is one.
      const std::int64_t rows = cols <= 8 ? random.between(1, 140) : 2;
      const Matrix matrix = make_mixed_matrix(dtype, rows, cols, k, random);
      for (const bool at_end : {true, false}) {
        const Archipelago memory(matrix, k, at_end);
        if (!memory.usable()) GTEST_SKIP() << "memory cannot be protected here";
        for (const Limits& limits : {kLimits[0], kLimits[1], kLimits[4], kLimits[7]}) {
          for (const rtopk::Form form : {rtopk::Form::pairs, rtopk::Form::dense, rtopk::Form::mask}) {
            Call call;
            call.problem = problem_for(matrix, k);
            call.problem.form = form;
            limits.apply(call.problem);
            call.input = memory.input.bytes();
            call.values = memory.values.bytes();
            call.indices = memory.indices.bytes();
            call.dense = memory.dense.bytes();
            call.mask = memory.mask.bytes();
            const Result expected = render(call.problem, matrix, select(call.problem, matrix.bytes.data()));
            for (const Runner* runner : host_runners()) {
              if (!runner->takes(call.problem)) continue;
              runner->activate();
              ASSERT_EQ(runner->run(call), "");
              memory.values.expect(expected.values);
              memory.indices.expect(expected.indices);
              memory.dense.expect(expected.dense);
              memory.mask.expect(expected.mask);
              ASSERT_FALSE(HasFailure()) << runner->name() << ": " << describe(call.problem);
            }
          }
        }
      }
    }
  }
}

// The same for the last segment of a flat input, and for rows that end before their matrix does.
TEST(Memory, NothingIsTouchedOutsideSegments) {
  Random random(seed() + 62);
  for (const rtopk::DType dtype : kDTypes) {
    for (std::int64_t cols = 1; cols <= 5000; cols += cols < 70 ? 1 : cols / 3) {
      if (left_out(random)) continue;
      rtopk::Problem problem;
      problem.dtype = dtype;
      problem.rows = 3;
      problem.cols = cols + random.between(0, 40);  // the longest segment may be shorter
      problem.k = random_k(problem.cols, random);
      problem.magnitude = random.coin();
      RowNumbers numbers;
      numbers.offsets = {0, cols, cols + cols / 2, 2 * cols};
      problem.ragged = {.offsets = rtopk::ArrayType::i32, .elements = 2 * cols};
      const Matrix flat = input_for(problem, random);
      const Result expected = render(problem, flat, select(problem, flat.bytes.data(), numbers), numbers);
      ArrayBytes arrays(problem, numbers);
      for (const bool at_end : {true, false}) {
        const Island input(flat.bytes.size(), at_end);
        if (input.bytes().empty()) GTEST_SKIP() << "memory cannot be protected here";
        std::memcpy(input.bytes().data(), flat.bytes.data(), flat.bytes.size());
        const Island values(expected.values.size(), at_end);
        const Island indices(expected.indices.size(), at_end);
        Call call;
        call.problem = problem;
        call.input = input.bytes();
        call.values = values.bytes();
        call.indices = indices.bytes();
        call.offsets = arrays.offsets;
        for (const Runner* runner : host_runners()) {
          if (!runner->takes(problem)) continue;
          runner->activate();
          ASSERT_EQ(runner->run(call), "");
          values.expect(expected.values);
          indices.expect(expected.indices);
          ASSERT_FALSE(HasFailure()) << runner->name() << ": " << describe(problem);
        }
      }
    }
  }
}

TEST(Memory, OffsetsBeyond32Bits) {
  if (sizeof(void*) < 8) GTEST_SKIP() << "needs 64-bit addresses";
  constexpr std::int64_t kStride = (std::int64_t{1} << 31) + 5;
  constexpr std::int64_t kRows = 3;
  constexpr std::int64_t kCols = 100;
  Random random(seed() + 61);
  const Matrix matrix = make_matrix(rtopk::DType::f32, kRows, kCols, 10, Pattern::normal, random);
  constexpr auto kBytes = static_cast<std::size_t>((kRows - 1) * kStride + kCols) * 4;
  const Mapping mapping(kBytes);
  if (mapping.data() == nullptr) GTEST_SKIP() << "17 GB of address space are not to be had";
  for (std::int64_t row = 0; row < kRows; ++row) {
    std::memcpy(mapping.data() + static_cast<std::size_t>(row * kStride) * 4,
                matrix.bytes.data() + static_cast<std::size_t>(row * kCols) * 4, static_cast<std::size_t>(kCols) * 4);
  }
  for (const Runner* runner : host_runners()) {
    runner->activate();
    for (const Limits& limits : {kLimits[0], kLimits[1], kLimits[4], kLimits[7]}) {
      rtopk::Problem problem = problem_for(matrix, 10);
      limits.apply(problem);
      const Result expected = render(problem, matrix, select(problem, matrix.bytes.data()));
      problem.row_stride = kStride;
      if (!runner->takes(problem)) continue;
      std::vector<std::byte> values(expected.values.size());
      std::vector<std::byte> indices(expected.indices.size());
      Call call;
      call.problem = problem;
      call.input = {mapping.data(), kBytes};
      call.values = values;
      call.indices = indices;
      ASSERT_EQ(runner->run(call), "");
      EXPECT_EQ(values, expected.values);
      EXPECT_EQ(indices, expected.indices);
    }
  }
}

// One row of more than 2^31 elements: zeros, which use no memory, and a few numbers near both ends.
TEST(Memory, RowLongerThan32Bits) {
#if defined(RTOPK_TEST_SANITIZED)
  GTEST_SKIP() << "would take too long in a sanitizer's build";
#endif
  if (!rtopk::build_info().highway) GTEST_SKIP() << "the reference needs 8 bytes of workspace for every column";
  if (scale() < 1.0) GTEST_SKIP() << "RTOPK_TEST_SCALE is below 1";
  constexpr std::int64_t kCols = (std::int64_t{1} << 31) + 1000;
  const Mapping mapping(static_cast<std::size_t>(kCols) * 2);
  if (mapping.data() == nullptr) GTEST_SKIP() << "4 GB of address space are not to be had";
  const auto put = [&](std::int64_t column, double value) {
    const auto bits = static_cast<std::uint16_t>(encode(rtopk::DType::f16, value));
    std::memcpy(mapping.data() + static_cast<std::size_t>(column) * 2, &bits, 2);
  };
  put(5, 1.0);
  put(kCols - 700, 3.0);
  put(kCols - 1, 2.0);
  rtopk::Problem problem;
  problem.rows = 1;
  problem.cols = kCols;
  problem.k = 5;
  problem.dtype = rtopk::DType::f16;
  problem.order = rtopk::Order::by_value;
  host_runners().at(1)->activate();  // the fastest
  rtopk::Plan plan;
  ASSERT_TRUE(rtopk::make_plan(problem, plan).ok());
  if (plan.workspace_bytes > (std::size_t{1} << 32))
    GTEST_SKIP() << "needs " << plan.workspace_bytes << " bytes of workspace";
  std::vector<std::int64_t> indices(5);
  std::vector<std::uint16_t> values(5);
  rtopk::Output output;
  output.values = values.data();
  output.indices = indices.data();
  std::vector<std::byte> workspace(plan.workspace_bytes);
  const rtopk::Status status = rtopk::run(plan, mapping.data(), output, {workspace.data(), workspace.size()});
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(indices, (std::vector<std::int64_t>{kCols - 700, kCols - 1, 5, 0, 1}));
  EXPECT_EQ(values, (std::vector<std::uint16_t>{0x4200, 0x4000, 0x3c00, 0, 0}));
}

}  // namespace
}  // namespace rtopk_test
