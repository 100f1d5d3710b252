// Launches the kernels of an aggregation's plan.
#pragma once

#include <algorithm>
#include <type_traits>

#include "cuda/aggregate/finish.cuh"
#include "cuda/aggregate/gather.cuh"
#include "cuda/aggregate/launch.hpp"
#include "cuda/aggregate/stream.cuh"
#include "cuda/aggregate/stream_scatter.cuh"

namespace rtopk::cuda {

/// Blocks of `threads` threads for the pieces and the rows of a graph, one warp for each.
inline std::int64_t blocks_for(const AggregateArguments& args, int threads) {
  const std::int64_t workers = (std::int64_t{args.graph.rows} + args.rows_per_worker - 1) / args.rows_per_worker;
  const std::int64_t warps = threads / 32;
  return (args.slots + workers + warps - 1) / warps;
}

/// Calls f with 1, 2 or 4 as a constant.
template <class F>
cudaError_t with_vector(int vector, F&& f) {
  if (vector == 4) return f(std::integral_constant<int, 4>{});
  if (vector == 2) return f(std::integral_constant<int, 2>{});
  return f(std::integral_constant<int, 1>{});
}

/// Calls f with a null pointer of the selectors' type.
template <class F>
cudaError_t with_selector(IndexType type, F&& f) {
  if (type == IndexType::u8) return f(static_cast<std::uint8_t*>(nullptr));
  return f(static_cast<std::uint16_t*>(nullptr));
}

/// Calls f with a constant that tells whether edges have weights.
template <class F>
cudaError_t with_weighted(bool weighted, F&& f) {
  if (weighted) return f(std::true_type{});
  return f(std::false_type{});
}

template <class T>
cudaError_t launch_combine(const AggregateArguments& args, std::int32_t width, Grid grid) {
  if (args.graph.edges >> args.piece_shift < 2) return cudaSuccess;  // no row is long
  static std::atomic<std::uint64_t> allowed;
  grid.blocks = (args.slots + kSlotsPerBlock - 1) / kSlotsPerBlock;
  grid.threads = kFinishThreads;
  grid.shared_bytes = 0;
  grid.overlaps_previous = true;
  return launch(&combine_kernel<T>, allowed, grid, args, width);
}

template <class T>
cudaError_t launch_stream(const gnn::AggregationPlan& plan, const AggregateArguments& args, int vector,
                          const Grid& grid) {
  const auto at_once = static_cast<int>(plan.edges_at_once);
  // As few elements for each lane as cover a node, so that no lane is idle.
  while (vector > 1 && 32 / at_once * vector / 2 >= args.k) vector /= 2;
  if (at_once > 1) vector = std::min(vector, 2);  // more are not worth their code
  return with_selector(plan.problem.selector_type, [&]<class Selector>(Selector*) {
    return with_weighted(plan.problem.weighted, [&]<bool kWeighted>(std::bool_constant<kWeighted>) {
      return with_vector(vector, [&]<int V>(std::integral_constant<int, V>) {
        return with_vector(at_once, [&]<int S>(std::integral_constant<int, S>) {
          if constexpr (S == 1 || V <= 2) {
            static std::atomic<std::uint64_t> allowed;
            return launch(&stream_kernel<T, Selector, kWeighted, V, S>, allowed, grid, args);
          }
          return cudaErrorInvalidValue;  // no plan has it
        });
      });
    });
  });
}

/// Adds up the contributions of all edges, in f32.
template <class T>
cudaError_t launch_sums(const gnn::AggregationPlan& plan, const AggregateArguments& args, int vector,
                        const Grid& grid) {
  const bool staged = grid.shared_bytes > 0;
  return with_selector(plan.problem.selector_type, [&]<class Selector>(Selector*) {
    return with_weighted(plan.problem.weighted, [&]<bool kWeighted>(std::bool_constant<kWeighted>) {
      return with_vector(vector, [&]<int V>(std::integral_constant<int, V>) {
        static std::atomic<std::uint64_t> allowed[2];
        if constexpr (sizeof(Selector) > 1) {
          if (!staged) {
            return launch(&stream_scatter_kernel<T, Selector, kWeighted, V, false>, allowed[0], grid, args);
          }
        }
        return launch(&stream_scatter_kernel<T, Selector, kWeighted, V, true>, allowed[1], grid, args);
      });
    });
  });
}

template <class T>
cudaError_t launch_scatter(const gnn::AggregationPlan& plan, const AggregateArguments& args, int vector, Grid grid) {
  const std::int64_t count = plan.problem.nodes * plan.problem.k;
  if (const cudaError_t error =
          cudaMemsetAsync(args.atomic_sums, 0, static_cast<std::size_t>(count) * sizeof(float), grid.stream);
      error != cudaSuccess) {
    return error;
  }
  for (std::int64_t first = 0; args.graph.rows > 0 && first < plan.problem.k; first += plan.elements_per_sweep) {
    AggregateArguments sweep = args;
    sweep.first_element = static_cast<std::int32_t>(first);
    sweep.last_element = static_cast<std::int32_t>(std::min(first + plan.elements_per_sweep, plan.problem.k));
    if (const cudaError_t error = launch_sums<T>(plan, sweep, vector, grid); error != cudaSuccess) return error;
  }
  if (std::is_same_v<T, float>) return cudaSuccess;
  static std::atomic<std::uint64_t> allowed;
  grid.blocks = std::min<std::int64_t>((count + kFinishThreads - 1) / kFinishThreads, 1 << 16);
  grid.threads = kFinishThreads;
  grid.shared_bytes = 0;
  return launch(&round_kernel<T>, allowed, grid, args, count);
}

template <class T>
cudaError_t launch_gather(const gnn::AggregationPlan& plan, const AggregateArguments& args, const Grid& grid) {
  return with_selector(plan.problem.selector_type, [&]<class Selector>(Selector*) {
    static std::atomic<std::uint64_t> allowed;
    return launch(&gather_kernel<T, Selector>, allowed, grid, args);
  });
}

template <class T>
cudaError_t launch_aggregation(const gnn::AggregationPlan& plan, const AggregateArguments& args, int vector,
                               Grid grid) {
  grid.threads = plan.threads;
  grid.shared_bytes = plan.shared_bytes;
  grid.blocks = blocks_for(args, plan.threads);
  if (scatters(plan)) return launch_scatter<T>(plan, args, vector, grid);
  const bool gathers = plan.family == gnn::AggregationFamily::cuda_gather;
  const cudaError_t error = gathers ? launch_gather<T>(plan, args, grid) : launch_stream<T>(plan, args, vector, grid);
  return error == cudaSuccess ? launch_combine<T>(args, gathers ? args.k : args.cols, grid) : error;
}

}  // namespace rtopk::cuda
