// Segments of a flat input with more than 2^32 elements. All of it is zero except for a few segments. An offset without
// its upper bits would lead to zeros.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "encoding.hpp"
#include "large_memory.hpp"
#include "on_device.hpp"

namespace rtopk_test {
namespace {

using Indices = std::vector<std::int64_t>;

class RowSizes : public OnDevice {
 protected:
  void select_from_segments(std::int64_t cols) const;
};

/// Selects from segments of `cols` elements, which begin where offsets need ever more bits.
void RowSizes::select_from_segments(std::int64_t cols) const {
  // Where elements, and their bytes, need more than 31 or 32 bits.
  const Indices firsts = {7, (std::int64_t{1} << 30) + 1, (std::int64_t{1} << 31) - 3, (std::int64_t{1} << 32) + 5};
  const std::int64_t elements = firsts.back() + cols;
  const auto flat = LargeMemory::zeros(GetParam(), elements * 4);
  const auto ids = LargeMemory::zeros(GetParam(), elements * 8);
  if (flat == nullptr || ids == nullptr) GTEST_SKIP() << "there is not so much memory";
  Indices offsets;
  Indices expected;
  Indices expected_ids;
  std::vector<float> expected_values;
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    const std::int64_t first = firsts[i];
    const auto best = static_cast<float>(i + 2);
    flat->write(first * 4, encode(std::vector<float>{1, best}, rtopk::DType::f32));
    flat->write((first + cols - 1) * 4, encode(std::vector<float>{best + 1}, rtopk::DType::f32));
    ids->write((first + cols - 1) * 8, encode(Indices{std::int64_t{1} << (40 + i)}, rtopk::ArrayType::i64));
    offsets.push_back(first);
    offsets.push_back(first + cols);
    // Between the segments there are others, whose first cols elements count: zeros, of which the first are taken.
    const bool last = i + 1 == firsts.size();
    for (const std::int64_t index : {first + cols - 1, first + 1}) expected.push_back(index);
    for (const std::int64_t id : {std::int64_t{1} << (40 + i), std::int64_t{0}}) expected_ids.push_back(id);
    for (const float value : {best + 1, best}) expected_values.push_back(value);
    if (last) continue;
    for (const std::int64_t index : {first + cols, first + cols + 1}) expected.push_back(index);
    for (int j = 0; j < 2; ++j) {
      expected_ids.push_back(0);
      expected_values.push_back(0);
    }
  }
  rtopk::Problem problem;
  problem.rows = std::ssize(offsets) - 1;
  problem.cols = cols;
  problem.k = 2;
  problem.order = rtopk::Order::by_value;
  problem.ragged = {.offsets = rtopk::ArrayType::i64, .elements = elements};
  const auto in_memory = memory(encode(offsets, rtopk::ArrayType::i64));
  const auto values = memory(Bytes(expected_values.size() * 4));
  const auto indices = memory(Bytes(expected.size() * 8));
  for (const bool with_ids : {false, true}) {
    if (with_ids) problem.index_map = {.kind = rtopk::IndexKind::ids, .type = rtopk::ArrayType::i64};
    const auto plan = plan_of<rtopk::Plan>(problem, 2);
    const auto workspace = memory(Bytes(plan.workspace_bytes));
    rtopk::RowArrays arrays;
    arrays.offsets = in_memory->data();
    arrays.map = ids->data();
    const rtopk::Status status = rtopk::run(plan, flat->data(), {.values = values->data(), .indices = indices->data()},
                                            {workspace->data(), plan.workspace_bytes}, {}, arrays);
    ASSERT_TRUE(status.ok()) << status.text();
    EXPECT_EQ(decode(values->content(), rtopk::DType::f32), expected_values);
    EXPECT_EQ(decode(indices->content(), rtopk::IndexType::i64), with_ids ? expected_ids : expected);
    EXPECT_EQ(values->damage() + indices->damage(), "");
  }
}

TEST_P(RowSizes, OffsetsBeyond32Bits) {
  for (const std::int64_t cols : {30, 600, 5000, 100000}) {  // families for short rows, and for ever longer ones
    SCOPED_TRACE("segments of " + std::to_string(cols) + " elements");
    select_from_segments(cols);
  }
}

INSTANTIATE_TEST_SUITE_P(On, RowSizes, kDevices, device_name);

}  // namespace
}  // namespace rtopk_test
