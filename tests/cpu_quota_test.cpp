// The CPU quota of cgroups, read from files like those of version 1 and 2.
#include "cpu/runtime/cpu_quota.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace rtopk_test {
namespace {

/// A folder with its own /proc and /sys.
class CpuQuota : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(testing::TempDir()) /
            (std::string("rtopk_quota_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  [[nodiscard]] int quota() const { return rtopk::cpu::cpu_quota(root_.c_str()); }

  std::filesystem::path root_;
};

TEST_F(CpuQuota, IsNoneWhereThereAreNoCgroups) {
  EXPECT_EQ(quota(), 0);
  write("proc/self/cgroup", "");
  EXPECT_EQ(quota(), 0);
}

TEST_F(CpuQuota, OfVersion2IsRoundedUp) {
  write("proc/self/cgroup", "0::/\n");  // in a container
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 0);
  write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(quota(), 2);
  write("sys/fs/cgroup/cpu.max", "200001 100000\n");
  EXPECT_EQ(quota(), 3);
  write("sys/fs/cgroup/cpu.max", "1000 100000\n");
  EXPECT_EQ(quota(), 1);
}

TEST_F(CpuQuota, OfVersion2IsTheStrictestOfAllAbove) {
  write("proc/self/cgroup", "0::/user.slice/app.scope/inner\n");
  write("sys/fs/cgroup/user.slice/cpu.max", "600000 100000");
  EXPECT_EQ(quota(), 6);
  write("sys/fs/cgroup/user.slice/app.scope/cpu.max", "250000 50000");
  EXPECT_EQ(quota(), 5);
  write("sys/fs/cgroup/user.slice/app.scope/inner/cpu.max", "max 100000");
  EXPECT_EQ(quota(), 5);
  write("sys/fs/cgroup/user.slice/other/cpu.max", "100000 100000");  // not ours
  EXPECT_EQ(quota(), 5);
  write("sys/fs/cgroup/user.slice/app.scope/inner/cpu.max", "400000 100000");
  EXPECT_EQ(quota(), 4);
}

TEST_F(CpuQuota, OfVersion1) {
  write("proc/self/cgroup", "9:name=systemd:/\n4:cpuset:/a\n3:cpu,cpuacct:/docker/1234\n0::/\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0);
  // In a container: the path is the host's, and the mount point is the cgroup itself.
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
  EXPECT_EQ(quota(), 2);
  write("sys/fs/cgroup/cpu,cpuacct/docker/1234/cpu.cfs_quota_us", "50000\n");
  write("sys/fs/cgroup/cpu,cpuacct/docker/1234/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 1);
  // A separate hierarchy for the CPU.
  write("proc/self/cgroup", "3:cpu:/\n2:cpuacct:/\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "700000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  std::filesystem::remove_all(root_ / "sys/fs/cgroup/cpu,cpuacct");
  EXPECT_EQ(quota(), 7);
}

TEST_F(CpuQuota, OfFilesThatMakeNoSenseIsNone) {
  for (const char* text : {"", "\n", "100000", "100000 0", "-5 100000", "max", "x y", "99999999999999999999 1x"}) {
    write("proc/self/cgroup", "0::/\n");
    write("sys/fs/cgroup/cpu.max", text);
    EXPECT_GE(quota(), 0) << text;
  }
  write("sys/fs/cgroup/cpu.max", "100000");
  EXPECT_EQ(quota(), 0);
  for (const char* text : {"0", "0:", "::", "0::/../../elsewhere", "0::relative", "3:cpu", "3:,cpu,:/x\n\n"}) {
    write("proc/self/cgroup", text);
    EXPECT_EQ(quota(), 0) << text;
  }
}

}  // namespace
}  // namespace rtopk_test
