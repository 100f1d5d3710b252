// cuda_cluster: launches its kernel.
#pragma once

#include "cuda/select/cluster/select.cuh"
#include "cuda/select/launch.hpp"

namespace rtopk::cuda {

template <class T>
cudaError_t launch_cluster(const Plan& plan, const SelectArguments& args, const Grid& grid) {
  static std::atomic<std::uint64_t> allowed;
  const ClusterSample sample = cluster_sample(args.cols, args.k, sizeof(T));
  ClusterArguments cluster_args{args};
  cluster_args.parts = static_cast<std::int32_t>(plan.parts);
  cluster_args.log_draws = sample.log_draws;
  cluster_args.neighbours = sample.neighbours;
  cluster_args.threshold_rank = sample.rank;
  cluster_args.list_capacity = static_cast<std::int32_t>(sample.capacity);
  Grid clusters = grid;
  clusters.blocks_per_cluster = cluster_args.parts;
  return launch(&cluster_kernel<T>, allowed, clusters, cluster_args);
}

}  // namespace rtopk::cuda
