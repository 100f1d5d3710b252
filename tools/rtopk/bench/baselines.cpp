#include "bench/baselines.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <type_traits>
#include <vector>

#include <rtopk/half.hpp>

namespace rtopk::tool {
namespace {

constexpr double time_budget_s = 0.4;
constexpr std::int64_t batch_elements = std::int64_t{1} << 19;

template <DType dtype>
auto element(const void* row, std::int64_t i) {
  if constexpr (dtype == DType::f32) return static_cast<const float*>(row)[i];
  if constexpr (dtype == DType::f16) return float_from_f16(static_cast<const std::uint16_t*>(row)[i]);
  if constexpr (dtype == DType::bf16) return float_from_bf16(static_cast<const std::uint16_t*>(row)[i]);
  if constexpr (dtype == DType::f64) return static_cast<const double*>(row)[i];
  if constexpr (dtype == DType::i32) return static_cast<const std::int32_t*>(row)[i];
}

template <DType dtype>
NthElementTime time_rows(const Problem& problem, const void* input, ThreadPool& pool) {
  using Value = decltype(element<dtype>(nullptr, 0));
  struct Pair {
    Value value;
    std::int32_t index;
  };
  std::atomic<std::int64_t> sink{0};  // keeps the compiler from removing the work
  const auto select_rows = [&](std::int64_t begin, std::int64_t end) {
    std::vector<Pair> pairs(static_cast<std::size_t>(problem.cols));
    std::int64_t sum = 0;
    for (std::int64_t row = begin; row < end; ++row) {
      const auto* elements =
          static_cast<const std::byte*>(input) + static_cast<std::size_t>(row * problem.cols) * size_of(dtype);
      for (std::int64_t i = 0; i < problem.cols; ++i) {
        pairs[static_cast<std::size_t>(i)] = {element<dtype>(elements, i), static_cast<std::int32_t>(i)};
      }
      const auto kth = pairs.begin() + (problem.k - 1);
      if (problem.direction == Direction::largest) {
        std::nth_element(pairs.begin(), kth, pairs.end(),
                         [](const Pair& a, const Pair& b) { return a.value > b.value; });
      } else {
        std::nth_element(pairs.begin(), kth, pairs.end(),
                         [](const Pair& a, const Pair& b) { return a.value < b.value; });
      }
      sum += kth->index;
    }
    sink += sum;
  };

  const std::int64_t tasks = pool.threads();
  const std::int64_t batch = std::max(tasks, batch_elements / problem.cols);
  const auto start = std::chrono::steady_clock::now();
  double elapsed = 0.0;
  std::int64_t done = 0;
  while (done < problem.rows && elapsed < time_budget_s) {
    const std::int64_t rows = std::min(batch, problem.rows - done);
    pool.run(tasks,
             [&](std::int64_t task) { select_rows(done + rows * task / tasks, done + rows * (task + 1) / tasks); });
    done += rows;
    elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  if (done == 0) return {};
  return {.seconds = elapsed * static_cast<double>(problem.rows) / static_cast<double>(done), .rows_timed = done};
}

}  // namespace

NthElementTime time_nth_element(const Problem& problem, const void* input, ThreadPool& pool) {
  switch (problem.dtype) {
    case DType::f32: return time_rows<DType::f32>(problem, input, pool);
    case DType::f16: return time_rows<DType::f16>(problem, input, pool);
    case DType::bf16: return time_rows<DType::bf16>(problem, input, pool);
    case DType::f64: return time_rows<DType::f64>(problem, input, pool);
    case DType::i32: return time_rows<DType::i32>(problem, input, pool);
  }
  return {};
}

}  // namespace rtopk::tool
