// Whether a normalization of rows makes sense.
#pragma once

#include <rtopk/gnn/norm.hpp>

namespace rtopk::core {

Status check_problem(const gnn::Norm& problem) noexcept;

/// Pointers, alignment, overlap and workspace of a run of a plan whose problem is valid.
Status check_call(const gnn::NormPlan& plan, const gnn::NormCall& call, Workspace workspace) noexcept;

}  // namespace rtopk::core
