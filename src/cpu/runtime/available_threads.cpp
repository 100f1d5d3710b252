#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "cpu/backend.hpp"
#include "cpu/runtime/cpu_quota.hpp"

namespace rtopk::cpu {
namespace {

/// CPUs that the process may run on.
int allowed_cpus() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  return static_cast<int>(std::thread::hardware_concurrency());
}

/// Read once: it takes some 20 us, and is asked for with every plan. Several threads may read it at the same time; a static that
/// is initialised here would have a lock, which a child could inherit from its parent.
int quota_of_process() {
  constexpr int kUnknown = -1;
  static std::atomic<int> known{kUnknown};
  int quota = known.load(std::memory_order_relaxed);
  if (quota == kUnknown) {
    quota = cpu_quota("");
    known.store(quota, std::memory_order_relaxed);
  }
  return quota;
}

}  // namespace

int available_threads() noexcept {
  const int allowed = allowed_cpus();
  const int quota = quota_of_process();
  return std::max(1, quota > 0 ? std::min(quota, allowed) : allowed);
}

}  // namespace rtopk::cpu
