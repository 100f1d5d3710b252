// Plans for GPUs from hand-written traits. They need no GPU.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <rtopk/rtopk.hpp>

#include "check.hpp"
#include "cuda_plans.hpp"
#include "runner.hpp"

namespace rtopk_test {
namespace {

constexpr std::int64_t kMaxBlocks = 0x7fffffff;

/// The same selection for `rows` contiguous rows.
Problem problem_like(const Problem& problem, std::int64_t rows) {
  Problem result = tight(problem);
  result.rows = rows;
  return result;
}

/// Problems from one element to more than 2^32, with every type, order and form.
template <typename Visit>
void for_every_problem(Visit visit) {
  for (const std::int64_t rows :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{64}, std::int64_t{1} << 20, (std::int64_t{1} << 33) + 1}) {
    for (const std::int64_t cols : {1,    2,    31,   32,   33,   64,   100,   128,   256,   257,    512,    768,
                                    1024, 1025, 2048, 4096, 5000, 8192, 16384, 20000, 65536, 131072, 1000003}) {
      for (const std::int64_t k :
           {std::int64_t{1}, std::int64_t{8}, std::int64_t{64}, std::int64_t{2048}, cols / 2, cols}) {
        if (k < 1 || k > cols) continue;
        Problem problem = problem_of(rows, cols, k);
        for (const rtopk::DType dtype : kDTypes) {
          problem.dtype = dtype;
          for (const rtopk::Order order : {rtopk::Order::unsorted, rtopk::Order::by_value}) {
            problem.order = order;
            visit(problem);
          }
          problem.order = rtopk::Order::unsorted;
          Problem other = problem;
          other.form = rtopk::Form::dense;
          visit(other);
          other = problem;
          other.max_iter = 4;
          visit(other);
        }
      }
    }
  }
}

std::string outside_the_limits(const Plan& plan, const Traits& traits) {
  if (plan.problem.rows == 0) return "";
  if (plan.threads < 1 || plan.threads > 1024 || plan.threads % 32 != 0) return "threads";
  if (plan.blocks < 1 || plan.blocks > kMaxBlocks) return "blocks";
  if (static_cast<std::int64_t>(plan.shared_bytes) > traits.shared_bytes_per_block) return "shared_bytes";
  if (plan.rows_per_block < 1) return "rows_per_block";
  return "";
}

TEST(CudaPlans, AreMadeForEveryProblemAndKeepToTheDevice) {
  for (const Traits& traits : kGpus) {
    for_every_problem([&traits](const Problem& problem) {
      if (testing::Test::HasFailure()) return;  // one failure is enough
      Plan plan;
      const rtopk::Status status = rtopk::make_plan(problem, traits, plan);
      ASSERT_TRUE(status.ok()) << status.text() << '\n' << describe(problem);
      ASSERT_EQ(plan.problem, problem);
      ASSERT_EQ(outside_the_limits(plan, traits), "") << "sm_" << traits.compute_capability << '\n'
                                                      << rtopk::to_string(plan);
    });
  }
}

TEST(CudaPlans, NeedNoWorkspaceWhereARowFitsOnChip) {
  const Traits h200 = kGpus[2];
  for_every_problem([&h200](const Problem& problem) {
    const std::int64_t row_bytes = problem.cols * static_cast<std::int64_t>(rtopk::size_of(problem.dtype));
    // With fewer rows than fill the device, several blocks may share a row and communicate in the workspace.
    if (row_bytes > 32768 || problem.rows < 1 << 20 || testing::Test::HasFailure()) return;
    // Results are sorted as keys with their indices, which must fit as well.
    const std::int64_t result_bytes = problem.k * (problem.dtype == rtopk::DType::f64 ? 16 : 8);
    if (problem.order == rtopk::Order::by_value && result_bytes > 65536) return;
    Plan plan;
    const rtopk::Status status = rtopk::make_plan(problem, h200, plan);
    ASSERT_TRUE(status.ok()) << status.text() << '\n' << describe(problem);
    ASSERT_EQ(plan.workspace_bytes, 0u) << rtopk::to_string(plan);
  });
}

TEST(CudaPlans, SearchNothingInShortRowsForSmallK) {
  const auto family = [](const Problem& problem) {
    Plan plan;
    const rtopk::Status status = rtopk::make_plan(problem, kGpus[2], plan);
    EXPECT_TRUE(status.ok()) << status.text() << '\n' << describe(problem);
    return plan.family;
  };
  for (const std::int64_t cols : {8, 32, 33, 64, 128, 1000, 1024}) {
    for (const std::int64_t k : {1, 2, 8}) {
      Problem problem = problem_of(1 << 20, cols, k);
      for (const rtopk::DType dtype : {rtopk::DType::f32, rtopk::DType::f16, rtopk::DType::bf16, rtopk::DType::i32}) {
        problem.dtype = dtype;
        EXPECT_EQ(family(problem), rtopk::Family::cuda_tournament) << describe(problem);
      }
      problem.dtype = rtopk::DType::f64;
      EXPECT_EQ(family(problem), cols <= 128 ? rtopk::Family::cuda_tournament : rtopk::Family::cuda_warp)
          << describe(problem);
      problem.dtype = rtopk::DType::f32;
      problem.max_iter = 4;
      EXPECT_EQ(family(problem), rtopk::Family::cuda_tournament) << describe(problem);
      problem.search = rtopk::Search::bisection;
      EXPECT_EQ(family(problem), rtopk::Family::cuda_warp) << describe(problem);
    }
  }
  EXPECT_NE(family(problem_of(1 << 20, 1025, 8)), rtopk::Family::cuda_tournament);
  for (const rtopk::DType dtype : kDTypes) {
    const std::int64_t longest = dtype == rtopk::DType::f64 ? 0 : rtopk::size_of(dtype) == 2 ? 160 : 128;
    for (const std::int64_t cols : {16, 31, 64, 127, 128, 129, 159, 160, 161, 257}) {
      for (const std::int64_t k : {9, 16, 17}) {
        if (k > cols) continue;
        Problem problem = problem_of(1 << 20, cols, k);
        problem.dtype = dtype;
        const bool searched = rtopk::size_of(dtype) == 4 && cols > 64 && cols % 4 == 0;
        EXPECT_EQ(family(problem),
                  k <= 16 && cols <= longest && !searched ? rtopk::Family::cuda_tournament : rtopk::Family::cuda_warp)
            << describe(problem);
      }
    }
  }
}

// Segments, and other general rows, are as short as the matrices that need no search.
TEST(CudaPlans, SearchNothingInShortGeneralRowsForSmallK) {
  const auto family = [](const Problem& problem) {
    Plan plan;
    const rtopk::Status status = rtopk::make_plan(problem, kGpus[2], plan);
    EXPECT_TRUE(status.ok()) << status.text() << '\n' << describe(problem);
    return plan.family;
  };
  for (const rtopk::DType dtype : kDTypes) {
    const std::int64_t few = dtype == rtopk::DType::f64 ? 128 : rtopk::size_of(dtype) == 2 ? 255 : 192;
    const std::int64_t many = dtype == rtopk::DType::f64 ? 0 : rtopk::size_of(dtype) == 2 ? 160 : 128;
    for (const std::int64_t cols : {8, 16, 40, 100, 128, 129, 160, 161, 192, 193, 255, 256, 900}) {
      for (const std::int64_t k : {1, 8, 9, 16, 17}) {
        if (k > cols) continue;
        Problem problem = problem_of(1 << 20, cols, k);
        problem.dtype = dtype;
        problem.ragged.offsets = rtopk::ArrayType::i64;
        problem.ragged.elements = std::int64_t{1} << 30;
        const bool short_enough = cols <= (k <= 8 ? few : k <= 16 ? many : 0);
        EXPECT_EQ(family(problem), short_enough ? rtopk::Family::cuda_tournament : rtopk::Family::cuda_warp)
            << describe(problem);
        problem.ragged = {.lengths = rtopk::ArrayType::i32};
        problem.form = rtopk::Form::mask;
        EXPECT_EQ(family(problem), rtopk::Family::cuda_warp) << describe(problem);
      }
    }
  }
}

// Odd numbers of columns have no alignment that 16-byte copies could use.
TEST(CudaPlans, TakeRowsOffAlignmentWithConfigsOfTheirOwn) {
  for (const rtopk::DType dtype : kDTypes) {
    for (const std::int64_t cols : {61, 97, 201, 443, 701, 951}) {
      Problem problem = problem_of(1 << 18, cols, 20);
      problem.dtype = dtype;
      Plan odd;
      ASSERT_TRUE(rtopk::make_plan(problem, kGpus[2], odd).ok());
      ASSERT_EQ(odd.family, rtopk::Family::cuda_warp) << describe(problem);
      problem.cols = cols / 8 * 8;
      Plan aligned;
      ASSERT_TRUE(rtopk::make_plan(problem, kGpus[2], aligned).ok());
      const int vector = size_of(dtype) == 2 ? 8 : 4;
      EXPECT_EQ(aligned.elements_per_lane % vector, 0) << rtopk::to_string(aligned);
      EXPECT_NE(odd.elements_per_lane % vector, 0) << rtopk::to_string(odd);
      // A lane must not read past the end of a shorter row.
      odd.problem.cols = odd.problem.k = 20;
      if (odd.elements_per_lane > 20) {
        const rtopk::Status refusal = rtopk::run(odd, nullptr, {});
        EXPECT_TRUE(std::string(refusal.text()).starts_with("plan.")) << refusal.text() << rtopk::to_string(odd);
      }
    }
  }
}

TEST(CudaPlans, PadRowsByTwoFifthsAtMost) {
  for (const rtopk::DType dtype : {rtopk::DType::f32, rtopk::DType::f16, rtopk::DType::bf16}) {
    for (std::int64_t cols = 136; cols <= 2048; cols += 8) {
      Problem problem = problem_of(1 << 16, cols, 40);
      problem.dtype = dtype;
      Plan plan;
      ASSERT_TRUE(rtopk::make_plan(problem, kGpus[2], plan).ok());
      ASSERT_EQ(plan.family, rtopk::Family::cuda_warp) << describe(problem);
      const std::int64_t held = std::int64_t{plan.lanes_per_row} * plan.elements_per_lane;
      EXPECT_LE(held * 5, cols * 7) << rtopk::to_string(plan);
      // The paper's passes are compiled for fewer configs, but an early stop does not make them.
      problem.max_iter = 4;
      ASSERT_TRUE(rtopk::make_plan(problem, kGpus[2], plan).ok());
      const std::int64_t stopped = std::int64_t{plan.lanes_per_row} * plan.elements_per_lane;
      EXPECT_EQ(stopped, held) << rtopk::to_string(plan);
    }
  }
}

TEST(CudaPlans, KeepRowsInSharedMemoryWhereTwoFit) {
  const Traits h200 = kGpus[2];
  for (const rtopk::DType dtype : kDTypes) {
    const auto element = static_cast<std::int64_t>(size_of(dtype));
    for (const std::int64_t cols : {16384 / element, 65536 / element, 98304 / element}) {
      for (const std::int64_t k : {std::int64_t{1}, cols / 100, cols / 4, cols / 2}) {
        for (const rtopk::Form form : {rtopk::Form::pairs, rtopk::Form::dense, rtopk::Form::mask}) {
          Problem problem = problem_of(2000, cols, k);
          problem.dtype = dtype;
          problem.form = form;
          Plan plan;
          ASSERT_TRUE(rtopk::make_plan(problem, h200, plan).ok());
          // With half of a row selected the list of results needs room too.
          if (k == cols / 2 && cols == 98304 / element) continue;
          EXPECT_EQ(plan.workspace_bytes, 0u);
          // Of long rows it is enough to keep candidates, if these are few.
          if (form == rtopk::Form::pairs && k <= cols / 100 && element > 2 && cols >= 24576) {
            EXPECT_EQ(plan.family, rtopk::Family::cuda_cluster) << describe(problem);
            continue;
          }
          EXPECT_EQ(plan.family, rtopk::Family::cuda_block) << describe(problem);
          EXPECT_GE(plan.shared_bytes, static_cast<std::size_t>(cols * element));
        }
      }
    }
  }
}

TEST(CudaPlans, CopyNoLongRowElementByElement) {
  for (const rtopk::DType dtype : {rtopk::DType::f16, rtopk::DType::bf16}) {
    const auto family = [dtype](std::int64_t cols) {
      Problem problem = problem_of(100000, cols, 20);
      problem.dtype = dtype;
      Plan plan;
      EXPECT_TRUE(rtopk::make_plan(problem, kGpus[2], plan).ok()) << describe(problem);
      return plan.family;
    };
    EXPECT_EQ(family(1917), rtopk::Family::cuda_warp);
    EXPECT_EQ(family(1920), rtopk::Family::cuda_warp);
    EXPECT_EQ(family(2047), rtopk::Family::cuda_block);
  }
}

TEST(CudaPlans, FilterLongRowsOfWhichLittleIsSelected) {
  const Traits h200 = kGpus[2];
  const Plan plan = plan_of(problem_of(65536, 4096, 64), h200);
  EXPECT_EQ(plan.family, rtopk::Family::cuda_filter);
  EXPECT_EQ(plan.workspace_bytes, 0u);
  // Few rows for each warp, and rows off alignment.
  EXPECT_EQ(plan_of(problem_of(8192, 4096, 64), h200).family, rtopk::Family::cuda_block);
  EXPECT_EQ(plan_of(problem_of(65536, 4097, 64), h200).family, rtopk::Family::cuda_block);
  EXPECT_EQ(plan_of(problem_of(4096, 131072, 1024), h200).family, rtopk::Family::cuda_filter);
  EXPECT_EQ(plan_of(problem_of(4096, 131072, 2048), h200).family, rtopk::Family::cuda_filter);
  EXPECT_EQ(plan_of(problem_of(2000, 131072, 2048), h200).family, rtopk::Family::cuda_cluster);
  // One warp per row would leave most of the device idle.
  EXPECT_NE(plan_of(problem_of(64, 131072, 64), h200).family, rtopk::Family::cuda_filter);
  // A filter is not worth it if half of the row is selected.
  EXPECT_NE(plan_of(problem_of(65536, 131072, 65536), h200).family, rtopk::Family::cuda_filter);
  for (const rtopk::Form form : {rtopk::Form::dense, rtopk::Form::mask}) {
    for (const rtopk::DType dtype : kDTypes) {
      Problem whole = problem_of(65536, 65536, 64);
      whole.form = form;
      whole.dtype = dtype;
      const Plan filter = plan_of(whole, h200);
      EXPECT_EQ(filter.family, rtopk::Family::cuda_filter) << describe(whole);
      EXPECT_EQ(filter.workspace_bytes, 0u);
    }
  }
}

// An early-stopped selection of a long row does not read it once for each pass, unless asked to.
TEST(CudaPlans, StopEarlyWithoutPasses) {
  for (const rtopk::DType dtype : kDTypes) {
    for (const std::int64_t rows : {1, 100, 100000}) {
      for (const std::int64_t cols : {3000, 20000, 100000}) {
        Problem problem = problem_of(rows, cols, 32);
        problem.dtype = dtype;
        problem.max_iter = 4;
        const bool reads_once = rows > 1 && cols == 100000;
        EXPECT_EQ(plan_of(problem, kGpus[2]).family,
                  reads_once ? rtopk::Family::cuda_cluster : rtopk::Family::cuda_block)
            << describe(problem);
        problem.search = rtopk::Search::bisection;
        EXPECT_EQ(plan_of(problem, kGpus[2]).family, rtopk::Family::cuda_scan) << describe(problem);
      }
    }
  }
}

TEST(CudaPlans, StopEarlyWhereAnOddRowLies) {
  const Traits gpu = kGpus[2];
  for (const std::int64_t cols : {257, 301, 1319, 1681}) {
    Problem problem = problem_of(100000, cols, 9);
    problem.dtype = rtopk::DType::bf16;
    const Plan exact = plan_of(problem, gpu);
    problem.max_iter = 4;
    const Plan early = plan_of(problem, gpu);
    EXPECT_EQ(early.elements_per_lane, exact.elements_per_lane) << cols;
    problem.search = rtopk::Search::bisection;
    EXPECT_NE(plan_of(problem, gpu).elements_per_lane, exact.elements_per_lane) << cols;
  }
}

TEST(CudaPlans, FewResultsAreSortedWithoutAnotherPass) {
  const auto expect = [](Problem problem, rtopk::Family family, std::int64_t most) {
    // Values only: a separate kernel would need the indices in the workspace.
    problem.order = rtopk::Order::by_value;
    problem.indices = false;
    problem.k = most;
    Plan plan;
    ASSERT_TRUE(rtopk::make_plan(problem, kGpus[2], plan).ok());
    EXPECT_EQ(plan.family, family);
    EXPECT_EQ(plan.workspace_bytes, 0u) << describe(problem);
    problem.k = most + 1;
    ASSERT_TRUE(rtopk::make_plan(problem, kGpus[2], plan).ok());
    EXPECT_EQ(plan.family, family);
    EXPECT_GE(plan.workspace_bytes, static_cast<std::size_t>(problem.rows * problem.k * 4)) << describe(problem);
  };
  for (const rtopk::DType dtype : kDTypes) {
    Problem problem = problem_of(65536, 65536, 1);
    problem.dtype = dtype;
    expect(problem, rtopk::Family::cuda_filter, 128);
    problem.cols = 4097;
    expect(problem, rtopk::Family::cuda_block, dtype == rtopk::DType::f64 ? 1 : 128);
  }
}

TEST(CudaPlans, GatherColumnsInChunksOfConstantSize) {
  constexpr std::size_t kChunk = std::size_t{24} << 20;
  for (const std::int64_t cols : {1, 100, 4096, 131072, 1 << 20}) {
    for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{1000}, std::int64_t{1} << 33}) {
      for (const rtopk::DType dtype : kDTypes) {
        Problem problem = problem_of(rows, cols, std::min<std::int64_t>(cols, 64));
        problem.dtype = dtype;
        Plan plan;
        ASSERT_TRUE(rtopk::make_plan(problem, kGpus[2], plan).ok());
        ASSERT_EQ(plan.chunk_rows, 0);
        problem.row_stride = 1;
        problem.element_stride = std::max<std::int64_t>(rows, 2);
        ASSERT_TRUE(rtopk::make_plan(problem, kGpus[2], plan).ok()) << describe(problem);
        ASSERT_EQ(plan.problem, problem);
        ASSERT_GE(plan.chunk_rows, 1);
        ASSERT_LE(plan.chunk_rows, rows);
        // A chunk has the plan of contiguous rows.
        Plan chunk;
        ASSERT_TRUE(rtopk::make_plan(problem_like(problem, plan.chunk_rows), kGpus[2], chunk).ok());
        const std::size_t bytes = static_cast<std::size_t>(plan.chunk_rows * cols) * rtopk::size_of(dtype);
        ASSERT_LE(bytes, std::max(kChunk, static_cast<std::size_t>(cols) * 32));
        ASSERT_LE(plan.workspace_bytes, bytes + chunk.workspace_bytes + 1024);
        chunk.problem = problem;
        chunk.chunk_rows = plan.chunk_rows;
        chunk.workspace_bytes = plan.workspace_bytes;
        ASSERT_EQ(chunk, plan) << rtopk::to_string(plan);
        // Chunks have about the same size.
        const std::int64_t chunks = (rows - 1) / plan.chunk_rows + 1;
        ASSERT_GT(rows - (chunks - 1) * plan.chunk_rows, plan.chunk_rows - chunks);
      }
    }
  }
}

