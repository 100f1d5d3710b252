// The linear map of dense rows and its derivatives, in f32, on a GPU's tensor cores: what a MaxK network multiplies where its rows
// are not sparse. As everywhere here: problem -> make_plan -> run.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/execution.hpp>
#include <rtopk/types.hpp>

namespace rtopk::gnn {

enum class LinearTerm : std::uint8_t {
  product,          ///< Y = X W^T, and the bias if there is one.
  input_gradient,   ///< dX = dY W.
  matrix_gradient,  ///< dW = dY^T X.
};

/// One product. X is rows x inputs, Y rows x outputs, W outputs x inputs.
///
/// Tensor cores have no f32. Every factor is taken apart into three bf16 numbers, which hold all of its bits, and six products of
/// parts are summed for one of factors; sums of 32 at a time are added in f32. Results are as close to the exact ones as those of
/// f32 multiplications and additions; where many are summed, mostly closer. They repeat bit for bit with the same plan. A sum that
/// an infinity or NaN is part of is NaN. What of a factor lies below 2^-126 may be lost.
struct Linear {
  LinearTerm term = LinearTerm::product;
  std::int64_t rows = 0;               ///< 0 to 2^31 - 1.
  std::int64_t inputs = 0;             ///< A multiple of 4, 4 to 65536.
  std::int64_t outputs = 0;            ///< The same.
  bool biased = false;                 ///< product: there is a bias. Otherwise not looked at.
  Device device{DeviceKind::cuda, 0};  ///< A GPU of compute capability 9.0.

  friend bool operator==(const Linear&, const Linear&) = default;
};

/// The memory of one run, all of it beginning at multiples of 16 bytes. What the term does not read is ignored. The result
/// overlaps nothing else.
struct LinearCall {
  const float* input = nullptr;     ///< rows x inputs, X.
  const float* matrix = nullptr;    ///< outputs x inputs, W.
  const float* bias = nullptr;      ///< outputs, if biased.
  const float* gradient = nullptr;  ///< rows x outputs, dY.
  float* result = nullptr;          ///< Y, dX or dW.
};

/// What will run, with its numbers.
struct LinearPlan {
  Linear problem{};
  std::int64_t parts = 1;           ///< matrix_gradient: that the rows are summed in, by different blocks. Otherwise 1.
  std::size_t workspace_bytes = 0;  ///< What run() needs. Any alignment. May be 0.

  friend bool operator==(const LinearPlan&, const LinearPlan&) = default;
};

[[nodiscard]] RTOPK_API const char* name(LinearTerm term) noexcept;

/// Checks `problem` and picks what will run on a machine with these traits. Nothing is allocated or launched.
RTOPK_API Status make_plan(const Linear& problem, const Traits& traits, LinearPlan& plan) noexcept;

/// The same, with the traits of `problem.device` as query_traits reads them.
RTOPK_API Status make_plan(const Linear& problem, LinearPlan& plan) noexcept;

/// Queues the work on the stream. Allocates nothing, prints nothing, and may be called from several threads at once. If the
/// status is not ok, nothing was written.
RTOPK_API Status run(const LinearPlan& plan, const LinearCall& call, Workspace workspace = {},
                     const Launch& launch = {}) noexcept;

}  // namespace rtopk::gnn
