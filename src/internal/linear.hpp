// Dense linear layer and its gradients, in f32, on the tensor cores of a GPU: for the rows of a MaxK network that are
// not sparse. Usage: problem -> make_plan -> run.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/execution.hpp>
#include <rtopk/types.hpp>

namespace rtopk::gnn {

/// What a linear layer computes.
enum class LinearTerm : std::uint8_t {
  product,          ///< Y = X W^T, plus the bias if there is one.
  input_gradient,   ///< dX = dY W.
  matrix_gradient,  ///< dW = dY^T X.
};

/// One product. X is rows x inputs, Y is rows x outputs, W is outputs x inputs.
///
/// Tensor cores cannot multiply f32. Each factor is split into three bf16 numbers that together hold all of its bits.
/// The sum of six products of parts replaces the product of two factors. Sums of 32 products are added up in f32.
/// Results are as accurate as f32 multiplications and additions; for long sums they are usually more accurate. They
/// repeat bit for bit with the same plan. A sum with an infinity or NaN in it is NaN. Bits of a factor below 2^-126
/// may be lost.
struct Linear {
  LinearTerm term = LinearTerm::product;
  std::int64_t rows = 0;               ///< 0 to 2^31 - 1.
  std::int64_t inputs = 0;             ///< A multiple of 4, from 4 to 65536.
  std::int64_t outputs = 0;            ///< A multiple of 4, from 4 to 65536.
  bool biased = false;                 ///< product: there is a bias. Ignored by the other terms.
  Device device{DeviceKind::cuda, 0};  ///< A GPU of compute capability 9.0.

  friend bool operator==(const Linear&, const Linear&) = default;
};

/// The memory of one run. All pointers must be aligned to 16 bytes. Pointers that the term does not use are ignored.
/// The result must not overlap other memory of the call.
struct LinearCall {
  const float* input = nullptr;     ///< X, rows x inputs.
  const float* matrix = nullptr;    ///< W, outputs x inputs.
  const float* bias = nullptr;      ///< outputs, if biased.
  const float* gradient = nullptr;  ///< dY, rows x outputs.
  float* result = nullptr;          ///< Y, dX or dW.
};

/// What run() executes: a problem and its config.
struct LinearPlan {
  Linear problem{};
  std::int64_t parts = 1;           ///< matrix_gradient: parts of the rows that different blocks sum. Otherwise 1.
  std::size_t workspace_bytes = 0;  ///< Workspace that run() needs. Any alignment. May be 0.

  friend bool operator==(const LinearPlan&, const LinearPlan&) = default;
};

[[nodiscard]] RTOPK_API const char* name(LinearTerm term) noexcept;

/// Checks `problem` and plans it for a machine with these traits. Allocates and launches nothing.
RTOPK_API Status make_plan(const Linear& problem, const Traits& traits, LinearPlan& plan) noexcept;

/// The same, with the traits that query_traits reads for `problem.device`.
RTOPK_API Status make_plan(const Linear& problem, LinearPlan& plan) noexcept;

/// Queues the work on the stream. Allocates nothing and prints nothing. Several threads may call it at once. If the
/// status is not ok, nothing was written.
RTOPK_API Status run(const LinearPlan& plan, const LinearCall& call, Workspace workspace = {},
                     const Launch& launch = {}) noexcept;

}  // namespace rtopk::gnn
