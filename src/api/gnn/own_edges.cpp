// API of graphs with one more edge in every row: checks a call, then passes it to the backend of its device.
#include "internal/own_edges.hpp"

#include "api/cuda_backend.hpp"
#include "core/checks.hpp"
#include "core/gnn/aggregate_checks.hpp"
#include "cpu/aggregate/aggregate.hpp"

namespace rtopk::gnn {

Status run(const OwnEdges& problem, const Graph& graph, const OwnEdgesResult& result, const Launch& launch) noexcept {
  if (Status status = core::check_problem(problem); !status.ok()) return status;
  if (Status status = core::check_launch(launch); !status.ok()) return status;
  if (Status status = core::check_call(problem, graph, result); !status.ok()) return status;
  if (problem.device.kind == DeviceKind::cuda) return cuda::run(problem, graph, result, launch.stream);
  cpu::run(problem, graph, result);
  return {};
}

}  // namespace rtopk::gnn
