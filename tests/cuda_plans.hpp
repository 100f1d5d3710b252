// Plans for GPUs from hand-written traits, for tests that need no GPU.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include <rtopk/rtopk.hpp>

namespace rtopk_test {

using rtopk::DType;
using rtopk::Plan;
using rtopk::Problem;
using rtopk::Traits;

inline Traits gpu(std::int32_t compute_capability, std::int32_t multiprocessors, std::int64_t shared_bytes_per_block) {
  Traits traits;
  traits.device = {rtopk::DeviceKind::cuda, 0};
  traits.compute_capability = compute_capability;
  traits.multiprocessors = multiprocessors;
  traits.shared_bytes_per_block = shared_bytes_per_block;
  return traits;
}

inline const Traits kGpus[] = {gpu(80, 108, 166912), gpu(86, 20, 101376), gpu(90, 132, 232448), gpu(120, 188, 101376)};

inline Problem problem_of(std::int64_t rows, std::int64_t cols, std::int64_t k) {
  Problem problem;
  problem.rows = rows;
  problem.cols = cols;
  problem.k = k;
  problem.device = {rtopk::DeviceKind::cuda, 0};
  return problem;
}

inline Plan plan_of(const Problem& problem, const Traits& traits) {
  Plan plan;
  EXPECT_TRUE(rtopk::make_plan(problem, traits, plan).ok());
  return plan;
}

}  // namespace rtopk_test
