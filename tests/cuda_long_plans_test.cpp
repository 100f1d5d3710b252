// Plans of long rows: how many blocks share one, and what fits on a multiprocessor. They need no GPU.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include <rtopk/rtopk.hpp>

#include "cuda_plans.hpp"
#include "plan/select/tuning_bracket.hpp"

namespace rtopk_test {
namespace {

TEST(CudaPlans, GiveFewLongRowsSeveralBlocksEach) {
  const Traits h200 = kGpus[2];
  for (const auto& [rows, cols, k, parts, threads] : {std::array<std::int64_t, 5>{64, 131072, 64, 4, 256},
                                                      {64, 131072, 2048, 4, 256},
                                                      {132, 32768, 64, 2, 256},
                                                      {256, 65536, 64, 1, 256},
                                                      {256, 131072, 2048, 1, 512},
                                                      {1024, 131072, 64, 1, 512}}) {
    const Plan plan = plan_of(problem_of(rows, cols, k), h200);
    EXPECT_EQ(plan.family, rtopk::Family::cuda_cluster) << rtopk::to_string(plan);
    EXPECT_EQ(plan.parts, parts) << rtopk::to_string(plan);
    EXPECT_EQ(plan.threads, threads) << rtopk::to_string(plan);
    EXPECT_EQ(plan.blocks, rows * parts) << rtopk::to_string(plan);
    EXPECT_EQ(plan.workspace_bytes, 0u);
  }
  // These blocks also write whole rows.
  Problem dense = problem_of(64, 131072, 64);
  dense.form = rtopk::Form::dense;
  EXPECT_EQ(plan_of(dense, h200).family, rtopk::Family::cuda_cluster);
  // Clusters exist since sm_90.
  EXPECT_EQ(plan_of(problem_of(64, 131072, 64), kGpus[0]).parts, 1);
  // Eight blocks would take too long for one row of this length.
  EXPECT_EQ(plan_of(problem_of(1, 1 << 27, 64), h200).family, rtopk::Family::cuda_radix);
}

// Rows are copied to the workspace a chunk at a time. A smaller one has few rows, for which more candidates are planned;
// the list of many rows does for them, too.
TEST(CudaPlans, ChunksOfManyRowsMayBeSmaller) {
  Problem problem = problem_of(5768, 4362, 674);
  problem.dtype = DType::bf16;
  problem.element_stride = 2;
  Plan plan;
  ASSERT_TRUE(rtopk::make_plan(problem, kGpus[2], rtopk::Family::cuda_cluster, plan).ok());
  ASSERT_GT(plan.chunk_rows, 2048);
  // The plan is checked first, then the pointers.
  const auto error_of = [](const Plan& changed) { return std::string(rtopk::run(changed, nullptr, {}).text()); };
  for (const std::int64_t rows : {std::int64_t{2048}, std::int64_t{1}}) {
    Plan smaller = plan;
    smaller.chunk_rows = rows;
    smaller.blocks = rows * plan.parts;
    EXPECT_EQ(error_of(smaller).rfind("input is null", 0), 0u) << error_of(smaller);
    smaller.shared_bytes -= 1024;
    EXPECT_EQ(error_of(smaller).rfind("plan.shared_bytes is", 0), 0u) << error_of(smaller);
  }
}

// The list of candidates gets the room that is left, but not that of another block.
TEST(CudaPlans, TwoBlocksOfLongRowsFit) {
  constexpr std::int64_t kMultiprocessor = std::int64_t{228} * 1024;
  constexpr std::int64_t kSystem = 1024;
  constexpr std::int64_t kOwn = 1024;  // at most, of general rows
  Problem problem = problem_of(256, 131072, 512);
  for (const bool general : {false, true}) {
    problem.magnitude = general;
    const Plan plan = plan_of(problem, kGpus[2]);
    EXPECT_EQ(plan.family, rtopk::Family::cuda_cluster) << rtopk::to_string(plan);
    const std::int64_t block = static_cast<std::int64_t>(plan.shared_bytes) + kSystem + (general ? kOwn : 0);
    EXPECT_LE(2 * block, kMultiprocessor) << rtopk::to_string(plan);
    EXPECT_GT(3 * block, kMultiprocessor) << rtopk::to_string(plan);
  }
}

TEST(CudaPlans, ManyBlocksOfLongRowsFitIfRowsAreMany) {
  constexpr std::int64_t kMultiprocessor = std::int64_t{228} * 1024;
  constexpr std::int64_t kSystem = 1024;
  for (const auto& [k, blocks] : {std::array<std::int64_t, 2>{512, 5}, {1024, 5}, {2048, 4}}) {
    Problem problem = problem_of(4096, 65536, k);
    problem.dtype = DType::bf16;
    const Plan plan = plan_of(problem, kGpus[2]);
    EXPECT_EQ(plan.family, rtopk::Family::cuda_cluster) << rtopk::to_string(plan);
    EXPECT_GE(kMultiprocessor / (static_cast<std::int64_t>(plan.shared_bytes) + kSystem), blocks)
        << rtopk::to_string(plan);
  }
}

TEST(CudaPlans, KeepRowsInSeveralBlocksIfMuchIsSelected) {
  const Traits h200 = kGpus[2];
  for (const auto& [rows, cols, k, parts] : {std::array<std::int64_t, 4>{1, 131072, 1024, 8},
                                             {64, 32768, 1024, 1},
                                             {64, 50000, 1024, 4},
                                             {64, 131072, 16384, 8},
                                             {1342, 49000, 24500, 2},
                                             {64, 131072, 65536, 8}}) {
    const Plan plan = plan_of(problem_of(rows, cols, k), h200);
    EXPECT_EQ(plan.family, rtopk::Family::cuda_block) << rtopk::to_string(plan);
    EXPECT_EQ(plan.parts, parts) << rtopk::to_string(plan);
    EXPECT_EQ(plan.blocks, rows * parts) << rtopk::to_string(plan);
    EXPECT_EQ(plan.workspace_bytes, 0u);
  }
  // One block has room for the row, but not for its candidates in registers.
  Problem narrow = problem_of(64, 32768, 2048);
  narrow.dtype = rtopk::DType::bf16;
  EXPECT_EQ(plan_of(narrow, h200).parts, 4);
  // Results of several blocks are sorted afterwards.
  Problem sorted = problem_of(1, 131072, 1024);
  sorted.order = rtopk::Order::by_value;
  EXPECT_EQ(plan_of(sorted, h200).family, rtopk::Family::cuda_block);
  // Clusters exist since sm_90; and the longest rows do not fit into eight blocks.
  EXPECT_EQ(plan_of(problem_of(64, 131072, 65536), kGpus[0]).family, rtopk::Family::cuda_radix);
  EXPECT_EQ(plan_of(problem_of(64, 1 << 20, 1 << 19), h200).family, rtopk::Family::cuda_radix);
}

TEST(CudaPlans, ReadRowsTwiceIfMuchIsSelectedFromMany) {
  constexpr std::int64_t kMultiprocessor = std::int64_t{228} * 1024;
  constexpr std::int64_t kOfBlock = 2048;  // for the system, and what is not dynamic
  const Traits h200 = kGpus[2];
  for (const auto& [cols, dtype] : {std::pair{65536, rtopk::DType::f32},
                                    {100000, rtopk::DType::f32},
                                    {100000, rtopk::DType::bf16},
                                    {100000, rtopk::DType::i32}}) {
    Problem problem = problem_of(2684, cols, cols / 4);
    problem.dtype = dtype;
    const Plan plan = plan_of(problem, h200);
    EXPECT_EQ(plan.family, rtopk::Family::cuda_radix) << rtopk::to_string(plan);
    EXPECT_EQ(plan.parts, 1);
    EXPECT_EQ(plan.blocks, 2684);
    // Two blocks fit on a multiprocessor, and leave nothing of its memory.
    const std::int64_t block = static_cast<std::int64_t>(plan.shared_bytes) + kOfBlock;
    EXPECT_LE(2 * block, kMultiprocessor) << rtopk::to_string(plan);
    EXPECT_GT(2 * block, kMultiprocessor - 4096) << rtopk::to_string(plan);
  }
  // One block with more threads, where the list takes more than half.
  const Plan long_rows = plan_of(problem_of(1000, 300000, 100000), h200);
  EXPECT_GT(long_rows.threads, plan_of(problem_of(1000, 100000, 30000), h200).threads) << rtopk::to_string(long_rows);
  // Rows of 16 bits that two blocks share; f64, which was not measured; few rows.
  Problem narrow = problem_of(4096, 65536, 16384);
  narrow.dtype = rtopk::DType::bf16;
  EXPECT_EQ(plan_of(narrow, h200).family, rtopk::Family::cuda_block);
  narrow.dtype = rtopk::DType::f64;
  EXPECT_EQ(plan_of(narrow, h200).family, rtopk::Family::cuda_block);
  EXPECT_EQ(plan_of(problem_of(64, 100000, 25000), h200).family, rtopk::Family::cuda_block);
}

Plan radix_plan_of(const Problem& problem, const Traits& traits) {
  Plan plan;
  EXPECT_TRUE(rtopk::make_plan(problem, traits, rtopk::Family::cuda_radix, plan).ok());
  return plan;
}

// As the launch decides it.
template <int kBytes>
bool reads_twice(const Plan& plan) {
  const auto room = static_cast<std::int64_t>(plan.shared_bytes);
  const Problem& problem = plan.problem;
  const auto layout = rtopk::cuda::BracketConfig<kBytes>::layout(problem.cols, problem.k, plan.threads, room);
  return plan.parts == 1 && rtopk::cuda::takes_bracket(plan) && layout.capacity > 0 && layout.shared_bytes <= room;
}

template <int kBytes>
std::int64_t expect_brackets_fit(DType dtype, const Traits& traits) {
  using Config = rtopk::cuda::BracketConfig<kBytes>;
  std::int64_t number = 0;
  for (std::int64_t cols = 511; cols < 5'000'000; cols += cols / 3) {
    for (const std::int64_t divisor : {cols, cols / 30 + 1, std::int64_t{8}, std::int64_t{2}, std::int64_t{1}}) {
      Problem problem = problem_of(4096, cols, cols / divisor);
      problem.dtype = dtype;
      const Plan plan = radix_plan_of(problem, traits);
      if (!reads_twice<kBytes>(plan)) continue;
      ++number;
      const auto room = static_cast<std::int64_t>(plan.shared_bytes);
      const auto layout = Config::layout(cols, problem.k, plan.threads, room);
      EXPECT_LE(room + rtopk::cuda::kBracketStaticBytes, traits.shared_bytes_per_block) << rtopk::to_string(plan);
      EXPECT_GE(layout.kept, 0);
      EXPECT_LE(layout.kept, layout.stretches);
      EXPECT_LE(layout.kept_at + std::int64_t{layout.kept} * Config::kStretch * kBytes, room) << rtopk::to_string(plan);
      EXPECT_LE(Config::kStateBytes + std::int64_t{layout.capacity} * kBytes, layout.stretches_at);
      EXPECT_LT(layout.better_rank, layout.worse_rank);
    }
  }
  return number;
}

TEST(CudaPlans, BracketsFitOnEveryGpu) {
  const Traits least = gpu(80, 1, 49152);  // the least that is accepted
  for (const Traits& traits : {kGpus[0], kGpus[1], kGpus[2], kGpus[3], least}) {
    EXPECT_GT(expect_brackets_fit<2>(DType::bf16, traits), 30);
    EXPECT_GT(expect_brackets_fit<4>(DType::f32, traits), 30);
    EXPECT_GT(expect_brackets_fit<8>(DType::f64, traits), 20);
  }
}

// docs/kernels.md says so.
TEST(CudaPlans, BracketsHaveRoomForRowsOfHundredsOfThousands) {
  const auto takes = [](std::int64_t cols, std::int64_t k) {
    return reads_twice<4>(radix_plan_of(problem_of(4096, cols, k), kGpus[2]));
  };
  EXPECT_TRUE(takes(370'000, 185'000));
  EXPECT_FALSE(takes(380'000, 190'000));
  EXPECT_TRUE(takes(510'000, 63'750));
  EXPECT_FALSE(takes(520'000, 65'000));
  EXPECT_TRUE(takes(4'000'000, 1));
  EXPECT_FALSE(takes(4'100'000, 1));
}

}  // namespace
}  // namespace rtopk_test
