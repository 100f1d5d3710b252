// From a plan and a call that were checked to a kernel on a stream.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "expectation.hpp"
#include "backend.hpp"
#include "call.hpp"
#include "core/checks.hpp"
#include "core/dispatch.hpp"
#include "launch.hpp"
#include "runtime.hpp"

namespace rtopk::cuda {
namespace {

/// Makes a device current as long as it lives.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) {
    error_ = cudaGetDevice(&before_);
    if (error_ == cudaSuccess && before_ != device) {
      error_ = cudaSetDevice(device);
      switched_ = error_ == cudaSuccess;
    }
  }
  ~DeviceGuard() {
    if (switched_) cudaSetDevice(before_);
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

  [[nodiscard]] cudaError_t error() const { return error_; }

 private:
  int before_ = 0;
  bool switched_ = false;
  cudaError_t error_ = cudaSuccess;
};

/// The widest access, in bytes, that keeps to whole rows of `row_bytes` at `address` and every `pitch` bytes from there.
std::int32_t widest_access(const void* address, std::int64_t pitch, std::int64_t row_bytes) {
  const std::uint64_t bits =
      reinterpret_cast<std::uintptr_t>(address) | static_cast<std::uint64_t>(pitch) | static_cast<std::uint64_t>(row_bytes) | 16u;
  return static_cast<std::int32_t>(bits & -bits);
}

Call make_call(const Plan& plan, const void* input, const Output& output) {
  const Problem& problem = plan.problem;
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  Call call;
  call.input = input;
  call.rows = problem.rows;
  call.cols = problem.cols;
  call.stride = core::stride_of(problem);
  call.k = problem.k;
  if (core::writes_values(problem)) call.values = output.values;
  if (core::writes_indices(problem)) call.indices = output.indices;
  call.dense = output.dense;
  call.mask = output.mask;
  if (problem.passes) call.passes = output.passes;
  call.index_type = problem.index_type;
  call.form = problem.form;
  call.smallest = problem.direction == Direction::smallest;
  call.by_value = problem.order == Order::by_value;
  call.bisection = problem.max_iter > 0 || problem.epsilon > 0 || problem.search == Search::bisection;
  call.max_iter = problem.max_iter;
  call.epsilon = problem.epsilon;
  call.access_bytes = widest_access(input, problem.rows > 1 ? call.stride * element : 0, problem.cols * element);
  call.dense_access_bytes = widest_access(output.dense, problem.cols * element, problem.cols * element);
  call.candidate_capacity = static_cast<std::int32_t>(plan.candidate_capacity);
  if (!call.bisection) call.expectation = expectation_of(problem.cols, problem.k);
  return call;
}

}  // namespace

Status run(const Plan& plan, const void* input, const Output& output, void*, void* stream) noexcept {
  const Problem& problem = plan.problem;
  const DeviceGuard device(problem.device.ordinal);
  if (device.error() != cudaSuccess) return runtime_error("cudaSetDevice", device.error());
  Call call = make_call(plan, input, output);
  const Grid grid{plan.blocks, plan.threads, plan.shared_bytes, problem.device.ordinal, static_cast<cudaStream_t>(stream)};
  cudaError_t error = cudaSuccess;
  if (plan.family == Family::cuda_warp) {
    call.units_per_worker = plan.rows_per_block * plan.lanes_per_row / plan.threads;
    error = core::with_element_type(problem.dtype, [&]<class T>(T*) { return launch_warp<T>(plan, call, grid); });
  }
  return error == cudaSuccess ? Status{} : runtime_error("launch", error);
}

}  // namespace rtopk::cuda
