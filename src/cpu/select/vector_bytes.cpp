// The size of the vectors that the kernels use on this CPU.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/select/vector_bytes.cpp"
#include "cpu/runtime/simd_targets.hpp"
#include "cpu/select/simd_rows.hpp"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rtopk::cpu::HWY_NAMESPACE {

std::int64_t VectorBytes() {
  return static_cast<std::int64_t>(hwy::HWY_NAMESPACE::MaxLanes(hwy::HWY_NAMESPACE::ScalableTag<std::uint8_t>{}));
}

}  // namespace rtopk::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rtopk::cpu {

HWY_EXPORT(VectorBytes);

// Not hwy::VectorBytes(): that is of the instruction set that Highway's own library would use.
std::int64_t simd_vector_bytes() noexcept { return HWY_DYNAMIC_DISPATCH(VectorBytes)(); }

}  // namespace rtopk::cpu
#endif
