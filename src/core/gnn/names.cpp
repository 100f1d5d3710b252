// Names of the enumerators of rtopk::gnn.
#include <rtopk/gnn/aggregate.hpp>
#include <rtopk/gnn/norm.hpp>
#include <rtopk/gnn/product.hpp>

#include "internal/linear.hpp"

namespace rtopk::gnn {

const char* name(AggregationTerm term) noexcept {
  switch (term) {
    case AggregationTerm::forward: return "forward";
    case AggregationTerm::backward: return "backward";
  }
  return "?";
}

const char* name(ProductTerm term) noexcept {
  switch (term) {
    case ProductTerm::product: return "product";
    case ProductTerm::values_gradient: return "values_gradient";
    case ProductTerm::matrix_gradient: return "matrix_gradient";
  }
  return "?";
}

const char* name(NormTerm term) noexcept {
  switch (term) {
    case NormTerm::rows: return "rows";
    case NormTerm::gradient: return "gradient";
    case NormTerm::compact_gradient: return "compact_gradient";
  }
  return "?";
}

const char* name(LinearTerm term) noexcept {
  switch (term) {
    case LinearTerm::product: return "product";
    case LinearTerm::input_gradient: return "input_gradient";
    case LinearTerm::matrix_gradient: return "matrix_gradient";
  }
  return "?";
}

const char* name(AggregationFamily family) noexcept {
  switch (family) {
    case AggregationFamily::cpu_rows: return "cpu_rows";
    case AggregationFamily::cpu_gather: return "cpu_gather";
    case AggregationFamily::cuda_gather: return "cuda_gather";
    case AggregationFamily::cuda_stream: return "cuda_stream";
    case AggregationFamily::cuda_stream_scatter: return "cuda_stream_scatter";
  }
  return "?";
}

}  // namespace rtopk::gnn
