// Interface of expert routing on the CPU.
#pragma once

#include <rtopk/moe/route.hpp>

namespace rtopk::cpu {

void make_plan(const moe::Route& problem, const Traits& traits, moe::RoutePlan& plan) noexcept;
Status check_plan(const moe::RoutePlan& plan) noexcept;
void run(const moe::RoutePlan& plan, const moe::RouteCall& call, const Executor* executor) noexcept;

}  // namespace rtopk::cpu
