// The CUDA backend as runners. In builds with CUDA only.
#pragma once

#include <memory>
#include <vector>

#include "runner.hpp"

namespace rtopk_test {

/// Appends what runs on GPU 0; nothing if there is none.
void add_cuda_runners(std::vector<std::unique_ptr<Runner>>& all);

/// run_plan(), for a plan for GPU 0.
std::string run_on_cuda(const rtopk::Plan& plan, const Call& call);

}  // namespace rtopk_test
