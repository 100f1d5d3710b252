// The CUDA backend; in a build without it, what answers in its place.
#pragma once

#if defined(RTOPK_HAVE_CUDA)

#include "cuda/backend.hpp"

#else

#include <rtopk/types.hpp>

namespace rtopk::cuda {

inline Status refuse() noexcept {
  return {StatusCode::not_supported,
          "device is cuda, and this build has no CUDA backend; accepted: cpu, or a build that has it"};
}
template <class... Arguments>
Status query_traits(Arguments&&...) noexcept {
  return refuse();
}
template <class... Arguments>
Status make_plan(Arguments&&...) noexcept {
  return refuse();
}
template <class... Arguments>
Status check_plan(Arguments&&...) noexcept {
  return refuse();
}
template <class... Arguments>
Status run(Arguments&&...) noexcept {
  return refuse();
}

}  // namespace rtopk::cuda

#endif
