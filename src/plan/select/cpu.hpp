// Plans for the CPU backend.
#pragma once

#include <cstddef>
#include <optional>

#include <rtopk/select.hpp>

namespace rtopk::cpu {

/// What a plan has to ask of the kernels: they depend on the build and on the CPU.
struct Kernels {
  bool simd;  ///< There are SIMD kernels for this CPU. Without them the scalar reference selects.
  std::size_t (*scratch_bytes)(const Plan& plan) noexcept;  ///< Scratch of one task of a plan.
};

/// Picks the config for a problem that was checked, and the family if none is wanted.
Status make_plan(const Problem& problem, const Traits& traits, std::optional<Family> wanted, const Kernels& kernels,
                 Plan& plan) noexcept;

/// Whether run() can carry a plan out: plans are plain values and may have been changed.
Status check_plan(const Plan& plan, const Kernels& kernels) noexcept;

}  // namespace rtopk::cpu
