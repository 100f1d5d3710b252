// The fast path of topk.
#include "usual_topk.hpp"

#include <optional>
#include <utility>

#include <torch/headeronly/core/ScalarType.h>

#include "execution.hpp"

namespace rtopk::torch_binding {
namespace {

using torch::headeronly::ScalarType;

constexpr std::int64_t kMaxDims = 8;

struct Seen {
  std::int64_t dims = 0;
  const std::int64_t* sizes = nullptr;
  std::int64_t elements = 0;
  std::int32_t dtype = 0;  ///< As torch encodes types.
  DType type = DType::f32;
  const void* data = nullptr;
};

std::optional<DType> type_of(std::int32_t dtype) {
  switch (static_cast<ScalarType>(dtype)) {
    case ScalarType::Float: return DType::f32;
    case ScalarType::Half: return DType::f16;
    case ScalarType::BFloat16: return DType::bf16;
    case ScalarType::Double: return DType::f64;
    case ScalarType::Int: return DType::i32;
    default: return std::nullopt;
  }
}

/// True if the elements are in row-major order without gaps.
bool is_contiguous(const Seen& seen, const std::int64_t* strides) {
  std::int64_t stride = 1;
  for (std::int64_t i = seen.dims; i-- > 0;) {
    if (seen.sizes[i] != 1 && strides[i] != stride) return false;
    stride *= seen.sizes[i];
  }
  return true;
}

/// True for a contiguous, non-empty CPU tensor of a type that the library has, with all elements in its storage.
bool look_at(AtenTensorHandle tensor, Seen& seen) {
  std::int32_t device = 0;
  std::int32_t layout = 0;
  if (aoti_torch_get_device_type(tensor, &device) != 0 || device != aoti_torch_device_type_cpu()) return false;
  if (aoti_torch_get_layout(tensor, &layout) != 0 || layout != aoti_torch_layout_strided()) return false;
  if (aoti_torch_get_dtype(tensor, &seen.dtype) != 0) return false;
  const std::optional<DType> type = type_of(seen.dtype);
  if (!type) return false;
  seen.type = *type;
  if (aoti_torch_get_dim(tensor, &seen.dims) != 0 || seen.dims < 1 || seen.dims > kMaxDims) return false;
  if (aoti_torch_get_numel(tensor, &seen.elements) != 0 || seen.elements < 1) return false;
  std::int64_t* sizes = nullptr;
  std::int64_t* strides = nullptr;
  if (aoti_torch_get_sizes(tensor, &sizes) != 0 || aoti_torch_get_strides(tensor, &strides) != 0) return false;
  seen.sizes = sizes;
  if (!is_contiguous(seen, strides)) return false;
  std::int64_t bytes = 0;
  std::int64_t offset = 0;
  if (aoti_torch_get_storage_size(tensor, &bytes) != 0 || aoti_torch_get_storage_offset(tensor, &offset) != 0) {
    return false;
  }
  // Divide instead of multiplying, which may overflow.
  if (bytes / static_cast<std::int64_t>(size_of(*type)) - offset < seen.elements) return false;
  return torch_get_const_data_ptr(tensor, &seen.data) == 0 && seen.data != nullptr;
}

/// A result tensor, released unless it is handed to the caller.
class Made {
 public:
  Made(const Seen& seen, std::int64_t k, std::int32_t dtype) {
    std::int64_t sizes[kMaxDims];
    std::int64_t strides[kMaxDims];
    std::int64_t stride = 1;
    for (std::int64_t i = seen.dims; i-- > 0;) {
      sizes[i] = i == seen.dims - 1 ? k : seen.sizes[i];
      strides[i] = stride;
      stride *= sizes[i];
    }
    TORCH_ERROR_CODE_CHECK(
        aoti_torch_empty_strided(seen.dims, sizes, strides, dtype, aoti_torch_device_type_cpu(), 0, &handle_));
  }
  ~Made() {
    if (handle_ != nullptr) aoti_torch_delete_tensor_object(handle_);
  }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;

  void* memory() const {
    void* pointer = nullptr;
    TORCH_ERROR_CODE_CHECK(torch_get_mutable_data_ptr(handle_, &pointer));
    return pointer;
  }
  AtenTensorHandle release() { return std::exchange(handle_, nullptr); }

 private:
  AtenTensorHandle handle_ = nullptr;
};

/// The plan of a problem. Each thread keeps its last plan: calls come in loops, and planning takes as long as
/// selecting from a short row.
const Plan& plan_for(const Problem& problem) {
  struct Last {
    Plan plan;
    std::int32_t threads = 0;  ///< Torch's number of threads then. 0: no plan yet.
  };
  static thread_local Last last;
  const Traits traits = traits_of(problem.device);
  if (last.threads != traits.threads || last.plan.problem != problem) {
    last.threads = 0;
    check(make_plan(problem, traits, last.plan));
    last.threads = traits.threads;
  }
  return last.plan;
}

}  // namespace

bool usual_topk(const TopkCall& call, TopkHandles& results, bool (*is_wanted)(const Problem&)) {
  Seen seen;
  if (!look_at(call.self, seen)) return false;
  const std::int64_t cols = seen.sizes[seen.dims - 1];
  if ((call.dim != -1 && call.dim != seen.dims - 1) || call.k < 1 || call.k > cols) return false;
  const Problem problem{.rows = seen.elements / cols,
                        .cols = cols,
                        .k = call.k,
                        .row_stride = cols,
                        .dtype = seen.type,
                        .direction = call.largest ? Direction::largest : Direction::smallest,
                        .order = call.sorted ? Order::by_value : Order::unsorted,
                        .index_type = IndexType::i64};
  if (is_wanted != nullptr && !is_wanted(problem)) return false;
  Made values(seen, call.k, seen.dtype);
  Made indices(seen, call.k, static_cast<std::int32_t>(ScalarType::Long));
  const Output output{.values = values.memory(), .indices = indices.memory()};
  const Plan& plan = plan_for(problem);
  const bindings::CpuWorkspace workspace(plan.workspace_bytes);
  check(run(plan, seen.data, output, workspace.get(), Launch{.executor = &torch_executor()}));
  results = {values.release(), indices.release()};
  return true;
}

}  // namespace rtopk::torch_binding