TEST(CudaPlans, GatherGroupsUnlessThereIsOne) {
  Problem problem = problem_of(1000, 256, 32);
  problem.group_rows = 100;
  problem.group_stride = 100 * 256 + 8;
  Plan plan;
  ASSERT_TRUE(rtopk::make_plan(problem, kGpus[2], plan).ok());
  EXPECT_EQ(plan.chunk_rows, 1000);
  // Plans are plain values: run() must reject a plan that gathers contiguous rows or that does not gather strided ones.
  plan.chunk_rows = 0;
  EXPECT_EQ(rtopk::run(plan, nullptr, {}).code(), rtopk::StatusCode::invalid_argument);
  plan.chunk_rows = 1001;
  EXPECT_EQ(rtopk::run(plan, nullptr, {}).code(), rtopk::StatusCode::invalid_argument);
  problem.group_rows = 1000;
  ASSERT_TRUE(rtopk::make_plan(problem, kGpus[2], plan).ok());
  EXPECT_EQ(plan.chunk_rows, 0);
  EXPECT_EQ(plan.workspace_bytes, 0u);
}

TEST(CudaPlans, AreRefusedForADeviceThatIsNotTheTraits) {
  Plan plan;
  const rtopk::Status status = rtopk::make_plan(problem_of(10, 10, 2), Traits{}, plan);
  EXPECT_EQ(status.code(), rtopk::StatusCode::invalid_argument) << status.text();
}

