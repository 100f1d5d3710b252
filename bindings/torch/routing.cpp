// The kernels that replace torch.topk, and the decision which calls they take.
#include "routing.hpp"

#include <dlfcn.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <stdexcept>

#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h>
#include <torch/csrc/stable/tensor.h>

#include "execution.hpp"
#include "operators.hpp"
#include "usual_topk.hpp"

// Defined in libtorch_cuda, which a torch without CUDA does not have.
extern "C" [[gnu::weak]] AOTITorchError aoti_torch_cuda_topk(AtenTensorHandle self, std::int64_t k, std::int64_t dim,
                                                             std::int32_t largest, std::int32_t sorted,
                                                             AtenTensorHandle* values, AtenTensorHandle* indices);

namespace rtopk::torch_binding {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::detail::from;
using torch::stable::detail::StableLibrary;
using torch::stable::detail::to;

/// The arguments of aten::topk. Releases the tensor, as the callee must.
class Arguments {
 public:
  explicit Arguments(const StableIValue* stack)
      : Arguments({to<AtenTensorHandle>(stack[0]), to<std::int64_t>(stack[1]), to<std::int64_t>(stack[2]),
                   to<bool>(stack[3]), to<bool>(stack[4])}) {}
  explicit Arguments(const TopkCall& call) : call_(call) {}
  ~Arguments() { aoti_torch_delete_tensor_object(call_.self); }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  const TopkCall& call() const { return call_; }

  Tensor self() const {
    AtenTensorHandle handle = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(call_.self, &handle));
    return Tensor(handle);
  }

 private:
  TopkCall call_;
};

void put(StableIValue* stack, const TopkHandles& results) {
  stack[0] = torch::stable::detail::from(results.values);
  stack[1] = torch::stable::detail::from(results.indices);
}

void select(const TopkCall& call, const Tensor& self, StableIValue* stack) {
  const auto [values, indices] =
      topk(self, call.k, call.dim, call.largest, call.sorted, 0, 0.0, ScalarType::Long, false, false);
  stack[0] = from(values);
  stack[1] = from(indices);
}

void select(const Arguments& arguments, StableIValue* stack) {
  if (TopkHandles usual{}; usual_topk(arguments.call(), usual)) return put(stack, usual);
  select(arguments.call(), arguments.self(), stack);
}

// ---- torch's own kernel ----

/// Calls torch's C++ kernel so that it throws. Errors pass through C functions only as a code, which would lose their
/// type (IndexError) and text. The stable ABI can neither throw an IndexError nor call the replaced kernel, so this
/// looks the kernel up by its mangled name, which encodes the parameter types. If the name does not exist, the error
/// is generic.
[[noreturn]] void throw_as_torch_does(const TopkCall& call, bool on_cpu) {
  struct TwoTensors {  // not trivial, so that it is returned in memory like std::tuple<Tensor, Tensor>
    void* tensors[2];
    TwoTensors(const TwoTensors&) = delete;
    ~TwoTensors() {}
  };
  using Kernel = TwoTensors (*)(AtenTensorHandle, long, long, bool, bool);
  const char* const name = on_cpu ? "_ZN2at3cpu4topkERKNS_6TensorEllbb" : "_ZN2at4cuda4topkERKNS_6TensorEllbb";
  if (const auto kernel = reinterpret_cast<Kernel>(dlsym(RTLD_DEFAULT, name))) {
    const TwoTensors results = kernel(call.self, call.k, call.dim, call.largest, call.sorted);
  }
  throw std::runtime_error("topk: torch refused the call");
}

bool is_out_of_range(const TopkCall& call) {
  std::int64_t dims = 0;
  std::int64_t* sizes = nullptr;
  if (aoti_torch_get_dim(call.self, &dims) != 0 || aoti_torch_get_sizes(call.self, &sizes) != 0) return true;
  const std::int64_t counted = dims == 0 ? 1 : dims;
  if (call.dim < -counted || call.dim >= counted) return true;
  const std::int64_t size = dims == 0 ? 1 : sizes[call.dim < 0 ? call.dim + dims : call.dim];
  return call.k < 0 || call.k > size;
}

void call_torch(const TopkCall& call, StableIValue* stack) {
  TopkHandles results{};
  std::int32_t device = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(call.self, &device));
  const bool on_cpu = device == aoti_torch_device_type_cpu();
  const auto kernel = on_cpu ? aoti_torch_cpu_topk : aoti_torch_cuda_topk;
  // A failing C function may print its error. Calls that are known to be invalid skip it.
  if (is_out_of_range(call)) throw_as_torch_does(call, on_cpu);
  if (kernel(call.self, call.k, call.dim, call.largest, call.sorted, &results.values, &results.indices) != 0) {
    throw_as_torch_does(call, on_cpu);
  }
  put(stack, results);
}

// ---- Which calls rtopk takes ----

/// Minimum number of elements for which calls other than the usual one (usual_topk.hpp) are faster than torch: their
/// overhead is about 20 us.
constexpr std::int64_t kMinElements = 8192;

/// For rows with strided elements: minimum columns and rows to be faster than torch. On a Neoverse N1, f32, speedup
/// along dimension 0: 2 x 8192: 0.57; 8 x 1024: 1.75; 4096 x 8: 1.00; 1000 x 64: 2.31.
constexpr std::int64_t kMinStridedColumns = 8;
constexpr std::int64_t kMinStridedRows = 16;

