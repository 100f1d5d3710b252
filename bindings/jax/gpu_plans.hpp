// Plans for the GPUs of this machine.
#pragma once

#include <cstdint>

#include <rtopk/rtopk.hpp>

namespace rtopk::jax_binding {

/// Plans the problem for a GPU. An error if the machine has no GPU of this number.
Status plan_for_gpu(std::int32_t ordinal, Problem problem, Plan& plan);

}  // namespace rtopk::jax_binding
