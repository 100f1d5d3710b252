// Which CUDA family runs a problem, and with which numbers. Host code alone: a plan can be made without a GPU.
#include <algorithm>

#include "backend.hpp"
#include "core/checks.hpp"
#include "core/dispatch.hpp"
#include "warp_shape.hpp"

namespace rtopk::cuda {
namespace {

constexpr std::int64_t kMostBlocks = 0x7fffffff;

constexpr std::int64_t quotient_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Rows are dealt to warps in runs: long enough that a warp can learn from the rows before and that copies run ahead, short
/// enough that the last warps do not leave the device idle.
constexpr std::int64_t kTilesPerWarp = 16;
constexpr std::int64_t kWarpsPerMultiprocessor = 32;

bool plan_warp(const Traits& traits, Plan& plan) {
  const Problem& problem = plan.problem;
  return core::with_element_type(problem.dtype, [&]<class T>(T*) {
    return for_warp_variants([&]<int G, int R>() {
      using Shape = WarpShape<T, G, R>;
      if (problem.cols > Shape::kCols || Shape::kSharedBytes > traits.shared_bytes_per_block) return false;
      plan.family = Family::cuda_warp;
      plan.lanes_per_row = G;
      plan.elements_per_lane = R;
      plan.threads = 32 * kWarpsPerBlock;
      plan.shared_bytes = Shape::kSharedBytes;
      const std::int64_t tiles = quotient_up(problem.rows, Shape::kRows);
      const std::int64_t warps = kWarpsPerMultiprocessor * std::max(traits.multiprocessors, 1);
      std::int64_t tiles_per_warp = std::clamp(tiles / warps, std::int64_t{1}, kTilesPerWarp);
      while (quotient_up(tiles, tiles_per_warp * kWarpsPerBlock) > kMostBlocks) tiles_per_warp *= 2;
      plan.rows_per_block = tiles_per_warp * kWarpsPerBlock * Shape::kRows;
      plan.blocks = quotient_up(tiles, tiles_per_warp * kWarpsPerBlock);
      return true;
    });
  });
}

}  // namespace

Status make_plan(const Problem& problem, const Traits& traits, Plan& plan) noexcept {
  Plan made{.problem = problem};
  if (plan_warp(traits, made)) {
    plan = made;
    return {};
  }
  return {StatusCode::not_supported, "rows this long are not supported on cuda"};
}

Status check_plan(const Plan&) noexcept { return {}; }

}  // namespace rtopk::cuda
