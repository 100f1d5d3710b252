// The check of plans in which some fields follow from the others.
#pragma once

#include "core/checks.hpp"

namespace rtopk::cuda {

/// Checks that the plan's threads, shared memory and workspace are those derived from its other fields.
template <class Plan>
Status check_derived(const Plan& plan, const Plan& derived) noexcept {
  if (plan == derived) return {};
  return core::status(StatusCode::invalid_argument,
                      "plan.threads, shared_bytes or workspace_bytes do not fit the rest of the plan; accepted: %d, "
                      "%zu and %zu",
                      derived.threads, derived.shared_bytes, derived.workspace_bytes);
}

}  // namespace rtopk::cuda
