// Devices, streams, threads and workspace of operator calls.
#include "execution.hpp"

#include <stdexcept>

#include <torch/csrc/stable/ops.h>

#include "common/gpu_traits.hpp"

// Defined in libtorch_cuda, which a torch without CUDA does not have. Weak, so that one binary serves both: this
// library links libtorch.so, which loads libtorch_cuda if it exists.
extern "C" [[gnu::weak]] AOTITorchError aoti_torch_get_current_cuda_stream(std::int32_t device_index,
                                                                           void** ret_stream);

namespace rtopk::torch_binding {
namespace {

void on_torch_threads(void*, std::int64_t count, void (*task)(void*, std::int64_t), void* task_context) {
  if (count == 1) return task(task_context, 0);  // calling torch takes half as long as a small selection
  torch::stable::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) task(task_context, i);
  });
}

}  // namespace

void refuse(const std::string& text) { throw std::runtime_error("rtopk: " + text); }

void check(const Status& status) {
  if (!status.ok()) refuse(status.text());
}

Device device_of(const Tensor& tensor) {
  if (tensor.is_cpu()) return {};
  if (!build_info().cuda) {
    refuse(
        "the tensor is on a GPU, and this rtopk was built without CUDA; for GPUs take the package that has it (pip "
        "uninstall rtopk; pip install rtopk-cu13), or bring the tensor to the CPU");
  }
  if (aoti_torch_get_current_cuda_stream == nullptr) {
    refuse("the tensor is on a GPU, and this torch was built without CUDA");
  }
  return {DeviceKind::cuda, tensor.get_device_index()};
}

Traits traits_of(const Device& device) {
  if (device.kind == DeviceKind::cuda) {
    Traits traits;
    check(bindings::traits_of_gpu(device.ordinal, traits));
    return traits;
  }
  return {.threads = static_cast<std::int32_t>(torch::stable::get_num_threads())};
}

const Executor& torch_executor() {
  static constexpr Executor executor{on_torch_threads, nullptr};
  return executor;
}

void* current_stream(std::int32_t ordinal) {
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(ordinal, &stream));
  return stream;
}

Tensor gpu_workspace(std::size_t bytes, const Tensor& like) {
  const Sizes sizes{.count = 1, .each = {static_cast<std::int64_t>(bytes)}};
  return empty_contiguous(sizes, aoti_torch_dtype_uint8(), like);
}

}  // namespace rtopk::torch_binding
