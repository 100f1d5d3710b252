// Plans for the GPUs of this machine.
#pragma once

#include <cstdint>

#include <rtopk/rtopk.hpp>

namespace rtopk::jax_binding {

constexpr std::int32_t kMaxGpus = 64;

/// Plans the problem for a GPU.
Status plan_for_gpu(std::int32_t ordinal, Problem problem, Plan& plan);

}  // namespace rtopk::jax_binding
