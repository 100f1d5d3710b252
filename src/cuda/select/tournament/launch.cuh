// cuda_tournament: picks the kernel for a plan and a call.
#pragma once

#include "cuda/select/launch.hpp"
#include "cuda/select/tournament/select.cuh"

namespace rtopk::cuda {

/// A plan does not know the address of the first row. Where that is off alignment, more lanes may be needed for a row; a
/// block has the same rows.
template <class T>
cudaError_t launch_unaligned_tournament(const Plan& plan, SelectArguments args, const Grid& grid) {
  cudaError_t error = cudaErrorInvalidValue;
  for_unaligned_tournament_variants<T>([&]<int G, int R>() {
    using Config = UnalignedTournamentConfig<T, G, R>;
    if (!Config::takes(args.cols)) return false;
    args.batch_length = plan.rows_per_block / (kTournamentWarps * Config::kRows);
    const auto more = UnalignedTournamentArguments::of<Config>(args, tournament_list(args.k));
    static std::atomic<std::uint64_t> allowed[3];
    switch (tournament_list(args.k)) {
      case 2: error = launch(&unaligned_tournament_kernel<T, G, R, 2>, allowed[0], grid, more); break;
      case 4: error = launch(&unaligned_tournament_kernel<T, G, R, 4>, allowed[1], grid, more); break;
      default: error = launch(&unaligned_tournament_kernel<T, G, R, 8>, allowed[2], grid, more); break;
    }
    return true;
  });
  return error;
}

template <class T>
cudaError_t launch_tournament(const Plan& plan, const SelectArguments& args, const Grid& grid) {
  if (args.access_bytes != 16) return launch_unaligned_tournament<T>(plan, args, grid);
  cudaError_t error = cudaErrorInvalidValue;
  for_tournament_variants<T>([&]<int G, int R>() {
    if (plan.lanes_per_row != G || plan.elements_per_lane != R) return false;
    static std::atomic<std::uint64_t> allowed[3];
    switch (tournament_list(args.k)) {
      case 2: error = launch(&tournament_kernel<T, G, R, 2>, allowed[0], grid, args); break;
      case 4: error = launch(&tournament_kernel<T, G, R, 4>, allowed[1], grid, args); break;
      default: error = launch(&tournament_kernel<T, G, R, 8>, allowed[2], grid, args); break;
    }
    return true;
  });
  return error;
}

}  // namespace rtopk::cuda
