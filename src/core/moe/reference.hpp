// Expert routing in plain loops: what every backend computes.
#pragma once

#include <rtopk/moe/route.hpp>

namespace rtopk::core {

/// Routes the rows [first, last) of a checked call.
void route_rows(const moe::Route& problem, const moe::RouteCall& call, std::int64_t first, std::int64_t last) noexcept;

}  // namespace rtopk::core
