// Splits expert routing into tasks that take blocks of rows. The rows themselves are routed by the plain loops of
// core/moe/reference.cpp.
#include "cpu/route/route.hpp"

#include <algorithm>
#include <atomic>

#include "core/checks.hpp"
#include "core/moe/reference.hpp"
#include "cpu/runtime/floating_environment.hpp"
#include "cpu/runtime/threads.hpp"

namespace rtopk::cpu {
namespace {

constexpr std::int64_t kElementsPerBlock = std::int64_t{1} << 14;  // some 30 us

std::int64_t blocks_of(const moe::RoutePlan& plan) {
  return plan.problem.rows / plan.rows_per_worker + (plan.problem.rows % plan.rows_per_worker != 0 ? 1 : 0);
}

struct Job {
  const moe::RoutePlan& plan;
  const moe::RouteCall& call;
  std::atomic<std::int64_t> next{0};
};

void run_task(void* context, std::int64_t) {
  auto& job = *static_cast<Job*>(context);
  const DefaultFloatingEnvironment environment;
  const moe::RoutePlan& plan = job.plan;
  const std::int64_t blocks = blocks_of(plan);
  for (;;) {
    const std::int64_t block = job.next.fetch_add(1, std::memory_order_relaxed);
    if (block >= blocks) return;
    const std::int64_t first = block * plan.rows_per_worker;
    core::route_rows(plan.problem, job.call, first, first + std::min(plan.rows_per_worker, plan.problem.rows - first));
  }
}

}  // namespace

void make_plan(const moe::Route& problem, const Traits& traits, moe::RoutePlan& plan) noexcept {
  moe::RoutePlan made{.problem = problem};
  made.rows_per_worker = std::max<std::int64_t>(kElementsPerBlock / problem.experts, 1);
  const std::int64_t blocks = std::max<std::int64_t>(blocks_of(made), 1);
  made.threads = static_cast<std::int32_t>(std::min<std::int64_t>(traits.threads, blocks));
  plan = made;
}

Status check_plan(const moe::RoutePlan& plan) noexcept {
  const bool of_cpu = plan.blocks == 1 && plan.shared_bytes == 0 && plan.workspace_bytes == 0;
  if (plan.threads >= 1 && plan.rows_per_worker >= 1 && of_cpu) return {};
  return core::status(StatusCode::invalid_argument,
                      "plan.threads is %d and rows_per_worker %lld; accepted: 1 or more, with one block and no shared "
                      "memory or workspace",
                      plan.threads, static_cast<long long>(plan.rows_per_worker));
}

void run(const moe::RoutePlan& plan, const moe::RouteCall& call, const Executor* executor) noexcept {
  Job job{plan, call};
  run_tasks(executor, tasks_for(plan.threads, blocks_of(plan), 1), run_task, &job);
}

}  // namespace rtopk::cpu
