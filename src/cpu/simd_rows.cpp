// The CPU kernels, compiled for every instruction set that Highway knows here, and the choice between them at run time.
#if defined(RTOPK_HAVE_HIGHWAY)

#include "simd_rows.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <type_traits>

#include "backend.hpp"
#include "core/checks.hpp"
#include "core/dispatch.hpp"
#include "core/keys.hpp"
#include "core/search.hpp"
#include "core/write_row.hpp"
#include "floating_environment.hpp"
#include "position_table.hpp"
#include "scratch.hpp"

// Scalable vectors (SVE) have no size at compile time, which the unit of 8 mask bits needs; NEON runs on those CPUs.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#define HWY_TARGET_INCLUDE "cpu/simd_rows.cpp"
#include <hwy/foreach_target.h>  // includes this file again for each instruction set
#include <hwy/contrib/sort/vqsort.h>
#include <hwy/highway.h>

#if !defined(RTOPK_CPU_SHAPES)
#define RTOPK_CPU_SHAPES
namespace rtopk::cpu {

/// Elements that are listed into one array of 16-bit positions.
inline constexpr std::size_t kListedAtOnce = 4096;

}  // namespace rtopk::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace rtopk::cpu::HWY_NAMESPACE {

#include "views-inl.hpp"

#include "passes-inl.hpp"

#include "threshold-inl.hpp"

#include "results-inl.hpp"

#include "row_family-inl.hpp"

#include "stream_family-inl.hpp"

#include "bisection_family-inl.hpp"

template <class Family, class T>
void SelectRows(const Plan& plan, const void* input, const Output& output, std::int64_t begin, std::int64_t end,
                Scratch& scratch) {
  Family family(plan, output, scratch);
  if (input == nullptr) return;  // only the size of the scratch was asked for
  const T* row = static_cast<const T*>(input) + begin * core::stride_of(plan.problem);
  const std::int64_t stride = core::stride_of(plan.problem);
  for (std::int64_t number = begin; number < end; ++number, row += stride) family.Select(row, number);
}

void Run(const Plan& plan, const void* input, const Output& output, std::int64_t begin, std::int64_t end,
         Scratch& scratch) {
  core::with_element_type(plan.problem.dtype, [&]<class T>(T*) {
    core::with_direction(plan.problem.direction, [&](auto tag) {
      constexpr Direction direction = decltype(tag)::value;
      const auto run = [&]<class Family>(Family*) {
        SelectRows<Family, T>(plan, input, output, begin, end, scratch);
      };
      if (plan.family == Family::cpu_bisection) return run(static_cast<BisectionFamily<T, direction>*>(nullptr));
      if (plan.family == Family::cpu_row) return run(static_cast<RowFamily<T, direction>*>(nullptr));
      if (plan.problem.cols <= std::numeric_limits<std::uint32_t>::max()) {
        return run(static_cast<StreamFamily<T, direction, std::uint32_t>*>(nullptr));
      }
      return run(static_cast<StreamFamily<T, direction, std::uint64_t>*>(nullptr));
    });
  });
}

}  // namespace rtopk::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rtopk::cpu {

HWY_EXPORT(Run);

bool streams(const Problem& problem) noexcept { return problem.k <= problem.cols / 8; }

std::int64_t candidate_capacity(const Problem& problem) noexcept {
  const auto listed = static_cast<std::int64_t>(kListedAtOnce);
  // Twice k, so that a prune, which costs a few passes over the buffer, happens at most every k candidates.
  return std::min(problem.cols, 2 * problem.k + 256) + listed;
}

std::size_t simd_scratch_bytes(const Plan& plan) noexcept {
  const DefaultFloatingEnvironment environment;  // the families' constructors compute, and must raise no flags
  Scratch nothing(nullptr);
  HWY_DYNAMIC_DISPATCH(Run)(plan, nullptr, Output{}, 0, 0, nothing);
  return nothing.bytes();
}

void simd_rows(const Plan& plan, const void* input, const Output& output, std::int64_t begin, std::int64_t end,
               void* memory) noexcept {
  Scratch scratch(memory);
  HWY_DYNAMIC_DISPATCH(Run)(plan, input, output, begin, end, scratch);
}

const char* simd_target() noexcept {
  const std::int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(supported & -supported);  // the lowest bit is the best target
}

const char* simd_targets() noexcept {
  static const std::string names = [] {
    std::string text;
    for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
      if (!text.empty()) text += ' ';
      text += hwy::TargetName(left & -left);
    }
    return text;
  }();
  return names.c_str();
}

}  // namespace rtopk::cpu
#endif  // HWY_ONCE
#else

#include "backend.hpp"

namespace rtopk::cpu {

const char* simd_target() noexcept { return "scalar"; }
const char* simd_targets() noexcept { return "scalar"; }

}  // namespace rtopk::cpu

#endif
