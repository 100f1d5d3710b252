// Includes the CUDA backend: its planning, which is part of every build, and its run functions. Without CUDA they
// return an error.
#pragma once

#include "plan/cuda.hpp"

#if defined(RTOPK_HAVE_CUDA)

#include "cuda/backend.hpp"

#else

namespace rtopk::cuda {

inline Status refuse() noexcept {
  return {StatusCode::not_supported,
          "device is cuda, and this build has no CUDA backend; accepted: cpu, or a build that has it"};
}
inline const char* architectures() noexcept { return ""; }
inline Status query_traits(Device, Traits&) noexcept { return refuse(); }
inline Status make_plan(const gnn::Transposition&, gnn::TranspositionPlan&) noexcept { return refuse(); }
template <class... Arguments>
Status run(Arguments&&...) noexcept {
  return refuse();
}

}  // namespace rtopk::cuda

#endif
