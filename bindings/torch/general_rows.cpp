// The operators for general rows.
#include "general_rows.hpp"

#include <string>

#include <torch/csrc/stable/ops.h>

#include "common/row_layout.hpp"
#include "execution.hpp"
#include "problems.hpp"
#include "selection.hpp"
#include "tensor_checks.hpp"

namespace rtopk::torch_binding {
namespace {

using torch::headeronly::ScalarType;

/// The type of a tensor of integers that kernels read as it lies.
ArrayType checked_array(const char* name, const Tensor& array, const Tensor& self) {
  check_memory(name, array);
  check_device(name, array, self, "input");
  const ScalarType type = array.scalar_type();
  if (type != ScalarType::Int && type != ScalarType::Long) {
    refuse(std::string(name) + " is neither int32 nor int64; accepted: one of them");
  }
  return type == ScalarType::Int ? ArrayType::i32 : ArrayType::i64;
}

void check_contiguous(const char* name, const Tensor& array) {
  if (!array.is_contiguous()) {
    refuse(std::string(name) + " is not contiguous; accepted: a tensor without gaps, such as its contiguous()");
  }
}

/// The same for one number for each row: a tensor with the first `dims` sizes of `self`.
ArrayType checked_row_array(const char* name, const Tensor& array, const Tensor& self, std::int64_t dims) {
  const ArrayType type = checked_array(name, array, self);
  check_dims(name, array, dims);
  for (std::int64_t i = 0; i < dims; ++i) {
    check_size(name, array, i, self.size(i), "as the input has: one number for each row");
  }
  check_contiguous(name, array);
  return type;
}

const void* address(const MaybeTensor& tensor) { return tensor ? tensor->const_data_ptr() : nullptr; }

/// Fewer types than for plain rows: a value that loses against all others exists in the library's own types only.
void check_general_input(const char* name, const Tensor& self) {
  check_memory(name, self);
  element_type_of(self);
}

/// One call: what is asked for, and where the tensors are that say which rows.
struct General {
  Rows rows;
  Problem problem;
  RowArrays arrays;
  std::int64_t dim = 0;
};

void check_adjacent_dim(const Tensor& self, std::int64_t dim) {
  if (self.dim() == 0 || dim != self.dim() - 1) {
    refuse("dim is " + std::to_string(dim) + " of a tensor with " + std::to_string(self.dim()) +
           " dimensions; accepted with lengths, starts, row_k or ids: the last dimension");
  }
}

void add_ragged(const MaybeTensor& lengths, const MaybeTensor& starts, const MaybeTensor& row_k, const Tensor& self,
                General& call) {
  const auto type = [&](const char* name, const MaybeTensor& array) {
    return array ? checked_row_array(name, *array, self, self.dim() - 1) : ArrayType::none;
  };
  Ragged& ragged = call.problem.ragged;
  ragged.lengths = type("lengths", lengths);
  ragged.starts = type("starts", starts);
  ragged.k = type("row_k", row_k);
  call.arrays.lengths = address(lengths);
  call.arrays.starts = address(starts);
  call.arrays.k = address(row_k);
}

void check_id_type(ArrayType type, IndexType index_type) {
  if (type == ArrayType::i64 && index_type != IndexType::i64) {
    refuse("index_dtype is not torch.int64, and ids are int64; accepted for them: torch.int64");
  }
}

void add_ids(const MaybeTensor& ids, const Tensor& self, General& call) {
  if (!ids) return;
  const ArrayType type = checked_array("ids", *ids, self);
  check_dims("ids", *ids, self.dim());
  for (std::int64_t i = 0; i < self.dim(); ++i) check_size("ids", *ids, i, self.size(i), "as the input has");
  check_id_type(type, call.problem.index_type);
  call.problem.index_map = {.kind = IndexKind::ids, .type = type, .stride = adjacent_rows("ids", *ids).row_stride};
  call.arrays.map = ids->const_data_ptr();
}

/// The rows of `self`, and what options and arrays say about them.
General general_rows(const Tensor& self, std::int64_t k, std::int64_t dim, const MaybeTensor& lengths,
                     const MaybeTensor& starts, const MaybeTensor& row_k, bool has_map, bool largest, bool magnitude,
                     std::int64_t max_iter, double epsilon, bool printed, bool bisection) {
  check_general_input("input", self);
  General call;
  call.dim = wrapped_dim(self, dim);
  check_k(self, k, call.dim);
  call.problem = problem_of(k, largest, max_iter, epsilon, printed, bisection);
  call.problem.magnitude = magnitude;
  if (lengths || starts || row_k || has_map) {
    check_adjacent_dim(self, call.dim);
    call.rows = adjacent_rows("input", self);
    add_ragged(lengths, starts, row_k, self, call);
  } else {
    call.rows = rows_along(self, call.dim);
  }
  return call;
}

void set_pairs(bool sorted, bool threshold, ScalarType index_dtype, General& call) {
  Problem& problem = call.problem;
  problem.order = sorted ? Order::by_value : Order::unsorted;
  problem.thresholds = threshold;
  if (threshold && problem.k == 0) refuse("k is 0; accepted with a threshold: 1 or more");
  if (index_dtype == ScalarType::Byte || index_dtype == ScalarType::UInt16) {
    problem.form = Form::cbsr;
    problem.index_type = index_dtype == ScalarType::Byte ? IndexType::u8 : IndexType::u16;
  } else {
    problem.index_type = index_type_of(index_dtype);
  }
}

std::tuple<Tensor, Tensor, Tensor> selected(const General& call, const Tensor& values, const Tensor& indices,
                                            const Tensor& thresholds) {
  if (!nothing_to_do(call.rows, call.problem)) {
    select(call.rows, call.problem, {.values = &values, .indices = &indices, .thresholds = &thresholds}, call.arrays);
  }
  return {results_along(values, call.dim), results_along(indices, call.dim), thresholds};
}

Tensor no_thresholds(const Tensor& self) { return empty_vector(0, self); }

/// Results of the input's shape: the dense form or the mask.
Tensor whole_rows(General call, Form form) {
  call.problem.form = form;
  const std::int32_t dtype = form == Form::mask ? aoti_torch_dtype_bool() : dtype_of(call.rows.tensor);
  Tensor result = empty_results(call.rows, call.rows.cols, dtype);
  if (nothing_to_do(call.rows, call.problem)) {
    torch::stable::zero_(result);
  } else if (form == Form::mask) {
    select(call.rows, call.problem, {.mask = &result}, call.arrays);
  } else {
    select(call.rows, call.problem, {.dense = &result}, call.arrays);
  }
  return results_along(result, call.dim);
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> topk_rows(const Tensor& self, std::int64_t k, std::int64_t dim,
                                             const MaybeTensor& lengths, const MaybeTensor& starts,
                                             const MaybeTensor& row_k, const MaybeTensor& ids, bool largest,
                                             bool sorted, bool magnitude, bool threshold, std::int64_t max_iter,
                                             double epsilon, ScalarType index_dtype, bool printed, bool bisection) {
  General call = general_rows(self, k, dim, lengths, starts, row_k, ids.has_value(), largest, magnitude, max_iter,
                              epsilon, printed, bisection);
  call.problem.k = results_per_row(self, k);
  set_pairs(sorted, threshold, index_dtype, call);
  add_ids(ids, self, call);
  const Tensor values = empty_results(call.rows, call.problem.k, dtype_of(self));
  const Tensor indices = empty_results(call.rows, call.problem.k, index_dtype_of(call.problem.index_type));
  return selected(call, values, indices,
                  threshold ? empty_row_results(call.rows, dtype_of(self)) : no_thresholds(self));
}

std::tuple<Tensor, Tensor, Tensor> topk_segments(const Tensor& values, const Tensor& offsets, std::int64_t k,
                                                 const MaybeTensor& row_k, const MaybeTensor& ids,
                                                 std::int64_t max_length, bool largest, bool sorted, bool magnitude,
                                                 bool threshold, ScalarType index_dtype) {
  check_general_input("values", values);
  check_dims("values", values, 1);
  check_contiguous("values", values);
  if (k < 0) refuse("k is " + std::to_string(k) + "; accepted: 0 or more");
  if (max_length < 0) refuse("max_length is " + std::to_string(max_length) + "; accepted: None, or 1 or more");
  const ArrayType offsets_type = checked_array("offsets", offsets, values);
  check_dims("offsets", offsets, 1);
  check_contiguous("offsets", offsets);
  if (offsets.numel() == 0) refuse("offsets has no elements; accepted: one for each segment, and one more");
  const std::int64_t rows = offsets.numel() - 1;

  General call;
  call.problem = problem_of(k, largest, 0, 0.0, false, false);
  call.problem.magnitude = magnitude;
  set_pairs(sorted, threshold, index_dtype, call);
  call.problem.ragged.offsets = offsets_type;
  call.arrays.offsets = offsets.const_data_ptr();
  if (row_k) {
    call.problem.ragged.k = checked_array("row_k", *row_k, values);
    check_dims("row_k", *row_k, 1);
    check_size("row_k", *row_k, 0, rows, "one for each segment");
    check_contiguous("row_k", *row_k);
    call.arrays.k = row_k->const_data_ptr();
  }
  if (ids) {
    const ArrayType type = checked_array("ids", *ids, values);
    check_dims("ids", *ids, 1);
    check_size("ids", *ids, 0, values.numel(), "one for each value");
    check_contiguous("ids", *ids);
    check_id_type(type, call.problem.index_type);
    call.problem.index_map = {.kind = IndexKind::ids, .type = type};
    call.arrays.map = ids->const_data_ptr();
  }
  bindings::set_segments(rows, values.numel(), max_length, call.problem);
  call.rows = {.tensor = values, .rows = rows, .cols = call.problem.cols, .row_stride = 0};
  call.dim = 1;
  const Sizes sizes{.count = 2, .each = {rows, k}};
  return selected(call, empty_contiguous(sizes, dtype_of(values), values),
                  empty_contiguous(sizes, index_dtype_of(call.problem.index_type), values),
                  threshold ? empty_vector(rows, values) : no_thresholds(values));
}

Tensor maxk_rows(const Tensor& self, std::int64_t k, std::int64_t dim, const MaybeTensor& lengths,
                 const MaybeTensor& starts, const MaybeTensor& row_k, bool largest, bool magnitude,
                 std::int64_t max_iter, double epsilon, bool printed, bool bisection) {
  return whole_rows(general_rows(self, k, dim, lengths, starts, row_k, false, largest, magnitude, max_iter, epsilon,
                                 printed, bisection),
                    Form::dense);
}

Tensor topk_mask_rows(const Tensor& self, std::int64_t k, std::int64_t dim, const MaybeTensor& lengths,
                      const MaybeTensor& starts, const MaybeTensor& row_k, bool largest, bool magnitude,
                      std::int64_t max_iter, double epsilon, bool printed, bool bisection) {
  return whole_rows(general_rows(self, k, dim, lengths, starts, row_k, false, largest, magnitude, max_iter, epsilon,
                                 printed, bisection),
                    Form::mask);
}

void topk_places_out(const Tensor& self, const MaybeTensor& lengths, const MaybeTensor& starts,
                     const MaybeTensor& row_k, const Tensor& map, std::int64_t page_size, const MaybeTensor& table_of,
                     bool largest, bool sorted, bool magnitude, Tensor places) {
  check_memory("input", self);
  check_memory("out", places);
  if (places.dim() < 1) refuse("out has 0 dimensions; accepted: those of the input");
  General call = general_rows(self, places.size(places.dim() - 1), -1, lengths, starts, row_k, true, largest, magnitude,
                              0, 0.0, false, false);
  set_pairs(sorted, false, places.scalar_type(), call);
  if (call.problem.form != Form::pairs) refuse("out is neither int32 nor int64; accepted: one of them");
  check_device("out", places, self, "input");
  check_dims("out", places, self.dim());
  for (std::int64_t i = 0; i + 1 < self.dim(); ++i) check_size("out", places, i, self.size(i), "as the input has");
  check_contiguous("out", places);

  const bool paged = page_size != 0;
  const char* const name = paged ? "page_table" : "offsets";
  IndexMap& to = call.problem.index_map;
  if (paged) {
    if (page_size < 1) refuse("page_size is " + std::to_string(page_size) + "; accepted: 1 or more");
    to = {.kind = IndexKind::pages, .type = checked_array(name, map, self), .page_size = page_size};
    check_dims(name, map, 2);
    to.tables = map.size(0);
    to.pages = map.size(1);
    if (map.numel() == 0 && call.rows.rows > 0) {
      refuse("page_table has no elements; accepted: tables of 1 page or more");
    }
    if (!table_of && to.tables < call.rows.rows) {
      refuse("page_table has " + std::to_string(to.tables) + " tables; accepted without row_to_table: " +
             std::to_string(call.rows.rows) + " or more, one for each row");
    }
    to.stride = adjacent_rows(name, map).row_stride;
  } else {
    to = {.kind = IndexKind::shifted, .type = checked_row_array(name, map, self, self.dim() - 1)};
  }
  if (table_of) {
    if (!paged) refuse("row_to_table is given without a page size; accepted: only with one");
    to.table_of = checked_row_array("row_to_table", *table_of, self, self.dim() - 1);
    call.arrays.table_of = table_of->const_data_ptr();
  }
  if (to.type == ArrayType::i64 && call.problem.index_type != IndexType::i64) {
    refuse(std::string("out is int32, and ") + name + " int64; accepted: out of int64");
  }
  call.arrays.map = map.const_data_ptr();
  call.problem.values = false;
  if (!nothing_to_do(call.rows, call.problem)) {
    select(call.rows, call.problem, {.indices = &places}, call.arrays);
  }
}

}  // namespace rtopk::torch_binding
