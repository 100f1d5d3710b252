// Picks the kernels and the config of a product of compact rows. Host code only.
#include <algorithm>
#include <bit>

#include "core/checks.hpp"
#include "plan/cuda.hpp"
#include "plan/tuning_product.hpp"

namespace rtopk::cuda {
namespace {

constexpr std::int64_t kMaxBlocks = 0x7fffffff;

/// The smallest tile that covers `width`, up to kMaxTile.
std::int64_t widest_tile(std::int64_t width) {
  const auto wanted = static_cast<std::uint64_t>(std::min<std::int64_t>(width, kMaxTile));
  return std::max<std::int64_t>(static_cast<std::int64_t>(std::bit_ceil(wanted)), kMinTile);
}

/// Picks the widest tile of W that fits beside the staged elements. If none fits, W is read from global memory.
void pick_tile(gnn::ProductPlan& plan, std::int64_t most_bytes) {
  const gnn::Product& p = plan.problem;
  std::int64_t tile = widest_tile(p.width);
  const auto bytes = [&] { return staging_bytes(p.term, tile) + tile_bytes(p.cols, tile); };
  while (tile >= kMinTile && bytes() > most_bytes) tile /= 2;
  const bool fits = tile >= kMinTile;
  plan.cols_per_worker = fits ? tile : kMaxTile;
  plan.shared_bytes = static_cast<std::size_t>(fits ? bytes() : staging_bytes(p.term, kMaxTile));
  plan.rows_per_worker = rows_of_warp(p.term, plan.cols_per_worker);
}

std::size_t chunk_bytes(const gnn::ProductPlan& plan) {
  if (is_narrow(plan)) return std::size_t{kNarrowThreads} / 32 * kNarrowRange * sizeof(float);
  return static_cast<std::size_t>(2 * chunk_words(plan.rows_per_worker, plan.cols_per_worker)) * sizeof(float);
}

/// Picks the widest tile of dY, with as many rows as fit.
bool pick_chunk(gnn::ProductPlan& plan, std::int64_t most_bytes) {
  if (plan.problem.width == 1) {
    plan.cols_per_worker = plan.rows_per_worker = 1;
    plan.shared_bytes = chunk_bytes(plan);
    return plan.shared_bytes <= static_cast<std::size_t>(most_bytes);
  }
  for (std::int64_t tile = widest_tile(plan.problem.width); tile >= kMinTile; tile /= 2) {
    for (std::int64_t rows = kMaxProductChunkRows; rows >= 32; rows /= 2) {
      plan.cols_per_worker = tile;
      plan.rows_per_worker = rows;
      plan.shared_bytes = chunk_bytes(plan);
      if (plan.shared_bytes <= static_cast<std::size_t>(most_bytes)) return true;
    }
  }
  return false;
}

/// The largest number of parts that the rows can be split into.
std::int64_t most_parts(const gnn::ProductPlan& plan) {
  const bool whole_block = plan.problem.term == gnn::ProductTerm::matrix_gradient && !is_narrow(plan);
  const std::int64_t warps = whole_block ? 1 : plan.threads / 32;
  return std::max<std::int64_t>(core::ceil_div(plan.problem.rows, plan.rows_per_worker * warps), 1);
}

std::size_t workspace_bytes(const gnn::ProductPlan& plan) {
  if (plan.problem.term != gnn::ProductTerm::matrix_gradient || plan.parts == 1) return 0;
  // Includes room to align a base of any address.
  return static_cast<std::size_t>(plan.parts * plan.problem.cols * plan.problem.width) * sizeof(float) + 255;
}

bool too_many_blocks(const gnn::ProductPlan& plan) {
  return units_of(plan) > kMaxBlocks || tiles_of(plan) > kMaxBlocks;
}

}  // namespace

Status make_plan(const gnn::Product& problem, const Traits& traits, gnn::ProductPlan& plan) noexcept {
  gnn::ProductPlan made{.problem = problem};
  bool fits = traits.multiprocessors >= 1 && traits.compute_capability >= 80;
  if (problem.term == gnn::ProductTerm::matrix_gradient) {
    fits = fits && pick_chunk(made, traits.shared_bytes_per_block);
  } else {
    pick_tile(made, traits.shared_bytes_per_block);
    fits = fits && static_cast<std::int64_t>(made.shared_bytes) <= traits.shared_bytes_per_block;
  }
  if (!fits) {
    return core::status(
        StatusCode::not_supported,
        "traits have compute_capability %d, %d multiprocessors and %lld shared_bytes_per_block; accepted "
        "for a product: 80 or more, 1 or more, 99 KiB or more",
        traits.compute_capability, traits.multiprocessors, static_cast<long long>(traits.shared_bytes_per_block));
  }
  if (too_many_blocks(made)) {
    return core::status(StatusCode::not_supported,
                        "width is %lld and cols %lld; accepted on a GPU: up to 2^31 - 1 blocks",
                        static_cast<long long>(problem.width), static_cast<long long>(problem.cols));
  }
  made.threads = threads_of(problem.term, made.cols_per_worker);
  made.parts = std::clamp<std::int64_t>(traits.multiprocessors / units_of(made), 1, most_parts(made));
  made.workspace_bytes = workspace_bytes(made);
  plan = made;
  return {};
}

Status check_plan(const gnn::ProductPlan& plan) noexcept {
  const gnn::Product& p = plan.problem;
  const bool may_be_narrow = p.term == gnn::ProductTerm::matrix_gradient && p.width == 1;
  if (plan.cols_per_worker != 32 && plan.cols_per_worker != 64 && plan.cols_per_worker != 128 &&
      !(is_narrow(plan) && may_be_narrow)) {
    return core::invalid("plan.cols_per_worker", plan.cols_per_worker,
                         "32, 64 or 128; or 1 for a matrix_gradient of width 1");
  }
  if (plan.threads != threads_of(p.term, plan.cols_per_worker)) {
    return core::status(StatusCode::invalid_argument, "plan.threads is %d; accepted for its columns: %d", plan.threads,
                        threads_of(p.term, plan.cols_per_worker));
  }
  std::size_t least =
      static_cast<std::size_t>(staging_bytes(p.term, plan.cols_per_worker) + tile_bytes(p.cols, plan.cols_per_worker));
  if (p.term == gnn::ProductTerm::matrix_gradient) {
    if (is_narrow(plan) ? plan.rows_per_worker != 1 : plan.rows_per_worker != 32 && plan.rows_per_worker != 64) {
      return core::invalid("plan.rows_per_worker", plan.rows_per_worker,
                           "32 or 64 for a matrix_gradient; 1 by single columns");
    }
    least = chunk_bytes(plan);
  } else {
    if (plan.rows_per_worker != rows_of_warp(p.term, plan.cols_per_worker)) {
      return core::status(StatusCode::invalid_argument, "plan.rows_per_worker is %lld; accepted for its columns: %d",
                          static_cast<long long>(plan.rows_per_worker), rows_of_warp(p.term, plan.cols_per_worker));
    }
    // Without a tile, W is read 128 columns at a time.
    if (plan.cols_per_worker == kMaxTile && !has_tile(plan))
      least = static_cast<std::size_t>(staging_bytes(p.term, kMaxTile));
  }
  if (too_many_blocks(plan)) return core::invalid("plan.cols_per_worker", plan.cols_per_worker, "more columns");
  if (plan.parts < 1 || plan.parts > kMaxBlocks / units_of(plan) || plan.parts > most_parts(plan)) {
    return core::invalid("plan.parts", plan.parts, "1 or more, and no more than there are rows for");
  }
  if (plan.shared_bytes != least || plan.workspace_bytes != workspace_bytes(plan)) {
    return core::status(StatusCode::invalid_argument,
                        "plan.shared_bytes is %zu and workspace_bytes %zu; accepted for the rest of the plan: %zu and %zu",
                        plan.shared_bytes, plan.workspace_bytes, least, workspace_bytes(plan));
  }
  return {};
}

}  // namespace rtopk::cuda
