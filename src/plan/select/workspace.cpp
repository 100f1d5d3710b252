// Sizes of the parts of the caller's workspace.
#include "plan/select/workspace.hpp"

#include "core/checks.hpp"
#include "core/dispatch.hpp"
#include "core/rows.hpp"
#include "core/sizes.hpp"
#include "plan/select/cuda_configs.hpp"
#include "plan/select/tuning_block.hpp"
#include "plan/select/tuning_filter.hpp"
#include "plan/select/tuning_radix.hpp"
#include "plan/select/tuning_sort.hpp"
#include "plan/select/tuning_warp.hpp"

namespace rtopk::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

constexpr std::size_t aligned(std::size_t bytes) { return core::round_up(bytes, kAlignment); }

std::size_t family_bytes(const Plan& plan) {
  if (plan.family != Family::cuda_radix || plan.parts <= 1) return 0;
  const std::int64_t rows = std::max(plan.blocks / plan.parts, std::int64_t{1});
  switch (size_of(plan.problem.dtype)) {
    case 2: return radix_layout<2>(rows, plan.parts).bytes;
    case 4: return radix_layout<4>(rows, plan.parts).bytes;
    default: return radix_layout<8>(rows, plan.parts).bytes;
  }
}

std::size_t sort_bytes(const Problem& problem) {
  if (core::is_general(problem)) return MergeSortConfig::bytes(problem.rows, problem.k);
  switch (size_of(problem.dtype)) {
    case 2: return sort_launch<2>(problem.rows, problem.cols, problem.k).workspace_bytes;
    case 4: return sort_launch<4>(problem.rows, problem.cols, problem.k).workspace_bytes;
    default: return sort_launch<8>(problem.rows, problem.cols, problem.k).workspace_bytes;
  }
}

}  // namespace

std::int64_t max_sorted_by_warp(DType dtype, std::int32_t lanes_per_row) noexcept {
  std::int64_t most = 0;
  core::with_element_type(dtype, [&]<class T>(T*) {
    for_aligned_variants<T>([&]<int G, int R>() {
      if (G != lanes_per_row) return false;
      most = AlignedConfig<T, G, R>::kSorted;  // the same for any R
      return true;
    });
  });
  return most;
}

bool sorts_afterwards(const Plan& plan) noexcept {
  const Problem& problem = plan.problem;
  if (problem.order != Order::by_value || problem.k == 1) return false;
  if (problem.form != Form::pairs && problem.form != Form::cbsr) return false;
  if (plan.family == Family::cuda_tournament) return false;
  if (plan.family == Family::cuda_filter) return problem.k > kFilterMaxSorted;
  if (plan.family == Family::cuda_block) {
    return plan.parts > 1 || problem.k > kBlockMaxSorted || size_of(problem.dtype) == 8;
  }
  return plan.family != Family::cuda_warp || core::makes_passes(problem) ||
         problem.k > max_sorted_by_warp(problem.dtype, plan.lanes_per_row);
}

bool needs_indices(const Plan& plan) noexcept {
  const bool lists = plan.problem.form == Form::pairs || plan.problem.form == Form::cbsr;
  // These two list results in shared memory.
  const bool keeps_lists = plan.family == Family::cuda_warp || plan.family == Family::cuda_tournament;
  return sorts_afterwards(plan) || (lists && core::is_general(plan.problem) && !keeps_lists);
}

WorkspaceLayout workspace_of(const Plan& plan) noexcept {
  const bool gathers = plan.chunk_rows > 0;
  const Problem problem = gathers ? core::tight(plan.problem, plan.chunk_rows) : plan.problem;
  WorkspaceLayout layout;
  if (gathers) layout.family = aligned(core::bytes_of(problem.rows * problem.cols, size_of(problem.dtype)));
  std::size_t end = core::plus(layout.family, aligned(family_bytes(plan)));
  layout.indices = end;
  if (needs_indices(plan) && !core::writes_indices(problem)) {
    const std::size_t index = problem.cols > std::int64_t{0x7fffffff} ? 8 : 4;
    end = core::plus(end, aligned(core::bytes_of(problem.rows * problem.k, index)));
  }
  if (sorts_afterwards(plan)) {
    layout.sort = end;
    end = core::plus(end, aligned(sort_bytes(problem)));
  }
  layout.bytes = end == 0 ? 0 : core::plus(end, kAlignment - 1);
  return layout;
}

}  // namespace rtopk::cuda
