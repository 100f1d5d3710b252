#include "runner.hpp"

#include <cstdio>
#include <cstdlib>
#include <sstream>

#if defined(RTOPK_TEST_HIGHWAY)
#include <hwy/highway.h>
#endif

#include "guarded_buffer.hpp"
#if defined(RTOPK_TEST_CUDA)
#include "cuda_runner.hpp"
#endif

namespace rtopk_test {
namespace {

std::string refused(const char* what, const rtopk::Status& status) {
  return std::string(what) + " returned status " + std::to_string(static_cast<int>(status.code())) + ": " +
         status.text();
}

/// Runs a plan that was made for host memory.
std::string run_on_host(const rtopk::Plan& plan, const Call& call) {
  GuardedBuffer workspace(plan.workspace_bytes, call.workspace_misalignment);
  workspace.fill(std::byte{0x5a});  // whoever relies on zeros here is wrong
  rtopk::Output output;
  output.values = call.values.data();
  output.indices = call.indices.data();
  output.dense = call.dense.data();
  output.mask = reinterpret_cast<std::uint8_t*>(call.mask.data());
  output.passes = reinterpret_cast<std::int32_t*>(call.passes.data());
  rtopk::Launch launch;
  launch.executor = call.executor;
  const rtopk::Status status =
      rtopk::run(plan, call.input.data(), output, {workspace.data(), workspace.size()}, launch);
  if (!status.ok()) return refused("run", status);
  const std::string damage = workspace.damage();
  return damage.empty() ? "" : "workspace: " + damage;
}

class ReferenceRunner final : public Runner {
 public:
  [[nodiscard]] std::string name() const override { return "reference"; }
  [[nodiscard]] bool unsorted_is_ascending() const override { return true; }
  void activate() const override {}
  [[nodiscard]] std::string run(const Call& call) const override {
    rtopk::Plan plan;
    const rtopk::Status status = rtopk::make_reference_plan(call.problem, plan);
    return status.ok() ? run_on_host(plan, call) : refused("make_reference_plan", status);
  }
};

/// Takes another one of the families that can do the same exact selections, which make_plan chooses between by their speed.
void take_other_family(rtopk::Plan& plan) {
  if (plan.family == rtopk::Family::cpu_stream || plan.family == rtopk::Family::cpu_lanes) {
    plan.family = rtopk::Family::cpu_row;
    plan.scratch_bytes += static_cast<std::size_t>(plan.problem.cols) * 16 + 32768;
  } else if (plan.family == rtopk::Family::cpu_row) {
    // The numbers of a streamed problem with the same k and longer rows are enough for this one.
    rtopk::Problem longer = plan.problem;
    longer.rows = 1;
    longer.cols += 64 * longer.k;
    longer.row_stride = longer.element_stride = longer.group_rows = longer.group_stride = 0;
    if (longer.form == rtopk::Form::cbsr) {
      longer.form = rtopk::Form::pairs;
      longer.index_type = rtopk::IndexType::i64;
    }
    rtopk::Plan streamed;
    if (!rtopk::make_plan(longer, rtopk::Traits{}, streamed).ok()) return;
    if (streamed.family != rtopk::Family::cpu_stream) return;
    plan.family = streamed.family;
    plan.candidate_capacity = streamed.candidate_capacity;
    plan.scratch_bytes += streamed.scratch_bytes;  // rows may be copied there as well
  }
}

/// Whether cpu_lanes can run the problem; it has no more than 256 columns.
bool fits_lanes(const rtopk::Problem& problem) {
  return problem.cols <= 256 && problem.max_iter == 0 && problem.epsilon == 0 && problem.search == rtopk::Search::fast;
}

/// Takes cpu_lanes, whatever make_plan thinks of its speed.
void take_lanes(rtopk::Plan& plan) {
  plan.family = rtopk::Family::cpu_lanes;
  plan.scratch_bytes += static_cast<std::size_t>(plan.problem.cols) * 2048 + 8192;
}

class CpuRunner final : public Runner {
 public:
  enum class Way : std::uint8_t { as_planned, other_family, in_lanes };

  /// `target` is Highway's bit of the instruction set; 0 leaves the choice to the library.
  CpuRunner(std::string target_name, std::int64_t target, Way way)
      : target_name_(std::move(target_name)), target_(target), way_(way) {}

