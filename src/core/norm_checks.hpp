// Whether a normalization of rows makes sense.
#pragma once

#include <rtopk/norm.hpp>

namespace rtopk::core {

Status check_problem(const Norm& problem) noexcept;

/// Pointers, alignment, overlap and workspace of a run of a plan whose problem is valid.
Status check_call(const NormPlan& plan, const NormCall& call, Workspace workspace) noexcept;

}  // namespace rtopk::core
