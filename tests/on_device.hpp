// Fixture for tests that run on every device of this machine.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include <rtopk/select.hpp>

#include "device_memory.hpp"
#include "encoding.hpp"

namespace rtopk_test {

class OnDevice : public testing::TestWithParam<rtopk::DeviceKind> {
 protected:
  void SetUp() override {
    if (!is_here(GetParam())) GTEST_SKIP() << "no such device";
  }

  [[nodiscard]] static std::unique_ptr<DeviceMemory> memory(const Bytes& content, std::size_t misalignment = 0) {
    return DeviceMemory::make(GetParam(), content, misalignment);
  }

  /// A plan for this device. `threads` is for the CPU.
  template <class Plan, class Problem>
  [[nodiscard]] static Plan plan_of(Problem problem, std::int32_t threads) {
    problem.device.kind = GetParam();
    rtopk::Traits traits;
    EXPECT_TRUE(rtopk::query_traits(problem.device, traits).ok());
    traits.threads = threads;
    Plan plan;
    const rtopk::Status status = make_plan(problem, traits, plan);
    EXPECT_TRUE(status.ok()) << status.text();
    return plan;
  }
};

/// For INSTANTIATE_TEST_SUITE_P: the devices, and their names in test names.
inline const auto kDevices = testing::Values(rtopk::DeviceKind::cpu, rtopk::DeviceKind::cuda);
inline std::string device_name(const testing::TestParamInfo<rtopk::DeviceKind>& device) {
  return device.param == rtopk::DeviceKind::cpu ? "Cpu" : "Cuda";
}

}  // namespace rtopk_test
