// The CUDA backend as runners. In builds with CUDA only.
#pragma once

#include <memory>
#include <vector>

#include "runner.hpp"

namespace rtopk_test {

/// Appends what runs on GPU 0; nothing if there is none.
void add_cuda_runners(std::vector<std::unique_ptr<Runner>>& all);

}  // namespace rtopk_test
