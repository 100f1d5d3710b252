// Calls the kernels of a problem's element type, and reports the instruction sets of this CPU.
#include "cpu/select/simd_rows.hpp"

#include <atomic>
#include <cstdio>
#include <new>

#include "cpu/backend.hpp"
#include "cpu/runtime/floating_environment.hpp"
#include "cpu/runtime/simd_targets.hpp"
#include "cpu/select/scratch.hpp"

#include <hwy/highway.h>

namespace rtopk::cpu {
namespace {

void run(const Plan& plan, const void* input, const Output& output, std::int64_t begin, std::int64_t end,
         Scratch& scratch) {
  switch (plan.problem.dtype) {
    case DType::f32: return run_f32(plan, input, output, begin, end, scratch);
    case DType::f16: return run_f16(plan, input, output, begin, end, scratch);
    case DType::bf16: return run_bf16(plan, input, output, begin, end, scratch);
    case DType::f64: return run_f64(plan, input, output, begin, end, scratch);
    case DType::i32: return run_i32(plan, input, output, begin, end, scratch);
  }
}

}  // namespace

std::size_t simd_scratch_bytes(const Plan& plan) noexcept {
  const DefaultFloatingEnvironment environment;  // the families' constructors compute; they must raise no flags
  Scratch nothing(nullptr);
  run(plan, nullptr, Output{}, 0, 0, nothing);
  return nothing.bytes();
}

void simd_rows(const Plan& plan, const void* input, const Output& output, std::int64_t begin, std::int64_t end,
               void* memory) noexcept {
  Scratch scratch(memory);
  run(plan, input, output, begin, end, scratch);
}

// Cached: on virtual machines, every CPUID query takes tens of microseconds.
bool has_simd() noexcept {
  enum { kUnknown, kNo, kYes };
  static std::atomic<int> known{kUnknown};
  int answer = known.load(std::memory_order_relaxed);
  if (answer == kUnknown) {
    answer = (hwy::SupportedTargets() & HWY_TARGETS) != 0 ? kYes : kNo;
    known.store(answer, std::memory_order_relaxed);
  }
  return answer == kYes;
}

const char* simd_target() noexcept {
  const std::int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
  if (supported == 0) return "scalar";
  return hwy::TargetName(supported & -supported);  // the lowest bit is the best target
}

// Lock-free: an initialised static would have a lock, which a forked child could inherit while it is held.
const char* simd_targets() noexcept {
  static std::atomic<const char*> names{nullptr};
  const char* known = names.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  if (!has_simd()) return simd_target();
  constexpr std::size_t kRoom = 1024;
  char* const made = new (std::nothrow) char[kRoom]();
  if (made == nullptr) return simd_target();  // at least the one in use
  std::size_t used = 0;
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0 && used < kRoom; left &= left - 1) {
    const int written =
        std::snprintf(made + used, kRoom - used, "%s%s", used == 0 ? "" : " ", hwy::TargetName(left & -left));
    used += static_cast<std::size_t>(written);
  }
  if (names.compare_exchange_strong(known, made, std::memory_order_acq_rel)) return made;
  delete[] made;  // another thread was first
  return known;
}

}  // namespace rtopk::cpu
