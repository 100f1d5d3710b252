// Stands in for simd_rows.cpp in a build without Highway: what `rtopk info` says of it.
#include "backend.hpp"

namespace rtopk::cpu {

const char* simd_target() noexcept { return "scalar"; }
const char* simd_targets() noexcept { return "scalar"; }

}  // namespace rtopk::cpu
