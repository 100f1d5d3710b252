// Compiles the kernels of one element type for every instruction set. A file simd_<type>.cpp defines
//   RTOPK_ELEMENT        the element type,
//   RTOPK_RUN            the name of the function that simd_rows.cpp calls,
//   HWY_TARGET_INCLUDE   its own path,
// and includes this file. Highway includes that file, and thereby this one, once per instruction set.
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
#include <optional>
#include <type_traits>
#include <utility>

#include "core/checks.hpp"
#include "core/dispatch.hpp"
#include "core/keys.hpp"
#include "core/search.hpp"
#include "cpu/runtime/simd_targets.hpp"
#include "cpu/select/places.hpp"
#include "cpu/select/position_table.hpp"
#include "cpu/select/scratch.hpp"
#include "cpu/select/simd_rows.hpp"
#include "plan/select/tuning_tile.hpp"

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rtopk::cpu::HWY_NAMESPACE {

#include "cpu/select/views-inl.hpp"

#include "cpu/select/magnitude_bits-inl.hpp"

#include "cpu/select/passes-inl.hpp"

#include "cpu/select/threshold-inl.hpp"

#include "cpu/select/results-inl.hpp"

#include "cpu/select/tile-inl.hpp"

#include "cpu/select/magnitudes-inl.hpp"

#include "cpu/select/lanes_family-inl.hpp"

#include "cpu/select/row_family-inl.hpp"

#include "cpu/select/best_family-inl.hpp"

#include "cpu/select/extent-inl.hpp"

#include "cpu/select/stream_family-inl.hpp"

#include "cpu/select/early_stop-inl.hpp"

#include "cpu/select/lane_bisection-inl.hpp"

#include "cpu/select/bisection_family-inl.hpp"

#include "cpu/select/kth_value-inl.hpp"

/// Selects from a batch of rows, one row at a time unless the family takes several.
template <class Family, class T>
HWY_INLINE void SelectBatch(Family& family, const T* rows, std::int64_t stride, std::int64_t number,
                            std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) family.Select(rows + i * stride, number + i);
}

template <class T, Direction direction>
HWY_INLINE void SelectBatch(LanesFamily<T, direction>& family, const T* rows, std::int64_t stride, std::int64_t number,
                            std::int64_t count) {
  family.Select(rows, stride, number, count);
}

template <class T, Direction direction>
HWY_INLINE void SelectBatch(BisectionFamily<T, direction>& family, const T* rows, std::int64_t stride,
                            std::int64_t number, std::int64_t count) {
  family.Select(rows, stride, number, count);
}

/// Rows whose exact selections are there at a time, if their searches stop early: few, so that the cache still has the rows.
template <class Family>
inline constexpr std::int64_t kRowsStoppedAtOnce = 1;
template <class T, Direction direction>
inline constexpr std::int64_t kRowsStoppedAtOnce<LanesFamily<T, direction>> =
    static_cast<std::int64_t>(LanesFamily<T, direction>::kRows);

/// True if a family selects from copies of rows by magnitude. Early stops compute with magnitudes, too.
template <class Family>
bool CopiesMagnitudes(const Problem& problem, bool derives) {
  if (!problem.magnitude) return false;
  if constexpr (requires { Family::ComparesMagnitudes(problem); }) {
    return derives || !Family::ComparesMagnitudes(problem);
  }
  return true;
}