/// The same on a GPU: minimum elements of the tensor. On an H200, in 127 random selections, all 51 with at least 2^19
/// elements were faster (1.02 to 15 times, comparing the longer of host and GPU time). Of 65 with fewer than 2^17
/// elements, 33 were slower.
constexpr std::int64_t kMinStridedElementsOnGpu = 1 << 19;

/// From this many columns on, sorting (nearly) whole rows of f64 or i32 (more than 3/4) is not faster than torch.
/// Speedup on a Neoverse N1, k = cols, f64 and i32: 64 x 4096: 0.89 and 1.04; 256 x 1024: 1.11 and 1.06.
constexpr std::int64_t kMaxSortedColumns = 4096;

bool sorts_slowly(std::int64_t cols, std::int64_t k, bool sorted) {
  return sorted && cols >= kMaxSortedColumns && k > cols / 4 * 3;
}

/// True if rtopk is known to be faster than torch for a usual call.
bool usual_pays(const Problem& problem) {
  const bool slow_type = problem.dtype == DType::f64 || problem.dtype == DType::i32;
  return !(slow_type && sorts_slowly(problem.cols, problem.k, problem.order == Order::by_value));
}

/// The same for all other valid calls.
bool other_pays(const Tensor& self, const TopkCall& call, std::int64_t dim) {
  const std::int64_t cols = self.size(dim);
  switch (static_cast<ScalarType>(dtype_of(self))) {
    case ScalarType::Float:
    case ScalarType::Half:
    case ScalarType::BFloat16: break;
    case ScalarType::Double:
    case ScalarType::Int:
      if (self.is_cpu() && sorts_slowly(cols, call.k, call.sorted)) return false;
      break;
    default: return false;
  }
  const bool side_by_side = self.stride(dim) == 1;
  if (!self.is_cpu()) return side_by_side || self.numel() >= kMinStridedElementsOnGpu;
  if (self.numel() < kMinElements) return false;
  return side_by_side || (cols >= kMinStridedColumns && self.numel() / cols >= kMinStridedRows);
}

/// False for calls that torch keeps: out of range, empty selections, tensors without dimensions, and where it is
/// faster.
bool is_taken(const Tensor& self, const TopkCall& call) {
  const std::int64_t dims = self.dim();
  if (dims == 0 || call.dim < -dims || call.dim >= dims) return false;
  const std::int64_t dim = call.dim < 0 ? call.dim + dims : call.dim;
  return call.k > 0 && call.k <= self.size(dim) && self.numel() > 0 && other_pays(self, call, dim);
}

std::atomic<bool> routing_on{false};
thread_local std::int64_t calls_routed = 0;

/// True if rtopk executed the call.
bool routed(const Arguments& arguments, StableIValue* stack) {
  TopkHandles usual{};
  if (usual_topk(arguments.call(), usual, usual_pays)) {
    put(stack, usual);
    return true;
  }
  const Tensor self = arguments.self();
  if (!is_taken(self, arguments.call())) return false;
  select(arguments.call(), self, stack);
  return true;
}

void boxed_routed_topk(StableIValue* stack, std::uint64_t, std::uint64_t) {
  const Arguments arguments(stack);
  if (routing_on.load(std::memory_order_relaxed) && routed(arguments, stack)) {
    ++calls_routed;
  } else {
    call_torch(arguments.call(), stack);
  }
}

/// Replaces torch's kernel for one device during the lifetime of the returned object.
std::unique_ptr<StableLibrary> kernel_for(const char* key) {
  auto library = std::make_unique<StableLibrary>(StableLibrary::Kind::IMPL, "aten", key, __FILE__, __LINE__);
  library->impl("topk", boxed_routed_topk);
  return library;
}

void put_in_place(std::unique_ptr<StableLibrary>& kernel, const char* key, bool wanted) {
  if (!wanted) {
    kernel.reset();
  } else if (kernel == nullptr) {
    kernel = kernel_for(key);
  }
}

}  // namespace

void boxed_topk(StableIValue* stack, std::uint64_t, std::uint64_t) { select(Arguments(stack), stack); }

void boxed_topk_of_last(StableIValue* stack, std::uint64_t, std::uint64_t) {
  select(Arguments({to<AtenTensorHandle>(stack[0]), to<std::int64_t>(stack[1]), -1, true, true}), stack);
}

void boxed_no_topk(StableIValue* stack, std::uint64_t, std::uint64_t) {
  const Tensor released(to<AtenTensorHandle>(stack[0]));
  TopkHandles none{};
  TORCH_ERROR_CODE_CHECK(aoti_torch_new_uninitialized_tensor(&none.values));
  TORCH_ERROR_CODE_CHECK(aoti_torch_new_uninitialized_tensor(&none.indices));
  put(stack, none);
}

void route_topk(bool cpu, bool cuda, bool on) {
  // Never destroyed: when the process exits, torch may be gone already.
  struct Kernels {
    std::mutex mutex;
    std::unique_ptr<StableLibrary> cpu;
    std::unique_ptr<StableLibrary> cuda;
  };
  static Kernels& kernels = *new Kernels;
  const std::lock_guard<std::mutex> lock(kernels.mutex);
  if (cuda && aoti_torch_cuda_topk == nullptr) refuse("this torch was built without CUDA");
  routing_on.store(on, std::memory_order_relaxed);
  put_in_place(kernels.cpu, "CPU", cpu);
  put_in_place(kernels.cuda, "CUDA", cuda);
}

std::int64_t routed_calls() { return calls_routed; }

}  // namespace rtopk::torch_binding
