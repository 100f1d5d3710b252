// Devices, streams, threads and workspace of operator calls.
#include "execution.hpp"

#include <array>
#include <mutex>
#include <stdexcept>

#include <torch/csrc/stable/ops.h>

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

/// Cached: querying the driver takes longer than a small selection, and the answer does not change.
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

}  // namespace

void refuse(const std::string& text) { throw std::runtime_error("rtopk: " + text); }

void check(const Status& status) {
  if (!status.ok()) refuse(status.text());
}

Device device_of(const Tensor& tensor) {
  if (tensor.is_cpu()) return {};
  if (!build_info().cuda) {
    refuse(
        "the tensor is on a GPU, and this rtopk was built without CUDA; install it where nvcc is found (pip install "
        "--force-reinstall --no-deps rtopk), or bring the tensor to the CPU");
  }
  if (aoti_torch_get_current_cuda_stream == nullptr) {
    refuse("the tensor is on a GPU, and this torch was built without CUDA");
  }
  return {DeviceKind::cuda, tensor.get_device_index()};
}

Traits traits_of(const Device& device) {
  if (device.kind == DeviceKind::cuda) return traits_of_gpu(device.ordinal);
  return {.threads = static_cast<std::int32_t>(torch::stable::get_num_threads())};
}

const Executor& torch_executor() {
  static constexpr Executor executor{on_torch_threads, nullptr};
  return executor;
}

CpuWorkspace::CpuWorkspace(std::size_t bytes) : bytes_(bytes) {
  struct Kept {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes = 0;
  };
  static thread_local Kept kept;
  if (bytes > kMaxKeptBytes) {
    own_.reset(new std::byte[bytes]);
    memory_ = own_.get();
    return;
  }
  if (kept.bytes < bytes) {
    kept.bytes = 0;
    kept.memory.reset(new std::byte[bytes]);
    kept.bytes = bytes;
  }
  memory_ = kept.memory.get();
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
