// Whether a linear map of dense rows makes sense.
#pragma once

#include "internal/linear.hpp"

namespace rtopk::core {

Status check_problem(const gnn::Linear& problem) noexcept;

/// Pointers, alignment, overlap and workspace of a run of a plan whose problem is valid.
Status check_call(const gnn::LinearPlan& plan, const gnn::LinearCall& call, Workspace workspace) noexcept;

}  // namespace rtopk::core
