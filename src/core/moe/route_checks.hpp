// Argument checks of expert routing, made before anything runs.
#pragma once

#include <rtopk/moe/route.hpp>

namespace rtopk::core {

Status check_problem(const moe::Route& problem) noexcept;
Status check_call(const moe::RoutePlan& plan, const moe::RouteCall& call, Workspace workspace) noexcept;

}  // namespace rtopk::core