template <class Family, class T, Direction direction>
void SelectRows(const Plan& plan, const void* input, const Output& output, std::int64_t begin, std::int64_t end,
                Scratch& scratch) {
  const Problem& asked = plan.problem;
  const bool derives = core::stops_early(asked) && plan.family != rtopk::Family::cpu_bisection;
  std::optional<Magnitudes<T, direction>> magnitudes;
  if (CopiesMagnitudes<Family>(asked, derives)) magnitudes.emplace(asked, output, scratch);
  const Problem problem = magnitudes ? places_by_magnitude(asked, magnitudes->rows()) : asked;
  const Output& found = magnitudes ? magnitudes->found() : output;
  constexpr std::int64_t kAtOnce = kRowsStoppedAtOnce<Family>;
  Plan exact = plan;
  exact.problem = problem;
  Output best;
  if (derives) {
    exact.problem = core::tight(core::exact_pairs(problem), kAtOnce);
    exact.problem.thresholds = false;
    best.values = scratch.take<T>(kAtOnce * problem.k);
    best.indices = scratch.take<std::int64_t>(kAtOnce * problem.k);
  }
  Family family(exact, derives ? best : found, scratch);
  std::optional<EarlyStop<T, direction>> early;
  if (derives) early.emplace(problem, found, scratch);
  std::optional<KthValues<T, direction>> kth_values;
  bool knows_thresholds = false;
  if constexpr (requires { family.WritesThresholds(); }) knows_thresholds = family.WritesThresholds();
  if (asked.thresholds && !knows_thresholds) kth_values.emplace(asked, output, scratch);
  constexpr bool kMeasures = requires { family.MeasureExtents(); };
  if constexpr (kMeasures) {
    if (derives) family.MeasureExtents();
  }
  const auto extent_of = [&](const T* row) {
    if constexpr (kMeasures) {
      return family.ExtentOf(row);
    } else {
      return MeasureExtent<T, direction>(row, problem.cols);
    }
  };
  Tile<T> tile(asked, scratch);
  if (input == nullptr) return;  // only measuring the scratch memory
  const auto select = [&](const T* rows, std::int64_t stride, std::int64_t number, std::int64_t count) {
    if (!derives) return SelectBatch(family, rows, stride, number, count);
    for (std::int64_t first = 0; first < count; first += kAtOnce) {
      const T* const from = rows + first * stride;
      const std::int64_t now = std::min(kAtOnce, count - first);
      exact.problem.rows = now;
      if (problem.passes) best.passes = found.passes + number + first;
      SelectBatch(family, from, stride, 0, now);
      early->Write(from, stride, number + first, now, static_cast<std::int64_t*>(best.indices),
                   static_cast<T*>(best.values), extent_of);
    }
  };
  ForEachBatch(asked, static_cast<const T*>(input), begin, end, tile,
               [&](const T* rows, std::int64_t stride, std::int64_t number, std::int64_t count) {
                 if (magnitudes) {
                   magnitudes->ForEach(rows, stride, number, count, select);
                 } else {
                   select(rows, stride, number, count);
                 }
                 if (kth_values) kth_values->Write(rows, stride, number, count);
               });
}

template <class T>
void Run(const Plan& plan, const void* input, const Output& output, std::int64_t begin, std::int64_t end,
         Scratch& scratch) {
  core::with_direction(plan.problem.direction, [&](auto tag) {
    constexpr Direction direction = decltype(tag)::value;
    const auto run = [&]<class Family>(Family*) {
      SelectRows<Family, T, direction>(plan, input, output, begin, end, scratch);
    };
    if (plan.family == Family::cpu_lanes) return run(static_cast<LanesFamily<T, direction>*>(nullptr));
    if (plan.family == Family::cpu_best) return run(static_cast<BestFamily<T, direction>*>(nullptr));
    if (plan.family == Family::cpu_bisection) return run(static_cast<BisectionFamily<T, direction>*>(nullptr));
    if (plan.family == Family::cpu_row) return run(static_cast<RowFamily<T, direction>*>(nullptr));
    if (plan.problem.cols <= std::numeric_limits<std::uint32_t>::max()) {
      return run(static_cast<StreamFamily<T, direction, std::uint32_t>*>(nullptr));
    }
    return run(static_cast<StreamFamily<T, direction, std::uint64_t>*>(nullptr));
  });
}

// Highway needs plain functions: it makes a table with one entry per instruction set.
void RTOPK_RUN(const Plan& plan, const void* input, const Output& output, std::int64_t begin, std::int64_t end,
               Scratch& scratch) {
  Run<RTOPK_ELEMENT>(plan, input, output, begin, end, scratch);
}

}  // namespace rtopk::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rtopk::cpu {

HWY_EXPORT(RTOPK_RUN);

void RTOPK_RUN(const Plan& plan, const void* input, const Output& output, std::int64_t begin, std::int64_t end,
               Scratch& scratch) {
  HWY_DYNAMIC_DISPATCH(RTOPK_RUN)(plan, input, output, begin, end, scratch);
}

}  // namespace rtopk::cpu
#endif
