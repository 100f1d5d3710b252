// Runs selections on tensors.
#include "selection.hpp"

#include <optional>

#include "execution.hpp"
#include "integers.hpp"

namespace rtopk::torch_binding {
namespace {

std::optional<DType> known_type(const Tensor& tensor) {
  static const std::int32_t kFloat32 = aoti_torch_dtype_float32();
  static const std::int32_t kFloat16 = aoti_torch_dtype_float16();
  static const std::int32_t kBfloat16 = aoti_torch_dtype_bfloat16();
  static const std::int32_t kFloat64 = aoti_torch_dtype_float64();
  static const std::int32_t kInt32 = aoti_torch_dtype_int32();
  const std::int32_t dtype = dtype_of(tensor);
  if (dtype == kFloat32) return DType::f32;
  if (dtype == kBfloat16) return DType::bf16;
  if (dtype == kFloat16) return DType::f16;
  if (dtype == kFloat64) return DType::f64;
  if (dtype == kInt32) return DType::i32;
  return std::nullopt;
}

void* pointer(const Tensor* tensor) { return tensor == nullptr ? nullptr : tensor->mutable_data_ptr(); }

}  // namespace

DType element_type_of(const Tensor& tensor) {
  if (const std::optional<DType> type = known_type(tensor)) return *type;
  refuse("the tensor's dtype is not supported; accepted: float32, float16, bfloat16, float64, int32");
}

void check_selectable(const Tensor& tensor) {
  if (known_type(tensor) || is_other_integer(tensor)) return;
  refuse(
      "the tensor's dtype is not supported; accepted: float32, float16, bfloat16, float64, int32, int64, int16, int8, "
      "uint8");
}

void select(const Rows& rows, Problem problem, const Results& results, const RowArrays& arrays) {
  const std::optional<DType> type = known_type(rows.tensor);
  if (!type) {
    select_integers(rows, problem, results);
    return;
  }
  problem.rows = rows.rows;
  problem.cols = rows.cols;
  problem.row_stride = rows.row_stride;
  problem.element_stride = rows.element_stride;
  problem.group_rows = rows.group_rows;
  problem.group_stride = rows.group_stride;
  problem.dtype = *type;
  problem.device = device_of(rows.tensor);
  const Output output{.values = pointer(results.values),
                      .indices = pointer(results.indices),
                      .dense = pointer(results.dense),
                      .mask = static_cast<std::uint8_t*>(pointer(results.mask)),
                      .thresholds = pointer(results.thresholds)};
  Plan plan;
  check(make_plan(problem, traits_of(problem.device), plan));
  execute_on(problem.device, rows.tensor, plan.workspace_bytes, [&](Workspace workspace, const Launch& launch) {
    check(run(plan, rows.tensor.const_data_ptr(), output, workspace, launch, arrays));
  });
}

}  // namespace rtopk::torch_binding
