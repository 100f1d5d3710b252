// A selection with several of the library's threads that can be repeated and compared without allocating: for forked
// processes and for threads that are interrupted.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include <rtopk/rtopk.hpp>

#include "check.hpp"

namespace rtopk_test {

class SelectedRows {
 public:
  explicit SelectedRows(std::int32_t threads) {
    Random random(seed() + 70);
    // Many elements: plans use several threads only for large problems.
    matrix_ = make_mixed_matrix(rtopk::DType::f32, 2000, 256, 16, random);
    const rtopk::Problem problem = problem_for(matrix_, 16);
    expected_ = render(problem, matrix_, select(problem, matrix_.bytes.data()));
    rtopk::Traits traits;
    traits.threads = threads;
    const rtopk::Status status = rtopk::make_plan(problem, traits, plan_);
    EXPECT_TRUE(status.ok()) << status.text();
    EXPECT_GT(plan_.threads, 1);
    workspace_.resize(plan_.workspace_bytes);
    values_.resize(expected_.values.size());
    indices_.resize(expected_.indices.size());
  }

  /// Selects again. True if the run succeeded and every byte is right.
  [[nodiscard]] bool right(const rtopk::Executor* executor = nullptr) {
    std::fill(values_.begin(), values_.end(), std::byte{0x5a});
    std::fill(indices_.begin(), indices_.end(), std::byte{0x5a});
    rtopk::Output output;
    output.values = values_.data();
    output.indices = indices_.data();
    rtopk::Launch launch;
    launch.executor = executor;
    return rtopk::run(plan_, matrix_.bytes.data(), output, {workspace_.data(), workspace_.size()}, launch).ok() &&
           values_ == expected_.values && indices_ == expected_.indices;
  }

 private:
  Matrix matrix_;
  Result expected_;
  rtopk::Plan plan_;
  std::vector<std::byte> workspace_;
  std::vector<std::byte> values_;
  std::vector<std::byte> indices_;
};

}  // namespace rtopk_test
