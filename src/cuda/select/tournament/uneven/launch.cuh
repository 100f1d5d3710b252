// Short general rows and small k: launches cuda_tournament's kernel for them.
#pragma once

#include "cuda/select/launch.hpp"
#include "cuda/select/tournament/select.cuh"
#include "cuda/select/tournament/uneven/results.cuh"
#include "cuda/select/tournament/uneven/tile.cuh"

namespace rtopk::cuda {

/// While a tile is copied and searched, the numbers of the next one are being loaded.
template <class T, int G, int R, int K>
__global__ void __launch_bounds__(32 * kTournamentWarps, (UnevenTournamentConfig<T, G, R>::kBlocksPerMultiprocessor))
    uneven_tournament_kernel(const __grid_constant__ UnevenTournamentArguments args) {
  using Tile = UnevenTournamentTile<T, G, R, K>;
  constexpr int kRows = Tile::Config::kRows;

  const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * kTournamentWarps + threadIdx.x / 32;
  const std::int64_t first_row = warp * args.batch_length * kRows;
  const std::int64_t rows = max(std::int64_t{0}, min(args.rows - first_row, args.batch_length * kRows));
  const int tiles = static_cast<int>((rows + kRows - 1) / kRows);
  if (tiles == 0) return;

  Tile::pad(args);
  RowNumbers numbers = Tile::numbers_from(args, first_row);
  TournamentSelect<Tile> rows_of_tile(args);
#pragma unroll 1
  for (int number = 0; number < tiles; ++number) {
    const std::int64_t row = first_row + number * kRows;
    Tile::fetch(args, row, numbers);
    commit_copies();
    numbers = Tile::numbers_from(args, row + kRows);
    wait_for_copies<0>();
    __syncwarp();
    rows_of_tile.select(Tile(args, Tile::stage, row));
    __syncwarp();
  }
}

template <class T>
cudaError_t launch_uneven(const Plan& plan, const SelectArguments& args, const RowRules* rules, const Grid& grid) {
  return with_tournament_list(args.k, [&]<int K>() {
    cudaError_t error = cudaErrorInvalidValue;
    for_uneven_tournament_variants<T, K>([&]<int G, int R>() {
      if (plan.lanes_per_row != G || plan.elements_per_lane != R) return false;
      static std::atomic<std::uint64_t> allowed;
      error = launch(&uneven_tournament_kernel<T, G, R, K>, allowed, grid,
                     UnevenTournamentArguments::of<UnevenTournamentConfig<T, G, R>>(args, *rules, K));
      return true;
    });
    return error;
  });
}

}  // namespace rtopk::cuda
