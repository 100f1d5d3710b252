#include "selection.hpp"

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/ops.h>

// In libtorch_cuda, which a torch without CUDA does not have. Weak, so that one binary serves both: libtorch.so, which
// this library needs, brings libtorch_cuda where there is one.
extern "C" [[gnu::weak]] AOTITorchError aoti_torch_get_current_cuda_stream(std::int32_t device_index,
                                                                           void** ret_stream);

namespace rtopk::torch_binding {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw std::runtime_error("rtopk: " + text); }

void check(const Status& status) {
  if (!status.ok()) refuse(status.text());
}

/// Tasks on torch's own threads: a second pool beside them would compete for the same cores.
void on_torch_threads(void*, std::int64_t count, void (*task)(void*, std::int64_t), void* task_context) {
  torch::stable::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) task(task_context, i);
  });
}

void select_on_cpu(const Problem& problem, const void* input, const Output& output) {
  static constexpr Executor kTorchThreads{on_torch_threads, nullptr};
  const Traits traits{.threads = static_cast<std::int32_t>(torch::stable::get_num_threads())};
  Plan plan;
  check(make_plan(problem, traits, plan));
  const std::unique_ptr<std::byte[]> workspace(new std::byte[plan.workspace_bytes]);
  check(run(plan, input, output, {workspace.get(), plan.workspace_bytes}, {.executor = &kTorchThreads}));
}

/// Asking the driver takes longer than a small selection, and the answer does not change.
const Traits& traits_of_gpu(std::int32_t ordinal) {
  struct Known {
    std::once_flag asked;
    Traits traits;
  };
  static std::array<Known, 64> known;
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= known.size()) {
    refuse("device is cuda:" + std::to_string(ordinal) +
           "; accepted: cuda:0 to cuda:" + std::to_string(known.size() - 1));
  }
  Known& gpu = known[static_cast<std::size_t>(ordinal)];
  std::call_once(gpu.asked, [&] { check(query_traits({DeviceKind::cuda, ordinal}, gpu.traits)); });
  return gpu.traits;
}

void select_on_gpu(const Problem& problem, const Tensor& tensor, const Output& output) {
  if (!build_info().cuda) {
    refuse(
        "the tensor is on a GPU, and this rtopk was built without CUDA; install it where nvcc is found (pip install "
        "--force-reinstall --no-deps rtopk), or bring the tensor to the CPU");
  }
  if (aoti_torch_get_current_cuda_stream == nullptr) {
    refuse("the tensor is on a GPU, and this torch was built without CUDA");
  }
  const std::int32_t ordinal = problem.device.ordinal;
  const torch::stable::accelerator::DeviceGuard guard(ordinal);
  Plan plan;
  check(make_plan(problem, traits_of_gpu(ordinal), plan));
  // Freed when this returns, before the kernels have run: torch's allocator gives it to nobody but this stream until then.
  std::optional<Tensor> memory;
  Workspace workspace;
  if (plan.workspace_bytes > 0) {
    const Sizes sizes{.count = 1, .each = {static_cast<std::int64_t>(plan.workspace_bytes)}};
    memory = empty_contiguous(sizes, aoti_torch_dtype_uint8(), tensor);
    workspace = {memory->mutable_data_ptr(), plan.workspace_bytes};
  }
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(ordinal, &stream));
  check(run(plan, tensor.const_data_ptr(), output, workspace, {.stream = stream}));
}

}  // namespace

DType element_type_of(const Tensor& tensor) {
  static const std::int32_t kFloat32 = aoti_torch_dtype_float32();
  static const std::int32_t kFloat16 = aoti_torch_dtype_float16();
  static const std::int32_t kBfloat16 = aoti_torch_dtype_bfloat16();
  static const std::int32_t kFloat64 = aoti_torch_dtype_float64();
  static const std::int32_t kInt32 = aoti_torch_dtype_int32();
  std::int32_t dtype = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &dtype));
  if (dtype == kFloat32) return DType::f32;
  if (dtype == kBfloat16) return DType::bf16;
  if (dtype == kFloat16) return DType::f16;
  if (dtype == kFloat64) return DType::f64;
  if (dtype == kInt32) return DType::i32;
  refuse("the tensor's dtype is none of those accepted: float32, float16, bfloat16, float64, int32");
}

void select(const Rows& rows, Problem problem, const Output& output) {
  problem.rows = rows.rows;
  problem.cols = rows.cols;
  problem.row_stride = rows.row_stride;
  problem.dtype = element_type_of(rows.tensor);
  if (rows.tensor.is_cpu()) {
    select_on_cpu(problem, rows.tensor.const_data_ptr(), output);
  } else {
    problem.device = {DeviceKind::cuda, rows.tensor.get_device_index()};
    select_on_gpu(problem, rows.tensor, output);
  }
}

}  // namespace rtopk::torch_binding
