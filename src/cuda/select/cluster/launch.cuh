// cuda_cluster: launches its kernel.
#pragma once

#include "core/checks.hpp"
#include "cuda/select/cluster/select.cuh"
#include "cuda/select/launch.hpp"

namespace rtopk::cuda {

template <class T, int kThreads>
cudaError_t launch_cluster_of(const Grid& grid, ClusterArguments args, const RowRules* rules, bool stops_early) {
  static std::atomic<std::uint64_t> allowed[4];
  const std::int64_t part = cluster_part_cols(args.cols, args.parts, sizeof(T));
  const auto shared_bytes = static_cast<std::int64_t>(grid.shared_bytes);
  args.list_capacity = static_cast<std::int32_t>(ClusterConfig<T, kThreads>::capacity(shared_bytes, part));
  if (rules == nullptr) {
    return stops_early ? launch(&cluster_kernel<T, kThreads, ClusterTask::stop_early>, allowed[3], grid, args)
                       : launch(&cluster_kernel<T, kThreads, ClusterTask::select>, allowed[0], grid, args);
  }
  return args.magnitude ? launch(&general_cluster_kernel<T, kThreads, ClusterTask::select_by_magnitude>, allowed[1],
                                 grid, args, *rules)
                        : launch(&general_cluster_kernel<T, kThreads, ClusterTask::select_general>, allowed[2], grid,
                                 args, *rules);
}

template <class T>
cudaError_t launch_cluster(const Plan& plan, const SelectArguments& args, const RowRules* rules, const Grid& grid) {
  const double margin = cluster_margin(args.rows);
  const ClusterSample sample = cluster_sample(args.cols, args.k, sizeof(T), margin);
  ClusterArguments cluster_args{args};
  cluster_args.parts = static_cast<std::int32_t>(plan.parts);
  cluster_args.sample_margin = static_cast<float>(margin);
  cluster_args.log_draws = sample.log_draws;
  cluster_args.threshold_rank = sample.rank;
  cluster_args.rank_if_alike = sample.rank_if_alike;
  Grid clusters = grid;
  clusters.blocks_per_cluster = cluster_args.parts;
  const bool stops_early = core::stops_early(plan.problem);
  return plan.threads == kClusterThreads
             ? launch_cluster_of<T, kClusterThreads>(clusters, cluster_args, rules, stops_early)
             : launch_cluster_of<T, kClusterMoreThreads>(clusters, cluster_args, rules, stops_early);
}

}  // namespace rtopk::cuda
