// Executes a checked plan and call of a product: fills the kernel arguments and launches on a stream.
#include <cuda_runtime_api.h>

#include "cuda/backend.hpp"
#include "cuda/product/launch.hpp"
#include "cuda/runtime/device_guard.hpp"
#include "cuda/runtime/errors.hpp"
#include "cuda/runtime/workspace.hpp"
#include "plan/tuning_product.hpp"

namespace rtopk::cuda {
namespace {

ProductArguments make_call(const gnn::ProductPlan& plan, const gnn::ProductCall& call, void* workspace) {
  const gnn::Product& p = plan.problem;
  // True if rows of `width` floats begin and end at multiples of 16 bytes.
  const auto in_quads = [&p](const float* rows) {
    return p.width % 4 == 0 && reinterpret_cast<std::uintptr_t>(rows) % 16 == 0;
  };
  ProductArguments made;
  made.values = call.values;
  made.selectors = call.selectors;
  made.matrix = call.matrix;
  made.gradient = call.gradient;
  made.result = call.result;
  if (plan.workspace_bytes > 0) {
    made.partial_sums = reinterpret_cast<float*>(aligned_base(workspace));
  }
  made.rows = p.rows;
  made.width = p.width;
  made.cols = static_cast<std::int32_t>(p.cols);
  made.k = static_cast<std::int32_t>(p.k);
  made.tiles = static_cast<std::int32_t>(tiles_of(plan));
  made.ranges = static_cast<std::int32_t>(ranges_of(plan));
  made.parts = static_cast<std::int32_t>(plan.parts);
  made.chunk_rows = static_cast<std::int32_t>(plan.rows_per_worker);
  made.wide = p.selector_type == IndexType::u16;
  made.matrix_quads = in_quads(call.matrix);
  made.row_quads = in_quads(p.term == gnn::ProductTerm::product ? call.result : call.gradient);
  made.sum_quads = in_quads(made.partial_sums != nullptr ? made.partial_sums : call.result);
  return made;
}

}  // namespace

Status run(const gnn::ProductPlan& plan, const gnn::ProductCall& call, void* workspace, void* stream) noexcept {
  const DeviceGuard device(plan.problem.device.ordinal);
  if (device.error() != cudaSuccess) return runtime_error("cudaSetDevice", device.error());
  const Grid grid{units_of(plan) * plan.parts, plan.threads, plan.shared_bytes, plan.problem.device.ordinal,
                  static_cast<cudaStream_t>(stream)};
  return launched(launch_product(plan, make_call(plan, call, workspace), grid));
}

}  // namespace rtopk::cuda
