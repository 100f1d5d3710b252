// Rows normalized to mean 0 and variance 1 (LayerNorm), with the bias before it, and their derivatives: what stands between two
// layers of a MaxK network. As everywhere here: problem -> make_plan -> run.
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

enum class NormTerm : std::uint8_t {
  rows,  ///< Y = (Z - mean) / sqrt(variance + epsilon) * gamma + beta, with Z = X + bias; mean and variance of each row.
  gradient,          ///< From dY: dX, and the gradients of gamma, beta and the bias.
  compact_gradient,  ///< The same from a dY that is zero but for k elements of each row (CBSR), as a MaxK after it leaves it.
};

/// One normalization, in f32 and on a GPU. Nothing is kept from `rows` for its gradient, which reads X again.
///
/// The gradients of gamma, beta and the bias are sums over all rows, in an order that the plan fixes: they repeat bit for bit.
struct Norm {
  NormTerm term = NormTerm::rows;
  std::int64_t rows = 0;                    ///< 0 to 2^31 - 1.
  std::int64_t cols = 0;                    ///< 1 to 512, or a multiple of 4 up to 1024.
  std::int64_t k = 0;                       ///< compact_gradient: 1 <= k <= cols. Otherwise not looked at.
  IndexType selector_type = IndexType::u8;  ///< compact_gradient: u8 (up to 256 columns) or u16.
  bool biased = false;                      ///< There is a bias; else Z = X.
  float epsilon = 1e-5f;                    ///< >= 0.
  Device device{DeviceKind::cuda, 0};       ///< A GPU.

  friend bool operator==(const Norm&, const Norm&) = default;
};

/// The memory of one run. What the term neither reads nor writes is ignored. What is written overlaps nothing else. Above 512
/// columns rows and what is added to or multiplied with them begin at multiples of 16 bytes; below it is faster if they do.
///
/// The selectors of a row are distinct; of two that are equal, what one of them brings is lost. One that is not below cols brings
/// nothing.
struct NormCall {
  const float* input = nullptr;     ///< rows x cols, X.
  const float* bias = nullptr;      ///< cols, if biased.
  const float* gamma = nullptr;     ///< cols.
  const float* beta = nullptr;      ///< rows: cols.
  const float* gradient = nullptr;  ///< gradient: rows x cols, dY.
  const float* values = nullptr;    ///< compact_gradient: rows x k, what dY has at the selectors.
  const void* selectors = nullptr;  ///< compact_gradient: rows x k.
  float* result = nullptr;          ///< rows x cols, Y or dX.
  float* gamma_gradient = nullptr;  ///< Both gradients: cols.
  float* beta_gradient = nullptr;   ///< Both gradients: cols.
  float* bias_gradient = nullptr;   ///< Both gradients: cols, if biased.
};

/// What will run, with its numbers.
struct NormPlan {
  Norm problem{};
  std::int32_t threads = 0;         ///< Of a block. A warp takes rows in turn.
  std::int64_t blocks = 0;          ///< Each leaves sums of its own for the gradients of gamma, beta and bias.
  std::size_t shared_bytes = 0;     ///< Shared memory of a block.
  std::size_t workspace_bytes = 0;  ///< What run() needs, in all. Any alignment. May be 0.

  friend bool operator==(const NormPlan&, const NormPlan&) = default;
};

[[nodiscard]] RTOPK_API const char* name(NormTerm term) noexcept;

/// Checks `problem` and picks what will run on a machine with these traits. Nothing is allocated or launched.
RTOPK_API Status make_plan(const Norm& problem, const Traits& traits, NormPlan& plan) noexcept;

/// The same, with the traits of `problem.device` as query_traits reads them.
RTOPK_API Status make_plan(const Norm& problem, NormPlan& plan) noexcept;

/// Queues the work on the stream. Allocates nothing, prints nothing, and may be called from several threads at once. If the
/// status is not ok, nothing was written.
RTOPK_API Status run(const NormPlan& plan, const NormCall& call, Workspace workspace = {},
                     const Launch& launch = {}) noexcept;

}  // namespace rtopk::gnn
