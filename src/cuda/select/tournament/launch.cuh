// cuda_tournament: picks the kernel for a plan and a call.
#pragma once

#include "core/sizes.hpp"
#include "cuda/select/launch.hpp"
#include "cuda/select/tournament/select.cuh"

namespace rtopk::cuda {

template <class T, int K>
cudaError_t launch_aligned_tournament(const Plan& plan, const SelectArguments& args, const Grid& grid) {
  cudaError_t error = cudaErrorInvalidValue;
  for_tournament_variants<T, K>([&]<int G, int R>() {
    if (plan.lanes_per_row != G || plan.elements_per_lane != R) return false;
    static std::atomic<std::uint64_t> allowed;
    error = launch(&tournament_kernel<T, G, R, K>, allowed, grid,
                   TournamentArguments::of<TournamentConfig<T, G, R>>(args, K));
    return true;
  });
  return error;
}

/// A plan does not know the address of the first row. Where that is off alignment, a row may need another number of
/// lanes. A block has as many rows as in the plan, or more: then the last blocks have none. It may need more shared
/// memory.
template <class T, int K>
cudaError_t launch_unaligned_tournament(const Plan& plan, SelectArguments args, Grid grid) {
  cudaError_t error = cudaErrorInvalidValue;
  for_unaligned_tournament_variants<T, K>([&]<int G, int R>() {
    using Config = UnalignedTournamentConfig<T, G, R>;
    if (!Config::takes(args.cols)) return false;
    args.batch_length = core::ceil_div(plan.rows_per_block, std::int64_t{kTournamentWarps * Config::kRows});
    grid.shared_bytes = static_cast<std::size_t>(Config::shared_bytes(K, args.cols, args.stride));
    static std::atomic<std::uint64_t> allowed;
    error = launch(&unaligned_tournament_kernel<T, G, R, K>, allowed, grid,
                   UnalignedTournamentArguments::of<Config>(args, K));
    return true;
  });
  return error;
}

template <class T>
cudaError_t launch_tournament(const Plan& plan, const SelectArguments& args, const RowRules*, const Grid& grid) {
  return with_tournament_list(args.k, [&]<int K>() {
    return kTournamentReadsVectors<T> && args.access_bytes == 16 ? launch_aligned_tournament<T, K>(plan, args, grid)
                                                                 : launch_unaligned_tournament<T, K>(plan, args, grid);
  });
}

}  // namespace rtopk::cuda
