// Stands in for the files simd_*.cpp in a build without Highway.
#include "backend.hpp"
#include "product.hpp"

namespace rtopk::cpu {

bool has_simd() noexcept { return false; }
const char* simd_target() noexcept { return "scalar"; }
const char* simd_targets() noexcept { return "scalar"; }

void multiply(const Product& problem, const ProductCall& call, const ProductPart& part) noexcept {
  multiply_scalar(problem, call, part);
}

}  // namespace rtopk::cpu
