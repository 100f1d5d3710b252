// Kernel arguments of expert routing, and the entry point of its kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <rtopk/moe/route.hpp>

#include "cuda/runtime/launch.hpp"

namespace rtopk::cuda {

/// A distance between rows.
struct RouteStep {
  std::int64_t rows = 0;
  std::int64_t bytes = 0;
};

struct RouteArguments {
  moe::RouteCall call;  ///< bias is null if there is none.
  std::int64_t rows = 0;
  std::int32_t experts = 0;
  std::int32_t k = 0;
  std::int32_t groups = 0;
  std::int32_t group_k = 0;
  std::int32_t log2_group_lanes = 0;  ///< If fast: lanes of a warp that have a group, as a power of two.
  std::int32_t rows_at_once = 1;      ///< Of a warp: a power of two, so that the lanes of a row are no fewer than k.
  std::int32_t log2_row_lanes = 5;    ///< The lanes of a row then.
  RouteStep next_row{};               ///< To the next row of those at once.
  RouteStep next_turn{};              ///< From the last of them to the first of the warp's next turn.
  std::int32_t lane_group_parts = 0;  ///< If lanes have rows: a group's parts of kLanePart experts.
  std::uint32_t lane_shift = 512;     ///< 2^9. Not a constant, so that multiplications by it stay what they are.
  float scale = 1.0f;
  moe::Score score = moe::Score::softmax;
  bool renormalize = true;
  bool fast = false;  ///< Rows are tried in registers first; if a lane has a row of few experts, loads are of four.
};

/// Enqueues the kernel that gives each lane a row of more than kMaxFewExperts experts.
cudaError_t launch_route_lanes(const moe::RoutePlan& plan, const RouteArguments& args, const Grid& grid);

/// Enqueues the kernel that gives eight lanes a row.
cudaError_t launch_route_octets(const moe::RoutePlan& plan, const RouteArguments& args, const Grid& grid);

/// Enqueues the kernel of any plan.
cudaError_t launch_route(const moe::RoutePlan& plan, const RouteArguments& args, const Grid& grid);

}  // namespace rtopk::cuda
