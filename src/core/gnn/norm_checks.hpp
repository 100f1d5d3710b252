// Argument checks of row normalizations, made before anything runs.
#pragma once

#include <rtopk/gnn/norm.hpp>

namespace rtopk::core {

Status check_problem(const gnn::Norm& problem) noexcept;

/// Checks pointers, alignment, overlap and workspace of a run. The plan's problem must be valid.
Status check_call(const gnn::NormPlan& plan, const gnn::NormCall& call, Workspace workspace) noexcept;

}  // namespace rtopk::core
