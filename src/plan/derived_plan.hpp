// Plans some of whose numbers follow from the others.
#pragma once

#include "core/checks.hpp"

namespace rtopk::cuda {

/// That a plan is the one whose threads, shared memory and workspace were derived from its other numbers.
template <class Plan>
Status check_derived(const Plan& plan, const Plan& derived) noexcept {
  if (plan == derived) return {};
  return core::status(StatusCode::invalid_argument,
                      "plan.threads, shared_bytes or workspace_bytes differ from what its numbers need; accepted: %d, "
                      "%zu and %zu",
                      derived.threads, derived.shared_bytes, derived.workspace_bytes);
}

}  // namespace rtopk::cuda
