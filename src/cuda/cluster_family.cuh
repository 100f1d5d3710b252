// cuda_cluster: queues its kernel.
#pragma once

#include "cluster_select.cuh"
#include "launch.hpp"

namespace rtopk::cuda {

template <class T>
cudaError_t launch_cluster(const Plan& plan, const Call& call, const Grid& grid) {
  static std::atomic<std::uint64_t> allowed;
  const ClusterSample sample = cluster_sample(call.cols, call.k, sizeof(T));
  Call shared = call;
  shared.parts = static_cast<std::int32_t>(plan.parts);
  shared.log_draws = sample.log_draws;
  shared.neighbours = sample.neighbours;
  shared.bar_rank = sample.rank;
  shared.list_capacity = static_cast<std::int32_t>(sample.capacity);
  Grid clusters = grid;
  clusters.blocks_per_cluster = shared.parts;
  return launch(&cluster_kernel<T>, allowed, clusters, shared);
}

}  // namespace rtopk::cuda
