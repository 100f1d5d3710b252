// How much of the CPUs the control groups (cgroups) of a process leave to it: what limits a container.
#pragma once

namespace rtopk::cpu {

/// CPUs that the process may use by the quota of its cgroup and of those above it, rounded up; 0 if there is no quota. `root` is
/// put in front of /proc and /sys: empty, but for tests.
[[nodiscard]] int cpu_quota(const char* root) noexcept;

}  // namespace rtopk::cpu
