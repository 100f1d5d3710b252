// Checks and problems of operators that select.
#include "problems.hpp"

#include <stdexcept>
#include <string>

#include "selection.hpp"
#include "tensor_checks.hpp"

namespace rtopk::torch_binding {

using torch::headeronly::ScalarType;

void check_input(const Tensor& self) {
  check_memory("input", self);
  check_selectable(self);
}

void check_k(const Tensor& self, std::int64_t k, std::int64_t dim) {
  const std::int64_t size = self.dim() == 0 ? 1 : self.size(dim);
  if (k < 0 || k > size) {
    throw std::runtime_error("selected index k out of range: k is " + std::to_string(k) + "; accepted: 0 to " +
                             std::to_string(size) + ", the size of dimension " + std::to_string(dim));
  }
}

std::int64_t results_per_row(const Tensor& self, std::int64_t k) { return self.dim() == 0 ? 1 : k; }

Problem problem_of(std::int64_t k, bool largest, std::int64_t max_iter, double epsilon, bool printed, bool bisection) {
  if (max_iter < 0 || max_iter > 10000) {
    throw std::runtime_error("rtopk: max_iter is " + std::to_string(max_iter) + "; accepted: None, or 1 to 10000");
  }
  return {.k = k,
          .direction = largest ? Direction::largest : Direction::smallest,
          .max_iter = static_cast<std::int32_t>(max_iter),
          .rule = printed ? Rule::printed : Rule::threshold_first,
          .epsilon = epsilon,
          .search = bisection ? Search::bisection : Search::fast};
}

IndexType index_type_of(ScalarType dtype) {
  if (dtype == ScalarType::Long) return IndexType::i64;
  if (dtype == ScalarType::Int) return IndexType::i32;
  throw std::runtime_error("rtopk: index_dtype is neither torch.int64 nor torch.int32; accepted: one of them");
}

bool nothing_to_do(const Rows& rows, const Problem& problem) { return rows.rows == 0 || problem.k == 0; }

std::int32_t index_dtype_of(IndexType type) {
  switch (type) {
    case IndexType::i32: return aoti_torch_dtype_int32();
    case IndexType::i64: return aoti_torch_dtype_int64();
    case IndexType::u8: return aoti_torch_dtype_uint8();
    case IndexType::u16: return aoti_torch_dtype_uint16();
  }
  throw std::logic_error("unknown index type");
}

}  // namespace rtopk::torch_binding
