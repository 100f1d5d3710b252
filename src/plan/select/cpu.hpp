// Plans for the CPU backend.
#pragma once

#include <cstddef>
#include <optional>

#include <rtopk/select.hpp>

namespace rtopk::cpu {

/// What a plan needs to know of the kernels, which depend on the build and on the CPU.
struct Kernels {
  bool simd;                  ///< True if this CPU has SIMD kernels. Without them the scalar reference is used.
  std::int64_t vector_bytes;  ///< Size of its vectors; 0 without SIMD kernels.
  std::size_t (*scratch_bytes)(const Plan& plan) noexcept;  ///< Scratch of one task of a plan.
};

/// Picks the config for a problem that was already checked, and the family if `wanted` is empty.
Status make_plan(const Problem& problem, const Traits& traits, std::optional<Family> wanted, const Kernels& kernels,
                 Plan& plan) noexcept;

/// True if sorting the rows of a problem in vector lanes beats searching one after the other.
[[nodiscard]] bool sorts_in_lanes(const Problem& problem, std::int64_t vector_bytes) noexcept;

/// The family for one row of general rows whose plan has the family `planned`: that one, unless the row is too short for
/// it.
[[nodiscard]] Family family_of_row(Family planned, const Problem& row, std::int64_t vector_bytes) noexcept;

/// Checks that run() can execute a plan: plans are plain values that the caller may have changed.
Status check_plan(const Plan& plan, const Kernels& kernels) noexcept;

}  // namespace rtopk::cpu
