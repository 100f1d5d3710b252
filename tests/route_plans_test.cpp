// Plans of expert routing, for GPUs that need not exist here, and what make_plan and run refuse.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <rtopk/moe/route.hpp>
#include <rtopk/rtopk.hpp>

#include "refusals.hpp"

namespace rtopk_test {

namespace moe = rtopk::moe;
namespace {

using moe::Score;
using rtopk::DType;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(RoutePlans, FitGpusThatAreNotHere) {
  const rtopk::Traits traits{.device = {rtopk::DeviceKind::cuda, 0},
                             .compute_capability = 80,
                             .multiprocessors = 132,
                             .shared_bytes_per_block = 99 * 1024};
  for (const std::int64_t rows : {std::int64_t{0}, std::int64_t{1}, std::int64_t{65536}, std::int64_t{1} << 40}) {
    for (const std::int64_t experts : {1, 8, 256, 1024}) {
      moe::RoutePlan plan;
      const rtopk::Status status = moe::make_plan(
          {.rows = rows, .experts = experts, .k = 1, .groups = experts, .device = traits.device}, traits, plan);
      ASSERT_TRUE(status.ok()) << status.text();
      EXPECT_LE(plan.shared_bytes, static_cast<std::size_t>(48 * 1024));
      EXPECT_EQ(plan.workspace_bytes, 0u);
      EXPECT_EQ(plan.rows_per_worker, experts == 1 ? 32 : rows >= 65536 ? 4 : 1);
      EXPECT_GE(plan.blocks, 1);
      if (rows > 0) {
        EXPECT_NE(std::string(moe::run(plan, {}).text()).find("is null"), std::string::npos);
      }
    }
  }
}

TEST(RoutePlans, GiveManyRowsToLanesAndOctets) {
  const rtopk::Traits traits{.device = {rtopk::DeviceKind::cuda, 0}, .compute_capability = 90, .multiprocessors = 132};
  const moe::Route deepseek{.rows = 65536,
                            .experts = 256,
                            .k = 8,
                            .groups = 8,
                            .group_k = 4,
                            .dtype = DType::bf16,
                            .score = Score::sigmoid,
                            .biased = true,
                            .device = traits.device};
  const auto rows_of_a_warp = [&](auto change) {
    moe::Route p = deepseek;
    change(p);
    moe::RoutePlan plan;
    EXPECT_TRUE(moe::make_plan(p, traits, plan).ok());
    // What may not be given to lanes is refused.
    moe::RoutePlan lanes = plan;
    if (plan.rows_per_worker != 32) {
      lanes.rows_per_worker = 32;
      EXPECT_NE(std::string(moe::run(lanes, {}).text()).find("plan."), std::string::npos);
    }
    return plan.rows_per_worker;
  };
  EXPECT_EQ(rows_of_a_warp([](moe::Route&) {}), 16);
  EXPECT_EQ(rows_of_a_warp([](moe::Route& p) { p.rows = 20'000; }), 8);
  EXPECT_EQ(rows_of_a_warp([](moe::Route& p) { p.rows = 8192; }), 1);
  EXPECT_EQ(rows_of_a_warp([](moe::Route& p) { p.k = 9; }), 2);
  EXPECT_EQ(rows_of_a_warp([](moe::Route& p) { p.group_k = 5; }), 16);
  EXPECT_EQ(rows_of_a_warp([](moe::Route& p) { p.groups = 16; }), 4);
  EXPECT_EQ(rows_of_a_warp([](moe::Route& p) { p.biased = false; }), 4);
  EXPECT_EQ(rows_of_a_warp([](moe::Route& p) { p.score = Score::softmax; }), 4);
  EXPECT_EQ(rows_of_a_warp([](moe::Route& p) { p.dtype = DType::f32; }), 16);
  const auto one_group = [](moe::Route& p) { p.groups = p.group_k = 1; };
  EXPECT_EQ(rows_of_a_warp([&](moe::Route& p) { one_group(p), p.experts = 512; }), 16);
  EXPECT_EQ(rows_of_a_warp([&](moe::Route& p) { one_group(p), p.experts = 504; }), 32);
  EXPECT_EQ(rows_of_a_warp([&](moe::Route& p) { p.groups = p.group_k = 4; }), 32);
  EXPECT_EQ(rows_of_a_warp([&](moe::Route& p) { one_group(p), p.experts = 128, p.score = Score::softmax; }), 4);
  EXPECT_EQ(rows_of_a_warp([&](moe::Route& p) {
              one_group(p), p.experts = 128, p.score = Score::softmax, p.biased = false, p.dtype = DType::f32;
            }),
            16);
  EXPECT_EQ(rows_of_a_warp([&](moe::Route& p) { one_group(p), p.experts = 520; }), 4);
  EXPECT_EQ(rows_of_a_warp([&](moe::Route& p) { one_group(p), p.experts = 56; }), 32);
  EXPECT_EQ(rows_of_a_warp([&](moe::Route& p) { one_group(p), p.experts = 60; }), 4);
}

TEST(RouteRefusals, NameTheArgument) {
  const auto refused = [](const char* what, auto change) {
    moe::Route problem{.rows = 2, .experts = 16, .k = 2, .groups = 4, .group_k = 2};
    change(problem);
    moe::RoutePlan plan;
    expect_refused(moe::make_plan(problem, rtopk::Traits{.device = problem.device}, plan), what);
    // Nor does run() take a plan that was changed afterwards.
    plan.problem = problem;
    expect_refused(moe::run(plan, {}), what);
  };
  using moe::Route;
  refused("rows is -1", [](Route& p) { p.rows = -1; });
  refused("experts is 0", [](Route& p) { p.experts = 0; });
  refused("experts is 1025", [](Route& p) { p.experts = 1025; });
  refused("groups is 3", [](Route& p) { p.groups = 3; });
  refused("groups is 0", [](Route& p) { p.groups = 0; });
  refused("groups is 17", [](Route& p) { p.groups = 17; });
  refused("group_k is 5", [](Route& p) { p.group_k = 5; });
  refused("group_k is 0", [](Route& p) { p.group_k = 0; });
  refused("k is 0", [](Route& p) { p.k = 0; });
  refused("k is 9", [](Route& p) { p.k = 9; });
  refused("k is 33", [](Route& p) {
    p.experts = 1024;
    p.k = 33;
  });
  refused("dtype is", [](Route& p) { p.dtype = DType::f64; });
  refused("score is 3", [](Route& p) { p.score = static_cast<Score>(3); });
  refused("scale is inf", [](Route& p) { p.scale = kInfinity; });
  refused("scale is nan", [](Route& p) { p.scale = kNan; });
}

TEST(RouteRefusals, OfMemory) {
  std::vector<float> logits(32);
  std::vector<float> weights(4);
  std::vector<std::int32_t> ids(4);
  moe::RoutePlan plan;
  ASSERT_TRUE(moe::make_plan({.rows = 2, .experts = 16, .k = 2, .biased = true}, plan).ok());
  const auto refused = [&](const char* what, auto change) {
    moe::RouteCall call{.logits = logits.data(), .bias = logits.data(), .weights = weights.data(), .ids = ids.data()};
    change(call);
    const std::string text = moe::run(plan, call).text();
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  refused("logits is null", [](moe::RouteCall& c) { c.logits = nullptr; });
  refused("bias is null", [](moe::RouteCall& c) { c.bias = nullptr; });
  refused("weights is null", [](moe::RouteCall& c) { c.weights = nullptr; });
  refused("ids is null", [](moe::RouteCall& c) { c.ids = nullptr; });
  refused("weights", [&](moe::RouteCall& c) { c.weights = logits.data(); });
  plan.threads = 0;
  expect_refused(moe::run(plan, {}), "plan.threads is 0");
}

}  // namespace
}  // namespace rtopk_test
