// The number of CPUs that this process may use.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "cpu/backend.hpp"
#include "cpu/runtime/cpu_quota.hpp"

namespace rtopk::cpu {
namespace {

/// CPUs in the affinity mask of this process.
int allowed_cpus() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  return static_cast<int>(std::thread::hardware_concurrency());
}

/// The CPU quota, read once per process: reading takes about 20 us, and every plan needs it. Several threads may read
/// it at the same time. An initialised static would have a lock, which a forked child could inherit while it is held.
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
