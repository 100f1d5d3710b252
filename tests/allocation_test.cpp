// The contract says that run() allocates nothing. This program counts every allocation, from C++ and from C.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <rtopk/gnn/aggregate.hpp>
#include <rtopk/gnn/product.hpp>

#include "check.hpp"
#include "conformance.hpp"
#include "executors.hpp"
#include "general_rows.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RTOPK_TEST_OTHER_ALLOCATOR 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define RTOPK_TEST_OTHER_ALLOCATOR 1
#endif
#endif
#if !defined(__GLIBC__)
#define RTOPK_TEST_OTHER_ALLOCATOR 1
#endif

namespace {
std::atomic<std::int64_t> allocations{0};
}

#if !defined(RTOPK_TEST_OTHER_ALLOCATOR)
// The names that glibc gives its own functions, for programs that replace them.
extern "C" {
void* __libc_malloc(std::size_t bytes);                           // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(std::size_t count, std::size_t bytes);        // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* memory, std::size_t bytes);            // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(std::size_t alignment, std::size_t bytes);  // NOLINT(bugprone-reserved-identifier)

void* malloc(std::size_t bytes) noexcept {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) noexcept {
  ++allocations;
  return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept { return memalign(alignment, bytes); }
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) noexcept {
  *memory = memalign(alignment, bytes);
  return *memory != nullptr ? 0 : 12;  // ENOMEM
}
}
#endif

namespace rtopk_test {
namespace {

class Allocation : public DTypeTest {};

/// Number of allocator calls of one run.
std::int64_t allocations_of(const rtopk::Problem& problem, const Matrix& matrix, const RowNumbers& numbers,
                            const rtopk::Executor& executor) {
  rtopk::Plan plan;
  EXPECT_TRUE(rtopk::make_plan(problem, plan).ok());
  std::vector<std::byte> workspace(plan.workspace_bytes);
  Result room = render(problem, matrix, select(problem, matrix.bytes.data(), numbers), numbers);
  const ArrayBytes arrays(problem, numbers);
  rtopk::Output output;
  output.values = room.values.data();
  output.indices = room.indices.data();
  output.dense = room.dense.data();
  output.mask = reinterpret_cast<std::uint8_t*>(room.mask.data());
  output.passes = room.passes.data();
  output.thresholds = room.thresholds.data();
  rtopk::Launch launch;
  launch.executor = &executor;
  const std::int64_t before = allocations.load();
  const rtopk::Status status =
      rtopk::run(plan, matrix.bytes.data(), output, {workspace.data(), workspace.size()}, launch, arrays.view());
  const std::int64_t after = allocations.load();
  EXPECT_TRUE(status.ok()) << status.text();
  return after - before;
}

TEST_P(Allocation, NoneDuringARun) {
#if defined(RTOPK_TEST_OTHER_ALLOCATOR)
  GTEST_SKIP() << "the allocator of this build cannot be counted";
#endif
  const std::int64_t before = allocations.load();
  std::free(std::malloc(1000));
  ASSERT_GT(allocations.load(), before) << "the allocator is not counted";
  Random random = random_for(70);
  const rtopk::Executor here = backwards();
  for (const std::int64_t cols : {40, 1000, 50000}) {
    const Matrix matrix = make_mixed_matrix(GetParam(), 3, cols, 20, random);
    for (const Shape& shape : shapes_for(cols)) {
      rtopk::Problem problem = problem_for(matrix, 20);
      problem.direction = random.pick(kDirections);
      problem.passes = true;
      random.pick(kLimits).apply(problem);
      shape.apply(problem);
      // On a new thread: also counts what is allocated once per thread.
      std::int64_t counted = -1;
      std::thread([&] { counted = allocations_of(problem, matrix, {}, here); }).join();
      ASSERT_EQ(counted, 0) << describe(problem);
      RowNumbers numbers;
      generalise(problem, numbers, random);
      const Matrix general = input_for(problem, random);
      std::thread([&] { counted = allocations_of(problem, general, numbers, here); }).join();
      ASSERT_EQ(counted, 0) << describe(problem);
    }
  }
}

TEST(AllocationOfGraphs, NoneDuringARun) {
#if defined(RTOPK_TEST_OTHER_ALLOCATOR)
  GTEST_SKIP() << "the allocator of this build cannot be counted";
#endif
  // Zeros are a valid input: a graph without edges, selectors and values.
  alignas(64) static std::byte memory[6][65536];
  const auto floats = [](int i) { return reinterpret_cast<float*>(memory[i]); };
  const rtopk::Executor here = backwards();
  rtopk::Launch launch;
  launch.executor = &here;
  const auto expect_none = [](const auto& run) {
    std::int64_t counted = -1;
    std::thread([&] {
      const std::int64_t before = allocations.load();
      const rtopk::Status status = run();
      counted = allocations.load() - before;
      EXPECT_TRUE(status.ok()) << status.text();
    }).join();
    EXPECT_EQ(counted, 0);
  };
  for (const rtopk::gnn::AggregationTerm term :
       {rtopk::gnn::AggregationTerm::forward, rtopk::gnn::AggregationTerm::backward}) {
    rtopk::gnn::AggregationPlan plan;
    const rtopk::gnn::Aggregation problem{.term = term, .rows = 50, .nodes = 40, .edges = 1000, .cols = 64, .k = 8};
    ASSERT_TRUE(rtopk::gnn::make_plan(problem, {.threads = 3}, plan).ok());
    std::vector<std::byte> workspace(plan.workspace_bytes);
    const rtopk::gnn::Graph graph{memory[0], memory[1]};
    const rtopk::gnn::AggregationCall call{.graph = graph,
                                           .transposed = graph,
                                           .values = memory[2],
                                           .selectors = memory[3],
                                           .gradient = memory[4],
                                           .result = memory[5]};
    expect_none([&] { return rtopk::gnn::run(plan, call, {workspace.data(), workspace.size()}, launch); });
  }
  rtopk::gnn::TranspositionPlan transposition;
  ASSERT_TRUE(
      rtopk::gnn::make_plan(rtopk::gnn::Transposition{.rows = 50, .nodes = 40, .edges = 1000}, transposition).ok());
  expect_none([&] { return rtopk::gnn::run(transposition, {memory[0], memory[1]}, {memory[2], memory[3]}); });
  for (const rtopk::gnn::ProductTerm term : {rtopk::gnn::ProductTerm::product, rtopk::gnn::ProductTerm::values_gradient,
                                             rtopk::gnn::ProductTerm::matrix_gradient}) {
    rtopk::gnn::ProductPlan plan;
    const rtopk::gnn::Product problem{.term = term, .rows = 100, .cols = 64, .k = 8, .width = 100};
    ASSERT_TRUE(rtopk::gnn::make_plan(problem, {.threads = 3}, plan).ok());
    const rtopk::gnn::ProductCall call{floats(0), memory[1], floats(2), floats(3), floats(4)};
    expect_none([&] { return rtopk::gnn::run(plan, call, {}, launch); });
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, Allocation, testing::ValuesIn(kDTypes), dtype_name);

}  // namespace
}  // namespace rtopk_test
