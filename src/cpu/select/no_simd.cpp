// Replaces the files simd_*.cpp in a build without Highway.
#include "cpu/aggregate/aggregate.hpp"
#include "cpu/backend.hpp"
#include "cpu/product/product.hpp"

namespace rtopk::cpu {

bool has_simd() noexcept { return false; }
const char* simd_target() noexcept { return "scalar"; }
const char* simd_targets() noexcept { return "scalar"; }

// Nobody calls it without SIMD.
void aggregate_dense(const gnn::AggregationPlan&, const gnn::AggregationCall&, std::int64_t, std::int64_t, float*) {}

void multiply(const gnn::Product& problem, const gnn::ProductCall& call, const ProductPart& part) noexcept {
  multiply_scalar(problem, call, part);
}

}  // namespace rtopk::cpu
