// The runners of this machine.
#include "runner.hpp"

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string_view>

#if defined(RTOPK_TEST_HIGHWAY)
#include <hwy/highway.h>
#endif

#include "guarded_buffer.hpp"
#include "oracle.hpp"
#if defined(RTOPK_TEST_CUDA)
#include "cuda_runner.hpp"
#endif

namespace rtopk_test {
namespace {

std::string refused(const char* what, const rtopk::Status& status) {
  return std::string(what) + " returned status " + std::to_string(static_cast<int>(status.code())) + ": " +
         status.text();
}

/// Runs a plan for the CPU with a workspace, then the next call.
std::string run_on_host(const rtopk::Plan& plan, const Call& call, GuardedBuffer& workspace) {
  rtopk::Output output;
  output.values = call.values.data();
  output.indices = call.indices.data();
  output.dense = call.dense.data();
  output.mask = reinterpret_cast<std::uint8_t*>(call.mask.data());
  output.passes = reinterpret_cast<std::int32_t*>(call.passes.data());
  output.thresholds = call.thresholds.data();
  const rtopk::RowArrays arrays{call.lengths.data(), call.starts.data(), call.offsets.data(),
                                call.row_k.data(),   call.map.data(),    call.table_of.data()};
  rtopk::Launch launch;
  launch.executor = call.executor;
  const rtopk::Status status =
      rtopk::run(plan, call.input.data(), output, {workspace.data(), workspace.size()}, launch, arrays);
  if (!status.ok()) return refused("run", status);
  const std::string damage = workspace.damage();
  if (!damage.empty()) return "workspace: " + damage;
  return call.next == nullptr ? "" : run_on_host(plan, *call.next, workspace);
}

std::string run_on_host(const rtopk::Plan& plan, const Call& call) {
  GuardedBuffer workspace(plan.workspace_bytes, call.workspace_misalignment);
  workspace.fill(call.workspace_fill);
  return run_on_host(plan, call, workspace);
}

class ReferenceRunner final : public Runner {
 public:
  [[nodiscard]] std::string name() const override { return "reference"; }
  [[nodiscard]] bool unsorted_is_ascending() const override { return true; }
  void activate() const override {}
  [[nodiscard]] std::string run(const Call& call) const override {
    rtopk::Plan plan;
    const rtopk::Status status = rtopk::make_plan(call.problem, rtopk::Traits{}, rtopk::Family::reference, plan);
    return status.ok() ? run_on_host(plan, call) : refused("make_plan", status);
  }
};

/// One instruction set, with the family that make_plan picks or a given one, and with rows whole or in parts.
class CpuRunner final : public Runner {
 public:
  /// `target` is Highway's bit of the instruction set. With 0 the library chooses.
  CpuRunner(std::string target_name, std::int64_t target, std::optional<rtopk::Family> family, std::int64_t parts = 0)
      : target_name_(std::move(target_name)), target_(target), family_(family), parts_(parts) {}

  [[nodiscard]] std::string name() const override {
    return "cpu " + target_name_ + (family_ ? std::string(", ") + rtopk::name(*family_) : "") +
           (parts_ > 0 ? ", in parts" : "");
  }
  [[nodiscard]] bool takes(const rtopk::Problem& problem) const override {
    if (parts_ > 0) return takes_parts(problem);
    return !family_ || is_another_family(problem, rtopk::Traits{}, *family_);
  }
  [[nodiscard]] bool unsorted_is_ascending() const override { return true; }

  void activate() const override {
#if defined(RTOPK_TEST_HIGHWAY)
    if (target_ == 0) return;
    hwy::SetSupportedTargetsForTest(target_);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    if (rtopk::build_info().cpu_target != target_name_) {
      // Otherwise the tests would cover one instruction set several times and the others never.
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
    const rtopk::Status status =
        family_ ? rtopk::make_plan(call.problem, traits, *family_, plan) : rtopk::make_plan(call.problem, traits, plan);
    if (!status.ok()) return refused("make_plan", status);
    if (plan.threads < call.threads && plan.parts == 0) {
      // make_plan uses fewer threads for so few elements.
      plan.threads = call.threads;
      plan.rows_per_block = 1;
    }
    if (parts_ > 0 && plan.parts == 0) {
      // make_plan splits only rows of which there are few, and long ones. More memory than needed: what a plan in parts
      // needs is for make_plan to know.
      plan.parts = parts_;
      const auto candidates = static_cast<std::size_t>(call.problem.rows * (call.problem.k + 1) * parts_);
      plan.workspace_bytes =
          static_cast<std::size_t>(plan.threads) * plan.scratch_bytes + 64 * candidates + (std::size_t{1} << 20);
    } else if (plan.parts == 0) {
      plan.workspace_bytes = static_cast<std::size_t>(plan.threads) * plan.scratch_bytes;
    }
    return run_on_host(plan, call);
  }

 private:
  [[nodiscard]] bool takes_parts(const rtopk::Problem& problem) const {
    const bool exact = problem.max_iter == 0 && problem.epsilon == 0 && problem.search == rtopk::Search::fast;
    return exact && problem.ragged == rtopk::Ragged{} && problem.form == rtopk::Form::pairs && !problem.passes &&
           problem.element_stride <= 1 && problem.rows > 0 && parts_ <= problem.cols / problem.k;
  }

  std::string target_name_;
  [[maybe_unused]] std::int64_t target_;  // not used without Highway
  std::optional<rtopk::Family> family_;
  std::int64_t parts_;
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
      all.push_back(std::make_unique<CpuRunner>(name, target, std::nullopt));
      all.push_back(std::make_unique<CpuRunner>(name, target, std::nullopt, 3));
      for (const rtopk::Family family : families_of(rtopk::DeviceKind::cpu)) {
        all.push_back(std::make_unique<CpuRunner>(name, target, family));
      }
    }
  }
#endif
  if (all.size() == 1) {
    all.push_back(std::make_unique<CpuRunner>(rtopk::build_info().cpu_target, 0, std::nullopt));
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
    // Without runners, every test would pass.
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

std::vector<rtopk::Family> families_of(rtopk::DeviceKind device) {
  const std::string prefix = std::string(rtopk::name(device)) + "_";
  std::vector<rtopk::Family> families;
  for (int i = 0;; ++i) {
    const auto family = static_cast<rtopk::Family>(i);
    const std::string_view name = rtopk::name(family);
    if (name == "?") return families;  // behind the last enumerator
    if (name.starts_with(prefix)) families.push_back(family);
  }
}

bool is_another_family(const rtopk::Problem& problem, const rtopk::Traits& traits, rtopk::Family family) {
  rtopk::Plan plan;
  if (!rtopk::make_plan(problem, traits, plan).ok() || plan.family == family) return false;
  return rtopk::make_plan(problem, traits, family, plan).ok();
}

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
