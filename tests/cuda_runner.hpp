// Runners for the CUDA backend. Only in builds with CUDA.
#pragma once

#include <memory>
#include <vector>

#include "runner.hpp"

namespace rtopk_test {

/// Appends the runners for GPU 0; none if there is no GPU.
void add_cuda_runners(std::vector<std::unique_ptr<Runner>>& all);

/// run_plan() for a plan for GPU 0.
std::string run_on_cuda(const rtopk::Plan& plan, const Call& call);

}  // namespace rtopk_test
