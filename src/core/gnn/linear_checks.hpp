// Argument checks of dense linear layers, made before anything runs.
#pragma once

#include "internal/linear.hpp"

namespace rtopk::core {

Status check_problem(const gnn::Linear& problem) noexcept;

/// Checks pointers, alignment, overlap and workspace of a run. The plan's problem must be valid.
Status check_call(const gnn::LinearPlan& plan, const gnn::LinearCall& call, Workspace workspace) noexcept;

}  // namespace rtopk::core
