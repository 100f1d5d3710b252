// Operators for rows that are more than those of a matrix (rtopk/rows.hpp): with lengths, starts and k of their own,
// segments of a flat tensor, compared by magnitude, with a threshold, and with indices that are ids or places in a
// paged cache. Tensors that describe rows are read by the kernels, as they lie, on the device of the input.
#pragma once

#include <cstdint>
#include <tuple>

#include <torch/headeronly/core/ScalarType.h>

#include "rows.hpp"

namespace rtopk::torch_binding {

/// Values, indices and thresholds; no thresholds, a tensor without elements, unless `threshold`. With an index dtype of
/// uint8 or uint16 the form is CBSR. `dim` may be another one than the last if there are no lengths, starts, k and ids.
std::tuple<Tensor, Tensor, Tensor> topk_rows(const Tensor& self, std::int64_t k, std::int64_t dim,
                                             const MaybeTensor& lengths, const MaybeTensor& starts,
                                             const MaybeTensor& row_k, const MaybeTensor& ids, bool largest,
                                             bool sorted, bool magnitude, bool threshold, std::int64_t max_iter,
                                             double epsilon, torch::headeronly::ScalarType index_dtype, bool printed,
                                             bool bisection);

/// The same for segments of flat values. `max_length`: the length of the longest; 0: not known.
std::tuple<Tensor, Tensor, Tensor> topk_segments(const Tensor& values, const Tensor& offsets, std::int64_t k,
                                                 const MaybeTensor& row_k, const MaybeTensor& ids,
                                                 std::int64_t max_length, bool largest, bool sorted, bool magnitude,
                                                 bool threshold, torch::headeronly::ScalarType index_dtype);

Tensor maxk_rows(const Tensor& self, std::int64_t k, std::int64_t dim, const MaybeTensor& lengths,
                 const MaybeTensor& starts, const MaybeTensor& row_k, bool largest, bool magnitude,
                 std::int64_t max_iter, double epsilon, bool printed, bool bisection);

Tensor topk_mask_rows(const Tensor& self, std::int64_t k, std::int64_t dim, const MaybeTensor& lengths,
                      const MaybeTensor& starts, const MaybeTensor& row_k, bool largest, bool magnitude,
                      std::int64_t max_iter, double epsilon, bool printed, bool bisection);

/// Writes places of the selected elements into a given tensor, which tells k. With a page size, `map` has a page table
/// in each row; row r has table r, or table_of[r]. With page_size 0, `map` has the place of each row's first element.
void topk_places_out(const Tensor& self, const MaybeTensor& lengths, const MaybeTensor& starts,
                     const MaybeTensor& row_k, const Tensor& map, std::int64_t page_size, const MaybeTensor& table_of,
                     bool largest, bool sorted, bool magnitude, Tensor places);

}  // namespace rtopk::torch_binding
