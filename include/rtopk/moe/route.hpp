// Expert routing: the k experts of every token and their weights, from the logits of a router, in one step. Usage:
// problem -> make_plan -> run.
//
//   rtopk::moe::Route problem{.rows = tokens, .experts = 256, .k = 8, .groups = 8, .group_k = 4,
//                             .score = rtopk::moe::Score::sigmoid, .biased = true};
//   rtopk::moe::RoutePlan plan;
//   if (auto status = rtopk::moe::make_plan(problem, plan); !status.ok()) { ... status.text() ... }
//   auto status = rtopk::moe::run(plan, {.logits = logits, .bias = bias, .weights = weights, .ids = ids});
#pragma once

#include <cstddef>
#include <cstdint>

#include <rtopk/execution.hpp>
#include <rtopk/types.hpp>

namespace rtopk::moe {

/// What a logit becomes, in f32, before experts are compared.
enum class Score : std::uint8_t {
  softmax,       ///< exp(x) / sum of exp over all experts.
  sigmoid,       ///< 1 / (1 + exp(-x)).
  sqrtsoftplus,  ///< sqrt(log(1 + exp(x))).
};

inline constexpr std::int64_t kMaxExperts = 1024;
inline constexpr std::int64_t kMaxRoutes = 32;  ///< Experts of a token.

/// One routing: of every row (token) the k experts with the greatest biased scores.
///
/// The biased score of an expert is its score plus its bias; without a bias, its score. Experts are compared by biased
/// scores in the contract's order: NaN is greater than every number. Equal ones: the lower expert first. Results are in
/// this order, too. k ids are distinct whatever the logits are.
///
/// Groups: experts are divided into `groups` groups of neighbours, all of the same size. A group's score is the sum of
/// its two greatest biased scores (of a group of one, its only one). The `group_k` best groups stay, of equal ones the
/// lower first. Experts of other groups are never selected.
///
/// A weight is the score, without the bias. `renormalize` divides it by the sum of the row's k weights plus 1e-20. Then
/// it is multiplied by `scale`.
///
/// Scores are computed by rounded additions, multiplications, divisions and square roots in a fixed order. So weights
/// and ids are the same bits on every device, with any number of threads. A score is within 2.5 ulp of the
/// exact one; below 2^-126 its error is less than 2^-126.
struct Route {
  std::int64_t rows = 0;     ///< >= 0.
  std::int64_t experts = 0;  ///< 1 to 1024.
  std::int64_t k = 0;        ///< 1 to 32, and no more than the experts of group_k groups.
  std::int64_t groups = 1;   ///< 1 or more; divides experts.
  std::int64_t group_k = 1;  ///< 1 to groups.
  DType dtype = DType::f32;  ///< Of the logits: f32, f16 or bf16.
  Score score = Score::softmax;
  bool biased = false;  ///< There is a bias.
  bool renormalize = true;
  float scale = 1.0f;
  Device device{};

  friend bool operator==(const Route&, const Route&) = default;
};

/// The memory of one run. Outputs must not overlap other memory of the call.
struct RouteCall {
  const void* logits = nullptr;  ///< rows x experts. Aligned to 16 bytes is faster on a GPU.
  const float* bias = nullptr;   ///< experts, if biased. Ignored otherwise.
  float* weights = nullptr;      ///< rows x k.
  std::int32_t* ids = nullptr;   ///< rows x k.
};

/// What run() executes: a problem and its config.
struct RoutePlan {
  Route problem{};
  std::int32_t threads = 1;  ///< CPU: number of tasks. CUDA: threads of a block.
  /// CPU: rows that a task takes at a time. CUDA: rows of a warp at a time; 8 or 16: eight lanes have one, four after
  /// four; 32: one in every lane.
  std::int64_t rows_per_worker = 1;
  std::int64_t blocks = 1;          ///< CUDA: blocks that share the rows. CPU: 1.
  std::size_t shared_bytes = 0;     ///< CUDA: shared memory of a block.
  std::size_t workspace_bytes = 0;  ///< Always 0.

  friend bool operator==(const RoutePlan&, const RoutePlan&) = default;
};

/// The name of the enumerator, or "?" if the value is not an enumerator.
[[nodiscard]] RTOPK_API const char* name(Score score) noexcept;

/// Checks `problem` and plans it for a machine with these traits. Allocates and launches nothing.
RTOPK_API Status make_plan(const Route& problem, const Traits& traits, RoutePlan& plan) noexcept;

/// The same, with the traits that query_traits reads for `problem.device`.
RTOPK_API Status make_plan(const Route& problem, RoutePlan& plan) noexcept;

/// Routes. On the CPU the result is complete on return. On CUDA one kernel is queued on the stream. Allocates nothing
/// and prints nothing. Several threads may call it at once. If the status is not ok, nothing was written.
RTOPK_API Status run(const RoutePlan& plan, const RouteCall& call, Workspace workspace = {},
                     const Launch& launch = {}) noexcept;

}  // namespace rtopk::moe
