// The CPU quota that cgroups give a process, for example in a container.
#pragma once

namespace rtopk::cpu {

/// CPUs that the process may use by the quota of its cgroup and of the cgroups above it, rounded up; 0 if there is no
/// quota. Tests pass a `root`, which is prepended to /proc and /sys; otherwise it is empty.
[[nodiscard]] int cpu_quota(const char* root) noexcept;

}  // namespace rtopk::cpu
