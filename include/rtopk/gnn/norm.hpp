// LayerNorm with an optional bias before it, and its gradients: the step between two layers of a MaxK network.
// Usage: problem -> make_plan -> run.
//
//   rtopk::gnn::Norm problem{.rows = n, .cols = 256, .biased = true, .device = {rtopk::DeviceKind::cuda, 0}};
//   rtopk::gnn::NormPlan plan;
//   if (auto status = rtopk::gnn::make_plan(problem, plan); !status.ok()) { ... status.text() ... }
//   auto status = rtopk::gnn::run(plan, {.input = x, .bias = bias, .gamma = gamma, .beta = beta, .result = y},
//                            {workspace, plan.workspace_bytes}, {.stream = stream});
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/execution.hpp>
#include <rtopk/types.hpp>

namespace rtopk::gnn {

/// What a normalization computes.
enum class NormTerm : std::uint8_t {
  rows,      ///< Y = (Z - mean) / sqrt(variance + epsilon) * gamma + beta, Z = X + bias. mean, variance: per row.
  gradient,  ///< dX and the gradients of gamma, beta and bias, from dY.
  compact_gradient,  ///< The same from a dY with k nonzero elements per row (CBSR), as MaxK after the norm gives it.
};

/// One normalization, in f32, on a GPU. `rows` keeps nothing for the gradient, which reads X again.
///
/// The gradients of gamma, beta and bias are sums over all rows. The plan fixes their order, so that they repeat bit
/// for bit.
struct Norm {
  NormTerm term = NormTerm::rows;
  std::int64_t rows = 0;                    ///< 0 to 2^31 - 1.
  std::int64_t cols = 0;                    ///< 1 to 512, or a multiple of 4 up to 1024.
  std::int64_t k = 0;                       ///< compact_gradient: 1 <= k <= cols. Ignored by the other terms.
  IndexType selector_type = IndexType::u8;  ///< compact_gradient: u8 (for at most 256 columns) or u16.
  bool biased = false;                      ///< There is a bias. If false, Z = X.
  float epsilon = 1e-5f;                    ///< >= 0.
  Device device{DeviceKind::cuda, 0};       ///< Must be a GPU.

  friend bool operator==(const Norm&, const Norm&) = default;
};

/// The memory of one run. Pointers that the term does not use are ignored. Outputs must not overlap other memory of the
/// call. Above 512 columns, matrices and vectors must be aligned to 16 bytes. Up to 512 columns this is optional but
/// faster.
///
/// The selectors of a row must be distinct: if two are equal, the contribution of one of them is lost. A selector >=
/// cols contributes nothing.
struct NormCall {
  const float* input = nullptr;     ///< X, rows x cols.
  const float* bias = nullptr;      ///< cols, if biased.
  const float* gamma = nullptr;     ///< cols.
  const float* beta = nullptr;      ///< Term `rows`: cols.
  const float* gradient = nullptr;  ///< gradient: dY, rows x cols.
  const float* values = nullptr;    ///< compact_gradient: the elements of dY at the selectors, rows x k.
  const void* selectors = nullptr;  ///< compact_gradient: rows x k.
  float* result = nullptr;          ///< Y or dX, rows x cols.
  float* gamma_gradient = nullptr;  ///< Both gradients: cols.
  float* beta_gradient = nullptr;   ///< Both gradients: cols.
  float* bias_gradient = nullptr;   ///< Both gradients: cols, if biased.
};

/// What run() executes: a problem and its config.
struct NormPlan {
  Norm problem{};
  std::int32_t threads = 0;         ///< Threads of a block. A warp takes one row after another.
  std::int64_t blocks = 0;          ///< Each block writes partial sums for the gradients of gamma, beta and bias.
  std::size_t shared_bytes = 0;     ///< Shared memory of a block.
  std::size_t workspace_bytes = 0;  ///< Workspace that run() needs. Any alignment. May be 0.

  friend bool operator==(const NormPlan&, const NormPlan&) = default;
};

/// The name of the enumerator, or "?" if the value is not an enumerator.
[[nodiscard]] RTOPK_API const char* name(NormTerm term) noexcept;

/// Checks `problem` and plans it for a machine with these traits. Allocates and launches nothing.
RTOPK_API Status make_plan(const Norm& problem, const Traits& traits, NormPlan& plan) noexcept;

/// The same, with the traits that query_traits reads for `problem.device`.
RTOPK_API Status make_plan(const Norm& problem, NormPlan& plan) noexcept;

/// Queues the work on the stream. Allocates nothing and prints nothing. Several threads may call it at once. If the
/// status is not ok, nothing was written.
RTOPK_API Status run(const NormPlan& plan, const NormCall& call, Workspace workspace = {},
                     const Launch& launch = {}) noexcept;

}  // namespace rtopk::gnn
