// Reads the CPU quota of cgroups, version 1 and 2.
#include "cpu/runtime/cpu_quota.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

namespace rtopk::cpu {
namespace {

/// The first 64 KiB of a file; empty if it cannot be read. Files in /proc and /sys report no size.
std::string content_of(const std::string& path) {
  std::string text;
  std::FILE* const file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return text;
  text.resize(std::size_t{1} << 16);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

/// A quota in microseconds per period, as CPUs rounded up; 0 if there is no quota.
int whole_cpus(std::int64_t quota, std::int64_t period) {
  if (quota <= 0 || period <= 0) return 0;
  const std::int64_t cpus = quota / period + (quota % period != 0 ? 1 : 0);
  return static_cast<int>(std::min<std::int64_t>(cpus, std::numeric_limits<int>::max()));
}

/// The smaller quota; 0 means none.
int stricter(int a, int b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

/// Quota of one cgroup. Version 2: "max 100000" or "150000 100000" in one file. Version 1: two files, -1 for no quota.
int quota_in(const std::string& folder) {
  const std::string unified = content_of(folder + "/cpu.max");
  char* rest = nullptr;
  const std::int64_t quota = std::strtoll(unified.c_str(), &rest, 10);  // 0 for "max"
  if (!unified.empty()) return whole_cpus(quota, std::strtoll(rest, nullptr, 10));
  return whole_cpus(std::strtoll(content_of(folder + "/cpu.cfs_quota_us").c_str(), nullptr, 10),
                    std::strtoll(content_of(folder + "/cpu.cfs_period_us").c_str(), nullptr, 10));
}

/// The smallest quota of the cgroup at `path` and of all cgroups above it, up to the mount point of the hierarchy. In a
/// container, the mount point may be the cgroup itself, and the path one of the host, which does not exist here.
int strictest(const std::string& mounted, std::string_view path) {
  int found = quota_in(mounted);
  if (path.find("..") != std::string_view::npos) return found;  // outside the mounted hierarchy
  for (std::size_t end = path.size(); end != std::string_view::npos && end > 0; end = path.rfind('/', end - 1)) {
    found = stricter(found, quota_in(mounted + std::string(path.substr(0, end))));
  }
  return found;
}

bool has_cpu(std::string_view controllers) {
  while (!controllers.empty()) {
    const std::size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == "cpu") return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

int quota_below(const std::string& root) {
  const std::string mounts = root + "/sys/fs/cgroup";
  const std::string groups = content_of(root + "/proc/self/cgroup");
  int found = 0;
  // Lines like "0::/path" (version 2) and "4:cpu,cpuacct:/path" (version 1).
  for (std::string_view left = groups; !left.empty();) {
    const std::size_t length = std::min(left.find('\n'), left.size());
    const std::string_view line = left.substr(0, length);
    left.remove_prefix(std::min(length + 1, left.size()));
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string_view path = line.substr(second + 1);
    if (path == "/") path = {};
    if (controllers.empty()) {
      found = stricter(found, strictest(mounts, path));
    } else if (has_cpu(controllers)) {
      for (const char* name : {"/cpu", "/cpu,cpuacct", "/cpuacct,cpu"}) {
        found = stricter(found, strictest(mounts + name, path));
      }
    }
  }
  return found;
}

}  // namespace

int cpu_quota(const char* root) noexcept {
  try {
    return quota_below(root);
  } catch (...) {
    return 0;  // out of memory
  }
}

}  // namespace rtopk::cpu