  [[nodiscard]] std::string name() const override {
    constexpr const char* kWays[] = {"", ", the other family", ", in lanes"};
    return "cpu " + target_name_ + kWays[static_cast<int>(way_)];
  }
  [[nodiscard]] bool takes(const rtopk::Problem& problem) const override {
    return way_ != Way::in_lanes || fits_lanes(problem);
  }
  [[nodiscard]] bool unsorted_is_ascending() const override { return true; }

  void activate() const override {
#if defined(RTOPK_TEST_HIGHWAY)
    if (target_ == 0) return;
    hwy::SetSupportedTargetsForTest(target_);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    if (rtopk::build_info().cpu_target != target_name_) {
      // Going on would test one instruction set several times and the others never.
      std::fprintf(stderr, "cannot switch the library to %s: it runs %s\n", target_name_.c_str(),
                   rtopk::build_info().cpu_target);
      std::abort();
    }
#endif
  }

  [[nodiscard]] std::string run(const Call& call) const override {
    rtopk::Traits traits;
    traits.threads = call.threads;
    rtopk::Plan plan;
    const rtopk::Status status = rtopk::make_plan(call.problem, traits, plan);
    if (!status.ok()) return refused("make_plan", status);
    if (way_ == Way::other_family) take_other_family(plan);
    if (way_ == Way::in_lanes && fits_lanes(call.problem)) take_lanes(plan);
    if (plan.threads < call.threads) {
      // The plan thinks that so few elements are not worth so many threads.
      plan.threads = call.threads;
      plan.rows_per_block = 1;
    }
    plan.workspace_bytes = static_cast<std::size_t>(plan.threads) * plan.scratch_bytes;
    return run_on_host(plan, call);
  }

 private:
  std::string target_name_;
  std::int64_t target_;
  Way way_;
};

std::vector<std::unique_ptr<Runner>> make_host_runners() {
  std::vector<std::unique_ptr<Runner>> all;
  all.push_back(std::make_unique<ReferenceRunner>());
#if defined(RTOPK_TEST_HIGHWAY)
  std::istringstream names(rtopk::build_info().cpu_targets);
  for (std::string name; names >> name;) {
    for (std::int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
      const std::int64_t target = rest & -rest;
      if (name != hwy::TargetName(target)) continue;
      for (const auto way : {CpuRunner::Way::as_planned, CpuRunner::Way::other_family, CpuRunner::Way::in_lanes}) {
        all.push_back(std::make_unique<CpuRunner>(name, target, way));
      }
    }
  }
#endif
  if (all.size() == 1) {
    all.push_back(std::make_unique<CpuRunner>(rtopk::build_info().cpu_target, 0, CpuRunner::Way::as_planned));
  }
  return all;
}

std::vector<std::unique_ptr<Runner>> make_runners() {
  std::vector<std::unique_ptr<Runner>> all = make_host_runners();
#if defined(RTOPK_TEST_CUDA)
  add_cuda_runners(all);
#endif
  const char* wanted = std::getenv("RTOPK_TEST_RUNNERS");
  if (wanted == nullptr) return all;
  std::erase_if(all, [wanted](const auto& runner) { return runner->name().rfind(wanted, 0) != 0; });
  if (all.empty()) {
    // Every test would pass.
    std::fprintf(stderr, "RTOPK_TEST_RUNNERS=%s: there is no such runner in this build on this machine\n", wanted);
    std::abort();
  }
  return all;
}

std::vector<const Runner*> pointers_to(const std::vector<std::unique_ptr<Runner>>& all) {
  std::vector<const Runner*> pointers;
  for (const auto& runner : all) pointers.push_back(runner.get());
  return pointers;
}

}  // namespace

std::string run_plan(const rtopk::Plan& plan, const Call& call) {
#if defined(RTOPK_TEST_CUDA)
  if (plan.problem.device.kind == rtopk::DeviceKind::cuda) return run_on_cuda(plan, call);
#endif
  return run_on_host(plan, call);
}

const std::vector<std::unique_ptr<Runner>>& runners() {
  static const auto all = make_runners();
  return all;
}

const std::vector<const Runner*>& host_runners() {
  static const auto all = make_host_runners();
  static const auto pointers = pointers_to(all);
  return pointers;
}

}  // namespace rtopk_test