using rtopk::Family;

TEST(CudaPlans, OfAFamilyThatIsAskedForAreSoundOrSayWhatItTakes) {
  const Traits h200 = kGpus[2];
  const std::vector<Family> families = families_of(rtopk::DeviceKind::cuda);
  std::map<Family, int> made;
  for_every_problem([&](const Problem& problem) {
    for (const Family family : families) {
      Plan plan;
      const rtopk::Status status = rtopk::make_plan(problem, h200, family, plan);
      if (!status.ok()) {
        const std::string text = status.text();
        ASSERT_TRUE(text.starts_with(std::string("family is ") + rtopk::name(family)) || text.starts_with("rows"))
            << text;
        continue;
      }
      ++made[family];
      ASSERT_EQ(plan.family, family);
      // run() accepts every plan of make_plan: the only error is the missing memory.
      const rtopk::Status refusal = rtopk::run(plan, nullptr, {});
      ASSERT_FALSE(std::string(refusal.text()).starts_with("plan.")) << refusal.text() << rtopk::to_string(plan);
    }
  });
  EXPECT_EQ(made.size(), families.size());
}

TEST(CudaPlans, SayWhyAFamilyCannotTakeAProblem) {
  const auto refusal = [](const Problem& problem, Family family) {
    Plan plan;
    return std::string(rtopk::make_plan(problem, kGpus[2], family, plan).text());
  };
  EXPECT_EQ(refusal(problem_of(100, 64, 17), Family::cuda_tournament),
            "family is cuda_tournament, with 64 columns and k = 17 of f32; it takes k up to 8 and rows of up to 1024 "
            "columns (128 of f64), or k up to 16 and rows of up to 128 (160 of 16 bits, none of f64)");
  EXPECT_EQ(refusal(problem_of(100, 64, 8), Family::cuda_scan),
            "family is cuda_scan; accepted for this search on a GPU: cuda_warp, cuda_tournament, cuda_block, "
            "cuda_filter, cuda_cluster or cuda_radix");
  EXPECT_EQ(refusal(problem_of(100, 64, 8), Family::reference),
            "family is reference; accepted for this search on a GPU: cuda_warp, cuda_tournament, cuda_block, "
            "cuda_filter, cuda_cluster or cuda_radix");
  Problem stopped = problem_of(100, 64, 8);
  stopped.max_iter = 4;
  EXPECT_EQ(refusal(stopped, Family::cuda_radix),
            "family is cuda_radix; accepted for this search on a GPU: cuda_warp, cuda_tournament, cuda_block, "
            "cuda_cluster or "
            "cuda_scan");
  stopped.search = rtopk::Search::bisection;
  EXPECT_EQ(refusal(stopped, Family::cuda_block),
            "family is cuda_block; accepted for this search on a GPU: cuda_warp or cuda_scan");
  Problem ragged = problem_of(100, 2000, 8);
  ragged.ragged.lengths = rtopk::ArrayType::i32;
  EXPECT_EQ(
      refusal(ragged, Family::cuda_warp),
      "family is cuda_warp, with 2000 columns and k = 8 of f32; it takes such rows of up to 1984 columns (1920 of "
      "16 bits, 960 of f64)");
}

TEST(CudaPlans, OfCudaWarpForGeneralRowsEndWhereItsTextSays) {
  const auto takes = [](DType dtype, std::int64_t cols) {
    Problem problem = problem_of(100, cols, 8);
    problem.dtype = dtype;
    problem.ragged.lengths = rtopk::ArrayType::i32;
    Plan plan;
    return rtopk::make_plan(problem, kGpus[2], Family::cuda_warp, plan).ok();
  };
  for (const auto& [dtype, most] :
       {std::pair{DType::f32, 1984}, {DType::i32, 1984}, {DType::f64, 960}, {DType::f16, 1920}, {DType::bf16, 1920}}) {
    EXPECT_TRUE(takes(dtype, most)) << rtopk::name(dtype);
    EXPECT_FALSE(takes(dtype, most + 1)) << rtopk::name(dtype);
  }
}

}  // namespace
}  // namespace rtopk_test
